"""``frontier``: regret against the proven ε, with the mechanisms of the papers and with ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.experiments.figures.canvas import COLOURS, MARKERS, canvas, tidy
from discreet.experiments.figures.regret import draw_regret
from discreet.experiments.labels import rounded_up
from discreet.experiments.measures import chance, standard_error
from discreet.experiments.reproduce.experiment import LAPLACE, TREE, Experiment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from discreet.experiments.labels import Runs
    from discreet.experiments.records import Curve, RunRow

__all__ = ["EXPERIMENT", "draw", "lines"]

_TRUST = {
    "central": "joint DP: the server is trusted",
    "shuffle": "shuffle DP: a shuffler is trusted",
    "local": "local DP: nobody is trusted",
}
_NAMES = {"dp-ucbvi": "the papers' mechanism", "discreet-vi": "ours", "ucbvi": "no privacy"}


@dataclass(frozen=True)
class _Some:
    """Some of the runs of an experiment."""

    runs: Sequence[RunRow]
    whole: Runs

    def curve(self, key: str) -> Curve:
        """Returns the regret of a run."""
        return self.whole.curve(key)


def lines(results: Runs, trust: str) -> dict[tuple[str, bool], dict[float, list[float]]]:
    """Returns the regrets under a trust model, by (learner, whether pooled) and by the proven ε; ∞ is no privacy."""
    found: dict[tuple[str, bool], dict[float, list[float]]] = {}
    for row in results.runs:
        if row.config["trust"] not in (trust, "none"):
            continue
        key = (str(row.config["resolved"]["agent"]), bool(row.config["options"].get("stationary")))
        found.setdefault(key, {}).setdefault(row.epsilon, []).append(row.regret)
    return found


def draw(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the pictures as SVG and PNG; returns the SVGs by caption."""
    config = results.runs[0].config
    asked = sorted({row.asked for row in results.runs if row.asked is not None})
    one = min(asked, key=lambda epsilon: abs(np.log(epsilon)))
    written: dict[str, Path] = {}
    for trust, title in _TRUST.items():
        if not any(row.config["trust"] == trust for row in results.runs):
            continue
        deltas = sorted({row.guarantee["delta"] for row in results.runs if row.config["trust"] == trust})
        either = " or ".join(rounded_up(delta) for delta in deltas)
        caption = (
            f"{title[0].upper()}{title[1:]}. Regret after {config['episodes']:,} episodes against the ε that is "
            f"proven for the noise that was added, mean ± standard error; δ is {either}. "
            "Dotted: acting at random to the end. The noise is for simulation only."
        )
        written[caption] = _epsilons(results, trust, f"{title}\n{config['env']}; simulation only", asked, directory)
    some = [row for row in results.runs if row.config["options"].get("stationary") and row.asked in (one, None)]
    return {**written, **draw_regret(_Some(some, results), directory)}


def _epsilons(results: Runs, trust: str, title: str, ticks: list[float], directory: Path) -> Path:
    config = results.runs[0].config
    found, handles = lines(results, trust), list[Any]()
    path, gap = directory / f"frontier-{trust}.svg", chance(config["env"])
    with canvas(path) as (figure, axes):
        order = [(agent, pooled) for agent in _NAMES for pooled in (True, False)]
        for agent, pooled in order:
            by_epsilon = found.get((agent, pooled), {})
            if not by_epsilon:
                continue
            label = f"{_NAMES[agent]}, {'pooled' if pooled else 'per step'}"
            if agent == "ucbvi":
                regret = float(np.mean(by_epsilon[float("inf")]))
                dashes = "-." if pooled else (0, (6, 2))
                handles.append(axes.axhline(regret, color="#777777", label=label, ls=dashes, lw=1.2))
                continue
            epsilons = sorted(by_epsilon)
            means = [float(np.mean(by_epsilon[epsilon])) for epsilon in epsilons]
            errors = [standard_error(by_epsilon[epsilon]) for epsilon in epsilons]
            i = 1 if agent == "dp-ucbvi" else 0
            style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ls": "-" if pooled else (0, (4, 1.5))}
            if not pooled:
                style["markerfacecolor"] = "white"
            handles.append(axes.errorbar(epsilons, means, errors, ms=5, capsize=2, lw=1.5, label=label, **style))
        if gap is not None:
            never = gap * config["episodes"]
            handles.append(axes.axhline(never, label="acting at random", color="#555555", ls=(0, (1, 1.6)), lw=1.5))
        axes.set(xscale="log", yscale="log", xlabel="proven ε", ylabel=f"regret of {config['episodes']:,} people")
        tidy(axes, ticks)
        figure.suptitle(title, fontsize=9, x=0.01, ha="left")
        figure.legend(handles=handles, loc="outside lower left", frameon=False, fontsize=9, handlelength=3.2)
    return path


def _ours(epsilons: list[float], shuffled: list[bool]) -> list[dict[str, object]]:
    """Our learner under every trust model, and the one without privacy."""
    both = {"epsilon": epsilons, "stationary": [True, False]}
    return [
        {"agent": "ucbvi", "stationary": [True, False]},
        {"agent": "auto", "trust": "central", "delta": 1e-6, **both},
        {"agent": "auto", "trust": "shuffle", "delta": 1e-6, **both, "stationary": shuffled},
        {"agent": "auto", "trust": "local", **both},
    ]


def _papers(
    mechanism: dict[str, object], *, pooled: bool, epsilon: list[float], scale: float, every: int | str
) -> dict[str, object]:
    """A paper's mechanism at the bonus scale and the schedule that are best for these ε (benchmarks/frontier.py)."""
    return {**mechanism, "stationary": pooled, "epsilon": epsilon, "bonus_scale": scale, "update_every": every}


_BITS = {"agent": "dp-ucbvi", "trust": "shuffle", "sum": "binomial", "delta": 1e-6}
EXPERIMENT = Experiment(
    "frontier",
    "The frontier: what a proven ε costs with the mechanisms of the papers, and with ours",
    "RiverSwim with 6 states and horizon 20 under every trust model, with counts pooled over the steps and per step: "
    "DP-UCBVI with the noise that the papers print for each trust model, scaled to a proven ε, at its best bonus scale "
    "and update schedule; auto, which is our own learner; and UCBVI without privacy. Ours has δ = 1e-6 where a server "
    "or a shuffler is trusted, and δ = 0 where nobody is. The curves against episodes are those of pooled counts at "
    "ε = 1.",
    {
        "env": "riverswim:states=6,horizon=20",
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "setting": [
            *_ours([0.1, 0.3, 1, 3, 10], [True, False]),
            _papers(TREE, pooled=True, epsilon=[0.1, 0.3], scale=0.1, every=2000),
            _papers(TREE, pooled=True, epsilon=[1], scale=0.3, every=1000),
            _papers(TREE, pooled=True, epsilon=[3], scale=0.3, every=500),
            _papers(TREE, pooled=True, epsilon=[10], scale=0.3, every="geometric"),
            _papers(TREE, pooled=False, epsilon=[0.1, 0.3, 1, 3, 10], scale=0.3, every=2000),
            _papers(_BITS, pooled=True, epsilon=[0.1, 0.3, 1, 3], scale=0.3, every=500),
            _papers(_BITS, pooled=True, epsilon=[10], scale=0.3, every=200),
            _papers(_BITS, pooled=False, epsilon=[0.1, 0.3, 1, 3, 10], scale=0.3, every=500),
            _papers(LAPLACE, pooled=True, epsilon=[0.1, 0.3, 1], scale=0.1, every=2000),
            _papers(LAPLACE, pooled=True, epsilon=[3, 10], scale=0.3, every=200),
            _papers(LAPLACE, pooled=False, epsilon=[0.1, 0.3, 1, 3, 10], scale=0.1, every=2000),
        ],
    },
    {
        "episodes": 5_000,
        "runs": 2,
        "setting": [
            *_ours([1, 10], [True]),
            *(_papers(TREE, pooled=pooled, epsilon=[1, 10], scale=0.3, every="geometric") for pooled in (True, False)),
            _papers(_BITS, pooled=True, epsilon=[1, 10], scale=0.3, every=50),
            *(_papers(LAPLACE, pooled=pooled, epsilon=[1, 10], scale=0.1, every=200) for pooled in (True, False)),
        ],
    },
    draw,
)

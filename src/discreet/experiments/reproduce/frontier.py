"""The pictures of the experiment ``frontier``: regret against the proven ε, and the curves at one ε."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import MissingExtra
from discreet.experiments.figures.regret import COLOURS, MARKERS, draw_regret
from discreet.experiments.files import write_file
from discreet.experiments.labels import rounded_up
from discreet.experiments.measures import chance, standard_error

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtra("matplotlib", "report") from None

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from discreet.experiments.labels import Runs
    from discreet.experiments.records import Curve, RunRow

__all__ = ["draw", "lines"]

_TRUST = {
    "central": "joint DP: the server is trusted",
    "shuffle": "shuffle DP: a shuffler is trusted",
    "local": "local DP: nobody is trusted",
}
_NAMES = {"dp-ucbvi": "the papers' mechanism", "discreet-vi": "ours", "ucbvi": "no privacy"}
_SIZE = (4.2, 5.0)  # inches: text is about as large on a phone as on paper


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
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "discreet", "svg.fonttype": "path"}):
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
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.subplots()
    found, handles = lines(results, trust), list[Any]()
    order = [(agent, pooled) for agent in ("dp-ucbvi", "discreet-vi", "ucbvi") for pooled in (True, False)]
    for agent, pooled in order:
        by_epsilon = found.get((agent, pooled), {})
        if not by_epsilon:
            continue
        label = f"{_NAMES[agent]}, {'pooled' if pooled else 'per step'}"
        if agent == "ucbvi":
            regret = float(np.mean(by_epsilon[float("inf")]))
            style: dict[str, Any] = {"ls": "-." if pooled else (0, (6, 2)), "lw": 1.2}
            handles.append(axes.axhline(regret, color="#777777", label=label, **style))
            continue
        epsilons = sorted(by_epsilon)
        means = [float(np.mean(by_epsilon[epsilon])) for epsilon in epsilons]
        errors = [standard_error(by_epsilon[epsilon]) for epsilon in epsilons]
        i = 1 if agent == "dp-ucbvi" else 0
        style = {"color": COLOURS[i], "marker": MARKERS[i], "ls": "-" if pooled else (0, (4, 1.5))}
        if not pooled:
            style["markerfacecolor"] = "white"
        handles.append(axes.errorbar(epsilons, means, errors, ms=5, capsize=2, lw=1.5, label=label, **style))
    gap = chance(config["env"])
    if gap is not None:
        style = {"color": "#555555", "ls": (0, (1, 1.6)), "lw": 1.5}
        handles.append(axes.axhline(gap * config["episodes"], label="acting at random", **style))
    axes.set(xscale="log", yscale="log", xlabel="proven ε", ylabel=f"regret of {config['episodes']:,} people")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    figure.legend(handles=handles, loc="outside lower left", frameon=False, fontsize=9, handlelength=3.2)
    path = directory / f"frontier-{trust}.svg"
    for target, options in ((path, {"metadata": {"Date": None}}), (path.with_suffix(".png"), {"dpi": 200})):
        file = io.BytesIO()
        figure.savefig(file, format=target.suffix[1:], **options)
        write_file(target, file.getvalue())
    return path

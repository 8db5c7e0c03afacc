"""``pac``: PUCB on the hard class, suboptimal episodes beside the papers' bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet import envs, theory
from discreet.experiments.figures.canvas import COLOURS, MARKERS, canvas, tidy
from discreet.experiments.measures import standard_error
from discreet.experiments.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from pathlib import Path

    from discreet.experiments.labels import Runs

__all__ = ["EXPERIMENT", "counts", "draw"]


def counts(results: Runs) -> dict[float, dict[float, list[int]]]:
    """Returns the α-suboptimal episodes of every run by proven ε and by α, on the instance of that α: gap = 14α/H."""
    found: dict[float, dict[float, list[int]]] = {}
    for row in results.runs:
        _, parameters = envs.text.environment(row.config["env"])
        alpha = round(float(parameters["gap"]) * int(parameters["horizon"]) / 14, 6)
        by_alpha = found.setdefault(row.epsilon, {})
        by_alpha.setdefault(alpha, []).append(row.suboptimal[str(alpha)])
    return {epsilon: dict(sorted(by_alpha.items())) for epsilon, by_alpha in sorted(found.items())}


def draw(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the picture as SVG and PNG; returns the SVG by its caption."""
    first = results.runs[0].config
    mdp = envs.read(first["env"])
    sizes = {"states": mdp.states, "actions": mdp.actions, "horizon": mdp.horizon}
    path, ticks = directory / "pac.svg", set[float]()
    with canvas(path) as (_, axes):
        for i, (epsilon, by_alpha) in enumerate(counts(results).items()):
            alphas = np.array(list(by_alpha))
            ticks |= set(by_alpha)
            means = [float(np.mean(runs)) for runs in by_alpha.values()]
            errors = [standard_error(runs) for runs in by_alpha.values()]
            colour, marker = COLOURS[i % 7], MARKERS[i % 7]
            axes.errorbar(alphas, means, errors, color=colour, marker=marker, ms=4, label=f"measured, ε = {epsilon:g}")
            fine = np.geomspace(alphas[0], alphas[-1], 50)
            axes.plot(fine, theory.pucb_pac(**sizes, epsilon=epsilon, alpha=fine), color=colour, ls="--", lw=1)
            axes.plot(fine, theory.pac_lower(**sizes, epsilon=epsilon, alpha=fine), color=colour, ls=":", lw=1)
        axes.axhline(first["episodes"], color="#555555", lw=1, label=f"all {first['episodes']:,} episodes")
        axes.plot([], [], color="grey", ls="--", label="upper bound, constants 1")
        axes.plot([], [], color="grey", ls=":", label="lower bound, constants 1")
        axes.set_title(f"{first['agent']} on the hard class; simulation only", fontsize=9, loc="left")
        axes.set(xscale="log", yscale="log", xlabel="α", ylabel="α-suboptimal episodes")
        tidy(axes, sorted(ticks))
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(-0.1, -0.18))
    caption = (
        f"α-suboptimal episodes of {first['episodes']:,} on the instance of each α (arms 14α/H apart), mean and "
        "standard error. No count can exceed the number of episodes (grey line): near it, slopes mean nothing. Dashed "
        "the upper, dotted the lower bound, both with constants 1 and without hidden logarithms."
    )
    return {caption: path}


_ALPHAS = (0.03, 0.05, 0.08, 0.12, 0.17)  # the construction needs α ≤ H/28


def _pac_envs(alphas: tuple[float, ...]) -> list[str]:
    """The instances of the lower bound: arms that are 14α/H apart (PUCB, Section 6.2)."""
    return [f"hard:horizon=5,gap={14 * alpha / 5:.6g}" for alpha in alphas]


EXPERIMENT = Experiment(
    "pac",
    "PUCB on the hard class: suboptimal episodes beside the bounds",
    "For every α the instance of the lower bound, whose arms are 14α/H apart: how many episodes are more than α below "
    "the optimum. The bounds are drawn with constants 1 and without hidden logarithms: compare slopes, not heights.",
    {
        "env": _pac_envs(_ALPHAS),
        "agent": "pucb",
        "trust": "central",
        "epsilon": [0.3, 1, 3, 10],
        "episodes": 200_000,
        "runs": 20,
        "seed": 0,
        "stationary": True,
        "update_every": "geometric",
        "alpha": list(_ALPHAS),
    },
    {"env": _pac_envs(_ALPHAS[::2]), "epsilon": [1, 10], "episodes": 20_000, "runs": 3},
    draw,
)

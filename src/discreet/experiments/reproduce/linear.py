"""``linear``: linear mixtures; regret against episodes, and what a person costs against the dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet import envs
from discreet.experiments.figures.canvas import COLOURS, MARKERS, canvas, tidy
from discreet.experiments.figures.regret import draw_regret
from discreet.experiments.labels import group
from discreet.experiments.measures import chance_gap, standard_error
from discreet.experiments.reproduce.experiment import Experiment

if TYPE_CHECKING:
    from pathlib import Path

    from discreet.experiments.labels import Runs

__all__ = ["EXPERIMENT", "draw", "shares"]


def shares(results: Runs) -> dict[str, dict[int, list[float]]]:
    """Returns, by setting and by dimension, each run's regret as a share of that of acting at random."""
    found: dict[str, dict[int, list[float]]] = {}
    for env, settings in group(results.runs).items():
        mdp, d = envs.read(env), int(envs.text.environment(env)[1]["d"])
        gap = chance_gap(mdp)
        for setting in settings:
            runs = [row.regret / (gap * row.episodes) for row in setting.rows]
            found.setdefault(setting.label, {})[d] = runs
    return found


def draw(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the pictures as SVG and PNG; returns the SVGs by their captions."""
    path, ticks = directory / "dimension.svg", set[int]()
    with canvas(path, (5.4, 5.6)) as (figure, axes):
        for i, (label, by_d) in enumerate(shares(results).items()):
            ds = sorted(by_d)
            ticks |= set(ds)
            means = [float(np.mean(by_d[d])) for d in ds]
            errors = [standard_error(by_d[d]) for d in ds]
            style = "-" if i < 7 else "--"
            axes.errorbar(ds, means, errors, ms=4, label=label, color=COLOURS[i % 7], marker=MARKERS[i % 7], ls=style)
        axes.axhline(1.0, color="grey", ls=":", label="acting at random")
        axes.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="regret, acting at random = 1")
        tidy(axes, sorted(ticks))
        figure.legend(loc="outside lower left", frameon=False, fontsize=8)
    caption = (
        "Regret of all episodes against the dimension d of the features, as a share of what acting at random costs "
        "there; mean and standard error. Every d is another random world."
    )
    return {caption: path, **draw_regret(results, directory)}


def _linear_env(d: int) -> str:
    return f"linear_mixture:d={d}"  # 50 states, 4 actions, horizon 5, 10 successors


EXPERIMENT = Experiment(
    "linear",
    "Linear mixtures: regret against episodes and dimension, with printed noise and ours",
    "Random mixtures of d known kernels over 50 states (4 actions, horizon 5), an update every 10 people (20 in "
    "a quick look): LinOpt-VI and LinOpt-PO (Zhou 2022) without privacy, with a trusted server and with nobody "
    "trusted, at ε = 10, δ = 1e-6. Printed noise is what the paper prints, labelled with the ε that it really "
    "gives: far less than was asked for. Tree is the same mechanism at a proven ε = 10; without a name it is "
    "our best sum. There is a figure for each d, and one against d.",
    {
        "env": [_linear_env(d) for d in (2, 5, 10)],
        "agent": ["linopt-vi", "linopt-po"],
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "update_every": 50,
        "setting": [
            {"trust": "none"},
            {"trust": "central", "epsilon": 10, "delta": 1e-6, "sum": "tree", "calibration": ["paper", "sound"]},
            {"trust": ["central", "local"], "epsilon": 10, "delta": 1e-6},
        ],
    },
    {
        "env": [_linear_env(d) for d in (2, 5)],
        "episodes": 1_000,
        "runs": 2,
        "update_every": 20,
    },
    draw,
)

"""The pictures of the experiment ``linear``: regret against episodes, and what a person costs against the dimension."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import envs
from discreet.errors import MissingExtra
from discreet.experiments.figures.regret import COLOURS, MARKERS, draw_regret
from discreet.experiments.files import write_file
from discreet.experiments.labels import group
from discreet.experiments.measures import chance_gap, standard_error

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtra("matplotlib", "report") from None

if TYPE_CHECKING:
    from pathlib import Path

    from discreet.experiments.labels import Runs

__all__ = ["draw", "shares"]


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
    with mpl.rc_context({"svg.hashsalt": "discreet", "svg.fonttype": "path"}):
        figure = Figure(figsize=(5.4, 5.6), layout="constrained")
        axes = figure.subplots()
        ticks: set[int] = set()
        for i, (label, by_d) in enumerate(shares(results).items()):
            ds = sorted(by_d)
            ticks |= set(ds)
            means = [float(np.mean(by_d[d])) for d in ds]
            errors = [standard_error(by_d[d]) for d in ds]
            style: dict[str, Any] = {"color": COLOURS[i % 7], "marker": MARKERS[i % 7], "ls": "-" if i < 7 else "--"}
            axes.errorbar(ds, means, errors, ms=4, label=label, **style)
        axes.axhline(1.0, color="grey", ls=":", label="acting at random")
        axes.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="regret, acting at random = 1")
        axes.set_xticks(sorted(ticks), [str(d) for d in sorted(ticks)])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower left", frameon=False, fontsize=8)
        path = directory / "dimension.svg"
        for target, options in ((path, {"metadata": {"Date": None}}), (path.with_suffix(".png"), {"dpi": 150})):
            file = io.BytesIO()
            figure.savefig(file, format=target.suffix[1:], **options)
            write_file(target, file.getvalue())
    caption = (
        "Regret of all episodes against the dimension d of the features, as a share of what acting at random costs "
        "there; mean and standard error. Every d is another random world."
    )
    return {caption: path, **draw_regret(results, directory)}

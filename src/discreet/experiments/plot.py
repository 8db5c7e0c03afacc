"""Pictures of regret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import MissingExtra

try:
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtra("matplotlib", "report") from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from discreet.experiments.simulate import Result

__all__ = ["plot_regret"]

# Okabe and Ito: distinguishable with any kind of colour vision
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def plot_regret(curves: Mapping[str, Sequence[Result]], path: Path, *, title: str = "") -> None:
    """Draws mean cumulative regret, with a band from the smallest to the largest run, one curve a label."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for colour, (label, results) in zip(_COLOURS, curves.items(), strict=False):
        regret = np.array([result.regret for result in results])
        kept = np.unique(np.linspace(0, regret.shape[1] - 1, 1000).astype(int))  # more than a picture can show
        x = kept + 1
        axes.plot(x, regret.mean(axis=0)[kept], color=colour, label=label)
        if len(results) > 1:
            axes.fill_between(x, regret.min(axis=0)[kept], regret.max(axis=0)[kept], color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="episode", ylabel="cumulative regret", title=title, ylim=(0, None), xlim=(0, None))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)

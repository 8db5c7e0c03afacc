"""The picture of the experiment ``pac``: suboptimal episodes beside the papers' bounds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import envs, theory
from discreet.errors import MissingExtra
from discreet.experiments.figures.regret import COLOURS, MARKERS, SIZE
from discreet.experiments.files import write_file
from discreet.experiments.measures import standard_error

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtra("matplotlib", "report") from None

if TYPE_CHECKING:
    from pathlib import Path

    from discreet.experiments.labels import Runs

__all__ = ["counts", "draw"]


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
    sizes: dict[str, Any] = {"states": mdp.states, "actions": mdp.actions, "horizon": mdp.horizon}
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "discreet", "svg.fonttype": "path"}):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        ticks: set[float] = set()
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
        axes.set_xticks(sorted(ticks), [f"{alpha:g}" for alpha in sorted(ticks)])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(-0.1, -0.18))
        path = directory / "pac.svg"
        for target, options in ((path, {"metadata": {"Date": None}}), (path.with_suffix(".png"), {"dpi": 200})):
            file = io.BytesIO()
            figure.savefig(file, format=target.suffix[1:], **options)
            write_file(target, file.getvalue())
    caption = (
        f"α-suboptimal episodes of {first['episodes']:,} on the instance of each α (arms 14α/H apart), mean and "
        "standard error. No count can exceed the number of episodes (grey line): near it, slopes mean nothing. Dashed "
        "the upper, dotted the lower bound, both with constants 1 and without hidden logarithms."
    )
    return {caption: path}

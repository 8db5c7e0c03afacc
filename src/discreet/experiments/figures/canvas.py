"""What all figures have in common: colours, markers, sizes, and files that are the same for the same runs."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from discreet.errors import MissingExtra
from discreet.experiments.files import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "MARKERS", "SIZE", "WIDTH", "canvas", "tidy"]

#: Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: So that curves differ in grey, too
MARKERS = ("o", "s", "^", "v", "D", "P", "X")
#: Inches: text is about as large on a phone as on paper.
WIDTH = 4.2
#: Inches of a figure with a few lines and their legend below.
SIZE = (WIDTH, 5.0)


@contextlib.contextmanager
def canvas(path: Path, size: tuple[float, float] = SIZE) -> Iterator[tuple[Figure, Axes]]:
    """Yields a figure and its axes to draw on; writes it as SVG and, beside that, as PNG when the block ends.

    Raises:
        MissingExtra: If there is no matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "report") from None
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "discreet", "svg.fonttype": "path"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.subplots()
        for target in (path, path.with_suffix(".png")):
            file = io.BytesIO()
            if target.suffix == ".svg":
                figure.savefig(file, format="svg", metadata={"Date": None})  # the same runs, the same bytes
            else:
                figure.savefig(file, format="png", dpi=200)
            write_file(target, file.getvalue())


def tidy(axes: Axes, ticks: Sequence[float] | None = None) -> None:
    """Draws a light grid instead of a box; ``ticks`` are the only ones on the x-axis."""
    if ticks is not None:
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.xaxis.minorticks_off()
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)

"""Pictures of regret: one curve a setting, labelled with what is proven for it, never with what was asked for.

A colour and a marker stand for a learner under a trust model, a line style for the ε that was asked for, and hollow
markers for printed noise. Colours are those of Okabe and Ito, distinguishable with any kind of colour vision; line
styles and markers tell the curves apart in grey print too. The same runs give the same SVG, byte for byte.
"""

from __future__ import annotations

import functools
import io
import math
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import InvalidInput, MissingExtra
from discreet.experiments.figures.canvas import COLOURS, MARKERS, WIDTH, tidy
from discreet.experiments.files import write_file
from discreet.experiments.labels import Group, group, rounded_up
from discreet.experiments.measures import chance
from discreet.privacy.guarantee import REWARDS_ONLY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from discreet.experiments.configs import RunConfig
    from discreet.experiments.labels import Runs
    from discreet.experiments.records import Curve

__all__ = ["Look", "draw_regret", "plot_regret"]

# Dots are left to acting at random. Each shows what it is within the length of a line in the legend, markers apart.
_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (4, 1.3, 1.2, 1.3)), (0, (2, 1)))
_MOST = 12  # settings in one figure
_FEW = 8  # settings that one figure can hold without being split by trust model
_POINTS = 250  # of a curve: more than a picture can show
_ABOVE = 3.0  # inches of title, axes and their labels
_LINE = 0.185  # inches of a line of the legend
_WRAP = 50  # letters of a line of the legend


def draw_regret(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the regret of all runs, one environment a figure, with linear and with logarithmic axes.

    Returns:
        The SVG files by caption; beside each is a PNG of the same name.
    """
    found = group(results.runs)
    names = _names(list(found))
    written: dict[str, Path] = {}
    for env, settings in found.items():
        gap, looks = chance(env), _looks(settings)
        for part, some in _parts(settings).items():
            title = ", ".join(filter(None, [env, part]))
            curves = [(each.label, [results.curve(row.key) for row in each.rows]) for each in some]
            note = "simulation only" if any(each.guarantee["noise"] == "fast" for each in some) else ""
            for log in (False, True):
                path = directory / ("-".join(filter(None, [names[env], _slug(part), "log" if log else ""])) + ".svg")
                shown = [looks[each.label] for each in some]
                plot_regret(curves, path, title=title, note=note, log=log, gap=gap, looks=shown)
                written[_caption(title, some, log=log, gap=gap)] = path
    return written


class Look(NamedTuple):
    """How a curve looks: numbers of its colour and marker and of its line style, and whether markers are hollow."""

    colour: int
    style: int
    hollow: bool = False


def _looks(settings: Sequence[Group]) -> dict[str, Look]:
    """Returns looks that mean something, by label: see above. If that is not enough, all that matters is to differ."""
    rows = {each.label: each.rows[0] for each in settings}
    families, asked = dict[str, int](), dict[float, int]()
    for budget in sorted({row.asked or 0.0 for row in rows.values()}, reverse=True):
        asked[budget] = len(asked) if budget else 0
    looks = {}
    for name, row in rows.items():
        family = _family(row.config)
        hollow = row.config["privacy"].get("calibration") == "paper"
        looks[name] = Look(families.setdefault(family, len(families)), asked[row.asked or 0.0], hollow)
    if len(families) > len(COLOURS) or max(asked.values()) >= len(_STYLES) or len(set(looks.values())) < len(looks):
        return {name: Look(i, i) for i, name in enumerate(rows)}
    return looks


def _parts(settings: Sequence[Group]) -> dict[str, list[Group]]:
    """Returns the settings of each figure, by what is added to the title: many are split by trust model, then anyhow.

    What has no privacy is in every figure.
    """
    trust = dict.fromkeys(each.rows[0].config["trust"] for each in settings if each.guarantee["notion"] != "none")
    if len(settings) > _FEW and len(trust) > 1:
        parts = {name: [each for each in settings if each.rows[0].config["trust"] in (name, "none")] for name in trust}
    else:
        parts = {"": list(settings)}
    found = {}
    for name, some in parts.items():
        pieces = _pieces(some)
        for i, piece in enumerate(pieces):
            number = f"{i + 1} of {len(pieces)}" if len(pieces) > 1 else ""
            found[", ".join(filter(None, [name, number]))] = piece
    return found


def _pieces(settings: list[Group]) -> list[list[Group]]:
    """Returns settings in pieces that a figure can hold; families are kept together if they can be."""
    free = [each for each in settings if each.guarantee["notion"] == "none"]
    if len(settings) <= _MOST or len(free) > _MOST // 2:
        return [settings[i : i + _MOST] for i in range(0, len(settings), _MOST)]
    families: dict[str, list[Group]] = {}
    for each in settings:
        if each.guarantee["notion"] != "none":
            families.setdefault(_family(each.rows[0].config), []).append(each)
    room, pieces = _MOST - len(free), [list[Group]()]
    for family in families.values():
        for part in (family[i : i + room] for i in range(0, len(family), room)):
            if len(pieces[-1]) + len(part) > room:
                pieces.append([])
            pieces[-1] += part
    return [[*free, *piece] for piece in pieces]


def _family(config: RunConfig) -> str:
    """Returns what settings have in common that differ in the budget and its calibration alone."""
    rest = {key: value for key, value in config["privacy"].items() if key not in ("epsilon", "delta", "calibration")}
    return repr([config["agent"], config["trust"], rest, config["options"], config["episodes"]])


def _caption(title: str, part: Sequence[Group], *, log: bool, gap: float | None) -> str:
    if log:
        return f"{title}: the same with logarithmic axes."
    guarantees = [each.guarantee for each in part if each.guarantee["notion"] != "none"]
    counts = [len(each.rows) for each in part]
    text = f"{title}: cumulative regret. "
    text += f"Mean of {_runs(counts)} runs; the band is ± one standard error. " if max(counts) > 1 else "One run each. "
    if gap is not None:
        text += "Dotted: acting at random. "
    if guarantees:
        text += "ε is the one that is proven for the noise that was added, rounded up. "
        deltas = {guarantee["delta"] for guarantee in guarantees}
        if len(deltas) == 1:
            text += f"δ = {rounded_up(max(deltas))}. "
    if any(guarantee["protects"] == "rewards" for guarantee in guarantees):
        text += f"{REWARDS_ONLY.capitalize()}. "
    if any(guarantee["noise"] == "fast" for guarantee in guarantees):
        text += "The noise is for simulation only."
    return text.strip()


def _runs(counts: list[int]) -> str:
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"


def _names(found: list[str]) -> dict[str, str]:
    """Returns how the files of each environment's figures begin."""
    if len(found) == 1:
        return {found[0]: "regret"}
    slugs = [_slug(env) for env in found]
    unique = [slug if slugs.count(slug) == 1 else f"{slug}-{i}" for i, slug in enumerate(slugs)]
    return {env: f"regret-{slug}" for env, slug in zip(found, unique, strict=True)}


def _slug(text: str) -> str:
    """Returns a text as a part of a file's name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:80]


def plot_regret(
    curves: Sequence[tuple[str, Sequence[Curve]]],
    path: Path,
    *,
    title: str = "",
    note: str = "",
    log: bool = False,
    gap: float | None = None,
    looks: Sequence[Look] | None = None,
) -> list[Path]:
    """Draws mean cumulative regret, with a band of one standard error to both sides, as PNG and as SVG.

    Args:
        curves: Of each setting its label and the curves of its runs.
        path: Of either file; the other one is beside it.
        title: Above the picture.
        note: What else to say above the legend.
        log: Whether both axes are logarithmic.
        gap: Of acting at random, drawn as a dotted line.
        looks: Of each setting; by default they just differ.

    Raises:
        MissingExtra: If there is no matplotlib.
    """
    if not curves or not all(runs for _, runs in curves):
        raise InvalidInput("there is no curve to draw")
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "report") from None
    look: dict[Any, object] = {
        "font.size": 9,
        "text.parse_math": False,  # labels come from outside: $ is a dollar
        "svg.hashsalt": "discreet",
        "svg.fonttype": "none",  # text stays text
    }
    heading = _heading(curves, note)
    entries = [_entry(text) for text, _ in curves] + (["acting at random"] if gap is not None else [])
    lines = sum(text.count("\n") + 1 for text in [heading, *entries])
    height = _ABOVE + _LINE * lines + 0.15
    png, svg = io.BytesIO(), io.BytesIO()
    with mpl.rc_context(look):
        figure: Any = Figure(figsize=(WIDTH, height), dpi=200)
        # Sizes are in inches from above: layout engines would take most of the time, and move the axes.
        axes = figure.add_axes((0.82 / WIDTH, 1 - (_ABOVE - 0.55) / height, 1 - 1.05 / WIDTH, (_ABOVE - 0.85) / height))
        looks = looks or [Look(i, i) for i in range(len(curves))]
        handles = _draw(axes, [runs for _, runs in curves], looks, log=log, gap=gap)
        axes.set_title(_short(title), fontsize=9, loc="left", x=-0.78 / (WIDTH - 1.05))
        place = {"loc": "upper left", "bbox_to_anchor": (0, 1 - _ABOVE / height), "alignment": "left", "frameon": False}
        fonts = {"fontsize": 9, "title_fontsize": 8, "labelspacing": 0.4, "handlelength": 3.2}
        legend = figure.legend(handles, entries, title=heading, **place, **fonts)
        legend.get_title().set_color("#444444")
        canvases: tuple[Any, ...] = (FigureCanvasAgg(figure), FigureCanvasSVG(figure))
        canvases[0].print_png(png, metadata={"Software": None})
        canvases[1].print_svg(svg, metadata={"Date": None, "Creator": None})
    stem = path.name.removesuffix(".svg").removesuffix(".png")
    written = [path.with_name(f"{stem}.png"), path.with_name(f"{stem}.svg")]
    for file, data in zip(written, (png, svg), strict=True):
        write_file(file, data.getvalue())
    return written


def _heading(curves: Sequence[tuple[str, Sequence[Curve]]], note: str) -> str:
    """Returns what is above the legend."""
    counts = [len(runs) for _, runs in curves]
    band = f"mean of {_runs(counts)} runs, band ± standard error" if max(counts) > 1 else "one run each"
    return "\n".join(textwrap.wrap("; ".join(filter(None, [band, _printable(note)])), _WRAP + 6))


def _draw(
    axes: Any, curves: list[Sequence[Curve]], looks: Sequence[Look], *, log: bool, gap: float | None
) -> list[Any]:
    """Draws the curves and returns what the legend shows of them."""
    handles, top, last = [], 0.0, 1
    for i, (runs, look) in enumerate(zip(curves, looks, strict=True)):
        episodes, mean, error = _mean(runs, log=log)
        colour = COLOURS[look.colour % len(COLOURS)]
        line = {"color": colour, "linestyle": _STYLES[look.style % len(_STYLES)], "linewidth": 1.5}
        offset = 0.03 + 0.16 * (i * 0.382 % 1)  # markers of neighbours do not lie on one another
        marks = {"marker": MARKERS[look.colour % len(MARKERS)], "markersize": 4.5, "markevery": (offset, 0.2)}
        if look.hollow:
            marks["markerfacecolor"] = "white"
        handles += axes.plot(episodes, mean, zorder=3 + i / 100, **line, **marks)
        if len(runs) > 1:
            axes.fill_between(episodes, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        top, last = max(top, float((mean + error).max())), max(last, int(episodes[-1]))
    if gap is not None:
        x = np.array([1, last])
        handles += axes.plot(x, gap * x, color="#555555", linestyle=(0, (1, 1.6)), linewidth=1.5, zorder=2.5)
    axes.set(xlabel="episode", ylabel="cumulative regret")
    tidy(axes)
    if log:
        axes.set(xscale="log", yscale="log" if top > 0 else "linear", xlim=(0.95, 1.1 * last))
    else:
        most = max(top, min(gap * last if gap else 0.0, 1.5 * top)) or 1.0  # what does not learn must not hide the rest
        axes.set(xlim=(0, 1.01 * last), ylim=(-0.015 * most, 1.03 * most))  # zero regret is seen above the axis
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_number)
        if axis.get_scale() == "log":
            axis.get_minor_locator().set_params(subs=(2, 5))
            axis.set_minor_formatter("")
    return handles


def _mean(runs: Sequence[Curve], *, log: bool) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns episodes that all runs kept, no more than a picture can show, the mean there and its standard error."""
    common = functools.reduce(np.intersect1d, [run.episodes for run in runs])
    if len(common) > _POINTS:
        wanted = (np.geomspace if log else np.linspace)(common[0], common[-1], _POINTS)
        common = np.unique(common[np.searchsorted(common, wanted * (1 - 1e-12)).clip(max=len(common) - 1)])
    regret = np.array([run.regret[np.searchsorted(run.episodes, common)] for run in runs])
    error = regret.std(axis=0, ddof=1) / math.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(common))
    return common, regret.mean(axis=0), error


def _number(value: float, _position: int | None = None) -> str:
    """Returns the text of a tick: short, there is little room beside the axis."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.6g}M"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


def _entry(text: str) -> str:
    """Returns a label in lines that fit; no line ends within "ε = 1"."""
    tied = re.sub(r" = |(?<=\(asked) ", lambda match: match.group().replace(" ", "\xa0"), _printable(text))
    return "\n".join(textwrap.wrap(tied, _WRAP)).replace("\xa0", " ") or " "


def _short(text: str) -> str:
    """Returns a title in one line that fits."""
    text = _printable(text)
    return text if len(text) <= _WRAP + 6 else f"{text[: _WRAP + 5]}…"


def _printable(text: str) -> str:
    """Returns a text in one line that XML can hold."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())

"""Pictures of regret: one curve a setting, labelled with what is proven for it, never with what was asked for.

Colours are those of Okabe and Ito, distinguishable with any kind of colour vision; line styles and markers tell the
curves apart in grey print too. The same runs give the same SVG, byte for byte.
"""

from __future__ import annotations

import functools
import io
import json
import math
import os
import re
import textwrap
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from discreet import envs
from discreet.errors import DiscreetError, InvalidInput, MissingExtra
from discreet.privacy.guarantee import REWARDS_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from discreet.experiments.store import Curve, RunRow

__all__ = [
    "COLOURS",
    "MARKERS",
    "Group",
    "Runs",
    "chance",
    "draw_regret",
    "group",
    "label",
    "labels",
    "plot_regret",
    "promise",
    "rounded_up",
    "write_file",
]

#: Okabe and Ito: distinguishable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: So that curves differ in grey, too
MARKERS = ("o", "s", "^", "v", "D", "P", "X")
# With 7 colours and markers, 28 curves differ even in grey; dots are left to acting at random.
_STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (8, 1.5, 1.5, 1.5)), (0, (2.5, 1.2)))
_MOST = 14  # settings in one figure
_POINTS = 250  # of a curve: more than a picture can show
_WIDTH = 4.2  # inches: text is about as large on a phone as on paper
_ABOVE = 3.0  # inches of title, axes and their labels
_LINE = 0.185  # inches of a line of the legend
_WRAP = 50  # letters of a line of the legend

#: What a setting has if it does not say; only so that "sound" and nothing are not told apart.
_DEFAULTS: dict[str, Any] = {
    "sum": "auto",
    "calibration": "sound",
    "release": "auto",
    "noise": "fast",
    "randomiser": "auto",
    "honest_fraction": 1,
    "preset": "practical",
    "stationary": False,
    "failure": 0.05,
    "bonus_scale": 1,
}
_TRUST = ("none", "central", "shuffle", "local")


class Runs(Protocol):
    """Finished runs, such as `discreet.results.Results`."""

    @property
    def runs(self) -> Sequence[RunRow]:
        """What is known of each run."""

    def curve(self, key: str) -> Curve:
        """Returns the regret of a run."""


@dataclass(frozen=True)
class Group:
    """The runs of one setting: they differ in their seeds alone.

    Attributes:
        label: What tells it from the other settings in its environment, and what is proven for it.
        rows: The runs.
    """

    label: str
    rows: tuple[RunRow, ...]

    @property
    def guarantee(self) -> dict[str, Any]:
        """What is proven for the runs; the weakest, should several versions of this library have done them."""
        return max((row.guarantee for row in self.rows), key=_epsilon)


def group(rows: Iterable[RunRow]) -> dict[str, list[Group]]:
    """Returns the settings of each environment: those without privacy first, then the less private the earlier."""
    found: dict[str, dict[str, list[RunRow]]] = {}
    for row in sorted(rows, key=_order):
        names = row.labels
        found.setdefault(names["env"], {}).setdefault(names["setting"], []).append(row)
    result = {}
    for env, settings in sorted(found.items()):
        texts = labels([runs[0] for runs in settings.values()])
        result[env] = [Group(texts[setting], tuple(runs)) for setting, runs in settings.items()]
    return result


def _order(row: RunRow) -> tuple[Any, ...]:
    config, privacy = row.config, dict(row.config.get("privacy") or {})
    asked = privacy.pop("epsilon", None)
    trust = _TRUST.index(config["trust"]) if config["trust"] in _TRUST else len(_TRUST)
    rest = json.dumps([privacy, config.get("options"), config["episodes"]], sort_keys=True)
    seed, run = config["seed"]
    private = row.guarantee["notion"] != "none"
    return (private, config["agent"], trust, rest, -float(asked or 0), row.labels["setting"], seed, run)


def label(row: RunRow, among: Iterable[RunRow]) -> str:
    """Returns a short label of a run's setting: its agent, what differs among the settings, and what is proven.

    Such as "dp-ucbvi, central, printed noise: ε = 2.05 (asked 1)", or "ucbvi: no privacy".
    """
    return labels([*among, row])[row.labels["setting"]]


def labels(rows: Iterable[RunRow]) -> dict[str, str]:
    """Returns the label of every setting, by ``labels["setting"]``; no two are the same."""
    settings = {row.labels["setting"]: row for row in rows}
    facets = {setting: _facets(row) for setting, row in settings.items()}
    keys = dict.fromkeys(key for facet in facets.values() for key in facet)
    private = [setting for setting, row in settings.items() if row.guarantee["notion"] != "none"]
    varied = []
    for key in keys:
        seen = private if key in ("trust", *_DEFAULTS) and key not in _OPTIONS else settings
        if len({json.dumps(facets[setting].get(key)) for setting in seen}) > 1:
            varied.append(key)
    texts = {}
    for setting, row in settings.items():
        facet = facets[setting]
        words = [_words(key, facet[key]) for key in varied if key in facet and key not in ("agent", "delta")]
        promised = promise(row.guarantee, (row.config.get("privacy") or {}).get("epsilon"), delta="delta" in varied)
        texts[setting] = f"{', '.join(filter(None, [facet['agent'], *words]))}: {promised}"
    twice = {text for text in texts.values() if list(texts.values()).count(text) > 1}
    return {setting: f"{text} [{setting[:6]}]" if text in twice else text for setting, text in texts.items()}


_OPTIONS = ("preset", "stationary", "failure", "bonus_scale")


def _facets(row: RunRow) -> dict[str, Any]:
    """Returns what a setting may differ in, in the order in which a label says it."""
    config, private = row.config, row.guarantee["notion"] != "none"
    asked = {**_DEFAULTS, **(config.get("privacy") or {}), **(config.get("options") or {})}
    asked.pop("epsilon", None)
    if not private:
        asked = {key: value for key, value in asked.items() if key in _OPTIONS or key not in (*_DEFAULTS, "delta")}
    trust = {"trust": config["trust"]} if private else {}
    first = {"agent": config["agent"], "env": row.labels["env"], **trust}
    facets = {**first, **asked, "episodes": config["episodes"]}
    if private:
        facets["delta"] = row.guarantee["delta"]  # the proven one
    return {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in facets.items()}


def _words(key: str, value: Any) -> str:
    """Returns a part of a label."""
    if value == "auto":  # what is not auto says so
        return ""
    if key in ("env", "trust"):
        return str(value)
    if key == "calibration":
        return "printed noise" if value == "paper" else f"{value} noise"
    if key == "stationary":
        return "pooled" if value else "by step"
    if key == "episodes":
        return f"{value:,} episodes"
    if key in ("sum", "preset", "release", "noise", "randomiser"):
        return f"{value} {key}"
    if key == "honest_fraction":
        return f"{value:.3g} honest"
    return f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"


def promise(guarantee: dict[str, Any], asked: float | None = None, *, delta: bool = True, digits: int = 3) -> str:
    """Returns what is proven, in a few symbols; numbers are rounded up, so that nothing smaller is claimed."""
    if guarantee["notion"] == "none":
        return "no privacy"
    proven = rounded_up(guarantee["epsilon"], digits)
    text = f"ε = {proven}"
    if delta and guarantee["delta"]:
        text += f", δ = {rounded_up(guarantee['delta'], digits)}"
    if asked is not None and proven != rounded_up(asked, digits):
        text += f" (asked {asked:g})"
    return text + (", rewards only" if guarantee["protects"] == "rewards" else "")


def rounded_up(value: float | None, digits: int = 3) -> str:
    """Returns the next number with so many digits, but for what floating point adds; None is infinite."""
    if value is None or math.isinf(value):
        return "∞"
    exact = Decimal(value) * (1 - Decimal("1e-9"))
    text = f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exact)):g}"
    return re.sub(r"e([+-])0+", r"e\1", text)


def _epsilon(guarantee: dict[str, Any]) -> float:
    return math.inf if guarantee["epsilon"] is None else float(guarantee["epsilon"])


def chance(env: str) -> float | None:
    """Returns the gap of acting at random; None if the environment is not known here."""
    try:
        mdp = envs.read(env)
    except DiscreetError:
        return None
    uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
    return float(mdp.optimal_value - mdp.evaluate(uniform))


def draw_regret(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the regret of all runs, one environment a figure, with linear and with logarithmic axes.

    Returns:
        The SVG files by caption; beside each is a PNG of the same name.
    """
    found = group(results.runs)
    names = _names(list(found))
    written: dict[str, Path] = {}
    for env, settings in found.items():
        gap = chance(env)
        parts = [settings[i : i + _MOST] for i in range(0, len(settings), _MOST)]
        for i, part in enumerate(parts):
            name = names[env] + (f"-{i + 1}" if len(parts) > 1 else "")
            title = env + (f" ({i + 1} of {len(parts)})" if len(parts) > 1 else "")
            curves = [(each.label, [results.curve(row.key) for row in each.rows]) for each in part]
            note = "simulation only" if any(each.guarantee["noise"] == "fast" for each in part) else ""
            for log in (False, True):
                path = directory / f"{name}{'-log' if log else ''}.svg"
                plot_regret(curves, path, title=title, note=note, log=log, gap=gap)
                written[_caption(title, part, log=log, gap=gap)] = path
    return written


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
    slugs = [re.sub(r"[^a-z0-9.]+", "-", env.lower()).strip("-.")[:80] for env in found]
    unique = [slug if slugs.count(slug) == 1 else f"{slug}-{i}" for i, slug in enumerate(slugs)]
    return {env: f"regret-{slug}" for env, slug in zip(found, unique, strict=True)}


def plot_regret(
    curves: Sequence[tuple[str, Sequence[Curve]]],
    path: Path,
    *,
    title: str = "",
    note: str = "",
    log: bool = False,
    gap: float | None = None,
) -> list[Path]:
    """Draws mean cumulative regret, with a band of one standard error to both sides, as PNG and as SVG.

    Args:
        curves: Of each setting its label and the curves of its runs.
        path: Of either file; the other one is beside it.
        title: Above the picture.
        note: What else to say above the legend.
        log: Whether both axes are logarithmic.
        gap: Of acting at random, drawn as a dotted line.

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
    look: dict[Any, Any] = {
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
        figure: Any = Figure(figsize=(_WIDTH, height), dpi=200)
        # Sizes are in inches from above: layout engines would take most of the time, and move the axes.
        axes = figure.add_axes(
            (0.82 / _WIDTH, 1 - (_ABOVE - 0.55) / height, 1 - 1.05 / _WIDTH, (_ABOVE - 0.85) / height)
        )
        handles = _draw(axes, [runs for _, runs in curves], log=log, gap=gap)
        axes.set_title(_short(title), fontsize=9, loc="left", x=-0.78 / (_WIDTH - 1.05))
        place = {"loc": "upper left", "bbox_to_anchor": (0, 1 - _ABOVE / height), "alignment": "left", "frameon": False}
        fonts = {"fontsize": 9, "title_fontsize": 8, "labelspacing": 0.4, "handlelength": 3.2}
        legend = figure.legend(handles, entries, title=heading, **place, **fonts)
        legend.get_title().set_color("#444444")
        canvases: tuple[Any, Any] = (FigureCanvasAgg(figure), FigureCanvasSVG(figure))
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


def _draw(axes: Any, curves: list[Sequence[Curve]], *, log: bool, gap: float | None) -> list[Any]:
    """Draws the curves and returns what the legend shows of them."""
    handles, top, last = [], 0.0, 1
    for i, runs in enumerate(curves):
        episodes, mean, error = _mean(runs, log=log)
        colour = COLOURS[i % len(COLOURS)]
        look = {"color": colour, "linestyle": _STYLES[i % len(_STYLES)], "linewidth": 1.5}
        offset = 0.03 + 0.16 * (i * 0.382 % 1)  # markers of neighbours do not lie on one another
        marks = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4, "markevery": (offset, 0.2)}
        handles += axes.plot(episodes, mean, zorder=3 + i / 100, **look, **marks)
        if len(runs) > 1:
            axes.fill_between(episodes, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        top, last = max(top, float((mean + error).max())), max(last, int(episodes[-1]))
    if gap is not None:
        x = np.array([1, last])
        handles += axes.plot(x, gap * x, color="#555555", linestyle=(0, (1, 1.6)), linewidth=1.5, zorder=2.5)
    axes.set(xlabel="episode", ylabel="cumulative regret")
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
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


def write_file(path: Path, data: bytes) -> None:
    """Writes a file, whole or not at all; errors name it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None  # not the draft's name
    finally:
        draft.unlink(missing_ok=True)

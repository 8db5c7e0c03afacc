"""Settings and their names: what tells each from the others, and what is proven for it, never what was asked for."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from discreet.experiments.records import Curve, RunRow

__all__ = ["Group", "Runs", "group", "label", "labels", "promise", "rounded_up"]

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
    "share_steps": True,
    "failure": 0.05,
    "bonus_scale": 1,
}
_TRUST = ("none", "central", "shuffle", "local")


class Runs(Protocol):
    """Finished runs, such as `discreet.experiments.results.Results`."""

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
    agent = config["agent"] if config["agent"] != "auto" else f"auto ({config['resolved']['agent']})"
    first = {"agent": agent, "env": row.labels["env"], **trust}
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


def promise(guarantee: dict[str, Any], asked: float | None = None, *, delta: bool = True, digits: int = 4) -> str:
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

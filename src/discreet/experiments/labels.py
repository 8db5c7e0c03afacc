"""Settings and their names: what tells each from the others, and what is proven for it, never what was asked for."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Protocol

from discreet import agents
from discreet.errors import InvalidInput
from discreet.privacy.trust import TRUST_MODELS
from discreet.privacy.trust import options as trust_options
from discreet.registry.options import Option, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from discreet.experiments.configs import Promised
    from discreet.experiments.records import Curve, RunRow

__all__ = ["Group", "Runs", "group", "labels", "promise", "rounded_up"]


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
    def guarantee(self) -> Promised:
        """What is proven for the runs; the weakest, should several versions of this library have done them."""
        return max(self.rows, key=lambda row: row.epsilon).guarantee


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


def _order(row: RunRow) -> tuple[object, ...]:
    config = row.config
    privacy = {key: value for key, value in (config.get("privacy") or {}).items() if key != "epsilon"}
    known = TRUST_MODELS.names
    trust = known.index(config["trust"]) if config["trust"] in known else len(known)
    rest = json.dumps([privacy, config.get("options"), config["episodes"]], sort_keys=True)
    seed, run = config["seed"]
    return (row.private, config["agent"], trust, rest, -(row.asked or 0), row.labels["setting"], seed, run)


def labels(rows: Iterable[RunRow]) -> dict[str, str]:
    """Returns the label of every setting, by ``labels["setting"]``; no two are the same.

    It says the agent, what differs among the settings, and what is proven, such as "dp-ucbvi, central, printed noise:
    ε = 2.05 (asked 1)", or "ucbvi: no privacy".
    """
    settings = {row.labels["setting"]: row for row in rows}
    facets = {setting: _facets(row) for setting, row in settings.items()}
    keys = dict.fromkeys(key for facet in facets.values() for key in facet)
    varied = [key for key in keys if _differs(key, list(facets.values()))]
    texts = {}
    for setting, row in settings.items():
        facet = facets[setting]
        words = [_words(key, facet[key]) for key in varied if key in facet and key not in ("agent", "delta")]
        promised = promise(row.guarantee, row.asked, delta="delta" in varied)
        texts[setting] = f"{', '.join(filter(None, [str(facet['agent']), *words]))}: {promised}"
    twice = {text for text in texts.values() if list(texts.values()).count(text) > 1}
    return {setting: f"{text} [{setting[:6]}]" if text in twice else text for setting, text in texts.items()}


def _differs(key: str, facets: Sequence[Mapping[str, Value]]) -> bool:
    """Returns whether settings differ in something.

    Only those that know it are compared; but where a default goes without saying, the others count as having it.
    """
    option = agents.table().get(key)
    everybody = key == "delta" or (option is not None and not option.label(option.default))
    return len({json.dumps(facet.get(key)) for facet in facets if everybody or key in facet}) > 1


def _facets(row: RunRow) -> dict[str, Value]:
    """Returns what a setting may differ in, in the order in which a label says it."""
    config = row.config
    name = str(config["resolved"]["agent"]) if config["agent"] == "auto" else config["agent"]
    facets: dict[str, Value] = {"agent": name if name == config["agent"] else f"auto ({name})"}
    facets["env"] = row.labels["env"]
    if row.private:
        facets["trust"] = config["trust"]
        facets |= _defaults(lambda: trust_options(config["trust"])) | (config.get("privacy") or {})
    facets |= _defaults(lambda: agents.table(name)) | (config.get("options") or {}) | {"episodes": config["episodes"]}
    facets.pop("epsilon", None)
    facets.pop("delta", None)
    if row.private:
        facets["delta"] = row.guarantee["delta"]  # the proven one
    return {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in facets.items()}


def _defaults(read: Callable[[], Mapping[str, Option]]) -> dict[str, Value]:
    """Returns the defaults of a table, so that "sound" and nothing are not told apart.

    A store may hold runs of an agent that is not installed here: its defaults are not known.
    """
    try:
        return {key: option.default for key, option in read().items()}
    except InvalidInput:
        return {}


def _words(key: str, value: Value) -> str:
    """Returns a part of a label."""
    if key in ("env", "trust"):
        return str(value)
    if key == "episodes":
        return f"{value:,} episodes"
    known = {**agents.table(), **trust_options()}
    return (known.get(key) or Option(key, None, ())).label(value)


def promise(guarantee: Promised, asked: float | None = None, *, delta: bool = True, digits: int = 4) -> str:
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

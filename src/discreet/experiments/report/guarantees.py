"""Guarantees in words: what each means, and for which settings."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from discreet.experiments.labels import rounded_up
from discreet.experiments.report.tables import tied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from discreet.experiments.configs import Promised
    from discreet.experiments.labels import Group

__all__ = ["in_words"]

_SIMULATION = (
    "Simulation only: the noise of these runs comes from a seeded generator, in floating point. ε and δ are proven for "
    "ideal noise of the same kind; nothing computed with this noise should be released about real people."
)
_ALONE = (
    "Each guarantee is of one run on its own. Whoever releases several runs about the same people promises less: their "
    "losses add up."
)
_NOTIONS = {
    "none": "No privacy: the agent learns from raw data and protects nobody",
    "joint": "Joint differential privacy, with a trusted server. What all other people together may see of the agent "
    "has nearly the same distribution, whatever",
    "local": "Local differential privacy, with nobody trusted. What a person sends has nearly the same distribution, "
    "whatever",
    "shuffle": "Shuffle differential privacy, with a trusted shuffler. The shuffled messages that the server gets have "
    "nearly the same distribution, whatever",
}
_PROTECTS = {"trajectory": "whole episode is", "rewards": "rewards are; states and actions are not protected"}


def in_words(found: Mapping[str, Sequence[Group]]) -> str:
    """Returns every guarantee in words, each kind once, with the settings that it is for."""
    kinds: dict[str, dict[str, None]] = {}
    fast = False
    for each in (each for settings in found.values() for each in settings):
        kinds.setdefault(_kind(each.guarantee), {})[f"<li>{tied(each.label)}{_factor(each.guarantee)}</li>"] = None
        fast |= each.guarantee["noise"] == "fast"
    parts = [f"<p>{escape(kind)}</p><ul>{''.join(items)}</ul>" for kind, items in kinds.items()]
    private = any(each.guarantee["notion"] != "none" for settings in found.values() for each in settings)
    parts += [f"<p>{escape(_ALONE)}</p>"] if private else []
    parts += [f'<p class="box">{escape(_SIMULATION)}</p>'] if fast else []
    return "\n".join(["<h3>In words</h3>", *parts])


def _kind(promised: Promised) -> str:
    text = _NOTIONS[promised["notion"]]
    if promised["notion"] == "none":
        return f"{text}."
    text += f" one {promised['unit']}'s {_PROTECTS[promised['protects']]}: "
    text += "probabilities change by a factor of at most e^ε, and by δ besides."
    return text + (f" This assumes: {'; '.join(promised['assumptions'])}." if promised["assumptions"] else "")


def _factor(promised: Promised) -> str:
    """Returns how much probabilities may change, as HTML."""
    if promised["notion"] == "none":
        return ""
    epsilon, delta = promised["epsilon"], promised["delta"]
    factor = math.exp(epsilon) if epsilon is not None and epsilon < 700 else None
    numbers = [rounded_up(factor), rounded_up(delta) if delta else "nothing"]
    return ' – a factor of <span class="k">{}</span>, and <span class="k">{}</span> besides'.format(*numbers)

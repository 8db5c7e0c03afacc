"""What all budget reports have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.mdp import Spec

__all__ = ["lines_of", "sizes", "sizes_in_words"]


def sizes(spec: Spec) -> dict[str, int]:
    """Returns the sizes of an environment as JSON can hold them."""
    return {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon}


def sizes_in_words(title: str, spec: Spec) -> str:
    """Returns the sizes of an environment for people to read."""
    return f"{title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}"


def lines_of(facts: Mapping[str, str], width: int = 12) -> list[str]:
    """Returns facts, a line each."""
    return [f"{key:{width}} {value}" for key, value in facts.items()]

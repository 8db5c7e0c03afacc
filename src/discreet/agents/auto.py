"""``auto``: the best learner that there is for a trust model, chosen from public numbers alone.

The rule is a first one, measured on RiverSwim, chain, random and gridworld (docs/agents/auto.md): without privacy
UCBVI, with privacy DP-UCBVI, updated a hundred times in a run and at least every 500 users. The sum and its noise are
the trust model's own choice (``sum="auto"``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.privacy import NonPrivate

if TYPE_CHECKING:
    from discreet.privacy import TrustModel

__all__ = ["choose"]


def choose(privacy: TrustModel, episodes: int) -> tuple[str, dict[str, Any]]:
    """Returns the name of an agent, and the options that are not left to its defaults."""
    if isinstance(privacy, NonPrivate):
        return "ucbvi", {}
    return "dp-ucbvi", {"update_every": max(1, min(500, episodes // 100))}

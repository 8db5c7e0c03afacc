"""``auto``: the best learner that there is for a trust model, chosen from public numbers alone.

The rule is a first one, measured on RiverSwim, chain, random and gridworld (docs/agents/auto.md): without privacy
UCBVI, with privacy DP-UCBVI, updated a hundred times in a run and at least every 500 users. Where the spec has
features, LinOpt-VI takes their place if the trust model allows it. The sum and its noise are the trust model's own
choice (``sum="auto"``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.mdp import LinearSpec
from discreet.privacy import Central, Local, NonPrivate

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["choose"]


def choose(privacy: TrustModel, episodes: int, spec: Spec | None = None) -> tuple[str, dict[str, Any]]:
    """Returns the name of an agent, and the options that are not left to its defaults."""
    often = {"update_every": max(1, min(500, episodes // 100))}
    features = isinstance(spec, LinearSpec)
    if isinstance(privacy, NonPrivate):
        return "linopt-vi" if features else "ucbvi", {}
    if features and isinstance(privacy, Central | Local) and privacy.delta > 0:  # its noise is Gaussian
        return "linopt-vi", often
    return "dp-ucbvi", often

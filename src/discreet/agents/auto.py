"""``auto``: the best learner that there is for a trust model, chosen from public numbers alone.

The rule (measured in docs/frontier.md, explained in docs/agents/auto.md):

    no privacy                                   ucbvi
    Central with δ > 0, Local, Shuffle           discreet-vi, on its own schedule; steps share what they have in common
    Central with δ = 0                           dp-ucbvi: weighted counts have Gaussian noise
    a request that only the papers' agents know  dp-ucbvi
    a spec with features                         linopt-vi where its noise can be proven, else ucbvi or dp-ucbvi

Requests that only the papers' agents know are ``preset="theory"``, ``calibration="paper"``, a release or a sum of visit
counts, and a local ε beyond what a randomised answer takes. Whatever is given is kept. dp-ucbvi is updated a hundred
times in a run and at least every 500 users; the sum is the trust model's own choice (``sum="auto"``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.mdp import LinearSpec
from discreet.privacy import Central, Local, NonPrivate, Shuffle
from discreet.privatizers.randomisers import MOST

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["choose"]

#: The sums and the releases that discreet-vi takes: others are visit counts, of the papers' agents.
_SUMS = {Central: ("auto", "factored", "optimal"), Local: ("auto", "questions"), Shuffle: ("auto", "binomial")}
_RELEASES = ("auto", "weighted", "first-visits")


def choose(
    privacy: TrustModel, episodes: int, spec: Spec | None = None, *, preset: str = "practical"
) -> tuple[str, dict[str, Any]]:
    """Returns the name of an agent, and the options that are not left to its defaults.

    Args:
        privacy: The trust model, with all that is asked of it.
        episodes: Number of users at most.
        spec: The environment's public facts.
        preset: What the user asked for.
    """
    often = {"update_every": max(1, min(500, episodes // 100))}
    features = isinstance(spec, LinearSpec)
    if isinstance(privacy, NonPrivate):
        return "linopt-vi" if features else "ucbvi", {}
    if features:
        gaussian = isinstance(privacy, Central | Local) and privacy.delta > 0
        return "linopt-vi" if gaussian else "dp-ucbvi", often
    return ("discreet-vi", {}) if _takes(privacy, preset) else ("dp-ucbvi", often)


def _takes(privacy: TrustModel, preset: str) -> bool:
    """Returns whether discreet-vi can do what is asked for."""
    if not isinstance(privacy, Central | Local | Shuffle) or preset == "theory":
        return False
    if privacy.calibration == "paper" or privacy.sum not in _SUMS[type(privacy)]:
        return False
    if isinstance(privacy, Local):
        return privacy.epsilon <= MOST  # else the answer cannot be drawn
    if privacy.release not in _RELEASES:
        return False
    return isinstance(privacy, Shuffle) or privacy.delta > 0 or privacy.release == "weighted"

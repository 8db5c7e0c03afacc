"""From trajectories to the counts that planners see: encode (at the user), shuffle, analyse (at the server)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.errors import InvalidInput
from discreet.privacy import NonPrivate
from discreet.privatizers.base import Collector, Encoder, PrivateCounts, Privatizer, Shuffler
from discreet.privatizers.nonprivate import NonPrivatePrivatizer

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["Collector", "Encoder", "NonPrivatePrivatizer", "PrivateCounts", "Privatizer", "Shuffler", "make"]


def make(spec: Spec, privacy: TrustModel, *, capacity: int, stationary: bool) -> NonPrivatePrivatizer:
    """Returns the privatizer of a trust model.

    Args:
        spec: The environment's public sizes.
        privacy: The trust model.
        capacity: Number of users at most.
        stationary: Whether counts are pooled over the steps.
    """
    if isinstance(privacy, NonPrivate):
        return NonPrivatePrivatizer(spec, capacity=capacity, stationary=stationary, guarantee=privacy.guarantee)
    raise InvalidInput(f"privacy must be a trust model (NonPrivate), got {type(privacy).__name__}")

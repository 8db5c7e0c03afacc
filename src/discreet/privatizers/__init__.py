"""From trajectories to the counts that planners see: encode (at the user), shuffle, analyse (at the server)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.errors import InvalidInput
from discreet.privacy import Central, Local, NonPrivate, Shuffle
from discreet.privatizers.base import Collector, Encoder, PrivateCounts, Privatizer, Shuffler
from discreet.privatizers.central import CentralPrivatizer
from discreet.privatizers.first_visits import FirstVisitPrivatizer, FirstVisits
from discreet.privatizers.linear import PrivateGrams, Regulariser, make_linear
from discreet.privatizers.local import LOCAL, NoisyLocal, SampledLocal, make_local
from discreet.privatizers.nonprivate import NonPrivatePrivatizer
from discreet.privatizers.projection import project
from discreet.privatizers.questions import Answers, QuestionLocal
from discreet.privatizers.shuffle import ShufflePrivatizer
from discreet.privatizers.staged import StagedPrivatizer, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = [
    "LOCAL",
    "Answers",
    "CentralPrivatizer",
    "Collector",
    "Encoder",
    "FirstVisitPrivatizer",
    "FirstVisits",
    "NoisyLocal",
    "NonPrivatePrivatizer",
    "PrivateCounts",
    "PrivateGrams",
    "Privatizer",
    "QuestionLocal",
    "Regulariser",
    "SampledLocal",
    "ShufflePrivatizer",
    "Shuffler",
    "StagedPrivatizer",
    "Tally",
    "make",
    "make_linear",
    "project",
]


def make(
    spec: Spec,
    privacy: TrustModel,
    *,
    capacity: int,
    batches: Sequence[int],
    stationary: bool,
    failure: float = 0.05,
    rng: np.random.Generator,
) -> CentralPrivatizer | NoisyLocal | SampledLocal | ShufflePrivatizer | NonPrivatePrivatizer:
    """Returns the privatizer of a trust model.

    Args:
        spec: The environment's public sizes.
        privacy: The trust model.
        capacity: Number of users at most.
        batches: How many users each batch has, in order: public. A last, incomplete batch is none.
        stationary: Whether counts are pooled over the steps.
        failure: Probability with which the error bound of the counts may fail.
        rng: Where the server's noise comes from.
    """
    if isinstance(privacy, NonPrivate):
        return NonPrivatePrivatizer(spec, capacity=capacity, stationary=stationary, guarantee=privacy.guarantee)
    if isinstance(privacy, Central):
        return CentralPrivatizer(
            spec, privacy, capacity=capacity, horizon=len(batches), stationary=stationary, failure=failure, rng=rng
        )
    if isinstance(privacy, Local):
        return make_local(spec, privacy, capacity=capacity, stationary=stationary, failure=failure)
    if isinstance(privacy, Shuffle):
        return ShufflePrivatizer(spec, privacy, batches=batches, stationary=stationary, failure=failure)
    raise InvalidInput(f"privacy must be a trust model such as Central(…), got {type(privacy).__name__}")

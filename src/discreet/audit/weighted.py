"""Weighted counts under attack: two people who spend all of their norm, in different cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.audit.sums import SumTarget, side_by_side
from discreet.audit.world import corners, digits_of, kind_of, source_of, tiny
from discreet.privatizers import Privatizer
from discreet.privatizers.make import weighted as make_weighted
from discreet.privatizers.weighted.layout import WeightedLayout
from discreet.privatizers.weighted.serve import CentralWeighted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.privacy import Central

__all__ = ["weighted"]

_STEPS = 0.7  # the steps block's share, as discreet-vi has it


def weighted(privacy: Central, *, steps: int = 1, reads: int = 2, stationary: bool = False) -> SumTarget:
    """Returns the weighted privatizer in a world of two states and two actions: pooled counts, or pooled and per step.

    The replaced user stays in one cell and gets every reward: whatever the weights assume of the worst comes true, so
    that nothing of the norm is left. Before and after it is not the same cell: this attains the sensitivity.
    """
    people = corners(steps)
    layout = WeightedLayout(tiny(steps), steps=0.0 if stationary else _STEPS)
    mechanism = make_weighted(layout, privacy, capacity=reads, horizon=reads)
    assert isinstance(mechanism, CentralWeighted)
    vectors = np.zeros((2, layout.size))
    for vector, person in zip(vectors, people, strict=True):
        report = mechanism.encoder.encode(person)
        np.add.at(vector, report.indices, report.values)

    def end_to_end(world: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """A privatizer of its own; the first user is replaced, the others are all alike."""
        whole, shuffler, released = Privatizer(mechanism, source_of(privacy, rng)), mechanism.shuffler(), []
        for t in range(reads):
            counts = whole.observe(shuffler([mechanism.encoder.encode(people[world if t == 0 else 0], rng)], rng))
            released += [array.ravel() for block in counts.blocks for array in block]
        return np.concatenate(released)

    make = side_by_side(mechanism.sum)
    claim, digits = mechanism.promise(kind_of(privacy)), digits_of(privacy)
    return SumTarget("weighted", claim, make, vectors[0], vectors[1], digits, end_to_end)

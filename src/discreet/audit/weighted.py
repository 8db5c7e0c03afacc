"""Weighted counts under attack: two people who spend all of their norm, in different cells."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from discreet.audit.sums import SumTarget
from discreet.audit.world import corners, tiny
from discreet.privatizers.weighted import WeightedCentral, make_weighted
from discreet.privatizers.weights import WeightedLayout
from discreet.sums import PrivateSum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.privacy import Central

__all__ = ["weighted"]

_STEPS = 0.7  # the steps block's share, as discreet-vi has it


def _build(privacy: Central, steps: int, reads: int, stationary: bool, rng: np.random.Generator) -> WeightedCentral:
    layout = WeightedLayout(tiny(steps), steps=0.0 if stationary else _STEPS)
    private = make_weighted(layout, privacy, capacity=reads, horizon=reads, rng=rng)
    assert isinstance(private, WeightedCentral)
    return private


def weighted(privacy: Central, *, steps: int = 1, reads: int = 2, stationary: bool = False) -> SumTarget:
    """Returns the weighted privatizer in a world of two states and two actions: pooled counts, or pooled and per step.

    The replaced user stays in one cell and gets every reward: whatever the weights assume of the worst comes true, so
    that nothing of the norm is left. Before and after it is not the same cell: this attains the sensitivity.
    """
    people = corners(steps)
    private = _build(privacy, steps, reads, stationary, np.random.default_rng(0))
    vectors = np.zeros((2, private.layout.size))
    for vector, person in zip(vectors, people, strict=True):
        report = private.encoder.encode(person)
        np.add.at(vector, report.indices, report.values)
    built, same = private.sum, dataclasses.replace(privacy, sum=private.name)

    def make(copies: int, rng: np.random.Generator) -> PrivateSum:
        return PrivateSum(
            built.factorisation,
            built.size * copies,
            capacity=reads,
            scale=built.scale,
            sensitivity=built.sensitivity,
            rng=rng,
        )

    def end_to_end(world: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """A privatizer of its own; the first user is replaced, the others are all alike."""
        whole = _build(same, steps, reads, stationary, rng)
        released = []
        for t in range(reads):
            whole.collect(whole.shuffler([whole.encoder.encode(people[world if t == 0 else 0], rng)], rng))
            counts = whole.counts()
            released += [array.ravel() for block in counts.blocks for array in block]
        return np.concatenate(released)

    return SumTarget("weighted", private.guarantee, make, vectors[0], vectors[1], end_to_end=end_to_end)

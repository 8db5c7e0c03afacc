"""The linear privatizer under attack: two people whose feature products are as far apart as they can be."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from discreet.audit.local import LocalTarget
from discreet.audit.sums import SumTarget, side_by_side
from discreet.audit.world import corners, digits_of, kind_of, source_of
from discreet.mdp import LinearSpec
from discreet.privatizers import Privatizer
from discreet.privatizers.features.serve import CentralFeatures, NoisyFeatures
from discreet.privatizers.make import features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.privacy import Central, Local

__all__ = ["linear"]


def _world(steps: int) -> LinearSpec:
    """Returns two states, two actions and features of two dimensions, the longest that are allowed.

    The features of the two people have the inner product −1/4 of unit vectors. Where a matrix and a vector are released
    with noise in proportion to their sensitivities √2 and 2, this is as far apart as a pair can be: the squares
    (1 − c²) + (1 − c)/2 are largest at c = −1/4.
    """
    far = np.array([-1 / 4, math.sqrt(15 / 16)])
    features = np.zeros((2, 2, 2))
    features[0], features[1] = (1.0, 0.0), far
    return LinearSpec.dense(
        np.repeat(features[:, :, None, :], 2, axis=2) / 2, features, horizon=steps
    )  # halves: one for each of two next states, so that V = H − h makes a feature of length H − h


def linear(privacy: Central | Local, *, steps: int = 1, reads: int = 2) -> SumTarget | LocalTarget:
    """Returns the linear privatizer in a world of two states and two actions, features and values at their bounds."""
    people = corners(steps)
    mechanism = features(
        _world(steps), privacy, feature_bound=float(steps), capacity=reads, batches=[1] * reads, failure=0.05
    )
    assert isinstance(mechanism, CentralFeatures | NoisyFeatures)
    values = np.repeat(np.arange(steps, -1.0, -1.0)[:, None], 2, axis=1)  # the largest: features as long as allowed
    if isinstance(mechanism, NoisyFeatures):
        own = dataclasses.replace(mechanism.encoder, values=values)
        return LocalTarget("linear", mechanism.promise(kind_of(privacy)), own, people)
    encoder = dataclasses.replace(mechanism.encoder, values=values)
    vectors = []
    for person in people:
        report = encoder.encode(person)
        vectors.append(mechanism.contributions(report.features[None], report.targets[None])[0])

    def end_to_end(world: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """A privatizer of its own; the first user is replaced, the others are all alike."""
        whole, shuffler, released = Privatizer(mechanism, source_of(privacy, rng)), mechanism.shuffler(), []
        for t in range(reads):
            grams = whole.observe(shuffler([encoder.encode(people[world if t == 0 else 0])]), encoder)
            released += [grams.reward_gram, grams.reward_vector, grams.value_gram, grams.value_vector]
        return np.concatenate([array.ravel() for array in released])

    make = side_by_side(mechanism.sum)
    claim, digits = mechanism.promise(kind_of(privacy)), digits_of(privacy)
    return SumTarget("linear", claim, make, vectors[0], vectors[1], digits, end_to_end)

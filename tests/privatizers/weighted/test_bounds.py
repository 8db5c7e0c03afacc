"""What a server holds weighted counts to: the compiled check against a readable one, on both sides of every bound."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.errors import InvalidPersonalData
from discreet.privacy import RawBatch
from discreet.privatizers.weighted.layout import SLACK, WeightedLayout
from discreet.privatizers.weighted.serve import ExactWeighted

SPEC = dc.envs.riverswim(states=3, horizon=4).spec
LAYOUTS = {
    "pooled": WeightedLayout(SPEC, pooled=1.0, steps=0.0),
    "both": WeightedLayout(SPEC, pooled=1.0, steps=0.5),
    "steps": WeightedLayout(SPEC, pooled=0.0, steps=1.0),
    "rewards from 0": WeightedLayout(SPEC, pooled=1.0, steps=0.0, centre=0.0),
    "rewards from 1": WeightedLayout(SPEC, pooled=1.0, steps=0.5, centre=1.0),
}


def allowed(layout, vector, entries):
    """The readable version: lengths, signs and reward sums of every block."""
    longest = np.sqrt(max(layout.limit(*block) for block in layout.blocks)) * (1 + SLACK)
    found, start = bool((np.abs(entries) <= longest).all()), 0
    for sets, share in layout.blocks:
        cells = sets * layout.cells
        part = vector[start : start + cells * (layout.spec.states + 2)]
        x, (n, r) = part[: -2 * cells], part[-2 * cells :].reshape(2, cells)
        found &= x.min() >= 0 and n.min() >= 0
        found &= bool((np.abs(r) <= layout.reward * layout.spread / layout.visit * (1 + SLACK) * n).all())
        if layout.centre == 0:
            found &= r.min() >= 0
        if layout.centre == 1:
            found &= r.max() <= 0
        found &= bool(part @ part <= layout.limit(sets, share) * (1 + SLACK))
        start += len(part)
    return bool(found)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_compiled_check_says_what_the_readable_one_does(name):
    """Would catch a block that is not looked at, a wrong sign, a vector that is left in the scratch space."""
    layout, rng, seen = LAYOUTS[name], np.random.default_rng(0), {True: 0, False: 0}
    mechanism = ExactWeighted(layout, capacity=10)
    for _ in range(3000):
        n = int(rng.integers(1, 8))
        indices = rng.integers(0, layout.size, n)
        values = rng.normal(size=n) * rng.choice([0.1, 1.0, 3.0])
        if rng.random() < 0.9:
            values = np.abs(values)
        if rng.random() < 0.7:  # visits, so that reward sums are allowed
            first = layout.blocks[0][0] * layout.cells
            cell = int(rng.integers(0, first))
            base = first * layout.spec.states
            reward = (-1.0 if layout.centre == 1 else 1.0) * rng.random()
            indices = np.array([cell * layout.spec.states, base + cell, base + first + cell])
            weight = rng.random() * 3
            values = weight * np.array([1.0, layout.visit, layout.reward * layout.spread * reward * 1.1])
        vector = np.zeros(layout.size)
        np.add.at(vector, indices, values)
        expected = allowed(layout, vector, values)
        seen[expected] += 1
        batch = RawBatch(indices[None], values[None])
        if expected:
            mechanism._check(batch)
        else:
            with pytest.raises(InvalidPersonalData):
                mechanism._check(batch)
    assert min(seen.values()) > 300


def test_one_bad_user_among_many_is_found():
    layout = LAYOUTS["pooled"]
    mechanism = ExactWeighted(layout, capacity=10)
    values = np.full((5, 1), 0.5)
    mechanism._check(RawBatch(np.zeros((5, 1), dtype=np.int64), values))
    for bad in (-0.5, 100.0, np.nan, np.inf):
        values[3] = bad
        with pytest.raises(InvalidPersonalData):
            mechanism._check(RawBatch(np.zeros((5, 1), dtype=np.int64), values))

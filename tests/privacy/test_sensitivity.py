"""Sensitivities by listing all neighbours in small worlds: never exceeded, always attained."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet.mdp import Spec, Trajectory
from discreet.privacy.sensitivity import tabular
from discreet.privatizers.counts.encode import RawEncoder
from discreet.privatizers.counts.layout import Layout

FAMILIES = {"n": ("n",), "m": ("m",), "r": ("r",), "mr": ("m", "r"), "nmr": ("n", "m", "r")}


def vectors(H, stationary):
    """What every possible user adds to each family: rewards 0 and 1 suffice, changes are convex in them."""
    layout = Layout(Spec(2, 2, H), stationary)
    encoder, found = RawEncoder(layout), {family: [] for family in "nmr"}
    for states in itertools.product(range(2), repeat=H + 1):
        for actions in itertools.product(range(2), repeat=H):
            for rewards in itertools.product((0.0, 1.0), repeat=H):
                report = encoder.encode(Trajectory(np.array(states), np.array(actions), np.array(rewards)))
                vector = np.zeros(layout.size)
                np.add.at(vector, report.indices, report.values)
                m, r = layout.starts
                for family, part in zip("nmr", (vector[:m], vector[m:r], vector[r:]), strict=True):
                    found[family].append(part)
    return {family: np.array(rows) for family, rows in found.items()}


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("H", [1, 2, 3])
def test_sensitivities_are_attained_and_never_exceeded(H, stationary):
    """Would catch the papers' H for 2H, and pooled shifts taken for unit shifts."""
    users = vectors(H, stationary)
    for families in FAMILIES.values():
        rows = np.concatenate([users[family] for family in families], axis=1)
        rows = np.unique(rows, axis=0)
        l1 = max(np.abs(rows - row).sum(axis=1).max() for row in rows)
        l2 = max(np.sqrt(((rows - row) ** 2).sum(axis=1)).max() for row in rows)
        claimed = tabular(H, len(families), stationary=stationary)
        assert l1 == pytest.approx(claimed.l1, abs=1e-12)
        assert l2 == pytest.approx(claimed.l2, abs=1e-12)


def test_the_table_of_the_specification():
    assert tabular(20).l1 == 40
    assert tabular(20).l2 == pytest.approx(math.sqrt(40))
    assert tabular(20, 2).l1 == 80
    assert tabular(20, 3).l2 == pytest.approx(math.sqrt(120))
    assert tabular(20, stationary=True).l2 == pytest.approx(math.sqrt(2) * 20)
    assert tabular(20, 2, stationary=True).l2 == pytest.approx(40)
    assert tabular(20, 3, stationary=True).l2 == pytest.approx(math.sqrt(6) * 20)
    for bad in (0, -1, 1.5):
        with pytest.raises(ValueError, match="horizon"):
            tabular(bad)

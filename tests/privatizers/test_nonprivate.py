"""From trajectories to counts, without privacy."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet import privatizers
from discreet.privacy import RawBatch
from tests.conftest import random_mdp


@pytest.mark.parametrize("stationary", [True, False])
def test_counts_are_what_happened(rng, stationary):
    mdp = random_mdp(rng, states=3, actions=2, horizon=4)
    privatizer = privatizers.make(mdp.spec, dc.NonPrivate(), capacity=50, batches=[50], stationary=stationary, rng=rng)
    n, m, r = np.zeros((4, 3, 2)), np.zeros((4, 3, 2, 3)), np.zeros((4, 3, 2))
    reports = []
    for _ in range(50):
        t = mdp.sample(rng.dirichlet(np.ones(2), size=(4, 3)), rng)
        for h in range(4):
            n[h, t.states[h], t.actions[h]] += 1
            m[h, t.states[h], t.actions[h], t.states[h + 1]] += 1
            r[h, t.states[h], t.actions[h]] += t.rewards[h]
        reports.append(privatizer.encoder.encode(t, rng))
    privatizer.collect(privatizer.shuffler(reports, rng))
    counts = privatizer.counts()
    if stationary:
        n, m, r = (x.sum(axis=0, keepdims=True) for x in (n, m, r))
    np.testing.assert_array_equal(counts.visits, n)
    np.testing.assert_array_equal(counts.transitions, m)
    np.testing.assert_allclose(counts.rewards, r, atol=1e-12)
    assert counts.error == 0
    assert privatizer.count == 50


def test_messages_never_show_their_contents(rng):
    mdp = random_mdp(rng)
    privatizer = privatizers.make(mdp.spec, dc.NonPrivate(), capacity=5, batches=[1] * 5, stationary=False, rng=rng)
    report = privatizer.encoder.encode(mdp.sample(mdp.optimal_policy, rng), rng)
    batch = privatizer.shuffler([report], rng)
    assert "not shown" in repr(report)
    assert repr(batch) == "<RawBatch of 1 users: contents not shown>"


def test_the_server_takes_batches_only(rng):
    mdp = random_mdp(rng)
    privatizer = privatizers.make(mdp.spec, dc.NonPrivate(), capacity=5, batches=[1] * 5, stationary=False, rng=rng)
    trajectory = mdp.sample(mdp.optimal_policy, rng)
    report = privatizer.encoder.encode(trajectory, rng)
    for wrong in (trajectory, report, [report]):
        with pytest.raises(TypeError, match="RawBatch"):
            privatizer.collect(wrong)
    assert isinstance(privatizer.shuffler([report], rng), RawBatch)


def test_unknown_trust_models_are_refused(rng):
    with pytest.raises(ValueError, match="trust model"):
        privatizers.make(dc.envs.riverswim().spec, "central", capacity=5, batches=[1] * 5, stationary=False, rng=rng)

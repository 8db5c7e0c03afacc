"""From trajectories to counts, without privacy."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import RawBatch
from discreet.privatizers.make import make
from tests.conftest import random_mdp
from tests.privatizers.parties import at_work, batch_of


def build(mdp, *, stationary=False, batches=(1,) * 5):
    given = {"capacity": sum(batches), "batches": batches, "stationary": stationary}
    return at_work(make("counts", mdp.spec, dc.NonPrivate(), **given))


@pytest.mark.parametrize("stationary", [True, False])
def test_counts_are_what_happened(rng, stationary):
    mdp = random_mdp(rng, states=3, actions=2, horizon=4)
    privatizer = build(mdp, stationary=stationary, batches=[50])
    n, m, r = np.zeros((4, 3, 2)), np.zeros((4, 3, 2, 3)), np.zeros((4, 3, 2))
    people = []
    for _ in range(50):
        t = mdp.sample(rng.dirichlet(np.ones(2), size=(4, 3)), rng)
        for h in range(4):
            n[h, t.states[h], t.actions[h]] += 1
            m[h, t.states[h], t.actions[h], t.states[h + 1]] += 1
            r[h, t.states[h], t.actions[h]] += t.rewards[h]
        people.append(t)
    counts = privatizer.observe(batch_of(privatizer, people, rng))
    if stationary:
        n, m, r = (x.sum(axis=0, keepdims=True) for x in (n, m, r))
    np.testing.assert_array_equal(counts.visits, n)
    np.testing.assert_array_equal(counts.transitions, m)
    np.testing.assert_allclose(counts.rewards, r, atol=1e-12)
    assert counts.error == 0
    assert privatizer.count == 50


def test_messages_never_show_their_contents(rng):
    mdp = random_mdp(rng)
    privatizer = build(mdp)
    report = privatizer.encoder.encode(mdp.sample(mdp.optimal_policy, rng), rng)
    batch = privatizer.mechanism.shuffler()([report], rng)
    assert "not shown" in repr(report)
    assert repr(batch) == "<RawBatch of 1 users: contents not shown>"


def test_the_server_takes_batches_only(rng):
    mdp = random_mdp(rng)
    privatizer = build(mdp)
    trajectory = mdp.sample(mdp.optimal_policy, rng)
    report = privatizer.encoder.encode(trajectory, rng)
    for wrong in (trajectory, report, [report]):
        with pytest.raises(TypeError, match="RawBatch"):
            privatizer.collect(wrong)
        with pytest.raises(TypeError, match="RawBatch"):
            privatizer.observe(wrong)
    assert privatizer.count == privatizer.version == 0
    assert isinstance(privatizer.mechanism.shuffler()([report], rng), RawBatch)


def test_unknown_trust_models_are_refused():
    with pytest.raises(ValueError, match="trust model"):
        make("counts", dc.envs.riverswim().spec, "central", capacity=5, batches=[1] * 5, stationary=False)
    with pytest.raises(ValueError, match="unknown thing to ask 'conts': did you mean 'counts'"):
        make("conts")

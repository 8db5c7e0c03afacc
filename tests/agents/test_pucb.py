"""UBEV against a literal transcription of PrivQ (PUCB, Algorithm 3)."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import discreet as dc
from discreet.privatizers import PrivateCounts
from tests import reference
from tests.agents.test_dp_ucbvi import planted
from tests.conftest import plant, random_mdp


@pytest.mark.parametrize("size", [3, 1e3, 1e7])
@pytest.mark.parametrize("preset", ["theory", "practical"])
@pytest.mark.parametrize(("states", "actions", "horizon"), [(4, 3, 5), (1, 2, 3), (3, 1, 1)])
def test_plan_equals_the_pseudo_code_on_planted_counts(rng, preset, size, states, actions, horizon):
    mdp = random_mdp(rng, states, actions, horizon)
    agent = dc.agents.make("ubev", mdp.spec, episodes=1000, preset=preset, bonus_scale=0.7, seed=0)
    for _ in range(3):
        n, m, r = planted(rng, mdp, size)
        Q, V, policy = reference.privq(n, m, r, K=1000, beta=0.05, preset=preset, scale=0.7)
        plant(agent, PrivateCounts(n, m, r))
        np.testing.assert_allclose(agent.Q, Q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(agent.V, V, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(agent.policy, policy)


@pytest.mark.parametrize("stationary", [True, False])
def test_whole_runs_equal_the_pseudo_code(rng, stationary):
    mdp = random_mdp(rng, 3, 2, 4)
    K = 120
    agent = dc.agents.make("ubev", mdp.spec, episodes=K, stationary=stationary, seed=0)
    result = dc.simulate(agent, mdp, seed=3)
    people = dc.noise.stream(dc.noise.seed_sequence(3), dc.noise.Role.PEOPLE)
    privq = functools.partial(reference.privq, K=K, beta=0.05, preset="practical")
    played, Q, _ = reference.run(
        lambda n, m, r, _: privq(n, m, r), mdp, mdp.draws(people, K), stationary=stationary, update_every=1
    )
    np.testing.assert_allclose(result.gaps, [mdp.optimal_value - mdp.evaluate(p) for p in played], atol=1e-12)
    np.testing.assert_allclose(agent.Q, Q, atol=1e-12)


@pytest.mark.parametrize("size", [1e6, 1e8])
def test_theory_is_optimistic_half_a_bonus_below_the_truth(rng, size):
    """Estimates are planted half a bonus too low: a whole bonus makes up for that, a tenth of it must not."""
    P = rng.dirichlet(np.ones(3), size=(4, 3, 2))
    r = 0.4 + 0.2 * rng.random((4, 3, 2))
    mdp = dc.TabularMDP(P, r)
    Q_star, _ = reference.backward_induction(P, r)
    N = np.full((4, 3, 2), size)
    half = (4 + 1) * np.sqrt(2 * np.log(1000 / (0.05 / 4)) / size) / 2
    optimistic = {}
    for scale in (1.0, 0.1):
        agent = dc.agents.make("ubev", mdp.spec, episodes=1000, preset="theory", bonus_scale=scale, seed=0)
        plant(agent, PrivateCounts(N, N[..., None] * P, N * (r - half)))
        optimistic[scale] = bool((Q_star <= agent.Q).all())
        if scale == 1.0:
            assert (agent.Q < 4).mean() >= 0.5
    assert optimistic == {1.0: True, 0.1: False}


@pytest.mark.parametrize("stationary", [True, False])
def test_practical_learns_riverswim(stationary):
    """Must show: regret of the last 1,000 of 5,000 episodes below a tenth of never learning."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    never = mdp.optimal_value - mdp.evaluate(np.full((20, 6, 2), 0.5))
    for seed in range(3):
        agent = dc.agents.make("ubev", mdp.spec, episodes=5000, stationary=stationary, seed=seed)
        assert dc.simulate(agent, mdp, seed=seed).gaps[-1000:].mean() < never / 10

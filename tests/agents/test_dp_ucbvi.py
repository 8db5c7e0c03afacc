"""UCBVI against a literal transcription of DP-UCBVI's Algorithm 1 without noise."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import discreet as dc
from discreet.privatizers import PrivateCounts
from tests import reference
from tests.conftest import plant, random_mdp


def planted(rng, mdp, size, *, zeros=0.2):
    """Random counts of about ``size`` a cell, some of them zero; rewards may exceed the visits (they get clipped)."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    M = np.floor(rng.random((H, S, A, S)) * 2 * size / S) * (rng.random((H, S, A, 1)) > zeros)
    N = M.sum(axis=3)
    return N, M, N * rng.random((H, S, A)) * 1.2


@pytest.mark.parametrize("size", [3, 1e3, 1e7, 1e11])
@pytest.mark.parametrize("preset", ["theory", "practical"])
@pytest.mark.parametrize(("states", "actions", "horizon"), [(4, 3, 5), (1, 2, 3), (3, 1, 1)])
def test_plan_equals_the_pseudo_code_on_planted_counts(rng, preset, size, states, actions, horizon):
    mdp = random_mdp(rng, states, actions, horizon)
    agent = dc.agents.make("ucbvi", mdp.spec, episodes=1000, preset=preset, bonus_scale=0.7, seed=0)
    Q = np.full((horizon, states, actions), float(horizon))
    for _ in range(3):  # Q_k = min(Q_{k−1}, …) remembers
        N, M, R = planted(rng, mdp, size)
        Q, V, policy = reference.ucbvi_plan(N, M, R, Q, K=1000, beta=0.05, preset=preset, scale=0.7)
        plant(agent, PrivateCounts(N, M, R))
        np.testing.assert_allclose(agent.Q, Q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(agent.V, V, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(agent.policy, policy)


def test_equal_values_have_no_variance(rng):
    """Would catch a variance E[V²] − E[V]², which makes bonuses of rounding errors and breaks ties by them."""
    mdp = random_mdp(rng, 7, 3, 2)
    agent = dc.agents.make("ucbvi", mdp.spec, episodes=1000, seed=0)
    M = np.zeros((2, 7, 3, 7))
    M[0] = np.floor(rng.random((7, 3, 7)) * 1e6)  # the second step is unvisited: V = 1 everywhere
    N = M.sum(axis=3)
    plant(agent, PrivateCounts(N, M, np.zeros((2, 7, 3))))
    iota = np.log(30 * 2 * 7 * 3 * 1000 * 2 / 0.05)
    np.testing.assert_allclose(agent.Q[0], 1 + 0.06 * iota / N[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("preset", ["theory", "practical"])
def test_pooled_counts_plan_like_equal_counts_at_every_step(rng, preset):
    mdp = random_mdp(rng, 4, 3, 5)
    N, M, R = (x[:1] for x in planted(rng, mdp, 1e4))
    pooled = dc.agents.make("ucbvi", mdp.spec, episodes=1000, preset=preset, stationary=True, seed=0)
    steps = dc.agents.make("ucbvi", mdp.spec, episodes=1000, preset=preset, seed=0)
    plant(pooled, PrivateCounts(N, M, R))
    plant(steps, PrivateCounts(*(np.repeat(x, 5, axis=0) for x in (N, M, R))))
    np.testing.assert_array_equal(pooled.Q, steps.Q)


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("preset", ["theory", "practical"])
@pytest.mark.parametrize("update_every", [1, 7])
def test_whole_runs_equal_the_pseudo_code(rng, preset, stationary, update_every):
    mdp = random_mdp(rng, 3, 2, 4, reward_noise="bernoulli")
    K = 120
    agent = dc.agents.make(
        "ucbvi", mdp.spec, episodes=K, preset=preset, stationary=stationary, update_every=update_every, seed=0
    )
    result = dc.simulate(agent, mdp, seed=3)
    people = dc.noise.stream(dc.noise.seed_sequence(3), dc.noise.Role.PEOPLE)
    plan = functools.partial(reference.ucbvi_plan, K=K, beta=0.05, preset=preset)
    played, Q, V = reference.run(plan, mdp, mdp.draws(people, K), stationary=stationary, update_every=update_every)
    gaps = [mdp.optimal_value - mdp.evaluate(policy) for policy in played]
    np.testing.assert_allclose(result.gaps, gaps, atol=1e-12)
    np.testing.assert_allclose(agent.Q, Q, atol=1e-12)
    np.testing.assert_allclose(agent.V, V, atol=1e-12)


@pytest.mark.parametrize("size", [1e6, 1e8, 1e11])
def test_theory_is_optimistic_half_a_bonus_below_the_truth(rng, size):
    """Estimates are planted half a bonus too low: a whole bonus makes up for that, a tenth of it must not."""
    P = rng.dirichlet(np.ones(3), size=(4, 3, 2))
    r = 0.4 + 0.2 * rng.random((4, 3, 2))
    mdp = dc.TabularMDP(P, r)
    Q_star, _ = reference.backward_induction(P, r)
    N = np.full((4, 3, 2), size)
    R, V = np.zeros_like(N), np.zeros((5, 3))
    for h in reversed(range(4)):  # the shift at a step depends on the values behind it
        for s in range(3):
            for a in range(2):
                N_next = N[h + 1].sum(axis=1) if h < 3 else None
                b = reference.dp_ucbvi_bonus(
                    h + 1, size, P[h, s, a], V[h + 1], N_next, H=4, S=3, A=2, K=1000, beta=0.05, E=0
                )
                R[h, s, a] = size * (r[h, s, a] - b / 2)
                V[h, s] = max(V[h, s], min(4, r[h, s, a] - b / 2 + P[h, s, a] @ V[h + 1] + b))
    optimistic = {}
    for scale in (1.0, 0.1):
        agent = dc.agents.make("ucbvi", mdp.spec, episodes=1000, preset="theory", bonus_scale=scale, seed=0)
        plant(agent, PrivateCounts(N, N[..., None] * P, R))
        optimistic[scale] = bool((Q_star <= agent.Q).all())
        if scale == 1.0:
            assert (agent.Q < 4).mean() >= 0.5
    assert optimistic == {1.0: True, 0.1: False}


def test_practical_learns_riverswim():
    """Must show: pooled, 5,000 episodes, 5 seeds: mean regret below 60, below 2 in the last 1,000."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    results = [
        dc.simulate(
            dc.agents.make("ucbvi", mdp.spec, episodes=5000, preset="practical", stationary=True, seed=seed),
            mdp,
            seed=seed,
        )
        for seed in range(5)
    ]
    assert np.mean([result.regret[-1] for result in results]) < 60
    assert np.mean([result.gaps[-1000:].sum() for result in results]) < 2


@pytest.mark.parametrize("name", ["riverswim", "chain", "random", "gridworld"])
def test_practical_learns_elsewhere(name):
    mdp = dc.envs.make(name)
    agent = dc.agents.make("ucbvi", mdp.spec, episodes=5000, stationary=True, seed=0)
    uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
    never = mdp.optimal_value - mdp.evaluate(uniform)
    assert dc.simulate(agent, mdp, seed=0).gaps[-500:].mean() < 0.05 * never

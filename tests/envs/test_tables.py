"""Gymnasium's own tables, and stepping Gymnasium's own environments, against ours."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from scipy import stats

import discreet as dc

CASES = {
    "frozenlake": ("FrozenLake-v1", {"horizon": 30}),
    "cliffwalking": ("CliffWalking-v1", {"horizon": 30}),
    "taxi": ("Taxi-v4", {"horizon": 30}),
}
SLIPPERY = ("CliffWalkingSlippery-v1", {"horizon": 30, "is_slippery": True})  # pays −1 and −100 on one transition


@pytest.mark.parametrize("name", CASES)
def test_tables_agree_with_gymnasiums(name):
    id_, parameters = CASES[name]
    env, mdp = gymnasium.make(id_).unwrapped, dc.envs.make(name, **parameters)
    assert (mdp.states, mdp.actions) == (env.observation_space.n, env.action_space.n)
    low, high = mdp.reward_range
    ends = {s_ for row in env.P.values() for cell in row.values() for _, s_, _, end in cell if end}
    for s in range(mdp.states):
        for a in range(mdp.actions):
            P, paid = np.zeros(mdp.states), np.zeros(mdp.states)
            for p, s_, reward, _ in env.P[s][a]:
                P[s_] += p
                paid[s_] += p * reward
            if s in ends:  # absorbing, without reward: 0 in Gymnasium's units
                P, paid = np.eye(mdp.states)[s], np.zeros(mdp.states)
            np.testing.assert_allclose(mdp.transitions[0, s, a], P, atol=1e-12)
            got = mdp.transition_rewards[0, s, a] * (high - low) + low
            np.testing.assert_allclose((got * P)[P > 0], paid[P > 0], atol=1e-12)
    np.testing.assert_allclose(mdp.initial, env.initial_state_distrib, atol=1e-12)


def stepped_returns(id_, policy, episodes, horizon, seed):
    """Plays in Gymnasium and returns the undiscounted returns."""
    env, rng = gymnasium.make(id_).unwrapped, np.random.default_rng(seed)
    env.reset(seed=seed)
    cumulative, returns = np.cumsum(policy, axis=2), np.zeros(episodes)
    for k in range(episodes):
        s, _ = env.reset()
        u = rng.random(horizon)
        for h in range(horizon):
            a = int(np.argmax(cumulative[h, s] > u[h]))
            s, reward, terminated, _, _ = env.step(a)
            returns[k] += reward
            if terminated:
                break
    return returns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "id_", "parameters"), [(name, *case) for name, case in CASES.items()] + [("cliffwalking", *SLIPPERY)]
)
def test_sampled_episodes_agree_with_stepping_gymnasium(name, id_, parameters):
    """Chi-square on the returns of 10,000 episodes each; would catch a reward paid after the end, or not rescaled."""
    mdp = dc.envs.make(name, **parameters)
    H = mdp.horizon
    policy = 0.7 * np.eye(mdp.actions)[mdp.optimal_policy] + 0.3 / mdp.actions  # reaches ends, and errs
    low, high = mdp.reward_range
    _, _, rewards = mdp.sample_many(policy, np.random.default_rng(0), 10_000)
    ours = np.round((rewards * (high - low) + low).sum(axis=1), 6)
    theirs = np.round(stepped_returns(id_, policy, 10_000, H, seed=1), 6)
    assert _agreement(ours, theirs) > 1e-6
    assert len(np.unique(theirs)) > 1
    worse = 0.9 * np.eye(mdp.actions)[mdp.optimal_policy] + 0.1 / mdp.actions  # and the test has power
    assert _agreement(ours, np.round(stepped_returns(id_, worse, 10_000, H, seed=1), 6)) < 1e-6


def _agreement(one, two):
    """Returns the p-value of a chi-square test that two samples have one distribution; rare values are merged."""
    values = np.unique(np.concatenate([one, two]))
    table = np.array([[(sample == value).sum() for value in values] for sample in (one, two)])
    rare = table.sum(axis=0) < 40
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return stats.chi2_contingency(table).pvalue


class Passing:
    """A state that ends the episode on one way in and not on the other."""

    P = {  # noqa: RUF012
        0: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 1, 1.0, True)]},
        1: {0: [(1.0, 0, 0.5, False)], 1: [(0.5, 0, 0.0, False), (0.5, 1, 1.0, True)]},
    }
    initial_state_distrib = np.array([1.0, 0.0])


def test_a_state_that_only_sometimes_ends_the_episode_gets_a_double():
    mdp = dc.envs.from_gymnasium(Passing(), horizon=3)
    assert mdp.states == 3
    np.testing.assert_allclose(mdp.transitions[0, 0], [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(mdp.transitions[0, 1], [[1, 0, 0], [0.5, 0, 0.5]])
    np.testing.assert_allclose(mdp.transitions[0, 2], [[0, 0, 1], [0, 0, 1]])
    np.testing.assert_allclose(mdp.rewards[0], [[0, 1], [0.5, 0.5], [0, 0]])
    assert mdp.initial.tolist() == [1, 0, 0]


def test_rescaling_is_explicit_and_keeps_the_order_of_returns():
    """Wandering about costs 1 a step: a cliff walker must still want to arrive."""
    mdp = dc.envs.cliffwalking(horizon=50)
    assert mdp.optimal_value == pytest.approx((50 * 100 - 13) / 100)
    with pytest.raises(ValueError, match="reward_range"):
        dc.envs.from_gymnasium("CliffWalking-v1", 50)


def test_only_finite_environments_can_be_used():
    with pytest.raises(ValueError, match="no transition table"):
        dc.envs.from_gymnasium("CartPole-v1", 10)


def test_different_rewards_on_one_transition_are_paid_as_they_come():
    class Lottery:
        P = {0: {0: [(0.5, 0, 1.0, False), (0.5, 0, 0.0, False)]}}  # noqa: RUF012

    mdp = dc.envs.from_gymnasium(Lottery(), horizon=1, initial=0)
    assert mdp.rewards[0, 0, 0] == 0.5
    _, _, rewards = mdp.sample_many(np.zeros((1, 1), dtype=int), np.random.default_rng(0), 1000)
    assert set(rewards.ravel()) == {0.0, 1.0}


def table(**changes):
    env = Passing()
    for name, value in changes.items():
        setattr(env, name, value)
    return env


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (table(), {"initial": 7}, "initial=7"),
        (table(), {"initial": -1}, "initial=-1"),
        (table(), {"initial": [1.0]}, r"shape \(2,\)"),
        (table(initial_state_distrib=None), {}, "give initial="),
        (table(P=[[[(1.0, 5, 0.0, False)]]]), {"initial": 0}, r"P\[0\]\[0\] leads out"),
        (table(P=[[[(1.0, 0, 0.0, False)]], []]), {"initial": 0}, "same actions"),
        (table(P={0: {0: "x"}}), {"initial": 0}, "must list"),
        (table(P=[[[(0.9, 0, 0.0, False)]]]), {"initial": 0}, "must sum to 1"),
        (gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), abs), {}, "TransformReward"),
    ],
)
def test_odd_environments_are_refused_by_name(env, options, message):
    with pytest.raises(ValueError, match=message):
        dc.envs.from_gymnasium(env, horizon=3, **options)


def test_tables_may_be_lists():
    mdp = dc.envs.from_gymnasium(table(P=[[[(1.0, 0, 0.5, False)]]]), horizon=3, initial=0)
    assert mdp.optimal_value == pytest.approx(1.5)

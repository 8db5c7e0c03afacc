"""Our environments are what their descriptions say."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import discreet as dc
from discreet import testing


@pytest.mark.parametrize("name", dc.envs.NAMES)
def test_every_environment_passes_the_checker(name):
    testing.check_env(dc.envs.make(name), episodes=5_000)


def test_riverswim_is_the_papers():
    mdp = dc.envs.make("riverswim", states=6, horizon=20)
    assert mdp.optimal_value == pytest.approx(3.3973, abs=1e-4)
    P, r = mdp.transitions[7], mdp.rewards[7]
    for s in range(6):
        assert P[s, 0, max(s - 1, 0)] == 1
    np.testing.assert_allclose(P[0, 1], [0.4, 0.6, 0, 0, 0, 0])
    np.testing.assert_allclose(P[3, 1], [0, 0, 0.05, 0.6, 0.35, 0])
    np.testing.assert_allclose(P[5, 1], [0, 0, 0, 0, 0.4, 0.6])
    expected = np.zeros((6, 2))
    expected[0, 0], expected[5, 1] = 0.005, 1
    np.testing.assert_array_equal(r, expected)
    assert mdp.initial[0] == 1
    bernoulli = dc.envs.riverswim(reward_noise="bernoulli")
    assert bernoulli.optimal_value == mdp.optimal_value


def test_hard_is_the_class_of_the_lower_bound():
    """PUCB Section 6.2: parallel bandits, an episode earns H or 0."""
    mdp = dc.envs.hard(bandits=2, actions=3, horizon=4, gap=0.2, best=[2, 0])
    P = mdp.transitions[0]
    np.testing.assert_allclose(P[0, :, 2], [0.6, 0.5, 0.7])
    np.testing.assert_allclose(P[1, :, 2], [0.6, 0.5, 0.5])
    np.testing.assert_allclose(mdp.initial, [0.5, 0.5, 0, 0])
    assert mdp.optimal_value == pytest.approx(4 * (0.7 + 0.6) / 2)
    _, _, rewards = mdp.sample_many(np.zeros((4, 4), dtype=int), np.random.default_rng(0), 500)
    assert set(rewards.sum(axis=1)) == {0.0, 4.0}


def test_gridworld_moves_as_it_says():
    mdp = dc.envs.gridworld(rows=2, columns=3, horizon=4, slip=0.0)
    step = functools.partial(np.argmax, axis=-1)(mdp.transitions[0])
    np.testing.assert_array_equal(step[0], [0, 1, 3, 0])  # up, right, down, left from the top left corner
    np.testing.assert_array_equal(step[4], [1, 5, 4, 3])
    assert mdp.optimal_value == pytest.approx(1)  # three moves, and one step at the goal


def test_chain_slips():
    mdp = dc.envs.chain(states=3, horizon=2, slip=0.1)
    np.testing.assert_allclose(mdp.transitions[0, 1], [[0.9, 0, 0.1], [0.1, 0, 0.9]])


def test_random_is_fixed_by_its_seed():
    one, two, three = (dc.envs.random(seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.transitions, two.transitions)
    assert not np.array_equal(one.transitions, three.transitions)
    assert len(np.unique(dc.envs.random(per_step=True).rewards, axis=0)) > 1


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("riverswm", {}, "did you mean 'riverswim'"),
        ("riverswim", {"hrizon": 3}, "did you mean 'horizon'"),
        ("riverswim", {"horizon": -1}, "horizon=-1"),
        ("riverswim", {"states": 1}, "states=1"),
        ("riverswim", {"states": "many"}, "states='many'"),
        ("chain", {"slip": 1.5}, "slip=1.5"),
        ("hard", {"gap": 0.7}, "gap=0.7"),
        ("hard", {"best": [0, 1]}, r"best=\[0, 1\]"),
        ("hard", {"best": 3}, "best=3"),
        ("random", {"concentration": 0}, "concentration=0"),
        ("random", {"per_step": "maybe"}, "per_step='maybe'"),
        ("gridworld", {"rows": 0}, "rows=0"),
        ("frozenlake", {"map_name": "9x9"}, "'9x9'"),
        ("taxi", {"reward_range": (0, 1)}, r"\[-10, 20\]"),
        ("taxi", {"reward_range": 3}, "reward_range=3"),
    ],
)
def test_bad_parameters_are_named(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        dc.envs.make(name, **parameters)

"""Exact values against enumeration and textbook recursions; sampling against the probabilities it claims."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from tests import reference
from tests.conftest import random_mdp


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("per_step", [True, False])
def test_optimum_is_the_best_of_all_policies(seed, per_step):
    """Would catch any error in backward induction, evaluation or the weighting by the initial distribution."""
    mdp = random_mdp(np.random.default_rng(seed), per_step=per_step)
    H, S, A = 3, 2, 2
    values = [
        reference.policy_value(mdp.transitions, mdp.rewards, mdp.initial, np.reshape(actions, (H, S)))
        for actions in itertools.product(range(A), repeat=H * S)
    ]
    assert mdp.optimal_value == pytest.approx(max(values), abs=1e-12)
    best = np.reshape(list(itertools.product(range(A), repeat=H * S))[int(np.argmax(values))], (H, S))
    assert mdp.evaluate(best) == pytest.approx(mdp.optimal_value, abs=1e-12)
    assert mdp.evaluate(mdp.optimal_policy) == pytest.approx(mdp.optimal_value, abs=1e-12)


@pytest.mark.parametrize("per_step", [True, False])
def test_values_equal_the_textbook_recursion(rng, per_step):
    mdp = random_mdp(rng, states=7, actions=3, horizon=6, per_step=per_step)
    _, V = reference.backward_induction(mdp.transitions, mdp.rewards)
    np.testing.assert_allclose(mdp.optimal_values, V, atol=1e-12)
    deterministic = rng.integers(3, size=(6, 7))
    mixed = rng.dirichlet(np.ones(3), size=(6, 7))
    for policy in (deterministic, mixed):
        expected = reference.policy_value(mdp.transitions, mdp.rewards, mdp.initial, policy)
        assert mdp.evaluate(policy) == pytest.approx(expected, abs=1e-12)
    many = rng.integers(3, size=(5, 6, 7))
    many[3] = many[2]
    np.testing.assert_allclose(mdp.evaluate_many(many), [mdp.evaluate(p) for p in many], atol=1e-14)
    one_hot = np.eye(3)[deterministic]
    assert mdp.evaluate(one_hot) == pytest.approx(mdp.evaluate(deterministic), abs=1e-14)


def test_rewards_on_transitions_are_averaged_and_paid(rng):
    """Would catch a simulator that pays the mean where the reward depends on where one lands."""
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    R = rng.integers(2, size=(3, 2, 3)).astype(float)
    mdp = dc.TabularMDP(P, transition_rewards=R, horizon=4)
    np.testing.assert_allclose(mdp.rewards[2], (P * R).sum(axis=2), atol=1e-15)
    states, actions, rewards = mdp.sample_many(np.zeros((4, 3), dtype=int), rng, 100)
    np.testing.assert_array_equal(rewards, R[states[:, :-1], actions, states[:, 1:]])


@pytest.mark.parametrize("reward_noise", ["deterministic", "bernoulli"])
@pytest.mark.parametrize("per_step", [True, False])
def test_sampling_equals_inverting_the_distributions(rng, per_step, reward_noise):
    """Person for person: would catch a draw used twice, out of order, or a wrong row of the sparse tables."""
    mdp = random_mdp(rng, states=4, actions=3, horizon=5, per_step=per_step, reward_noise=reward_noise)
    for policy in (rng.integers(3, size=(5, 4)), rng.dirichlet(np.ones(3), size=(5, 4))):
        draws = np.random.default_rng(5).random((200, 1 + 3 * 5))
        got = mdp.sample_many(policy, np.random.default_rng(5), 200)
        for k in range(200):
            expected = reference.sample_episode(
                mdp.transitions, mdp.transition_rewards, mdp.initial, policy, draws[k], reward_noise == "bernoulli"
            )
            for array, other in zip(got, expected, strict=True):
                np.testing.assert_array_equal(array[k], other)


def test_sampled_transitions_have_their_probabilities(rng):
    """Chi-square with power: the same test rejects distributions that are 5 % off."""
    mdp = dc.TabularMDP(np.tile([0.2, 0.3, 0.5], (1, 3, 1, 1)), np.zeros((1, 3, 1)), initial=[0.5, 0.3, 0.2])
    states, _, _ = mdp.sample_many(np.zeros((1, 3), dtype=int), rng, 300_000)
    for s in range(3):
        seen = np.bincount(states[states[:, 0] == s, 1], minlength=3)
        assert stats.chisquare(seen, seen.sum() * np.array([0.2, 0.3, 0.5])).pvalue > 1e-6
        assert stats.chisquare(seen, seen.sum() * np.array([0.21, 0.315, 0.475])).pvalue < 1e-6
    first = np.bincount(states[:, 0], minlength=3)
    assert stats.chisquare(first, 300_000 * mdp.initial).pvalue > 1e-6


def test_impossible_outcomes_are_never_drawn():
    """The largest and smallest draws land on possible successors, even where probabilities do not add up exactly."""
    P = np.zeros((3, 1, 3))
    P[:, 0] = [0.0, 1 - 1e-9, 0.0]
    mdp = dc.TabularMDP(P, np.zeros((3, 1)), initial=[0.0, 1.0, 0.0], horizon=1)

    class Extreme:
        def __init__(self, u):
            self.u = u

        def random(self, shape):
            return np.full(shape, self.u)

    for u in (0.0, 1 - 2**-53):
        states, _, _ = mdp.sample_many(np.zeros((1, 3), dtype=int), Extreme(u), 1)
        np.testing.assert_array_equal(states, [[1, 1]])


def test_dynamics_of_all_steps_are_stored_once():
    """A long horizon must not cost memory."""
    mdp = dc.envs.riverswim(states=50, horizon=10_000)
    assert mdp.transitions.shape == (10_000, 50, 2, 50)
    assert mdp.transitions.strides[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        mdp.transitions[0, 0, 0, 0] = 1.0


GOOD = np.full((2, 3, 2, 3), 1 / 3)


def _with(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transitions": _with(GOOD, (1, 2, 0), [0.3, 0.3, 0.3])}, r"transitions\[h=1, s=2, a=0\] must sum to 1.*0\.9"),
        ({"transitions": _with(GOOD, (1, 0, 1, 2), np.nan)}, r"transitions\[h=1, s=0, a=1, next=2\].*nan"),
        ({"transitions": _with(GOOD, (0, 0, 0), [-0.5, 0.5, 1.0])}, r"h=0, s=0, a=0, next=0.*-0\.5"),
        ({"transitions": np.full((2, 3, 2, 4), 0.25)}, r"\(3, 2, 4\)"),
        ({"transitions": [1.0]}, r"axes.*\(1,\)"),
        ({"transitions": "x"}, "numbers"),
        ({"rewards": _with(np.zeros((3, 2)), (2, 1), 1.5)}, r"rewards\[h=0, s=2, a=1\] must lie in \[0, 1\], got 1\.5"),
        ({"rewards": _with(np.zeros((3, 2)), (0, 1), np.nan)}, r"s=0, a=1.*nan"),
        ({"rewards": np.zeros((2, 2))}, "do not fit"),
        ({"rewards": np.zeros((3, 3, 2))}, r"length \(2, 3\)"),
        ({"rewards": None}, "either"),
        ({"transitions": GOOD[0]}, "give horizon="),
        ({"horizon": 3}, "horizon=3"),
        ({"horizon": -1}, "horizon=-1"),
        ({"initial": 3}, "initial=3"),
        ({"initial": [0.5, 0.6, 0.0]}, r"1\.1"),
        ({"initial": [np.nan, 0.5, 0.5]}, r"initial\[0\]"),
        ({"reward_noise": "gaussian"}, "'gaussian'"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        dc.TabularMDP(**{"transitions": GOOD, "rewards": np.zeros((3, 2)), **arguments})


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((2, 4), dtype=int), r"\(2, 3\) or \(2, 3, 2\), got \(2, 4\)"),
        (np.zeros((2, 3)), "integers"),
        (np.full((2, 3), 2), r"policy\[h=0, s=0\].*got 2"),
        (np.full((2, 3), -1), "got -1"),
        (np.full((2, 3, 2), 0.4), r"policy\[h=0, s=0\] must sum to 1"),
        (np.full((2, 3, 2), np.nan), "a=0"),
    ],
)
def test_bad_policies_are_named(policy, message):
    mdp = dc.TabularMDP(GOOD, np.zeros((3, 2)))
    with pytest.raises(ValueError, match=message):
        mdp.evaluate(policy)
    with pytest.raises(ValueError, match=message):
        mdp.sample(policy, np.random.default_rng(0))

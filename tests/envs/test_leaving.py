"""People who leave: one more state, from which nobody comes back."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.errors import InvalidInput


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "name", ["riverswim:states=4,horizon=5", "random:states=3,horizon=4,per_step=true", "frozenlake"]
)
def test_rewards_come_as_long_as_people_stay(name, chance):
    """The value is what a literal sum over the step after which somebody leaves gives."""
    mdp = dc.envs.read(name)
    found = dc.envs.leaving(mdp, chance)
    S, H = mdp.states, mdp.horizon
    assert (found.states, found.actions, found.horizon) == (S + 1, mdp.actions, H)
    policy = np.random.default_rng(1).integers(mdp.actions, size=(H, S + 1))
    state, value = mdp.initial, 0.0
    for h in range(H):
        played = policy[h, :S]
        value += (1 - chance) ** h * (state @ mdp.rewards[h, np.arange(S), played])
        state = state @ mdp.transitions[h, np.arange(S), played]
    assert found.evaluate(policy) == pytest.approx(value)


def test_nobody_comes_back_and_people_are_the_same():
    mdp = dc.envs.riverswim(states=4, horizon=9)
    policy = np.ones((9, 5), dtype=int)
    stay = mdp.sample_many(policy[:, :4], np.random.default_rng(1), 300)
    same = dc.envs.leaving(mdp, 0.0).sample_many(policy, np.random.default_rng(1), 300)
    assert all(map(np.array_equal, stay, same))
    states, _, rewards = dc.envs.leaving(mdp, 0.2).sample_many(policy, np.random.default_rng(1), 300)
    gone = states == 4
    assert 0.5 < gone[:, -1].mean() < 1  # 1 − 0.8⁹ = 0.87
    assert (gone[:, 1:] >= gone[:, :-1]).all()
    assert (rewards[gone[:, :-1]] == 0).all()


def test_only_tables_can_be_left():
    with pytest.raises(InvalidInput, match="TabularMDP"):
        dc.envs.leaving(dc.envs.linear_mixture(), 0.1)
    with pytest.raises(InvalidInput, match="chance"):
        dc.envs.leaving(dc.envs.riverswim(), 1.5)

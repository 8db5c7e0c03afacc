"""Ours in Gymnasium."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import discreet as dc
from discreet.envs.registration import IDS, TabularEnv


@pytest.mark.parametrize("id_", IDS)
def test_ours_pass_gymnasiums_checker(id_):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(id_).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("order", ["import discreet, gymnasium", "import gymnasium, discreet"])
def test_importing_both_is_enough(python, order):
    code = f"{order}; print(gymnasium.make('discreet/RiverSwim-v0', states=4, horizon=9).unwrapped.mdp)"
    assert python(code) == "<TabularMDP 'riverswim': 4 states, 2 actions, horizon 9>"


def test_stepping_agrees_with_sampling():
    """Mean returns within five standard errors, for step-dependent dynamics and Bernoulli rewards."""
    mdp = dc.envs.random(states=3, actions=2, horizon=4, per_step=True, reward_noise="bernoulli", concentration=1.0)
    env, returns = TabularEnv(mdp), []
    env.reset(seed=0)
    for _ in range(4000):
        s, _ = env.reset()
        total, over = 0.0, False
        while not over:
            s, reward, _, over, info = env.step(np.int64(s % 2))
            total += reward
        returns.append(total)
        assert info["step"] == 4
    policy = np.tile(np.arange(3) % 2, (4, 1))
    assert np.mean(returns) == pytest.approx(mdp.evaluate(policy), abs=5 * np.std(returns) / np.sqrt(4000))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))
    env.reset()
    with pytest.raises(gymnasium.error.InvalidAction):
        env.step(np.int64(2))


def test_a_mere_look_at_gymnasium_does_not_lose_the_registration(python):
    code = (
        "import discreet, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium; "
        "print('discreet/RiverSwim-v0' in gymnasium.registry)"
    )
    assert python(code) == "True"

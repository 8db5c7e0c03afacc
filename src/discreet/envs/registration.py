"""Gymnasium out: every `FiniteMDP` is a Gymnasium environment, and ours are registered under ``discreet/``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from discreet import envs
from discreet.mdp.policy import cumulate

if TYPE_CHECKING:
    from discreet.mdp import FiniteMDP

__all__ = ["IDS", "TabularEnv", "make_env", "register"]

#: Gymnasium's id of each of our environments.
IDS: dict[str, str] = {
    "discreet/RiverSwim-v0": "riverswim",
    "discreet/Chain-v0": "chain",
    "discreet/Hard-v0": "hard",
    "discreet/Random-v0": "random",
    "discreet/GridWorld-v0": "gridworld",
    "discreet/LinearMixture-v0": "linear_mixture",
}


class TabularEnv(gymnasium.Env[np.int64, np.int64]):
    """Steps through a `FiniteMDP`.

    Observations are states, ``info["step"]`` is h (from 0). After H steps an episode is truncated.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, mdp: FiniteMDP, render_mode: None = None) -> None:
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Discrete(mdp.states)
        self.action_space = gymnasium.spaces.Discrete(mdp.actions)
        self._initial = cumulate(mdp.initial)
        self._state, self._step = 0, mdp.horizon

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed, options=options)
        self._step = 0
        self._state = int(np.argmax(self._initial > self.np_random.random()))
        return np.int64(self._state), {"step": 0}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Takes one step."""
        if self._step >= self.mdp.horizon:
            raise gymnasium.error.ResetNeeded(f"the episode is over after {self.mdp.horizon} steps: call reset()")
        if not self.action_space.contains(action):
            raise gymnasium.error.InvalidAction(f"action must lie in [0, {self.mdp.actions}), got {action!r}")
        tables, (u_next, u_reward) = self.mdp.sample_tables, self.np_random.random(2)
        row = (self._step * tables.per_step * self.mdp.states + self._state) * self.mdp.actions + int(action)
        start, stop = tables.offsets[row], tables.offsets[row + 1]
        i = start + int(np.argmax(tables.cumulative[start:stop] > u_next))
        reward = float(tables.outcomes[i])
        if tables.bernoulli:
            reward = float(u_reward < reward)
        self._state = int(tables.successors[i])
        self._step += 1
        return np.int64(self._state), reward, False, self._step == self.mdp.horizon, {"step": self._step}


def make_env(name: str, render_mode: None = None, **parameters: Any) -> TabularEnv:
    """Returns one of our environments by its name here; the entry point of the registered ids."""
    return TabularEnv(envs.make(name, **parameters), render_mode=render_mode)


def register() -> None:
    """Registers our environments with Gymnasium; a second call does nothing."""
    for id_, name in IDS.items():
        if id_ not in gymnasium.registry:
            gymnasium.register(id_, entry_point="discreet.envs.registration:make_env", kwargs={"name": name})

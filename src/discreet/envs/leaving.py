"""People who leave in the middle: an environment with one more state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, check_fraction
from discreet.mdp import TabularMDP

if TYPE_CHECKING:
    from discreet.mdp import FiniteMDP

__all__ = ["leaving"]


def leaving(mdp: FiniteMDP, chance: float) -> TabularMDP:
    """Returns an environment whose people may leave after every step.

    It has one state more, the last one: ``gone``. Whoever is gone stays there, and is paid nothing. The reward of the
    step after which somebody leaves is what that action pays on average.

    Args:
        mdp: The environment of people who stay.
        chance: With which probability somebody leaves after a step, in [0, 1].
    """
    if not isinstance(mdp, TabularMDP):
        raise InvalidInput(f"people can leave a TabularMDP only, got {type(mdp).__name__}")
    chance = check_fraction("chance", chance, closed=True)
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    P, R = np.zeros((H, S + 1, A, S + 1)), np.zeros((H, S + 1, A, S + 1))
    P[:, :S, :, :S] = (1 - chance) * mdp.transitions
    P[:, :S, :, S] = chance
    P[:, S, :, S] = 1.0
    R[:, :S, :, :S] = mdp.transition_rewards
    R[:, :S, :, S] = mdp.rewards
    return TabularMDP(
        P,
        transition_rewards=R,
        initial=np.append(mdp.initial, 0.0),
        reward_noise=mdp.reward_noise,
        reward_range=mdp.reward_range,
        name=f"{mdp.name or 'people'}, who leave with chance {chance:g}",
    )

"""Episodes that are played at the server, step by step: for a trusted server, and devices that cannot encode.

A step is durable before its action is answered, and the first write wins: whoever asks again gets the same action. The
steps are raw personal data, like reports: they are deleted when the episode is encoded, and with the release of their
batch. An episode that breaks off is completed with the state ``gone``, if the world has one, and is absent otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.live import rows
from discreet.live.stores import sql
from discreet.mdp import Trajectory
from discreet.noise import SecureSource

if TYPE_CHECKING:
    from discreet.agents.rounds import Plan
    from discreet.live.config import Config
    from discreet.live.stores.base import Connection
    from discreet.mdp import Spec

__all__ = ["broken_off", "checked", "played", "step"]


def checked(spec: Spec, number: object, state: object, reward: object) -> tuple[int, int, float]:
    """Returns the parts of a step; raises, naming a field and its bound, if it is none of this world."""
    H = spec.horizon
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= H + 1:
        raise InvalidPersonalData(f"steps must lie in [1, {H + 1}]")
    if not isinstance(state, int) or isinstance(state, bool) or not 0 <= state < spec.states:
        raise InvalidPersonalData(f"states must lie in [0, {spec.states})")
    if (reward is None) != (number == 1):
        raise InvalidPersonalData("the first step has no reward, and every other one has that of the step before")
    if reward is not None and (isinstance(reward, bool) or not isinstance(reward, int | float) or not 0 <= reward <= 1):
        raise InvalidPersonalData("rewards must lie in [0, 1]")
    return number, state, 0.0 if reward is None else float(reward)


def step(
    db: Connection, config: Config, plan: Plan, slot: int, parts: tuple[int, int, float], now: float
) -> tuple[bool, int | None]:
    """Writes a step down and returns the action, or None after the last; False if the database is an old copy."""
    number, state, reward = parts
    known, _ = rows.taking(db, config, plan.version, slot, now)
    if not known:
        return False, None
    at = {"name": config.name, "version": plan.version, "slot": slot}
    if db.row(sql.REPORTED, **at) is not None:
        return True, None
    found = db.rows(sql.STEPS, **at)
    if number <= len(found):
        return True, None if number > config.spec.horizon else int(found[number - 1][1])
    if number != len(found) + 1:
        raise InvalidInput("steps come in order: the one before is not there")
    action = _chosen(plan.policy(slot), number, state) if number <= config.spec.horizon else -1
    db.run(sql.NEW_STEP, **at, step=number, state=state, action=action, reward=reward)
    return True, None if action < 0 else action


def _chosen(policy: np.ndarray[Any, Any], number: int, state: int) -> int:
    """Returns what a policy does: a draw, if it is one of probabilities."""
    if policy.ndim == 2:
        return int(policy[number - 1, state])
    below = np.cumsum(policy[number - 1, state])
    return min(int(np.searchsorted(below, SecureSource().chance() * below[-1], side="right")), len(below) - 1)


def played(found: list[tuple[int, int, float]], spec: Spec, gone: int | None) -> Trajectory | None:
    """Returns the episode that steps make: (state, action, reward of the step before) each; None if it is not whole."""
    H = spec.horizon
    if not found or (len(found) <= H and gone is None):
        return None
    states = [state for state, _, _ in found] + [gone] * (H + 1 - len(found))
    actions = [action for _, action, _ in found][:H] + [0] * (H - len(found))
    rewards = [reward for _, _, reward in found][1:] + [0.0] * (H + 1 - len(found))
    return Trajectory(states, actions, rewards)  # type: ignore[arg-type]


def broken_off(db: Connection, config: Config, version: int) -> dict[int, list[tuple[int, int, float]]]:
    """Returns the steps of a batch whose episodes were not encoded, by slot."""
    found: dict[int, list[tuple[int, int, float]]] = {}
    for slot, state, action, reward in db.rows(sql.ALL_STEPS, name=config.name, version=version):
        found.setdefault(slot, []).append((state, action, reward))
    return found

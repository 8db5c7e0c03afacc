"""Gymnasium in: any finite environment with a transition table becomes an exact `TabularMDP`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_flag, check_integer
from discreet.mdp import TabularMDP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["cliffwalking", "from_gymnasium", "frozenlake", "taxi"]


def from_gymnasium(
    env: Any,
    horizon: int,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    initial: ArrayLike | int | None = None,
    name: str = "",
) -> TabularMDP:
    """Returns the exact MDP of a Gymnasium environment that keeps its transition table in ``P``.

    States where an episode ends become absorbing and pay nothing from then on. If such a state can also be entered
    without ending the episode, one absorbing state is added behind the others instead.

    Rewards are rescaled as declared: r becomes (r − low)/(high − low), the absence of reward in an absorbing state
    included, so that returns keep their order. Nothing is rescaled unless ``reward_range`` says so. Where a table pays
    different rewards on one transition, their mean is paid.

    Args:
        env: An environment, wrapped or not, or its id.
        horizon: Steps an episode.
        reward_range: The interval (low, high) of the environment's rewards, mapped to [0, 1].
        initial: Distribution of the first state, or one state; the environment's own by default.
        name: A label for people; the environment's id by default.

    Raises:
        ValueError: If there is no table, or a reward lies outside ``reward_range``.
    """
    if isinstance(env, str):
        import gymnasium

        env = gymnasium.make(env)
    base = getattr(env, "unwrapped", env)
    name = name or getattr(getattr(env, "spec", None), "id", "") or type(base).__name__
    table = getattr(base, "P", None)
    if table is None:
        raise InvalidInput(f"{name} has no transition table P; only finite environments that keep one can be used")
    if initial is None:
        initial = getattr(base, "initial_state_distrib", None)
    if initial is None:
        raise InvalidInput(f"{name} does not say how episodes start: give initial=")
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (-np.inf < low <= 0 <= high < np.inf and low < high):
        raise InvalidInput(f"reward_range must be (low, high) around 0, got reward_range={reward_range!r}")
    P, R = _arrays(table, _absorbing(table, initial))
    used = R[P > 0]
    if used.min() < low or used.max() > high:
        raise InvalidInput(
            f"rewards of {name} lie in [{used.min():g}, {used.max():g}], outside "
            f"reward_range=({low:g}, {high:g}): declare the interval to map to [0, 1]"
        )
    scaled = np.where(P > 0, (R - low) / (high - low), 0.0)
    if not isinstance(initial, (int, np.integer)):
        initial = np.asarray(initial, dtype=np.float64)
        initial = np.pad(initial, (0, len(P) - len(initial)))
    return TabularMDP(
        P,
        transition_rewards=scaled,
        initial=initial,
        horizon=check_integer("horizon", horizon),
        reward_range=(low, high),
        name=name,
    )


def _absorbing(table: Any, initial: Any) -> dict[int, int]:
    """Reads ``table[s][a]``, lists of (probability, next state, reward, terminated), as Gymnasium keeps them.

    Returns where each episode-ending state leads: to itself, or to one extra state if it is also passed through.
    """
    ends = {next_ for row in table.values() for cell in row.values() for p, next_, _, end in cell if end and p > 0}
    start = [initial] if isinstance(initial, (int, np.integer)) else np.flatnonzero(initial).tolist()
    passed, frontier = set(start), list(start)
    while frontier:
        for cell in table[frontier.pop()].values():
            for p, next_, _, end in cell:
                if p > 0 and not end and next_ not in passed:
                    passed.add(next_)
                    frontier.append(next_)
    extra = len(table)
    return {int(s): extra if s in passed else int(s) for s in ends}


def _arrays(table: Any, absorbing: dict[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns transitions and rewards on transitions, (S, A, S) both."""
    S, A = len(table), max(len(row) for row in table.values())
    size = S + (S in absorbing.values())
    P, R = np.zeros((size, A, size)), np.zeros((size, A, size))
    for s in range(size):
        if absorbing.get(s, S) == s or s == S:
            P[s, :, s] = 1.0
            continue
        for a in range(A):
            for p, next_, reward, end in table[s][a]:
                to = absorbing[int(next_)] if end else int(next_)
                P[s, a, to] += p
                R[s, a, to] += p * reward
    return P, np.divide(R, P, out=np.zeros_like(R), where=P > 0)


def frozenlake(horizon: int = 100, map_name: str = "4x4", is_slippery: bool = True) -> TabularMDP:
    """FrozenLake from Gymnasium's own table: reach the goal, which pays 1 once, and do not fall into a hole."""
    from gymnasium.envs.toy_text.frozen_lake import MAPS

    if map_name not in MAPS:
        raise UnknownName("map_name", map_name, MAPS)
    env = _make("FrozenLake", map_name=map_name, is_slippery=check_flag("is_slippery", is_slippery))
    return from_gymnasium(env, horizon, name="frozenlake")


def taxi(horizon: int = 200, reward_range: tuple[float, float] = (-10.0, 20.0)) -> TabularMDP:
    """Taxi from Gymnasium's own table, rewards mapped from ``reward_range`` to [0, 1]."""
    return from_gymnasium(_make("Taxi"), horizon, reward_range=reward_range, name="taxi")


def cliffwalking(
    horizon: int = 100, is_slippery: bool = False, reward_range: tuple[float, float] = (-100.0, 0.0)
) -> TabularMDP:
    """CliffWalking from Gymnasium's own table, rewards mapped from ``reward_range`` to [0, 1]."""
    env = _make("CliffWalking", is_slippery=check_flag("is_slippery", is_slippery))
    return from_gymnasium(env, horizon, reward_range=reward_range, name="cliffwalking")


def _make(family: str, **parameters: Any) -> Any:
    """Makes the newest registered version of one of Gymnasium's environments."""
    import gymnasium

    versions = [
        spec.version or 0 for spec in gymnasium.registry.values() if spec.namespace is None and spec.name == family
    ]
    return gymnasium.make(f"{family}-v{max(versions)}", **parameters)

"""Gymnasium in: any finite environment with a transition table becomes an exact `TabularMDP`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_flag, check_integer
from discreet.mdp import TabularMDP
from discreet.mdp.spec import check_distribution

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["cliffwalking", "from_gymnasium", "frozenlake", "taxi"]


# What does not change a table: limits, checks, and rendering.
_HARMLESS = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "HumanRendering", "RecordEpisodeStatistics")


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
    included, so that returns keep their order. Nothing is rescaled unless ``reward_range`` says so.

    Args:
        env: An environment or its id; a wrapper that changes more than limits and checks is refused.
        horizon: Steps an episode.
        reward_range: The interval (low, high) of the environment's rewards, mapped to [0, 1].
        initial: Distribution of the first state, or one state; the environment's own by default.
        name: A label for people; the environment's id by default.

    Raises:
        ValueError: If there is no table, it is not one, or a reward lies outside ``reward_range``.
    """
    if isinstance(env, str):
        import gymnasium

        env = gymnasium.make(env)
    base = getattr(env, "unwrapped", env)
    name = name or getattr(getattr(env, "spec", None), "id", "") or type(base).__name__
    _refuse_wrappers(env, base, name)
    table = _table(base, name)
    S = len(table)
    first = _first(getattr(base, "initial_state_distrib", None) if initial is None else initial, S, name)
    low, high = _interval(reward_range)
    absorbing = _absorbing(table, first)
    rows = _entries(table, absorbing)
    size, A = S + (S in absorbing.values()), len(table[0])
    row, to, p, reward = (np.array(part) for part in zip(*rows, strict=True))
    if reward.min() < low or reward.max() > high:
        raise InvalidInput(
            f"rewards of {name} lie in [{reward.min():g}, {reward.max():g}], outside "
            f"reward_range=({low:g}, {high:g}): declare the interval to map to [0, 1]"
        )
    scaled = (reward - low) / (high - low)
    P, R = np.zeros((size * A, size)), np.zeros((size * A, size))
    np.add.at(P, (row, to), p)
    np.add.at(R, (row, to), p * scaled)
    return TabularMDP(
        P.reshape(size, A, size),
        transition_rewards=np.clip(np.divide(R, P, out=np.zeros_like(R), where=P > 0), 0, 1).reshape(size, A, size),
        initial=np.pad(first, (0, size - S)),
        horizon=check_integer("horizon", horizon),
        outcomes=(row, to, p, scaled),
        reward_range=(low, high),
        name=name,
    )


def _refuse_wrappers(env: Any, base: Any, name: str) -> None:
    while env is not base:
        if type(env).__name__ not in _HARMLESS:
            raise InvalidInput(
                f"{name} is wrapped in {type(env).__name__}, which its transition table does not know of"
            )
        env = env.env


def _table(base: Any, name: str) -> list[list[list[tuple[float, int, float, bool]]]]:
    """Reads ``P[s][a]``, lists of (probability, next state, reward, terminated), as Gymnasium keeps them."""
    table = getattr(base, "P", None)
    if table is None:
        raise InvalidInput(f"{name} has no transition table P; only finite environments that keep one can be used")
    try:
        listed = [
            [
                [(float(p), int(to), float(r), bool(end)) for p, to, r, end in table[s][a] if p > 0]
                for a in range(len(table[s]))
            ]
            for s in range(len(table))
        ]
    except (KeyError, TypeError, ValueError, IndexError):
        raise InvalidInput(f"{name}: P[s][a] must list (probability, next state, reward, terminated)") from None
    S = len(listed)
    if not S or not listed[0] or any(len(row) != len(listed[0]) for row in listed):
        raise InvalidInput(f"{name}: every state of P must have the same actions")
    for s, row in enumerate(listed):
        for a, cell in enumerate(row):
            if any(not 0 <= to < S for _, to, _, _ in cell):
                raise InvalidInput(f"{name}: P[{s}][{a}] leads out of the {S} states")
    return listed


def _first(initial: Any, S: int, name: str) -> NDArray[np.float64]:
    """Returns the distribution of the first state, (S,)."""
    if initial is None:
        raise InvalidInput(f"{name} does not say how episodes start: give initial=")
    if isinstance(initial, (int, np.integer)):
        if not 0 <= initial < S:
            raise InvalidInput(f"initial must be a state in [0, {S}), got initial={initial}")
        initial = np.eye(S)[initial]
    return check_distribution("initial", initial, S)


def _interval(reward_range: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (-np.inf < low <= 0 <= high < np.inf and low < high):
        raise InvalidInput(f"reward_range must be (low, high) around 0, got reward_range={reward_range!r}")
    return low, high


def _absorbing(table: Any, first: NDArray[np.float64]) -> dict[int, int]:
    """Returns where each episode-ending state leads: to itself, or to one extra state if it is also passed through."""
    ends = {to for row in table for cell in row for _, to, _, end in cell if end}
    start = np.flatnonzero(first).tolist()
    passed, frontier = set(start), list(start)
    while frontier:
        for cell in table[frontier.pop()]:
            for _, to, _, end in cell:
                if not end and to not in passed:
                    passed.add(to)
                    frontier.append(to)
    return {s: len(table) if s in passed else s for s in ends}


def _entries(table: Any, absorbing: dict[int, int]) -> list[tuple[int, int, float, float]]:
    """Returns (row, next state, probability, reward) of all rows (s, a) in order, absorbing ones included."""
    S, A = len(table), len(table[0])
    entries: list[tuple[int, int, float, float]] = []
    for s in range(S + (S in absorbing.values())):
        for a in range(A):
            row = s * A + a
            if s == S or absorbing.get(s) == s:
                entries.append((row, s, 1.0, 0.0))
            else:
                entries += [(row, absorbing[to] if end else to, p, reward) for p, to, reward, end in table[s][a]]
    return entries


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

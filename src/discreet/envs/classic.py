"""Our own environments, each an exact `TabularMDP` built from a few numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.errors import InvalidInput, check_flag, check_fraction, check_integer, check_number
from discreet.mdp import TabularMDP

__all__ = ["chain", "gridworld", "hard", "random", "riverswim"]

LEFT, RIGHT = 0, 1


def riverswim(states: int = 6, horizon: int = 20, reward_noise: str = "deterministic") -> TabularMDP:
    """RiverSwim: swim right against the current for a large reward, or drift left to a small one.

    Action 0 (left) always succeeds. Action 1 (right) moves forward with probability 0.35, stays with 0.60 and
    drifts back with 0.05; at state 0 it stays with 0.4 and moves with 0.6; at the last state it stays with 0.6 and
    drifts back with 0.4. Left in state 0 pays 0.005, right in the last state pays 1. Episodes start in state 0.

    References:
        Strehl and Littman (2008); the experiment of DP-UCBVI, Section 7.
    """
    S = check_integer("states", states, least=2)
    P = np.zeros((S, 2, S))
    for s in range(S):
        P[s, LEFT, max(s - 1, 0)] = 1.0
    P[0, RIGHT, [0, 1]] = 0.4, 0.6
    for s in range(1, S - 1):
        P[s, RIGHT, [s - 1, s, s + 1]] = 0.05, 0.60, 0.35
    P[S - 1, RIGHT, [S - 2, S - 1]] = 0.4, 0.6
    r = np.zeros((S, 2))
    r[0, LEFT] = 0.005
    r[S - 1, RIGHT] = 1.0
    return TabularMDP(P, r, horizon=check_integer("horizon", horizon), reward_noise=reward_noise, name="riverswim")


def chain(states: int = 8, horizon: int = 16, slip: float = 0.2, reward_noise: str = "deterministic") -> TabularMDP:
    """A chain whose far end pays 1 a step: the deeper it is, the longer one must explore in one direction.

    Action 1 moves forward and action 0 back; with probability ``slip`` the other way happens. Any action in the last
    state pays 1. Episodes start in state 0.
    """
    S = check_integer("states", states, least=2)
    slip = check_fraction("slip", slip, closed=True)
    P = np.zeros((S, 2, S))
    for s in range(S):
        back, forward = max(s - 1, 0), min(s + 1, S - 1)
        P[s, LEFT, back] += 1 - slip
        P[s, LEFT, forward] += slip
        P[s, RIGHT, back] += slip
        P[s, RIGHT, forward] += 1 - slip
    r = np.zeros((S, 2))
    r[S - 1, :] = 1.0
    return TabularMDP(P, r, horizon=check_integer("horizon", horizon), reward_noise=reward_noise, name="chain")


def hard(
    bandits: int = 3,
    actions: int = 3,
    horizon: int = 5,
    gap: float = 0.2,
    best: Sequence[int] | int | None = None,
    seed: int = 0,
) -> TabularMDP:
    """The class of hard instances of the lower bound: parallel bandits behind a random first state.

    An episode starts in one of ``bandits`` states, uniformly. Any action there leads to one of two absorbing states,
    + and −; whoever goes to + gets reward 1 in every step, the first included. Action 0 leads to + with probability
    1/2 + gap/2, the best action of that state (if it is another one) with 1/2 + gap, every other with 1/2.

    Args:
        bandits: Number of initial states n; the states n and n+1 are + and −.
        actions: Number of actions m + 1.
        horizon: Steps an episode.
        gap: The α' of the paper, in [0, 1/2].
        best: The best action of each initial state (one number serves all); drawn from ``seed`` if not given.
        seed: Of the best actions.

    References:
        PUCB (Vietri et al. 2020), Section 6.2 and Figure 1.
    """
    n, A = check_integer("bandits", bandits), check_integer("actions", actions)
    gap = check_fraction("gap", gap, closed=True)
    if gap > 0.5:
        raise InvalidInput(f"gap must lie in [0, 1/2], got gap={gap}")
    if best is None:
        arms = np.random.default_rng(check_integer("seed", seed, least=0)).integers(A, size=n).tolist()
    else:
        arms = list(best) if isinstance(best, Sequence) else [best] * n
    if len(arms) != n or not all(0 <= check_integer("best", a, least=0) < A for a in arms):
        raise InvalidInput(f"best must be {n} actions in [0, {A}), got best={best!r}")
    plus, minus = n, n + 1
    P = np.zeros((n + 2, A, n + 2))
    for s in range(n):
        up = np.full(A, 0.5)
        up[arms[s]] = 0.5 + gap
        up[0] = 0.5 + gap / 2  # Pr[+ | s, 0] = 1/2 + α'/2, also where 0 is the best action
        P[s, :, plus] = up
        P[s, :, minus] = 1 - up
    P[plus, :, plus] = P[minus, :, minus] = 1.0
    rewards = np.zeros_like(P)
    rewards[..., plus] = 1.0
    initial = np.r_[np.full(n, 1 / n), 0.0, 0.0]
    return TabularMDP(
        P, transition_rewards=rewards, initial=initial, horizon=check_integer("horizon", horizon), name="hard"
    )


def random(
    states: int = 10,
    actions: int = 3,
    horizon: int = 10,
    concentration: float = 0.1,
    per_step: bool = False,
    reward_noise: str = "deterministic",
    seed: int = 0,
) -> TabularMDP:
    """A random MDP: Dirichlet transitions, and rewards that are 0 except for one in ten, uniform on [0, 1].

    Args:
        states: Number of states.
        actions: Number of actions.
        horizon: Steps an episode.
        concentration: Of the Dirichlet distribution: small values give few likely successors.
        per_step: Whether every step has dynamics of its own.
        reward_noise: As in `TabularMDP`.
        seed: Of the instance.
    """
    S, A, H = (
        check_integer("states", states),
        check_integer("actions", actions),
        check_integer("horizon", horizon),
    )
    concentration = check_number("concentration", concentration, above=True)
    rng = np.random.default_rng(check_integer("seed", seed, least=0))
    steps = H if check_flag("per_step", per_step) else 1
    P = rng.gamma(concentration, size=(steps, S, A, S)) + 1e-300
    P /= P.sum(axis=3, keepdims=True)
    r = np.where(rng.random((steps, S, A)) < 0.1, rng.random((steps, S, A)), 0.0)
    r.reshape(-1)[rng.integers(r.size)] = 1.0  # so that there is always something to find
    return TabularMDP(P, r, horizon=H, reward_noise=reward_noise, name="random")


def gridworld(
    rows: int = 4,
    columns: int = 4,
    horizon: int = 16,
    slip: float = 0.1,
    reward_noise: str = "deterministic",
) -> TabularMDP:
    """A grid to cross from the top left to the bottom right corner, which pays 1 a step.

    Actions 0 to 3 move up, right, down, left; with probability ``slip`` a uniformly random one of the four happens
    instead. Walking into the border stays. State ``row·columns + column``.
    """
    n, m = check_integer("rows", rows), check_integer("columns", columns)
    slip = check_fraction("slip", slip, closed=True)
    S, moves = n * m, ((-1, 0), (0, 1), (1, 0), (0, -1))
    P = np.zeros((S, 4, S))
    for s in range(S):
        for chosen in range(4):
            for happens, (down, right) in enumerate(moves):
                row, column = min(max(s // m + down, 0), n - 1), min(max(s % m + right, 0), m - 1)
                P[s, chosen, row * m + column] += slip / 4 + (1 - slip) * (chosen == happens)
    r = np.zeros((S, 4))
    r[S - 1, :] = 1.0
    return TabularMDP(P, r, horizon=check_integer("horizon", horizon), reward_noise=reward_noise, name="gridworld")

"""Lower bounds: what no agent, or no private agent, can avoid.

Each holds for the worst MDP of its size, not for every MDP: a measured curve may lie below. `pac_lower` and
`regret_lower` are for pure ε joint privacy; local privacy implies it, an agent with δ > 0 is not bound by them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, check_fraction
from discreet.theory._arguments import Bound, as_bound, check_episodes, check_sizes, check_swept

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["bandit_lower", "hard_lower", "minimax_regret_lower", "pac_lower", "regret_lower"]


def pac_lower(
    *, states: int, actions: int, horizon: int, alpha: ArrayLike, epsilon: ArrayLike, failure: float = 0.05
) -> Bound:
    """Expected episodes before the policy is α-optimal: SAH²/α² + SAH/(αε)·ln(1/β), for β < 1/8.

    Left out: constants. β (``failure``) is the probability of not being α-optimal then.

    The growth with ln(1/β) is stated but not proven: what the proof ends in is `hard_lower`, whose logarithm
    ln(7/(4 + 24β)) never exceeds ln(7/4). The construction needs α ≤ H/28; the statement does not say so.

    References:
        Vietri et al. (2020), Theorem 5 and Lemma 10.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    a, e = check_swept("alpha", alpha, most=H), check_swept("epsilon", epsilon)
    beta = _check_failure(failure, 1 / 8)
    return as_bound(S * A * H**2 / a**2 + S * A * H / (a * e) * math.log(1 / beta))


def regret_lower(*, states: int, actions: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike) -> Bound:
    """Expected regret: √(HSAK) + SAH·ln(K)/ε; NaN where K < S^1.1, of which the theorem says nothing.

    Left out: constants.

    The theorem says "after T steps", its proof of the private term and the rest of the paper count T in episodes;
    so does this function. Read as steps, both terms would be larger, so the bound holds either way;
    `minimax_regret_lower` is the stronger one without privacy. The proof has ln(K/S), of which ln(K)/11 is left
    for K ≥ S^1.1.

    References:
        Vietri et al. (2020), Theorem 6.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, e = check_episodes(episodes), check_swept("epsilon", epsilon)
    return as_bound(np.where(K >= S**1.1, np.sqrt(H * S * A * K) + S * A * H * np.log(K) / e, math.nan))


def minimax_regret_lower(*, states: int, actions: int, horizon: int, episodes: ArrayLike) -> Bound:
    """Expected regret of any agent, private or not: √(SAH²T), for dynamics that depend on the step.

    Left out: constants. It cannot hold below K = HSA, where it exceeds KH.

    References:
        Qiao and Wang (2023), Table 1, for Jin et al. (2018); Bai et al. (2025), Section V-B, as √(H³SAK).
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    return as_bound(np.sqrt(S * A * H**2 * (check_episodes(episodes) * H)))


def bandit_lower(*, gap: ArrayLike, epsilon: ArrayLike, failure: float = 0.05) -> Bound:
    """Expected pulls of an arm that is worse than the best by ``gap``: more than ln(1/(4β))/(24·ε·gap).

    Nothing is left out, for an ε-private bandit algorithm that finds the best arm with probability 1 − β
    (``failure``), β < 1/4.

    The printed proof exchanges two arms, while its Lemma 7 lets one change; raising the bad arm alone to just
    above the best one proves the same number.

    References:
        Vietri et al. (2020), Lemma 8.
    """
    g, e = check_swept("gap", gap, most=1.0), check_swept("epsilon", epsilon)
    return as_bound(math.log(1 / (4 * _check_failure(failure, 1 / 4))) / (24 * e * g))


def hard_lower(
    *, bandits: int, actions: int, horizon: int, alpha: ArrayLike, epsilon: ArrayLike, failure: float = 0.05
) -> Bound:
    """Expected episodes that begin with a suboptimal action, on hard MDPs: H·n·(A−1)/(336·ε·α)·ln(7/(4 + 24β)).

    Nothing is left out, for an agent that ends with an α-optimal policy with probability 1 − β (``failure``, less
    than 1/8) on ``envs.hard(bandits=n, actions=A, horizon=H, gap=14·α/H)``; so α ≤ H/28. The paper sums over the
    n initial states but prints S, which is n + 2.

    With one initial state these are exactly the α-suboptimal episodes, and the bound holds where action 0 is the
    best. For n > 1 read it as printed: the proof takes the bandits one by one, yet an α-optimal policy may be
    wrong in a seventh of them, and an agent may learn from some what to expect of the others.

    References:
        Vietri et al. (2020), Section 6.2 and the proof of Lemma 10 (Appendix C.3): `bandit_lower` with gap 14α/H
        and failure (1 + 6β)/7 for each of n(A−1) arms.
    """
    n, A, H = check_sizes(bandits=bandits, actions=actions, horizon=horizon)
    a, e = check_swept("alpha", alpha, most=H / 28), check_swept("epsilon", epsilon)
    beta = _check_failure(failure, 1 / 8)
    return as_bound(H * n * (A - 1) / (336 * e * a) * math.log(7 / (4 + 24 * beta)))


def _check_failure(failure: float, below: float) -> float:
    """Returns a failure probability in (0, below): at ``below`` the bound is 0 or no longer stated."""
    beta = check_fraction("failure", failure)
    if beta >= below:
        raise InvalidInput(f"failure must be less than {below:g}, got failure={failure!r}")
    return beta

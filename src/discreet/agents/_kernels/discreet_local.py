"""Planning from answers about single cells: optimism with small bonuses, and which cells a policy reaches.

A model is P (T, S, A, S) and r (T, S, A) with T = 1 if all steps share it, else H; ``known`` (T, S, A) marks the cells
that it holds for.
"""

import math

from discreet._jit import kernel


@kernel()
def _spread(P, V):
    """Returns P·V and ‖V − P·V‖₂."""
    mean = 0.0
    for t in range(V.size):
        mean += P[t] * V[t]
    square = 0.0
    for t in range(V.size):
        square += (V[t] - mean) ** 2
    return mean, math.sqrt(square)


@kernel()
def optimise(P, r, known, spread_bonus, reward_bonus, unknown, order, V, policy):
    """Backward induction: fills V (H+1, S) and a greedy ``policy`` (H, S).

    A known cell is worth r + P·V + spread_bonus·‖V − P·V‖₂ + reward_bonus, at most H − h; an unknown one ``unknown``
    times H − h (h from 0). Ties go to the action that comes first in ``order`` (S, A).
    """
    T, S, A, _ = P.shape
    H = policy.shape[0]
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        t = h if T > 1 else 0
        for s in range(S):
            best = -1.0
            for i in range(A):
                a = order[s, i]
                if known[t, s, a]:
                    mean, norm = _spread(P[t, s, a], V[h + 1])
                    q = r[t, s, a] + mean + spread_bonus[t, s, a] * norm + reward_bonus[t, s, a]
                    q = min(q, float(H - h))
                else:
                    q = unknown * (H - h)
                if q > best:
                    best = q
                    policy[h, s] = a
            V[h, s] = best


@kernel()
def visit(P, known, initial, policy, V, work, visits, worth):
    """Expected visits to each cell, (T, S, A), and visits times ‖V − P·V‖₂; nothing is known after an unknown cell.

    ``work`` (2, S) is working space.
    """
    T, S, _, _ = P.shape
    H = policy.shape[0]
    visits[:] = 0.0
    worth[:] = 0.0
    work[0] = initial
    for h in range(H):
        t = h if T > 1 else 0
        now = work[h % 2]
        then = work[(h + 1) % 2]
        then[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                a = policy[h, s]
                visits[t, s, a] += now[s]
                if known[t, s, a]:
                    worth[t, s, a] += now[s] * _spread(P[t, s, a], V[h + 1])[1]
                    for n in range(S):
                        then[n] += now[s] * P[t, s, a, n]


@kernel()
def _reach(P, known, initial, policy, x, b, work):
    """The probability that a policy visits the cell (x, b) at all."""
    S = P.shape[1]
    H = policy.shape[0]
    found = 0.0
    work[0] = initial
    for h in range(H):
        now = work[h % 2]
        then = work[(h + 1) % 2]
        then[:] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                a = policy[h, s]
                if s == x and a == b:
                    found += now[s]
                elif known[0, s, a]:
                    for n in range(S):
                        then[n] += now[s] * P[0, s, a, n]
    return found


@kernel()
def first(P, known, initial, policy, visits, work, chances):
    """The probability of a first visit to each cell, (T, S, A), given the expected ``visits``.

    Per step a visit is the first one. If all steps share a model, one walk for each cell that is visited finds it.
    """
    T, S, A, _ = P.shape
    if T > 1 or policy.shape[0] == 1:
        chances[:] = visits
        return
    for s in range(S):
        for a in range(A):
            if visits[0, s, a] > 0.0:
                chances[0, s, a] = _reach(P, known, initial, policy, s, a, work)
            else:
                chances[0, s, a] = 0.0

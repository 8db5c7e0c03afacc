"""Optimistic planning with Hoeffding bonuses and no projection: Private-UCB-VI and Private-UCB-PO."""

import math

from discreet._jit import kernel
from discreet.privatizers._types import PLAN, PLAN_MIXED

# positions in the vector of parameters; `discreet.agents.private_ucb_vi.PrivateUCBVI.parameters` writes them
ERROR, RATE, LINEAR, UNSEEN, ETA = range(5)


@kernel()
def optimistic(parameters, counts, h, s, a, V):
    """Returns Q_h(s,a) = clip(r̃ + P̃V_{h+1} + b_r + b_p, 0, H−h+1); with UNSEEN it is H−h+1 where Ñ + E₁ < 1."""
    N, M, R = counts
    H, S = V.shape[0] - 1, V.shape[1]
    t = h if N.shape[0] > 1 else 0
    n = max(N[t, s, a] + parameters[ERROR], 1.0)  # n̄
    if parameters[UNSEEN] and N[t, s, a] + parameters[ERROR] < 1.0:
        return float(H - h)
    total = R[t, s, a]
    for s_ in range(S):
        total += M[t, s, a, s_] * V[h + 1, s_]
    bonus = parameters[RATE] / math.sqrt(n) + parameters[LINEAR] / n
    return min(max(total / n + bonus, 0.0), float(H - h))


@kernel(PLAN)
def plan_vi(parameters, counts, planned):
    """Fills ``Q`` (H, S, A), ``V`` (H+1, S) and ``policy`` (H, S): greedy."""
    Q, V, policy = planned
    H, S, A = Q.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best = -math.inf
            for a in range(A):
                Q[h, s, a] = optimistic(parameters, counts, h, s, a, V)
                if Q[h, s, a] > best:  # the first of equal actions
                    best = Q[h, s, a]
                    policy[h, s] = a
            V[h, s] = best


@kernel(PLAN_MIXED)
def plan_po(parameters, counts, planned):
    """Fills ``Q`` (H, S, A) and ``V`` (H+1, S) of the ``policy`` (H, S, A) as it comes in, and then improves it."""
    Q, V, policy = planned
    H, S, A = Q.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            value = 0.0
            largest = -math.inf
            for a in range(A):
                Q[h, s, a] = optimistic(parameters, counts, h, s, a, V)
                value += Q[h, s, a] * policy[h, s, a]
                largest = max(largest, Q[h, s, a])
            V[h, s] = value  # ⟨Q, π⟩
            total = 0.0
            for a in range(A):
                policy[h, s, a] *= math.exp(parameters[ETA] * (Q[h, s, a] - largest))
                total += policy[h, s, a]
            for a in range(A):
                policy[h, s, a] /= total

"""Optimistic value iteration with a Bernstein bonus: lines 4 to 15 of DP-UCBVI's Algorithm 1."""

import math

from discreet._jit import kernel
from discreet.privatizers._types import PLAN

# positions in the vector of parameters; `discreet.agents.dp_ucbvi.DPUCBVI.parameters` writes them
IOTA, VARIANCE, REWARD_VARIANCE, REWARD, LOWER, SPAN, CORRECTION, FIRST, SECOND, CAP, NOISE, NOISE_SPAN, MEMORY = range(
    13
)


@kernel(PLAN)
def plan(parameters, counts, planned):
    """Fills ``Q`` (H, S, A), ``V`` (H+1, S) and ``policy`` (H, S) from Ñ(s,a), Ñ(s,a,s') and R̃(s,a)."""
    N, M, R = counts
    Q, V, policy = planned
    H, S, A = Q.shape
    per_step = 1 if N.shape[0] > 1 else 0
    iota = parameters[IOTA]
    V[H] = 0.0  # line 4
    for h in range(H - 1, -1, -1):  # line 5
        t = h * per_step
        u = (h + 1) * per_step if h + 1 < H else 0
        cap = H - h if parameters[CAP] else H
        span = V[h + 1].max() - V[h + 1].min()
        lower = (parameters[LOWER] + parameters[SPAN] * span) * iota + parameters[NOISE] + parameters[NOISE_SPAN] * span
        for s in range(S):
            best = -math.inf
            for a in range(A):
                n = N[t, s, a]
                q = float(cap)
                if n > 0.0:
                    mean = 0.0
                    correction = 0.0
                    for s_ in range(S):
                        m = M[t, s, a, s_]
                        if m == 0.0:
                            continue
                        p = m / n  # eq. (1)
                        mean += p * V[h + 1, s_]
                        if parameters[CORRECTION] > 0.0 and h + 1 < H:
                            n_ = 0.0
                            for a_ in range(A):
                                n_ += N[u, s_, a_]
                            bound = float(H * H)
                            if n_ > 0.0:
                                bound = min(parameters[FIRST] / n_ + parameters[SECOND] / (n_ * n_), bound)
                            correction += p * bound
                    variance = 0.0  # in a second pass: E[V²] − E[V]² would make a bonus of rounding errors
                    for s_ in range(S):
                        variance += M[t, s, a, s_] / n * (V[h + 1, s_] - mean) ** 2
                    reward = min(max(R[t, s, a] / n, 0.0), 1.0)  # eq. (1)
                    bonus = (  # line 8
                        parameters[VARIANCE]
                        * math.sqrt((variance + parameters[REWARD_VARIANCE] * reward * (1.0 - reward)) * iota / n)
                        + parameters[REWARD] * math.sqrt(2.0 * iota / n)
                        + lower / n
                        + parameters[CORRECTION] * math.sqrt(iota * correction / n)
                    )
                    q = min(q, reward + mean + bonus)
                if parameters[MEMORY]:
                    q = min(q, Q[h, s, a])  # line 9
                Q[h, s, a] = q
                if q > best:  # lines 12, 13; the first of equal actions
                    best = q
                    policy[h, s] = a
            V[h, s] = best

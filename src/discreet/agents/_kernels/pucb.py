"""Optimistic value iteration with a Hoeffding bonus: PrivQ, Algorithm 3 of PUCB."""

import math

from discreet._jit import kernel
from discreet.privatizers._types import PLAN

# positions in the vector of parameters; `discreet.agents.pucb.PUCB.parameters` writes them
LOG, ERROR, SAMPLING, NOISE, CAP = range(5)


@kernel(PLAN)
def plan(parameters, counts, planned):
    """Fills ``Q`` (H, S, A), ``V`` (H+1, S) and ``policy`` (H, S) from ñ(s,a), m̃(s,a,s') and r̃(s,a)."""
    n, m, r = counts
    Q, V, policy = planned
    H, S, A = Q.shape
    per_step = 1 if n.shape[0] > 1 else 0
    E = parameters[ERROR]
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        t = h * per_step
        cap = H - h if parameters[CAP] else H
        for s in range(S):
            best = -math.inf
            for a in range(A):
                x = n[t, s, a]
                q = float(cap)
                if x >= 2.0 * E and x > 0.0:  # Lemma 15 needs ñ ≥ 2E; below that Q⁺ = H
                    total = r[t, s, a]
                    for s_ in range(S):
                        total += V[h + 1, s_] * m[t, s, a, s_]
                    phi = math.sqrt(2.0 * parameters[LOG] / max(x - E, 1.0))
                    psi = 3.0 * E / x + 2.0 * E * E / (x * x)
                    conf = parameters[SAMPLING] * phi + parameters[NOISE] * psi
                    q = min(q, total / x + conf)
                Q[h, s, a] = q
                if q > best:  # the first of equal actions
                    best = q
                    policy[h, s] = a
            V[h, s] = best

"""Estimates from noisy first visits, plans on them, and what a plan will visit.

A model is P (steps, S, A, S) and r (steps, S, A), steps being 1 if it is shared by all h. A cell (step, s, a) that is
not ``known`` has no model: plans value it by optimism or at 0, and whoever enters it is lost sight of.
"""

import math

from numba import types

from discreet._jit import kernel
from discreet.agents._kernels.sparse import MEAN

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_b1 = types.Array(types.boolean, 1, "C")


@kernel(types.void(types.FunctionType(MEAN), _f1, _f2, _f1, _f1, _f1, _b1, _f1, _f2, _f1))
def estimate(posterior_mean, visits, transitions, rewards, information, sampling, known, spikes, P, r):
    """Fills P and r of all known cells with posterior means; cells are flat, P is (cells, S) and r (cells,).

    Sums are weighted such that their noise has the variance ``information``; ``sampling`` is the weighted number of
    visits that a count's own randomness is in proportion to.
    """
    cells, S = transitions.shape
    for c in range(cells):
        if not known[c]:
            P[c] = 0.0
            r[c] = 0.0
            continue
        n = visits[c]
        total = 0.0
        for t in range(S):
            share = min(max(transitions[c, t] / n, 0.0), 1.0)
            spread = math.sqrt(information[c] + sampling[c] * share * (1.0 - share))
            P[c, t] = posterior_mean(transitions[c, t], spread, n, spikes[0])
            total += P[c, t]
        for t in range(S):
            P[c, t] = P[c, t] / total if total > 0.0 else 0.0
        r[c] = posterior_mean(rewards[c], math.sqrt(information[c]), n, spikes[1]) / n


@kernel()
def plan(P, r, known, width, scale, hope, keys, V, policy):
    """Backward induction; ties, and cells of equal hope, go to the larger key.

    Args:
        P: (steps, S, A, S).
        r: (steps, S, A).
        known: (steps, S, A).
        width: How uncertain each entry of P and r is, (steps, S, A).
        scale: Of the bonus, which is width times 1 + ‖V − PV‖.
        hope: Share of all that is left to earn that a cell is worth which is not known.
        keys: (H, S, A).
        V: Filled, (H+1, S).
        policy: Filled, (H, S).
    """
    steps, S, A, _ = P.shape
    H = policy.shape[0]
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        i = h if steps > 1 else 0
        for s in range(S):
            best, value = -1, -1.0
            for a in range(A):
                if known[i, s, a]:
                    q = r[i, s, a]
                    for t in range(S):
                        q += P[i, s, a, t] * V[h + 1, t]
                    if scale > 0.0:
                        mean = q - r[i, s, a]
                        spread = 0.0
                        for t in range(S):
                            spread += (V[h + 1, t] - mean) ** 2
                        q += scale * width[i, s, a] * (1.0 + math.sqrt(spread))
                    q = min(q, float(H - h))
                else:
                    q = hope * (H - h)
                if q > value + 1e-9 or (q > value - 1e-9 and keys[h, s, a] > keys[h, s, best]):
                    best, value = a, q
            policy[h, s] = best
            V[h, s] = value


@kernel()
def visited(P, known, initial, policy, users, expected, chance):
    """Adds the visits of ``users`` to ``expected`` and how many make at least one to ``chance``, (steps, S, A).

    Whoever takes a cell that is not known is lost sight of afterwards.
    """
    steps, S, A, _ = P.shape
    H = policy.shape[0]
    here, after = initial.copy(), initial.copy()
    seen = known & False
    for h in range(H):
        i = h if steps > 1 else 0
        after[:] = 0.0
        for s in range(S):
            if here[s] <= 0.0:
                continue
            a = policy[h, s]
            seen[i, s, a] = True
            expected[i, s, a] += users * here[s]
            if steps > 1:
                chance[i, s, a] += users * here[s]
            if known[i, s, a]:
                for t in range(S):
                    after[t] += here[s] * P[i, s, a, t]
        here, after = after, here
    if steps > 1:
        return
    for s0 in range(S):
        for a0 in range(A):
            if not seen[0, s0, a0]:
                continue
            here[:] = initial
            found = 0.0
            for h in range(H):
                after[:] = 0.0
                for s in range(S):
                    if here[s] <= 0.0:
                        continue
                    a = policy[h, s]
                    if s == s0 and a == a0:
                        found += here[s]
                    elif known[0, s, a]:
                        for t in range(S):
                            after[t] += here[s] * P[0, s, a, t]
                here, after = after, here
            chance[0, s0, a0] += users * found

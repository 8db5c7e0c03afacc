"""Sparse estimates, optimistic and greedy planning, and what changes over the steps, from noisy weighted counts.

A *model* is (n̂ (G, C), P̂ (G, C, S), r̂ (G, C)) of G segments of steps and C = S·A cells; ``segment`` (H,) says which
segment a step is in.
"""

import math

from numba import types

from discreet._jit import kernel
from discreet.agents._kernels.sparse import MEAN

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_f3 = types.Array(types.float64, 3, "C")
_f8 = types.float64


@kernel(types.void(types.FunctionType(MEAN), _f3, _f2, _f2, _f1, _f8, _f8, _f8, _f1, _f2, _f3, _f2))
def estimate(posterior_mean, transitions, visits, rewards, sigma, reward, visit, centre, spikes, n, P, r):
    """Fills a model from the counts of segments; ``sigma`` (G,) is the noise of each one's transition counts.

    n̂ is the average of Σm̃ and ν̃ weighted by their precisions, 1/S and k_n² in units of 1/σ²; then again with those m̃
    only that are more than noise, each by the posterior probability f that it is: precision 1/Σf instead of 1/S.
    """
    G, C, S = transitions.shape
    precision = 1.0 / S + visit * visit
    for g in range(G):
        noise = sigma[g] * math.sqrt(1.0 / (reward * reward) + centre * centre / precision)
        for c in range(C):
            total = 0.0
            for s in range(S):
                total += transitions[g, c, s]
            n[g, c] = (total / S + visit * visit * visits[g, c]) / precision
            high = max(n[g, c], 0.0)
            if sigma[g] > 0.0 and high > 0.0:
                kept = 0.0
                total = 0.0
                for s in range(S):
                    slab = posterior_mean(transitions[g, c, s], sigma[g], high, 0.0)
                    f = posterior_mean(transitions[g, c, s], sigma[g], high, spikes[0]) / max(slab, 1e-12)
                    kept += f
                    total += f * transitions[g, c, s]
                kept = max(kept, 1.0)
                n[g, c] = (total / kept + visit * visit * visits[g, c]) / (1.0 / kept + visit * visit)
                high = max(n[g, c], 0.0)
            total = 0.0
            for s in range(S):
                P[g, c, s] = posterior_mean(transitions[g, c, s], sigma[g], high, spikes[0])
                total += P[g, c, s]
            for s in range(S):
                P[g, c, s] = P[g, c, s] / total if total > 0.0 else 1.0 / S
            r[g, c] = 0.0
            if high > 0.0:
                r[g, c] = posterior_mean(rewards[g, c] + centre * high, noise, high, spikes[1]) / high


@kernel()
def plan(n, P, r, segment, sigma, noise, least, width, bernstein, optimistic, ties, V, policy):
    """Fills ``V`` (H+1, S) and ``policy`` (H, S); ``ties`` (H, S, A) decides between equal actions.

    A cell with n̂ ≤ ``least`` (G,) is not known: worth all that is left if ``optimistic``, else nothing. The bonus of
    a known one is width·(σ‖V − mean V‖ + σ_r)/n̂ + bernstein·√(Var V/n̂); ``noise`` (G,) is σ_r.
    """
    H, S = policy.shape
    A = n.shape[1] // S
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        g = segment[h]
        mean = 0.0
        for s in range(S):
            mean += V[h + 1, s]
        mean /= S
        spread = 0.0
        for s in range(S):
            spread += (V[h + 1, s] - mean) ** 2
        uncertain = width * (sigma[g] * math.sqrt(spread) + noise[g])
        for s in range(S):
            best = -1.0
            tie = -1.0
            for a in range(A):
                c = s * A + a
                q = float(H - h) if optimistic else 0.0
                if n[g, c] > least[g]:
                    ahead = 0.0
                    for t in range(S):
                        ahead += P[g, c, t] * V[h + 1, t]
                    value = r[g, c] + ahead
                    if optimistic:
                        variance = 0.0
                        for t in range(S):
                            variance += P[g, c, t] * (V[h + 1, t] - ahead) ** 2
                        value += uncertain / n[g, c] + bernstein * math.sqrt(variance / n[g, c])
                        value = min(value, q)
                    q = value
                if q > best + 1e-9 or (q > best - 1e-9 and ties[h, s, a] > tie):
                    best = max(best, q)
                    tie = ties[h, s, a]
                    policy[h, s] = a
            V[h, s] = best


@kernel()
def demand(policy, n, P, segment, least, want, after, share, ahead):
    """Adds ``share`` times what ``policy`` is expected to want from each step and state on to ``ahead`` (H, S).

    ``want`` is (1, C) or (H, C). What follows an unknown cell is taken to be wanted by ``after`` a step.
    """
    H, S = policy.shape
    A = n.shape[1] // S
    below = [0.0] * S
    here = [0.0] * S
    for h in range(H - 1, -1, -1):
        g = segment[h]
        for s in range(S):
            c = s * A + policy[h, s]
            total = want[h if want.shape[0] > 1 else 0, c]
            if h + 1 < H:
                if n[g, c] > least[g]:
                    for t in range(S):
                        total += P[g, c, t] * below[t]
                else:
                    total += after * (H - 1 - h)
            here[s] = total
            ahead[h, s] += share * total
        for s in range(S):
            below[s] = here[s]


@kernel()
def _apart(x, n, sx2, sn2, y, m, sy2, sm2, weight):
    """Returns z² of x/n − y/m for noise of these variances, and samples of ``weight`` each."""
    p = x / n
    q = y / m
    middle = min(max((x + y) / (n + m), 0.0), 1.0)
    samples = middle * (1.0 - middle) * weight
    variance = (sx2 + p * p * sn2) / (n * n) + samples / n + (sy2 + q * q * sm2) / (m * m) + samples / m
    if abs(p - q) < 1e-9:  # without noise, what never varies has no variance: 0/0 would be NaN and hide all the rest
        return 0.0
    return (p - q) ** 2 / max(variance, 1e-12)


@kernel()
def best_split(transitions, visits, rewards, sigma, reward, visit, centre, weight, sure, low, high):
    """Returns where steps [low, high) fall apart best, and the largest z of any count there; (low, 0) if nowhere.

    The counts are sums over steps: row h holds the first h steps. A cell is compared where both sides have n̂ above
    ``sure`` standard deviations. The place is that with the largest Σ max(z² − 9, 0).
    """
    C, S = transitions.shape[1:]
    precision = 1.0 / S + visit * visit
    place = low
    largest = 0.0
    score = 0.0
    for t in range(low + 1, high):
        one = sigma * sigma * (t - low)
        two = sigma * sigma * (high - t)
        total = 0.0
        most = 0.0
        for c in range(C):
            n = 0.0
            m = 0.0
            for s in range(S):
                n += transitions[t, c, s] - transitions[low, c, s]
                m += transitions[high, c, s] - transitions[t, c, s]
            n = (n / S + visit * visit * (visits[t, c] - visits[low, c])) / precision
            m = (m / S + visit * visit * (visits[high, c] - visits[t, c])) / precision
            if n <= max(sure * math.sqrt(one / precision), 1.0) or m <= max(sure * math.sqrt(two / precision), 1.0):
                continue
            for s in range(S):
                z2 = _apart(
                    transitions[t, c, s] - transitions[low, c, s],
                    n,
                    one,
                    one / precision,
                    transitions[high, c, s] - transitions[t, c, s],
                    m,
                    two,
                    two / precision,
                    weight,
                )
                total += max(z2 - 9.0, 0.0)
                most = max(most, z2)
            z2 = _apart(
                rewards[t, c] - rewards[low, c] + centre * n,
                n,
                one / (reward * reward),
                one / precision,
                rewards[high, c] - rewards[t, c] + centre * m,
                m,
                two / (reward * reward),
                two / precision,
                weight,
            )
            total += max(z2 - 9.0, 0.0)
            most = max(most, z2)
        if total > score:
            score = total
            place = t
            largest = math.sqrt(most)
    return place, largest


@kernel()
def differences(transitions, visits, rewards, sigma, reward, visit, centre, weight, sure, z):
    """Fills ``z`` (2, C): by how much transitions and rewards of a cell differ between any two segments at most.

    The counts are those of segments, (G, C, …), with noise ``sigma`` (G,); −1 where a cell is not known in two of them.
    """
    G, C, S = transitions.shape
    precision = 1.0 / S + visit * visit
    n = [0.0] * G
    for c in range(C):
        z[0, c] = -1.0
        z[1, c] = -1.0
        for g in range(G):
            n[g] = 0.0
            for s in range(S):
                n[g] += transitions[g, c, s]
            n[g] = (n[g] / S + visit * visit * visits[g, c]) / precision
        for g in range(G):
            one = sigma[g] * sigma[g]
            if n[g] <= max(sure * math.sqrt(one / precision), 1.0):
                continue
            for f in range(g):
                two = sigma[f] * sigma[f]
                if n[f] <= max(sure * math.sqrt(two / precision), 1.0):
                    continue
                for s in range(S):
                    z2 = _apart(
                        transitions[g, c, s],
                        n[g],
                        one,
                        one / precision,
                        transitions[f, c, s],
                        n[f],
                        two,
                        two / precision,
                        weight,
                    )
                    z[0, c] = max(z[0, c], math.sqrt(z2))
                z2 = _apart(
                    rewards[g, c] + centre * n[g],
                    n[g],
                    one / (reward * reward),
                    one / precision,
                    rewards[f, c] + centre * n[f],
                    n[f],
                    two / (reward * reward),
                    two / precision,
                    weight,
                )
                z[1, c] = max(z[1, c], math.sqrt(z2))

"""What discreet-vi's kernels compute, written to be read: NumPy, one cell after the other."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def posterior_mean(y, sigma, high, spike):
    """E[t | y] for y ~ N(t, σ²), t = 0 with probability ``spike``, else U[0, high]: by numerical integration."""
    points = [min(max(y + k * sigma, 0.0), high) for k in (-8, -4, -1, 0, 1, 4, 8)]

    def integral(weight):
        pieces = zip([0.0, *points], [*points, high], strict=True)
        return sum(quad(lambda t: weight(t) * norm.pdf(y, t, sigma), a, b, epsabs=0)[0] for a, b in pieces if b > a)

    slab = (1 - spike) / high
    return slab * integral(lambda t: t) / (spike * norm.pdf(y, 0, sigma) + slab * integral(lambda _: 1.0))


def visits(m, nu, visit):
    """n̂: Σm̃ and ν̃, each with the inverse of its variance (S and 1/k_n²) as weight."""
    S = m.shape[-1]
    return (m.sum(axis=-1) / S + visit**2 * nu) / (1 / S + visit**2)


def estimate(m, nu, rho, sigma, reward, visit, centre, spikes, mean):
    """The model of every segment; ``mean`` is a posterior mean. n̂ is taken again with those m̃ that are no noise."""
    G, C, S = m.shape
    n, P, r = visits(m, nu, visit), np.full(m.shape, 1 / S), np.zeros((G, C))
    precision = 1 / S + visit**2
    for g in range(G):
        noise = sigma[g] * math.sqrt(1 / reward**2 + centre**2 / precision)
        for c in range(C):
            if n[g, c] <= 0:
                continue
            pairs = [(mean(y, sigma[g], n[g, c], spikes[0]), mean(y, sigma[g], n[g, c], 0.0)) for y in m[g, c]]
            f = np.array([shrunk / max(slab, 1e-12) for shrunk, slab in pairs])  # probability that it is no noise
            kept = max(f.sum(), 1.0)
            n[g, c] = (f @ m[g, c] / kept + visit**2 * nu[g, c]) / (1 / kept + visit**2)
            if n[g, c] <= 0:
                continue
            t = np.array([mean(y, sigma[g], n[g, c], spikes[0]) for y in m[g, c]])
            if t.sum() > 0:
                P[g, c] = t / t.sum()
            r[g, c] = mean(rho[g, c] + centre * n[g, c], noise, n[g, c], spikes[1]) / n[g, c]
    return n, P, r


def plan(n, P, r, segment, sigma, noise, least, width, bernstein, optimistic, ties):
    """Values and policy, backwards."""
    H, S, A = ties.shape
    V, policy = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
    for h in reversed(range(H)):
        g, after = segment[h], V[h + 1]
        known = (n[g] > least[g]).reshape(S, A)
        count = np.where(known, n[g].reshape(S, A), 1.0)
        ahead = P[g].reshape(S, A, S) @ after
        variance = np.einsum("sat,sat->sa", P[g].reshape(S, A, S), (after - ahead[..., None]) ** 2)
        Q = r[g].reshape(S, A) + ahead
        if optimistic:
            Q = Q + width * (sigma[g] * np.linalg.norm(after - after.mean()) + noise[g]) / count
            Q = np.minimum(Q + bernstein * np.sqrt(variance / count), H - h)
        Q = np.where(known, Q, H - h if optimistic else 0.0)
        V[h] = Q.max(axis=1)
        policy[h] = np.where(V[h][:, None] - 1e-9 < Q, ties[h], -1.0).argmax(axis=1)
    return V, policy


def demand(policy, n, P, segment, least, want, after):
    """What is expected to be wanted from each step and state on, (H, S)."""
    H, S = policy.shape
    A = n.shape[1] // S
    F = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        g = segment[h]
        for s in range(S):
            c = s * A + policy[h, s]
            known = n[g, c] > least[g]
            F[h, s] = want[h if len(want) > 1 else 0, c] + (P[g, c] @ F[h + 1] if known else after * (H - 1 - h))
    return F[:H]


def apart(x, n, sx2, sn2, y, m, sy2, sm2, weight):
    """z of the difference of two ratios: delta method for the noise, binomial samples of ``weight`` each."""
    middle = min(max((x + y) / (n + m), 0.0), 1.0)
    variance = middle * (1 - middle) * weight * (1 / n + 1 / m)
    variance += (sx2 + (x / n) ** 2 * sn2) / n**2 + (sy2 + (y / m) ** 2 * sm2) / m**2
    return abs(x / n - y / m) / math.sqrt(variance)


def compared(one, two, s1, s2, reward, visit, centre, weight, sure):
    """z of transitions (C, S) and rewards (C,) of two stretches (m, ν, ρ) with noise s1 and s2; NaN if not known."""
    (m1, _, rho1), (m2, _, rho2) = one, two
    C, S = m1.shape
    precision = 1 / S + visit**2
    n1, n2 = visits(*one[:2], visit), visits(*two[:2], visit)
    z, zr = np.full((C, S), np.nan), np.full(C, np.nan)
    v1, v2 = s1**2, s2**2
    for c in range(C):
        if n1[c] <= max(sure * s1 / math.sqrt(precision), 1) or n2[c] <= max(sure * s2 / math.sqrt(precision), 1):
            continue
        sides = (n1[c], v1, v1 / precision, n2[c], v2, v2 / precision)
        for s in range(S):
            z[c, s] = apart(m1[c, s], *sides[:3], m2[c, s], *sides[3:], weight)
        R1, R2 = rho1[c] + centre * n1[c], rho2[c] + centre * n2[c]
        zr[c] = apart(R1, n1[c], v1 / reward**2, sides[2], R2, n2[c], v2 / reward**2, sides[5], weight)
    return z, zr


def best_split(steps, sigma, reward, visit, centre, weight, sure, low, high):
    """Where steps [low, high) differ most, and the largest z there."""
    place, largest, score = low, 0.0, 0.0
    for t in range(low + 1, high):
        one, two = (tuple(x[a:b].sum(axis=0) for x in steps) for a, b in ((low, t), (t, high)))
        noise = sigma * math.sqrt(t - low), sigma * math.sqrt(high - t)
        z, zr = compared(one, two, *noise, reward, visit, centre, weight, sure)
        every = np.concatenate([z.ravel(), zr])
        every = every[~np.isnan(every)]
        total = np.maximum(every**2 - 9, 0).sum()
        if total > score:
            place, largest, score = t, float(every.max()), total
    return place, largest


def differences(segments, sigma, reward, visit, centre, weight, sure):
    """The largest z between two segments, of transitions and of rewards, (2, C); −1 where none can be compared."""
    G, C = segments[0].shape[:2]
    found = np.full((2, C), -1.0)
    for g in range(G):
        for f in range(g):
            one, two = (tuple(x[i] for x in segments) for i in (g, f))
            z, zr = compared(one, two, sigma[g], sigma[f], reward, visit, centre, weight, sure)
            for c in range(C):
                if not np.isnan(zr[c]):
                    found[0, c], found[1, c] = max(found[0, c], z[c].max()), max(found[1, c], zr[c])
    return found

"""Algorithms 1 to 3 of SDP-PE (Bai et al. 2025), written down line by line: slow, with x† as a state of its own."""

from __future__ import annotations

import itertools
import math

import numpy as np


def lengths(K, H, S, A):
    """Algorithm 1, lines 1 to 4, from the first stage that gives every policy a user."""
    b = 0
    while 2**b < H * S * A:
        b += 1
    L = []
    while True:
        L_b = 2**b
        last = 2 * (sum(L) + L_b) >= K
        if last:
            L_b = (K - 2 * sum(L)) // 2
        if L_b >= H * S * A:
            L.append(L_b)
        if last:
            return L
        b += 1


def all_policies(H, S, A):
    """φ_1: π as a dictionary from (h, x) to a."""
    where = [(h, x) for h in range(H) for x in range(S)]
    return [dict(zip(where, actions, strict=True)) for actions in itertools.product(range(A), repeat=H * S)]


def value_of(pi, reward, P, d1, H, S):
    """V^π(r', P) with P over X ∪ {x†}: P[h][x][a][x'], x† = S."""
    value = [0.0] * (S + 1)
    for h in reversed(range(H)):
        now = [0.0] * (S + 1)
        for x in range(S):
            a = pi[h, x]
            now[x] = reward[h][x][a] + sum(P[h][x][a][y] * value[y] for y in range(S + 1))
        now[S] = value[S]  # x† stays, and pays nothing
        value = now
    return sum(d1[x] * value[x] for x in range(S))


def indicator(h, x, a, H, S, A):
    """The reward function 1_{h,x,a}."""
    r = np.zeros((H, S, A))
    r[h, x, a] = 1.0
    return r


def estimate_transition(n, m, W, h, P, S, A):
    """P_h(x'|x,a) = N(x,a,x')/N(x,a) outside W, the rest to x†."""
    for x in range(S):
        for a in range(A):
            for y in range(S):
                P[h][x][a][y] = 0.0 if (h, x, a, y) in W else m[x][a][y] / n[x][a]
            P[h][x][a][S] = 1.0 - sum(P[h][x][a][:S])


def crude_exploration(phi, L, counts, E, iota, d1, H, S, A, C1=6.0):
    """Algorithm 2. ``counts(h)`` are private counts (n, m) of layer h that meet Assumption 4."""
    W, played = set(), {}
    P = [[[[0.0] * S + [1.0] for _ in range(A)] for _ in range(S)] for _ in range(H)]
    for h in range(H):  # line 1
        for x in range(S):
            for a in range(A):  # line 3
                r = indicator(h, x, a, H, S, A)
                played[h, x, a] = max(phi, key=lambda pi: value_of(pi, r, P, d1, H, S))  # line 4; the first of several
        n, m = counts(h)  # lines 5 to 8
        for x, a, y in itertools.product(range(S), range(A), range(S)):
            if m[x][a][y] < C1 * E * H**2 * iota:  # line 9
                W.add((h, x, a, y))
        estimate_transition(n, m, W, h, P, S, A)  # line 10
    return W, P, played


def fine_exploration(W, P_cru, phi, counts, d1, H, S, A):
    """Algorithm 3. ``counts(h)`` are private counts (n, m, R) of layer h that meet Assumption 4."""
    played = {}
    P = [[[list(row) for row in rows] for rows in layer] for layer in P_cru]
    r_hat = np.zeros((H, S, A))
    for h, x, a in itertools.product(range(H), range(S), range(A)):  # line 1
        r = indicator(h, x, a, H, S, A)
        played[h, x, a] = max(phi, key=lambda pi: value_of(pi, r, P_cru, d1, H, S))  # line 2
    for h in range(H):  # line 7
        n, m, R = counts(h)
        estimate_transition(n, m, W, h, P, S, A)  # line 8
        for x, a in itertools.product(range(S), range(A)):
            r_hat[h, x, a] = min(max(R[x][a] / n[x][a], 0.0), 1.0)  # line 9
    return P, r_hat, played


def eliminate(phi, r_hat, P, L, E, iota, d1, H, S, A, C=1.0):
    """Algorithm 1, lines 7 to 13."""
    values = [value_of(pi, r_hat, P, d1, H, S) for pi in phi]
    xi = C * (math.sqrt(H**5 * S**2 * A * iota / L) + S**3 * A**2 * H**5 * E * iota / L)
    return [pi for pi, value in zip(phi, values, strict=True) if max(values) - value <= 2 * xi], max(values), xi

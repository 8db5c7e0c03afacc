"""Optimistic planning with linear regressions: Algorithms 1 and 2 of Zhou (2022)."""

import math

from numba import types

from discreet._jit import kernel

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_f3 = types.Array(types.float64, 3, "C")
_i1 = types.Array(types.int64, 1, "C")
_i2 = types.Array(types.int64, 2, "C")
_rf1 = types.Array(types.float64, 1, "C", readonly=True)
_rf3 = types.Array(types.float64, 3, "C", readonly=True)
_ri1 = types.Array(types.int64, 1, "C", readonly=True)

#: φ (S, A, d₂); offsets, successors, coordinates, weights of ψ
FEATURES = types.Tuple((_rf3, _ri1, _ri1, _ri1, _rf1))
#: Λ_r (H, d₂, d₂), u_r (H, d₂), β_r (H,), and the same for p; the matrices are overwritten by their Cholesky factors
REGRESSIONS = types.Tuple((_f3, _f2, _f1, _f3, _f2, _f1))
#: Q (H, S, A), V (H+1, S), policy (H, S) or (H, S, A)
_PLANNED = types.Tuple((_f3, _f2, _i2))
_PLANNED_MIXED = types.Tuple((_f3, _f2, _f3))


@kernel()
def factor(M):
    """Overwrites the lower triangle of a symmetric matrix with its Cholesky factor; False if there is none.

    A pivot that is lost in the rounding errors of its diagonal entry counts as not positive.
    """
    d = M.shape[0]
    for j in range(d):
        diagonal = M[j, j]
        pivot = diagonal
        for k in range(j):
            pivot -= M[j, k] * M[j, k]
        if not (pivot > 1e-14 * abs(diagonal)) or pivot == math.inf:  # NaN fails too
            return False
        root = math.sqrt(pivot)
        M[j, j] = root
        for i in range(j + 1, d):
            x = M[i, j]
            for k in range(j):
                x -= M[i, k] * M[j, k]
            M[i, j] = x / root
    return True


@kernel()
def solve(L, u, theta):
    """Fills θ = Λ⁻¹u, given Λ = LLᵀ."""
    d = u.shape[0]
    for i in range(d):
        x = u[i]
        for k in range(i):
            x -= L[i, k] * theta[k]
        theta[i] = x / L[i, i]
    for i in range(d - 1, -1, -1):
        x = theta[i]
        for k in range(i + 1, d):
            x -= L[k, i] * theta[k]
        theta[i] = x / L[i, i]


@kernel()
def inner_and_width(L, theta, phi, y):
    """Returns ⟨φ, θ⟩ and (φᵀΛ⁻¹φ)^{1/2} = ‖L⁻¹φ‖, given Λ = LLᵀ; ``y`` is working space."""
    d = phi.shape[0]
    inner = 0.0
    squares = 0.0
    first = 0
    while first < d and phi[first] == 0.0:  # the solution begins where φ does
        y[first] = 0.0
        first += 1
    for i in range(first, d):
        x = phi[i]
        for k in range(first, i):
            x -= L[i, k] * y[k]
        y[i] = x / L[i, i]
        squares += y[i] * y[i]
        inner += phi[i] * theta[i]
    return inner, math.sqrt(squares)


@kernel()
def optimistic(features, regressions, bounds, h, V, Q, work):
    """Fills Q_h(s,a), lines 5 to 10; returns 0, or why not: 1, 2 for an indefinite Λ_r, Λ_p, 3 for a long feature."""
    phi_r, offsets, successors, coordinates, weights = features
    Lr, ur, beta_r, Lp, up, beta_p = regressions
    theta_r, theta_p, phi, y_r, y_p = work
    H, S, A = Q.shape
    cap = float(H - h)
    if not factor(Lr[h]):
        return 1
    if not factor(Lp[h]):
        return 2
    solve(Lr[h], ur[h], theta_r)  # θ̂_r, line 6
    solve(Lp[h], up[h], theta_p)  # θ̂_p, line 5
    most = bounds[h] * bounds[h]
    for s in range(S):
        for a in range(A):
            for i in range(phi.shape[0]):
                phi[i] = 0.0
            row = s * A + a
            for e in range(offsets[row], offsets[row + 1]):  # φ_h, line 7
                phi[coordinates[e]] += weights[e] * V[h + 1, successors[e]]
            norm = 0.0
            for i in range(phi.shape[0]):
                norm += phi[i] * phi[i]
            if not (norm <= most * (1.0 + 1e-9)):
                return 3
            reward, width_r = inner_and_width(Lr[h], theta_r, phi_r[s, a], y_r)
            value, width_p = inner_and_width(Lp[h], theta_p, phi, y_p)
            q = reward + value + beta_p[h] * width_p + beta_r[h] * width_r  # lines 8 to 10
            Q[h, s, a] = max(0.0, min(cap, q))
    return 0


@kernel([types.Tuple((types.int64, types.int64))(FEATURES, REGRESSIONS, _f1, _PLANNED, types.UniTuple(_f1, 5))])
def plan_vi(features, regressions, bounds, planned, work):
    """Fills Q, V and the greedy policy; returns (0, 0), or why and at which step (from 1) it cannot."""
    Q, V, policy = planned
    H, S, A = Q.shape
    V[H] = 0.0  # line 3
    for h in range(H - 1, -1, -1):
        why = optimistic(features, regressions, bounds, h, V, Q, work)
        if why:
            return why, h + 1
        for s in range(S):
            best = -1.0
            for a in range(A):
                if Q[h, s, a] > best:  # lines 11 and 12; the first of equal actions
                    best = Q[h, s, a]
                    policy[h, s] = a
            V[h, s] = best
    return 0, 0


@kernel()
def improve(eta, Q, policy):
    """π ∝ π·exp(ηQ)."""
    H, S, A = Q.shape
    for h in range(H):
        for s in range(S):
            largest = -math.inf
            for a in range(A):
                largest = max(largest, Q[h, s, a])
            total = 0.0
            for a in range(A):
                policy[h, s, a] *= math.exp(eta * (Q[h, s, a] - largest))
                total += policy[h, s, a]
            for a in range(A):
                policy[h, s, a] /= total


@kernel([types.Tuple((types.int64, types.int64))(FEATURES, REGRESSIONS, _f1, _PLANNED_MIXED, types.UniTuple(_f1, 5))])
def plan_po(features, regressions, bounds, planned, work):
    """Fills Q and V of the policy as it is, (H, S, A); returns (0, 0), or why and at which step it cannot."""
    Q, V, policy = planned
    H, S, A = Q.shape
    V[H] = 0.0  # line 4
    for h in range(H - 1, -1, -1):
        why = optimistic(features, regressions, bounds, h, V, Q, work)
        if why:
            return why, h + 1
        for s in range(S):
            value = 0.0
            for a in range(A):
                value += Q[h, s, a] * policy[h, s, a]  # line 12
            V[h, s] = value
    return 0, 0

"""Noisy counts made consistent: the post-processing step of DP-UCBVI (Section 5.1.1), all cells at once."""

import math

from numba import types

from discreet._jit import kernel

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
#: project(n̂, m̂, E → visits, transitions)
PROJECT = types.void(_f1, _f2, types.float64, _f1, _f2)


@kernel()
def _level(d, total):
    """The τ ≤ 0 with Σ max(0, d − τ) = total ≥ 0, for d ≤ 0 whose largest entry is 0.

    If A holds every s with d_s > τ, then τ_A = (Σ_A d − total)/|A| ≤ τ, because Σ_A (d − τ) ≤ total. So dropping from A
    what lies below τ_A drops nothing that counts, and when nothing lies below it, τ_A is τ: at most S + 1 passes, a
    handful as a rule, and no tolerance (Michelot's algorithm).
    """
    tau = -total  # a lower bound: the largest entry alone takes −τ ≤ total
    size = -1
    while True:
        k = 0
        mass = 0.0
        for s in range(d.size):
            if d[s] >= tau:  # the largest always stays, so k ≥ 1
                k += 1
                mass += d[s]
        if k == size:
            return tau
        size = k
        tau = max(tau, (mass - total) / k)  # it only rises, so the sets are nested in floating point as well


@kernel(PROJECT)
def project(n_hat, m_hat, E, visits, transitions):
    """Fills ``visits`` (cells,) and ``transitions`` (cells, S) from noisy ``n_hat`` (cells,) and ``m_hat`` (cells, S).

    Eq. (4) asks for a smallest largest change max|x − m̂| on {x ≥ 0, L ≤ Σx ≤ U}. It has many solutions; this is the
    Euclidean projection of m̂ on that set, x = max(0, m̂ − θ) with one θ for the whole cell, which is always one of them:

    For even convex φ, x also minimises Σφ(x_s − m̂_s). Where x_s > 0 the slope φ'(x_s − m̂_s) is μ = φ'(−θ), where
    x_s = 0 it is φ'(−m̂_s) ≥ μ as m̂_s ≤ θ, and μ has the sign of −θ, which is that of the bound that binds: these are
    the conditions of Kuhn and Tucker. So no feasible y has ‖y − m̂‖_p < ‖x − m̂‖_p for any p > 1; let p → ∞.

    ``transitions`` may be ``m_hat`` itself. Finite input with |values| < 1e300 / S gives finite output.

    References:
        Qiao and Wang 2023, eq. (4) to (6), with n̂ clamped at 0 because (6) is infeasible for n̂ < −E/4.
    """
    cells, S = m_hat.shape
    for c in range(cells):
        m = m_hat[c]
        x = transitions[c]
        n = max(n_hat[c], 0.0)
        L = max(n - E / 4.0, 0.0)  # |Σx − n⁺| ≤ E/4; Σx ≥ 0 anyway
        U = n + E / 4.0
        top = -math.inf
        positive = 0.0
        for s in range(S):
            top = max(top, m[s])
            positive += max(0.0, m[s])
        total = min(max(L, positive), U)  # Σx: θ > 0 lowers it to U, θ < 0 raises it to L
        if total == positive:  # θ = 0
            for s in range(S):
                x[s] = max(0.0, m[s])
        else:
            for s in range(S):  # relative to the largest count, so that rounding is relative to Σx and not to m̂
                x[s] = m[s] - top
            tau = _level(x, total)  # θ = max m̂ + τ
            for s in range(S):
                x[s] = max(0.0, x[s] - tau)
        size = 0.0
        for s in range(S):
            size += x[s]
            x[s] += E / (2.0 * S)  # eq. (5)
        visits[c] = size + E / 2.0  # eq. (5)

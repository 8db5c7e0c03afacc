"""The count projection of DP-UCBVI (Section 5.1.1) for one cell, and the paper's linear program as its oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def bounds(n_hat: float, E: float) -> tuple[float, float]:
    """The smallest and the largest Σx: |Σx − n⁺| ≤ E/4 with n⁺ = max(n̂, 0), and Σx ≥ 0."""
    n = max(n_hat, 0.0)
    return max(n - E / 4, 0.0), n + E / 4


def threshold(m_hat: Array, total: float) -> float:
    """The largest θ with Σ max(0, m̂ − θ) ≥ total: sort, and find how many entries lie above θ."""
    v = np.sort(m_hat)[::-1]
    theta = (np.cumsum(v) - total) / np.arange(1, v.size + 1)  # if exactly the k largest lie above it
    k = np.flatnonzero(v >= theta)[-1] if total > 0 else 0
    return float(theta[k])


def closest(n_hat: float, m_hat: Array, E: float) -> Array:
    """The Euclidean projection of ``m_hat`` (S,) on {x ≥ 0, L ≤ Σx ≤ U}."""
    L, U = bounds(n_hat, E)
    positive = np.maximum(m_hat, 0.0)
    if positive.sum() > U:
        return np.maximum(m_hat - threshold(m_hat, U), 0.0)
    if positive.sum() < L:
        return np.maximum(m_hat - threshold(m_hat, L), 0.0)
    return positive


def project(n_hat: float, m_hat: Array, E: float) -> tuple[float, Array]:
    """Visits and transitions (S,) of one cell: eq. (4), then eq. (5)."""
    x = closest(n_hat, m_hat, E)
    return float(x.sum() + E / 2), x + E / (2 * x.size)


def largest_change(n_hat: float, m_hat: Array, E: float) -> float:
    """The optimum of eq. (6) with n̂ clamped, in closed form.

    t_U is the *smallest* t with Σ max(0, m̂ − t) ≤ U: max m̂ if U = 0, where every larger t solves the equation too.
    """
    L, U = bounds(n_hat, E)
    t_U = threshold(m_hat, U) if np.maximum(m_hat, 0.0).sum() > U else 0.0
    return max(0.0, float(-m_hat.min()), float(L - m_hat.sum()) / m_hat.size, t_U)


def linear_program(n_hat: float, m_hat: Array, E: float, *, clamp: bool = True) -> float:
    """The optimum of eq. (6) by HiGHS, with n̂ clamped at 0 or as printed (nan where that is infeasible).

    The program is homogeneous, so it is solved in units of its largest number: the solver's tolerances are absolute.
    """
    S = m_hat.size
    scale = max(1.0, abs(n_hat), E, float(np.abs(m_hat).max()))
    m, n, slack = m_hat / scale, (max(n_hat, 0.0) if clamp else n_hat) / scale, E / 4 / scale
    ones, eye = np.ones((1, S)), np.eye(S)
    A = np.block(  # variables x (S,) and t
        [[eye, -np.ones((S, 1))], [-eye, -np.ones((S, 1))], [ones, np.zeros((1, 1))], [-ones, np.zeros((1, 1))]]
    )
    b = np.concatenate([m, -m, [n + slack, slack - n]])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = linprog(np.append(np.zeros(S), 1.0), A_ub=A, b_ub=b, bounds=(0, None), method="highs", options=tight)
    if solution.status == 2:
        return float("nan")
    if solution.status != 0:
        raise RuntimeError(f"HiGHS failed: {solution.message}")
    return float(solution.fun * scale)


def closest_exactly(n_hat: float, m_hat: Array, E: float) -> list[Fraction]:
    """`closest` in rational arithmetic, for the kernel's rounding."""
    n, e, m = Fraction(max(n_hat, 0.0)), Fraction(E) / 4, [Fraction(float(v)) for v in m_hat]
    zero = Fraction(0)
    positive = sum((max(v, zero) for v in m), zero)
    total = min(max(positive, n - e, zero), n + e)
    if total == positive:
        return [max(v, zero) for v in m]
    v = sorted(m, reverse=True)
    theta = [(sum(v[:k]) - total) / k for k in range(1, len(v) + 1)]
    last = max(k for k in range(len(v)) if v[k] >= theta[k])
    return [max(value - theta[last], zero) for value in m]

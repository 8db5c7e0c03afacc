"""The mathematics of a buffered linear Toeplitz (BLT) factorisation of prefix sums, A = (A C⁻¹)·C.

A is the lower-triangular all-ones matrix, C the lower-triangular Toeplitz matrix with first column c_0 = 1, c_t = Σ_i
ω_i θ_i^{t−1}. Releasing A x + A C⁻¹ z with independent z is a Gaussian mechanism on C x, whose sensitivity to one
user in one step is at most ‖c‖ (the first column's norm).

Everything is written in the *decays* κ = 1 − θ. The slowest is near 2.5/n, which 1 − θ would hold to few digits once θ
is rounded; in the decays every sum below has positive terms only, so nothing cancels:

- C(x) = 1 + x·Σ_i ω_i/(1 − θ_i x) = Π_i (1 − θ̂_i x)/(1 − θ_i x): the inverse is a BLT too;
- its decays κ̂ interlace the κ and are the roots of 1 + Σ_j ω_j/(κ_j − λ) = 0; its weights are
  ω̂_i = −1/Σ_j ω_j/(κ_j − κ̂_i)² < 0;
- A C⁻¹ is Toeplitz with b_s = g_0 + Σ_i g_i (1 − κ̂_i)^s, g_0 = 1/(1 + Σ_j ω_j/κ_j), g_i = −ω̂_i/κ̂_i, all positive.

The coefficients for n = 2⁸ … 2²⁴ reads were found by ``scripts/find_blt.py``.

References:
    Dvijotham, McMahan, Pillutla, Steinke and Thakurta (2024), Efficient and near-optimal noise generation for streaming
    differential privacy.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import CapacityExceeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["coefficients", "column_norm", "prefix_modes", "read_variance"]

_BISECTIONS = 200  # leaves 2⁻²⁰⁰ of the gap between two decays: below one unit in the last place


@cache
def _table() -> dict[int, tuple[tuple[float, ...], tuple[float, ...]]]:
    text = (resources.files("discreet.sums") / "blt_coefficients.json").read_text()
    return {int(n): (tuple(row["theta"]), tuple(row["omega"])) for n, row in json.loads(text).items()}


@cache
def coefficients(n: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns (θ, ω) for ``n`` reads: of the two neighbours in the table, the one with the smaller worst error."""
    table = _table()
    if n > max(table):
        raise CapacityExceeded(f"factored sums go up to {max(table)} reads, got horizon={n}")
    above = min(m for m in table if m >= n)
    candidates = [table[above], table.get(above // 2, table[above])]

    def worst(row: tuple[tuple[float, ...], tuple[float, ...]]) -> float:
        return column_norm(*row, n) ** 2 * float(read_variance(*prefix_modes(*row), np.array([n]))[0])

    return min(candidates, key=worst)


def _decays(theta: tuple[float, ...], omega: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns κ in increasing order, and ω in the same."""
    order = np.argsort(-np.array(theta))
    return 1.0 - np.array(theta)[order], np.array(omega)[order]


def _inverse(kappa: NDArray[np.float64], omega: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns κ̂ and ω̂ of C⁻¹ to full relative accuracy.

    Each root lies between two neighbouring κ (the last below κ_d + Σω) and is bisected as an offset from the nearer
    one.
    """
    upper = np.append(kappa[1:], kappa[-1] + omega.sum())
    gap = upper - kappa

    def differences(origin: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (kappa[None, :] - origin[:, None]) - offset[:, None]
        return found

    def secular(origin: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):  # a bracket may end on a pole
            found: NDArray[np.float64] = 1.0 + (omega / differences(origin, offset)).sum(axis=1)
        return found

    lower_half = secular(kappa, gap / 2) >= 0  # the function increases from −∞ to +∞ between two poles
    lower_half[-1] = True  # there is no pole at the upper end of the last bracket
    origin = np.where(lower_half, kappa, upper)
    low, high = np.where(lower_half, 0.0, -gap / 2), np.where(lower_half, gap / 2, 0.0)
    high[-1] = gap[-1]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        right = secular(origin, middle) < 0
        low, high = np.where(right, middle, low), np.where(right, high, middle)
    offset = np.where(lower_half, high, low)  # the end away from the pole
    return origin + offset, -1.0 / (omega / differences(origin, offset) ** 2).sum(axis=1)


@cache
def prefix_modes(theta: tuple[float, ...], omega: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns decays κ̂ and weights g, (d+1,) both, such that b_s = Σ g·(1 − κ̂)^s; the first decay is 0."""
    kappa, weights = _decays(theta, omega)
    kappa_hat, omega_hat = _inverse(kappa, weights)
    constant = 1.0 / (1.0 + (weights / kappa).sum())
    decays, g = np.append(0.0, kappa_hat), np.append(constant, -omega_hat / kappa_hat)
    decays.flags.writeable = g.flags.writeable = False
    return decays, g


def _geometric(decay: float, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns Σ_{s < terms} (1 − decay)^s in closed form."""
    if decay == 0:
        return terms.copy()
    if decay <= 0.5:
        small: NDArray[np.float64] = -np.expm1(terms * np.log1p(-decay)) / decay
        return small
    large: NDArray[np.float64] = (1.0 - (1.0 - decay) ** terms) / decay
    return large


def _square(
    decays: NDArray[np.float64], weights: NDArray[np.float64], terms: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns Σ_{s < terms} (Σ_i weights_i (1 − decays_i)^s)²."""
    total = np.zeros(terms.shape)
    for k, w in zip(decays, weights, strict=True):
        for k_, w_ in zip(decays, weights, strict=True):
            total += w * w_ * _geometric(k + k_ * (1 - k), terms)
    return total


@cache
def column_norm(theta: tuple[float, ...], omega: tuple[float, ...], n: int) -> float:
    """Returns ‖c‖ over n steps: the L2 sensitivity of C x to a unit change in one step."""
    kappa, weights = _decays(theta, omega)
    return float(np.sqrt(1.0 + _square(kappa, weights, np.array(float(n - 1)))))


def read_variance(
    decays: NDArray[np.float64], weights: NDArray[np.float64], t: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Returns the variance Σ_{s < t} b_s² of the noise in reads ``t`` (from 1), for z of unit variance."""
    return _square(decays, weights, np.asarray(t, dtype=np.float64))

"""How large the noise of a sum of matrices or vectors gets: bounds for all reads at once, with proofs.

*Matrices.* A symmetric d×d matrix is summed as its upper triangle, off-diagonals times √2: a vector whose
Euclidean norm is the matrix's Frobenius norm. Noise N(0, σ²) on every coordinate is then a symmetric matrix N
with N_ii ~ N(0, σ²) and N_ij ~ N(0, σ²/2). Its largest eigenvalue is max_u uᵀNu over the unit sphere. The
increments of that process are E(uᵀNu − vᵀNv)² = σ²‖uuᵀ − vvᵀ‖_F² = 2σ²(1 − c²), c = ⟨u, v⟩, and those of √2·σ⟨g,
u⟩, g ~ N(0, I), are 4σ²(1 − c), which is no less because 1 + c ≤ 2. So (Sudakov and Fernique) E λ_max(N) ≤
√2·σ·E‖g‖. And λ_max is 1-Lipschitz in the Frobenius norm, hence in the coordinates: P(λ_max(N) > √2·σ·E‖g‖ + σt)
≤ e^{−t²/2}. −N has the same law, so for the spectral norm

    P(‖N‖ > σ(√2·E‖g‖ + t)) ≤ 2e^{−t²/2},        E‖g‖ = √2·Γ((d+1)/2)/Γ(d/2) ≤ √d.

(Lemma B.4 of Zhou 2022 has 4√d + 2t for a matrix with off-diagonals of variance σ².)

*Vectors.* ‖z‖²/σ² is χ² with d degrees of freedom; its tail is used exactly.

*All reads.* The noise of every read is a multiple √v of such a matrix or vector, so the tails add up over the
reads with the variances v of the factorisation's spectrum. Where that spectrum comes from Lévy's inequality
(partial sums of independent symmetric terms), the inequality holds for any norm.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["matrix_bound", "vector_bound"]

Spectrum = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def _solve(tail: Callable[[NDArray[np.float64]], NDArray[np.float64]], spectrum: Spectrum, failure: float) -> float:
    """Returns x such that Σ counts·exp(tail(x/√v)) ≤ failure; the tails fall."""
    from scipy.optimize import brentq

    variances, counts = spectrum

    def excess(x: float) -> float:
        logs = np.log(counts) + np.minimum(tail(x / np.sqrt(variances)), 0.0)
        return float(np.logaddexp.reduce(logs)) - math.log(failure)

    high = math.sqrt(float(variances.max()))
    while excess(high) > 0:
        high *= 2
    low = 0.0 if excess(high / 2) <= 0 else high / 2
    root = float(brentq(excess, low, high, rtol=1e-12)) if excess(low) > 0 else low
    return root * (1 + 1e-9)


def matrix_bound(dimension: int, spectrum: Spectrum, failure: float) -> float:
    """Returns x such that no read's noise matrix has a spectral norm above x·σ, with probability 1 − ``failure``.

    Args:
        dimension: d.
        spectrum: Variances for σ = 1 and how often each counts, as `Factorisation.spectrum` returns them.
        failure: Failure probability.
    """
    from scipy.special import gammaln

    mean = 2 * math.exp(float(gammaln((dimension + 1) / 2) - gammaln(dimension / 2)))  # √2·E‖g‖

    def tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return math.log(2) - np.maximum(x - mean, 0.0) ** 2 / 2

    return _solve(tail, spectrum, failure)


def vector_bound(dimension: int, spectrum: Spectrum, failure: float) -> float:
    """Returns x such that no read's noise vector has a norm above x·σ, with probability 1 − ``failure``."""
    from scipy.stats import chi2

    def tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(chi2.logsf(x * x, dimension), dtype=np.float64)

    return _solve(tail, spectrum, failure)

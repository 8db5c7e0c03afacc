"""Exact tails of sums of noise."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Distribution

__all__ = ["exceedances", "laplace_tail"]

_MANY = 10_000


@lru_cache(maxsize=256)
def _laplace_coefficients(j: int) -> NDArray[np.float64]:
    """Returns ln a_i, i < j, such that P(S > x) = e^{−x} Σ_i a_i x^i/i! for S a sum of j standard Laplaces, x ≥ 0.

    S = G − G' with G, G' ~ Gamma(j). Given G' = y, P(G > x + y) = e^{−x−y} Σ_{k<j} (x+y)^k/k!; expanding the power
    and taking the mean over y gives a_i = Σ_{l < j−i} C(l+j−1, l)·2^{−(l+j)}: positive terms only.
    """
    l = np.arange(j)
    from scipy.special import gammaln

    terms = gammaln(l + j) - gammaln(j) - gammaln(l + 1) - (l + j) * math.log(2)
    found: NDArray[np.float64] = np.logaddexp.accumulate(terms)[::-1].copy()
    return found


def laplace_tail(j: int, x: float) -> float:
    """Returns ln P(|S| > x) for S a sum of ``j`` standard Laplaces: exact, or Chernoff's bound for j > 10⁴."""
    from scipy.special import gammaln

    if x <= 0:
        return 0.0
    if j > _MANY:  # ln 2 − tx − j·ln(1 − t²) at the best t
        t = x / (j + math.hypot(j, x))
        return min(0.0, math.log(2) - t * x - j * math.log1p(-t * t))
    i = np.arange(j)
    terms = _laplace_coefficients(j) + i * math.log(x) - gammaln(i + 1)
    return math.log(2) - x + float(np.logaddexp.reduce(terms))


def exceedances(
    distribution: Distribution, x: float, variances: NDArray[np.float64], counts: NDArray[np.float64]
) -> float:
    """Returns the ln of the expected number of noises beyond ±x, in units of the noise's scale.

    Args:
        distribution: Of the fresh noise.
        x: The threshold.
        variances: For Gaussian noise the variances; for Laplace noise how many are summed.
        counts: How many noises there are of each.
    """
    if distribution == "gaussian":
        from scipy.special import log_ndtr

        tails = math.log(2) + log_ndtr(-x / np.sqrt(variances))
    else:
        tails = np.array([laplace_tail(round(j), x) for j in variances])
    return float(np.logaddexp.reduce(np.log(counts) + tails))

"""What a device can check by itself: whether Gaussian noise hides as much as its owner asks for."""

from __future__ import annotations

import math

__all__ = ["gaussian_delta", "gaussian_hides"]


def _upper(x: float) -> float:
    """Returns P(N(0, 1) > x)."""
    return math.erfc(x / math.sqrt(2)) / 2


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Returns δ(ε) of μ-GDP, exactly: Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2).

    References:
        Balle and Wang (2018), Improving the Gaussian mechanism for differential privacy, Theorem 8.
    """
    first, second = _upper(epsilon / mu - mu / 2), _upper(epsilon / mu + mu / 2)
    grown = math.exp(epsilon + math.log(second)) if second > 0 else 0.0
    return max(first - grown, 0.0)


def gaussian_hides(mu: float, epsilon: float, delta: float) -> bool:
    """Returns whether μ-GDP is (ε, δ)-DP, but for rounding of 1e-9 in δ, relatively."""
    return delta > 0 and gaussian_delta(mu, epsilon) <= delta * (1 + 1e-9)

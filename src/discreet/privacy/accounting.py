"""From events to ε: the one module that talks to dp-accounting.

Mechanisms describe themselves as `DpEvent`s of dp-accounting; this module proves what they give. It knows
compositions of Gaussian and Laplace events, with the noise multiplier relative to the *whole* L2 (Gaussian) or L1
(Laplace) sensitivity under replace-one, which we compute ourselves (`discreet.privacy.sensitivity`). Anything else
raises.

*Gaussian.* A Gaussian mechanism with noise multiplier s is exactly μ-GDP with μ = 1/s, and k of them compose,
adaptively, to exactly √(Σμ²)-GDP, whose δ at ε is Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) (Dong, Roth and Su 2022,
Corollaries 1 and 2). Never the textbook formula, never Rényi.

*Laplace.* With noise multiplier s it is exactly (1/s, 0)-DP, whatever the shape of the change within its L1 norm;
pure ε add up.

*Randomised response*, and with it any purely private mechanism (`pure`): its ε.

*Both.* The pure part loses at most its ε on every output, so the Gaussian part's (ε, δ) grows by just that.

All three hold for adaptively chosen mechanisms whose parameters depend on earlier outputs, which is what makes them
usable as filters (`discreet.privacy.ledger`).
"""

from __future__ import annotations

import math
from typing import Any

from discreet.errors import InvalidInput, Unproven

__all__ = [
    "DpEvent",
    "compose",
    "epsilon",
    "gaussian",
    "gaussian_epsilon",
    "gaussian_mu",
    "laplace",
    "losses",
    "non_private",
    "pure",
]

DpEvent = Any  # dp_accounting.DpEvent, which comes without types

_TINY = 1e-300


def _positive(noise_multiplier: float) -> float:
    if not 0 < noise_multiplier < math.inf:
        raise InvalidInput(f"noise_multiplier must be positive and finite, got noise_multiplier={noise_multiplier!r}")
    return float(noise_multiplier)


def gaussian(noise_multiplier: float, count: int = 1) -> DpEvent:
    """Returns the event of ``count`` Gaussian releases; the noise multiplier is σ over the L2 sensitivity of one."""
    import dp_accounting

    event = dp_accounting.GaussianDpEvent(_positive(noise_multiplier))
    return event if count == 1 else dp_accounting.SelfComposedDpEvent(event, count)


def laplace(noise_multiplier: float, count: int = 1) -> DpEvent:
    """Returns the event of ``count`` Laplace releases; the noise multiplier is b over the L1 sensitivity of one."""
    import dp_accounting

    event = dp_accounting.LaplaceDpEvent(_positive(noise_multiplier))
    return event if count == 1 else dp_accounting.SelfComposedDpEvent(event, count)


def pure(epsilon: float) -> DpEvent:
    """Returns the event of any ε-DP mechanism: it is a post-processing of randomised response on one bit.

    References:
        Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy.
    """
    import dp_accounting

    if not 0 <= epsilon < math.inf:
        raise InvalidInput(f"epsilon must be finite and not negative, got epsilon={epsilon!r}")
    return dp_accounting.RandomizedResponseDpEvent(noise_parameter=2 / (1 + math.exp(epsilon)), num_buckets=2)


def non_private() -> DpEvent:
    """Returns the event of releasing raw data."""
    import dp_accounting

    return dp_accounting.NonPrivateDpEvent()


def compose(*events: DpEvent) -> DpEvent:
    """Returns the event of all ``events`` happening, each possibly depending on the outputs before it."""
    import dp_accounting

    return dp_accounting.ComposedDpEvent(list(events))


def losses(event: DpEvent) -> tuple[float, float]:
    """Returns (μ², ε): what the Gaussian and the pure parts of an event add up to.

    Raises:
        Unproven: If the event contains anything else.
    """
    import dp_accounting

    if isinstance(event, dp_accounting.NoOpDpEvent):
        return 0.0, 0.0
    if isinstance(event, dp_accounting.NonPrivateDpEvent):
        return 0.0, math.inf
    if isinstance(event, dp_accounting.GaussianDpEvent):
        return _positive(event.noise_multiplier) ** -2, 0.0
    if isinstance(event, dp_accounting.LaplaceDpEvent):
        return 0.0, 1 / _positive(event.noise_multiplier)
    if isinstance(event, dp_accounting.RandomizedResponseDpEvent):
        other = event.noise_parameter / event.num_buckets  # probability of each wrong answer
        return 0.0, math.log((1 - event.noise_parameter + other) / other)
    if isinstance(event, dp_accounting.SelfComposedDpEvent):
        mu2, pure = losses(event.event)
        return event.count * mu2, event.count * pure
    if isinstance(event, dp_accounting.ComposedDpEvent):
        parts = [losses(part) for part in event.events]
        return math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)
    raise Unproven(f"nothing is proven here for a {type(event).__name__}")


def epsilon(event: DpEvent, delta: float) -> float:
    """Returns the smallest ε that is proven for ``event`` at ``delta``; infinite if there is none."""
    from discreet.privacy import binomial

    if isinstance(event, binomial.BinomialEvent):
        return binomial.epsilon(event, delta)
    mu2, pure = losses(event)
    return pure + gaussian_epsilon(math.sqrt(mu2), delta)


def _log_delta(mu: float, eps: float) -> float:
    """Returns ln δ of a μ-GDP mechanism at ε, accurately also where both terms nearly cancel."""
    from scipy.special import log_ndtr

    first = float(log_ndtr(-eps / mu + mu / 2))
    second = eps + float(log_ndtr(-eps / mu - mu / 2))
    return first + math.log(max(-math.expm1(second - first), _TINY))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Returns the exact ε of a μ-GDP mechanism at ``delta``, rounded up."""
    from scipy.optimize import brentq

    if mu == 0:
        return 0.0
    if delta <= 0:
        return math.inf
    target = math.log(delta)
    if _log_delta(mu, 0.0) <= target:
        return 0.0
    high = 1.0
    while _log_delta(mu, high) > target:
        high *= 2
    root = float(brentq(lambda eps: _log_delta(mu, eps) - target, 0.0, high, xtol=1e-14, rtol=1e-14))
    return min(root * (1 + 1e-12), high)


def gaussian_mu(eps: float, delta: float) -> float:
    """Returns the largest μ such that μ-GDP implies (ε, δ)-DP, rounded down.

    Raises:
        ValueError: If δ = 0: no Gaussian mechanism is purely private.
    """
    from scipy.optimize import brentq

    if delta <= 0:
        raise InvalidInput(f"Gaussian noise needs delta > 0, got delta={delta!r}")
    target = math.log(delta)
    low, high = 1e-12, 1.0
    while _log_delta(high, eps) < target:
        high *= 2
    root = float(brentq(lambda mu: _log_delta(mu, eps) - target, low, high, xtol=1e-15, rtol=1e-14))
    return root * (1 - 1e-10)

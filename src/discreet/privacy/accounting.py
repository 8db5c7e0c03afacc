"""From events to ε: the one module that talks to dp-accounting.

Mechanisms describe themselves as `DpEvent`s of dp-accounting; this module proves what they give. It knows compositions
of Gaussian and Laplace events, with the noise multiplier relative to the *whole* L2 (Gaussian) or L1 (Laplace)
sensitivity under replace-one, which we compute ourselves (`discreet.privacy.sensitivity`). Anything else raises.

*Gaussian.* A Gaussian mechanism with noise multiplier s is exactly μ-GDP with μ = 1/s, and k of them compose,
adaptively, to exactly √(Σμ²)-GDP, whose δ at ε is Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2) (Dong, Roth and Su 2022,
Corollaries 1 and 2). Never the textbook formula, never Rényi.

*Laplace.* With noise multiplier s it is exactly (1/s, 0)-DP, whatever the shape of the change within its L1 norm; pure
ε add up.

*Randomised response*, and with it any purely private mechanism (`pure`): its ε.

*Discrete noise.* Discrete Laplace noise with integer changes is exactly (Δ₁/t, 0)-DP, like continuous noise of its
scale. Discrete Gaussian noise is nearly a Gaussian mechanism: `discreet.privacy.discrete`.

*Anything else* that is (ε, δ)-DP: just that (`ApproximateEvent`).

*Both.* The pure part loses at most its ε on every output, so the Gaussian part's (ε, δ) grows by just that.

All three hold for adaptively chosen mechanisms. The first two hold also if the parameters depend on earlier outputs, as
long as Σμ² and Σε are bounded in advance. What that takes for both together is in `discreet.privacy.ledger`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from discreet.errors import InvalidInput, Unproven, check_integer

__all__ = [
    "ApproximateEvent",
    "DpEvent",
    "compose",
    "epsilon",
    "gaussian",
    "gaussian_epsilon",
    "gaussian_mu",
    "laplace",
    "losses",
    "mu_of_pure",
    "non_private",
    "pure",
    "pure_of_mu",
    "zero_concentrated",
]

DpEvent = Any  # dp_accounting.DpEvent, which comes without types


@dataclass(frozen=True)
class ApproximateEvent:
    """Any (ε, δ)-DP mechanism of which nothing else is known; a ledger charges it by basic composition.

    Attributes:
        epsilon: Its ε.
        delta: Its δ.
    """

    epsilon: float
    delta: float


_TINY = 1e-300
_SMALL = 1e-4  # below, a pure ε is taken for √(π/2)·ε, its limit


def _positive(noise_multiplier: float) -> float:
    if not 1e-9 <= noise_multiplier <= 1e15:  # NaN fails too
        raise InvalidInput(f"noise_multiplier must lie in [1e-9, 1e15], got noise_multiplier={noise_multiplier!r}")
    return float(noise_multiplier)


def gaussian(noise_multiplier: float, count: int = 1) -> DpEvent:
    """Returns the event of ``count`` Gaussian releases; the noise multiplier is σ over the L2 sensitivity of one."""
    import dp_accounting

    event = dp_accounting.GaussianDpEvent(_positive(noise_multiplier))
    return event if check_integer("count", count) == 1 else dp_accounting.SelfComposedDpEvent(event, count)


def laplace(noise_multiplier: float, count: int = 1) -> DpEvent:
    """Returns the event of ``count`` Laplace releases; the noise multiplier is b over the L1 sensitivity of one."""
    import dp_accounting

    event = dp_accounting.LaplaceDpEvent(_positive(noise_multiplier))
    return event if check_integer("count", count) == 1 else dp_accounting.SelfComposedDpEvent(event, count)


def pure(epsilon: float) -> DpEvent:
    """Returns the event of any ε-DP mechanism: it is a post-processing of randomised response on one bit.

    References:
        Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy.
    """
    import dp_accounting

    if not 0 <= epsilon <= 100:  # e^ε must be a number, and nothing larger is a promise
        raise InvalidInput(f"a pure epsilon must lie in [0, 100], got epsilon={epsilon!r}")
    return dp_accounting.RandomizedResponseDpEvent(noise_parameter=2 / (1 + math.exp(epsilon)), num_buckets=2)


def zero_concentrated(rho: float) -> DpEvent:
    """Returns the event of a ρ-zCDP mechanism: a Rényi loss of αρ at every order α. `losses` proves nothing for it."""
    import dp_accounting

    return dp_accounting.ZCDpEvent(rho)


def non_private() -> DpEvent:
    """Returns the event of releasing raw data."""
    import dp_accounting

    return dp_accounting.NonPrivateDpEvent()


def compose(*events: DpEvent) -> DpEvent:
    """Returns the event of all ``events`` happening, each possibly depending on the outputs before it."""
    import dp_accounting

    return dp_accounting.ComposedDpEvent(list(events))


def losses(event: DpEvent, *, convert: bool = False) -> tuple[float, float]:
    """Returns (μ², ε): what the Gaussian and the pure parts of an event add up to.

    Args:
        event: What happens.
        convert: Whether every single pure part is taken for a Gaussian one (`mu_of_pure`).

    Raises:
        Unproven: If the event contains anything else.
    """
    import dp_accounting

    if isinstance(event, dp_accounting.NoOpDpEvent):
        return 0.0, 0.0
    if isinstance(event, dp_accounting.GaussianDpEvent):
        return _positive(event.noise_multiplier) ** -2, 0.0
    if isinstance(event, dp_accounting.SelfComposedDpEvent):
        mu2, pure = losses(event.event, convert=convert)
        count = check_integer("count", event.count, least=0)
        return count * mu2, count * pure
    if isinstance(event, dp_accounting.ComposedDpEvent):
        parts = [losses(part, convert=convert) for part in event.events]
        return math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)
    pure = _pure_loss(event)
    return (mu_of_pure(pure) ** 2, 0.0) if convert else (0.0, pure)


def _pure_loss(event: DpEvent) -> float:
    """Returns the ε of a single pure mechanism."""
    import dp_accounting

    if isinstance(event, dp_accounting.NonPrivateDpEvent):
        return math.inf
    if isinstance(event, dp_accounting.LaplaceDpEvent):
        return 1 / _positive(event.noise_multiplier)
    if isinstance(event, dp_accounting.RandomizedResponseDpEvent):
        if not (0 < event.noise_parameter <= 1 and event.num_buckets >= 1):
            raise InvalidInput(f"noise_parameter must lie in (0, 1], got noise_parameter={event.noise_parameter!r}")
        other = event.noise_parameter / event.num_buckets  # probability of each wrong answer
        return math.log((1 - event.noise_parameter + other) / other)
    raise Unproven(f"nothing is proven here for a {type(event).__name__}")


def mu_of_pure(eps: float) -> float:
    """Returns the least μ such that every ε-DP mechanism is μ-GDP, −2Φ⁻¹(1/(1 + e^ε)): up to rounding, which goes up.

    The trade-off function of ε-DP is made of two chords from its ends to the point where both errors are 1/(1 + e^ε).
    For this μ, that of μ-GDP passes through the same three points; it is convex, so it lies below its chords.

    As ε goes to 0, μ/ε grows to √(π/2).

    References:
        Dong, Roth and Su (2022), Section 2, for both trade-off functions.
    """
    from scipy.special import expit, ndtri

    if eps < _SMALL:
        return math.sqrt(math.pi / 2) * eps * (1 + 1e-9)
    return -2 * float(ndtri(expit(-eps))) * (1 + 1e-9)


def pure_of_mu(mu: float) -> float:
    """Returns the largest ε with `mu_of_pure` (ε) ≤ μ: up to rounding, which goes down."""
    from scipy.special import log_ndtr

    small = mu / math.sqrt(math.pi / 2)
    if small < _SMALL:
        return small * (1 - 4e-9)
    return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2)) * (1 - 4e-9)


def epsilon(event: DpEvent, delta: float) -> float:
    """Returns the smallest ε that is proven for ``event`` at ``delta``; infinite if there is none."""
    from discreet.privacy import binomial, discrete

    if isinstance(event, binomial.BinomialEvent | binomial.SymmetricEvent):
        return binomial.epsilon(event, delta)
    if isinstance(event, ApproximateEvent):
        return event.epsilon if event.delta <= delta else math.inf
    if isinstance(event, discrete.NearEvent):
        mu2, pure = losses(event.event)
        return 2 * event.ratio + pure + gaussian_epsilon(math.sqrt(mu2), delta * math.exp(-event.ratio))
    mu2, pure = losses(event)
    return pure + gaussian_epsilon(math.sqrt(mu2), delta)


def _log_delta(mu: float, eps: float) -> float:
    """Returns ln δ of a μ-GDP mechanism at ε.

    With a = ε/μ − μ/2, δ = Φ(−a) − e^ε·Φ(−a − μ) = φ(a)·(M(a) − M(a + μ)), M being Mills' ratio: no large exponents
    cancel.
    """
    from scipy.special import erfcx, log_ndtr

    a = eps / mu - mu / 2
    if a < 0:  # the first term is at least ½
        first, second = float(log_ndtr(-a)), eps + float(log_ndtr(-a - mu))
        return first + math.log(max(-math.expm1(min(second - first, 0.0)), _TINY))
    mills = math.sqrt(math.pi / 2) * (float(erfcx(a / math.sqrt(2))) - float(erfcx((a + mu) / math.sqrt(2))))
    return -a * a / 2 - math.log(math.sqrt(2 * math.pi)) + math.log(max(mills, _TINY))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Returns the ε of a μ-GDP mechanism at ``delta``: exact up to rounding, which goes up."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    if mu == 0:
        return 0.0
    if delta <= 0:
        return math.inf
    if mu > 50:  # δ ≤ Φ(−ε/μ + μ/2): next to exact here, and without cancellation
        return (mu * mu / 2 - mu * float(ndtri(delta))) * (1 + 1e-12)
    target = math.log(delta)
    if _log_delta(mu, 0.0) <= target:
        return 0.0
    high = mu
    while _log_delta(mu, high) > target:
        high *= 2
    root = float(brentq(lambda eps: _log_delta(mu, eps) - target, 0.0, high, xtol=1e-300, rtol=1e-14))
    return root * (1 + 1e-9)


@lru_cache(maxsize=4096)
def gaussian_mu(eps: float, delta: float) -> float:
    """Returns the largest μ such that μ-GDP implies (ε, δ)-DP: exact up to rounding, which goes down.

    Raises:
        ValueError: If δ = 0: no Gaussian mechanism is purely private.
    """
    from scipy.optimize import brentq

    if delta <= 0:
        raise InvalidInput(f"Gaussian noise needs delta > 0, got delta={delta!r}")
    low, high = 1e-13, 1e-12
    while gaussian_epsilon(high, delta) < eps:
        low, high = high, high * 2
    root = float(brentq(lambda mu: gaussian_epsilon(mu, delta) - eps, low, high, xtol=1e-300, rtol=1e-13))
    while gaussian_epsilon(root, delta) > eps:  # the accountant has the last word
        root *= 1 - 1e-9
    return root * (1 - 1e-9)  # room for the rounding of noise multipliers

"""The account of discrete Gaussian noise: that of continuous noise of a slightly smaller variance, almost.

Let σ² = s² + r². Round a draw y of N(0, s²) to an integer k with probability in proportion to exp(−(k − y)²/(2r²)). By
Poisson's summation formula the sum of these weights over all k is r√(2π)·(1 + θ) with |θ| ≤ τ = 2Σ_{j≥1} exp(−2π²r²j²),
whatever y is. So the rounded draw has a law Q with |ln (N_ℤ(0, σ²)/Q)| ≤ η = ln((1 + τ)/(1 − τ)), where N_ℤ is the
discrete Gaussian. The rounding moves with integers: an integer plus a draw of Q is a post-processing of that integer
plus N(0, s²).

*Theorem.* Integers D_t are functions of what was released before them, Σ‖D_t‖² ≤ Δ² on every path, and at most N
entries are not 0. Then noise N_ℤ(0, σ²) on every entry is (ε + 2Nη, e^{Nη}·δ_μ(ε))-DP for every ε, with μ = Δ/√(σ² −
r²) and δ_μ that of μ-GDP. For a set S of outputs, P(S) ≤ e^{Nη}·Q(S) ≤ e^{Nη}·(e^ε·Q'(S) + δ_μ) ≤ e^{ε + 2Nη}·P'(S) +
e^{Nη}·δ_μ. The middle step is that of adaptive Gaussian mechanisms.

r² is chosen such that 2Nη ≤ 1e-12: about 3. On a fine grid σ² is far larger, and the account costs next to nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput, check_integer
from discreet.privacy import accounting

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["NEAR", "NearEvent", "gaussian", "near", "rounding_variance"]

#: 2Nη at most.
NEAR = 1e-12
_SLACK = 1 + 1e-9  # of what is computed in floating point here


@dataclass(frozen=True)
class NearEvent:
    """A mechanism whose probabilities lie within factors e^{±ratio} of those of an event, for all data.

    Attributes:
        event: Of Gaussian mechanisms.
        ratio: Nη.
    """

    event: accounting.DpEvent
    ratio: float

    def grown(self, event: accounting.DpEvent, size: int) -> NearEvent:
        """Returns that of a group of ``size``, whose shifts have so many times as many entries."""
        return replace(self, event=event, ratio=size * self.ratio)


def rounding_variance(entries: int) -> float:
    """Returns r² such that 2Nη ≤ `NEAR` for N = ``entries``."""
    return math.log(8 * check_integer("entries", entries) / NEAR) / (2 * math.pi**2) * _SLACK


def _eta(r2: float) -> float:
    tau = 2 * math.fsum(math.exp(-2 * math.pi**2 * r2 * j * j) for j in range(1, 10)) * _SLACK
    return (math.log1p(tau) - math.log1p(-tau)) * _SLACK


def near(event: accounting.DpEvent, entries: int) -> NearEvent:
    """Returns the event of discrete noise that is accounted for as ``event``, with σ² − `rounding_variance` for σ²."""
    return NearEvent(event, entries * _eta(rounding_variance(entries)))


def gaussian(variance: int | Fraction, shift: float, entries: int, *, count: int = 1, least: float = 1.0) -> NearEvent:
    """Returns the event of integers with discrete Gaussian noise of this ``variance``.

    Args:
        variance: σ², in units of the grid.
        shift: Δ of one of ``count`` parts that a person is in: the L2 norm of what they can change there, in the same
            units; if variances differ, in units of each entry's σ relative to that of ``variance``.
        entries: N, how many integers of all parts together can change.
        count: How many parts there are.
        least: The smallest variance of any entry, relative to ``variance``.

    Raises:
        InvalidInput: If the variance is too small for the proof; a finer grid has a larger one.
    """
    r2 = rounding_variance(entries)
    left = float(variance) - r2 / least
    if not left > 0:
        raise InvalidInput(f"the account of discrete Gaussian noise needs a variance above {r2 / least:.6g} grid units")
    multiplier = math.sqrt(left) / (shift * (1 + 1e-12))
    return near(accounting.gaussian(multiplier, count), entries)

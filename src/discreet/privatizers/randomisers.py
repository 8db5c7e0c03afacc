"""How a user hides one value out of k: local randomisers that spend the whole ε on it. NumPy only.

All of them report a *set* of values. With probability p it contains the true one, with probability q any other given
one, so Σ(1{value in the report} − q)/(p − q) over users is an unbiased count of the users who hold the value.

References:
    Wang, Blocki, Li and Jha (2017), Locally differentially private protocols for frequency estimation;
    Ye and Barg (2018), Optimal schemes for discrete distribution estimation under local differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_integer
from discreet.noise import as_source
from discreet.privatizers.device import threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source

__all__ = [
    "MOST",
    "RANDOMISERS",
    "RandomisedResponse",
    "Randomiser",
    "SubsetSelection",
    "UnaryEncoding",
    "choose",
    "count",
]


#: The largest ε
MOST = 30.0  # beyond that, the probability of not telling the truth is too small for a draw of 53 bits


_LESS = 1 - 1e-12  # so that the rounding of logarithms stays below the budget


def _drawn(p: float) -> float:
    """Returns the next larger probability that a draw of 53 bits can have.

    So the loss of a randomiser is that of what is really drawn, not that of a formula.
    """
    return min(math.ceil(p * 2**53) + 1, 2**53 - 1) / 2**53


def _log_comb(n: int, k: int) -> float:
    """Returns ln comb(n, k), however large."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@dataclass(frozen=True)
class Randomiser:
    """Hides one of ``size`` values at ``epsilon``.

    Guarantee:
        ``loss`` ≤ ``epsilon``: the largest logarithm of the ratio of any report's probabilities under two values.
    """

    epsilon: float
    size: int

    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= MOST:
            raise InvalidInput(f"randomisers go up to epsilon={MOST}, got epsilon={self.epsilon!r}")
        check_integer("size", self.size)

    @property
    def probabilities(self) -> tuple[float, float]:
        """(p, q): that the report contains the true value, and that it contains another given one."""
        raise NotImplementedError

    @property
    def loss(self) -> float:
        """The privacy loss of the probabilities that are used."""
        raise NotImplementedError

    def report(self, value: int, rng: Source | np.random.Generator) -> NDArray[np.bool_]:
        """Returns which values the report contains, (size,)."""
        raise NotImplementedError

    def decide(self, value: int, draws: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Returns a report from ``size`` uniform draws in [0, 1), as many whatever the value: see `rounding`."""
        raise NotImplementedError

    @property
    def rounding(self) -> float:
        """By how much the loss of `decide` can exceed ``loss``, since its draws have 53 bits.

        It takes at most k decisions, each with a probability of at least 1/k that is off by at most 2⁻⁵²: relative to
        a report's probability k²·2⁻⁵², and twice that in a ratio. Here is twice that again.
        """
        return self.size**2 * 2.0**-50

    def for_device(self) -> dict[str, Any]:
        """Returns what a device without Python needs for `decide`: see `discreet.privatizers.device`."""
        return {"name": self.name, "size": self.size, "p": threshold(self.probabilities[0])}

    def possible(self, reports: NDArray[np.bool_]) -> bool:
        """Returns whether all reports, (reports, size), are such as this one makes."""
        return True

    def likelihood(self, report: NDArray[np.bool_], value: int) -> float:
        """Returns the probability of a report if ``value`` is the true one."""
        raise NotImplementedError

    def variance(self, width: int, *, holds: bool) -> float:
        """Returns the variance of a user's debiased contribution to the sum over ``width`` values.

        Args:
            width: How many values are added up.
            holds: Whether the true value is one of them.
        """
        p, q = self.probabilities
        return self._set_variance(width, holds=holds) / (p - q) ** 2

    def _set_variance(self, width: int, *, holds: bool) -> float:
        """The variance of how many of the ``width`` values the report contains."""
        raise NotImplementedError


class UnaryEncoding(Randomiser):
    """Optimised unary encoding: a bit a value, the true one 1 with probability ½, the others with 1/(e^ε + 1)."""

    name = "unary"

    @cached_property
    def probabilities(self) -> tuple[float, float]:
        """P = ½, q = 1/(e^ε + 1), rounded up to what can be drawn."""
        return 0.5, _drawn(1 / (math.exp(self.epsilon * _LESS) + 1))

    @property
    def loss(self) -> float:
        """Two values differ in two independent bits: ln(p(1 − q)/((1 − p)q)); one value alone says nothing."""
        p, q = self.probabilities
        return math.log(p * (1 - q) / ((1 - p) * q)) if self.size > 1 else 0.0

    def report(self, value: int, rng: Source | np.random.Generator) -> NDArray[np.bool_]:
        """Returns the bits."""
        return self.decide(value, as_source(rng).random(self.size))

    def decide(self, value: int, draws: NDArray[np.float64]) -> NDArray[np.bool_]:
        """A draw a bit."""
        p, q = self.probabilities
        bits: NDArray[np.bool_] = draws < q
        bits[value] = draws[value] < p
        return bits

    def for_device(self) -> dict[str, Any]:
        """Both thresholds."""
        return {**super().for_device(), "q": threshold(self.probabilities[1])}

    def likelihood(self, report: NDArray[np.bool_], value: int) -> float:
        """A product over the bits."""
        p, q = self.probabilities
        one = np.full(self.size, q)
        one[value] = p
        return float(np.where(report, one, 1 - one).prod())

    def _set_variance(self, width: int, *, holds: bool) -> float:
        p, q = self.probabilities
        return (width - holds) * q * (1 - q) + holds * p * (1 - p)


class SubsetSelection(Randomiser):
    """A random set of d values, e^ε times as likely if it contains the true one; d = k/(e^ε + 1), rounded."""

    name = "subset"

    @cached_property
    def chosen(self) -> int:
        """The size d of the set: of the two roundings the one with less variance."""
        exact = self.size / (math.exp(self.epsilon) + 1)
        candidates = {max(1, math.floor(exact)), min(max(1, math.ceil(exact)), max(self.size - 1, 1))}
        return min(sorted(candidates), key=self._cost)

    def _cost(self, d: int) -> float:
        p, q = self._probabilities(d)
        return q * (1 - q) / (p - q) ** 2 if p > q else math.inf

    def _probabilities(self, d: int) -> tuple[float, float]:
        k = self.size
        if k == 1:
            return 1.0, 0.0
        rest = (k - d) * math.exp(-self.epsilon * _LESS)
        p = 1 - _drawn(rest / (d + rest))  # the smaller of the two is rounded; the difference is exact
        return p, (p * (d - 1) + (1 - p) * d) / (k - 1)

    @cached_property
    def probabilities(self) -> tuple[float, float]:
        """P = d·e^ε/(d·e^ε + k − d), rounded down to what can be drawn; q = (p(d − 1) + (1 − p)d)/(k − 1)."""
        return self._probabilities(self.chosen)

    @property
    def loss(self) -> float:
        """Sets with the true value, comb(k−1, d−1) of them, against sets without it, comb(k−1, d)."""
        if self.size == 1:
            return 0.0
        p, d, k = self.probabilities[0], self.chosen, self.size
        return math.log(p / (1 - p)) + math.log((k - d) / d)

    def report(self, value: int, rng: Source | np.random.Generator) -> NDArray[np.bool_]:
        """Returns the set, as bits."""
        d, source = self.chosen, as_source(rng)
        bits = np.zeros(self.size, dtype=np.bool_)
        bits[value] = source.chance() < self.probabilities[0]
        others = source.permutation(self.size - 1)[: d - int(bits[value])]
        bits[others + (others >= value)] = True
        return bits

    def decide(self, value: int, draws: NDArray[np.float64]) -> NDArray[np.bool_]:
        """One draw for the true value, and one for each other: selection sampling."""
        bits = np.zeros(self.size, dtype=np.bool_)
        bits[value] = draws[0] < self.probabilities[0]
        needed, left, i = self.chosen - int(bits[value]), self.size - 1, 1
        for other in range(self.size):
            if other != value:
                if draws[i] * left < needed:
                    bits[other] = True
                    needed -= 1
                left, i = left - 1, i + 1
        return bits

    def for_device(self) -> dict[str, Any]:
        """The threshold of the true value, and the size of the set."""
        return {**super().for_device(), "chosen": self.chosen}

    def possible(self, reports: NDArray[np.bool_]) -> bool:
        """Every set has d values."""
        return bool((np.count_nonzero(reports, axis=1) == self.chosen).all())

    def likelihood(self, report: NDArray[np.bool_], value: int) -> float:
        """Uniform among the sets of size d that contain the true value, and among those that do not."""
        p, d, k = self.probabilities[0], self.chosen, self.size
        if report.sum() != d:
            return 0.0
        if report[value]:
            return math.exp(math.log(p) - _log_comb(k - 1, d - 1))
        return math.exp(math.log(1 - p) - _log_comb(k - 1, d)) if p < 1 else 0.0

    def _set_variance(self, width: int, *, holds: bool) -> float:
        p, d, k, w = self.probabilities[0], self.chosen, self.size, width - holds
        mean, second = 0.0, 0.0
        for probability, draws, own in ((p, d - 1, holds), (1 - p, d, False)):
            # the others of the set are drawn without replacement from the k − 1 other values
            m = draws * w / max(k - 1, 1)
            v = m * (1 - w / max(k - 1, 1)) * (k - 1 - draws) / max(k - 2, 1)
            mean += probability * (m + own)
            second += probability * (v + (m + own) ** 2)
        return second - mean**2


class RandomisedResponse(SubsetSelection):
    """k-ary randomised response: one value, the true one e^ε times as likely as any other."""

    name = "response"

    @cached_property
    def chosen(self) -> int:
        """One value."""
        return 1


#: All randomisers, by name.
RANDOMISERS: dict[str, type[Randomiser]] = {
    kind.name: kind for kind in (UnaryEncoding, SubsetSelection, RandomisedResponse)
}


def count(reports: NDArray[np.bool_], about: NDArray[np.int64], questions: int) -> NDArray[np.int64]:
    """Returns how many reports about each question contain each value, (questions, size)."""
    user, value = np.nonzero(reports)
    size = reports.shape[1]
    found = np.bincount(about.astype(np.int64)[user] * size + value, minlength=questions * size)
    return found.astype(np.int64, copy=False).reshape(questions, size)


def choose(name: str, epsilon: float, size: int) -> Randomiser:
    """Returns a randomiser by name; ``"auto"`` is the one with the least variance for a value that is not held."""
    if name == "auto":
        kinds = [kind(epsilon, size) for kind in RANDOMISERS.values()]
        return min(kinds, key=lambda kind: kind.variance(1, holds=False))
    if name not in RANDOMISERS:
        raise UnknownName("randomiser", name, (*RANDOMISERS, "auto"))
    return RANDOMISERS[name](epsilon, size)

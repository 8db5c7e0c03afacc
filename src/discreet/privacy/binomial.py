"""Binomial noise: what a sum of many users' noise bits hides, by numerical composition.

A counter that carries x data bits and Bernoulli(p) noise bits of honest users shows x + Bin(N, p). Replacing a user
moves ``pairs`` counters up by ``shift`` and as many others down by as much. The privacy loss of all of them
together is the convolution of the losses of the single counters: its distribution is computed on a grid, every loss
rounded up.

*The worst neighbour.* A user whose H visits to pooled counters are spread over cells moves more counters by less.
One counter moved by a + b loses at least as much, at every (ε, δ) and together with whatever else is released, as
two counters moved by a and b. Binomial probabilities are log-concave, so the tests that are best between any two
shifts are thresholds, and the best errors of two steps chain exactly: T(0, a+b)(α) = T(a, a+b)(1 − T(0, a)(α)), T
being the trade-off function and T(a, a+b) = T(0, b). Two counters moved one after the other are such a chain too,
with the same T(0, a) and T(0, b), and no chain has smaller errors. By induction one counter up by H and one down by
H dominate every split of a family's change, and products of dominating pairs dominate (families are independent
given the data).

*Either way.* Counters that a neighbour moves by one, some up and some down, whichever is worse, are hidden by
symmetric noise: the difference of two independent Bin(N, p). It is what pairs of noise bits add up to, one of
probability p and one of 1 − p. Turning the axis round exchanges up and down, so only the number of counters that
move matters (`SymmetricEvent`).

*The numbers.* Exponentially tilted, the part of the loss that decides δ is the bulk of the distribution, so that
the transform's rounding is relative to δ, however small it is. What is cut off or rounded away counts as lost.

References:
    Koskela, Jälkö and Honkela (2020) and dp-accounting's report on privacy-loss distributions; Dong, Roth and Su
    (2022) on group privacy for chains of trade-off functions; SDP-PE (Bai et al. 2025), Appendix, Algorithm 4 for
    the mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy import accounting
from discreet.privacy.kept import recall, remember

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["BinomialEvent", "SymmetricEvent", "calibrate", "calibrate_symmetric", "epsilon", "symmetric_reach"]

_INTERVAL = 1e-5  # of the grid of privacy losses, or less
_SPARE = 1e-8  # share of δ that is given up with the tails of the noise, and again with the tails of the loss
_SLACK = 1e-6  # share of δ that is left to floating point; its errors are of the order of 1e-9
_FOLDED = 1e-12  # share of the tilted loss that may lie outside the window of the transform
_LEAST = 1e-200  # the smallest δ at which anything is proven: probabilities stay normal numbers
_MOST_VARIANCE = 1e11  # of a counter's noise: what fits into memory
_MOST_CONVOLVED = 1e7  # of symmetric noise, whose law is a convolution: what takes seconds
_PIECE = 2**15  # losses that are looked at together
_VERSION = 2


@dataclass(frozen=True)
class BinomialEvent:
    """Counters with Bin(trials, probability) noise, of which ``pairs`` go up and as many down by ``shift``."""

    trials: int
    probability: float
    shift: int
    pairs: int

    @property
    def variance(self) -> float:
        """Of a counter's noise."""
        return self.trials * self.probability * (1 - self.probability)


@dataclass(frozen=True)
class SymmetricEvent:
    """Counters whose noise is Bin(trials, probability) less another, of which ``moved`` go up or down by one."""

    trials: int
    probability: float
    moved: int

    @property
    def variance(self) -> float:
        """Of a counter's noise."""
        return 2 * self.trials * self.probability * (1 - self.probability)


@dataclass(frozen=True)
class _Losses:
    """A counter's finite privacy losses, their probabilities, and the probability of all others."""

    values: NDArray[np.float64]
    masses: NDArray[np.float64]
    lost: float

    @property
    def variance(self) -> float:
        mean = np.average(self.values, weights=self.masses)
        return float(np.average((self.values - mean) ** 2, weights=self.masses))

    def log_mgf(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns ln E[e^{θL}; L finite] for every θ."""
        tops = np.maximum(orders * self.values.min(), orders * self.values.max())
        sums = [
            (np.exp(order * self.values - top) * self.masses).sum() for order, top in zip(orders, tops, strict=True)
        ]
        logs: NDArray[np.float64] = tops + np.log(sums)
        return logs


def _counter(event: BinomialEvent, spare: float, *, up: bool) -> _Losses:
    """Returns the losses of a counter that goes up (or down); two tails of the noise, ``spare`` each, are lost."""
    from scipy.stats import binom

    N, p, shift = event.trials, event.probability, event.shift
    noise, rare = binom(N, p), -math.log(spare)
    reach = rare / 3 + math.sqrt(rare**2 / 9 + 2 * event.variance * rare)  # Bernstein's inequality
    first, last = max(0, math.ceil(N * p - reach)), min(N, math.floor(N * p + reach))
    first, last = (first, min(last, N - shift)) if up else (max(first, shift), last)
    k = np.arange(first, last + 1)
    masses = np.asarray(noise.pmf(k), dtype=np.float64)
    least = k if up else k - shift
    values = np.full(len(k), shift * (math.log1p(-p) - math.log(p)))
    for i in range(shift):  # ln b(x)/b(x+1) = ln (x+1)(1−p)/((N−x)p)
        values += np.log((least + i + 1) / (N - least - i))
    lost = float(noise.cdf(first - 1) + noise.sf(last))  # where the other law has no probability, or too far out
    some = masses > 0  # else below 1e-300
    return _Losses((values if up else -values)[some], masses[some], lost)


def _difference(trials: int, p: float, rare: float) -> NDArray[np.float64]:
    """Returns the probabilities of −k, …, k as differences of two Bin(trials, p), k wherever they end.

    Each of the two is cut off so far out that what is missing there, the square of e^−``rare``, is nothing beside any
    probability of which it is used.
    """
    from scipy.signal import convolve
    from scipy.stats import binom

    reach, variance = 2 * rare + 46, trials * p * (1 - p)
    far = reach / 3 + math.sqrt(reach**2 / 9 + 2 * variance * reach)  # Bernstein's inequality
    first, last = max(0, math.ceil(trials * p - far)), min(trials, math.floor(trials * p + far))
    one = np.asarray(binom.pmf(np.arange(first, last + 1), trials, p), dtype=np.float64)
    return np.asarray(convolve(one, one[::-1], method="direct"), dtype=np.float64)


def symmetric_reach(trials: int, p: float, failure: float) -> float:
    """Returns what the difference of two Bin(trials, p) exceeds, either way, with probability ``failure`` at most."""
    law = _difference(trials, p, -math.log(failure))
    middle = len(law) // 2
    tails = np.cumsum(law[::-1])[:middle]  # P(≥ k) for k = middle, …, 1
    enough = np.flatnonzero(2 * tails <= failure * (1 - 1e-9))
    return float(middle - 1 - enough[-1]) if len(enough) else float(middle)


def _symmetric(event: SymmetricEvent, spare: float) -> _Losses:
    """Returns the losses of a counter that moves by one; both tails of the noise, ``spare`` together, are lost."""
    rare = -math.log(spare / 2)
    law = _difference(event.trials, event.probability, rare)
    near = rare / 3 + math.sqrt(rare**2 / 9 + 2 * event.variance * rare)  # Bernstein's inequality
    middle = len(law) // 2
    width = min(math.floor(near), middle - 1)
    masses, moved = law[middle - width : middle + width + 1], law[middle - width + 1 : middle + width + 2]
    some = (masses > 0) & (moved > 0)  # else below 1e-300
    lost = spare + (float(law[0] + law[-1]) if width == middle - 1 else 0.0)  # the last values there are
    return _Losses(np.log(masses[some] / moved[some]), masses[some], lost)


def _counters(event: BinomialEvent | SymmetricEvent, spare: float) -> tuple[list[_Losses], int]:
    """Returns the losses of one counter of each kind, and how many there are of each."""
    if isinstance(event, SymmetricEvent):
        return [_symmetric(event, spare / event.moved)], event.moved
    return [_counter(event, spare / event.pairs, up=up) for up in (True, False)], event.pairs


@lru_cache(maxsize=16384)  # an experiment under shuffle privacy has thousands of batch sizes and noises
def epsilon(event: BinomialEvent | SymmetricEvent, delta: float) -> float:
    """Returns a proven ε of ``event`` at ``delta``; infinite if there is none.

    Turning the neighbours round exchanges the counters that go up with those that go down, so one direction is
    both.
    """
    N, p = event.trials, event.probability
    if delta < _LEAST or getattr(event, "shift", 1) > N or N < 1 or not 0 < p < 1:
        return math.inf
    spare = _SPARE * min(delta, 1.0)
    both, pairs = _counters(event, spare)
    if max(counter.lost for counter in both) >= min(delta, 1.0):
        return math.inf
    lost = spare - math.expm1(pairs * math.fsum(math.log1p(-counter.lost) for counter in both))
    left = delta * (1 - _SLACK) - lost
    if left <= 0:
        return math.inf
    values, masses = _compose(both, pairs, spare)
    # δ at ε is lost + Σ_{l>ε} P(l)·(1 − e^{ε−l}); both sums from above.
    upper = np.cumsum(masses[::-1])[::-1]
    lower = np.cumsum((masses * np.exp(-values))[::-1])[::-1]
    i = _first(values, upper, lower, left)  # ε lies at this loss or below it, and above the one before
    if upper[i] <= left:
        return 0.0
    return max(0.0, math.log((upper[i] - left) / lower[i]) if lower[i] > 0 else float(values[i]))


def _first(values: NDArray[np.float64], upper: NDArray[np.float64], lower: NDArray[np.float64], left: float) -> int:
    """Returns the place of the first loss whose δ, but for what is lost, is at most ``left``: piece by piece."""
    for start in range(0, len(values) - 1, _PIECE):
        piece = slice(start, min(start + _PIECE, len(values) - 1))
        after = slice(piece.start + 1, piece.stop + 1)
        enough = upper[after] - np.exp(np.minimum(values[piece], 700)) * lower[after] <= left
        if enough.any():
            return start + int(np.argmax(enough))
    return len(values) - 1  # nothing lies beyond the last


def _compose(both: list[_Losses], pairs: int, spare: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns losses ≥ 0 on a grid and bounds of their probabilities, for ``pairs`` of each counter of ``both``.

    Losses above the grid have a probability of at most ``spare`` (Chernoff). The convolution is circular: what lies
    outside the window is folded into it, which only adds to the probabilities there.
    """
    from scipy import fft

    deviation = math.sqrt(max(pairs * math.fsum(counter.variance for counter in both), 1e-16))
    interval = min(_INTERVAL, deviation / min(300 * pairs, 1e5))  # rounding adds up to one to each counter's loss
    cells, rounded = [], []
    for counter in both:
        cell, place = np.unique(np.ceil(counter.values / interval), return_inverse=True)
        masses = np.asarray(np.bincount(place, counter.masses), dtype=np.float64)
        cells.append(cell.astype(np.int64))
        rounded.append(_Losses(interval * cell, masses, counter.lost))

    def log_mgf(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        logs: NDArray[np.float64] = pairs * np.sum([counter.log_mgf(orders) for counter in rounded], axis=0)
        return logs

    delta = spare / _SPARE
    orders = math.sqrt(2 * math.log(max(1 / delta, 2))) / deviation * 2.0 ** np.linspace(-3, 3, 25)
    logs = log_mgf(orders)
    theta = float(orders[np.argmin((logs - math.log(delta)) / orders)])  # the tilted mean is just above ε
    total = float(log_mgf(np.array([theta]))[0])
    low = float(np.max((total - log_mgf(theta - orders) + math.log(_FOLDED)) / orders))
    high = float(np.min((log_mgf(theta + orders) - total - math.log(_FOLDED)) / orders))
    high = max(high, float(np.min((logs - math.log(spare)) / orders)))
    bottom = max(math.floor(low / interval), pairs * sum(int(cell.min()) for cell in cells))
    top = min(math.ceil(high / interval), pairs * sum(int(cell.max()) for cell in cells))
    size = fft.next_fast_len(top - bottom + 1, real=True)
    spectrum = np.ones(size // 2 + 1, dtype=complex)
    for cell, counter in zip(cells, rounded, strict=True):
        tilted = counter.masses * np.exp(theta * counter.values - counter.log_mgf(np.array([theta])))
        spectrum *= fft.rfft(np.bincount(cell % size, tilted, size)) ** pairs
    first = max(bottom, 0)
    values = np.multiply(interval, np.arange(first, bottom + size), dtype=np.float64)
    law = np.asarray(fft.irfft(spectrum, size), dtype=np.float64)
    law = np.concatenate([law[first % size :], law[: first % size]])[: len(values)]
    np.maximum(law, 0, out=law)
    tilt = total - theta * values
    law *= np.exp(np.minimum(tilt, 700, out=tilt), out=tilt)
    return values, law


def calibrate(honest: int, shift: int, pairs: int, eps: float, delta: float) -> tuple[int, float]:
    """Returns (m, p): noise bits a user and their probability, whose proven ε is within [0.99, 1] of ``eps``.

    m is the smallest number that can meet the budget with p = ½; p is then solved for. (Noise of so few bits that
    less would lose more than ``delta`` outright proves less than 0.99 of a large ``eps``: then as much as can be.)
    Results are kept on disk; what is found there is proven anew before it is used.

    Args:
        honest: Users of a batch that add their noise.
        shift: By how much a counter changes.
        pairs: How many counters go up, and how many down.
        eps: The budget's ε.
        delta: The budget's δ.
    """
    key = {"honest": honest, "shift": shift, "pairs": pairs, "epsilon": eps, "delta": delta}
    return _calibrate(
        key, 1, 2 * pairs * shift**2, _MOST_VARIANCE, lambda m, p: BinomialEvent(honest * m, p, shift, pairs)
    )


def calibrate_symmetric(honest: int, moved: int, eps: float, delta: float) -> tuple[int, float]:
    """Returns (m, p): pairs of noise bits a user and the probability p of one of each pair; as `calibrate`.

    Args:
        honest: Users of a batch that add their noise.
        moved: How many counters change by one, up or down.
        eps: The budget's ε.
        delta: The budget's δ.
    """
    key = {"honest": honest, "moved": moved, "epsilon": eps, "delta": delta}
    return _calibrate(key, 2, moved, _MOST_CONVOLVED, lambda m, p: SymmetricEvent(honest * m, p, moved))


def _calibrate(
    key: dict[str, Any],
    width: int,
    squares: int,
    most: float,
    event: Callable[[int, float], BinomialEvent | SymmetricEvent],
) -> tuple[int, float]:
    """Returns (m, p) for the events ``event(m, p)``.

    Args:
        key: What decides it.
        width: Noise bits a user has for m = 1.
        squares: The square of the L2 sensitivity.
        most: Variance a counter may have.
        event: What is accounted.
    """
    honest, eps, delta = key["honest"], key["epsilon"], key["delta"]
    if delta < _LEAST:
        raise InvalidInput(f"binomial noise needs delta > 0, and at least {_LEAST}, got delta={delta!r}")
    if honest < 1:
        raise InvalidInput(f"at least one user of a batch must add their noise, got {honest}")

    @lru_cache
    def proven(m: int, p: float) -> float:
        return epsilon(event(m, p), delta)

    variance = squares / accounting.gaussian_mu(eps, delta) ** 2  # what Gaussian noise would need
    if variance > most:
        raise InvalidInput(f"noise for epsilon={eps!r}, delta={delta!r} is too large to be accounted for")
    bits = width * honest
    kept = {**key, "version": _VERSION, "interval": _INTERVAL}
    known = recall(kept, most=100 + math.ceil(40 * variance / bits))
    if known is not None and _is_best(known, eps, proven):
        return known
    found = _solve(bits, variance, eps, proven)
    remember(kept, found)
    return found


def _is_best(known: tuple[int, float], eps: float, proven: Callable[[int, float], float]) -> bool:
    """Whether noise is proven for the budget, and less of it would not be, or would not matter."""
    m, p = known
    got = proven(m, p)
    if got > eps or (m > 1 and proven(m - 1, 0.5) <= eps):
        return False
    return got >= 0.99 * eps or proven(m, 0.99 * p) > eps


def _solve(bits: int, variance: float, eps: float, proven: Callable[[int, float], float]) -> tuple[int, float]:
    """Returns (m, p) for ``bits``·m noise bits, near the ``variance`` that Gaussian noise would need."""
    too_few, enough, m, tries = 0, 0, max(1, math.ceil(4 * variance / bits)), 0
    best = math.inf  # ε of what is enough
    while not enough or enough - too_few > 1:
        got, tries = proven(m, 0.5), tries + 1
        too_few, enough, best = (too_few, m, got) if got <= eps else (m, enough, best)
        m = max(math.ceil(m * min(got / eps, 4) ** 2), too_few + 1)  # ε falls about like one over the deviation
        if enough:
            halve = math.isinf(got) or m == too_few + 1 or tries > 8
            m = (too_few + enough) // 2 if halve else min(m, enough - 1)
    m, low, high = enough, 0.0, bits * enough / 4  # variances that are too small, and enough
    guess = high * (best / (0.996 * eps)) ** 2 if best > 0.9 * eps else variance * 1.003
    guess, found = min(guess, high), 0.5
    for tries in range(60):
        p = 0.5 * (1 - math.sqrt(max(0.0, 1 - 4 * guess / (bits * m))))
        got = proven(m, p) if p > 0 else math.inf
        if got <= eps:
            found = p
        if 0.99 * eps <= got <= eps or high - low < 1e-4 * high:
            break
        low, high = (guess, high) if got > eps else (low, min(high, guess))
        step = guess * (min(got, 100 * eps) / (0.996 * eps)) ** 2
        guess = step if low < step < high and tries < 2 else (low + high) / 2
    return m, found

"""Counts under shuffle privacy: one-bit messages, a shuffler that takes reports apart, a server that counts ones.

Three parties: users encode (`discreet.privatizers.counts.encode.BinomialEncoder`), a `BitShuffler` mixes each counter's
messages over all users of the batch, the server (`ShuffledCounts`) counts and debiases. The server never holds a
report.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction
from discreet.noise import Role
from discreet.privacy import Guarantee, ShuffledBatch, accounting, binomial
from discreet.privatizers.base import Encoder, Kind, Mechanism, PrivateCounts
from discreet.privatizers.counts.encode import BinomialEncoder
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.shufflers import BitShuffler

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Source
    from discreet.privacy import Report, Shuffle

__all__ = ["ShuffledCounts", "check_messages", "check_ones", "drawable", "paper_bits", "weakest"]


#: One-bit messages of a whole batch at most, if they are real.
MOST_MESSAGES = 2**31


def paper_bits(epsilon: float, beta: float, horizon: int, users: int) -> tuple[int, float]:
    """Returns the printed noise: (m, p) for a counter's budget ε' = ε/(3H), β' = β.

    References:
        Bai et al. (2025), Appendix, Algorithm 4: τ = 96·ln(2/β)/ε'²; ⌈τ/n⌉ bits of ½ if n < τ, else one of τ/(2n).
    """
    tau = 96 * math.log(2 / beta) / (epsilon / (3 * horizon)) ** 2
    return (math.ceil(tau / users), 0.5) if users < tau else (1, tau / (2 * users))


@lru_cache(maxsize=1024)
def _largest(
    bits: tuple[int, ...], means: tuple[float, ...], groups: tuple[tuple[int, int], ...], failure: float
) -> float:
    """Returns what no noise exceeds, with probability 1 − ``failure``.

    Args:
        bits: How many noise bits a counter has after each batch.
        means: How many of them are 1 on average.
        groups: Pairs (number, width): sums over ``width`` counters, ``number`` of them.
        failure: The probability.
    """
    from scipy.optimize import brentq
    from scipy.stats import binom

    trials, expected = np.array(bits), np.array(means)
    p = expected / trials

    def excess(x: float) -> float:
        total = 0.0
        for number, width in groups:
            n, mean = trials * width, expected * width
            tails = binom.sf(np.ceil(mean + x) - 1, n, p) + binom.cdf(np.floor(mean - x), n, p)
            total += number * float(np.sum(tails))
        return math.log(max(total, 1e-300)) - math.log(failure)

    high = math.sqrt(float(expected[-1]) * max(width for _, width in groups)) + 1
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 1.0, high, xtol=1e-6)) if excess(1.0) > 0 else 1.0


def weakest(events: Iterable[accounting.DpEvent], privacy: Shuffle, kind: Kind) -> Guarantee:
    """Returns the shuffle DP of the weakest of several batches, from the noise bits that honest users really add."""
    event = max(events, key=lambda found: accounting.epsilon(found, privacy.delta))
    assumptions = (
        f"at least {100 * privacy.honest_fraction:g}% of the users of every batch add their noise bits",
        "the shuffler takes reports apart and mixes each counter's messages",
    )
    epsilon = accounting.epsilon(event, privacy.delta)
    return Guarantee("shuffle", epsilon, privacy.delta, noise=kind, assumptions=assumptions, events=event)


def honest_users(privacy: Shuffle, users: int) -> int:
    """Returns how many users of a batch of ``users`` are taken to add their noise.

    Raises:
        InvalidInput: If there is none; names the smallest batch that has one.
    """
    honest = math.floor(privacy.honest_fraction * users + 1e-9)
    if honest < 1:
        raise InvalidInput(
            f"a batch of {users} users with honest_fraction={privacy.honest_fraction} has no honest user: "
            f"the smallest batch is {math.ceil((1 - 1e-9) / privacy.honest_fraction)}"
        )
    return honest


def check_ones(batch: ShuffledBatch, users: int, size: int, messages: int) -> None:
    """Raises unless a batch is of so many users, with so many counters and messages a user."""
    if not isinstance(batch, ShuffledBatch):
        raise TypeError(f"expected a ShuffledBatch, got {type(batch).__name__}")
    if batch.users != users:
        raise InvalidInput(f"the noise of this batch was calibrated for {users} users, got {batch.users}")
    whole = users * messages
    shape = batch.ones.shape == (size,) and batch.ones.dtype.kind in "iu"
    if not shape or batch.messages != whole or batch.ones.min() < 0 or batch.ones.max() > whole:
        raise InvalidInput(f"a batch has {size} counters with {whole} messages each")


def drawable(p: float) -> float:
    """Returns the next larger probability that is a multiple of 2⁻³²: bits of it, and of 1 − p, are drawn exactly."""
    return min(math.ceil(p * 2**32) / 2**32, 0.5)


def check_messages(users: int, messages: int) -> None:
    """Raises if a batch with real noise bits is larger than any memory: every one is drawn, sent and permuted.

    Args:
        users: Of the batch.
        messages: Of each.
    """
    if users * messages > MOST_MESSAGES:
        raise InvalidInput(
            f"noise='secure' draws real bits: each of {users} users would send {messages} messages, a batch has at "
            f"most {MOST_MESSAGES} in all; take a larger epsilon or delta, or fewer counters"
        )


class Ones(NamedTuple):
    """What the server keeps: batches, ones of every counter, and how many of them are noise on average."""

    batch: int
    ones: NDArray[np.float64]
    expected: float


class ShuffledCounts(Mechanism[ShuffledBatch, Ones, PrivateCounts]):
    """Counts the ones of every counter, batch by batch, and debiases.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        batches: How many users each batch has, in order: public. The noise of a batch is calibrated for its size.
        stationary: Whether counters are pooled over the steps.
        failure: Probability with which ``error`` may fail.
        layout: Of the counters, if it is not the usual one.

    Guarantee:
        `promise`: shuffle DP for one user's whole trajectory. Each user is in exactly one batch; of a batch the
        server sees multisets of bits, which are equivalent to their sums, and these carry the binomial noise of all
        honest users.
    """

    name = noise = "binomial"
    draws = (Role.ENCODER, Role.SHUFFLER)

    def __init__(
        self,
        spec: Spec,
        privacy: Shuffle,
        *,
        batches: Sequence[int],
        stationary: bool,
        failure: float = 0.05,
        layout: Layout | None = None,
    ) -> None:
        if len(batches) == 0 or min(batches) < 1:
            raise InvalidInput("batches must be one or more positive numbers of users")
        if privacy.release == "first-visits":
            raise InvalidInput(
                "release='first-visits' is for discreet-vi: this agent plans on visit counts, and first visits are not"
            )
        self.privacy = privacy
        self.batches = np.array(batches, dtype=np.int64)
        self.failure = check_fraction("failure", failure)
        self.layout = layout or Layout(spec, stationary, visits=privacy.release != "mr")
        self.encoders = {int(users): self._calibrated(int(users)) for users in np.unique(self.batches)}

    @property
    def exact(self) -> bool:
        """Bits are drawn with the very probability that is accounted for."""
        return self.privacy.noise == "secure"

    def of(self, layout: Layout) -> ShuffledCounts:
        """Returns the same for a layout that needs no other noise."""
        found = copy.copy(self)
        found.layout = layout
        found.encoders = {users: replace(encoder, layout=layout) for users, encoder in self.encoders.items()}
        return found

    def _calibrated(self, users: int) -> BinomialEncoder:
        """Returns the encoder of a batch of ``users``."""
        privacy, layout = self.privacy, self.layout
        honest = honest_users(privacy, users)
        if privacy.calibration == "paper":
            if not layout.visits:
                raise InvalidInput("calibration='paper' is printed for release='nmr', got release='mr'")
            m, p = paper_bits(privacy.epsilon, privacy.delta, layout.spec.horizon, users)
        else:
            m, p = binomial.calibrate(honest, layout.shift, layout.pairs, privacy.epsilon, privacy.delta)
        if privacy.noise == "secure":
            p = drawable(p)
            check_messages(users, layout.size * (layout.shift + m))
        return BinomialEncoder(layout, m, p)

    def users_of(self, version: int) -> int:
        """Returns how many users a batch has, by its number from 0; after the last one, those of that."""
        return int(self.batches[min(version, len(self.batches) - 1)])

    def encoder_of(self, version: int) -> BinomialEncoder:
        """Returns what runs at the users of a batch."""
        return self.encoders[self.users_of(version)]

    def shuffler(self) -> BitShuffler:
        """Mixes a batch."""
        encoder = self.encoder_of(0)
        return BitShuffler(self.users_of(0), (encoder.size, encoder.messages))

    def promise(self, kind: Kind) -> Guarantee:
        """Returns the shuffle DP of the weakest batch."""
        events = [
            binomial.BinomialEvent(
                honest_users(self.privacy, users) * encoder.noise_bits,
                encoder.probability,
                self.layout.shift,
                self.layout.pairs,
            )
            for users, encoder in self.encoders.items()
        ]
        return weakest(events, self.privacy, kind)

    def batch_std(self, users: int) -> float:
        """Returns the standard deviation of the noise of a batch of ``users`` in a counter."""
        encoder = self.encoders[users]
        return math.sqrt(users * encoder.noise_bits * encoder.probability * (1 - encoder.probability))

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the noise of the first batch in a counter."""
        return self.batch_std(self.users_of(0))

    @property
    def worst_std(self) -> float:
        """Standard deviation of the noise in a counter, after the last batch."""
        return self._stds[-1]

    @cached_property
    def _stds(self) -> list[float]:
        """Standard deviation of the noise in a counter, after every number of batches."""
        variances = np.cumsum([0.0, *(self.batch_std(users) ** 2 for users in self.batches.tolist())])
        found: list[float] = np.sqrt(variances).tolist()
        return found

    @property
    def messages_per_user(self) -> int:
        """One-bit messages that a user of the first batch sends."""
        return self.layout.size * self.encoder_of(0).messages

    @property
    def bytes_per_user(self) -> int:
        """Their size with one bit a message and a counter's messages sent together with its number (4 bytes)."""
        return self.layout.size * (4 + math.ceil(self.encoder_of(0).messages / 8))

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        The noise after t batches is a sum of independent bits: its tails beyond 1 are at most those of the binomial
        with the same number of bits and the same mean (Hoeffding 1956), and equal to them if all batches are alike. A
        union over counts and batches gets half of the failure probability. Derived visits add up S transitions.
        Rewards are also rounded to bits: a martingale in the users with increments in an interval of length 1 (H if
        pooled), bounded by Azuma's maximal inequality with the other half.
        """
        width = self.layout.shift * math.sqrt(float(self.batches.sum()) / 2)
        rounding = width * math.sqrt(math.log(4 * self.layout.cells / self.failure))
        return self.noise_bound(self.failure / 2) + rounding

    def noise_bound(self, failure: float) -> float:
        """Returns how far any count ever is from the users' bits, with probability 1 − ``failure``."""
        bits = np.cumsum([users * self.encoders[users].noise_bits for users in self.batches.tolist()])
        means = np.cumsum([users * self.encoders[users].expected for users in self.batches.tolist()])
        groups = ((self.layout.size, 1),)
        derived = () if self.layout.visits else ((self.layout.cells, self.layout.spec.states),)
        return _largest(tuple(bits.tolist()), tuple(means.tolist()), groups + derived, failure)

    def start(self) -> Ones:
        """Nobody."""
        return Ones(0, np.zeros(self.layout.size), 0.0)

    def first(self, kept: Ones, source: Source) -> tuple[Ones, PrivateCounts]:
        """Zeros."""
        return self.released(kept, source)

    def folded(self, kept: Ones, batch: ShuffledBatch, encoder: Encoder[Report]) -> Ones:
        """Adds a shuffled batch."""
        if kept.batch == len(self.batches):
            raise CapacityExceeded(
                f"this privatizer holds {self.batches.sum()} users: all are in it, got {batch.users} more"
            )
        asked = self.encoder_of(kept.batch)
        check_ones(batch, self.users_of(kept.batch), asked.size, asked.messages)
        expected = kept.expected + batch.users * asked.expected
        return Ones(kept.batch + 1, kept.ones + batch.ones, expected)

    def released(self, kept: Ones, source: Source) -> tuple[Ones, PrivateCounts]:
        """Returns the debiased counts: ones minus the expected noise bits. Users drew the noise already."""
        std = self._stds[kept.batch]
        return kept, PrivateCounts(*self.layout.split(kept.ones - kept.expected), self.error, std=std)

    def calibration(self) -> dict[str, Any]:
        """Returns what users run, by size of batch."""
        return {"encoders": {str(users): encoder.to_json() for users, encoder in self.encoders.items()}}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes the encoders of another machine."""
        from discreet.privatizers.codec import from_json

        self.encoders = {int(users): from_json(text) for users, text in found["encoders"].items()}  # type: ignore[misc]
        for name in ("error", "_stds"):
            self.__dict__.pop(name, None)

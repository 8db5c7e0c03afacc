"""Shuffle privacy: one-bit messages, a shuffler that takes reports apart, a server that counts ones.

Three parties: users encode (`discreet.privatizers.encoders.BinomialEncoder`), a `BitShuffler` mixes each counter's
messages over all users of the batch, the server (`ShufflePrivatizer`) counts and debiases. The server never holds a
report.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction
from discreet.privacy import BitsReport, Guarantee, ShuffledBatch, SimulatedReport, accounting, binomial
from discreet.privatizers.base import PrivateCounts, Shuffler, check_reports
from discreet.privatizers.encoders import BinomialEncoder, SimulatedBinomialEncoder
from discreet.privatizers.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discreet.mdp import Spec
    from discreet.privacy import Report, Shuffle

__all__ = ["BitShuffler", "ShufflePrivatizer", "SimulatedShuffler", "paper_bits"]


class BitShuffler(Shuffler[BitsReport, ShuffledBatch]):
    """Takes reports apart: a message keeps only its counter, and each counter's messages are permuted over all users.

    Permuting whole reports instead would not be private: what stays together tells whose it is.
    """

    def mix(
        self, reports: Sequence[BitsReport], rng: np.random.Generator
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Returns all messages, (counters, users·messages), each counter's in an order of its own."""
        check_reports(reports, BitsReport)
        if any(report.bits.dtype != np.bool_ for report in reports):
            raise TypeError("messages must be bits")
        return rng.permuted(np.concatenate([report.bits for report in reports], axis=1), axis=1)

    def __call__(self, reports: Sequence[BitsReport], rng: np.random.Generator) -> ShuffledBatch:
        """Returns the multisets."""
        mixed = self.mix(reports, rng)
        return ShuffledBatch(mixed.sum(axis=1), mixed.shape[1], len(reports))


class SimulatedShuffler(Shuffler[SimulatedReport, ShuffledBatch]):
    """The fast path in simulation: adds Bin(users·m, p) to the data bits of each counter, the law of all noise bits."""

    def __init__(self, encoder: SimulatedBinomialEncoder) -> None:
        super().__init__()
        self._encoder = encoder

    def __call__(self, reports: Sequence[SimulatedReport], rng: np.random.Generator) -> ShuffledBatch:
        """Returns the multisets."""
        check_reports(reports, SimulatedReport)
        encoder, users = self._encoder, len(reports)
        ones = rng.binomial(users * encoder.noise_bits, encoder.probability, size=encoder.layout.size)
        np.add.at(ones, np.concatenate([r.indices for r in reports]), np.concatenate([r.ones for r in reports]))
        return ShuffledBatch(ones, users * encoder.messages, users)


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


class ShufflePrivatizer:
    """Counts the ones of every counter, batch by batch, and debiases.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        batches: How many users each batch has, in order: public. The noise of a batch is calibrated for its size.
        stationary: Whether counters are pooled over the steps.
        failure: Probability with which `counts().error` may fail.
        messages: Whether every bit is drawn and mixed; else simulated totals with the same law are.
        layout: Of the counters, if it is not the usual one.

    Guarantee:
        ``guarantee``: shuffle DP for one user's whole trajectory. Each user is in exactly one batch; of a batch the
        server sees multisets of bits, which are equivalent to their sums, and these carry the binomial noise of all
        honest users.
    """

    def __init__(
        self,
        spec: Spec,
        privacy: Shuffle,
        *,
        batches: Sequence[int],
        stationary: bool,
        failure: float = 0.05,
        messages: bool = False,
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
        self._shift, self._pairs = self.layout.shift, self.layout.pairs
        self.put_encoders({int(users): self._encoder(int(users), messages) for users in np.unique(self.batches)})
        self._start()

    def _start(self) -> None:
        self.count = 0
        self.batch = 0
        self._ones = np.zeros(self.layout.size)
        self._expected = 0.0

    def put_encoders(self, encoders: dict[int, BinomialEncoder | SimulatedBinomialEncoder]) -> None:
        """Takes these encoders, by size of batch, and shufflers that fit them."""
        self._encoders = encoders
        self._shufflers: dict[int, BitShuffler | SimulatedShuffler] = {
            users: BitShuffler() if isinstance(encoder, BinomialEncoder) else SimulatedShuffler(encoder)
            for users, encoder in encoders.items()
        }

    def anew(self, layout: Layout) -> ShufflePrivatizer:
        """Returns one that nobody is in, with the same noise, for a layout that needs no other."""
        found = copy.copy(self)
        found.layout = layout
        found.put_encoders({users: replace(encoder, layout=layout) for users, encoder in self._encoders.items()})
        found._start()
        return found

    def honest(self, users: int) -> int:
        """Returns how many users of a batch of ``users`` are taken to add their noise."""
        return math.floor(self.privacy.honest_fraction * users + 1e-9)

    def _encoder(self, users: int, messages: bool) -> BinomialEncoder | SimulatedBinomialEncoder:
        """Returns the encoder of a batch of ``users``."""
        privacy, H = self.privacy, self.layout.spec.horizon
        honest = self.honest(users)
        if honest < 1:
            raise InvalidInput(
                f"a batch of {users} users with honest_fraction={privacy.honest_fraction} has no honest user: "
                f"the smallest batch is {math.ceil((1 - 1e-9) / privacy.honest_fraction)}"
            )
        if privacy.calibration == "paper":
            if not self.layout.visits:
                raise InvalidInput("calibration='paper' is printed for release='nmr', got release='mr'")
            m, p = paper_bits(privacy.epsilon, privacy.delta, H, users)
        else:
            m, p = binomial.calibrate(honest, self._shift, self._pairs, privacy.epsilon, privacy.delta)
        return (BinomialEncoder if messages else SimulatedBinomialEncoder)(self.layout, m, p)

    @property
    def batch_size(self) -> int:
        """Users in the current batch; after the last batch, in that."""
        return int(self.batches[min(self.batch, len(self.batches) - 1)])

    @property
    def encoder(self) -> BinomialEncoder | SimulatedBinomialEncoder:
        """What runs at the users of the current batch."""
        return self._encoders[self.batch_size]

    @property
    def shuffler(self) -> Shuffler[Report, ShuffledBatch]:
        """What mixes the current batch; it takes the reports of the current encoder and no others."""
        return cast("Shuffler[Report, ShuffledBatch]", self._shufflers[self.batch_size])

    @cached_property
    def guarantee(self) -> Guarantee:
        """Shuffle DP of the weakest batch, from the noise bits that honest users really add."""
        found: list[tuple[float, binomial.BinomialEvent]] = []
        for users, encoder in self._encoders.items():
            trials = self.honest(users) * encoder.noise_bits
            event = binomial.BinomialEvent(trials, encoder.probability, self._shift, self._pairs)
            found.append((accounting.epsilon(event, self.privacy.delta), event))
        epsilon, event = max(found, key=lambda pair: pair[0])
        fraction = self.privacy.honest_fraction
        assumptions = [f"at least {100 * fraction:g}% of the users of every batch add their noise bits"]
        assumptions.append("the shuffler takes reports apart and mixes each counter's messages")
        return Guarantee(
            "shuffle", epsilon, self.privacy.delta, noise="fast", assumptions=tuple(assumptions), events=event
        )

    def batch_std(self, users: int) -> float:
        """Returns the standard deviation of the noise of a batch of ``users`` in a counter."""
        encoder = self._encoders[users]
        return math.sqrt(users * encoder.noise_bits * encoder.probability * (1 - encoder.probability))

    name = noise = "binomial"

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the noise of the current batch in a counter."""
        return self.batch_std(self.batch_size)

    @property
    def worst_std(self) -> float:
        """Standard deviation of the noise in a counter, after the last batch."""
        return math.sqrt(sum(self.batch_std(users) ** 2 for users in self.batches.tolist()))

    @property
    def messages_per_user(self) -> int:
        """One-bit messages that a user of the current batch sends."""
        return self.layout.size * self.encoder.messages

    @property
    def bytes_per_user(self) -> int:
        """Their size with one bit a message and a counter's messages sent together with its number (4 bytes)."""
        return self.layout.size * (4 + math.ceil(self.encoder.messages / 8))

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        The noise after t batches is a sum of independent bits: its tails beyond 1 are at most those of the binomial
        with the same number of bits and the same mean (Hoeffding 1956), and equal to them if all batches are alike. A
        union over counts and batches gets half of the failure probability. Derived visits add up S transitions.
        Rewards are also rounded to bits: a martingale in the users with increments in an interval of length 1 (H if
        pooled), bounded by Azuma's maximal inequality with the other half.
        """
        width = self._shift * math.sqrt(float(self.batches.sum()) / 2)
        rounding = width * math.sqrt(math.log(4 * self.layout.cells / self.failure))
        return self.noise_bound(self.failure / 2) + rounding

    def noise_bound(self, failure: float) -> float:
        """Returns how far any count ever is from the users' bits, with probability 1 − ``failure``."""
        bits = np.cumsum([users * self._encoders[users].noise_bits for users in self.batches.tolist()])
        means = np.cumsum([users * self._encoders[users].expected for users in self.batches.tolist()])
        groups = ((self.layout.size, 1),)
        derived = () if self.layout.visits else ((self.layout.cells, self.layout.spec.states),)
        return _largest(tuple(bits.tolist()), tuple(means.tolist()), groups + derived, failure)

    def collect(self, batch: ShuffledBatch) -> None:
        """Adds a shuffled batch; nothing changes if an error is raised."""
        if not isinstance(batch, ShuffledBatch):
            raise TypeError(f"expected a ShuffledBatch, got {type(batch).__name__}")
        if self.batch == len(self.batches):
            raise CapacityExceeded(f"this privatizer holds {self.count} users: all are in it, got {batch.users} more")
        if batch.users != self.batch_size:
            raise InvalidInput(f"the noise of this batch was calibrated for {self.batch_size} users, got {batch.users}")
        messages = batch.users * self.encoder.messages
        shape = batch.ones.shape == (self.layout.size,) and batch.ones.dtype.kind in "iu"
        if not shape or batch.messages != messages or batch.ones.min() < 0 or batch.ones.max() > messages:
            raise InvalidInput(f"a batch has {self.layout.size} counters with {messages} messages each")
        self._ones += batch.ones
        self._expected += batch.users * self.encoder.expected
        self.count += batch.users
        self.batch += 1

    def counts(self) -> PrivateCounts:
        """Returns the debiased counts: ones minus the expected noise bits."""
        return PrivateCounts(*self.layout.split(self._ones - self._expected), self.error)

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes, by name."""
        return {"count": self.count, "batch": self.batch, "ones": self._ones.copy(), "expected": self._expected}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`."""
        self.count, self.batch = state["count"], state["batch"]
        self._ones, self._expected = state["ones"], state["expected"]

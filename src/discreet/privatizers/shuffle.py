"""Shuffle privacy: one-bit messages, a shuffler that takes reports apart, a server that counts ones.

Three parties: users encode (`discreet.privatizers.encoders.BinomialEncoder`), a `BitShuffler` mixes each counter's
messages over all users of the batch, the server (`ShufflePrivatizer`) counts and debiases. The server never holds a
report.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction, check_integer
from discreet.privacy import Batch, BitsReport, Guarantee, ShuffledBatch, SimulatedReport, accounting, binomial
from discreet.privatizers.base import PrivateCounts, Shuffler
from discreet.privatizers.encoders import BinomialEncoder, SimulatedBinomialEncoder
from discreet.privatizers.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discreet.mdp import Spec
    from discreet.privacy import Shuffle

__all__ = ["BitShuffler", "ShufflePrivatizer", "SimulatedShuffler", "paper_bits"]


class BitShuffler(Shuffler[BitsReport, ShuffledBatch]):
    """Takes reports apart: a message keeps only its counter, and each counter's messages are permuted over all users.

    Permuting whole reports instead would not be private: what stays together tells whose it is.
    """

    def mix(
        self, reports: Sequence[BitsReport], rng: np.random.Generator
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Returns all messages, (counters, users·messages), each counter's in an order of its own."""
        return rng.permuted(np.concatenate([report.bits for report in reports], axis=1), axis=1)

    def __call__(self, reports: Sequence[BitsReport], rng: np.random.Generator) -> ShuffledBatch:
        """Returns the multisets."""
        mixed = self.mix(reports, rng)
        return ShuffledBatch(mixed.sum(axis=1), mixed.shape[1], len(reports))


class SimulatedShuffler(Shuffler[SimulatedReport, ShuffledBatch]):
    """The fast path in simulation: adds Bin(users·m, p) to the data bits of each counter, the law of all noise bits."""

    def __init__(self, encoder: BinomialEncoder) -> None:
        super().__init__()
        self._encoder = encoder

    def __call__(self, reports: Sequence[SimulatedReport], rng: np.random.Generator) -> ShuffledBatch:
        """Returns the multisets."""
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


class ShufflePrivatizer:
    """Counts the ones of every counter, batch by batch, and debiases.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        capacity: Number of users at most.
        batch_size: Users a batch: the noise of a batch is calibrated for it.
        stationary: Whether counters are pooled over the steps.
        failure: Probability with which `counts().error` may fail.
        messages: Whether every bit is drawn and mixed; else simulated totals with the same law are.

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
        capacity: int,
        batch_size: int,
        stationary: bool,
        failure: float = 0.05,
        messages: bool = False,
    ) -> None:
        self.privacy = privacy
        self.capacity = check_integer("capacity", capacity)
        self.batch_size = check_integer("batch_size", batch_size)
        self.failure = check_fraction("failure", failure)
        self.layout = Layout(spec, stationary, visits=privacy.release != "mr")
        self.honest = math.floor(privacy.honest_fraction * batch_size + 1e-9)
        if self.honest < 1:
            least = math.ceil(1 / privacy.honest_fraction)
            raise InvalidInput(
                f"a batch of {batch_size} users with honest_fraction={privacy.honest_fraction} has no honest user: "
                f"the smallest batch is {least}"
            )
        self._shift = spec.horizon if stationary else 1
        self._pairs = self.layout.families * (1 if stationary else spec.horizon)
        if privacy.calibration == "paper":
            if not self.layout.visits:
                raise InvalidInput("calibration='paper' is printed for release='nmr', got release='mr'")
            m, p = paper_bits(privacy.epsilon, privacy.delta, spec.horizon, batch_size)
        else:
            m, p = binomial.calibrate(self.honest, self._shift, self._pairs, privacy.epsilon, privacy.delta)
        kind = BinomialEncoder if messages else SimulatedBinomialEncoder
        self.encoder = kind(self.layout, m, p)
        self.shuffler: BitShuffler | SimulatedShuffler = BitShuffler() if messages else SimulatedShuffler(self.encoder)
        self.count = 0
        self._ones = np.zeros(self.layout.size)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Shuffle DP of a batch, from the noise bits that honest users really add."""
        encoder = self.encoder
        event = binomial.BinomialEvent(self.honest * encoder.noise_bits, encoder.probability, self._shift, self._pairs)
        fraction = self.privacy.honest_fraction
        assumptions = [f"at least {fraction:.0%} of the users of every batch add their noise bits"]
        assumptions.append("the shuffler takes reports apart and mixes each counter's messages")
        return Guarantee(
            "shuffle",
            accounting.epsilon(event, self.privacy.delta),
            self.privacy.delta,
            noise="fast",
            assumptions=tuple(assumptions),
            events=event,
        )

    @property
    def batch_std(self) -> float:
        """Standard deviation of the noise of one batch in a counter."""
        encoder = self.encoder
        return math.sqrt(self.batch_size * encoder.noise_bits * encoder.probability * (1 - encoder.probability))

    @property
    def messages_per_user(self) -> int:
        """One-bit messages that a user sends."""
        return self.layout.size * self.encoder.messages

    @property
    def bytes_per_user(self) -> int:
        """Their size with one bit a message and a counter's messages sent together with its number (4 bytes)."""
        return self.layout.size * (4 + math.ceil(self.encoder.messages / 8))

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        The noise after t batches is binomial: a union over counts and batches of its exact tails, with half of the
        failure probability. Derived visits add up S transitions. Rewards are also rounded to bits: a martingale in
        the users with increments in an interval of length 1 (H if pooled), bounded by Azuma's maximal inequality with
        the other half.
        """
        from scipy.optimize import brentq
        from scipy.stats import binom

        reads = max(1, self.capacity // self.batch_size)
        n = np.unique(np.linspace(0, reads, min(reads, 200) + 1).round()[1:])  # rounded up within a stretch
        weights = np.diff(n, prepend=0)
        bits, p = self.batch_size * self.encoder.noise_bits, self.encoder.probability
        S, cells = self.layout.spec.states, self.layout.cells
        groups = [(self.layout.size, 1)] + ([] if self.layout.visits else [(cells, S)])

        def excess(x: float) -> float:
            total = 0.0
            for number, width in groups:
                trials = n * bits * width
                tails = binom.sf(np.ceil(trials * p + x) - 1, trials, p) + binom.cdf(
                    np.floor(trials * p - x), trials, p
                )
                total += number * float((weights * tails).sum())
            return math.log(max(total, 1e-300)) - math.log(self.failure / 2)

        high = self.batch_std * math.sqrt(reads * S)
        while excess(high) > 0:
            high *= 2
        noise = float(brentq(excess, 0.0, high, xtol=1e-6))
        width = self._shift * math.sqrt(self.capacity / 2)
        return noise + width * math.sqrt(math.log(4 * cells / self.failure))

    def collect(self, batch: Batch) -> None:
        """Adds a shuffled batch; nothing changes if an error is raised."""
        if not isinstance(batch, ShuffledBatch):
            raise TypeError(f"expected a ShuffledBatch, got {type(batch).__name__}")
        if batch.users != self.batch_size:
            raise InvalidInput(f"noise was calibrated for batches of {self.batch_size} users, got {batch.users}")
        if self.count + batch.users > self.capacity:
            raise CapacityExceeded(
                f"this privatizer holds {self.capacity} users: {self.count} are in it, got {batch.users} more"
            )
        if batch.ones.shape != (self.layout.size,) or batch.messages != batch.users * self.encoder.messages:
            raise InvalidInput(
                f"a batch has {self.layout.size} counters with {batch.users * self.encoder.messages} messages each"
            )
        self._ones += batch.ones
        self.count += batch.users

    def counts(self) -> PrivateCounts:
        """Returns the debiased counts: ones minus the expected noise bits."""
        expected = self.count * self.encoder.noise_bits * self.encoder.probability
        return PrivateCounts(*self.layout.split(self._ones - expected), self.error)

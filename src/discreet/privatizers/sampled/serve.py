"""One step of the episode a user: the server counts the answers and debiases."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.privacy import Guarantee, SampledBatch, SampledReport, accounting
from discreet.privatizers.base import Encoder, Kind, PrivateCounts
from discreet.privatizers.local import LocalMechanism
from discreet.privatizers.randomisers import choose, count
from discreet.privatizers.sampled.encode import SampledEncoder
from discreet.privatizers.shufflers import Collector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source
    from discreet.privacy import Local, Report
    from discreet.privatizers.counts.layout import Layout

__all__ = ["SampledCounts"]


class Supports(NamedTuple):
    """How many reports about each step contain each value, (steps, values), and how many there are, (steps,)."""

    collected: int
    supports: NDArray[np.float64]
    users: NDArray[np.float64]


class SampledCounts(LocalMechanism[SampledBatch, Supports, PrivateCounts]):
    """Every user answers about one step through a randomiser; the server debiases.

    Guarantee:
        `promise`: pure local DP of every report.
    """

    name = "sampled"
    batch = SampledBatch
    encoder: SampledEncoder

    def __init__(self, layout: Layout, privacy: Local, capacity: int, failure: float) -> None:
        super().__init__(privacy, capacity, failure)
        self.layout = layout
        if privacy.calibration == "paper":
            raise InvalidInput("calibration='paper' is printed for local sum='laplace', got sum='sampled'")
        self._size = SampledEncoder.values(layout.spec)
        self.encoder = SampledEncoder(layout, choose(privacy.randomiser, privacy.epsilon, self._size))

    @property
    def noise(self) -> str:
        """How an answer is hidden."""
        return self.encoder.randomiser.name

    def promise(self, kind: Kind) -> Guarantee:
        """Returns pure local DP of a report."""
        return self._local(accounting.pure(self.encoder.randomiser.loss), 0.0, kind)

    def shuffler(self) -> Collector[SampledReport, SampledBatch]:
        """Collects reports, in order: each is private by itself."""
        return Collector(SampledReport, SampledBatch)

    @property
    def _widths(self) -> dict[str, int]:
        """How many values each count adds up."""
        S = self.layout.spec.states
        return {"visits": 2 * S, "transitions": 2, "rewards": S}

    def _variance(self, width: int, *, holds: bool) -> float:
        """A bound on the variance of one user's error in a count of ``width`` values.

        The debiased answer about step h is D with mean x (whether the value occurred) and variance v. Per step the user
        contributes H·1{h sampled}·D, with variance H(v + x²) − x². Pooled, H·D about a random step, with variance
        H²(v + f(1 − f)) where f is the share of steps with the value: at most H²(v + ¼), and H²v if it never occurs.
        """
        H, v = self.layout.spec.horizon, self.encoder.randomiser.variance(width, holds=holds)
        if self.layout.stationary:
            return H * H * (v + holds / 4)
        return H * (v + holds) - holds

    @cached_property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of one user's error in a count that they do not contribute to."""
        return {name: math.sqrt(self._variance(width, holds=False)) for name, width in self._widths.items()}

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        Users' data depends on earlier reads, so a count's error is a martingale in the users, with increments of at
        most b and conditional variances of at most v: Freedman's inequality bounds all reads at once by
        2·exp(−x²/(2(Kv + bx/3))), and a union covers the counts.
        """
        H, cells, S = self.layout.spec.horizon, self.layout.cells, self.layout.spec.states
        p, q = self.encoder.randomiser.probabilities
        numbers = {"visits": cells, "transitions": cells * S, "rewards": cells}
        total = sum(numbers.values())
        worst = 0.0
        for width in self._widths.values():
            v = self.capacity * max(self._variance(width, holds=holds) for holds in (False, True))
            largest = min(width, self._most(width))
            b = H * (max(largest * (1 - q), width * q) / (p - q) + 1)
            log = math.log(2 * total / self.failure)
            worst = max(worst, b * log / 3 + math.sqrt((b * log / 3) ** 2 + 2 * v * log))  # solves the equality
        return worst

    def _most(self, width: int) -> int:
        """How many of ``width`` values a report can contain."""
        chosen = getattr(self.encoder.randomiser, "chosen", width)
        return int(min(width, chosen))

    def start(self) -> Supports:
        """Nobody."""
        return Supports(0, np.zeros((self.layout.steps, self._size)), np.zeros(self.layout.steps))

    def first(self, kept: Supports, source: Source) -> tuple[Supports, PrivateCounts]:
        """Zeros."""
        return self.released(kept, source)

    def folded(self, kept: Supports, batch: SampledBatch, encoder: Encoder[Report]) -> Supports:
        """Counts the answers, if each is one that the encoder can have made."""
        self._admit(kept.collected, batch)
        if getattr(encoder, "randomiser", None) != self.encoder.randomiser:
            raise InvalidInput("users of this batch must run its own encoder")
        steps, whole = self.layout.steps, batch.steps.dtype.kind in "iu" and batch.support.dtype == np.bool_
        known = whole and bool(((batch.steps >= 0) & (batch.steps < steps)).all())
        if batch.support.shape != (batch.users, self._size) or not known:
            raise InvalidPersonalData(f"reports must have {self._size} bits about one of {steps} steps")
        if not self.encoder.randomiser.possible(batch.support):
            raise InvalidPersonalData(f"a report has {self._most(self._size)} bits that are 1")
        supports = kept.supports + count(batch.support, batch.steps, steps)
        return Supports(kept.collected + batch.users, supports, kept.users + np.bincount(batch.steps, minlength=steps))

    def released(self, kept: Supports, source: Source) -> tuple[Supports, PrivateCounts]:
        """Returns the debiased counts: transitions, and visits and rewards as their marginals."""
        p, q = self.encoder.randomiser.probabilities
        spec = self.layout.spec
        joint: NDArray[np.float64] = spec.horizon * (kept.supports - kept.users[:, None] * q) / (p - q)
        joint = joint.reshape(self.layout.steps, spec.states, spec.actions, spec.states, 2)
        transitions, std = joint.sum(axis=4), self.fresh_std * math.sqrt(kept.collected)
        visits, rewards = transitions.sum(axis=3), joint[..., 1].sum(axis=3)
        return kept, PrivateCounts(visits, transitions, rewards, self.error, std=std)

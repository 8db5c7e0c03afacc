"""Weighted counts, at the server: sums of vectors of bounded length, with Gaussian noise or none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidPersonalData, check_integer
from discreet.privacy import NonPrivate, RawBatch, RawReport
from discreet.privatizers.base import Encoder, Kind, Mechanism, Released
from discreet.privatizers.counts.serve import CentralSum, raw
from discreet.privatizers.shufflers import Collector
from discreet.privatizers.weighted.encode import WeightedEncoder
from discreet.privatizers.weighted.layout import SLACK, Block, WeightedLayout
from discreet.sums import NoisySum, RawSum, SumState, proven, quietest
from discreet.sums.base import check_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source
    from discreet.privacy import Central, Guarantee, Report

__all__ = ["CentralWeighted", "ExactWeighted", "WeightedCounts"]


@dataclass(frozen=True, eq=False)
class WeightedCounts(Released):
    """All that the planner of weighted counts may see.

    In a visit count the standard deviation of the noise is 1/k_n times ``std``, in a reward sum 1/k_r times.

    Attributes:
        blocks: The released counts, with noise.
    """

    blocks: list[Block]


class _Weighted(Mechanism[RawBatch, SumState, WeightedCounts]):
    """The server is trusted with raw vectors: it checks their lengths and signs, and adds them up."""

    sum: NoisySum | RawSum

    def __init__(self, layout: WeightedLayout) -> None:
        self.layout = layout
        self.encoder = WeightedEncoder(layout)

    def encoder_of(self, version: int) -> WeightedEncoder:
        """The same for all, if no plan says what is wanted."""
        return self.encoder

    def shuffler(self) -> Collector[RawReport, RawBatch]:
        """Collects raw reports, in order."""
        return Collector(RawReport, RawBatch)

    def start(self) -> SumState:
        """Nobody."""
        return self.sum.start()

    def folded(self, kept: SumState, batch: RawBatch, encoder: Encoder[Report]) -> SumState:
        """Adds a batch.

        Raises:
            InvalidPersonalData: If a user's vector is longer than the sensitivity rests on, or has a wrong sign.
        """
        indices, values = raw(batch)
        self._check(batch)
        return self.sum.added(kept, indices, values)

    def check(self, report: Report, encoder: Encoder[Report]) -> None:
        """Raises unless one report, alone, may be folded in: the same checks, and nothing is added up."""
        batch = self.shuffler().alone(report)  # type: ignore[arg-type]
        self._check(batch)
        self.sum.check(batch.indices, batch.values)

    def _check(self, batch: RawBatch) -> None:
        """Holds every user's vector to what the proof of the sensitivity asks for, block by block."""
        from discreet.privatizers.weighted import _kernels

        layout, (limits, most, side, longest) = self.layout, self._bounds
        indices, values = check_users(batch.indices, batch.values, layout.size)
        sizes = layout.cells, layout.spec.states
        if not _kernels.bounded(indices, values, limits, most, side, *sizes, longest, np.zeros(layout.size)):
            told = ", ".join(f"{layout.limit(*block):.6g}" for block in layout.blocks)
            raise InvalidPersonalData(
                f"a user's weighted counts must have squared length at most {told}, visits that are not "
                "negative, and reward sums within what the visits allow"
            )

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.float64], float, float, float]:
        """What `_kernels.bounded` holds vectors to.

        Terms that cancel each other would drown what is in the sum already in their rounding errors, so none is longer
        than a whole vector. Rewards that lie on one side may be all that keeps inner products from below 0.
        """
        layout = self.layout
        limits = np.array([(sets, layout.limit(sets, share) * (1 + SLACK)) for sets, share in layout.blocks])
        most = layout.reward * layout.spread / layout.visit * (1 + SLACK)
        longest = math.sqrt(max(layout.limit(*block) for block in layout.blocks)) * (1 + SLACK)
        side = 1.0 if layout.centre == 0 else -1.0 if layout.centre == 1 else 0.0
        return limits, most, side, longest


class CentralWeighted(CentralSum, _Weighted):
    """Sums weighted counts and releases the sums with Gaussian noise.

    Guarantee:
        `promise`: joint DP for one user's whole trajectory, replace-one, computed from the sum's event. Users'
        vectors are bounded for every ``want`` and ``ahead``, which are functions of earlier reads: all reads are one
        adaptive Gaussian mechanism, and the billboard lemma gives joint DP.
    """

    sum: NoisySum

    def __init__(self, layout: WeightedLayout, privacy: Central, *, capacity: int, horizon: int) -> None:
        super().__init__(layout)
        self.privacy = privacy
        name = privacy.sum
        if name == "auto":
            name, _ = quietest(horizon, layout.sensitivity, privacy.budget, size=layout.size)
        self.sum = proven(
            name,
            layout.size,
            capacity=capacity,
            horizon=check_integer("horizon", horizon),
            sensitivity=layout.sensitivity,
            budget=privacy.budget,
            grid=layout.grid if privacy.noise == "secure" else None,
        )

    @cached_property
    def error(self) -> float:
        """Standard deviation of the noise in a transition count, at the noisiest read."""
        return self.sum.worst_std

    def released(self, kept: SumState, source: Source) -> tuple[SumState, WeightedCounts]:
        """Returns the sums with noise."""
        kept, vector = self.sum.released(kept, source)
        return kept, WeightedCounts(self.layout.split(vector), std=self.sum.std_after(kept.reads))


class ExactWeighted(_Weighted):
    """Sums weighted counts exactly.

    Guarantee:
        None.
    """

    sum: RawSum
    name, noise = "exact", "none"
    error = 0.0

    def __init__(self, layout: WeightedLayout, *, capacity: int) -> None:
        super().__init__(layout)
        self.sum = RawSum(layout.size, capacity=capacity)

    def promise(self, kind: Kind) -> Guarantee:
        """Nothing is proven."""
        return NonPrivate().guarantee

    def released(self, kept: SumState, source: Source) -> tuple[SumState, WeightedCounts]:
        """Returns the exact sums."""
        kept, vector = self.sum.released(kept)
        return kept, WeightedCounts(self.layout.split(vector))

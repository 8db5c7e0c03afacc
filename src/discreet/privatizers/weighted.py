"""Weighted counts at the server: sums of vectors of bounded length, with Gaussian noise or none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData, check_integer
from discreet.privacy import Central, NonPrivate, RawBatch, RawTotals
from discreet.privatizers.base import Collector, RawServer
from discreet.privatizers.central import CentralServer
from discreet.privatizers.weights import SLACK, Block, WeightedEncoder, WeightedLayout
from discreet.sums import ExactSum, calibrated, quietest
from discreet.sums.base import check_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.privacy import Guarantee, TrustModel

__all__ = ["WeightedCentral", "WeightedCounts", "WeightedNonPrivate", "WeightedTally", "make_weighted"]


@dataclass(frozen=True, eq=False)
class WeightedCounts:
    """All that the planner of weighted counts may see.

    Attributes:
        blocks: The released counts, with noise.
        error: Standard deviation of the noise in a transition count; in a visit count it is 1/k_n times as large, in a
            reward sum 1/k_r times.
    """

    blocks: list[Block]
    error: float


class _WeightedServer(RawServer):
    """The server's side where it is trusted with raw vectors: it checks their lengths and signs, and adds them up."""

    layout: WeightedLayout
    encoder: WeightedEncoder

    def _begin(self, layout: WeightedLayout) -> None:
        self.layout = layout
        self.encoder = WeightedEncoder(layout)
        self.shuffler = Collector()

    @property
    def simulated(self) -> bool:
        """Whether `tally` does what encoder and shuffler do."""
        return type(self.encoder) is WeightedEncoder and type(self.shuffler) is Collector

    def tally(self) -> WeightedTally:
        """In simulation only: returns what stands for the users and the shuffler of the current batch."""
        return WeightedTally(self.encoder)

    def collect(self, batch: RawBatch | RawTotals) -> None:
        """Adds a batch to the sums; nothing changes if an error is raised.

        Raises:
            InvalidPersonalData: If a user's vector is longer than the sensitivity rests on, or has a wrong sign.
        """
        if isinstance(batch, RawTotals):  # of our own encoder, in simulation
            if np.shape(batch.total) != (self.layout.size,) or batch.users < 1:
                raise InvalidInput(f"a total must be of users, and have shape ({self.layout.size},)")
            total, *_ = self.sum.stretch(batch.users, 0)
            total += batch.total
            self.sum.resume(waiting=True)
            return
        if not isinstance(batch, RawBatch):
            raise TypeError(f"expected a RawBatch, got {type(batch).__name__}")
        self._check(batch)
        self.sum.add(batch.indices, batch.values)

    def _check(self, batch: RawBatch) -> None:
        """Holds every user's vector to what the proof of the sensitivity asks for, block by block."""
        layout = self.layout
        indices, values = check_users(batch.indices, batch.values, layout.size)
        longest = math.sqrt(max(layout.limit(*block) for block in layout.blocks)) * (1 + SLACK)
        for row, entries in zip(indices, values, strict=True):
            vector = np.zeros(layout.size)
            np.add.at(vector, row, entries)
            # terms that cancel each other would drown what is in the sum already in their rounding errors
            wrong, start = (np.abs(entries) > longest).any(), 0
            for sets, share in layout.blocks:
                size = sets * layout.cells * (layout.spec.states + 2)
                wrong = wrong or not self._bounded(vector[start : start + size], sets, layout.limit(sets, share))
                start += size
            if wrong:
                limits = ", ".join(f"{layout.limit(*block):.6g}" for block in layout.blocks)
                raise InvalidPersonalData(
                    f"a user's weighted counts must have squared length at most {limits}, visits that are not "
                    "negative, and reward sums within what the visits allow"
                )

    def _bounded(self, part: NDArray[np.float64], sets: int, limit: float) -> bool:
        """Whether one block of a user's vector is no longer than its limit, and has no wrong sign."""
        layout, cells = self.layout, sets * self.layout.cells
        x, (n, r) = part[: -2 * cells], part[-2 * cells :].reshape(2, cells)
        most = layout.reward * layout.spread / layout.visit * (1 + SLACK)
        signs = x.min() >= 0 and n.min() >= 0 and (np.abs(r) <= most * n).all()
        if layout.centre in (0, 1):  # rewards lie on one side: it may be all that keeps inner products from below 0
            signs = signs and (r if layout.centre == 0 else -r).min() >= 0
        return bool(signs and part @ part <= limit * (1 + SLACK))

    def _counts(self, vector: NDArray[np.float64], std: float) -> WeightedCounts:
        return WeightedCounts(self.layout.split(vector), std)


class WeightedCentral(_WeightedServer, CentralServer):
    """Sums weighted counts and releases the sums with Gaussian noise.

    Guarantee:
        ``guarantee``: joint DP for one user's whole trajectory, replace-one, computed from the sum's event. Users'
        vectors are bounded for every ``want`` and ``ahead``, which are functions of earlier reads: all reads are one
        adaptive Gaussian mechanism, and the billboard lemma gives joint DP.
    """

    def __init__(
        self, layout: WeightedLayout, privacy: Central, *, capacity: int, horizon: int, rng: np.random.Generator
    ) -> None:
        self._begin(layout)
        self.privacy = privacy
        name = privacy.sum
        if name == "auto":
            name, _ = quietest(horizon, layout.sensitivity, privacy.budget, size=layout.size)
        self.sum = calibrated(
            name,
            layout.size,
            capacity=capacity,
            horizon=check_integer("horizon", horizon),
            sensitivity=layout.sensitivity,
            budget=privacy.budget,
            rng=rng,
        )

    @cached_property
    def error(self) -> float:
        """Standard deviation of the noise in a transition count, at the noisiest read."""
        return self.sum.worst_std

    def counts(self) -> WeightedCounts:
        """Ends the batch and returns what is released."""
        vector = self.sum.read()
        return self._counts(vector, self.sum.std)


class WeightedNonPrivate(_WeightedServer):
    """Sums weighted counts exactly.

    Guarantee:
        None.
    """

    sum: ExactSum
    name, noise = "exact", "none"
    error = 0.0

    def __init__(self, layout: WeightedLayout, *, capacity: int, guarantee: Guarantee) -> None:
        self._begin(layout)
        self.guarantee = guarantee
        self.sum = ExactSum(layout.size, capacity=capacity)

    def counts(self) -> WeightedCounts:
        """Returns the exact sums."""
        return self._counts(self.sum.total.copy(), 0.0)


class WeightedTally:
    """In simulation only: the total of a batch while its users play, bit for bit what their reports add up to."""

    def __init__(self, encoder: WeightedEncoder) -> None:
        self._encoder = encoder
        self._total = np.zeros(encoder.layout.size)
        self.users = 0

    def add(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        rng: np.random.Generator | None = None,
    ) -> None:
        """Adds users, a row each."""
        indices, values = self._encoder.contributions(states, actions, rewards)
        self._total += np.bincount(indices.ravel(), weights=values.ravel(), minlength=len(self._total))
        self.users += len(states)

    def batch(self, rng: np.random.Generator | None = None) -> RawTotals:
        """Returns what the collector hands on."""
        return RawTotals(self._total, self.users)


def make_weighted(
    layout: WeightedLayout, privacy: TrustModel, *, capacity: int, horizon: int, rng: np.random.Generator
) -> WeightedCentral | WeightedNonPrivate:
    """Returns the privatizer of weighted counts under a trust model.

    Args:
        layout: Of the counts.
        privacy: `Central` with δ > 0, or `NonPrivate`.
        capacity: Number of users at most.
        horizon: Number of reads at most.
        rng: Where the noise comes from.
    """
    if isinstance(privacy, NonPrivate):
        return WeightedNonPrivate(layout, capacity=capacity, guarantee=privacy.guarantee)
    if not isinstance(privacy, Central):
        raise InvalidInput(f"weighted counts are for a trusted server, got {type(privacy).__name__}")
    if privacy.delta == 0:
        raise InvalidInput("weighted counts have Gaussian noise and need delta > 0, got delta=0.0; try dp-ucbvi")
    if privacy.calibration == "paper":
        raise InvalidInput("calibration='paper' is printed for the central Laplace sum='tree', not for weighted counts")
    return WeightedCentral(layout, privacy, capacity=capacity, horizon=horizon, rng=rng)

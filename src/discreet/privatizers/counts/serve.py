"""Counts, at the server: exact, with central noise, or sums of what users made noisy."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from discreet.errors import InvalidInput, check_fraction, check_integer
from discreet.privacy import Budget, Guarantee, NonPrivate, RawBatch, RawReport, Sensitivity, accounting
from discreet.privacy.sensitivity import tabular, tabular_user
from discreet.privatizers.base import Encoder, Kind, Mechanism, PrivateCounts
from discreet.privatizers.counts.encode import NoisyEncoder, RawEncoder
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.exact import ExactNoise
from discreet.privatizers.local import NoisyServer
from discreet.privatizers.shufflers import Collector
from discreet.sums import Grid, NoisySum, RawSum, SecureSum, SumState, factorise, proven, quietest
from discreet.sums.secure import secure_sum

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.noise import Distribution, Source
    from discreet.privacy import Central, Local, Report
    from discreet.privacy.sensitivity import UserBound

__all__ = ["CentralCounts", "CentralSum", "ExactCounts", "NoisyCounts", "choose_sum", "paper_scale"]


def choose_sum(privacy: Central, horizon: int, sensitivity: Sensitivity, size: int = 1) -> tuple[str, Budget]:
    """Returns the sum that ``privacy`` names and the budget it is calibrated for.

    For ``"auto"`` the sum with the least noise in its worst read: with Gaussian noise for δ > 0, or with Laplace
    noise, which is proven for δ = 0 and thus for any δ.
    """
    if privacy.calibration == "paper":
        return ("tree" if privacy.sum == "auto" else privacy.sum), Budget(privacy.epsilon)
    if privacy.sum != "auto":
        return privacy.sum, privacy.budget
    return quietest(horizon, sensitivity, *dict.fromkeys((privacy.budget, Budget(privacy.epsilon))), size=size)


def paper_scale(epsilon: float, steps: int, reads: int) -> float:
    """Returns the printed Laplace scale a node, 3H·log₂K/ε (the paper's log taken as log₂).

    References:
        Qiao and Wang (2023), Section 5.1 (1) and (3); Vietri et al. (2020), Section 4.
    """
    if reads < 2:
        raise InvalidInput(f"calibration='paper' divides by log K and needs at least 2 reads, got {reads}")
    return 3 * steps * math.log2(reads) / epsilon


class RawCounts(Mechanism[RawBatch, SumState, PrivateCounts]):
    """What all counts share whose server is trusted: raw reports, and a sum of them."""

    messages_per_user = 0  # of one bit
    layout: Layout
    encoder: RawEncoder
    sum: RawSum | NoisySum

    def encoder_of(self, version: int) -> RawEncoder:
        """The same for all."""
        return self.encoder

    def shuffler(self) -> Collector[RawReport, RawBatch]:
        """Collects raw reports, in order: the server is trusted."""
        return Collector(RawReport, RawBatch)

    def of(self, layout: Layout) -> Self:
        """Returns the same for a layout that needs no other noise."""
        found = copy.copy(self)
        found.layout, found.encoder = layout, replace(self.encoder, layout=layout)
        return found

    def folded(self, kept: SumState, batch: RawBatch, encoder: Encoder[Report]) -> SumState:
        """Adds a batch."""
        return self.sum.added(kept, *raw(batch))


class ExactCounts(RawCounts):
    """Counts exactly.

    Guarantee:
        None.
    """

    name, noise = "exact", "none"
    error = 0.0
    sum: RawSum

    def __init__(self, spec: Spec, *, capacity: int, stationary: bool, layout: Layout | None = None) -> None:
        self.layout = layout or Layout(spec, stationary)
        self.encoder = RawEncoder(self.layout)
        self.sum = RawSum(self.layout.size, capacity=capacity)

    def promise(self, kind: Kind) -> Guarantee:
        """Nothing is proven."""
        return NonPrivate().guarantee

    def noise_bound(self, failure: float) -> float:
        """There is no noise."""
        return 0.0

    def start(self) -> SumState:
        """Nobody."""
        return self.sum.start()

    def first(self, kept: SumState, source: Source) -> tuple[SumState, PrivateCounts]:
        """All counts are 0."""
        return kept, PrivateCounts(*self.layout.split(kept.total.copy()))

    def released(self, kept: SumState, source: Source) -> tuple[SumState, PrivateCounts]:
        """Returns the exact counts."""
        kept, vector = self.sum.released(kept)
        return kept, PrivateCounts(*self.layout.split(vector))


def raw(batch: RawBatch) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns coordinates and values of a raw batch; raises if it is none."""
    if not isinstance(batch, RawBatch):
        raise TypeError(f"expected a RawBatch, got {type(batch).__name__}")
    return batch.indices, batch.values


class CentralSum:
    """What all central mechanisms share: a sum with noise, and what is proven for its reads."""

    sum: NoisySum
    privacy: Central

    def promise(self, kind: Kind) -> Guarantee:
        """Returns what is proven for all reads."""
        delta = self.privacy.delta if self.sum.distribution == "gaussian" else 0.0
        return Guarantee("joint", accounting.epsilon(self.sum.event, delta), delta, noise=kind, events=self.sum.event)

    @property
    def exact(self) -> bool:
        """Whether the sum is one of integers."""
        return isinstance(self.sum, SecureSum)

    @property
    def name(self) -> str:
        """The sum's."""
        return self.sum.name

    @property
    def noise(self) -> str:
        """Its distribution."""
        return self.sum.distribution

    @property
    def fresh_std(self) -> float:
        """Standard deviation of one draw of noise."""
        return self.sum.fresh_std

    @property
    def worst_std(self) -> float:
        """Standard deviation of the noise in a count, at the noisiest read."""
        return self.sum.worst_std

    def start(self) -> SumState:
        """Nobody."""
        return self.sum.start()

    def calibration(self) -> dict[str, Any]:
        """Returns the scale of the noise and what is known of it."""
        return {**self.sum.calibration(), "error": self.error}  # type: ignore[attr-defined]

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes the scale of another machine."""
        self.sum.recalibrate(found)
        self.__dict__["error"] = found["error"]


class CentralCounts(CentralSum, RawCounts):
    """Sums raw reports and releases the sums with noise.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        capacity: Number of users at most.
        horizon: Number of reads, that is of batches, at most.
        stationary: Whether counts are pooled over the steps.
        failure: Probability with which ``error`` may fail.
        layout: Of the counts, if it is not the usual one.

    Guarantee:
        `promise`: joint DP for one user's whole trajectory, replace-one, computed from the sum's event. The reads
        are DP as a function of all users, adaptively: the sensitivity bound holds for every history, a batch's policy
        is fixed before it, and reads before a batch do not depend on it. What each user is shown is a function of the
        reads and their own data, so the billboard lemma gives joint DP.
    """

    sum: NoisySum

    def __init__(
        self,
        spec: Spec,
        privacy: Central,
        *,
        capacity: int,
        horizon: int,
        stationary: bool,
        failure: float = 0.05,
        layout: Layout | None = None,
    ) -> None:
        check_integer("horizon", horizon)
        if privacy.release == "weighted":
            raise InvalidInput(
                "release='weighted' is for discreet-vi: weights are not visits, which the bounds of other agents count"
            )
        self.privacy = privacy
        self.failure = check_fraction("failure", failure)
        self.layout = layout or Layout(spec, stationary, visits=privacy.release != "mr")
        counted = (self.layout.counted, self.layout.families)
        sensitivity = tabular(*counted, stationary=self.layout.stationary)
        bound = tabular_user(*counted, stationary=self.layout.stationary)
        name, budget = choose_sum(privacy, horizon, sensitivity, self.layout.size)
        grid = Grid(bound.l1, entry=float(self.layout.shift)) if privacy.noise == "secure" else None
        self.sum = self._sum(name, budget, capacity, horizon, sensitivity, bound, grid)
        self.encoder = RawEncoder(self.layout, self.sum.fine if isinstance(self.sum, SecureSum) else None)

    def _sum(
        self,
        name: str,
        budget: Budget,
        capacity: int,
        horizon: int,
        sensitivity: Sensitivity,
        bound: UserBound,
        grid: Grid | None,
    ) -> NoisySum:
        privacy = self.privacy
        if privacy.calibration == "paper":
            if name != "tree" or not self.layout.visits:
                asked = f"sum={name!r}, release={privacy.release!r}"
                raise InvalidInput(
                    f"calibration='paper' is printed for the central Laplace sum='tree' with release='nmr', got {asked}"
                )
            given: dict[str, Any] = {  # the paper's noise, with the event that it really has
                "capacity": capacity,
                "scale": paper_scale(privacy.epsilon, self.layout.spec.horizon, horizon),
                "sensitivity": sensitivity,
                "bound": bound,
            }
            shape = factorise("tree", horizon, 0.0)
            if grid is None:
                return NoisySum(shape, self.layout.size, **given)
            return secure_sum(shape, self.layout.size, grid=grid, **given)
        return proven(
            name,
            self.layout.size,
            capacity=capacity,
            horizon=horizon,
            sensitivity=sensitivity,
            budget=budget,
            bound=bound,
            grid=grid,
        )

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this."""
        return self.noise_bound(self.failure)

    def noise_bound(self, failure: float) -> float:
        """Returns what no error of any count exceeds, ever, with probability 1 − ``failure``."""
        single = ((self.layout.size, 1),)  # every released coordinate, and derived visits: sums of S transitions
        derived = () if self.layout.visits else ((self.layout.cells, self.layout.spec.states),)
        found = self.sum.error_bound(failure, groups=single + derived)
        if isinstance(self.sum, SecureSum) and self.layout.rewards:  # people round rewards down
            found += math.ldexp(float(self.sum.capacity * self.layout.shift), -self.sum.fine)
        return found

    def first(self, kept: SumState, source: Source) -> tuple[SumState, PrivateCounts]:
        """Nobody has come, and everybody knows it: zeros, without noise."""
        return kept, PrivateCounts(*self.layout.split(np.zeros(self.layout.size)), self.error)

    def released(self, kept: SumState, source: Source) -> tuple[SumState, PrivateCounts]:
        """Returns the counts with noise."""
        kept, vector = self.sum.released(kept, source)
        std = self.sum.std_after(kept.reads)
        return kept, PrivateCounts(*self.layout.split(vector), self.error, std=std)


class NoisyCounts(NoisyServer[PrivateCounts]):
    """Every user adds Laplace or Gaussian noise to their whole vector (DP-UCBVI, Section 5.2).

    Guarantee:
        `promise`: local DP of every report.
    """

    encoder: NoisyEncoder

    def __init__(
        self, layout: Layout, privacy: Local, capacity: int, failure: float, distribution: Distribution
    ) -> None:
        sensitivity = tabular(layout.spec.horizon, layout.families, stationary=layout.stationary)
        super().__init__(privacy, capacity, failure, sensitivity, layout.size)
        self.layout = layout
        if privacy.calibration == "paper":
            if distribution != "laplace":
                raise InvalidInput(f"calibration='paper' is printed for local sum='laplace', got sum={distribution!r}")
            scale = 3 * layout.spec.horizon / privacy.epsilon  # Section 5.2: Lap(3H/ε)
        elif distribution == "laplace":
            scale = sensitivity.l1 / privacy.epsilon * (1 + 1e-12)
        else:
            scale = sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta)
        exact = None
        if privacy.noise == "secure":
            sound = distribution == "gaussian" and privacy.calibration == "sound"
            exact = (
                ExactNoise.proven(sensitivity.l2, layout.touched, privacy.budget)
                if sound
                else ExactNoise.of(distribution, scale)
            )
        self.encoder = NoisyEncoder(layout, distribution, scale, exact)

    @property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of the noise that one user adds to a count of each family."""
        unit = self.encoder.scale * (math.sqrt(2) if self.encoder.distribution == "laplace" else 1.0)
        return dict.fromkeys(("visits", "transitions", "rewards"), unit)

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        The noise of a count is a sum of independent symmetric terms, so by Lévy's inequality its largest absolute
        value over all reads exceeds x with at most twice the probability that it does after the last user.
        """
        from scipy.optimize import brentq

        from discreet.sums.tails import exceedances

        scale, size = self.encoder.scale, self.layout.size
        users = np.array([float(self.capacity)])

        def excess(x: float) -> float:
            tail = exceedances(self.encoder.distribution, x / scale, users, np.array([2.0 * size]))
            return tail - math.log(self.failure)

        high = scale * math.sqrt(2 * self.capacity)
        while excess(high) > 0:
            high *= 2
        found = float(brentq(excess, 0.0, high, rtol=1e-9))
        exact = self.encoder.exact
        if exact is None:
            return found
        # a draw on the grid and the rewards that it hides are less than a unit each from what they stand for, but for
        # a tail of the Gaussian's rounding that one in a million covers
        return found * (1 + 1e-6) + (1 + self.layout.shift) * self.capacity * exact.unit

    def _event(self) -> accounting.DpEvent:
        exact, own = self.encoder.exact, self._sensitivity
        if exact is None:
            return super()._event()
        return exact.event(own.l1 if exact.distribution == "laplace" else own.l2, self.layout.touched)

    def _counts(self, kept: tuple[int, np.ndarray[Any, Any]]) -> PrivateCounts:
        """Returns the sums of the noisy vectors."""
        std = self.fresh_std * math.sqrt(kept[0])
        return PrivateCounts(*self.layout.split(kept[1].copy()), self.error, std=std)

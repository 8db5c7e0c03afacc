"""Sums of feature products, at the server: what regularises the regressions of the linear agents.

References:
    Zhou (2022), Section 6: the privatizer, Theorems 6.4 and 6.5, Remark 6.9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData, check_fraction, check_integer
from discreet.privacy import NonPrivate, RawFeatureBatch, RawFeatureReport, Sensitivity, accounting
from discreet.privatizers.base import Encoder, Kind, Mechanism, Released
from discreet.privatizers.counts.serve import CentralSum
from discreet.privatizers.exact import ExactNoise
from discreet.privatizers.features.encode import NoisyFeatureEncoder, RawFeatureEncoder
from discreet.privatizers.local import NoisyServer
from discreet.privatizers.shufflers import Collector
from discreet.sums import Grid, NoisySum, RawSum, SecureSum, SumState, factorise, proven, quietest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source
    from discreet.privacy import Central, Guarantee, Local, Report
    from discreet.privatizers.features.layout import FeatureLayout
    from discreet.privatizers.local import Totals
    from discreet.sums.spectral import Spectrum

_FINE = 24  # bits of the grid that coordinates are rounded to, in the layout's units

__all__ = ["CentralFeatures", "ExactFeatures", "NoisyFeatures", "PrivateGrams", "Regulariser"]


@dataclass(frozen=True, eq=False)
class Regulariser:
    """What is known of Z = Λ − G and z = u − g: Assumption 2, for every step, with probability 1 − failure. All (H,).

    Attributes:
        value_shift: What is added to the diagonal of the value Grams.
        value_least: λ_min: no eigenvalue of Z is ever smaller.
        value_largest: λ_max: none is ever larger.
        value_nu: ν: ‖z‖ in the norm of Z⁻¹ is never larger.
        reward_shift: The same for the reward sums.
        reward_least: λ_min.
        reward_largest: λ_max.
        reward_nu: ν.
    """

    value_shift: NDArray[np.float64]
    value_least: NDArray[np.float64]
    value_largest: NDArray[np.float64]
    value_nu: NDArray[np.float64]
    reward_shift: NDArray[np.float64]
    reward_least: NDArray[np.float64]
    reward_largest: NDArray[np.float64]
    reward_nu: NDArray[np.float64]

    @classmethod
    def ridge(cls, horizon: int, strength: float = 1.0) -> Regulariser:
        """Returns Z = λI and z = 0."""
        same, none = np.full(horizon, strength), np.zeros(horizon)
        return cls(same, same, same, none, same, same, same, none)

    @classmethod
    def noisy(cls, layout: FeatureLayout, scale: float, spectrum: Spectrum, failure: float) -> Regulariser:
        """Returns Z = N + 2Σ·I for noise of this scale (Theorem 6.5), a quarter of the failure to each of the families.

        Σ bounds the spectral norm of N in all reads and steps. So Σ ≤ Z ≤ 3Σ, and ‖z‖ in the norm of Z⁻¹ is at most
        ‖z‖/√Σ.
        """
        from discreet.sums.spectral import matrix_bound, vector_bound

        H, found = layout.spec.horizon, []
        for first, d in ((2, layout.spec.dimension), (0, layout.spec.reward_dimension)):
            matrices, vectors = layout.unit(first) * scale, layout.unit(first + 1) * scale  # σ of every step
            bound, length = np.ones(H), np.zeros(H)  # where there are no sums, Z = 2I will do
            if len(matrices):
                each = failure / 4 / len(matrices)
                bound[: len(matrices)] = matrices * matrix_bound(d, spectrum, each)
                length[: len(matrices)] = vectors * vector_bound(d, spectrum, each)
            found += [2 * bound, bound, 3 * bound, length / np.sqrt(bound)]
        return cls(*found)


@dataclass(frozen=True, eq=False)
class PrivateGrams(Released):
    """All that a linear planner may see.

    Attributes:
        reward_gram: Σφφᵀ, (H, d₂, d₂), symmetric; with noise it may be indefinite.
        reward_vector: Σφ·r, (H, d₂).
        value_gram: Σψψᵀ of the value features, (H, d₁, d₁).
        value_vector: Σψ·V, (H, d₁).
        regulariser: What is known of the noise.
    """

    reward_gram: NDArray[np.float64]
    reward_vector: NDArray[np.float64]
    value_gram: NDArray[np.float64]
    value_vector: NDArray[np.float64]
    regulariser: Regulariser

    @classmethod
    def of(
        cls, layout: FeatureLayout, vector: NDArray[np.float64], regulariser: Regulariser, std: float = 0.0
    ) -> PrivateGrams:
        """Returns the sums in a released vector."""
        reward_gram, reward_vector, value_gram, value_vector = layout.split(vector)
        return cls(reward_gram, reward_vector, value_gram, value_vector, regulariser, std=std)


def rounding_of(size: int) -> float:
    """Returns how many grid units rounding adds to the norm of a vector of ``size`` draws, for all that ever happens.

    A discrete draw is a continuous one that was rounded, by 12 times r < 2.5 at most (`discreet.privacy.discrete`): the
    probability that one of 10²⁰ is rounded by more is below 10⁻¹¹. One more unit is for what it hides.
    """
    return 31 * math.sqrt(size)


def _unplanned(layout: FeatureLayout) -> NDArray[np.float64]:
    """Returns the values that an encoder carries before anything is planned."""
    return np.zeros((layout.spec.horizon + 1, layout.spec.states))


class _Features(Mechanism[RawFeatureBatch, SumState, PrivateGrams]):
    """The server is trusted with raw features: it clips them again, multiplies and adds."""

    sum: NoisySum | RawSum
    error: Regulariser

    def __init__(self, layout: FeatureLayout) -> None:
        self.layout = layout
        self.encoder = RawFeatureEncoder(layout, _unplanned(layout))

    def encoder_of(self, version: int) -> RawFeatureEncoder:
        """The same for all, but for the values that a plan gives it."""
        return self.encoder

    def shuffler(self) -> Collector[RawFeatureReport, RawFeatureBatch]:
        """Collects raw features, in order."""
        return Collector(RawFeatureReport, RawFeatureBatch)

    def start(self) -> SumState:
        """Nobody."""
        return self.sum.start()

    def first(self, kept: SumState, source: Source) -> tuple[SumState, PrivateGrams]:
        """Zeros, without noise: everybody knows that nobody has come."""
        return kept, PrivateGrams.of(self.layout, np.zeros(self.layout.size), self.error)

    def folded(self, kept: SumState, batch: RawFeatureBatch, encoder: Encoder[Report]) -> SumState:
        """Adds a batch."""
        if not isinstance(batch, RawFeatureBatch):
            raise TypeError(f"expected a RawFeatureBatch, got {type(batch).__name__}")
        spec = self.layout.spec
        shapes = (batch.users, spec.horizon, spec.dimension + spec.reward_dimension), (batch.users, spec.horizon, 2)
        if (np.shape(batch.features), np.shape(batch.targets)) != shapes:
            raise InvalidPersonalData(
                f"reports must have features of shape {shapes[0][1:]} and targets of {shapes[1][1:]}"
            )
        values = self.contributions(batch.features, batch.targets)
        return self.sum.added(kept, np.broadcast_to(np.arange(self.layout.size), values.shape), values)

    def contributions(self, features: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns what users add to the sums, (users, size): in a sum of integers, to the nearest grid point."""
        values = self.layout.vectors(features, targets)
        return np.ldexp(np.rint(np.ldexp(values, _FINE)), -_FINE) if isinstance(self.sum, SecureSum) else values


class ExactFeatures(_Features):
    """Exact sums, regularised by λI with λ = 1.

    Guarantee:
        None.
    """

    sum: RawSum
    name, noise = "exact", "none"

    def __init__(self, layout: FeatureLayout, *, capacity: int) -> None:
        super().__init__(layout)
        self.sum = RawSum(layout.size, capacity=capacity)
        self.error = Regulariser.ridge(layout.spec.horizon)

    def promise(self, kind: Kind) -> Guarantee:
        """Nothing is proven."""
        return NonPrivate().guarantee

    def released(self, kept: SumState, source: Source) -> tuple[SumState, PrivateGrams]:
        """Returns the exact sums."""
        kept, vector = self.sum.released(kept)
        return kept, PrivateGrams.of(self.layout, vector, self.error)


class CentralFeatures(CentralSum, _Features):
    """Sums raw features and releases all 4H sums with Gaussian noise, in one account.

    Args:
        layout: Of the sums.
        privacy: What is asked for.
        capacity: Number of users at most.
        horizon: Number of reads at most.
        failure: Probability with which ``error`` may fail.

    Guarantee:
        `promise`: joint DP for one user's whole trajectory, replace-one. In the layout's units every sum has
        sensitivity 1, so the whole vector has √(number of sums), whatever V its batch carries: V is a function of
        earlier reads, and the bounds on features and targets are enforced for every report. The sums are one
        Gaussian mechanism.
    """

    sum: NoisySum

    def __init__(self, layout: FeatureLayout, privacy: Central, *, capacity: int, horizon: int, failure: float) -> None:
        super().__init__(layout)
        self.privacy = privacy
        self.failure = check_fraction("failure", failure)
        reads = check_integer("horizon", horizon)
        if privacy.calibration == "paper":
            self.sum = self._printed(capacity, reads)
            return
        name = privacy.sum
        if name == "auto":
            name, _ = quietest(reads, layout.sensitivity, privacy.budget, size=layout.size)
        grid, sensitivity = None, layout.sensitivity
        if privacy.noise == "secure":  # coordinates are rounded to the nearest grid point: two users' by one in all
            grid, l2 = Grid(layout.size, fine=_FINE), sensitivity.l2 + math.sqrt(layout.size) * 2.0**-_FINE
            sensitivity = Sensitivity(l2 * math.sqrt(layout.size), l2)
        self.sum = proven(
            name,
            layout.size,
            capacity=capacity,
            horizon=reads,
            sensitivity=sensitivity,
            budget=privacy.budget,
            grid=grid,
        )

    def _printed(self, capacity: int, reads: int) -> NoisySum:
        """The paper's noise, with the event that it really has."""
        if self.privacy.sum not in ("tree", "auto"):
            raise InvalidInput(
                f"calibration='paper' is printed for the central Gaussian sum='tree', got sum={self.privacy.sum!r}"
            )
        H, layout, shape = self.layout.spec.horizon, self.layout, factorise("tree", reads, self.privacy.delta)
        m = shape.entries[1]
        # Theorem 6.5: σ = HΔ/ε·√(32m ln(4H/δ)), in units of Δ
        scale = H / self.privacy.epsilon * math.sqrt(32 * m * math.log(4 * H / self.privacy.delta))
        if self.privacy.noise == "secure":
            raise InvalidInput("noise='secure' is for calibration='sound' in linear agents, got calibration='paper'")
        return NoisySum(shape, layout.size, capacity=capacity, scale=scale, sensitivity=layout.sensitivity)

    @cached_property
    def error(self) -> Regulariser:  # type: ignore[override]
        """The regulariser that the noise makes."""
        scale = self.sum.scale
        if isinstance(self.sum, SecureSum):
            scale += rounding_of(self.layout.size) * math.ldexp(self.sum.rounded_draws, -self.sum.bits)
        return Regulariser.noisy(self.layout, scale, self.sum.factorisation.spectrum(), self.failure)

    def released(self, kept: SumState, source: Source) -> tuple[SumState, PrivateGrams]:
        """Returns the sums with noise."""
        kept, vector = self.sum.released(kept, source)
        return kept, PrivateGrams.of(self.layout, vector, self.error, self.sum.std_after(kept.reads))


class NoisyFeatures(NoisyServer[PrivateGrams]):
    """Every user adds Gaussian noise to their own vector of products (Remark 6.9).

    Guarantee:
        `promise`: local DP of every report.
    """

    encoder: NoisyFeatureEncoder

    def __init__(self, layout: FeatureLayout, privacy: Local, *, capacity: int, failure: float) -> None:
        super().__init__(privacy, capacity, failure, layout.sensitivity, layout.size)
        self.layout = layout
        scale = layout.sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta)
        exact = None
        if privacy.noise == "secure":
            exact = ExactNoise.proven(layout.sensitivity.l2, layout.size, privacy.budget, rounded=True)
        self.encoder = NoisyFeatureEncoder(layout, _unplanned(layout), scale, exact)

    def _event(self) -> accounting.DpEvent:
        exact = self.encoder.exact
        if exact is None:
            return super()._event()
        return exact.event(self._sensitivity.l2, self.layout.size, rounded=True)

    @property
    def fresh_std(self) -> float:
        """Standard deviation of what one user adds to a coordinate, in the layout's units."""
        return self.encoder.scale

    @cached_property
    def error(self) -> Regulariser:
        """The regulariser that all users' noise makes: by Lévy's inequality twice the tail after the last user."""
        spectrum = np.array([float(self.capacity)]), np.array([2.0])
        exact, scale = self.encoder.exact, self.encoder.scale
        if exact is not None:  # every user's draws and coordinates are rounded
            scale += rounding_of(self.layout.size) * math.sqrt(self.capacity) * exact.unit
        return Regulariser.noisy(self.layout, scale, spectrum, self.failure)

    def _counts(self, kept: Totals) -> PrivateGrams:
        """Returns the sums of the noisy vectors."""
        return PrivateGrams.of(self.layout, kept[1], self.error, self.fresh_std * math.sqrt(kept[0]))

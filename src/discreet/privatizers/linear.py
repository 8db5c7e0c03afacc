"""Sums of feature products under each trust model: what regularises the regressions of the linear agents.

References:
    Zhou (2022), Section 6: the privatizer, Theorems 6.4 and 6.5, Remark 6.9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, check_fraction, check_integer
from discreet.privacy import (
    Central,
    Guarantee,
    Local,
    NonPrivate,
    RawFeatureBatch,
    RawFeatureReport,
    Shuffle,
    accounting,
)
from discreet.privatizers.base import RawServer, Shuffler, check_reports
from discreet.privatizers.central import CentralServer
from discreet.privatizers.features import FeatureLayout, NoisyFeatureEncoder, RawFeatureEncoder
from discreet.privatizers.local import NoisyCollector, NoisyServer
from discreet.sums import ExactSum, PrivateSum, calibrated, factorise, quietest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import LinearSpec
    from discreet.privacy import TrustModel
    from discreet.sums.spectral import Spectrum

__all__ = ["LinearCentral", "LinearLocal", "LinearNonPrivate", "PrivateGrams", "Regulariser", "make_linear"]


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
class PrivateGrams:
    """All that a linear planner may see.

    Attributes:
        reward_gram: Σφφᵀ, (H, d₂, d₂), symmetric; with noise it may be indefinite.
        reward_vector: Σφ·r, (H, d₂).
        value_gram: Σψψᵀ of the value features, (H, d₁, d₁).
        value_vector: Σψ·V, (H, d₁).
        error: What is known of the noise.
    """

    reward_gram: NDArray[np.float64]
    reward_vector: NDArray[np.float64]
    value_gram: NDArray[np.float64]
    value_vector: NDArray[np.float64]
    error: Regulariser

    @classmethod
    def of(cls, layout: FeatureLayout, vector: NDArray[np.float64], error: Regulariser) -> PrivateGrams:
        """Returns the sums in a released vector."""
        reward_gram, reward_vector, value_gram, value_vector = layout.split(vector)
        return cls(reward_gram, reward_vector, value_gram, value_vector, error)


class FeatureCollector(Shuffler[RawFeatureReport, RawFeatureBatch]):
    """Collects raw features, in order: for a trusted server."""

    def __call__(self, reports: Sequence[RawFeatureReport], rng: np.random.Generator | None = None) -> RawFeatureBatch:
        """Returns the reports, one row each."""
        check_reports(reports, RawFeatureReport)
        return RawFeatureBatch(np.stack([r.features for r in reports]), np.stack([r.targets for r in reports]))


class _FeatureServer(RawServer):
    """The server's side where it is trusted with raw features: it clips them again, multiplies and adds."""

    layout: FeatureLayout
    encoder: RawFeatureEncoder

    def _begin(self, layout: FeatureLayout) -> None:
        self.layout = layout
        self.encoder = RawFeatureEncoder(layout, np.zeros((layout.spec.horizon + 1, layout.spec.states)))
        self.shuffler = FeatureCollector()

    def collect(self, batch: RawFeatureBatch) -> None:  # type: ignore[override]
        """Adds a batch to the sums; nothing changes if an error is raised."""
        if not isinstance(batch, RawFeatureBatch):
            raise TypeError(f"expected a RawFeatureBatch, got {type(batch).__name__}")
        spec = self.layout.spec
        shapes = (batch.users, spec.horizon, spec.dimension + spec.reward_dimension), (batch.users, spec.horizon, 2)
        if (np.shape(batch.features), np.shape(batch.targets)) != shapes:
            raise InvalidInput(f"reports must have features of shape {shapes[0][1:]} and targets of {shapes[1][1:]}")
        values = self.layout.vectors(batch.features, batch.targets)
        self.sum.add(np.broadcast_to(np.arange(self.layout.size), values.shape), values)


class LinearNonPrivate(_FeatureServer):
    """Exact sums, regularised by λI with λ = 1.

    Guarantee:
        None.
    """

    sum: ExactSum
    name, noise = "exact", "none"

    def __init__(self, layout: FeatureLayout, *, capacity: int, guarantee: Guarantee) -> None:
        self._begin(layout)
        self.guarantee = guarantee
        self.sum = ExactSum(layout.size, capacity=capacity)
        self.error = Regulariser.ridge(layout.spec.horizon)

    def counts(self) -> PrivateGrams:
        """Returns the exact sums."""
        return PrivateGrams.of(self.layout, self.sum.total, self.error)


class LinearCentral(_FeatureServer, CentralServer):
    """Sums raw features and releases all 4H sums with Gaussian noise, in one account.

    Args:
        layout: Of the sums.
        privacy: What is asked for.
        capacity: Number of users at most.
        horizon: Number of reads at most.
        failure: Probability with which ``error`` may fail.
        rng: Where the noise comes from.

    Guarantee:
        ``guarantee``: joint DP for one user's whole trajectory, replace-one. In the layout's units every sum has
        sensitivity 1, so the whole vector has √(number of sums), whatever V its batch carries: V is a function of
        earlier reads, and the bounds on features and targets are enforced for every report. The sums are one
        Gaussian mechanism.
    """

    def __init__(
        self,
        layout: FeatureLayout,
        privacy: Central,
        *,
        capacity: int,
        horizon: int,
        failure: float,
        rng: np.random.Generator,
    ) -> None:
        self._begin(layout)
        self.privacy = privacy
        self.failure = check_fraction("failure", failure)
        sensitivity = layout.sensitivity
        if privacy.calibration == "paper":
            self.sum = self._printed(capacity, check_integer("horizon", horizon), rng)
            return
        name = privacy.sum
        if name == "auto":
            name, _ = quietest(horizon, sensitivity, privacy.budget, size=layout.size)
        self.sum = calibrated(
            name,
            layout.size,
            capacity=capacity,
            horizon=check_integer("horizon", horizon),
            sensitivity=sensitivity,
            budget=privacy.budget,
            rng=rng,
        )

    def _printed(self, capacity: int, reads: int, rng: np.random.Generator) -> PrivateSum:
        """The paper's noise, with the event that it really has."""
        if self.privacy.sum not in ("tree", "auto"):
            raise InvalidInput(
                f"calibration='paper' is printed for the central Gaussian sum='tree', got sum={self.privacy.sum!r}"
            )
        H, layout, shape = self.layout.spec.horizon, self.layout, factorise("tree", reads, self.privacy.delta)
        m = shape.entries[1]
        # Theorem 6.5: σ = HΔ/ε·√(32m ln(4H/δ)), in units of Δ
        scale = H / self.privacy.epsilon * math.sqrt(32 * m * math.log(4 * H / self.privacy.delta))
        return PrivateSum(shape, layout.size, capacity=capacity, scale=scale, sensitivity=layout.sensitivity, rng=rng)

    @cached_property
    def error(self) -> Regulariser:
        """The regulariser that the noise makes."""
        return Regulariser.noisy(self.layout, self.sum.scale, self.sum.factorisation.spectrum(), self.failure)

    def counts(self) -> PrivateGrams:
        """Ends the batch and returns what is released; zeros before anybody has been collected."""
        vector = self.sum.read() if self.sum.readable else np.zeros(self.layout.size)
        return PrivateGrams.of(self.layout, vector, self.error)


class LinearLocal(NoisyServer):
    """Every user adds Gaussian noise to their own vector of products (Remark 6.9)."""

    layout: FeatureLayout  # type: ignore[assignment]
    encoder: NoisyFeatureEncoder  # type: ignore[assignment]

    def __init__(self, layout: FeatureLayout, privacy: Local, *, capacity: int, failure: float) -> None:
        super().__init__(layout, privacy, capacity, failure, layout.sensitivity)  # type: ignore[arg-type]
        scale = layout.sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta)
        self.encoder = NoisyFeatureEncoder(layout, np.zeros((layout.spec.horizon + 1, layout.spec.states)), scale)
        self.shuffler = NoisyCollector()

    @property
    def fresh_std(self) -> float:
        """Standard deviation of what one user adds to a coordinate, in the layout's units."""
        return self.encoder.scale

    @cached_property
    def error(self) -> Regulariser:
        """The regulariser that all users' noise makes: by Lévy's inequality twice the tail after the last user."""
        spectrum = np.array([float(self.capacity)]), np.array([2.0])
        return Regulariser.noisy(self.layout, self.encoder.scale, spectrum, self.failure)

    def counts(self) -> PrivateGrams:
        """Returns the sums of the noisy vectors."""
        return PrivateGrams.of(self.layout, self._total, self.error)


def make_linear(
    spec: LinearSpec,
    privacy: TrustModel,
    *,
    feature_bound: float,
    capacity: int,
    batches: Sequence[int],
    failure: float,
    rng: np.random.Generator,
) -> LinearNonPrivate | LinearCentral | LinearLocal:
    """Returns the linear privatizer of a trust model.

    Args:
        spec: Sizes and features.
        privacy: The trust model.
        feature_bound: B.
        capacity: Number of users at most.
        batches: How many users each batch has: public.
        failure: Probability with which the regulariser's bounds may fail.
        rng: Where the server's noise comes from.
    """
    if isinstance(privacy, Shuffle):
        raise InvalidInput(
            "linear agents have no shuffle model: it sends bits, and sums of feature products are real numbers; "
            "take Central(…) or Local(…) with delta > 0"
        )
    options: dict[str, Any] = {"capacity": capacity, "failure": failure}
    if isinstance(privacy, NonPrivate):
        layout = FeatureLayout(spec, feature_bound)
        return LinearNonPrivate(layout, capacity=capacity, guarantee=privacy.guarantee)
    if not isinstance(privacy, Central | Local):
        raise InvalidInput(f"privacy must be a trust model such as Central(…), got {type(privacy).__name__}")
    if privacy.delta == 0:
        raise InvalidInput("sums of feature products have Gaussian noise and need delta > 0, got delta=0.0")
    printed = privacy.calibration == "paper"
    layout = FeatureLayout(spec, feature_bound, printed)
    if isinstance(privacy, Central):
        if privacy.release != "auto":
            raise InvalidInput(
                f"release={privacy.release!r} is for agents that count; linear agents have release='auto'"
            )
        return LinearCentral(layout, privacy, horizon=len(batches), rng=rng, **options)
    if privacy.sum not in ("gaussian", "auto"):
        raise InvalidInput(f"linear agents have the local sum='gaussian' only, got sum={privacy.sum!r}")
    if printed:
        raise InvalidInput("calibration='paper' is printed for the central Gaussian sum='tree', got Local")
    return LinearLocal(layout, privacy, **options)

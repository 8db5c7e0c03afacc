"""From trajectories to sums of feature products: where each lives, and what runs at the user. NumPy only.

Per step h a user adds four things: φφᵀ and φ·r_h with the reward features φ(s_h,a_h), and ψψᵀ and
ψ·V_{h+1}(s_{h+1}) with the value features ψ = Σ_{s'} ψ(s_h,a_h,s')·V_{h+1}(s') of the values V that were released
before the user's batch.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput, check_flag, check_number
from discreet.mdp.linear import LinearSpec
from discreet.privacy.messages import NoisyReport, RawFeatureReport
from discreet.privacy.sensitivity import Sensitivity, gram, product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise.fast import Distribution

__all__ = ["FeatureLayout", "NoisyFeatureEncoder", "RawFeatureEncoder", "from_document"]


@dataclass(frozen=True, eq=False)
class FeatureLayout:
    """The coordinates of the 4H sums in one vector: reward Grams, reward vectors, value Grams, value vectors.

    Of a Gram matrix there is the upper triangle, off-diagonals times √2, so that Euclidean distances are
    Frobenius distances. Every sum is measured in a unit of its own, its L2 sensitivity: then noise of one scale
    on all coordinates splits the budget equally between the sums.

    V_{h+1} lies in [0, H − h], so value features of step h have norm at most B·(H − h)/H, and at h = H there are none.

    Attributes:
        spec: Sizes and features.
        feature_bound: B, a bound on the norm of value features for V in [0, H].
        printed: Whether to take the paper's bounds and units instead: V in [0, H] at all H steps, and the unit of a sum
            is the paper's Δ (without the √2 of a replaced matrix and the 2 of a replaced vector).
    """

    spec: LinearSpec
    feature_bound: float
    printed: bool = False

    def __post_init__(self) -> None:
        check_number("feature_bound", self.feature_bound, above=True)
        check_flag("printed", self.printed)

    @cached_property
    def value_bounds(self) -> NDArray[np.float64]:
        """C_h ≥ V_{h+1}, of every step that has value sums."""
        H = self.spec.horizon
        return np.full(H, float(H)) if self.printed else np.arange(H - 1, 0, -1, dtype=np.float64)

    @cached_property
    def feature_bounds(self) -> NDArray[np.float64]:
        """B_h, of every step that has value sums."""
        return self.feature_bound / self.spec.horizon * self.value_bounds

    @cached_property
    def _parts(self) -> list[tuple[NDArray[np.float64], int, bool]]:
        """(units (steps,), dimension, whether it is a matrix) of the four families, in order."""
        d1, d2 = self.spec.dimension, self.spec.reward_dimension
        B, C = self.feature_bounds, self.value_bounds
        one = np.ones(self.spec.horizon)
        if self.printed:
            return [(one, d2, True), (one, d2, False), (B * B, d1, True), (B * C, d1, False)]
        matrix, vector = gram(1.0), product(1.0, 1.0)
        return [
            (matrix * one, d2, True),
            (vector * one, d2, False),
            (matrix * B * B, d1, True),
            (vector * B * C, d1, False),
        ]

    @cached_property
    def sums(self) -> int:
        """How many sums there are: 4H, less the two that are always 0."""
        return sum(len(units) for units, _, _ in self._parts)

    @property
    def sensitivity(self) -> Sensitivity:
        """Of a user's whole vector: every sum's own, composed."""
        ratio = {True: gram(1.0), False: product(1.0, 1.0)}
        squares = sum(len(units) * (ratio[matrix] ** 2 if self.printed else 1.0) for units, _, matrix in self._parts)
        l2 = math.sqrt(squares)
        return Sensitivity(l1=l2 * math.sqrt(self.size), l2=l2)  # L1: Cauchy and Schwarz; only L2 is used

    @cached_property
    def size(self) -> int:
        """Length of the vector."""
        return sum(len(units) * (d * (d + 1) // 2 if matrix else d) for units, d, matrix in self._parts)

    @cached_property
    def _triangles(self) -> dict[int, tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]]:
        """Rows, columns and factors of the upper triangle, by dimension."""
        found = {}
        for d in {self.spec.dimension, self.spec.reward_dimension}:
            i, j = np.triu_indices(d)
            found[d] = (i, j, np.where(i == j, 1.0, math.sqrt(2)))
        return found

    def value_features(
        self, values: NDArray[np.float64], states: NDArray[np.int64], actions: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Returns Σ_{s'} ψ(s_h,a_h,s')·V_{h+1}(s') of people's steps, (users, H, d₁)."""
        spec, d = self.spec, self.spec.dimension
        users, H = actions.shape
        rows = (states[:, :-1] * spec.actions + actions).ravel()
        lengths = spec.offsets[rows + 1] - spec.offsets[rows]
        place = np.repeat(np.arange(users * H), lengths)
        first = np.cumsum(lengths) - lengths
        entry = np.arange(len(place)) - np.repeat(first, lengths) + np.repeat(spec.offsets[rows], lengths)
        added = spec.weights[entry] * values[place % H + 1, spec.successors[entry]]
        flat = np.bincount(place * d + spec.coordinates[entry], weights=added, minlength=users * H * d)
        return flat.astype(np.float64).reshape(users, H, d)

    def clip(
        self, features: NDArray[np.float64], targets: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns both within the bounds that the sensitivities rest on, whatever they were; not a number becomes 0.

        Args:
            features: Reward features and value features of each step, (users, H, d₂ + d₁).
            targets: Rewards and next values, (users, H, 2).
        """
        d2, n = self.spec.reward_dimension, len(self.value_bounds)
        features = np.where(np.isfinite(features), features, 0.0)
        reward, value = features[..., :d2], features[..., d2:]
        bounds = np.zeros((2, self.spec.horizon))
        bounds[:, :n] = self.feature_bounds, self.value_bounds
        targets = np.where(np.isfinite(targets), targets, 0.0)
        targets = np.clip(targets, 0.0, np.stack([np.ones(self.spec.horizon), bounds[1]], axis=-1))
        return np.concatenate([_shorten(reward, np.ones(1)), _shorten(value, bounds[0])], axis=-1), targets

    def vectors(self, features: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns what each user adds to the sums, (users, size), once it is clipped."""
        features, targets = self.clip(features, targets)
        d2, n = self.spec.reward_dimension, len(self.value_bounds)
        whole: list[NDArray[np.float64]] = []
        data = [(features[..., :d2], targets[..., 0])] * 2 + [(features[:, :n, d2:], targets[:, :n, 1])] * 2
        for (units, d, matrix), (phi, target) in zip(self._parts, data, strict=True):
            if matrix:
                i, j, factors = self._triangles[d]
                block = phi[..., i] * phi[..., j] * (factors / units[:, None])
            else:
                block = phi * target[..., None] / units[:, None]
            whole.append(block.reshape(len(features), -1))
        return np.concatenate(whole, axis=1)

    def split(self, vector: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Returns reward Grams (H, d₂, d₂), reward vectors (H, d₂), value Grams (H, d₁, d₁), value vectors (H, d₁)."""
        found, start, H = [], 0, self.spec.horizon
        for units, d, matrix in self._parts:
            width = d * (d + 1) // 2 if matrix else d
            block = vector[start : start + len(units) * width].reshape(len(units), width)
            start += block.size
            if matrix:
                i, j, factors = self._triangles[d]
                part = np.zeros((H, d, d))
                part[: len(units), i, j] = block * (units[:, None] / factors)
                part[: len(units), j, i] = part[: len(units), i, j]
            else:
                part = np.zeros((H, d))
                part[: len(units)] = block * units[:, None]
            found.append(part)
        return tuple(found)

    def unit(self, family: int) -> NDArray[np.float64]:
        """Returns the units of one of the four families, (steps,)."""
        return self._parts[family][0]

    def to_document(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        spec = self.spec
        names = ("reward_features", "offsets", "successors", "coordinates", "weights", "initial")
        sizes = {name: getattr(spec, name) for name in ("states", "actions", "horizon", "dimension")}
        arrays = {name: getattr(spec, name).tolist() for name in names}
        return {"spec": {**sizes, **arrays}, "feature_bound": self.feature_bound, "printed": self.printed}


def _shorten(vectors: NDArray[np.float64], bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the vectors (users, H, d), scaled down where they are longer than the bounds of their steps."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    unit = vectors / np.where(largest > 0, largest, 1.0)  # squares of these neither overflow nor vanish
    norms = largest[..., 0] * np.sqrt(
        np.cumsum(unit * unit, axis=-1)[..., -1]
    )  # one after the other: for any batch alike
    factors = np.minimum(bounds / np.where(norms > 0, norms, 1.0), 1.0)
    return vectors * factors[..., None]


@dataclass(frozen=True, eq=False)
class _FeatureEncoder:
    """An encoder of feature products; it carries the values that were released before its batch.

    Attributes:
        layout: Of the sums.
        values: V_h(s), (H+1, S).
    """

    layout: FeatureLayout
    values: NDArray[np.float64]

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        shape = (self.layout.spec.horizon + 1, self.layout.spec.states)
        if np.shape(self.values) != shape or not np.isfinite(self.values).all():
            raise InvalidInput(f"values must be {shape[0]}×{shape[1]} finite numbers")

    def statistics(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns clipped features (users, H, d₂ + d₁) and targets (users, H, 2) of people's episodes: raw data."""
        steps = np.arange(1, self.layout.spec.horizon + 1)
        phi = self.layout.spec.reward_features[states[:, :-1], actions]
        features = np.concatenate([phi, self.layout.value_features(self.values, states, actions)], axis=-1)
        return self.layout.clip(features, np.stack([rewards, self.values[steps, states[:, 1:]]], axis=-1))

    def _own(self, trajectory: Trajectory) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        trajectory.check(self.layout.spec)
        return self.statistics(trajectory.states[None], trajectory.actions[None], trajectory.rewards[None])

    def _parameters(self) -> dict[str, Any]:
        return {}

    def to_json(self) -> str:
        """Returns the public parameters, from which `encoders.from_json` makes the same encoder."""
        document = {"kind": self.kind, "layout": self.layout.to_document(), "values": self.values.tolist()}
        return json.dumps({**document, "parameters": self._parameters()})


@dataclass(frozen=True, eq=False)
class RawFeatureEncoder(_FeatureEncoder):
    """Sends the user's features and targets to a server that is trusted with them.

    Guarantee:
        None by itself: the report is raw.
    """

    kind = "raw-features"

    def encode(self, trajectory: Trajectory, rng: np.random.Generator | None = None) -> RawFeatureReport:
        """Returns features and targets, clipped: nobody is refused for a long feature."""
        features, targets = self._own(trajectory)
        return RawFeatureReport(features[0], targets[0])


@dataclass(frozen=True, eq=False)
class NoisyFeatureEncoder(_FeatureEncoder):
    """Adds Gaussian noise to every coordinate of the user's vector of products.

    Attributes:
        layout: Of the vector.
        values: V_h(s), (H+1, S).
        scale: The Gaussian's σ, in the units of the layout.

    Guarantee:
        Local DP: exactly μ-GDP with μ = Δ₂/σ for the layout's sensitivity, whatever the values are.

    References:
        Zhou (2022), Remark 6.9.
    """

    scale: float

    kind = "noisy-features"
    distribution: ClassVar[Distribution] = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("scale", self.scale, above=True)

    def _parameters(self) -> dict[str, Any]:
        return {"scale": self.scale}

    def vector(self, trajectory: Trajectory) -> NDArray[np.float64]:
        """Returns the user's vector without noise, (size,): it must not leave the device."""
        whole: NDArray[np.float64] = self.layout.vectors(*self._own(trajectory))[0]
        return whole

    def perturb(self, vectors: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Returns ``vectors`` with independent noise on every entry."""
        noisy: NDArray[np.float64] = vectors + rng.normal(scale=self.scale, size=vectors.shape)
        return noisy

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> NoisyReport:
        """Returns the noisy vector."""
        return NoisyReport(self.perturb(self.vector(trajectory), rng))


def from_document(document: dict[str, Any]) -> RawFeatureEncoder | NoisyFeatureEncoder:
    """Returns the encoder that ``to_json`` wrote."""
    layout = document["layout"]
    parts: dict[str, Any] = {
        key: np.array(value) if isinstance(value, list) else value for key, value in layout["spec"].items()
    }
    where = FeatureLayout(LinearSpec(**parts), layout["feature_bound"], layout["printed"])
    values = np.array(document["values"], dtype=np.float64)
    if document["kind"] == RawFeatureEncoder.kind:
        return RawFeatureEncoder(where, values)
    return NoisyFeatureEncoder(where, values, document["parameters"]["scale"])

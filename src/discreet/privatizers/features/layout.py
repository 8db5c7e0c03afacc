"""Sums of feature products: where each lives in the one vector that users sum up, and how much a user can change it.

Per step h a user adds four things: φφᵀ and φ·r_h with the reward features φ(s_h,a_h), and ψψᵀ and
ψ·V_{h+1}(s_{h+1}) with the value features ψ = Σ_{s'} ψ(s_h,a_h,s')·V_{h+1}(s') of the values V that were released
before the user's batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, check_flag, check_number
from discreet.privacy.sensitivity import PAIR, Sensitivity, gram, product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import LinearSpec
    from discreet.privatizers.features.serve import PrivateGrams

__all__ = ["FeatureLayout"]


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
        bound = check_number("feature_bound", self.feature_bound, above=True)
        if not 1e-100 <= bound <= 1e100:  # its square is a unit: it must not vanish or overflow
            raise InvalidInput(f"feature_bound must lie in [1e-100, 1e100], got feature_bound={bound!r}")
        object.__setattr__(self, "feature_bound", bound)
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
        """Of a user's whole vector: every sum's own, composed; a matrix and its vector cannot both be at their worst.

        In their own units the squares of a pair add up to at most 25/16, not 2 (`discreet.privacy.sensitivity`).
        """
        ratio = {True: gram(1.0), False: product(1.0, 1.0)}
        if self.printed:
            squares = sum(len(units) * ratio[matrix] ** 2 for units, _, matrix in self._parts)
        else:
            squares = PAIR / 2 * self.sums * (1 + 1e-9)  # the products of floats may be longer by their last bits
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
        for family, ((units, d, matrix), (phi, target)) in enumerate(zip(self._parts, data, strict=True)):
            if matrix:
                i, j, _ = self._triangles[d]
                block = phi[..., i] * phi[..., j] * self.triangle(family)
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

    def joined(self, grams: PrivateGrams) -> NDArray[np.float64]:
        """Returns the vector that `split` makes these sums of, (size,), but for rounding."""
        sums = (grams.reward_gram, grams.reward_vector, grams.value_gram, grams.value_vector)
        whole = []
        for (units, d, matrix), part in zip(self._parts, sums, strict=True):
            block = part[: len(units)] / units.reshape(-1, *[1] * (part.ndim - 1))
            if matrix:
                i, j, factors = self._triangles[d]
                block = block[:, i, j] * factors
            whole.append(block.ravel())
        return np.concatenate(whole)

    def unit(self, family: int) -> NDArray[np.float64]:
        """Returns the units of one of the four families, (steps,)."""
        return self._parts[family][0]

    def triangle(self, family: int) -> NDArray[np.float64]:
        """Returns by what the products of a family of matrices are multiplied, (steps, d·(d+1)/2)."""
        units, d, _ = self._parts[family]
        return self._triangles[d][2] / units[:, None]

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

"""Linear mixture MDPs: known features, unknown weights; sparse, so that nothing is as large as S·A·S.

P_h(s'|s,a) = ⟨ψ(s,a,s'), θ_{h,p}⟩ with ψ in R^{d₁}, r_h(s,a) = ⟨φ(s,a), θ_{h,r}⟩ with φ in R^{d₂} (Assumption 1 of Zhou
2022). ψ is stored as its nonzero entries, row (s,a) by row: successor s', coordinate i, weight ψ_i(s,a,s').
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_integer
from discreet.mdp.finite import FiniteMDP, SampleTables
from discreet.mdp.policy import cumulate, cumulate_rows
from discreet.mdp.spec import Spec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["LinearMDP", "LinearSpec"]

#: The largest dimension of the one-hot features of a table: a Gram matrix has its square.
LARGEST_TABLE = 2_000
_DENSE = 2**27  # numbers in an array of transitions that is made on demand


@dataclass(frozen=True, eq=False)
class LinearSpec(Spec):
    """The public facts of a linear mixture MDP: sizes, initial distribution and features; never θ.

    Attributes:
        reward_features: φ(s,a), (S, A, d₂), of norm at most 1.
        offsets: Where the entries of row (s,a) begin, (S·A + 1,).
        successors: s' of each entry, (n,).
        coordinates: i of each entry, (n,).
        weights: ψ_i(s,a,s') of each entry, (n,).
        dimension: d₁.
    """

    reward_features: NDArray[np.float64] = None  # type: ignore[assignment]
    offsets: NDArray[np.int64] = None  # type: ignore[assignment]
    successors: NDArray[np.int64] = None  # type: ignore[assignment]
    coordinates: NDArray[np.int64] = None  # type: ignore[assignment]
    weights: NDArray[np.float64] = None  # type: ignore[assignment]
    dimension: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dimension", check_integer("dimension", self.dimension))
        phi = _numbers("reward_features", self.reward_features)
        S, A = self.states, self.actions
        if phi.ndim != 3 or phi.shape[:2] != (S, A) or phi.shape[2] < 1:
            raise InvalidInput(f"reward_features must have shape ({S}, {A}, d), got {phi.shape}")
        norms = np.sqrt((phi**2).sum(axis=2))
        for s, a in np.argwhere(~(norms <= 1 + 1e-9))[:1]:  # NaN too
            raise InvalidInput(f"reward_features[s={s}, a={a}] must have norm at most 1, got {norms[s, a]:.6g}")
        weights = _numbers("weights", self.weights)
        whole = {name: _indices(name, getattr(self, name)) for name in ("offsets", "successors", "coordinates")}
        offsets, n = whole["offsets"], len(weights)
        if offsets.shape != (S * A + 1,) or offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 0).any():
            raise InvalidInput(f"offsets must rise from 0 to the number of entries {n} in {S * A} rows")
        for name, most in (("successors", S), ("coordinates", self.dimension)):
            array = whole[name]
            if array.shape != (n,) or (n and (array.min() < 0 or array.max() >= most)):
                raise InvalidInput(f"{name} must be {n} numbers in [0, {most})")
        if weights.ndim != 1 or not np.isfinite(weights).all():
            raise InvalidInput("weights must be finite numbers, one an entry")
        arrays: dict[str, NDArray[Any]] = {"reward_features": phi, "weights": weights, **whole}
        for name, checked in arrays.items():
            checked.flags.writeable = False
            object.__setattr__(self, name, checked)

    @classmethod
    def dense(
        cls, psi: ArrayLike, reward_features: ArrayLike, *, horizon: int, initial: ArrayLike | None = None
    ) -> LinearSpec:
        """Returns the spec of an array ψ(s,a,s'), (S, A, S, d₁), and φ(s,a), (S, A, d₂)."""
        array = _numbers("psi", psi)
        if array.ndim != 4 or array.shape[0] != array.shape[2]:
            raise InvalidInput(f"psi must have shape (S, A, S, d), got {array.shape}")
        S, A, _, d = array.shape
        s, a, successors, coordinates = np.nonzero(array)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(s * A + a, minlength=S * A))])
        weights = array[s, a, successors, coordinates]
        first = None if initial is None else np.asarray(initial, dtype=np.float64)
        phi = np.asarray(reward_features, dtype=np.float64)
        return cls(S, A, horizon, first, phi, offsets, successors, coordinates, weights, d)  # type: ignore[arg-type]

    @classmethod
    def table(cls, spec: Spec) -> LinearSpec:
        """Returns the features of any table: ψ(s,a,s') and φ(s,a) are the unit vectors of R^{S²A} and R^{SA}."""
        S, A = spec.states, spec.actions
        d = S * A * S
        if d > LARGEST_TABLE:
            raise InvalidInput(
                f"a table of {S} states and {A} actions has S²A = {d} features, and sums of their {d}×{d} products; "
                f"at most {LARGEST_TABLE} features can be used: take a tabular agent such as dp-ucbvi"
            )
        entries = np.arange(d)
        phi = np.eye(S * A).reshape(S, A, S * A)
        return cls(S, A, spec.horizon, spec.initial, phi, np.arange(0, d + 1, S), entries % S, entries, np.ones(d), d)

    @property
    def reward_dimension(self) -> int:
        """d₂."""
        return int(self.reward_features.shape[2])

    @cached_property
    def feature_norm(self) -> float:
        """A bound on ‖Σ_{s'} ψ(s,a,s')·V(s')‖ for all (s,a) and all V in [0, 1]^S; exact if no weight is negative."""
        rows = np.repeat(np.arange(self.states * self.actions), np.diff(self.offsets))
        cell, size = rows * self.dimension + self.coordinates, self.states * self.actions * self.dimension
        parts = [np.bincount(cell, weights=np.maximum(sign * self.weights, 0), minlength=size) for sign in (1, -1)]
        largest = np.maximum(*parts).reshape(-1, self.dimension)
        return float(np.sqrt((largest**2).sum(axis=1)).max())

    @cached_property
    def _digest(self) -> bytes:
        digest = hashlib.sha256()
        for name in ("reward_features", "offsets", "successors", "coordinates", "weights"):
            digest.update(getattr(self, name).tobytes())
        return digest.digest()

    def _key(self) -> tuple[Any, ...]:
        return *super()._key(), self.dimension, self.reward_dimension, self._digest

    def __repr__(self) -> str:
        sizes = f"states={self.states}, actions={self.actions}, horizon={self.horizon}"
        return f"LinearSpec({sizes}, dimension={self.dimension}, reward_dimension={self.reward_dimension})"


class LinearMDP(FiniteMDP):
    """A validated linear mixture MDP with exact values and compiled sampling, and no array of S·A·S numbers.

    Args:
        spec: Sizes and features, which agents may know.
        theta_p: θ_{h,p}, (H, d₁), or (d₁,) for all steps alike; of norm at most √d₁.
        theta_r: θ_{h,r}, (H, d₂) or (d₂,); of norm at most √d₂.
        reward_noise: ``"deterministic"`` pays the reward itself, ``"bernoulli"`` a bit with that mean.
        name: A label for people.

    Raises:
        ValueError: Naming the offending (h, s, a), if a mixture is no distribution within 1e-8, a reward lies outside
            [0, 1], or a norm is too large.

    References:
        Zhou (2022), Assumption 1.
    """

    def __init__(
        self,
        spec: LinearSpec,
        theta_p: ArrayLike,
        theta_r: ArrayLike,
        *,
        reward_noise: str = "deterministic",
        name: str = "",
    ) -> None:
        if not isinstance(spec, LinearSpec):
            raise InvalidInput(f"spec must be a LinearSpec, got {type(spec).__name__}")
        if reward_noise not in ("deterministic", "bernoulli"):
            raise UnknownName("reward_noise", reward_noise, ["deterministic", "bernoulli"])
        self.spec: LinearSpec = spec
        self.name, self.reward_noise = name, reward_noise
        self.theta_p = _theta("theta_p", theta_p, spec.horizon, spec.dimension)
        self.theta_r = _theta("theta_r", theta_r, spec.horizon, spec.reward_dimension)
        steps = max(len(self.theta_p), len(self.theta_r))
        rewards = np.einsum("sad,hd->hsa", spec.reward_features, self.theta_r)
        for h, s, a in np.argwhere(~(abs(rewards - 0.5) <= 0.5 + 1e-9))[:1]:
            raise InvalidInput(f"reward[h={h}, s={s}, a={a}] must lie in [0, 1], got {rewards[h, s, a]:.6g}")
        self._r = np.array(np.broadcast_to(np.clip(rewards, 0, 1), (steps, *rewards.shape[1:])), order="C")
        self._rows = self._mix(steps)

    def _mix(self, steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Returns the rows (h, s, a) of the mixtures."""
        spec, n = self.spec, self.spec.states * self.spec.actions
        row = np.repeat(np.arange(n), np.diff(spec.offsets))
        cells, entry = np.unique(row * spec.states + spec.successors, return_inverse=True)
        row, successor = np.divmod(cells, spec.states)
        ends: list[NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
        successors: list[NDArray[np.int64]] = []
        probabilities: list[NDArray[np.float64]] = []
        for h in range(steps):
            theta = self.theta_p[h if len(self.theta_p) > 1 else 0]
            p = np.bincount(entry, weights=spec.weights * theta[spec.coordinates], minlength=len(cells))
            totals = np.bincount(row, weights=p, minlength=n)
            for i in np.flatnonzero(p < -1e-9)[:1]:
                s, a = divmod(int(row[i]), spec.actions)
                where = f"P[h={h}, s={s}, a={a}, next={successor[i]}]"
                raise InvalidInput(f"{where} must be a probability, got {p[i]:.6g}: this is no mixture")
            for i in np.flatnonzero(~(abs(totals - 1) <= 1e-8))[:1]:
                s, a = divmod(int(i), spec.actions)
                raise InvalidInput(f"P[h={h}, s={s}, a={a}] must sum to 1 within 1e-8, got {totals[i]:.10g}")
            kept = p > 0
            successors.append(successor[kept])
            probabilities.append(p[kept].astype(np.float64))
            ends.append(ends[-1][-1] + np.cumsum(np.bincount(row[kept], minlength=n)))
        return np.concatenate(ends), np.concatenate(successors), np.concatenate(probabilities)

    @property
    def _sparse(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        return self._rows

    @cached_property
    def sample_tables(self) -> SampleTables:
        """What the compiled sampler reads."""
        offsets, successors, probabilities = self._rows
        return SampleTables(
            offsets,
            successors,
            cumulate_rows(probabilities, offsets),
            np.repeat(self._r.ravel(), np.diff(offsets)),
            cumulate(self.initial),
            int(len(self._r) > 1),
            self.reward_noise == "bernoulli",
        )

    @property
    def transitions(self) -> NDArray[np.float64]:
        """P_h(s'|s,a), (H, S, A, S), read-only: made on demand, for small MDPs."""
        S, A, steps = self.states, self.actions, len(self._r)
        if steps * S * A * S > _DENSE:
            raise InvalidInput(f"{steps}×{S}×{A}×{S} transitions are too many for an array; values need none")
        offsets, successors, probabilities = self._rows
        dense = np.zeros((steps * S * A, S))
        dense[np.repeat(np.arange(len(dense)), np.diff(offsets)), successors] = probabilities
        return np.broadcast_to(dense.reshape(steps, S, A, S), (self.horizon, S, A, S))


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be an array of numbers") from None


def _indices(name: str, values: Any) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} must be integers")
    return np.array(array, dtype=np.int64, order="C")


def _theta(name: str, values: ArrayLike, horizon: int, dimension: int) -> NDArray[np.float64]:
    """Returns θ with a step axis, read-only, once its norm is checked (Assumption 1)."""
    theta = np.atleast_2d(_numbers(name, values))
    if theta.shape not in ((1, dimension), (horizon, dimension)):
        raise InvalidInput(f"{name} must have shape ({dimension},) or ({horizon}, {dimension}), got {theta.shape}")
    norms = np.sqrt((theta**2).sum(axis=1))
    for h in np.flatnonzero(~(norms <= math.sqrt(dimension) * (1 + 1e-9)))[:1]:
        raise InvalidInput(f"{name}[h={h}] must have norm at most √{dimension}, got {norms[h]:.6g}")
    theta.flags.writeable = False
    return theta

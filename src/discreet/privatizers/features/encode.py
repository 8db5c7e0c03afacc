"""Feature products, at the user: raw, or with Gaussian noise. NumPy only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput, check_number
from discreet.mdp.linear import LinearSpec
from discreet.noise import as_source
from discreet.privacy.messages import NoisyReport, RawFeatureReport
from discreet.privatizers.exact import ExactNoise
from discreet.privatizers.features.layout import FeatureLayout
from discreet.privatizers.hiding import gaussian_hides

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Distribution, Source

__all__ = ["NoisyFeatureEncoder", "RawFeatureEncoder"]


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

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report by itself is (ε, δ)-private."""
        return False

    @staticmethod
    def _read(document: dict[str, Any]) -> tuple[FeatureLayout, NDArray[np.float64]]:
        """Returns layout and values that `to_json` wrote."""
        layout = document["layout"]
        parts: dict[str, Any] = {
            key: np.array(value) if isinstance(value, list) else value for key, value in layout["spec"].items()
        }
        where = FeatureLayout(LinearSpec(**parts), layout["feature_bound"], layout["printed"])
        return where, np.array(document["values"], dtype=np.float64)

    def to_json(self) -> str:
        """Returns the public parameters, from which `discreet.privatizers.codec.from_json` makes the same encoder."""
        document = {"kind": self.kind, "layout": self.layout.to_document(), "values": self.values.tolist()}
        return json.dumps({**document, "parameters": self._parameters()})


@dataclass(frozen=True, eq=False)
class RawFeatureEncoder(_FeatureEncoder):
    """Sends the user's features and targets to a server that is trusted with them.

    Guarantee:
        None by itself: the report is raw.
    """

    kind = "raw-features"

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> RawFeatureEncoder:
        """Returns the encoder that `to_json` wrote."""
        return cls(*cls._read(document))

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> RawFeatureReport:
        """Returns features and targets, clipped: nobody is refused for a long feature."""
        features, targets = self._own(trajectory)
        return RawFeatureReport(features[0], targets[0])

    def absent(self, rng: Source | np.random.Generator | None = None) -> RawFeatureReport:
        """Returns zeros."""
        spec = self.layout.spec
        width = spec.reward_dimension + spec.dimension
        return RawFeatureReport(np.zeros((spec.horizon, width)), np.zeros((spec.horizon, 2)))


@dataclass(frozen=True, eq=False)
class NoisyFeatureEncoder(_FeatureEncoder):
    """Adds Gaussian noise to every coordinate of the user's vector of products.

    Attributes:
        layout: Of the vector.
        values: V_h(s), (H+1, S).
        scale: The Gaussian's σ, in the units of the layout.
        exact: Discrete noise instead: the vector is rounded to the nearest point of its grid.

    Guarantee:
        Local DP: exactly μ-GDP with μ = Δ₂/σ for the layout's sensitivity, whatever the values are.

    References:
        Zhou (2022), Remark 6.9.
    """

    scale: float
    exact: ExactNoise | None = None

    kind = "noisy-features"
    distribution: ClassVar[Distribution] = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        scale = self.scale if self.exact is None else self.exact.scale
        object.__setattr__(self, "scale", check_number("scale", scale, above=True))

    def _parameters(self) -> dict[str, Any]:
        return {"scale": self.scale, **({} if self.exact is None else self.exact.document())}

    def vector(self, trajectory: Trajectory) -> NDArray[np.float64]:
        """Returns the user's vector without noise, (size,): it must not leave the device."""
        whole: NDArray[np.float64] = self.layout.vectors(*self._own(trajectory))[0]
        return whole

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> NoisyFeatureEncoder:
        """Returns the encoder that `to_json` wrote."""
        parameters = document["parameters"]
        return cls(*cls._read(document), parameters["scale"], ExactNoise.read("gaussian", parameters))

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report is (ε, δ)-private."""
        shift = self.layout.sensitivity.l2
        if self.exact is not None:
            return self.exact.hides(shift, self.layout.size, epsilon, delta, rounded=True)
        return gaussian_hides(shift / self.scale, epsilon, delta)

    def perturb(self, vectors: NDArray[np.float64], rng: Source | np.random.Generator | None) -> NDArray[np.float64]:
        """Returns ``vectors`` with independent noise on every entry."""
        if self.exact is not None:
            return self.exact.perturb(vectors, rng)
        return vectors + as_source(rng).noise("gaussian", self.scale, vectors.shape)

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> NoisyReport:
        """Returns the noisy vector."""
        return NoisyReport(self.perturb(self.vector(trajectory), rng))

    def absent(self, rng: Source | np.random.Generator | None = None) -> NoisyReport:
        """Returns noise alone."""
        return NoisyReport(self.perturb(np.zeros(self.layout.size), rng))

"""Counts, at the user: visits, transitions and rewards, raw or with noise. NumPy only.

An encoder is its public parameters and nothing else; it travels as JSON (`to_json`, `discreet.privatizers.codec`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_flag, check_integer, check_number
from discreet.mdp.spec import Spec
from discreet.noise import as_source
from discreet.privacy.messages import BitsReport, NoisyReport, RawReport
from discreet.privacy.sensitivity import tabular
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.device import threshold
from discreet.privatizers.exact import ExactNoise
from discreet.privatizers.hiding import gaussian_hides

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Distribution, Source

__all__ = ["BinomialEncoder", "LayoutEncoder", "NoisyEncoder", "RawEncoder", "layout_of", "sizes"]


def sizes(spec: Spec) -> dict[str, Any]:
    """Returns the public sizes of an environment, as JSON can hold them."""
    found = {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon}
    return {**found, "initial": spec.initial.tolist()}


def spec_of(layout: dict[str, Any]) -> Spec:
    """Returns the spec that `sizes` wrote."""
    return Spec(layout["states"], layout["actions"], layout["horizon"], np.array(layout["initial"]))


def layout_of(layout: dict[str, Any]) -> Layout:
    """Returns the layout that an encoder wrote; encoders of older versions count everything."""
    for flag in ("stationary", "visits"):
        check_flag(flag, layout[flag])
    spec, layer = spec_of(layout), layout.get("layer")
    if layer is not None and check_integer("layer", layer, least=0) >= spec.horizon:
        raise InvalidInput(f"layer must lie in [0, {spec.horizon}), got layer={layer!r}")
    rewards = check_flag("rewards", layout.get("rewards", True))
    return Layout(spec, layout["stationary"], layout["visits"], rewards, layer)


@dataclass(frozen=True)
class LayoutEncoder:
    """An encoder of the tabular statistics."""

    layout: Layout

    kind: ClassVar[str]

    def _parameters(self) -> dict[str, Any]:
        return {}

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report by itself is (ε, δ)-private."""
        return False

    def to_json(self) -> str:
        """Returns the public parameters, from which `discreet.privatizers.codec.from_json` makes the same encoder."""
        layout = {**sizes(self.layout.spec), "stationary": self.layout.stationary}
        layout |= {"visits": self.layout.visits, "rewards": self.layout.rewards, "layer": self.layout.layer}
        return json.dumps({"kind": self.kind, "layout": layout, "parameters": self._parameters()})

    def contribution(self, trajectory: Trajectory) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """1 for each n_h(s,a) and m_h(s,a,s') visited and the reward for r_h(s,a), of every step that is counted."""
        trajectory.check(self.layout.spec)
        indices, values = self.contributions(
            trajectory.states[None], trajectory.actions[None], np.asarray(trajectory.rewards, dtype=np.float64)[None]
        )
        return indices[0], values[0]

    def contributions(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the coordinates and values of many users, a row each: n, then m, then r, as far as they are there.

        Args:
            states: (users, H+1); of a simulator, or of one user at that user's side.
            actions: (users, H).
            rewards: (users, H).
        """
        layout, spec = self.layout, self.layout.spec
        steps = slice(None) if layout.layer is None else slice(layout.layer, layout.layer + 1)
        h = np.zeros(1, dtype=np.int64) if layout.steps == 1 else np.arange(spec.horizon)
        cell = (h * spec.states + states[:, :-1][:, steps]) * spec.actions + actions[:, steps]
        m, r = layout.starts
        ones = np.ones(cell.shape)
        parts = [(cell, ones)] if layout.visits else []
        parts.append((m + cell * spec.states + states[:, 1:][:, steps], ones))
        if layout.rewards:
            parts.append((r + cell, rewards[:, steps]))
        return np.concatenate([i for i, _ in parts], axis=1), np.concatenate([v for _, v in parts], axis=1)


@dataclass(frozen=True)
class RawEncoder(LayoutEncoder):
    """Sends the user's exact contribution to a server that is trusted with it.

    Attributes:
        layout: Of the counters.
        fine: If set, rewards are rounded down to multiples of 2^-fine: for sums of integers.

    Guarantee:
        None by itself: the report is raw.
    """

    fine: int | None = None

    kind = "raw"

    def __post_init__(self) -> None:
        if self.fine is not None:
            check_integer("fine", self.fine, least=0, most=52)

    def _parameters(self) -> dict[str, Any]:
        return {} if self.fine is None else {"fine": self.fine}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> RawEncoder:
        """Returns the encoder that `to_json` wrote."""
        return cls(layout_of(document["layout"]), document["parameters"].get("fine"))

    def contributions(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the coordinates and values of many users, a row each; see `LayoutEncoder.contributions`."""
        if self.fine is not None:
            rewards = np.ldexp(np.floor(np.ldexp(rewards, self.fine)), -self.fine)
        return super().contributions(states, actions, rewards)

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> RawReport:
        """Returns the contribution: coordinates and values."""
        return RawReport(*self.contribution(trajectory))

    def absent(self, rng: Source | np.random.Generator | None = None) -> RawReport:
        """Returns zeros, at coordinates that somebody could have."""
        spec = self.layout.spec
        nowhere = np.zeros((1, spec.horizon + 1), dtype=np.int64)
        indices, values = self.contributions(nowhere, nowhere[:, 1:], np.zeros((1, spec.horizon)))
        return RawReport(indices[0], np.zeros_like(values[0]))


@dataclass(frozen=True)
class NoisyEncoder(LayoutEncoder):
    """Adds noise to every coordinate of the user's vector.

    Attributes:
        layout: Of the vector.
        distribution: ``"laplace"`` or ``"gaussian"``.
        scale: Laplace's b or the Gaussian's σ.
        exact: Discrete noise instead, for a vector on a grid: rewards are rounded down to it.

    Guarantee:
        Local DP: ε = Δ₁/b, or exactly μ-GDP with μ = Δ₂/σ, for the sensitivities of `discreet.privacy.sensitivity`.

    References:
        Qiao and Wang (2023), Section 5.2.
    """

    distribution: Distribution
    scale: float
    exact: ExactNoise | None = None

    kind = "noisy"

    def __post_init__(self) -> None:
        if self.distribution not in ("laplace", "gaussian"):
            raise UnknownName("distribution", self.distribution, ("laplace", "gaussian"))
        scale = self.scale if self.exact is None else self.exact.scale
        object.__setattr__(self, "scale", check_number("scale", scale, above=True))

    def _parameters(self) -> dict[str, Any]:
        return {
            "distribution": self.distribution,
            "scale": self.scale,
            **({} if self.exact is None else self.exact.document()),
        }

    def vector(self, trajectory: Trajectory) -> NDArray[np.float64]:
        """Returns the user's vector without noise, (size,): it must not leave the device."""
        vector = np.zeros(self.layout.size)
        indices, values = self.contribution(trajectory)
        np.add.at(vector, indices, values if self.exact is None else self.exact.floor(values))
        return vector

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> NoisyEncoder:
        """Returns the encoder that `to_json` wrote."""
        parameters = document["parameters"]
        distribution = parameters["distribution"]
        exact = ExactNoise.read(distribution, parameters)
        return cls(layout_of(document["layout"]), distribution, parameters["scale"], exact)

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report is (ε, δ)-private."""
        layout = self.layout
        sensitivity = tabular(layout.counted, layout.families, stationary=layout.stationary)
        if self.exact is not None:
            shift = sensitivity.l1 if self.distribution == "laplace" else sensitivity.l2
            return self.exact.hides(shift, layout.touched, epsilon, delta)
        if self.distribution == "laplace":
            return sensitivity.l1 / self.scale <= epsilon
        return gaussian_hides(sensitivity.l2 / self.scale, epsilon, delta)

    def perturb(self, vectors: NDArray[np.float64], rng: Source | np.random.Generator | None) -> NDArray[np.float64]:
        """Returns ``vectors`` with independent noise on every entry."""
        if self.exact is not None:
            return self.exact.perturb(vectors, rng)
        return vectors + as_source(rng).noise(self.distribution, self.scale, vectors.shape)

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> NoisyReport:
        """Returns the noisy vector."""
        return NoisyReport(self.perturb(self.vector(trajectory), rng))

    def absent(self, rng: Source | np.random.Generator | None = None) -> NoisyReport:
        """Returns noise alone."""
        return NoisyReport(self.perturb(np.zeros(self.layout.size), rng))


@dataclass(frozen=True)
class BinomialEncoder(LayoutEncoder):
    """Sends one-bit messages: for every counter the same number of data bits, touched or not, and noise bits.

    A counter has 1 data bit, or H if it is pooled over the steps, as many of them 1 as the user's count is; a real
    reward becomes a bit at random, with the reward as its mean. Every data bit and every noise bit is a message of its
    own.

    Attributes:
        layout: Of the counters.
        noise_bits: Noise bits a counter, m.
        probability: With which each is 1, p.

    Guarantee:
        None by itself: a report must reach the server only through a shuffler that takes it apart.

    References:
        Bai et al. (2025), Appendix, Algorithm 4, with every bit a message of its own.
    """

    noise_bits: int
    probability: float

    kind = "binomial"

    def __post_init__(self) -> None:
        check_integer("noise_bits", self.noise_bits)
        if not 0 < self.probability <= 0.5:
            raise InvalidInput(f"probability must lie in (0, 1/2], got probability={self.probability!r}")

    def _parameters(self) -> dict[str, Any]:
        return {"noise_bits": self.noise_bits, "probability": self.probability}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> BinomialEncoder:
        """Returns the encoder that `to_json` wrote."""
        parameters = document["parameters"]
        return cls(layout_of(document["layout"]), parameters["noise_bits"], parameters["probability"])

    def for_device(self) -> dict[str, Any]:
        """Returns what a device without Python needs; draws are those of `encode` and of `absent`."""
        noise, data = self.size * self.noise_bits, self.layout.families * self.layout.counted
        return {"noise_bits": self.noise_bits, "p": threshold(self.probability), "draws": [data + noise, noise]}

    def shuffled_epsilon(self, users: int, delta: float) -> float:
        """Returns the ε of a shuffled batch in which ``users`` users add their noise; needs more than NumPy."""
        from discreet.privacy import accounting, binomial

        event = binomial.BinomialEvent(users * self.noise_bits, self.probability, self.layout.shift, self.layout.pairs)
        return accounting.epsilon(event, delta)

    @property
    def size(self) -> int:
        """Number of counters."""
        return self.layout.size

    @property
    def data_bits(self) -> int:
        """Data bits a counter."""
        return self.layout.shift

    @property
    def messages(self) -> int:
        """Messages a counter and user."""
        return self.data_bits + self.noise_bits

    @property
    def expected(self) -> float:
        """Noise bits of a user and counter that are 1, on average."""
        return self.noise_bits * self.probability

    def touched(self, trajectory: Trajectory, source: Source) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns counters, and how many of the user's data bits for each are 1: raw data."""
        indices, values = self.contribution(trajectory)
        # 1 stays 1, a real reward is rounded at random
        return indices, (source.random(len(values)) < values).astype(np.int64)

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> BitsReport:
        """Returns all messages, (counters, messages)."""
        source = as_source(rng)
        return self._messages(*self.touched(trajectory, source), source)

    def absent(self, rng: Source | np.random.Generator | None = None) -> BitsReport:
        """Returns data bits that are all 0, and noise bits."""
        nothing = np.zeros(0, dtype=np.int64)
        return self._messages(nothing, nothing, as_source(rng))

    def _messages(self, indices: NDArray[np.int64], values: NDArray[np.int64], source: Source) -> BitsReport:
        counts = np.zeros(self.layout.size, dtype=np.int64)
        np.add.at(counts, indices, values)
        data = np.arange(self.data_bits) < counts[:, None]
        noise = source.random((self.layout.size, self.noise_bits)) < self.probability
        return BitsReport(np.concatenate([data, noise], axis=1))

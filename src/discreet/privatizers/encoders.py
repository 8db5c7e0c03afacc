"""What runs at the user: the only code outside a simulator that sees a raw trajectory. NumPy only.

An encoder is its public parameters and nothing else; it travels as JSON (`to_json`, `from_json`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_flag, check_integer, check_number
from discreet.mdp.spec import Spec
from discreet.privacy.messages import BitsReport, NoisyReport, RawReport, SampledReport, SimulatedReport
from discreet.privatizers.asking import QuestionEncoder, question_encoder
from discreet.privatizers.features import NoisyFeatureEncoder, RawFeatureEncoder, from_document
from discreet.privatizers.first_visit_bits import FIRST_VISITS, FirstVisitEncoder, SimulatedFirstVisitEncoder
from discreet.privatizers.first_visit_bits import from_document as first_visits_from_document
from discreet.privatizers.layout import Layout
from discreet.privatizers.randomisers import Randomiser, choose
from discreet.privatizers.weights import WeightedEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise.fast import Distribution

    AnyEncoder: TypeAlias = (
        "RawEncoder | NoisyEncoder | SampledEncoder | QuestionEncoder | BinomialEncoder | SimulatedBinomialEncoder "
        "| FirstVisitEncoder | SimulatedFirstVisitEncoder | RawFeatureEncoder | NoisyFeatureEncoder | WeightedEncoder"
    )

__all__ = [
    "KINDS",
    "BinomialEncoder",
    "NoisyEncoder",
    "QuestionEncoder",
    "RawEncoder",
    "SampledEncoder",
    "SimulatedBinomialEncoder",
    "from_json",
]


@dataclass(frozen=True)
class _LayoutEncoder:
    """An encoder of the tabular statistics."""

    layout: Layout

    kind: ClassVar[str]

    def _parameters(self) -> dict[str, Any]:
        return {}

    def to_json(self) -> str:
        """Returns the public parameters, from which `from_json` makes the same encoder."""
        spec = self.layout.spec
        sizes = {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon}
        layout = {**sizes, "initial": spec.initial.tolist(), "stationary": self.layout.stationary}
        layout |= {"visits": self.layout.visits, "rewards": self.layout.rewards, "layer": self.layout.layer}
        return json.dumps({"kind": self.kind, "layout": layout, "parameters": self._parameters()})

    def _contribution(self, trajectory: Trajectory) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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
class RawEncoder(_LayoutEncoder):
    """Sends the user's exact contribution to a server that is trusted with it.

    Guarantee:
        None by itself: the report is raw.
    """

    kind = "raw"

    def encode(self, trajectory: Trajectory, rng: np.random.Generator | None = None) -> RawReport:
        """Returns the contribution: coordinates and values."""
        return RawReport(*self._contribution(trajectory))


@dataclass(frozen=True)
class NoisyEncoder(_LayoutEncoder):
    """Adds noise to every coordinate of the user's vector.

    Attributes:
        layout: Of the vector.
        distribution: ``"laplace"`` or ``"gaussian"``.
        scale: Laplace's b or the Gaussian's σ.

    Guarantee:
        Local DP: ε = Δ₁/b, or exactly μ-GDP with μ = Δ₂/σ, for the sensitivities of `discreet.privacy.sensitivity`.

    References:
        Qiao and Wang (2023), Section 5.2.
    """

    distribution: Distribution
    scale: float

    kind = "noisy"

    def __post_init__(self) -> None:
        if self.distribution not in ("laplace", "gaussian"):
            raise UnknownName("distribution", self.distribution, ("laplace", "gaussian"))
        if not 0 < check_number("scale", self.scale) < np.inf:
            raise InvalidInput(f"scale must be positive and finite, got scale={self.scale!r}")

    def _parameters(self) -> dict[str, Any]:
        return {"distribution": self.distribution, "scale": self.scale}

    def vector(self, trajectory: Trajectory) -> NDArray[np.float64]:
        """Returns the user's vector without noise, (size,): it must not leave the device."""
        vector = np.zeros(self.layout.size)
        np.add.at(vector, *self._contribution(trajectory))
        return vector

    def perturb(self, vectors: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Returns ``vectors`` with independent noise on every entry."""
        draw = rng.laplace if self.distribution == "laplace" else rng.normal
        noisy: NDArray[np.float64] = vectors + draw(scale=self.scale, size=vectors.shape)
        return noisy

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> NoisyReport:
        """Returns the noisy vector."""
        return NoisyReport(self.perturb(self.vector(trajectory), rng))


@dataclass(frozen=True)
class SampledEncoder(_LayoutEncoder):
    """Says what happened at one step, drawn uniformly and independently of the data, through a randomiser.

    The value is the joint (s, a, s', reward bit) of the step, one of 2·S²·A; a real reward becomes a bit at random,
    with the reward as its mean.

    Attributes:
        layout: What is estimated; here visits and rewards are marginals of the values.
        randomiser: How the value is hidden, at the full ε.

    Guarantee:
        Local DP with the randomiser's loss: the step does not depend on the data, the value is hidden.
    """

    randomiser: Randomiser

    kind = "sampled"

    def _parameters(self) -> dict[str, Any]:
        return {"randomiser": self.randomiser.name, "epsilon": self.randomiser.epsilon}

    @staticmethod
    def values(spec: Spec) -> int:
        """Number of values (s, a, s', reward bit)."""
        return 2 * spec.states * spec.states * spec.actions

    def value(self, trajectory: Trajectory, h: int, bit: int) -> int:
        """Returns the number of (s, a, s', reward bit) at step ``h``, from 0: it must not leave the device."""
        spec = self.layout.spec
        cell = trajectory.states[h] * spec.actions + trajectory.actions[h]
        return int((cell * spec.states + trajectory.states[h + 1]) * 2 + bit)

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> SampledReport:
        """Returns the step and the randomised answer."""
        trajectory.check(self.layout.spec)
        h = int(rng.integers(self.layout.spec.horizon))
        bit = int(rng.random() < trajectory.rewards[h])
        step = 0 if self.layout.stationary else h
        return SampledReport(step, self.randomiser.report(self.value(trajectory, h, bit), rng))


@dataclass(frozen=True)
class _Bits(_LayoutEncoder):
    """One-bit messages: for every counter the same number of data bits, touched or not, and noise bits.

    A counter has 1 data bit, or H if it is pooled over the steps, as many of them 1 as the user's count is; a real
    reward becomes a bit at random, with the reward as its mean.

    Attributes:
        layout: Of the counters.
        noise_bits: Noise bits a counter, m.
        probability: With which each is 1, p.
    """

    noise_bits: int
    probability: float

    def __post_init__(self) -> None:
        check_integer("noise_bits", self.noise_bits)
        if not 0 < self.probability <= 0.5:
            raise InvalidInput(f"probability must lie in (0, 1/2], got probability={self.probability!r}")

    def _parameters(self) -> dict[str, Any]:
        return {"noise_bits": self.noise_bits, "probability": self.probability}

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

    def _touched(self, trajectory: Trajectory, rng: np.random.Generator) -> SimulatedReport:
        """The data bits that are 1: raw data."""
        indices, values = self._contribution(trajectory)
        ones = (rng.random(len(values)) < values).astype(np.int64)  # 1 stays 1, a real reward is rounded at random
        return SimulatedReport(indices, ones)


@dataclass(frozen=True)
class BinomialEncoder(_Bits):
    """Sends one-bit messages: every data bit and every noise bit is a message of its own.

    Guarantee:
        None by itself: a report must reach the server only through a shuffler that takes it apart.

    References:
        Bai et al. (2025), Appendix, Algorithm 4, with every bit a message of its own.
    """

    kind = "binomial"

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> BitsReport:
        """Returns all messages, (counters, messages)."""
        touched = self._touched(trajectory, rng)
        counts = np.zeros(self.layout.size, dtype=np.int64)
        np.add.at(counts, touched.indices, touched.ones)
        data = np.arange(self.data_bits) < counts[:, None]
        noise = rng.random((self.layout.size, self.noise_bits)) < self.probability
        return BitsReport(np.concatenate([data, noise], axis=1))


@dataclass(frozen=True)
class SimulatedBinomialEncoder(_Bits):
    """The fast path in simulation: the same law at the analyser, without drawing every bit. Never at a user.

    Guarantee:
        None: a report is raw, and meant for `discreet.privatizers.shuffle.SimulatedShuffler` only.
    """

    kind = "simulated-binomial"

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> SimulatedReport:
        """Returns the data bits; the simulated shuffler adds the noise of the whole batch."""
        return self._touched(trajectory, rng)


def _restricted(layout: dict[str, Any], spec: Spec) -> tuple[bool, int | None]:
    """Returns whether rewards are counted, and the one step that is; encoders of older versions count everything."""
    layer = layout.get("layer")
    if layer is not None and check_integer("layer", layer, least=0) >= spec.horizon:
        raise InvalidInput(f"layer must lie in [0, {spec.horizon}), got layer={layer!r}")
    return check_flag("rewards", layout.get("rewards", True)), layer


#: Encoders with a layout of their own, by what reads their whole document.
_WHOLE: dict[str, Callable[[dict[str, Any]], AnyEncoder]] = {
    **dict.fromkeys((RawFeatureEncoder.kind, NoisyFeatureEncoder.kind), from_document),
    **dict.fromkeys(FIRST_VISITS, first_visits_from_document),
    QuestionEncoder.kind: question_encoder,
    WeightedEncoder.kind: WeightedEncoder.from_document,
}
#: The kinds of encoders that users have; the simulated ones are raw, and for simulation only.
KINDS: tuple[str, ...] = (
    "raw",
    "noisy",
    "sampled",
    "questions",
    "binomial",
    "first-visits",
    "raw-features",
    "noisy-features",
    "weighted",
)


def from_json(text: str, kinds: Sequence[str] = KINDS) -> AnyEncoder:
    """Returns the encoder that ``to_json`` wrote.

    Args:
        text: The JSON.
        kinds: Which kinds are accepted: a user who trusts nobody takes
            ``("noisy", "sampled", "questions", "noisy-features")`` and nothing raw.

    Raises:
        ValueError: If the text is no encoder, is none of these kinds, or has parameters that hide nothing.
    """
    try:
        document = json.loads(text)
        kind, layout, parameters = document["kind"], document["layout"], document["parameters"]
        if kind not in kinds:
            raise InvalidInput(f"this encoder is of the kind {kind!r}, not {', '.join(kinds)}")
        if kind in _WHOLE:
            return _WHOLE[kind](document)
        for flag in ("stationary", "visits"):
            check_flag(flag, layout[flag])
        spec = Spec(layout["states"], layout["actions"], layout["horizon"], np.array(layout["initial"]))
        where = Layout(spec, layout["stationary"], layout["visits"], *_restricted(layout, spec))
        if kind == RawEncoder.kind:
            return RawEncoder(where)
        if kind == NoisyEncoder.kind:
            return NoisyEncoder(where, parameters["distribution"], parameters["scale"])
        if kind == SampledEncoder.kind:
            size = SampledEncoder.values(spec)
            return SampledEncoder(where, choose(parameters["randomiser"], parameters["epsilon"], size))
        binomial = BinomialEncoder if kind == BinomialEncoder.kind else SimulatedBinomialEncoder
        return binomial(where, parameters["noise_bits"], parameters["probability"])
    except InvalidInput:
        raise
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"this is not an encoder: {type(error).__name__}") from None

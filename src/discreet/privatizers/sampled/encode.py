"""One step of the episode, drawn at the user: what happened there, through a randomiser. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.noise import as_source
from discreet.privacy.messages import SampledReport
from discreet.privatizers.counts.encode import LayoutEncoder, layout_of
from discreet.privatizers.randomisers import Randomiser, choose

if TYPE_CHECKING:
    import numpy as np

    from discreet.mdp import Spec, Trajectory
    from discreet.noise import Source

__all__ = ["SampledEncoder"]


@dataclass(frozen=True)
class SampledEncoder(LayoutEncoder):
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

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> SampledEncoder:
        """Returns the encoder that `to_json` wrote."""
        layout, parameters = layout_of(document["layout"]), document["parameters"]
        return cls(layout, choose(parameters["randomiser"], parameters["epsilon"], cls.values(layout.spec)))

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report is (ε, δ)-private."""
        return self.randomiser.loss <= epsilon

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> SampledReport:
        """Returns the step and the randomised answer."""
        trajectory.check(self.layout.spec)
        source = as_source(rng)
        h = source.integer(self.layout.spec.horizon)
        bit = int(source.chance() < trajectory.rewards[h])
        step = 0 if self.layout.stationary else h
        return SampledReport(step, self.randomiser.report(self.value(trajectory, h, bit), source))

    def absent(self, rng: Source | np.random.Generator | None = None) -> SampledReport:
        """Returns the randomised answer about a value drawn at random: there is none that says "nothing"."""
        source = as_source(rng)
        h = source.integer(self.layout.spec.horizon)
        value = source.integer(self.randomiser.size)
        return SampledReport(0 if self.layout.stationary else h, self.randomiser.report(value, source))

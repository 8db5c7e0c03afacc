"""One question about one cell: what runs at a user who answers it. NumPy only.

A question is a cell (s,a), or (h,s,a), and a kind: which state came next (S answers, and "none"), or whether the reward
bit was 1 (two answers, and "none"), at the *first* visit to the cell in the episode. By the strong Markov property what
follows a first visit has the distribution of the model whatever the policy is; what follows a visit that is drawn among
several has not, because how many visits there are depends on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput, check_flag
from discreet.noise import as_source
from discreet.privacy.messages import AnswerReport
from discreet.privatizers.counts.encode import sizes, spec_of
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.device import UNITS, passed
from discreet.privatizers.randomisers import Randomiser, choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec, Trajectory
    from discreet.noise import Source

__all__ = ["QuestionEncoder", "hiding"]

_ANSWERS = 3  # to a question about a reward: 0, 1, none


@dataclass(frozen=True, eq=False)
class QuestionEncoder:
    """Answers one question, drawn from public probabilities independently of the data, through a randomiser.

    Questions are numbered: all cells for the next state, then all cells for the reward. A real reward becomes a bit at
    random, with the reward as its mean. Every user takes the same number of draws, whatever they did.

    Attributes:
        layout: Of the cells: pooled, or for every step.
        randomisers: How answers about next states and about rewards are hidden, at the full ε each.
        probabilities: With which each question is asked in this batch, (2, steps, S, A): public.

    Guarantee:
        Local DP with `loss`, the larger one of the two randomisers, rounding included: the question does not depend on
        the data, the answer is hidden. It holds for any probabilities, also for those that depend on earlier reports.
    """

    layout: Layout
    randomisers: tuple[Randomiser, Randomiser]
    probabilities: NDArray[np.float64]

    kind: ClassVar[str] = "questions"

    def __post_init__(self) -> None:
        spec = self.layout.spec
        shape = (2, self.layout.steps, spec.states, spec.actions)
        given = np.asarray(self.probabilities)
        if given.shape != shape or given.dtype.kind != "f":
            raise InvalidInput(f"probabilities must be numbers of the shape {shape}, got {given.shape}")
        if not (np.isfinite(given).all() and (given >= 0).all() and abs(given.sum() - 1) < 1e-6):
            raise InvalidInput("probabilities must be at least 0 and add up to 1")
        for randomiser, size in zip(self.randomisers, (spec.states + 1, _ANSWERS), strict=True):
            if randomiser.size != size:
                raise InvalidInput(f"a question with {size} answers needs a randomiser of that size")

    @property
    def loss(self) -> float:
        """The privacy loss of a report."""
        return max(randomiser.loss + randomiser.rounding for randomiser in self.randomisers)

    @property
    def width(self) -> int:
        """Bits of a report: as many whatever was asked."""
        return max(randomiser.size for randomiser in self.randomisers)

    @property
    def draws(self) -> int:
        """How many uniform draws a user takes: for the question, the reward bit and the answer."""
        return 2 + self.width

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """Probabilities of the questions up to each one, (questions,)."""
        return np.cumsum(self.probabilities.ravel())

    @cached_property
    def last(self) -> int:
        """The last question that is asked at all."""
        return int(np.flatnonzero(self.probabilities)[-1])

    def question(self, draw: float) -> int:
        """Returns the number of the question that a uniform draw stands for."""
        below = np.searchsorted(self.cumulative, draw * self.cumulative[-1], side="right")
        return min(int(below), self.last)  # rounding may lead past it

    def answer(self, trajectory: Trajectory, question: int, draw: float) -> int:
        """Returns the true answer to a question: it must not leave the device.

        Args:
            trajectory: The user's.
            question: Its number.
            draw: A uniform one, for the reward bit.
        """
        spec = self.layout.spec
        about, cell = divmod(question, self.layout.cells)
        h, sa = divmod(cell, spec.states * spec.actions)
        there = trajectory.states[:-1] * spec.actions + trajectory.actions == sa
        if not self.layout.stationary:
            there &= np.arange(spec.horizon) == h
        if not there.any():
            return self.randomisers[about].size - 1
        first = int(np.argmax(there))
        return int(draw < trajectory.rewards[first]) if about else int(trajectory.states[first + 1])

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> AnswerReport:
        """Returns the question and the randomised answer."""
        trajectory.check(self.layout.spec)
        return self._hidden(trajectory, as_source(rng))

    def absent(self, rng: Source | np.random.Generator | None = None) -> AnswerReport:
        """Returns the randomised answer "none"."""
        return self._hidden(None, as_source(rng))

    def _hidden(self, trajectory: Trajectory | None, source: Source) -> AnswerReport:
        draws = source.random(self.draws)
        question = self.question(draws[0])
        randomiser = self.randomisers[question // self.layout.cells]
        support = np.zeros(self.width, dtype=np.bool_)
        k = randomiser.size
        answer = k - 1 if trajectory is None else self.answer(trajectory, question, draws[1])
        support[:k] = randomiser.decide(answer, draws[2 : 2 + k])
        return AnswerReport(question, support)

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report is (ε, δ)-private."""
        return self.loss <= epsilon

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> QuestionEncoder:
        """Returns the encoder that `to_json` wrote."""
        layout, parameters = document["layout"], document["parameters"]
        check_flag("stationary", layout["stationary"])
        spec = spec_of(layout)
        first, second = (
            choose(hidden["randomiser"], hidden["epsilon"], size)
            for hidden, size in zip(parameters["randomisers"], (spec.states + 1, _ANSWERS), strict=True)
        )
        probabilities = np.array(parameters["probabilities"], dtype=np.float64)
        return cls(Layout(spec, layout["stationary"]), (first, second), probabilities)

    def to_json(self) -> str:
        """Returns the public parameters, from which `discreet.privatizers.codec.from_json` makes the same encoder."""
        layout = {**sizes(self.layout.spec), "stationary": self.layout.stationary}
        hidden = [{"randomiser": found.name, "epsilon": found.epsilon} for found in self.randomisers]
        parameters = {"randomisers": hidden, "probabilities": self.probabilities.tolist()}
        return json.dumps({"kind": self.kind, "layout": layout, "parameters": parameters})

    def for_device(self) -> dict[str, Any]:
        """Returns what a device without Python needs: the draw k asks question number #{j: T_j ≤ k}, as `question`."""
        thresholds = passed(self.cumulative, self.cumulative[-1])
        thresholds[self.last :] = UNITS  # nothing leads past it
        hidden = [randomiser.for_device() for randomiser in self.randomisers]
        return {"questions": thresholds.tolist(), "randomisers": hidden, "draws": [self.draws] * 2}


def hiding(name: str, epsilon: float, spec: Spec) -> tuple[Randomiser, Randomiser]:
    """Returns how answers about next states and rewards are hidden: by name, or with the least variance each.

    A little of ε is left for the rounding of draws, so that the loss stays within it.
    """
    found = []
    for size in (spec.states + 1, _ANSWERS):
        rounding = choose(name, epsilon, size).rounding
        if rounding >= epsilon / 2:
            raise InvalidInput(f"epsilon is too small for draws of 53 bits, got epsilon={epsilon!r}")
        found.append(choose(name, epsilon - rounding, size))
    return found[0], found[1]

"""Local privacy under attack: one report, of one of two people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discreet.audit.world import corners, digits_of, drawn_from, kind_of, tiny
from discreet.privatizers.make import make
from discreet.privatizers.questions.encode import QuestionEncoder
from discreet.privatizers.sampled.encode import SampledEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Source

    Draws = Source | np.random.Generator
    from discreet.privacy import Guarantee, Local
    from discreet.privatizers.counts.encode import NoisyEncoder
    from discreet.privatizers.features.encode import NoisyFeatureEncoder

__all__ = ["LocalTarget", "local"]

_AT_ONCE = 100_000  # runs that are drawn at once


@dataclass(frozen=True)
class LocalTarget:
    """An encoder under attack: the attacker sees the report of a person who is one of two.

    Attributes:
        name: What it is called.
        claim: What is claimed.
        encoder: At the user.
        people: The two neighbours: two people with other data at every step.
        watched: Runs of the encoder one by one, at most, where they can also be drawn at once.
    """

    name: str
    claim: Guarantee
    encoder: NoisyEncoder | NoisyFeatureEncoder | SampledEncoder | QuestionEncoder
    people: tuple[Trajectory, Trajectory]
    watched: int = 5000

    @property
    def runs(self) -> int:
        """How many it takes to attack it well."""
        return 200_000 if isinstance(self.encoder, SampledEncoder | QuestionEncoder) else 4_000_000

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Computes the exact likelihood ratio of every report."""
        source = drawn_from(self.claim, rng)
        if isinstance(self.encoder, SampledEncoder):
            return self._answers(self.encoder, world, runs, source)
        if isinstance(self.encoder, QuestionEncoder):
            return self._questions(self.encoder, world, runs, source)
        return self._vectors(self.encoder, world, runs, source)

    def _vectors(
        self, encoder: NoisyEncoder | NoisyFeatureEncoder, world: int, runs: int, rng: Draws
    ) -> dict[str, NDArray[np.float64]]:
        """Noise is drawn for many people at once, as `encode` draws it; some reports come from `encode` itself."""
        vectors = [encoder.vector(person) for person in self.people]
        ratios = []
        for start in range(0, runs, _AT_ONCE):
            chunk = encoder.perturb(np.tile(vectors[world], (min(_AT_ONCE, runs - start), 1)), rng)
            away = [(chunk - vector) / encoder.scale for vector in vectors]
            logs = [-np.abs(z) if encoder.distribution == "laplace" else -(z**2) / 2 for z in away]
            ratios.append(np.round((logs[1] - logs[0]).sum(axis=1), digits_of(self.claim)))
        few = min(runs, self.watched)
        reports = np.array([encoder.encode(self.people[world], rng).values for _ in range(few)])
        return {"likelihood ratio": np.concatenate(ratios), "linear": np.round(reports, digits_of(self.claim))}

    def _answers(self, encoder: SampledEncoder, world: int, runs: int, rng: Draws) -> dict[str, NDArray[np.float64]]:
        """Whether the answer contains what the one would have said at this step, less the same for the other.

        For all randomisers the likelihood ratio grows with it. The step itself is watched too.
        """
        steps = encoder.layout.spec.horizon
        values = np.array([[encoder.value(person, h, bit=1) for h in range(steps)] for person in self.people])
        scores, seen = np.empty(runs), np.empty(runs)
        for i in range(runs):
            report = encoder.encode(self.people[world], rng)
            zero, one = values[:, report.step]
            scores[i] = float(report.support[one]) - float(report.support[zero])
            seen[i] = report.step
        return {"likelihood ratio": scores, "step": seen}

    def _questions(self, encoder: QuestionEncoder, world: int, runs: int, rng: Draws) -> dict[str, NDArray[np.float64]]:
        """Whether the answer contains what the one would have said to this question, less the same for the other.

        The question itself is watched too, and so is the whole report, bit by bit, whatever the bits should mean.
        """
        asked = 2 * encoder.layout.cells
        values = np.array([[encoder.answer(person, q, 0.0) for q in range(asked)] for person in self.people])
        scores, seen = np.empty(runs), np.zeros((runs, asked + encoder.width))
        for i in range(runs):
            report = encoder.encode(self.people[world], rng)
            zero, one = values[:, report.question]
            scores[i] = float(report.support[one]) - float(report.support[zero])
            seen[i, report.question] = 1.0
            seen[i, asked:] = report.support
        return {"likelihood ratio": scores, "question": seen[:, :asked], "report": seen}


def local(privacy: Local, *, steps: int = 1, stationary: bool = False) -> LocalTarget:
    """Returns the encoder of a local trust model in a world of two states and two actions."""
    given = {"capacity": 1, "stationary": stationary, "failure": 0.05}
    if privacy.sum == "questions":
        mechanism = make("questions", tiny(steps), privacy, **given)
    else:
        mechanism = make("counts", tiny(steps), privacy, batches=[1], **given)
    return LocalTarget("local", mechanism.promise(kind_of(privacy)), mechanism.encoder_of(0), corners(steps))  # type: ignore[arg-type]

"""Local privacy, one question a user: the server debiases the answers of each batch and hands them to the planner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy import AnswerBatch, AnswerReport, Guarantee, accounting
from discreet.privatizers.asking import QuestionEncoder, hiding
from discreet.privatizers.base import Shuffler, check_reports
from discreet.privatizers.layout import Layout
from discreet.privatizers.local import LocalPrivatizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privacy import Local

__all__ = ["AnswerTally", "Answers", "QuestionLocal"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the users of one batch answered, debiased: all that a planner may see.

    Counts are of the users who were asked and whose first visit went so; noise makes them real numbers.

    Attributes:
        asked: How many users were asked about the next state and about the reward, (2, steps, S, A).
        transitions: How many went on to each state, (steps, S, A, S).
        rewards: How many got the reward bits 0 and 1, (steps, S, A, 2).
        error: A bound on how far a count, added up over the batches so far, ever is from the truth.
    """

    asked: NDArray[np.int64]
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    error: float


class AnswerCollector(Shuffler[AnswerReport, AnswerBatch]):
    """Collects randomised answers, in order: each is private by itself."""

    def __call__(self, reports: Sequence[AnswerReport], rng: np.random.Generator | None = None) -> AnswerBatch:
        """Returns the reports, one row each."""
        check_reports(reports, AnswerReport)
        return AnswerBatch(
            np.array([report.question for report in reports]), np.stack([report.support for report in reports])
        )


class QuestionLocal(LocalPrivatizer):
    """Every user answers one question about one cell through a randomiser; the server debiases, batch by batch.

    Nothing is added up over batches here: what an answer is worth depends on how often the batch's policy visits the
    cell, which the planner knows.

    Attributes:
        encoder: At the users of the current batch; it carries the probabilities of the questions.
    """

    _changes = ("count", "_asked", "_supports")
    name = "questions"

    def __init__(self, spec: Spec, privacy: Local, *, capacity: int, stationary: bool, failure: float) -> None:
        super().__init__(Layout(spec, stationary), privacy, capacity, failure)
        if privacy.sum not in ("questions", "auto"):
            raise InvalidInput(
                f"discreet-vi learns from answers about first visits, which other local sums do not have: sum must be "
                f"'questions' or 'auto', got sum={privacy.sum!r}"
            )
        if privacy.calibration == "paper":
            raise InvalidInput("calibration='paper' is printed for local sum='laplace', got sum='questions'")
        shape = (2, self.layout.steps, spec.states, spec.actions)
        hidden = hiding(privacy.randomiser, privacy.epsilon, spec)
        self.encoder = QuestionEncoder(self.layout, hidden, np.full(shape, 1 / math.prod(shape)))
        self.shuffler = AnswerCollector()
        self._asked = np.zeros(2 * self.layout.cells, dtype=np.int64)
        self._supports = np.zeros((2 * self.layout.cells, self.encoder.width), dtype=np.int64)

    @property
    def noise(self) -> str:
        """How an answer about the next state is hidden."""
        return self.encoder.randomisers[0].name

    @property
    def guarantee(self) -> Guarantee:
        """Pure local DP of a report."""
        return self._guarantee(accounting.pure(self.encoder.loss), 0.0)

    @property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of what the answer of one user adds to a count that they do not contribute to."""
        states, rewards = (math.sqrt(hidden.variance(1, holds=False)) for hidden in self.encoder.randomisers)
        return {"visits": states, "transitions": states, "rewards": rewards}

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count, added up over batches, is ever further from the truth than this.

        Questions and data depend on earlier answers, so the error is a martingale in the users: Freedman's inequality
        bounds all reads at once (see `SampledLocal.error`), and a union covers the counts. The worst case is that all
        users are asked the same.
        """
        total = self.layout.cells * (self.layout.spec.states + 2)
        log = math.log(2 * total / self.failure)
        worst = 0.0
        for hidden in self.encoder.randomisers:
            p, q = hidden.probabilities
            v = self.capacity * max(hidden.variance(1, holds=holds) for holds in (False, True))
            b = max(1 - q, q) / (p - q) + 1
            worst = max(worst, b * log / 3 + math.sqrt((b * log / 3) ** 2 + 2 * v * log))
        return worst

    def collect(self, batch: AnswerBatch) -> None:
        """Counts the answers of a batch; nothing changes if an error is raised."""
        self._admit(batch, AnswerBatch)
        questions, width = len(self._asked), self.encoder.width
        whole = batch.questions.dtype.kind in "iu" and batch.support.dtype == np.bool_
        known = whole and bool(((batch.questions >= 0) & (batch.questions < questions)).all())
        if not known or batch.questions.shape != (batch.users,) or batch.support.shape != (batch.users, width):
            raise InvalidInput(f"reports must have {width} bits about one of {questions} questions")
        about = batch.questions // self.layout.cells
        for kind, hidden in enumerate(self.encoder.randomisers):
            if batch.support[about == kind, hidden.size :].any():
                raise InvalidInput(f"an answer to a question of this kind has {hidden.size} bits")
        supports = np.zeros_like(self._supports)
        np.add.at(supports, batch.questions, batch.support)
        self._asked, self._supports = np.bincount(batch.questions, minlength=questions).astype(np.int64), supports
        self.count += batch.users

    def counts(self) -> Answers:
        """Returns the debiased answers of the last batch."""
        spec, cells = self.layout.spec, self.layout.cells
        shape = (self.layout.steps, spec.states, spec.actions)
        parts = []
        for kind, hidden in enumerate(self.encoder.randomisers):
            p, q = hidden.probabilities
            rows, values = slice(kind * cells, (kind + 1) * cells), hidden.size - 1
            debiased = (self._supports[rows, :values] - self._asked[rows, None] * q) / (p - q)
            parts.append(debiased.reshape(*shape, values))
        return Answers(self._asked.reshape(2, *shape).copy(), parts[0], parts[1], self.error)

    @property
    def simulated(self) -> bool:
        """Whether `tally` does what encoder and shuffler of the current batch do."""
        return (type(self.encoder), type(self.shuffler)) == (QuestionEncoder, AnswerCollector)

    def tally(self) -> AnswerTally:
        """In simulation only: returns what stands for the users and the shuffler of the current batch."""
        return AnswerTally(self.encoder)


class AnswerTally:
    """In simulation only: the answers of a batch while its users play, bit for bit what they report."""

    def __init__(self, encoder: QuestionEncoder) -> None:
        self._encoder = encoder
        self._questions: list[NDArray[np.int64]] = []
        self._support: list[NDArray[np.bool_]] = []

    def add(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Adds users, a row each; ``rng`` is that of their encoders."""
        from discreet.privatizers import _kernels

        encoder, users = self._encoder, len(states)
        questions = np.empty(users, dtype=np.int64)
        support = np.zeros((users, encoder.width), dtype=np.bool_)
        sizes = np.array([found.size for found in encoder.randomisers])
        chosen = np.array([getattr(found, "chosen", 0) for found in encoder.randomisers])  # unary encoding: none
        hidden = (sizes, chosen, np.array([found.probabilities for found in encoder.randomisers]))
        asked = (encoder.cumulative, encoder.last, encoder.layout.cells, encoder.layout.spec.actions)
        pooled = encoder.layout.stationary
        draws = rng.random((users, encoder.draws))
        _kernels.answer(asked, pooled, hidden, draws, states, actions, rewards, questions, support)
        self._questions.append(questions)
        self._support.append(support)

    def batch(self, rng: np.random.Generator | None = None) -> AnswerBatch:
        """Returns what the collector hands on."""
        return AnswerBatch(np.concatenate(self._questions), np.concatenate(self._support))

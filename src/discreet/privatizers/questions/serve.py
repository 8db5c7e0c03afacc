"""One question a user: the server debiases the answers of each batch and hands them to the planner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.privacy import AnswerBatch, AnswerReport, Guarantee, accounting
from discreet.privatizers.base import Encoder, Kind, Released
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.local import LocalMechanism
from discreet.privatizers.questions.encode import QuestionEncoder, hiding
from discreet.privatizers.randomisers import count
from discreet.privatizers.shufflers import Collector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Source
    from discreet.privacy import Local, Report

__all__ = ["Answers", "Questions"]


@dataclass(frozen=True, eq=False)
class Answers(Released):
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


class Counted(NamedTuple):
    """What the server keeps: users in all, and of the last batch who was asked what and how many reports hold it."""

    collected: int
    asked: NDArray[np.int64]
    supports: NDArray[np.int64]


class Questions(LocalMechanism[AnswerBatch, Counted, Answers]):
    """Every user answers one question about one cell through a randomiser; the server debiases, batch by batch.

    Nothing is added up over batches here: what an answer is worth depends on how often the batch's policy visits the
    cell, which the planner knows. A plan may give the encoder other probabilities of the questions.

    Guarantee:
        `promise`: pure local DP of every report.
    """

    name = "questions"
    batch = AnswerBatch
    encoder: QuestionEncoder

    def __init__(self, spec: Spec, privacy: Local, *, capacity: int, stationary: bool, failure: float) -> None:
        super().__init__(privacy, capacity, failure)
        self.layout = Layout(spec, stationary)
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

    @property
    def noise(self) -> str:
        """How an answer about the next state is hidden."""
        return self.encoder.randomisers[0].name

    def promise(self, kind: Kind) -> Guarantee:
        """Returns pure local DP of a report."""
        return self._local(accounting.pure(self.encoder.loss), 0.0, kind)

    def shuffler(self) -> Collector[AnswerReport, AnswerBatch]:
        """Collects reports, in order: each is private by itself."""
        return Collector(AnswerReport, AnswerBatch)

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

    def start(self) -> Counted:
        """Nobody."""
        questions = 2 * self.layout.cells
        return Counted(
            0, np.zeros(questions, dtype=np.int64), np.zeros((questions, self.encoder.width), dtype=np.int64)
        )

    def folded(self, kept: Counted, batch: AnswerBatch, encoder: Encoder[Report]) -> Counted:
        """Counts the answers of a batch, if each is one that its encoder can have made; earlier ones are forgotten."""
        self._admit(kept.collected, batch)
        if not isinstance(encoder, QuestionEncoder) or encoder.randomisers != self.encoder.randomisers:
            raise InvalidInput("users of this batch must run its own encoder")
        questions, width = len(kept.asked), self.encoder.width
        whole = batch.questions.dtype.kind in "iu" and batch.support.dtype == np.bool_
        known = whole and bool(((batch.questions >= 0) & (batch.questions < questions)).all())
        if not known or batch.questions.shape != (batch.users,) or batch.support.shape != (batch.users, width):
            raise InvalidPersonalData(f"reports must have {width} bits about one of {questions} questions")
        if (encoder.probabilities.ravel()[batch.questions] == 0).any():
            raise InvalidPersonalData("a report must be about a question that is asked in this batch")
        about = batch.questions // self.layout.cells
        for kind, hidden in enumerate(self.encoder.randomisers):
            answers = batch.support[about == kind]
            if answers[:, hidden.size :].any():
                raise InvalidPersonalData(f"an answer to a question of this kind has {hidden.size} bits")
            if not hidden.possible(answers):
                raise InvalidPersonalData("an answer must have as many bits that are 1 as its randomiser chooses")
        asked = np.bincount(batch.questions, minlength=questions).astype(np.int64)
        return Counted(kept.collected + batch.users, asked, count(batch.support, batch.questions, questions))

    def released(self, kept: Counted, source: Source) -> tuple[Counted, Answers]:
        """Returns the debiased answers of the last batch."""
        spec, cells = self.layout.spec, self.layout.cells
        shape = (self.layout.steps, spec.states, spec.actions)
        parts = []
        for kind, hidden in enumerate(self.encoder.randomisers):
            p, q = hidden.probabilities
            rows, values = slice(kind * cells, (kind + 1) * cells), hidden.size - 1
            debiased = (kept.supports[rows, :values] - kept.asked[rows, None] * q) / (p - q)
            parts.append(debiased.reshape(*shape, values))
        return kept, Answers(kept.asked.reshape(2, *shape).copy(), parts[0], parts[1], self.error, std=self.fresh_std)

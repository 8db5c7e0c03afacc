"""One batch at a time: its people play, and what they report is added up as they come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.mdp.policy import check_policy
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.privacy import AnswerBatch, RawFeatureBatch
from discreet.privatizers.counts.encode import BinomialEncoder
from discreet.privatizers.counts.serve import CentralCounts
from discreet.privatizers.counts.shuffle import ShuffledCounts
from discreet.privatizers.counts.staged import Staged, StagedCounts
from discreet.privatizers.features.serve import CentralFeatures
from discreet.privatizers.first_visits.serve import FirstVisitCounts
from discreet.privatizers.questions.serve import Questions
from discreet.privatizers.weighted.serve import CentralWeighted, ExactWeighted
from discreet.runtime.fast import sources, with_noise

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.agents.rounds import Plan, Policy
    from discreet.mdp import FiniteMDP
    from discreet.privatizers.first_visits.encode import FirstVisitEncoder
    from discreet.privatizers.questions.encode import QuestionEncoder
    from discreet.runtime.simulate import Run

    Episodes = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

__all__ = ["SECURE", "TALLIES", "Batches", "Tally"]

_PEOPLE = 4096


class Tally(ABC):
    """In simulation only: what stands for the users and the shuffler of a batch, bit for bit what their reports say."""

    def __init__(self, agent: LearningAgent, plan: Plan) -> None:
        self.agent, self.plan = agent, plan
        self.encoder: Any = plan.encoder
        self.users = 0

    def meet(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds people, a row each."""
        self.users += len(states)
        self.add(states, actions, rewards)

    @abstractmethod
    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds their reports."""

    @abstractmethod
    def observe(self) -> None:
        """Shows the whole batch to the server."""


class Totals(Tally):
    """Raw vectors, for a trusted server: their total."""

    def __init__(self, agent: LearningAgent, plan: Plan) -> None:
        super().__init__(agent, plan)
        self._total = np.zeros(self.encoder.layout.size)

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds up the contributions."""
        indices, values = self.encoder.contributions(states, actions, rewards)
        np.add.at(self._total, indices.ravel(), values.ravel())

    def observe(self) -> None:
        """Folds the total in, within the bounds of so many users."""
        mechanism: Any = self.agent.mechanism
        kept = self.agent.privatizer.reveal()
        if isinstance(mechanism, StagedCounts):
            part, own = mechanism.opened(kept, self.users)
            kept = Staged(kept.batch, own.sum.added_total(part, self._total, self.users))  # type: ignore[union-attr]
        else:
            kept = mechanism.sum.added_total(kept, self._total, self.users)
        self.agent.absorb(kept, self.users)


class WeightedTotals(Totals):
    """Weighted counts lie on a grid: they add up exactly in any order."""

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds up the weighted contributions."""
        indices, values = self.encoder.contributions(states, actions, rewards)
        self._total += np.bincount(indices.ravel(), weights=values.ravel(), minlength=len(self._total))


class BitTotals(Tally):
    """One-bit messages: the data bits that are 1; the noise bits are drawn as totals."""

    encoder: BinomialEncoder | FirstVisitEncoder

    def __init__(self, agent: LearningAgent, plan: Plan) -> None:
        super().__init__(agent, plan)
        self._total = np.zeros(self.encoder.size, dtype=np.int64)

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds up the data bits; a real reward is rounded at random."""
        source = sources(self.agent)[0]
        if isinstance(self.encoder, BinomialEncoder):
            indices, values = self.encoder.contributions(states, actions, rewards)
            ones = source.random(values.shape) < values
        else:
            draws = source.random((len(states), len(self.encoder.cells)))
            indices, ones = self.encoder.contributions(states, actions, rewards, draws)
        self._total += np.bincount(indices[ones], minlength=len(self._total))

    def observe(self) -> None:
        """Shows what a shuffler would hand on."""
        source = sources(self.agent)[1]
        self.agent.observe(with_noise(self.encoder, self._total, self.users, source, self.plan.version))


class AnswerRows(Tally):
    """Randomised answers: all of them, a row a user."""

    encoder: QuestionEncoder

    def __init__(self, agent: LearningAgent, plan: Plan) -> None:
        super().__init__(agent, plan)
        self._questions: list[NDArray[np.int64]] = []
        self._support: list[NDArray[np.bool_]] = []

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Draws questions and answers, compiled."""
        from discreet.privatizers.questions import _kernels

        encoder, users = self.encoder, len(states)
        questions = np.empty(users, dtype=np.int64)
        support = np.zeros((users, encoder.width), dtype=np.bool_)
        sizes = np.array([found.size for found in encoder.randomisers])
        chosen = np.array([getattr(found, "chosen", 0) for found in encoder.randomisers])  # unary encoding: none
        hidden = (sizes, chosen, np.array([found.probabilities for found in encoder.randomisers]))
        asked = (encoder.cumulative, encoder.last, encoder.layout.cells, encoder.layout.spec.actions)
        draws = self.agent.sources[Role.ENCODER].random((users, encoder.draws))
        _kernels.answer(asked, encoder.layout.stationary, hidden, draws, states, actions, rewards, questions, support)
        self._questions.append(questions)
        self._support.append(support)

    def observe(self) -> None:
        """Shows the answers."""
        questions, support = np.concatenate(self._questions), np.concatenate(self._support)
        self.agent.observe(AnswerBatch(questions, support, version=self.plan.version))


class FeatureRows(Tally):
    """Raw features, for a trusted server: folded in as they come."""

    def __init__(self, agent: LearningAgent, plan: Plan) -> None:
        super().__init__(agent, plan)
        self._kept = agent.privatizer.reveal()

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds their products to a copy of the sums."""
        batch = RawFeatureBatch(*self.encoder.statistics(states, actions, rewards))
        self._kept = self.agent.mechanism.folded(self._kept, batch, self.encoder)

    def observe(self) -> None:
        """Goes on from the sums with everybody in them."""
        self.agent.absorb(self._kept, self.users)


def _staged(agent: LearningAgent, plan: Plan) -> Tally:
    return (BitTotals if isinstance(plan.encoder, BinomialEncoder) else Totals)(agent, plan)


#: By the mechanism that they stand for.
TALLIES: dict[type[Any], Callable[[LearningAgent, Plan], Tally]] = {
    StagedCounts: _staged,
    ShuffledCounts: BitTotals,
    FirstVisitCounts: BitTotals,
    Questions: AnswerRows,
    CentralWeighted: WeightedTotals,
    ExactWeighted: WeightedTotals,
}

#: Those that secure noise can take: they add up what people report to a server that is trusted with it, and draw
#: nothing; or they draw for every person just what that person draws.
SECURE: dict[type[Any], Callable[[LearningAgent, Plan], Tally]] = {
    CentralCounts: Totals,
    CentralWeighted: WeightedTotals,
    CentralFeatures: FeatureRows,
    StagedCounts: Totals,
    Questions: AnswerRows,
}


def checked_policies(policies: Policy, mdp: FiniteMDP) -> Policy:
    """Returns a copy that kernels may play; raises naming what is wrong."""
    spec, found = mdp.spec, policies.copy()
    plain = found.dtype == np.int64 and found.shape[1:] == (spec.horizon, spec.states)
    if not (plain and found.size and found.min() >= 0 and found.max() < spec.actions):  # all at once, as a rule
        for policy in found:
            check_policy(policy, spec)
    return found


def sample_each(mdp: FiniteMDP, policies: Policy, users: NDArray[np.int64], draws: NDArray[np.float64]) -> Episodes:
    """Plays a person a row of ``draws``, ``users[i]`` of them one after the other under ``policies[i]``."""
    from discreet.mdp import _kernels

    n, H, start, tables = len(draws), mdp.horizon, 0, tuple(mdp.sample_tables)
    states, actions, rewards = np.empty((n, H + 1), dtype=np.int64), np.empty((n, H), dtype=np.int64), np.empty((n, H))
    kernel = _kernels.sample_many if policies.ndim == 3 else _kernels.sample_many_mixed
    for policy, end in zip(policies, np.cumsum(users).tolist(), strict=True):
        own = slice(start, end)
        kernel(tables, policy, draws[own], states[own], actions[own], rewards[own])
        start = end
    return states, actions, rewards


class Batches:
    """Whole batches of an agent, one at a time, with a tally for what their people report."""

    def __init__(self, agent: LearningAgent, tally: Callable[[LearningAgent, Plan], Tally]) -> None:
        self.agent, self._tally = agent, tally

    def run(self, run: Run, people: int) -> bool:
        """Plays the current batch, if it has at most ``people`` people; returns whether it has.

        Whatever interrupts it, the agent is left at the beginning of the batch.
        """
        agent, plan = self.agent, self.agent.plan
        if plan.size > people:
            return False
        tally, first = self._tally(agent, plan), run.done
        marks = [(source, source.mark()) for source in agent.sources.values() if isinstance(source, FastSource)]
        policies = checked_policies(plan.policies[plan.users > 0], run.mdp)
        ends = np.cumsum(plan.users[plan.users > 0])
        try:
            for start in range(0, plan.size, _PEOPLE):
                n = min(_PEOPLE, plan.size - start)
                low, high = np.searchsorted(ends, [start, start + n - 1], side="right")
                users = np.diff(np.minimum(ends[low : high + 1], start + n), prepend=start)
                tally.meet(*sample_each(run.mdp, policies[low : high + 1], users, run.mdp.draws(run.people, n)))
                if low == high:
                    run.score(policies[low], n)
                else:
                    run.score_many(policies[low : high + 1], np.repeat(np.arange(len(users)), users))
                run.bar.update(run.done)
            tally.observe()
        except BaseException:
            if agent.privatizer.version == plan.version:  # nothing was released
                for source, mark in marks:
                    source.rewind(mark)
                run.done = first
            raise
        return True

"""The loops of all blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.runtime.fast import sources

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.agents.linear import LinearAgent
    from discreet.agents.rounds import Proposal
    from discreet.agents.tabular import Planned, TabularAgent
    from discreet.mdp import FiniteMDP
    from discreet.noise.fast import FastSource
    from discreet.privatizers import Released
    from discreet.runtime.simulate import Run

__all__ = ["NUMBERS", "PEOPLE", "Blocks", "Rounds"]

# People a compiled call plays at most, and numbers its policies fill at most: memory does not grow with K.
PEOPLE = 4096
NUMBERS = 2**20


class Blocks(ABC):
    """Whole batches of an agent that gives everybody in a batch the same policy; a compiled call may stop within one.

    Subclasses keep working copies of what the server holds and of what was planned.
    """

    def __init__(self, agent: LearningAgent) -> None:
        self.agent = agent

    @property
    @abstractmethod
    def release_size(self) -> int:
        """How many numbers a release has."""

    @property
    def source(self) -> FastSource:
        """Where the noise comes from: the server's source."""
        return sources(self.agent)[2]

    @property
    def people(self) -> int:
        """How many people a compiled call plays at most."""
        return max(1, min(PEOPLE, NUMBERS // self.agent.policy.size))

    @abstractmethod
    def begin(self) -> None:
        """Copies what the server holds."""

    @abstractmethod
    def play(
        self,
        mdp: FiniteMDP,
        draws: NDArray[np.float64],
        replan: NDArray[np.bool_],
        releases: NDArray[np.float64],
    ) -> NDArray[Any]:
        """Acts, counts, releases and plans for one person a row of ``draws``.

        Args:
            mdp: The simulator; its dynamics reach the sampler only.
            draws: The people's own randomness, (n, 1 + 3H).
            replan: Marks the last person of each batch, (n,).
            releases: Receives what is released, (marks, size), if it has rows.

        Returns:
            The policy in force at first and after each mark, (marks + 1, H, S) or (marks + 1, H, S, A).
        """

    @abstractmethod
    def kept(self) -> tuple[Any, Released, Planned]:
        """Returns what the server holds now, its last release, and the plan; nothing here changes it any more."""

    @abstractmethod
    def shown(self, row: NDArray[np.float64], version: int, users: int) -> Released:
        """Returns a release from its numbers; ``version`` says how many there are with it, ``users`` of how many."""

    def proposed(self, planned: Planned, size: int) -> Proposal:
        """Returns what the next batch plays."""
        return planned.proposal(size)

    def run(self, run: Run, people: int) -> bool:
        """Plays the whole batches among the next ``people`` people; returns whether there are any."""
        agent = self.agent
        ends = agent.schedule.ends(agent.count, people)
        if not len(ends):
            return False
        n, noise, size = int(ends[-1]), self.source, self.people
        reads = max(1, NUMBERS // self.release_size)
        told, first, since, settled = agent.on_release is not None, 0, 0, 0
        self.begin()
        mark, version = noise.mark(), agent.privatizer.version
        try:
            while first < n:
                low, high = np.searchsorted(ends, [first, first + size], side="right")
                high = min(high, low + reads)
                block = int(ends[high - 1]) - first if high > low else min(size, n - first)
                replan = np.zeros(block, dtype=np.bool_)
                replan[ends[low:high] - first - 1] = True
                releases = np.empty((high - low if told else 0, self.release_size))
                policies = self.play(run.mdp, run.mdp.draws(run.people, block), replan, releases)
                run.score_many(policies, np.cumsum(replan) - replan)
                first += block
                if high > low and (told or first == n or first - since >= size):
                    before = version
                    self._commit(first - since, int(high - settled))
                    mark, since, settled, version = noise.mark(), first, high, agent.privatizer.version
                    for i, row in enumerate(releases):  # from here on nothing is taken back
                        count = agent.count - first + int(ends[low + i])
                        assert agent.on_release is not None
                        agent.on_release(self.shown(row, before + i + 1, count), policies[i + 1].copy(), count)
                run.bar.update(run.done)
        except BaseException:
            if agent.privatizer.version == version:  # else what was drawn is in a release, and is never drawn again
                noise.rewind(mark)
            raise
        return True

    def _commit(self, users: int, releases: int) -> None:
        """Hands over what was done since the last batch that ended."""
        kept, last, planned = self.kept()
        self.agent.settle(kept, users, releases, last, planned, lambda size: self.proposed(planned, size))


class Rounds(Blocks):
    """Blocks that go batch by batch: people are compiled, releases and plans are those of mechanism and agent."""

    agent: LinearAgent | TabularAgent
    _planned: Planned

    @property
    def mechanism(self) -> Any:
        """What is asked and answered for."""
        return self.agent.privatizer.mechanism

    @property
    def people(self) -> int:
        """Everybody may have as many numbers as a release."""
        return max(1, min(super().people, NUMBERS // self.release_size))

    def begin(self) -> None:
        """Begins with what was learned; nothing of it is changed in place."""
        self._planned = self.agent.learned

    @abstractmethod
    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds what people send, a row each."""

    @abstractmethod
    def release(self) -> tuple[NDArray[np.float64], Any]:
        """Returns what is released at the end of a batch: its numbers, and what `shown` makes of them."""

    def play(
        self,
        mdp: FiniteMDP,
        draws: NDArray[np.float64],
        replan: NDArray[np.bool_],
        releases: NDArray[np.float64],
    ) -> NDArray[Any]:
        """Plays a batch after the other; the last one may go on in the next call."""
        from discreet.mdp import _kernels

        agent, people, H, tables = self.agent, len(draws), self.agent.spec.horizon, tuple(mdp.sample_tables)
        sample = _kernels.sample_many_mixed if agent.mixed else _kernels.sample_many
        states, actions = np.empty((people, H + 1), dtype=np.int64), np.empty((people, H), dtype=np.int64)
        rewards, policies = np.empty((people, H)), [self._planned.policy]
        ends = (np.flatnonzero(replan) + 1).tolist()
        for first, end in pairwise([0, *ends, people]):
            own = slice(first, end)
            sample(tables, self._planned.policy, draws[own], states[own], actions[own], rewards[own])
            self.add(states[own], actions[own], rewards[own])
            if len(policies) > len(ends):
                break
            row, released = self.release()
            if len(releases):
                releases[len(policies) - 1] = row
            self._planned = agent.planned(self._planned, released)
            policies.append(self._planned.policy)
        return np.array(policies)

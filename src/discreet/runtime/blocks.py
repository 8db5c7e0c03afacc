"""Compiled blocks: act, count, release and plan for thousands of people in one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.tabular import Planned, TabularAgent
from discreet.privatizers import PrivateCounts
from discreet.privatizers.counts.serve import CentralCounts, ExactCounts
from discreet.privatizers.values.serve import Held, PerturbedTables, PerturbedValues
from discreet.runtime.fast import sources
from discreet.sums import NoisySum, SumState

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.agents.rlsvi import RLSVI
    from discreet.mdp import FiniteMDP
    from discreet.privatizers import Released
    from discreet.runtime.simulate import Run

__all__ = ["BLOCKS", "Blocks", "CountBlocks", "ValueBlocks"]

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
    def shown(self, row: NDArray[np.float64], version: int) -> Released:
        """Returns a release from its numbers."""

    def run(self, run: Run, people: int) -> bool:
        """Plays the whole batches among the next ``people`` people; returns whether there are any."""
        agent = self.agent
        ends = agent.schedule.ends(agent.count, people)
        if not len(ends):
            return False
        n, noise = int(ends[-1]), sources(agent)[2]
        size = max(1, min(PEOPLE, NUMBERS // agent.policy.size))
        reads = max(1, NUMBERS // self.release_size)
        told, first, since = agent.on_release is not None, 0, 0
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
                if high > low:
                    before = version
                    self._commit(first - since, int(high - low))
                    mark, since, version = noise.mark(), first, agent.privatizer.version
                    for i, row in enumerate(releases):  # from here on nothing is taken back
                        count = agent.count - first + int(ends[low + i])
                        assert agent.on_release is not None
                        agent.on_release(self.shown(row, before + i + 1), policies[i + 1].copy(), count)
                run.bar.update(run.done)
        except BaseException:
            if agent.privatizer.version == version:  # else what was drawn is in a release, and is never drawn again
                noise.rewind(mark)
            raise
        return True

    def _commit(self, users: int, releases: int) -> None:
        """Hands over what was done since the last batch that ended."""
        kept, last, planned = self.kept()
        self.agent.settle(kept, users, releases, last, planned, planned.proposal)


class CountBlocks(Blocks):
    """Blocks of agents that plan on exact or centrally private counts."""

    agent: TabularAgent

    @property
    def _mechanism(self) -> ExactCounts | CentralCounts:
        found: ExactCounts | CentralCounts = self.agent.privatizer.mechanism  # type: ignore[assignment]
        return found

    @property
    def release_size(self) -> int:
        """Visits, transitions and rewards; visits may be derived."""
        return int(self._mechanism.layout.size)

    def begin(self) -> None:
        """Copies totals, noise and plan."""
        kept: SumState = self.agent.privatizer.reveal()
        self._users, self._total = kept.users, kept.total.copy()
        self._noise = {name: np.copy(x) if name == "array" else x for name, x in kept.noise.items()}
        noisy = isinstance(self._mechanism.sum, NoisySum)
        self._released = np.zeros_like(self._total) if noisy else self._total
        self._planned: Planned = self.agent.learned.copy()

    def play(
        self,
        mdp: FiniteMDP,
        draws: NDArray[np.float64],
        replan: NDArray[np.bool_],
        releases: NDArray[np.float64],
    ) -> NDArray[Any]:
        """In one compiled call."""
        from discreet.mdp import _kernels
        from discreet.privatizers.counts._kernels import project
        from discreet.runtime._kernels import block
        from discreet.sums import _kernels as sum_kernels

        agent, mechanism, marks = self.agent, self._mechanism, int(replan.sum())
        total, released, layout, H = self._total, self._released, mechanism.layout, agent.spec.horizon
        advance, none = sum_kernels.advance_tree, np.zeros((0, 0))
        noise: tuple[Any, ...] = (none, np.zeros(0, dtype=np.int64), none, none)
        if isinstance(mechanism.sum, NoisySum):
            z, shape = np.empty((marks, layout.size)), mechanism.sum.factorisation
            sources(agent)[2].fill(mechanism.sum.distribution, mechanism.sum.scale, z)
            depths, advance = shape.depths(self._noise, marks), shape.kernel
            noise = (shape.coefficients, depths, z, self._noise["array"])
        else:
            self._noise["reads"] += marks
        self._users += len(draws)
        E, parameters = agent.constants(mechanism.error)
        visible = layout.split(released)
        prepared = (*(np.empty_like(x) for x in visible[:2]), visible[2]) if agent.projects else visible
        policies = np.empty((marks + 1, *self._planned.policy.shape), dtype=self._planned.policy.dtype)
        block.play(
            _kernels.sample_mixed if agent.mixed else _kernels.sample,
            tuple(mdp.sample_tables),
            advance,
            (total, released, *noise, np.empty(layout.size), not layout.visits),
            project,
            E if agent.projects else -1.0,
            agent.kernel,
            parameters,
            (layout.split(total), visible, prepared),
            tuple(self._planned),
            draws,
            replan,
            policies,
            releases,
            (np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty(H)),
        )
        return policies

    def kept(self) -> tuple[SumState, PrivateCounts, Planned]:
        """Returns copies: the block goes on with its own."""
        noise = {name: np.copy(x) if name == "array" else x for name, x in self._noise.items()}
        kept = SumState(self._users, self._total.copy(), noise)
        return kept, self.shown(self._released.copy(), kept.reads), self._planned.copy()

    def shown(self, row: NDArray[np.float64], version: int) -> PrivateCounts:
        """Returns the counts of a release."""
        mechanism = self._mechanism
        std = mechanism.sum.std_after(version) if isinstance(mechanism.sum, NoisySum) else 0.0
        return PrivateCounts(*mechanism.layout.split(row), mechanism.error, std=std, version=version)


class ValueBlocks(Blocks):
    """Blocks of RLSVI."""

    agent: RLSVI

    @property
    def release_size(self) -> int:
        """Q̃."""
        spec = self.agent.spec
        return spec.horizon * spec.states * spec.actions

    def begin(self) -> None:
        """Copies what is held of people, and the plan."""
        self._held: Held = self.agent.privatizer.reveal().copy()
        self._planned: Planned = self.agent.learned.copy()

    def play(
        self,
        mdp: FiniteMDP,
        draws: NDArray[np.float64],
        replan: NDArray[np.bool_],
        releases: NDArray[np.float64],
    ) -> NDArray[Any]:
        """In one compiled call."""
        from discreet.mdp import _kernels
        from discreet.privatizers.values import _kernels as kernels

        mechanism, marks, H = self.agent.mechanism, int(replan.sum()), self.agent.spec.horizon
        z = np.empty((marks, self.release_size))
        sources(self.agent)[2].fill("gaussian", 1.0, z)
        policies = np.empty((marks + 1, *self._planned.policy.shape), dtype=np.int64)
        kernels.play(
            _kernels.sample,
            tuple(mdp.sample_tables),
            mechanism.parameters,
            mechanism.layout.split(self._held.total),
            self._held.people,
            self._held.clocks,
            tuple(self._planned),
            draws,
            replan,
            z,
            policies,
            releases,
            (np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty(H)),
        )
        return policies

    def kept(self) -> tuple[Held, PerturbedValues, Planned]:
        """Returns copies: the block goes on with its own."""
        Q, V, policy = self._planned
        planned = Planned(Q.copy(), V.copy(), policy.copy())
        return self._held.copy(), PerturbedValues(planned.Q), planned

    def shown(self, row: NDArray[np.float64], version: int) -> PerturbedValues:
        """Returns the table of a release."""
        spec = self.agent.spec
        return PerturbedValues(row.reshape(spec.horizon, spec.states, spec.actions), version=version)


#: By the mechanism that they stand for.
BLOCKS: dict[type[Any], Callable[[Any], Blocks]] = {
    ExactCounts: CountBlocks,
    CentralCounts: CountBlocks,
    PerturbedTables: ValueBlocks,
}

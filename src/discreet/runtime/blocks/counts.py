"""Blocks of agents that plan on counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.privatizers import PrivateCounts
from discreet.runtime.blocks.base import NUMBERS, Blocks
from discreet.runtime.fast import sources
from discreet.sums import NoisySum, SumState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.tabular import Planned, TabularAgent
    from discreet.mdp import FiniteMDP
    from discreet.noise.fast import FastSource
    from discreet.privatizers.counts.serve import CentralCounts, ExactCounts, NoisyCounts

__all__ = ["CountBlocks", "LocalBlocks"]

# What a kernel is given for a sum without noise, and for people who add none.
_NO_NOISE = (np.zeros((0, 0)), np.zeros(0, dtype=np.int64), np.zeros((0, 0)), np.zeros((0, 0)))
_NOTHING = (np.zeros((0, 0)), np.zeros(0))


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

        agent, mechanism, marks = self.agent, self._mechanism, int(replan.sum())
        total, released, layout, H = self._total, self._released, mechanism.layout, agent.spec.horizon
        advance, noise, own = self._drawn(len(draws), marks)
        self._users += len(draws)
        E, parameters = agent.constants(mechanism.error)
        visible = layout.split(released)
        prepared = (*(np.empty_like(x) for x in visible[:2]), visible[2]) if agent.projects else visible
        policies = np.empty((marks + 1, *self._planned.policy.shape), dtype=self._planned.policy.dtype)
        block.play(
            _kernels.sample_mixed if agent.mixed else _kernels.sample,
            tuple(mdp.sample_tables),
            advance,
            (total, released, *noise, np.empty(layout.size), not layout.visits, *own),
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

    def _drawn(self, people: int, marks: int) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """Returns what turns fresh noise into that of a read, what it needs, and what people add by themselves."""
        from discreet.sums import _kernels

        sum_ = self._mechanism.sum
        if not isinstance(sum_, NoisySum):
            self._noise["reads"] += marks
            return _kernels.advance_tree, _NO_NOISE, _NOTHING
        z, shape = np.empty((marks, sum_.size)), sum_.factorisation
        self.source.fill(sum_.distribution, sum_.scale, z)
        depths = shape.depths(self._noise, marks)
        return shape.kernel, (shape.coefficients, depths, z, self._noise["array"]), _NOTHING

    def kept(self) -> tuple[Any, PrivateCounts, Planned]:
        """Returns copies: the block goes on with its own."""
        noise = {name: np.copy(x) if name == "array" else x for name, x in self._noise.items()}
        kept = SumState(self._users, self._total.copy(), noise)
        return kept, self.shown(self._released.copy(), kept.reads, kept.users), self._planned.copy()

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateCounts:
        """Returns the counts of a release."""
        mechanism = self._mechanism
        std = mechanism.sum.std_after(version) if isinstance(mechanism.sum, NoisySum) else 0.0
        return PrivateCounts(*mechanism.layout.split(row), mechanism.error, std=std, version=version)


class LocalBlocks(CountBlocks):
    """Blocks of agents that plan on vectors which everybody hides by themselves: noise comes from the users' source."""

    @property
    def _mechanism(self) -> NoisyCounts:  # type: ignore[override]
        found: NoisyCounts = self.agent.privatizer.mechanism  # type: ignore[assignment]
        return found

    @property
    def source(self) -> FastSource:
        """The users'."""
        return sources(self.agent)[0]

    @property
    def people(self) -> int:
        """Everybody draws as many numbers as a release has."""
        return max(1, min(super().people, NUMBERS // self.release_size))

    def begin(self) -> None:
        """Copies what everybody sent; one vector is for whoever plays, another for those of a batch that is open."""
        self._users, sent = self.agent.privatizer.reveal()
        self._released = sent.copy()
        self._total, self._batch = np.zeros_like(sent), np.zeros_like(sent)
        self._planned = self.agent.learned.copy()

    def _drawn(self, people: int, marks: int) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """Everybody draws as their encoder does."""
        from discreet.sums import _kernels

        encoder = self._mechanism.encoder
        hidden = self.source.noise(encoder.distribution, encoder.scale, (people, self.release_size))
        return _kernels.advance_tree, _NO_NOISE, (hidden, self._batch)

    def kept(self) -> tuple[tuple[int, NDArray[np.float64]], PrivateCounts, Planned]:
        """Returns copies: the block goes on with its own."""
        kept = self._users, self._released.copy()
        return kept, self.shown(kept[1], 0, self._users), self._planned.copy()

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateCounts:
        """Returns the counts of a release: the mechanism draws nothing for it."""
        _, found = self._mechanism.released((users, row), self.source)
        return replace(found, version=version)

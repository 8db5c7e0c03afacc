"""Blocks of agents whose people answer about one step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from discreet.privatizers.sampled.serve import Supports
from discreet.runtime.blocks.base import Rounds
from discreet.runtime.fast import sources

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.tabular import Planned, TabularAgent
    from discreet.noise.fast import FastSource
    from discreet.privatizers import PrivateCounts

__all__ = ["SampledBlocks"]


class SampledBlocks(Rounds):
    """Everybody draws as their encoder does; the server debiases what they sent."""

    agent: TabularAgent
    _last: PrivateCounts

    @property
    def source(self) -> FastSource:
        """The users'."""
        return sources(self.agent)[0]

    @property
    def release_size(self) -> int:
        """How many said what about each step, and how many there were."""
        steps = self.mechanism.layout.steps
        return int(steps * (self.mechanism.encoder.randomiser.size + 1))

    def begin(self) -> None:
        """Copies what everybody sent."""
        super().begin()
        kept: Supports = self.agent.privatizer.reveal()
        self._kept = kept._replace(supports=kept.supports.copy(), users=kept.users.copy())

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Draws a step, a reward bit and an answer for everybody, in the encoder's order."""
        encoder, source, (collected, supports, users) = self.mechanism.encoder, self.source, self._kept
        H, S, A = self.agent.spec.horizon, self.agent.spec.states, self.agent.spec.actions
        for k in range(len(states)):
            h = source.integer(H)
            bit = source.chance() < rewards[k, h]
            value = ((states[k, h] * A + actions[k, h]) * S + states[k, h + 1]) * 2 + bit
            step = 0 if encoder.layout.stationary else h
            supports[step] += encoder.randomiser.report(int(value), source)
            users[step] += 1
        self._kept = self._kept._replace(collected=collected + len(states))

    def release(self) -> tuple[NDArray[np.float64], PrivateCounts]:
        """Debiases."""
        row = np.concatenate([self._kept.supports.ravel(), self._kept.users])
        self._last = self.mechanism.released(self._kept, self.source)[1]
        return row, self._last

    def kept(self) -> tuple[Supports, PrivateCounts, Planned]:
        """Returns copies: the block goes on with its own."""
        kept = self._kept._replace(supports=self._kept.supports.copy(), users=self._kept.users.copy())
        return kept, self._last, self._planned

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateCounts:
        """Returns the counts of a release: the mechanism draws nothing for it."""
        steps = self.mechanism.layout.steps
        kept = Supports(users, row[:-steps].reshape(steps, -1), row[-steps:])
        found: PrivateCounts = self.mechanism.released(kept, self.source)[1]
        return replace(found, version=version)

"""Blocks of agents that plan on sums of feature products."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.privatizers.features.serve import PrivateGrams
from discreet.runtime.blocks.base import Rounds
from discreet.runtime.fast import sources
from discreet.sums import NoisySum, SumState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.linear import LinearAgent
    from discreet.agents.rounds import Proposal
    from discreet.agents.tabular import Planned
    from discreet.noise.fast import FastSource

__all__ = ["FeatureBlocks", "LocalFeatureBlocks"]


class FeatureBlocks(Rounds):
    """Blocks of linear agents whose server is trusted."""

    agent: LinearAgent
    _kept: Any
    _last: PrivateGrams

    @property
    def release_size(self) -> int:
        """All sums."""
        return int(self.mechanism.layout.size)

    def begin(self) -> None:
        """Copies the total; noise is never changed in place."""
        super().begin()
        layout, spec = self.mechanism.layout, self.agent.features
        features = (spec.reward_features, spec.offsets, spec.successors, spec.coordinates, spec.weights)
        units = layout.triangle(0), layout.unit(1), layout.triangle(2), layout.unit(3)
        self._public = features, (layout.feature_bounds, layout.value_bounds), units
        self._work = np.zeros(spec.reward_dimension), np.zeros(spec.dimension)
        self._open()

    def _open(self) -> None:
        kept: SumState = self.agent.privatizer.reveal()
        self._kept = kept._replace(total=kept.total.copy())

    def add(self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Adds their products."""
        from discreet.runtime._kernels import features

        (known, bounds, units), rows = self._public, np.empty((len(states), self.release_size))
        features.contribute(known, self._planned.V, bounds, units, states, actions, rewards, self._work, rows)
        self._add(rows)

    def _add(self, rows: NDArray[np.float64]) -> None:
        from discreet.runtime._kernels import features

        features.add_rows(self._kept.total, rows)
        self._kept = self._kept._replace(users=self._kept.users + len(rows))

    def release(self) -> tuple[NDArray[np.float64], PrivateGrams]:
        """Draws the noise of the sum."""
        self._kept, row = self.mechanism.sum.released(self._kept, self.source)
        self._last = self.shown(row, self._kept.reads, self._kept.users)
        return row, self._last

    def kept(self) -> tuple[Any, PrivateGrams, Planned]:
        """Returns a copy of the total: the block goes on with its own."""
        return self._kept._replace(total=self._kept.total.copy()), self._last, self._planned

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateGrams:
        """Returns the sums of a release."""
        mechanism = self.mechanism
        std = mechanism.sum.std_after(version) if isinstance(mechanism.sum, NoisySum) else 0.0
        return replace(PrivateGrams.of(mechanism.layout, row, mechanism.error, std), version=version)

    def proposed(self, planned: Planned, size: int) -> Proposal:
        """The encoder carries V."""
        return planned.proposal(size, values=planned.V.copy())


class LocalFeatureBlocks(FeatureBlocks):
    """Blocks of linear agents whose people add noise to their own vectors."""

    @property
    def source(self) -> FastSource:
        """The users'."""
        return sources(self.agent)[0]

    def _open(self) -> None:
        self._kept = self.agent.privatizer.reveal()
        self._batch = np.zeros(self.release_size)

    def _add(self, rows: NDArray[np.float64]) -> None:
        from discreet.runtime._kernels import features

        users, total = self._kept
        features.add_rows(self._batch, self.mechanism.encoder.perturb(rows, self.source))
        self._kept = users + len(rows), total

    def release(self) -> tuple[NDArray[np.float64], PrivateGrams]:
        """Adds the vectors of the batch."""
        users, total = self._kept
        self._kept, self._batch = (users, total + self._batch), np.zeros(self.release_size)
        self._last = self.shown(self._kept[1], 0, users)
        return self._kept[1], self._last

    def kept(self) -> tuple[Any, PrivateGrams, Planned]:
        """Nothing of it is changed in place."""
        return self._kept, self._last, self._planned

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateGrams:
        """Returns the sums of a release: the mechanism draws nothing for it."""
        found: PrivateGrams = self.mechanism.released((users, row), self.source)[1]
        return replace(found, version=version)

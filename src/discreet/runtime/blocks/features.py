"""Blocks of agents that plan on sums of feature products."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.privatizers.features.serve import PrivateGrams
from discreet.runtime.blocks.base import NUMBERS, Blocks
from discreet.runtime.fast import sources
from discreet.sums import NoisySum, SumState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.linear import LinearAgent
    from discreet.agents.rounds import Proposal
    from discreet.agents.tabular import Planned
    from discreet.mdp import FiniteMDP
    from discreet.noise.fast import FastSource

__all__ = ["FeatureBlocks", "LocalFeatureBlocks"]


class FeatureBlocks(Blocks):
    """Blocks of linear agents whose server is trusted: people are compiled, releases are those of the sum itself."""

    agent: LinearAgent
    _kept: Any

    @property
    def _mechanism(self) -> Any:
        return self.agent.privatizer.mechanism

    @property
    def release_size(self) -> int:
        """All sums."""
        return int(self._mechanism.layout.size)

    @property
    def people(self) -> int:
        """Everybody has as many numbers as a release."""
        return max(1, min(super().people, NUMBERS // self.release_size))

    def begin(self) -> None:
        """Copies totals and plan."""
        layout, spec = self._mechanism.layout, self.agent.features
        units = layout.triangle(0), layout.unit(1), layout.triangle(2), layout.unit(3)
        features = (spec.reward_features, spec.offsets, spec.successors, spec.coordinates, spec.weights)
        self._public = features, (layout.feature_bounds, layout.value_bounds), units
        self._work = np.zeros(spec.reward_dimension), np.zeros(spec.dimension)
        self._planned: Planned = self.agent.learned
        self._open()

    def _open(self) -> None:
        """Copies what the server keeps; of it, noise is never changed in place."""
        kept: SumState = self.agent.privatizer.reveal()
        self._kept = kept._replace(total=kept.total.copy())

    def _add(self, rows: NDArray[np.float64]) -> None:
        """Adds what people send."""
        from discreet.runtime._kernels import features

        features.add_rows(self._kept.total, rows)
        self._kept = self._kept._replace(users=self._kept.users + len(rows))

    def _release(self) -> NDArray[np.float64]:
        """Returns what is released at the end of a batch."""
        found: NDArray[np.float64]
        self._kept, found = self._mechanism.sum.released(self._kept, self.source)
        return found

    def play(
        self,
        mdp: FiniteMDP,
        draws: NDArray[np.float64],
        replan: NDArray[np.bool_],
        releases: NDArray[np.float64],
    ) -> NDArray[Any]:
        """Batch by batch; the last one may go on in the next call."""
        from discreet.mdp import _kernels
        from discreet.runtime._kernels import features

        people, H, (known, bounds, units) = len(draws), self.agent.spec.horizon, self._public
        sample = _kernels.sample_many_mixed if self.agent.mixed else _kernels.sample_many
        tables, rows = tuple(mdp.sample_tables), np.empty((people, self.release_size))
        states, actions = np.empty((people, H + 1), dtype=np.int64), np.empty((people, H), dtype=np.int64)
        rewards, policies, marks = np.empty((people, H)), [self._planned.policy], int(replan.sum())
        for first, end in pairwise([0, *(np.flatnonzero(replan) + 1).tolist(), people]):
            own = slice(first, end)
            episodes = states[own], actions[own], rewards[own]
            sample(tables, self._planned.policy, draws[own], *episodes)
            features.contribute(known, self._planned.V, bounds, units, *episodes, self._work, rows[own])
            self._add(rows[own])
            if len(policies) > marks:
                break
            self._released = self._release()
            if len(releases):
                releases[len(policies) - 1] = self._released
            self._planned = self.agent.planned(self._planned, self._shown(self._released))
            policies.append(self._planned.policy)
        return np.array(policies)

    def _shown(self, row: NDArray[np.float64]) -> PrivateGrams:
        return self.shown(row, self._kept.reads, self._kept.users)

    def kept(self) -> tuple[Any, PrivateGrams, Planned]:
        """Returns copies of what is changed in place: the total."""
        kept = self._kept._replace(total=self._kept.total.copy())
        return kept, self._shown(self._released), self._planned

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateGrams:
        """Returns the sums of a release."""
        mechanism = self._mechanism
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
        features.add_rows(self._batch, self._mechanism.encoder.perturb(rows, self.source))
        self._kept = users + len(rows), total

    def _release(self) -> NDArray[np.float64]:
        users, total = self._kept
        found: NDArray[np.float64] = total + self._batch
        self._kept, self._batch = (users, found), np.zeros(self.release_size)
        return found

    def _shown(self, row: NDArray[np.float64]) -> PrivateGrams:
        return self.shown(row, 0, self._kept[0])

    def kept(self) -> tuple[Any, PrivateGrams, Planned]:
        """Nothing of it is changed in place."""
        return self._kept, self._shown(self._released), self._planned

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PrivateGrams:
        """Returns the sums of a release: the mechanism draws nothing for it."""
        found: PrivateGrams = self._mechanism.released((users, row), self.source)[1]
        return replace(found, version=version)

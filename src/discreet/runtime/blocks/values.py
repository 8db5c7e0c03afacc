"""Blocks of RLSVI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.tabular import Planned
from discreet.privatizers.values.serve import Held, PerturbedValues
from discreet.runtime.blocks.base import Blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.rlsvi import RLSVI
    from discreet.mdp import FiniteMDP

__all__ = ["ValueBlocks"]


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
        self.source.fill("gaussian", 1.0, z)
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

    def shown(self, row: NDArray[np.float64], version: int, users: int) -> PerturbedValues:
        """Returns the table of a release."""
        spec = self.agent.spec
        return PerturbedValues(row.reshape(spec.horizon, spec.states, spec.actions), version=version)

"""What runs at the user: the only code outside a simulator that sees a raw trajectory. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discreet.privacy.messages import RawReport

if TYPE_CHECKING:
    from discreet.mdp import Trajectory
    from discreet.privatizers.layout import Layout

__all__ = ["RawEncoder"]


@dataclass(frozen=True)
class RawEncoder:
    """Sends the user's exact contribution to a server that is trusted with it.

    Guarantee:
        None by itself: the report is raw.
    """

    layout: Layout

    def encode(self, trajectory: Trajectory, rng: np.random.Generator | None = None) -> RawReport:
        """Returns 1 for each n_h(s,a) and m_h(s,a,s') visited, and the reward for r_h(s,a): 3H coordinates."""
        layout, spec = self.layout, self.layout.spec
        trajectory.check(spec)
        h = np.zeros(spec.horizon, dtype=np.int64) if layout.stationary else np.arange(spec.horizon)
        cell = (h * spec.states + trajectory.states[:-1]) * spec.actions + trajectory.actions
        transition = layout.cells + cell * spec.states + trajectory.states[1:]
        reward = layout.cells * (spec.states + 1) + cell
        ones = np.ones(spec.horizon)
        return RawReport(np.concatenate([cell, transition, reward]), np.concatenate([ones, ones, trajectory.rewards]))

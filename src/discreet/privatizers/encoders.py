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
        """Returns 1 for each n_h(s,a) and m_h(s,a,s') visited and the reward for r_h(s,a), H coordinates a family."""
        layout, spec = self.layout, self.layout.spec
        trajectory.check(spec)
        h = np.zeros(spec.horizon, dtype=np.int64) if layout.stationary else np.arange(spec.horizon)
        cell = (h * spec.states + trajectory.states[:-1]) * spec.actions + trajectory.actions
        m, r = layout.starts
        indices = [cell, m + cell * spec.states + trajectory.states[1:], r + cell]
        values = [np.ones(spec.horizon), np.ones(spec.horizon), trajectory.rewards]
        first = 0 if layout.visits else 1
        return RawReport(np.concatenate(indices[first:]), np.concatenate(values[first:]))

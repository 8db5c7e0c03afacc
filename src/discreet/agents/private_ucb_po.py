"""Private-UCB-PO: optimistic policy optimisation on private counts.

Notation as in `discreet.agents.private_ucb_vi`. After every batch the current policy π is evaluated backwards from
Ṽ_{H+1} = 0 and then improved:

    b_r = L/√n̄ + 3E₁/n̄,   b_p = H·(L_p/√n̄ + (S·E₂ + 2E₁)/n̄),   L_p = √(4S ln(6SAT/β))
    Q = clip(r̃ + P̃Ṽ_{h+1} + b_r + b_p, 0, H−h+1),   Ṽ_h = ⟨Q, π⟩,   π ← π·exp(ηQ), normalised,

from the uniform policy on, with η = √(2 ln A/(H²K)).

The preset ``practical`` scales the bonus as `discreet.agents.private_ucb_vi` does, with 0.01·(L + H·L_p)/√n̄ because L_p
is larger, and counts updates in η instead of episodes, which is the same if every episode is one:
η = 50·√(2 ln A/(H²·updates)). No theorem is claimed for it.

References:
    Chowdhury and Zhou (2022), Differentially private regret minimization in episodic Markov decision processes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from discreet.agents.private_ucb_vi import PrivateUCBVI

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PrivateUCBPO"]


class PrivateUCBPO(PrivateUCBVI):
    """Private-UCB-PO (Chowdhury and Zhou 2022): optimistic policy optimisation.

    Guarantee:
        That of its private counts: planning is post-processing.
    """

    name = "private-ucb-po"
    fast = True
    mixed = True
    rate_scale = 0.01

    @property
    def kernel(self) -> Callable[..., None]:
        """The compiled planner."""
        from discreet.agents._kernels import private_ucb

        found: Callable[..., None] = private_ucb.plan_po
        return found

    def _rate(self) -> float:
        """Returns the coefficient of 1/√n̄ in b_r + b_p."""
        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        T = self.episodes * H
        L = math.sqrt(2 * math.log(4 * S * A * T / self.failure))
        L_p = math.sqrt(4 * S * math.log(6 * S * A * T / self.failure))
        return L + H * L_p

    def parameters(self, E: float) -> NDArray[np.float64]:
        """Returns the constants of the bonus and the step, in the kernel's order."""
        from discreet.agents._kernels import private_ucb as k

        A, H = self.spec.actions, self.spec.horizon
        c = super().parameters(E)
        updates = self.episodes if self.preset == "theory" else max(1, len(self.batches))
        c[k.ETA] = math.sqrt(2 * math.log(A) / (H**2 * updates))
        if self.preset == "practical":
            c[k.ETA] *= 50
        return c

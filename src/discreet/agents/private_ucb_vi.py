"""Private-UCB-VI: optimistic value iteration with Hoeffding bonuses on private counts.

Notation: Ñ, m̃, R̃ are the private counts; E₁ bounds the noise of Ñ and R̃, E₂ that of m̃ (here one bound E covers all);
T = KH, β = ``failure``; n̄ = max(Ñ + E₁, 1), r̃ = R̃/n̄, P̃ = m̃/n̄, without projection.

After every batch it plans backwards from Ṽ_{H+1} = 0:

    b_r = L/√n̄ + 3E₁/n̄,   b_p = H·L/√n̄ + H(S·E₂ + 2E₁)/n̄,   L = √(2 ln(4SAT/β))
    Q = clip(r̃ + P̃Ṽ_{h+1} + b_r + b_p, 0, H−h+1),   greedy.

The preset ``practical`` takes a hundredth of the bound for E and scales the bonus; no theorem is claimed for it:

    b = 0.04·(L + H·L)/√n̄ + ½·(1 + √S·H/2)·E/n̄,   and Q = H−h+1 where Ñ + E < 1.

The last clause is for what nobody has visited: there P̃ = 0, and no bonus as small as this one is optimistic.

References:
    Chowdhury and Zhou (2022), Differentially private regret minimization in episodic Markov decision processes: the
    comparison system of the tables of Qiao and Wang (2023) and Bai et al. (2025).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from discreet.agents.tabular import TabularAgent

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["PrivateUCBVI"]


class PrivateUCBVI(TabularAgent):
    """Private-UCB-VI (Chowdhury and Zhou 2022): optimistic value iteration with Hoeffding bonuses.

    Guarantee:
        That of its private counts: planning is post-processing.
    """

    name = "private-ucb-vi"
    fast = True
    rate_scale: ClassVar[float] = 0.04  # of the practical preset

    @property
    def kernel(self) -> Callable[..., None]:
        """The compiled planner."""
        from discreet.agents._kernels import private_ucb

        found: Callable[..., None] = private_ucb.plan_vi
        return found

    def error_bound(self, error: float) -> float:
        """Returns E₁ = E₂."""
        return error if self.preset == "theory" else 0.01 * error

    def _rate(self) -> float:
        """Returns the coefficient of 1/√n̄ in b_r + b_p."""
        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        T = self.episodes * H
        L = math.sqrt(2 * math.log(4 * S * A * T / self.failure))
        return L + H * L

    def parameters(self, E: float) -> NDArray[np.float64]:
        """Returns the constants of the bonus, in the kernel's order."""
        from discreet.agents._kernels import private_ucb as k

        S, H = self.spec.states, self.spec.horizon
        c = np.zeros(5)
        c[k.ERROR] = E
        if self.preset == "theory":
            c[k.RATE] = self._rate()
            c[k.LINEAR] = 3 * E + H * (S * E + 2 * E)  # 3E₁ + H(S·E₂ + 2E₁)
        else:
            c[k.UNSEEN] = 1
            c[k.RATE] = self.rate_scale * self._rate()
            c[k.LINEAR] = 0.5 * (1 + math.sqrt(S) * H / 2) * E
        c[[k.RATE, k.LINEAR]] *= self.bonus_scale
        return c

"""LinOpt-PO: optimistic policy optimisation with linear regressions on private sums.

Notation and widths as in `discreet.agents.linear`. After every batch the policy is improved by the Q that it was
planned with, and then evaluated backwards from V_{H+1} = 0 (Algorithm 2):

    π ← π·exp(ηQ), normalised;   Q_h as in LinOpt-VI,   V_h = ⟨Q_h, π_h⟩,

from the uniform policy on, with η = √(2 ln A/(H·T)), T = KH. The preset ``practical`` counts updates instead of
episodes in η, which is the same if every episode is one, times 10.

References:
    Zhou (2022), Algorithm 2, Theorem 5.1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from discreet.agents.linear import LinearAgent

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.agents.tabular import Planned

__all__ = ["LinOptPO"]


class LinOptPO(LinearAgent):
    """LinOpt-PO (Zhou 2022): optimistic policy optimisation in linear mixture MDPs.

    Guarantee:
        That of its private sums: planning is post-processing.
    """

    name = "linopt-po"
    fast = True
    mixed = True

    @property
    def kernel(self) -> Callable[..., tuple[int, int]]:
        """The compiled planner."""
        from discreet.agents._kernels import linopt

        found: Callable[..., tuple[int, int]] = linopt.plan_po
        return found

    @property
    def step(self) -> float:
        """η."""
        A, H = self.spec.actions, self.spec.horizon
        if self.preset == "theory":
            return math.sqrt(2 * math.log(A) / (H * self.episodes * H))
        return 10 * math.sqrt(2 * math.log(A) / (H * max(1, len(self.batches)) * H))

    def _next(self, before: Planned) -> Planned:
        """Returns arrays for the next Q and V, and the improved policy (line 15); before the first plan Q is 0."""
        from discreet.agents._kernels import linopt

        found = super()._next(before)
        linopt.improve(self.step, found.Q, found.policy)
        return found

"""LinOpt-VI: optimistic value iteration with linear regressions on private sums.

Notation and widths as in `discreet.agents.linear`. After every batch it plans backwards from V_{H+1} = 0 (Algorithm 1):

    Q_h = max{0, min{H−h+1, ⟨φ, θ̂_r⟩ + ⟨φ_h, θ̂_p⟩ + β_p·‖φ_h‖_{Λ_p⁻¹} + β_r·‖φ‖_{Λ_r⁻¹}}},   V_h = max_a Q_h,   greedy.

References:
    Zhou (2022), Algorithm 1, Theorem 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.agents.linear import LinearAgent

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LinOptVI"]


class LinOptVI(LinearAgent):
    """LinOpt-VI (Zhou 2022): optimistic value iteration in linear mixture MDPs.

    Guarantee:
        That of its private sums: planning is post-processing.
    """

    name = "linopt-vi"
    fast = True

    @property
    def kernel(self) -> Callable[..., tuple[int, int]]:
        """The compiled planner."""
        from discreet.agents._kernels import linopt

        found: Callable[..., tuple[int, int]] = linopt.plan_vi
        return found

"""UCBVI with Bernstein bonuses: the non-private base of DP-UCBVI.

Notation: N, M, R are the counts Ñ_h(s,a), Ñ_h(s,a,s') and the reward sums R̃_h(s,a); P̃ = M/N, r̃ = clip(R/N, 0, 1);
E bounds the error of the counts (0 here), T = KH, ι = ln(30·H·S·A·T/β) with β = ``failure``.

Every episode plans backwards from Ṽ_{H+1} = 0 (Algorithm 1, lines 4 to 15):

    Q_k(h,s,a) = min{Q_{k−1}(h,s,a), H, r̃ + P̃Ṽ_{h+1} + b},     and H where N = 0

with the bonus of line 8, where max(E, 1) stands for the paper's E and the last term is 0 at h = H:

    b = 2√(Var_P̃(Ṽ)·ι/N) + √(2ι/N) + 20·H·S·E·ι/N
        + 4√ι·√(Σ_{s'} P̃(s')·min{10⁶H³SAι²/N' + 10⁶H⁴S⁴A²E²ι⁴/N'² + 10⁶H⁶S⁴A²ι⁴/N'², H²}/N),   N' = Σ_a N_{h+1}(s',a).

The preset ``practical`` keeps the form of an empirical Bernstein bound with constants that learn in thousands of
episodes instead of billions; no theorem is claimed for it:

    b = ½√((Var_P̃(Ṽ) + r̃(1−r̃))·ι/N) + 0.06·(1 + max Ṽ_{h+1} − min Ṽ_{h+1})·ι/N,    Q ≤ H−h+1.

r̃(1−r̃) is the largest variance of a reward in [0, 1] with mean r̃.

References:
    Qiao and Wang (2023), Algorithm 1 and eq. (1); Azar, Osband and Munos (2017), bonus 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.base import TabularAgent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["UCBVI"]


class UCBVI(TabularAgent):
    """UCBVI with Bernstein bonuses (Azar et al. 2017): the non-private base of DP-UCBVI.

    Guarantee:
        None: notion ``"none"``.
    """

    name = "ucbvi"

    @property
    def kernel(self) -> Any:
        """The compiled planner."""
        from discreet.agents._kernels import ucbvi

        return ucbvi.plan

    def parameters(self) -> NDArray[np.float64]:
        """Returns the constants of the bonus, in the kernel's order."""
        from discreet.agents._kernels import ucbvi as k

        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        T = self.episodes * H
        iota = math.log(30 * H * S * A * T / self.failure)  # line 2
        E = 1.0  # max(E, 1) with exact counts
        c = np.zeros(10)
        c[k.IOTA] = iota
        if self.preset == "theory":
            c[k.VARIANCE] = 2
            c[k.REWARD] = 1
            c[k.LOWER] = 20 * H * S * E
            c[k.CORRECTION] = 4
            c[k.FIRST] = 1e6 * H**3 * S * A * iota**2
            c[k.SECOND] = 1e6 * H**4 * S**4 * A**2 * E**2 * iota**4 + 1e6 * H**6 * S**4 * A**2 * iota**4
        else:
            c[k.VARIANCE] = 0.5
            c[k.REWARD_VARIANCE] = 1
            c[k.LOWER] = c[k.SPAN] = 0.06
            c[k.CAP] = 1
        c[[k.VARIANCE, k.REWARD, k.LOWER, k.SPAN, k.CORRECTION]] *= self.bonus_scale
        return c

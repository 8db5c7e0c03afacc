"""UBEV: the non-private base of PUCB.

Notation: n, m, r are the counts ñ_h(s,a), m̃_h(s,a,s') and the reward *sums* r̃_h(s,a); E bounds their error (0 here);
T is the number of *episodes* in this paper, β' = β/4 with β = ``failure``.

Every episode plans backwards from Ṽ_{H+1} = 0 (PrivQ, Algorithm 3):

    φ = √(2 ln(T/β') / max(n − E, 1)),   ψ = (1 + SH)(3E/n + 2E²/n²),   conf = (H+1)φ + ψ
    Q⁺ = min{H, (r + Σ_{s'} Ṽ_{h+1}(s')·m(s'))/n + conf},   and H where n < 2E or n ≤ 0.

The preset ``practical`` multiplies conf by 0.04 and uses Q⁺ ≤ H−h+1; no theorem is claimed for it.

References:
    Vietri et al. (2020), Algorithms 2 and 3, Lemma 15; Dann, Lattimore and Brunskill (2017).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.base import TabularAgent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["UBEV"]


class UBEV(TabularAgent):
    """UBEV with Hoeffding bonuses (Dann et al. 2017): the non-private base of PUCB.

    Guarantee:
        None: notion ``"none"``.
    """

    name = "ubev"

    @property
    def kernel(self) -> Any:
        """The compiled planner."""
        from discreet.agents._kernels import ubev

        return ubev.plan

    def parameters(self) -> NDArray[np.float64]:
        """Returns the constants of the bonus, in the kernel's order."""
        from discreet.agents._kernels import ubev as k

        S, H = self.spec.states, self.spec.horizon
        practical = self.preset == "practical"
        scale = self.bonus_scale * (0.04 if practical else 1.0)
        c = np.zeros(5)
        c[k.LOG] = math.log(self.episodes / (self.failure / 4))  # ln(T/β')
        c[k.SAMPLING] = scale * (H + 1)
        c[k.NOISE] = scale * (1 + S * H)
        c[k.CAP] = practical
        return c

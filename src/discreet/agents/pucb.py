"""PUCB: optimism with Hoeffding bonuses on private counts.

Notation: n, m, r are the private counts ñ_h(s,a), m̃_h(s,a,s') and the reward *sums* r̃_h(s,a); E bounds their error; T
is the number of *episodes* in this paper, β' = β/4 with β = ``failure``.

After every batch it plans backwards from Ṽ_{H+1} = 0 (PrivQ, Algorithm 3):

    φ = √(2 ln(T/β') / max(n − E, 1)),   ψ = (1 + SH)(3E/n + 2E²/n²),   conf = (H+1)φ + ψ
    Q⁺ = min{H, (r + Σ_{s'} Ṽ_{h+1}(s')·m(s'))/n + conf},   and H where n < 2E or n ≤ 0.

The last clause is a correction: Lemma 15 needs n ≥ 2E, and conf alone does not reach H below that. E is the exact
bound on the noise at β'; for the Laplace tree the theory takes the printed bound where that is larger (Section 4):

    E_ε = (3/ε)·H·ln((2SAH + S²AH)/β')·ln(T)^{5/2}.

The preset ``practical`` takes a hundredth of the bound for E, because 1 + SH is a worst case, multiplies conf by 0.04
and uses Q⁺ ≤ H−h+1; no theorem is claimed for it. Without noise this is UBEV.

References:
    Vietri et al. (2020), Algorithms 2 and 3, Section 4, Lemma 15; Dann, Lattimore and Brunskill (2017).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet.agents.tabular import TabularAgent
from discreet.privacy import Central

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["PUCB"]


class PUCB(TabularAgent):
    """PUCB (Vietri et al. 2020): optimism with Hoeffding bonuses on private counts.

    Guarantee:
        That of its private counts: planning is post-processing.
    """

    name = "pucb"
    fast = True
    share = 1 / 4  # β' = β/4

    @property
    def kernel(self) -> Callable[..., None]:
        """The compiled planner."""
        from discreet.agents._kernels import pucb

        found: Callable[..., None] = pucb.plan
        return found

    def error_bound(self, error: float) -> float:
        """Returns the bound on the error of the counts that the bonus uses."""
        if self.preset == "practical":
            return 0.01 * error
        if (self.mechanism.name, self.mechanism.noise) != ("tree", "laplace") or not isinstance(self.privacy, Central):
            return error
        S, A, H, T = self.spec.states, self.spec.actions, self.spec.horizon, self.episodes
        logarithm = math.log((2 * S * A * H + S * S * A * H) / (self.failure / 4))
        printed = 3 / self.privacy.epsilon * H * logarithm * math.log(T) ** 2.5  # E_ε, Section 4
        return float(max(printed, error))

    def parameters(self, E: float) -> NDArray[np.float64]:
        """Returns the constants of the bonus, in the kernel's order."""
        from discreet.agents._kernels import pucb as k

        S, H = self.spec.states, self.spec.horizon
        practical = self.preset == "practical"
        scale = self.bonus_scale * (0.04 if practical else 1.0)
        c = np.zeros(5)
        c[k.LOG] = math.log(self.episodes / (self.failure / 4))  # ln(T/β')
        c[k.ERROR] = E
        c[k.SAMPLING] = scale * (H + 1)
        c[k.NOISE] = scale * (1 + S * H)
        c[k.CAP] = practical
        return c

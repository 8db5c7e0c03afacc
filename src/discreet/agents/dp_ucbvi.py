"""DP-UCBVI: optimism with Bernstein bonuses on projected private counts.

Notation: N, M, R are the private counts Ñ_h(s,a), Ñ_h(s,a,s') and the reward sums R̃_h(s,a) after the projection of
Section 5.1.1 (`discreet.privatizers.project`); P̃ = M/N, r̃ = clip(R/N, 0, 1); E = 4·(the bound on the noise at β/3) is
that of Assumption 3.1; T = KH, ι = ln(30·H·S·A·T/β) with β = ``failure``.

After every batch it plans backwards from Ṽ_{H+1} = 0 (Algorithm 1, lines 4 to 15):

    Q_k(h,s,a) = min{Q_{k−1}(h,s,a), H, r̃ + P̃Ṽ_{h+1} + b},     and H where N ≤ 0

with the bonus of line 8, where max(E, 1) stands for the paper's E and the last term is 0 at h = H:

    b = 2√(Var_P̃(Ṽ)·ι/N) + √(2ι/N) + 20·H·S·E·ι/N
        + 4√ι·√(Σ_{s'} P̃(s')·min{10⁶H³SAι²/N' + 10⁶H⁴S⁴A²E²ι⁴/N'² + 10⁶H⁶S⁴A²ι⁴/N'², H²}/N),   N' = Σ_a N_{h+1}(s',a).

The preset ``practical`` keeps the form of an empirical Bernstein bound with constants that learn in thousands of
episodes instead of billions; no theorem is claimed for it. It takes a twentieth of the bound on the noise for E, about
σ/4 for its standard deviation σ, and does without the memory of Q_{k−1}, which keeps the mistakes of noisy early reads:

    b = ½√((Var_P̃(Ṽ) + r̃(1−r̃))·ι/N) + 0.06·(1 + span Ṽ_{h+1})·ι/N + 0.4·(1 + √S·span Ṽ_{h+1}/2)·E/N,    Q ≤ H−h+1.

r̃(1−r̃) is the largest variance of a reward in [0, 1] with mean r̃; σ√S·span/2 bounds the deviation of the noise in Σ M·Ṽ.
E is small because the projection adds E/2 to every N, and what was never visited must not look known. Without noise
this is UCBVI.

References:
    Qiao and Wang (2023), Algorithm 1, eq. (1), Assumption 3.1 and Section 5.1.1; Azar, Osband and Munos (2017).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet.agents.tabular import TabularAgent

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["DPUCBVI"]


class DPUCBVI(TabularAgent):
    """DP-UCBVI (Qiao and Wang 2023): optimism with Bernstein bonuses on projected private counts.

    Guarantee:
        That of its private counts: projection and planning are post-processing.
    """

    name = "dp-ucbvi"
    fast = True
    share = 1 / 3  # β/3, Lemma 5.1
    projects = True

    @property
    def kernel(self) -> Callable[..., None]:
        """The compiled planner."""
        from discreet.agents._kernels import dp_ucbvi

        found: Callable[..., None] = dp_ucbvi.plan
        return found

    def error_bound(self, error: float) -> float:
        """Returns Assumption 3.1's E, of which the projection allows a quarter."""
        return 4 * error if self.preset == "theory" else 0.05 * error

    def parameters(self, E: float) -> NDArray[np.float64]:
        """Returns the constants of the bonus, in the kernel's order."""
        from discreet.agents._kernels import dp_ucbvi as k

        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        T = self.episodes * H
        iota = math.log(30 * H * S * A * T / self.failure)  # line 2
        c = np.zeros(13)
        c[k.IOTA] = iota
        if self.preset == "theory":
            E = max(E, 1.0)
            c[k.VARIANCE] = 2
            c[k.REWARD] = 1
            c[k.LOWER] = 20 * H * S * E
            c[k.CORRECTION] = 4
            c[k.FIRST] = 1e6 * H**3 * S * A * iota**2
            c[k.SECOND] = 1e6 * H**4 * S**4 * A**2 * E**2 * iota**4 + 1e6 * H**6 * S**4 * A**2 * iota**4
            c[k.MEMORY] = 1
        else:
            c[k.VARIANCE] = 0.5
            c[k.REWARD_VARIANCE] = 1
            c[k.LOWER] = c[k.SPAN] = 0.06
            c[k.NOISE] = 0.4 * E
            c[k.NOISE_SPAN] = 0.4 * E * math.sqrt(S) / 2
            c[k.CAP] = 1
            c[k.MEMORY] = E == 0  # without noise a lower Q is a better one
        bonus = [k.VARIANCE, k.REWARD, k.LOWER, k.SPAN, k.CORRECTION, k.NOISE, k.NOISE_SPAN]
        c[bonus] *= self.bonus_scale
        return c

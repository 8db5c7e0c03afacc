"""UCBVI with Bernstein bonuses: `discreet.agents.dp_ucbvi` with exact counts.

References:
    Azar, Osband and Munos (2017), Minimax regret bounds for reinforcement learning, bonus 2; Qiao and Wang (2023),
    Algorithm 1 with E = 0, where max(E, 1) stands for E.
"""

from __future__ import annotations

from discreet.agents.dp_ucbvi import DPUCBVI

__all__ = ["UCBVI"]


class UCBVI(DPUCBVI):
    """UCBVI with Bernstein bonuses (Azar et al. 2017): the non-private base of DP-UCBVI.

    Guarantee:
        None: notion ``"none"``.
    """

    name = "ucbvi"
    fast = True
    private = False
    projects = False  # exact counts need none

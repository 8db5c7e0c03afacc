"""UBEV: `discreet.agents.pucb` with exact counts, E = 0.

References:
    Dann, Lattimore and Brunskill (2017), Unifying PAC and regret: uniform PAC bounds for episodic reinforcement
    learning; Vietri et al. (2020), Section 3.
"""

from __future__ import annotations

from discreet.agents.pucb import PUCB

__all__ = ["UBEV"]


class UBEV(PUCB):
    """UBEV with Hoeffding bonuses (Dann et al. 2017): the non-private base of PUCB.

    Guarantee:
        None: notion ``"none"``.
    """

    name = "ubev"
    fast = True
    private = False

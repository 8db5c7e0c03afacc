"""Sums over users of bounded vectors: all that a server keeps of its users."""

from discreet.sums.base import PrivateSum
from discreet.sums.calibrate import CENTRAL, calibrated, factorise, quietest, worst_std
from discreet.sums.exact import ExactSum

__all__ = ["CENTRAL", "ExactSum", "PrivateSum", "calibrated", "factorise", "quietest", "worst_std"]

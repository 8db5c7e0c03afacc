"""Sums over users of bounded vectors: all that a server keeps of its users."""

from discreet.sums.base import NoisySum, Sum, SumState
from discreet.sums.calibrate import CENTRAL, calibrated, factorise, proven, quietest, worst_std
from discreet.sums.exact import ExactSum, RawSum
from discreet.sums.private import PrivateSum, SecurePrivateSum
from discreet.sums.secret import Secret
from discreet.sums.secure import Grid, SecureSum

__all__ = [
    "CENTRAL",
    "ExactSum",
    "Grid",
    "NoisySum",
    "PrivateSum",
    "RawSum",
    "Secret",
    "SecurePrivateSum",
    "SecureSum",
    "Sum",
    "SumState",
    "calibrated",
    "factorise",
    "proven",
    "quietest",
    "worst_std",
]

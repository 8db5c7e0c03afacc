"""Sums over users of bounded vectors: all that a server keeps of its users."""

from discreet.sums.base import NoisySum, PrivateSum, Sum, SumState
from discreet.sums.calibrate import CENTRAL, calibrated, factorise, proven, quietest, worst_std
from discreet.sums.exact import ExactSum, RawSum
from discreet.sums.secret import Secret

__all__ = [
    "CENTRAL",
    "ExactSum",
    "NoisySum",
    "PrivateSum",
    "RawSum",
    "Secret",
    "Sum",
    "SumState",
    "calibrated",
    "factorise",
    "proven",
    "quietest",
    "worst_std",
]

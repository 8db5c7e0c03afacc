"""Attacks on our own mechanisms: how much can be proven to leak, beside what is claimed."""

from discreet.audit.agents import AgentTarget, agent
from discreet.audit.bound import Finding, audit, lower_bound
from discreet.audit.linear import linear
from discreet.audit.local import LocalTarget, local
from discreet.audit.rlsvi import ValuesTarget, rlsvi
from discreet.audit.shuffle import PrintedTarget, ShuffleTarget, printed, shuffle
from discreet.audit.sums import SumTarget, central, single, stream
from discreet.audit.targets import TARGETS, Target, named
from discreet.audit.weighted import weighted

__all__ = [
    "TARGETS",
    "AgentTarget",
    "Finding",
    "LocalTarget",
    "PrintedTarget",
    "ShuffleTarget",
    "SumTarget",
    "Target",
    "ValuesTarget",
    "agent",
    "audit",
    "central",
    "linear",
    "local",
    "lower_bound",
    "named",
    "printed",
    "rlsvi",
    "shuffle",
    "single",
    "stream",
    "weighted",
]

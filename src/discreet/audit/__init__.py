"""Attacks on our own mechanisms: how much can be proven to leak, beside what is claimed."""

from discreet.audit.bound import Finding, audit, lower_bound
from discreet.audit.targets import TARGETS, SumTarget, Target, central, single, stream

__all__ = ["TARGETS", "Finding", "SumTarget", "Target", "audit", "central", "lower_bound", "single", "stream"]

"""Agents at work: simulated people, the short cuts of a simulation, and hand-over between machines."""

from discreet.runtime.simulate import Result, simulate

__all__ = ["Result", "simulate"]

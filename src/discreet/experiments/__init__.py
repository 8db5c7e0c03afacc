"""Experiments: simulate an agent, look at what came out."""

from discreet.runtime.simulate import Result, simulate

__all__ = ["Result", "simulate"]

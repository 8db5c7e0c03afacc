"""Published experiments, end to end. Each is a file: the sweep that it declares, and the figures that look at it."""

from __future__ import annotations

from discreet.experiments.reproduce.experiment import Experiment
from discreet.registry import Registry

__all__ = ["EXPERIMENTS", "Experiment"]

#: All experiments.
EXPERIMENTS: Registry[Experiment] = Registry("experiment")
for _name in ("riverswim", "pac", "trust", "rlsvi", "shuffle", "linear", "frontier"):
    EXPERIMENTS.add(_name, f"discreet.experiments.reproduce.{_name}:EXPERIMENT")

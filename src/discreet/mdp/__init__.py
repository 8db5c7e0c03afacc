"""Markov decision processes: exact, fast, and ignorant of privacy."""

from discreet.mdp.spec import Spec
from discreet.mdp.tabular import TabularMDP
from discreet.mdp.trajectory import Trajectory

__all__ = ["Spec", "TabularMDP", "Trajectory"]

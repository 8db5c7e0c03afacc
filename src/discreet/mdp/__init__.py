"""Markov decision processes: exact, fast, and ignorant of privacy."""

from discreet.mdp.finite import FiniteMDP
from discreet.mdp.linear import LinearMDP, LinearSpec
from discreet.mdp.spec import Spec
from discreet.mdp.tabular import TabularMDP
from discreet.mdp.trajectory import Trajectory

__all__ = ["FiniteMDP", "LinearMDP", "LinearSpec", "Spec", "TabularMDP", "Trajectory"]

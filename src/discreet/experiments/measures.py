"""Numbers that runs are measured by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet import envs
from discreet.errors import DiscreetError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discreet.mdp import FiniteMDP

__all__ = ["chance", "chance_gap", "standard_deviation", "standard_error"]


def chance_gap(mdp: FiniteMDP) -> float:
    """Returns the gap of acting at random."""
    uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
    return float(mdp.optimal_value - mdp.evaluate(uniform))


def chance(env: str) -> float | None:
    """Returns the gap of acting at random; None if the environment is not known here."""
    try:
        return chance_gap(envs.read(env))
    except DiscreetError:
        return None


def standard_deviation(values: Sequence[float]) -> float:
    """Returns the sample standard deviation; 0 for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def standard_error(values: Sequence[float]) -> float:
    """Returns the standard error of the mean; 0 for a single value."""
    return standard_deviation(values) / math.sqrt(len(values))

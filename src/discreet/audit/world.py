"""The tiny world in which privatizers are attacked, and the two people who are hardest to tell apart in secret."""

from __future__ import annotations

import numpy as np

from discreet.mdp import Spec, Trajectory

__all__ = ["corners", "tiny"]


def tiny(steps: int) -> Spec:
    """Returns two states, two actions and ``steps`` steps."""
    return Spec(2, 2, steps)


def corners(steps: int) -> tuple[Trajectory, Trajectory]:
    """Returns two people who each stay in one state with one action and get every reward, but never in the same cell.

    Replacing one by the other attains every sensitivity, per step and pooled.
    """
    zero, one = (Trajectory(np.full(steps + 1, corner), np.full(steps, corner), np.ones(steps)) for corner in (0, 1))
    return zero, one

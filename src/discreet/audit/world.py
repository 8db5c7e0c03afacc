"""The tiny world in which privatizers are attacked, and the two people who are hardest to tell apart in secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from discreet.mdp import Spec, Trajectory
from discreet.noise import as_source
from discreet.noise.secure import SecureSource

if TYPE_CHECKING:
    from discreet.noise import Source
    from discreet.privatizers.base import Kind

__all__ = ["EXACT", "corners", "digits_of", "drawn_from", "kind_of", "source_of", "tiny"]

_ROUNDED = 9  # the last bits of a float betray its terms: fast noise is for simulation only
#: Decimals of scores against secure noise: all of them.
EXACT = 17


class _Noisy(Protocol):
    """A trust model, or a guarantee: it says which noise it has."""

    @property
    def noise(self) -> str: ...


def kind_of(privacy: _Noisy) -> Kind:
    """Returns the kind of noise that is under attack."""
    return "secure" if privacy.noise == "secure" else "fast"


def source_of(privacy: _Noisy, rng: np.random.Generator) -> Source:
    """Returns where its noise comes from: the attacker's seed, or the operating system."""
    return SecureSource() if kind_of(privacy) == "secure" else as_source(rng)


def drawn_from(privacy: _Noisy, rng: np.random.Generator) -> Source | np.random.Generator:
    """Returns the same for an encoder or a shuffler, which take a generator too."""
    return SecureSource() if kind_of(privacy) == "secure" else rng


def digits_of(privacy: _Noisy) -> int:
    """Returns to how many decimals an attacker's scores are rounded: fast noise is broken by its last bits."""
    return EXACT if kind_of(privacy) == "secure" else _ROUNDED


def tiny(steps: int) -> Spec:
    """Returns two states, two actions and ``steps`` steps."""
    return Spec(2, 2, steps)


def corners(steps: int) -> tuple[Trajectory, Trajectory]:
    """Returns two people who each stay in one state with one action and get every reward, but never in the same cell.

    Replacing one by the other attains every sensitivity, per step and pooled.
    """
    zero, one = (Trajectory(np.full(steps + 1, corner), np.full(steps, corner), np.ones(steps)) for corner in (0, 1))
    return zero, one

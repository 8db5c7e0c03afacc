"""Checked arguments of the bounds: sizes are integers, what a plot sweeps is a number or an array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from discreet.errors import InvalidInput, check_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Bound", "as_bound", "check_episodes", "check_sizes", "check_swept"]

Bound: TypeAlias = "float | NDArray[np.float64]"


def check_sizes(**sizes: int) -> list[float]:
    """Returns the sizes as floats (their powers outgrow 64-bit integers); raises `InvalidInput` naming one."""
    return [float(check_integer(name, size)) for name, size in sizes.items()]


def check_swept(name: str, values: ArrayLike, *, most: float = math.inf) -> NDArray[np.float64]:
    """Returns numbers in (0, most] as an array of their shape; raises `InvalidInput` naming the first bad one."""
    try:
        x = np.asarray(values)
    except ValueError:  # nested lists of unequal lengths
        x = np.asarray(None)
    if x.dtype.kind not in "iuf":
        raise InvalidInput(f"{name} must be a number or an array of numbers, got {name}={values!r}")
    good = (x > 0) & (x <= most)
    if not good.all():
        bound = "" if most == math.inf else f" and at most {most:g}"
        raise InvalidInput(f"{name} must be more than 0{bound}, got {name}={x[~good][0].item()}")
    return x.astype(np.float64)


def check_episodes(values: ArrayLike) -> NDArray[np.float64]:
    """Returns numbers of episodes, at least 1 and finite; a grid for a plot need not consist of integers."""
    K = check_swept("episodes", values, most=2.0**53)
    if (K < 1).any():
        raise InvalidInput(f"episodes must be at least 1, got episodes={K[K < 1][0].item()}")
    return K


def as_bound(values: NDArray[np.float64]) -> Bound:
    """Returns a float if nothing was swept, else the array."""
    return values if np.ndim(values) else float(values)

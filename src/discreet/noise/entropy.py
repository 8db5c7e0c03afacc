"""Random words of the operating system. There is no key, no seed and no buffer: nothing that a fork could copy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["words"]


def words(n: int) -> NDArray[np.uint64]:
    """Returns ``n`` independent, uniform words of 64 bits, which nobody has seen; the array is read-only."""
    return np.frombuffer(os.urandom(8 * n), dtype="<u8").astype(np.uint64, copy=False)

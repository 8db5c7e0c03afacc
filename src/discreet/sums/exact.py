"""The sum itself, without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import CapacityExceeded, InvalidPersonalData

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ExactSum"]


class ExactSum:
    """Sums the users' vectors exactly.

    Args:
        size: Number of coordinates.
        capacity: Number of users at most.

    Guarantee:
        None: whatever is read is raw.
    """

    def __init__(self, size: int, capacity: int) -> None:
        self.size = size
        self.capacity = capacity
        self.count = 0
        self.total: NDArray[np.float64] = np.zeros(size)

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds one row a user: ``values[i, j]`` to coordinate ``indices[i, j]``, (users, n) both.

        Nothing changes if an error is raised.
        """
        if self.count + len(indices) > self.capacity:
            raise CapacityExceeded(
                f"this sum was built for {self.capacity} users: {self.count} are in it, {len(indices)} more were given"
            )
        if indices.shape != values.shape:
            raise InvalidPersonalData(f"indices {indices.shape} and values {values.shape} must have one shape")
        if indices.size and (indices.min() < 0 or indices.max() >= self.size):
            raise InvalidPersonalData(f"indices must lie in [0, {self.size})")
        if not np.isfinite(values).all():
            raise InvalidPersonalData("values must be finite")
        np.add.at(self.total, indices, values)  # one after the other, so that a compiled loop gives the same bits
        self.count += len(indices)

    def read(self) -> NDArray[np.float64]:
        """Returns the sum, (size,)."""
        return self.total.copy()

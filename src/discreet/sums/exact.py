"""The sum itself, without noise."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import CapacityExceeded, NotReadable, check_fraction
from discreet.privacy import accounting
from discreet.sums.base import Stretch, check_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ExactSum"]


class ExactSum:
    """Sums the users' vectors exactly.

    Args:
        size: Number of coordinates.
        capacity: Number of users at most.
        horizon: Number of reads at most; as many as users by default.

    Guarantee:
        None: whatever is read is raw.
    """

    name = "exact"
    std = 0.0
    worst_std = 0.0

    def __init__(self, size: int, *, capacity: int, horizon: int | None = None) -> None:
        self.size = size
        self.capacity = capacity
        self.horizon = capacity if horizon is None else horizon
        self.count = 0
        self.total: NDArray[np.float64] = np.zeros(size)

    @property
    def readable(self) -> bool:
        """Whether anybody has been added."""
        return self.count > 0

    @property
    def event(self) -> accounting.DpEvent:
        """Raw data is released."""
        return accounting.non_private()

    def error_bound(self, beta: float, *, groups: tuple[tuple[int, int], ...] | None = None) -> float:
        """Returns 0: there is no noise."""
        check_fraction("beta", beta)
        return 0.0

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds one row a user: ``values[i, j]`` to ``indices[i, j]``; nothing changes if an error is raised."""
        from discreet.sums import _kernels

        indices, values = check_users(indices, values, self.size)
        if self.count + len(indices) > self.capacity:
            raise CapacityExceeded(
                f"this sum holds {self.capacity} users: {self.count} are in it, got {len(indices)} more"
            )
        _kernels.add_users(self.total, indices, values)
        self.count += len(indices)

    def read(self) -> NDArray[np.float64]:
        """Returns the sum, (size,)."""
        if not self.readable:
            raise NotReadable("this sum cannot be read: nobody has been added")
        return self.total.copy()

    def stretch(self, users: int, reads: int) -> Stretch:
        """In simulation: hands the next ``users`` users to a compiled block, which adds them to ``total``."""
        from discreet.sums import _kernels

        if self.count + users > self.capacity:
            raise CapacityExceeded(f"this sum holds {self.capacity} users: {self.count} are in it, got {users} more")
        self.count += users
        none = np.zeros((0, 0))
        return Stretch(self.total, self.total, _kernels.advance_tree, none, np.zeros(0, dtype=np.int64), none, none)

    def resume(self, *, waiting: bool) -> None:
        """After a `stretch`: there is nothing to do."""

    def state(self) -> dict[str, Any]:
        """Returns all that is needed to go on exactly. It is raw personal data."""
        return copy.deepcopy(vars(self))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ExactSum:
        """Returns the sum that `state` describes."""
        found = cls(state["size"], capacity=state["capacity"], horizon=state["horizon"])
        vars(found).update(copy.deepcopy(state))
        return found

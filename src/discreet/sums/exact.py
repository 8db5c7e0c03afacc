"""The sum itself, without noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import CapacityExceeded, NotReadable, check_fraction
from discreet.privacy import accounting
from discreet.sums.base import SumState, check_total, check_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source

__all__ = ["ExactSum", "RawSum"]


class RawSum:
    """Sums the users' vectors exactly: public facts, and no state.

    Args:
        size: Number of coordinates.
        capacity: Number of users at most.

    Guarantee:
        None: whatever is released is raw.
    """

    name = "exact"
    fresh_std = worst_std = 0.0

    def __init__(self, size: int, *, capacity: int) -> None:
        self.size = size
        self.capacity = capacity

    @property
    def event(self) -> accounting.DpEvent:
        """Raw data is released."""
        return accounting.non_private()

    def error_bound(self, beta: float, *, groups: tuple[tuple[int, int], ...] | None = None) -> float:
        """Returns 0: there is no noise."""
        check_fraction("beta", beta)
        return 0.0

    def start(self) -> SumState:
        """Returns the state that nobody is in."""
        return SumState(0, np.zeros(self.size), {"reads": 0})

    def _check_room(self, state: SumState, users: int) -> None:
        if state.users + users > self.capacity:
            raise CapacityExceeded(f"this sum holds {self.capacity} users: {state.users} are in it, got {users} more")

    def check(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Raises unless every row is a vector of this size."""
        check_users(indices, values, self.size)

    def added(self, state: SumState, indices: NDArray[np.int64], values: NDArray[np.float64]) -> SumState:
        """Returns the state with more users in it, one row each: ``values[i, j]`` at ``indices[i, j]``."""
        from discreet.sums import _kernels

        indices, values = check_users(indices, values, self.size)
        self._check_room(state, len(indices))
        total = state.total.copy()
        _kernels.add_users(total, indices, values)
        return state._replace(users=state.users + len(indices), total=total)

    def added_total(self, state: SumState, total: NDArray[np.float64], users: int) -> SumState:
        """In simulation: returns the state with the total of ``users`` users in it."""
        check_total(total, users, self.size, math.inf)
        self._check_room(state, users)
        return state._replace(users=state.users + users, total=state.total + total)

    def released(self, state: SumState, source: Source | None = None) -> tuple[SumState, NDArray[np.float64]]:
        """Returns the state after a release, and the sum, (size,)."""
        return state._replace(noise={"reads": state.reads + 1}), state.total.copy()


class ExactSum(RawSum):
    """Sums the users' vectors exactly, in memory.

    Args:
        size: Number of coordinates.
        capacity: Number of users at most.
        horizon: Number of reads at most; as many as users by default.

    Guarantee:
        None: whatever is read is raw.
    """

    std = 0.0

    def __init__(self, size: int, *, capacity: int, horizon: int | None = None) -> None:
        super().__init__(size, capacity=capacity)
        self.horizon = capacity if horizon is None else horizon
        self._state = self.start()

    @property
    def count(self) -> int:
        """Number of users added."""
        return self._state.users

    @property
    def total(self) -> NDArray[np.float64]:
        """What they add up to, (size,)."""
        return self._state.total.copy()

    @property
    def readable(self) -> bool:
        """Whether anybody has been added."""
        return self.count > 0

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds one row a user; nothing changes if an error is raised."""
        self._state = self.added(self._state, indices, values)

    def read(self) -> NDArray[np.float64]:
        """Returns the sum, (size,)."""
        if not self.readable:
            raise NotReadable("this sum cannot be read: nobody has been added")
        return self.total

    def state(self) -> SumState:
        """Returns all that is needed to go on exactly. It is raw personal data."""
        return self._state

    @classmethod
    def from_state(cls, state: SumState, *, capacity: int) -> ExactSum:
        """Returns the sum that `state` describes."""
        found = cls(len(state.total), capacity=capacity)
        found._state = state
        return found

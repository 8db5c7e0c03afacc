"""Private sums at work, with their state in memory: for experiments and for auditors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from discreet.errors import InvalidInput, NotReadable
from discreet.noise import as_source
from discreet.sums.base import NoisySum, SumState
from discreet.sums.secret import Secret
from discreet.sums.secure import SecureSum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source
    from discreet.privacy.sensitivity import Sensitivity, UserBound
    from discreet.sums.factorisation import Factorisation

__all__ = ["InMemory", "PrivateSum", "SecurePrivateSum"]


class InMemory(NoisySum):
    """A sum with its state.

    ``add`` puts users into the current batch. ``read`` ends the batch and releases the sum of all batches so far;
    until the next user is added, reading again returns the same numbers. Every batch's noise is drawn once and never
    again: a private sum is neither copied nor pickled.
    """

    _source: Source
    _kept: SumState | None
    _last: NDArray[np.float64]
    _open: bool

    def _begin(self, rng: Source | np.random.Generator) -> None:
        """Begins with nobody, and noise from a source, or from a generator, which is for simulation."""
        self._source = as_source(rng)
        self._kept = self.start()
        self._last = np.zeros(self.size)
        self._open = False

    def __repr__(self) -> str:
        return (
            f"<{self.name} sum of {self.size} coordinates: {self.count} of {self.capacity} users, {self.reads} reads>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private sum is not copied: two copies would hide different users behind the same noise")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    @property
    def _state(self) -> SumState:
        if self._kept is None:
            raise InvalidInput("this sum has given its state away, and goes on from there only")
        return self._kept

    @property
    def count(self) -> int:
        """Number of users added."""
        return self._state.users

    @property
    def reads(self) -> int:
        """Number of reads released."""
        return self._state.reads

    @property
    def readable(self) -> bool:
        """Whether `read` may be called: something has been released, or users wait and there are reads left."""
        return self.reads < self.horizon if self._open else self.reads > 0

    @property
    def std(self) -> float:
        """Standard deviation of the noise in the last read; 0 before the first."""
        return self.std_after(self.reads)

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds users to the current batch; nothing changes if an error is raised. See `added`."""
        before = self._state
        self._kept = self.added(before, indices, values)
        self._open = self._open or self._kept.users > before.users

    def read(self) -> NDArray[np.float64]:
        """Returns the sum with noise, (size,): a new release if users were added, else the last one again.

        Raises:
            NotReadable: If there is nothing to release; nothing changes.
        """
        if not self.readable:
            why = f"all {self.horizon} reads are released" if self._open else "nobody has been added"
            raise NotReadable(f"this sum cannot be read: {why}")
        if self._open:
            self._last = self._release()
            self._open = False
        return self._last.copy()

    def _release(self) -> NDArray[np.float64]:
        """Ends the batch."""
        self._kept, found = self.released(self._state, self._source)
        return found

    def state(self) -> Secret[Self]:
        """Gives away all that is needed to go on exactly, once: this sum takes no more users and is not read again."""
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        found._kept, self._kept = self._state, None
        return Secret(found)

    @classmethod
    def from_state(cls, state: Secret[Self]) -> Self:
        """Returns the sum that a `state` holds, which is used up."""
        found = state.open()
        state.released(found)
        return found


class PrivateSum(InMemory, NoisySum):
    """A sum with noise and its state in memory; see `InMemory`.

    Args:
        factorisation: Which noise is in which read.
        size: Number of coordinates.
        capacity: Number of users at most.
        scale: Of the fresh noise a read and coordinate: Laplace's b or the Gaussian's σ.
        sensitivity: Of one user's vector, replace-one.
        rng: Where the noise comes from: a source, or a generator, which is for simulation.
        bound: What every user's vector must keep for the sensitivity to hold; without it, the caller vouches for that.

    Guarantee:
        All reads together are one adaptive mechanism with the privacy event ``event``, for replacing one user. What is
        inside (`state`) is raw personal data.
    """

    def __init__(
        self,
        factorisation: Factorisation,
        size: int,
        *,
        capacity: int,
        scale: float,
        sensitivity: Sensitivity,
        rng: Source | np.random.Generator,
        bound: UserBound | None = None,
    ) -> None:
        super().__init__(factorisation, size, capacity=capacity, scale=scale, sensitivity=sensitivity, bound=bound)
        self._begin(rng)

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds users to the current batch, in place; nothing changes if an error is raised. See `added`."""
        from discreet.sums import _kernels

        indices, values = self._checked(indices, values)
        self._check_room(self._state, len(indices))
        state = self._taken()
        _kernels.add_users(state.total, indices, values)
        self._kept = SumState(state.users + len(indices), state.total, state.noise)
        self._open = self._open or len(indices) > 0

    def _release(self) -> NDArray[np.float64]:
        """Releases, in place."""
        z = self._fresh(self._source)
        state = self._taken()
        found = self.factorisation.advance(state.noise, z)
        found += state.total
        self._kept = state
        return found

    def _taken(self) -> SumState:
        """Takes the state to change it. Whoever is interrupted then has lost the sum: it is never half changed."""
        state, self._kept = self._state, None
        return state


class SecurePrivateSum(InMemory, SecureSum):
    """A sum of integers with its state in memory; see `InMemory`.

    Args:
        built: The sum.
        copies: If given, so many independent copies of it stand side by side, for an auditor: nobody's vector is held
            to the bounds.
        source: Where the noise comes from.

    Guarantee:
        That of ``built``, for every copy.
    """

    def __init__(self, built: SecureSum, source: Source, *, copies: int | None = None) -> None:
        super().__init__(
            built.factorisation,
            built.size * (copies or 1),
            capacity=built.capacity,
            parameter=built.parameter,
            bits=built.bits,
            fine=built.fine,
            sensitivity=built.sensitivity,
            touched=built.touched if copies is None else built.size * copies,
            bound=built.bound if copies is None else None,
            wide=built.wide,
            recursion=built.recursion,
        )
        self._begin(source)

"""A private sum: exact inside, noisy outside."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from discreet.errors import (
    CapacityExceeded,
    InvalidInput,
    InvalidPersonalData,
    NotReadable,
    check_fraction,
    check_integer,
)
from discreet.privacy import accounting
from discreet.sums.tails import exceedances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Distribution, Source
    from discreet.privacy.sensitivity import Sensitivity, UserBound
    from discreet.sums.factorisation import Factorisation

__all__ = ["NoisySum", "Sum", "SumState", "check_users"]


class SumState(NamedTuple):
    """What a server keeps of a sum: raw personal data, and the noise that is in earlier reads. Never changed in place.

    Attributes:
        users: How many were added.
        total: What their vectors add up to, (size,).
        noise: How often the sum was released, ``reads``, and what the factorisation keeps of earlier noise.
    """

    users: int
    total: NDArray[np.float64]
    noise: dict[str, Any]

    @property
    def reads(self) -> int:
        """How often the sum was released."""
        return int(self.noise["reads"])


class Sum(Protocol):
    """A sum over users as public facts, and what it does to a server's state."""

    size: int
    capacity: int

    @property
    def name(self) -> str:
        """The kind of sum."""

    def start(self) -> SumState:
        """Returns the state that nobody is in."""

    def added(self, state: SumState, indices: NDArray[np.int64], values: NDArray[np.float64]) -> SumState:
        """Returns the state with more users in it, one row each."""

    def added_total(self, state: SumState, total: NDArray[np.float64], users: int) -> SumState:
        """In simulation: returns the state with the total of ``users`` users in it."""

    def released(self, state: SumState, source: Source) -> tuple[SumState, NDArray[np.float64]]:
        """Returns the state after a release, and what is released, (size,)."""


class NoisySum:
    """Sums the users' vectors and releases the sum over and over, with noise: public facts, and no state.

    Args:
        factorisation: Which noise is in which read.
        size: Number of coordinates.
        capacity: Number of users at most.
        scale: Of the fresh noise a read and coordinate: Laplace's b or the Gaussian's σ.
        sensitivity: Of one user's vector, replace-one.
        bound: What every user's vector must keep for the sensitivity to hold; without it, the caller vouches for that.

    Guarantee:
        All reads together are one adaptive mechanism with the privacy event ``event``, for replacing one user.
    """

    def __init__(
        self,
        factorisation: Factorisation,
        size: int,
        *,
        capacity: int,
        scale: float,
        sensitivity: Sensitivity,
        bound: UserBound | None = None,
    ) -> None:
        if not 0 < scale < math.inf:
            raise InvalidInput(f"scale must be positive and finite, got scale={scale!r}")
        self.factorisation = factorisation
        self.size = check_integer("size", size)
        self.capacity = check_integer("capacity", capacity)
        self.scale = float(scale)
        self.sensitivity = sensitivity
        self.bound = bound

    def __repr__(self) -> str:
        return f"<{self.name} sum of {self.size} coordinates for {self.capacity} users and {self.horizon} reads>"

    @property
    def name(self) -> str:
        """The kind of sum."""
        return self.factorisation.name

    @property
    def distribution(self) -> Distribution:
        """Of the fresh noise."""
        return self.factorisation.distribution

    @property
    def horizon(self) -> int:
        """Number of reads at most."""
        return self.factorisation.horizon

    @property
    def event(self) -> accounting.DpEvent:
        """What all reads together do to one user's privacy, for the accountant."""
        weight, entries = self.factorisation.entries
        if self.distribution == "gaussian":
            return accounting.gaussian(self.scale / (weight * self.sensitivity.l2), entries)
        return accounting.laplace(self.scale / (weight * self.sensitivity.l1), entries)

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the fresh noise a read and coordinate."""
        return self.scale if self.distribution == "gaussian" else math.sqrt(2) * self.scale

    def std_after(self, reads: int) -> float:
        """Returns the standard deviation of the noise in a read, from 1; 0 before the first."""
        return self.fresh_std * math.sqrt(self.factorisation.variance(reads)) if reads else 0.0

    @property
    def worst_std(self) -> float:
        """The largest standard deviation of the noise in any read."""
        return self.fresh_std * math.sqrt(self.factorisation.worst_variance)

    def error_bound(self, beta: float, *, groups: tuple[tuple[int, int], ...] | None = None) -> float:
        """Returns E that, with probability at least 1 − ``beta``, no noise in any read exceeds in absolute value.

        A union over coordinates and reads of the exact tails.

        Args:
            beta: Failure probability.
            groups: Pairs (number, width): bound sums over ``width`` coordinates, ``number`` of them; all single
                coordinates by default.
        """
        from scipy.optimize import brentq

        beta = check_fraction("beta", beta)
        groups = groups or ((self.size, 1),)
        variances, counts = self.factorisation.spectrum()

        def excess(x: float) -> float:
            """Ln of the expected number of exceedances of x, over beta."""
            terms = [
                math.log(number) + exceedances(self.distribution, x / self.scale, variances * width, counts)
                for number, width in groups
            ]
            return float(np.logaddexp.reduce(terms)) - math.log(beta)

        high = self.worst_std
        while excess(high) > 0:
            high *= 2
        return float(brentq(excess, 0.0, high, rtol=1e-9))

    def calibration(self) -> dict[str, Any]:
        """Returns what was calibrated."""
        return {"scale": self.scale}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes what `calibration` returned on another machine."""
        for name in self.calibration():
            setattr(self, name, found[name])

    def start(self) -> SumState:
        """Returns the state that nobody is in."""
        return SumState(0, np.zeros(self.size), self.factorisation.start(self.size))

    def _check_room(self, state: SumState, users: int) -> None:
        if state.users + users > self.capacity:
            raise CapacityExceeded(f"this sum holds {self.capacity} users: {state.users} are in it, got {users} more")
        if state.reads == self.horizon:
            raise CapacityExceeded(f"all {self.horizon} reads of this sum are released: it takes no more users")

    def check(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Raises unless every row is a vector that the sensitivity allows for.

        Raises:
            InvalidPersonalData: If a shape, an index or a value is out of bounds; the message names the bound only.
        """
        self._checked(indices, values)

    def _checked(
        self, indices: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        from discreet.sums import _kernels

        indices, values = check_users(indices, values, self.size)
        if self.bound is not None:
            least, l1, l2_squared = _kernels.largest_norms(indices, values)
            if least < 0 or l1 > self.bound.l1 or l2_squared > self.bound.l2_squared:
                raise InvalidPersonalData(
                    f"a user's values must not be negative, with L1 norm at most {self.bound.l1} "
                    f"and L2 norm at most {math.sqrt(self.bound.l2_squared):.6g}"
                )
        return indices, values

    def added(self, state: SumState, indices: NDArray[np.int64], values: NDArray[np.float64]) -> SumState:
        """Returns the state with more users in it, one row each: ``values[i, j]`` at coordinate ``indices[i, j]``.

        Raises:
            CapacityExceeded: If there would be more users than `capacity`, or there are no reads left for them.
            InvalidPersonalData: If a shape, an index or a value is out of bounds; the message names the bound only.
        """
        from discreet.sums import _kernels

        indices, values = self._checked(indices, values)
        self._check_room(state, len(indices))
        total = state.total.copy()
        _kernels.add_users(total, indices, values)
        return state._replace(users=state.users + len(indices), total=total)

    def added_total(self, state: SumState, total: NDArray[np.float64], users: int) -> SumState:
        """In simulation: returns the state with the total of ``users`` users in it.

        Raises:
            InvalidPersonalData: If no users within the bound have such a total; the message names the bound only.
        """
        check_total(total, users, self.size, self.sensitivity.l2 / math.sqrt(2))
        if self.bound is not None and (total.min() < 0 or total.sum() > users * self.bound.l1 * (1 + 1e-9)):
            raise InvalidPersonalData(f"a total must not be negative, with L1 norm at most {self.bound.l1} a user")
        self._check_room(state, users)
        return state._replace(users=state.users + users, total=state.total + total)

    def released(self, state: SumState, source: Source) -> tuple[SumState, NDArray[np.float64]]:
        """Returns the state after a release, and the sum with noise, (size,). Nothing else here draws.

        Raises:
            NotReadable: If all reads are released.
        """
        if state.reads == self.horizon:
            raise NotReadable(f"this sum cannot be read: all {self.horizon} reads are released")
        kept, found = self.factorisation.advanced(state.noise, self._fresh(source))
        found += state.total
        return state._replace(noise=kept), found

    def _fresh(self, source: Source) -> NDArray[np.float64]:
        """Draws the noise of one read, (size,)."""
        z = np.empty(self.size)
        source.fill(self.distribution, self.scale, z[None])
        return z


def check_total(total: NDArray[np.float64], users: int, size: int, longest: float) -> None:
    """Raises unless ``users`` vectors of length at most ``longest`` can have this total; names the bound only.

    (The vectors of two users have no negative inner product, so replacing one moves the sum by √2 lengths at most.)
    """
    if np.shape(total) != (size,) or total.dtype != np.float64 or users < 1 or not np.isfinite(total).all():
        raise InvalidPersonalData(f"a total must be of users, and have {size} finite numbers")
    if float(np.linalg.norm(total)) > users * longest * (1 + 1e-9):
        raise InvalidPersonalData(f"a total must not be longer than {longest:.6g} a user")


def check_users(
    indices: NDArray[np.int64], values: NDArray[np.float64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns both as contiguous (users, n) arrays; raises naming the bound, never a person's index or value."""
    try:
        indices, values = np.asarray(indices), np.asarray(values)
    except ValueError:
        raise InvalidPersonalData("indices and values must be two arrays of one shape (users, n)") from None
    if indices.ndim != 2 or indices.shape != values.shape:
        raise InvalidPersonalData("indices and values must be two arrays of one shape (users, n)")
    if indices.dtype.kind not in "iu" or values.dtype.kind not in "iuf":
        raise InvalidPersonalData("indices must be integers and values numbers")
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise InvalidPersonalData(f"indices must lie in [0, {size})")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float64)
    if not (np.abs(values) <= 1e15).all():  # NaN fails too; larger ones would drown the sum in rounding errors
        raise InvalidPersonalData("values must be finite, and at most 1e15")
    return np.ascontiguousarray(indices, dtype=np.int64), values

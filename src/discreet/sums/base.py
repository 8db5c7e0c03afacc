"""A private sum: exact inside, noisy outside."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import (
    CapacityExceeded,
    InvalidInput,
    InvalidPersonalData,
    NotReadable,
    check_fraction,
    check_integer,
)
from discreet.noise import fast
from discreet.privacy import accounting
from discreet.sums.factorisation import KINDS
from discreet.sums.tails import exceedances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise.fast import Distribution
    from discreet.privacy.sensitivity import Sensitivity, UserBound
    from discreet.sums.factorisation import Factorisation

__all__ = ["PrivateSum"]


class Stretch(NamedTuple):
    """What a compiled block needs to do several reads of a private sum: raw data and noise, for simulation only."""

    total: NDArray[np.float64]
    released: NDArray[np.float64]
    advance: Any
    coefficients: NDArray[np.float64]
    depths: NDArray[np.int64]
    z: NDArray[np.float64]
    state: NDArray[np.float64]


class PrivateSum:
    """Sums the users' vectors and releases the sum over and over, with noise.

    ``add`` puts users into the current batch. ``read`` ends the batch and releases the sum of all batches so far;
    until the next user is added, reading again returns the same numbers. Every batch's noise is drawn once and never
    again.

    Args:
        factorisation: Which noise is in which read.
        size: Number of coordinates.
        capacity: Number of users at most.
        scale: Of the fresh noise a read and coordinate: Laplace's b or the Gaussian's σ.
        sensitivity: Of one user's vector, replace-one.
        rng: Where the noise comes from; fast, for simulation.
        bound: What every user's vector must keep for the sensitivity to hold; without it, the caller vouches for that.

    Guarantee:
        All reads together are one adaptive mechanism with the privacy event ``event``, for replacing one user. What is
        inside (``state``) is raw personal data.
    """

    def __init__(
        self,
        factorisation: Factorisation,
        size: int,
        *,
        capacity: int,
        scale: float,
        sensitivity: Sensitivity,
        rng: np.random.Generator,
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
        self.count = 0
        self._total: NDArray[np.float64] = np.zeros(self.size)
        self._rng = rng
        self._noise_state = factorisation.start(self.size)
        self._released: NDArray[np.float64] = np.zeros(self.size)
        self._open = False

    def __repr__(self) -> str:
        return (
            f"<{self.name} sum of {self.size} coordinates: {self.count} of {self.capacity} users, {self.reads} reads>"
        )

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
    def reads(self) -> int:
        """Number of reads released."""
        return int(self._noise_state["reads"])

    @property
    def readable(self) -> bool:
        """Whether `read` may be called: something has been released, or users wait and there are reads left."""
        return self.reads < self.horizon if self._open else self.reads > 0

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

    @property
    def std(self) -> float:
        """Standard deviation of the noise in the last read; 0 before the first."""
        return self.fresh_std * math.sqrt(self.factorisation.variance(self.reads)) if self.reads else 0.0

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

    def add(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Adds users to the current batch, one row each: ``values[i, j]`` to coordinate ``indices[i, j]``.

        Nothing changes if an error is raised.

        Raises:
            CapacityExceeded: If there would be more users than `capacity`, or there are no reads left for them.
            InvalidPersonalData: If a shape, an index or a value is out of bounds; the message names the bound only.
        """
        from discreet.sums import _kernels

        indices, values = check_users(indices, values, self.size)
        if self.bound is not None:
            least, l1, l2_squared = _kernels.largest_norms(indices, values)
            if least < 0 or l1 > self.bound.l1 or l2_squared > self.bound.l2_squared:
                raise InvalidPersonalData(
                    f"a user's values must not be negative, with L1 norm at most {self.bound.l1} "
                    f"and L2 norm at most {math.sqrt(self.bound.l2_squared):.6g}"
                )
        if self.count + len(indices) > self.capacity:
            raise CapacityExceeded(
                f"this sum holds {self.capacity} users: {self.count} are in it, got {len(indices)} more"
            )
        if self.reads == self.horizon:
            raise CapacityExceeded(f"all {self.horizon} reads of this sum are released: it takes no more users")
        _kernels.add_users(self._total, indices, values)
        self.count += len(indices)
        self._open = self._open or len(indices) > 0

    def read(self) -> NDArray[np.float64]:
        """Returns the sum with noise, (size,): a new release if users were added, else the last one again.

        Raises:
            NotReadable: If there is nothing to release; nothing changes.
        """
        if not self.readable:
            why = f"all {self.horizon} reads are released" if self._open else "nobody has been added"
            raise NotReadable(f"this sum cannot be read: {why}")
        if self._open:
            z = np.empty((1, self.size))
            fast.fill(self._rng, self.distribution, self.scale, z)
            self._released = self._total + self.factorisation.advance(self._noise_state, z[0])
            self._open = False
        return self._released.copy()

    def stretch(self, users: int, reads: int) -> Stretch:
        """In simulation: hands the next ``users`` users and ``reads`` reads, with their noise, to a compiled block.

        The block adds to ``total`` and must do every read as `read` would: advance the noise, then release the sum.
        Its last read must come after its last user, else `resume` has to follow.
        """
        if self.count + users > self.capacity or self.reads + reads > self.horizon:
            raise CapacityExceeded(
                f"this sum holds {self.capacity} users and {self.horizon} reads: {self.count} and {self.reads} are "
                f"used, got {users} and {reads} more"
            )
        z = np.empty((reads, self.size))
        fast.fill(self._rng, self.distribution, self.scale, z)
        depths = self.factorisation.depths(self._noise_state, reads)
        self.count += users
        return Stretch(
            self._total,
            self._released,
            self.factorisation.kernel,
            self.factorisation.coefficients,
            depths,
            z,
            self._noise_state["array"],
        )

    def resume(self, *, waiting: bool) -> None:
        """After a `stretch`: says whether users wait for the next read."""
        self._open = waiting

    def state(self) -> dict[str, Any]:
        """Returns all that is needed to go on exactly, once.

        It holds personal data and noise that must stay secret. Going on from one state twice, with different users,
        would use the same noise twice, and the difference of the two reads would be raw: `from_state` empties what it
        is given.
        """
        return copy.deepcopy(
            {
                "kind": self.name,
                "horizon": self.horizon,
                "distribution": self.distribution,
                "size": self.size,
                "capacity": self.capacity,
                "scale": self.scale,
                "sensitivity": self.sensitivity,
                "bound": self.bound,
                "count": self.count,
                "total": self._total,
                "released": self._released,
                "open": self._open,
                "noise": self._noise_state,
                "rng": self._rng.bit_generator.state,
            }
        )

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> PrivateSum:
        """Returns the sum that `state` describes, and empties ``state``: it goes on exactly where that one was."""
        given, state = state, copy.deepcopy(state)
        if not state:
            raise InvalidInput("this state has been used: a sum goes on from a state only once")
        given.clear()
        bits = getattr(np.random, state["rng"]["bit_generator"])()
        bits.state = state["rng"]
        found = cls(
            KINDS[state["kind"]](state["horizon"], state["distribution"]),
            state["size"],
            capacity=state["capacity"],
            scale=state["scale"],
            sensitivity=state["sensitivity"],
            rng=np.random.Generator(bits),
            bound=state["bound"],
        )
        found.count, found._total, found._released = state["count"], state["total"], state["released"]
        found._open, found._noise_state = state["open"], state["noise"]
        return found


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

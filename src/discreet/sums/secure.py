"""A private sum in integers, with noise that may be released.

What people add lies on a grid of 2^-fine, from the user on. The sum has a grid of 2^-bits, at least as fine, on which
noise is drawn; it is so fine that rounding costs nothing. All that leaves the server is an integer number of grid
units: a total and a read's noise, added in integers. That it is shown as a float is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData, NotReadable, check_fraction
from discreet.privacy import accounting, discrete
from discreet.sums.base import NoisySum, SumState, check_users
from discreet.sums.integers import REACH, integer_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Source
    from discreet.privacy import Budget
    from discreet.privacy.sensitivity import Sensitivity, UserBound
    from discreet.sums.factorisation import Factorisation
    from discreet.sums.integers import IntegerNoise

__all__ = ["FINE", "Grid", "SecureSum", "secure_sum"]

#: Rewards and weights are multiples of 2^-FINE, unless the noise is so large that a coarser grid does.
FINE = 20
_EXACT = 52  # bits in which floats add integers exactly


@dataclass(frozen=True)
class Grid:
    """What must be known of users' vectors for a sum in integers.

    Attributes:
        touched: How many values one user's row has at most; several may be of one coordinate.
        entry: The largest entry that one user has.
        fine: Bits of the users' own grid; `FINE`, or fewer if the noise is large, by default.
    """

    touched: int
    entry: float = 1.0
    fine: int | None = None


class SecureSum(NoisySum):
    """Sums the users' vectors in integers and releases the sum over and over, with discrete noise.

    Args:
        factorisation: Which noise is in which read.
        size: Number of coordinates.
        capacity: Number of users at most.
        parameter: Of the fresh noise a read and coordinate, in grid units: Laplace's scale or the Gaussian's variance.
        bits: The grid is 2^-bits.
        fine: Users' values are multiples of 2^-fine; at most ``bits``.
        sensitivity: Of one user's vector, replace-one.
        touched: How many values one user's row has at most.
        bound: What every user's vector must keep for the sensitivity to hold; without it, the caller vouches for that.
        wide: Bits of the noise's scale, if the users' own grid makes them many: see `integers.integer_noise`.
        recursion: The factorisation's `integer_noise`, if somebody has made it already.

    Guarantee:
        All reads together are one adaptive mechanism with the privacy event ``event``, for replacing one user; see
        `discreet.sums.integers` and `discreet.privacy.discrete`.
    """

    def __init__(
        self,
        factorisation: Factorisation,
        size: int,
        *,
        capacity: int,
        parameter: int,
        bits: int,
        fine: int,
        sensitivity: Sensitivity,
        touched: int,
        bound: UserBound | None = None,
        wide: int = 0,
        recursion: IntegerNoise | None = None,
    ) -> None:
        root = math.sqrt(parameter) if factorisation.distribution == "gaussian" else float(parameter)
        scale = math.ldexp(root, -bits)
        super().__init__(factorisation, size, capacity=capacity, scale=scale, sensitivity=sensitivity, bound=bound)
        if not 0 <= fine <= bits:
            raise InvalidInput(f"fine must lie in [0, {bits}], got fine={fine!r}")
        self.parameter, self.bits, self.fine, self.touched, self.wide = parameter, bits, fine, touched, wide
        self.recursion = integer_noise(factorisation, wide) if recursion is None else recursion

    @property
    def event(self) -> accounting.DpEvent:
        """What all reads together do to one user's privacy, for the accountant."""
        noise = self.recursion
        weight, entries = noise.norm
        if self.distribution == "laplace":
            return accounting.laplace(self.parameter / (math.ldexp(self.sensitivity.l1, self.bits) * weight), entries)
        shift = _shift(noise.norm[0], math.ldexp(self.sensitivity.l2, self.bits), self._slack)
        moved = self._changed * noise.moved
        return discrete.gaussian(self.parameter, shift, moved, count=entries, least=noise.least)

    @property
    def rounded_draws(self) -> float:
        """How much of a read's noise is rounding at most, in units of one draw's."""
        return math.sqrt(self.horizon * self.factorisation.worst_variance) + self.recursion.rounding

    @property
    def _slack(self) -> float:
        """What rounding adds to a shift."""
        return _rounded(self.recursion, self._changed)

    @property
    def _changed(self) -> int:
        """How many coordinates can change if one user is replaced."""
        return _changed(self.touched, self.size)

    def error_bound(self, beta: float, *, groups: tuple[tuple[int, int], ...] | None = None) -> float:
        """Returns E that, with probability at least 1 − ``beta``, no noise in any read exceeds in absolute value.

        A discrete Laplace draw is a difference of two exponential ones, each rounded down: less than one unit from the
        continuous one. A discrete Gaussian draw is, but for a factor e^η in its probabilities, a continuous one that
        was rounded by a Gaussian of variance r² (`discreet.privacy.discrete`), whose tail is added.
        """
        beta = check_fraction("beta", beta)
        groups = groups or ((self.size, 1),)
        widest = max(width for _, width in groups)
        rounded = self.recursion.rounding / 2 + 1e-3
        if self.distribution == "laplace":
            units = self.factorisation.worst_variance * widest
            return super().error_bound(beta, groups=groups) + math.ldexp(units, -self.bits)
        ways = 2.0 * self.horizon * sum(number for number, _ in groups)
        r2 = discrete.rounding_variance(self._changed * self.recursion.moved)
        spread = math.sqrt(r2 * self.factorisation.worst_variance * widest / self.recursion.least)
        reach = spread * math.sqrt(2 * math.log(ways / (1e-6 * beta)))
        found = super().error_bound(beta * (1 - 2e-6), groups=groups)
        return found * (1 + 1e-9) + math.ldexp(reach + rounded * widest, -self.bits)

    def calibration(self) -> dict[str, Any]:
        """Returns what was calibrated."""
        return {name: getattr(self, name) for name in ("scale", "parameter", "bits", "fine", "wide")}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes what `calibration` returned on another machine."""
        super().recalibrate({"wide": 0, **found})
        self.recursion = integer_noise(self.factorisation, self.wide)

    def start(self) -> SumState:
        """Returns the state that nobody is in: integers."""
        zeros = cast("NDArray[np.float64]", np.zeros(self.size, dtype=np.int64))
        return SumState(0, zeros, self.recursion.start(self.size))

    def whole(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns users' values in units of 2^-fine.

        Raises:
            InvalidPersonalData: If one of them lies off the grid.
        """
        scaled = np.ldexp(values, self.fine)
        if not (np.abs(scaled) < 2.0**53).all() or (scaled != np.rint(scaled)).any():
            raise InvalidPersonalData(f"values must be multiples of 2^-{self.fine}, and not too large for it")
        return scaled.astype(np.int64)

    def _admitted(
        self, indices: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns indices and integers of users' rows; raises unless the sensitivity allows for every row."""
        from discreet.sums import _integer_kernels as kernels

        indices, values = check_users(indices, values, self.size)
        whole = self.whole(values)
        if indices.shape[1] > self.touched:
            raise InvalidPersonalData(f"a user has at most {self.touched} values")
        if self.bound is not None:
            most = self.bound.l1 << self.fine
            if whole.size and (int(whole.max()) > most or int(whole.min()) < 0):
                raise InvalidPersonalData(f"a user's values must lie in [0, {self.bound.l1}]")
            l1, l2_squared = kernels.largest_norms(indices, whole, most)
            if l1 > most or l2_squared > self.bound.l2_squared << 2 * self.fine:
                raise InvalidPersonalData(
                    f"a user's values must not be negative, with L1 norm at most {self.bound.l1} "
                    f"and L2 norm at most {math.sqrt(self.bound.l2_squared):.6g}"
                )
        return indices, whole

    def check(self, indices: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Raises unless every row is a vector that the sensitivity allows for, on the grid."""
        self._admitted(indices, values)

    def added(self, state: SumState, indices: NDArray[np.int64], values: NDArray[np.float64]) -> SumState:
        """Returns the state with more users in it, one row each; see `NoisySum.added`."""
        from discreet.sums import _integer_kernels as kernels

        indices, whole = self._admitted(indices, values)
        self._check_room(state, len(indices))
        total = state.total.copy()
        kernels.add_users(total, indices, whole << (self.bits - self.fine))
        return state._replace(users=state.users + len(indices), total=total)

    def added_total(self, state: SumState, total: NDArray[np.float64], users: int) -> SumState:
        """In simulation: returns the state with the total of ``users`` users in it."""
        checked = super().added_total(state._replace(total=np.zeros(self.size)), total, users)
        whole = self.whole(checked.total) << (self.bits - self.fine)
        return checked._replace(total=cast("NDArray[np.float64]", state.total + whole))

    def released(self, state: SumState, source: Source) -> tuple[SumState, NDArray[np.float64]]:
        """Returns the state after a release, and the sum with noise, (size,): an integer number of grid units.

        Raises:
            NotReadable: If all reads are released.
        """
        if state.reads == self.horizon:
            raise NotReadable(f"this sum cannot be read: all {self.horizon} reads are released")
        parameter = self.parameter
        if self.distribution == "gaussian":
            parameter = self.recursion.variance(state.reads + 1, parameter)
        z = source.integers(self.distribution, parameter, self.size)
        kept, noise = self.recursion.advance(state.noise, z)
        return state._replace(noise=kept), (state.total + noise) * math.ldexp(1.0, -self.bits)


def _changed(touched: int, size: int) -> int:
    """Returns how many of ``size`` coordinates differ at most between two users with ``touched`` values each."""
    return min(2 * touched, size)


def _rounded(noise: IntegerNoise, changed: int) -> float:
    """Returns what rounding adds to the L2 norm of a user's shift, in grid units."""
    return noise.inverse * noise.rounding * math.sqrt(float(noise.shape.horizon) * changed)


def _shift(norm: float, l2: float, rounded: float) -> float:
    return norm * l2 + rounded


def secure_sum(
    shape: Factorisation,
    size: int,
    *,
    capacity: int,
    scale: float,
    sensitivity: Sensitivity,
    grid: Grid,
    bound: UserBound | None = None,
    budget: Budget | None = None,
) -> SecureSum:
    """Returns the secure twin of a sum.

    Args:
        shape: Which noise is in which read.
        size: Number of coordinates.
        capacity: Number of users at most.
        scale: Of continuous noise, from which the grid is chosen, and the noise itself if there is no budget.
        sensitivity: Of one user's vector.
        grid: What is known of users' vectors.
        bound: What every user's vector must keep.
        budget: What the noise is calibrated for, in grid units: the least that is proven for it.

    Raises:
        InvalidInput: If no grid is fine enough for exact sums of so many users.
    """
    noise = integer_noise(shape)
    fine = grid.fine
    spread = math.sqrt(shape.worst_variance)
    unit = scale * (1.0 if shape.distribution == "gaussian" else math.sqrt(2))
    room = _EXACT - math.ceil(math.log2(capacity * grid.entry + REACH * unit * spread))
    bits = min(math.floor(min(noise.finest, noise.usual) - math.log2(unit)), room)
    own = FINE if fine is None else fine
    if fine is None and bound is not None:
        own = min(own, 31 - bound.l1.bit_length())  # squares of whole vectors fit
    if bits < own:  # the users' own grid, as far as whole sums fit
        bits = min(own, room, math.floor(noise.most - math.log2(unit)))
    if bits < (0 if fine is None else fine) or own < 0:
        remedy = "a larger epsilon" if capacity * grid.entry < REACH * unit * spread else "fewer users"
        raise InvalidInput(
            f"noise='secure' has no grid for {capacity} users and noise of {unit:.6g} with sum={shape.name!r}: their "
            f"sums do not fit; take {remedy}, or another sum"
        )
    wide = math.ceil(math.log2(unit) + bits) + 1
    if wide <= noise.usual + 1:
        wide = 0
    if shape.distribution == "laplace":
        parameter = math.ceil(math.ldexp(scale, bits))
    elif budget is None:
        parameter = math.ceil(math.ldexp(scale, bits) ** 2)
    else:
        noise = integer_noise(shape, wide)
        parameter = _variance(noise, math.ldexp(sensitivity.l2, bits), _changed(grid.touched, size), budget)
    return SecureSum(
        shape,
        size,
        capacity=capacity,
        parameter=parameter,
        bits=bits,
        fine=min(own, bits),
        sensitivity=sensitivity,
        touched=grid.touched,
        bound=bound,
        wide=wide,
    )


def _variance(noise: IntegerNoise, l2: float, changed: int, budget: Budget) -> int:
    """Returns the least variance, up to rounding, whose proven ε is at most the budget's."""
    shift = _shift(noise.norm[0], l2, _rounded(noise, changed)) * math.sqrt(noise.norm[1])
    mu = accounting.gaussian_mu(budget.epsilon - discrete.NEAR, budget.delta * (1 - discrete.NEAR))
    r2 = discrete.rounding_variance(changed * noise.moved) / noise.least
    return math.ceil((shift / mu) ** 2 * (1 + 1e-11) + r2)

"""How the noise of a factorisation is made of integers, for noise that may be released.

Read t is Σ_{s ≤ t} x_s + W_t in grid units, with

    W_t = z_t + P_t(z_1 … z_{t−1}),

where z_t is a fresh integer and P_t is a rounded function of earlier ones. z ↦ W is a bijection of integer sequences.
So for a neighbour x' the same reads mean the draws z + D, and D_t is an integer that depends on earlier reads alone:
the argument for adaptive mechanisms holds as it stands. With ρ_t = P_t − (B z)_t + z_t, what rounding does to P_t,

    D = B⁻¹(A(x − x') + ρ(z) − ρ(z + D)).

The first part is that of exact noise: ‖c‖ times the user's sensitivity. Where |ρ_t(z) − ρ_t(z')| ≤ R in the m
coordinates that a user touches, and equal in all others, the second is no longer than ‖B⁻¹‖·R·√(T·m).

*Trees and batches.* B has integer entries and ones on its diagonal: nothing is rounded, R = 0.

*Factored.* b_s = Σ_j g_j(1 − κ_j)^s with g and κ multiples of 2⁻⁶² and b_0 = 1. Mode j is v ← v − round(κv) +
round(g·z), in units of 2^-guard: two roundings of ½ a step, which decay with it, so its error is at most 1/κ_j units.
The mode with κ = 0 is a multiple of the exact sum of all draws. b is a positive mixture of powers of numbers in [0, 1]
but for b_0 = 1, which is not less than the mixture's: so it is log-convex, its inverse series is 1 − Σf_s x^s with f_s
≥ 0 and Σf_s ≤ 1 (Kaluza), and ‖B⁻¹‖ ≤ 2.

*Optimal.* Read t draws z_t with B_tt² times the variance, so that W_t = z_t + Σ_{s<t} (B_ts/B_ss)·z_s.

Draws so large that a mode would run over are refused before anything is released. They are beyond 64 standard
deviations; their probability, less than e⁻²⁰⁰⁰, is no number that δ could show.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.sums.factorisation import Batch, Binary, Factored, Optimal, Smooth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.sums.factorisation import Factorisation

__all__ = ["REACH", "IntegerNoise", "integer_noise"]

#: No draw, and no noise of a read, is larger than so many standard deviations.
REACH = 64
_ONE = 1 << 62
_LEAST_GUARD = 8
_TOO_LARGE = "a draw of noise is too large for this sum; nothing was released"


class IntegerNoise(ABC):
    """The recursion z ↦ W of a factorisation.

    Attributes:
        shape: The factorisation.
        norm: (c, k) of its C, as `Factorisation.entries`: proven for the integer recursion.
        rounding: R.
        inverse: ‖B⁻¹‖ at most.
        finest: Bits of the noise's scale in grid units: more gain nothing, and draws would take two random words each.
        usual: The same, up to which rounding is as small as it can be.
        most: The same, where it must end: draws of `REACH` standard deviations fit.
        least: The smallest variance of a draw, relative to the largest that is spoken of.
    """

    rounding = 0.0
    inverse = 1.0
    usual = 50
    most = 50
    least = 1.0

    def __init__(self, shape: Factorisation, wide: int = 0) -> None:
        self.shape = shape
        self.norm = shape.entries
        self.finest = 32 if shape.distribution == "gaussian" else 31

    @property
    def moved(self) -> int:
        """In how many reads a user's coordinate can get another draw."""
        return self.norm[1] if self.rounding == 0 else self.shape.horizon

    def variance(self, read: int, variance: int) -> int:
        """Returns the variance of the draws of a read, from 1."""
        return variance

    @abstractmethod
    def start(self, size: int) -> dict[str, Any]:
        """Returns the state before the first read: ``reads``, and arrays that are never changed in place."""

    @abstractmethod
    def advance(self, state: dict[str, Any], z: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Takes the draws of the next read, (size,); returns the state after it and the read's noise, (size,).

        Raises:
            OverflowError: If a draw is beyond all that the proof allows for. Nothing changes.
        """


class _Tree(IntegerNoise):
    """Keeps the noise of the last read of each depth."""

    def start(self, size: int) -> dict[str, Any]:
        state = self.shape.start(1)
        deepest = len(state.pop("array"))
        return {**state, "rows": [np.zeros(size, dtype=np.int64)] * deepest}

    def advance(self, state: dict[str, Any], z: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[np.int64]]:
        found = {**state, "rows": list(state["rows"])}
        (depth,) = self.shape.depths(found, 1)
        noise = found["rows"][depth] = found["rows"][depth - 1] + z
        return found, noise


class _Batch(IntegerNoise):
    """Keeps the noise of the last read."""

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "array": np.zeros(size, dtype=np.int64)}

    def advance(self, state: dict[str, Any], z: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[np.int64]]:
        noise: NDArray[np.int64] = state["array"] + z
        return {"reads": state["reads"] + 1, "array": noise}, noise


class _Factored(IntegerNoise):
    """Keeps the sum of all draws, and the modes."""

    inverse = 2.0

    def __init__(self, shape: Factored, wide: int = 0) -> None:
        super().__init__(shape)
        decays, weights = shape.coefficients
        T = shape.horizon
        self._decays = np.array([round(Fraction(x) * _ONE) for x in decays], dtype=np.uint64)
        rounded = [int(Fraction(x) * _ONE) for x in weights]
        rounded[0] -= max(sum(rounded) - _ONE, 0)  # b_0 = 1 is not less than the mixture's
        self._weights = np.array(rounded, dtype=np.uint64)
        slow = [1 / x for x in decays[1:]]
        guard = max(_LEAST_GUARD, math.ceil(math.log2(8 * max(slow))))
        self.usual = 54 - guard
        self.most = max(self.usual, min(54 - _LEAST_GUARD, 54 - math.ceil(math.log2(T) / 2)))  # all draws' sum fits
        # larger noise needs fewer guard bits: what it is rounded by grows, and so does what that is compared with
        self.guard = min(guard, max(_LEAST_GUARD, 55 - wide)) if wide else guard
        units = sum(min(float(T), x * (1 + 1e-9)) for x in slow) + 1
        self.rounding = 2 * (0.5 + math.ldexp(units, -self.guard))
        # C is that of coefficients which differ in their last bits: C' − C = B'⁻¹(B − B')C
        s = np.array([min(float(T), x) for x in slow])
        modes = float((weights[1:] * s).sum())
        apart = 1e-14 * (weights[0] * T + 2 * modes)  # of b, whose sum this bounds, and of the decays
        apart += 2.0**-60 * (len(weights) * T + float((weights[1:] * s * s).sum()))
        c, k = shape.entries
        self.norm = c * (1 + self.inverse * apart) * (1 + 1e-9), k

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "array": np.zeros((size, len(self._weights)), dtype=np.int64)}

    def advance(self, state: dict[str, Any], z: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[np.int64]]:
        from discreet.sums import _integer_kernels as kernels

        noise, array = np.empty(len(z), dtype=np.int64), np.empty_like(state["array"])
        if not kernels.advance_modes(
            self._weights, self._decays, np.uint64(self.guard), z, state["array"], array, noise
        ):
            raise OverflowError(_TOO_LARGE)
        return {"reads": state["reads"] + 1, "array": array}, noise


class _Optimal(IntegerNoise):
    """Keeps all draws."""

    usual = 34
    most = 44

    def __init__(self, shape: Optimal, wide: int = 0) -> None:
        super().__init__(shape)
        B, T = shape.coefficients, shape.horizon
        diagonal = np.diag(B)
        self._squares = [Fraction(x) ** 2 for x in diagonal.tolist()]
        self._ratios = np.tril(B / diagonal, -1)
        self._largest = int(math.ldexp(REACH * float(diagonal.max()), max(self.usual, wide)))
        self.inverse = float(np.linalg.norm(np.linalg.inv(B), 2)) * (1 + 1e-6)
        self.least = float(min(self._squares)) * (1 - 1e-12)
        # T terms and as many additions, none of them larger than all draws at their largest; each is off by 2⁻⁵³ of it,
        # and so is every ratio
        largest = self._largest * float(np.abs(self._ratios).sum(axis=1).max())
        self.rounding = 2 * (0.5 + 3 * T * 2.0**-53 * largest)

    def variance(self, read: int, variance: int) -> int:
        return math.ceil(self._squares[read - 1] * variance)

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "size": size, "rows": []}

    def advance(self, state: dict[str, Any], z: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[np.int64]]:
        from discreet.sums import _integer_kernels as kernels

        if z.size and max(int(z.max()), -int(z.min())) > self._largest:
            raise OverflowError(_TOO_LARGE)
        total = np.zeros(len(z))
        for ratio, row in zip(self._ratios[state["reads"]], state["rows"], strict=False):
            kernels.accumulate(ratio, row, total)
        return {**state, "reads": state["reads"] + 1, "rows": [*state["rows"], z]}, z + np.rint(total).astype(np.int64)


_KINDS: dict[type[Any], type[IntegerNoise]] = {
    Binary: _Tree,
    Smooth: _Tree,
    Batch: _Batch,
    Factored: _Factored,
    Optimal: _Optimal,
}


def integer_noise(shape: Factorisation, wide: int = 0) -> IntegerNoise:
    """Returns the integer recursion of a factorisation.

    Args:
        shape: The factorisation.
        wide: Bits of the noise's scale in grid units, and one more, if they are above `IntegerNoise.usual`; else 0.

    Raises:
        InvalidInput: If there is none: its noise cannot be exact.
    """
    if type(shape) not in _KINDS:
        raise InvalidInput(f"noise='secure' is not exact for sum={shape.name!r}; try tree, smooth-tree or batch")
    return _KINDS[type(shape)](shape, wide)

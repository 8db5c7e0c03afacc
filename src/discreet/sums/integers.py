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


class IntegerNoise(ABC):
    """The recursion z ↦ W of a factorisation.

    Attributes:
        shape: The factorisation.
        norm: (c, k) of its C, as `Factorisation.entries`: proven for the integer recursion.
        rounding: R.
        inverse: ‖B⁻¹‖ at most.
        guard: Bits behind the grid's that the state has.
        least: The smallest variance of a draw, relative to the largest that is spoken of.
    """

    rounding = 0.0
    inverse = 1.0
    guard = 0
    least = 1.0

    def __init__(self, shape: Factorisation) -> None:
        self.shape = shape
        self.norm = shape.entries

    @property
    def moved(self) -> int:
        """In how many reads a user's coordinate can get another draw."""
        return self.norm[1] if self.rounding == 0 else self.shape.horizon

    def variance(self, read: int, variance: int) -> int:
        """Returns the variance of the draws of a read, from 1."""
        return variance

    def start(self, size: int) -> dict[str, Any]:
        """Returns the state before the first read, in integers."""
        state = self.shape.start(size)
        return {**state, "array": np.zeros(state["array"].shape, dtype=np.int64)}

    def advance(self, state: dict[str, Any], z: NDArray[np.int64]) -> NDArray[np.int64]:
        """Takes the draws of the next read, (size,), changes ``state``, and returns the read's noise, (size,)."""
        (depth,) = self.shape.depths(state, 1)
        noise = np.empty(len(z), dtype=np.int64)
        if not self._run(int(depth), np.ascontiguousarray(z), state["array"], noise):
            raise OverflowError("a draw of noise is too large for this sum; nothing was released")
        return noise

    @abstractmethod
    def _run(self, depth: int, z: NDArray[np.int64], array: NDArray[np.int64], noise: NDArray[np.int64]) -> bool: ...


class _Tree(IntegerNoise):
    def _run(self, depth: int, z: NDArray[np.int64], array: NDArray[np.int64], noise: NDArray[np.int64]) -> bool:
        from discreet.sums import _integer_kernels as kernels

        kernels.advance_tree(depth, z, array, noise)
        return True


class _Batch(IntegerNoise):
    def _run(self, depth: int, z: NDArray[np.int64], array: NDArray[np.int64], noise: NDArray[np.int64]) -> bool:
        array[:, 0] += z
        noise[:] = array[:, 0]
        return True


class _Factored(IntegerNoise):
    inverse = 2.0

    def __init__(self, shape: Factored) -> None:
        super().__init__(shape)
        decays, weights = shape.coefficients
        T = shape.horizon
        self._decays = np.array([round(Fraction(x) * _ONE) for x in decays], dtype=np.uint64)
        rounded = [int(Fraction(x) * _ONE) for x in weights]
        rounded[0] -= max(sum(rounded) - _ONE, 0)  # b_0 = 1 is not less than the mixture's
        self._weights = np.array(rounded, dtype=np.uint64)
        slow = [1 / x for x in decays[1:]]
        self.guard = max(8, math.ceil(math.log2(8 * max(slow))))
        units = sum(min(float(T), x * (1 + 1e-9)) for x in slow) + 1
        self.rounding = 2 * (0.5 + math.ldexp(units, -self.guard))
        # C is that of coefficients which differ in their last bits: C' − C = B'⁻¹(B − B')C
        s = np.array([min(float(T), x) for x in slow])
        size = weights[0] * T + float((weights[1:] * s).sum())  # Σ b_s at most
        apart = 1e-14 * (size + float((weights[1:] * s).sum()))
        apart += 2.0**-60 * (len(weights) * T + float((weights[1:] * s * s).sum()))
        c, k = shape.entries
        self.norm = c * (1 + self.inverse * apart) * (1 + 1e-9), k

    def _run(self, depth: int, z: NDArray[np.int64], array: NDArray[np.int64], noise: NDArray[np.int64]) -> bool:
        from discreet.sums import _integer_kernels as kernels

        return bool(kernels.advance_modes(self._weights, self._decays, np.uint64(self.guard), z, array, noise))


class _Optimal(IntegerNoise):
    guard = 10

    def __init__(self, shape: Optimal) -> None:
        super().__init__(shape)
        B = shape.coefficients
        diagonal = np.diag(B)
        self._squares = [Fraction(x) ** 2 for x in diagonal.tolist()]
        self._rows = np.array([[self._coefficient(B[t, s], B[s, s]) for s in range(len(B))] for t in range(len(B))])
        self.inverse = float(np.linalg.norm(np.linalg.inv(B), 2)) * (1 + 1e-6)
        self.least = float(min(self._squares)) * (1 - 1e-12)
        # a term is off by ½ a unit for its rounding, and by its coefficient's last bit times a draw below 2^42
        self.rounding = 2 * (0.5 + (shape.horizon - 1) * (math.ldexp(0.5, -self.guard) + 2.0**-62 * 2.0**42))

    @staticmethod
    def _coefficient(entry: float, pivot: float) -> np.uint64:
        """Returns entry/pivot over 2^61 with its sign in the highest bit."""
        ratio = Fraction(entry) / Fraction(pivot)
        size = round(abs(ratio) * (1 << 61))
        if size > _ONE:
            raise InvalidInput("this factorisation has coefficients above 2")  # pragma: no cover
        return np.uint64(size | (1 << 63 if ratio < 0 else 0))

    def variance(self, read: int, variance: int) -> int:
        return math.ceil(self._squares[read - 1] * variance)

    def _run(self, depth: int, z: NDArray[np.int64], array: NDArray[np.int64], noise: NDArray[np.int64]) -> bool:
        from discreet.sums import _integer_kernels as kernels

        if z.size and max(int(z.max()), -int(z.min())) >= 1 << 42:
            return False
        kernels.advance_dense(self._rows[depth], depth, np.uint64(self.guard), z, array, noise)
        return True


_KINDS: dict[type[Any], type[IntegerNoise]] = {
    Binary: _Tree,
    Smooth: _Tree,
    Batch: _Batch,
    Factored: _Factored,
    Optimal: _Optimal,
}


def integer_noise(shape: Factorisation) -> IntegerNoise:
    """Returns the integer recursion of a factorisation.

    Raises:
        InvalidInput: If there is none: its noise cannot be exact.
    """
    if type(shape) not in _KINDS:
        raise InvalidInput(f"noise='secure' is not exact for sum={shape.name!r}; try tree, smooth-tree or batch")
    return _KINDS[type(shape)](shape)

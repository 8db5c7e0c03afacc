"""Noise that may be released: exact integers, from the operating system's randomness.

There is no seed, no key and no state: a draw cannot be repeated, not by us, and not by a fork. Samples of continuous
laws do not exist here, because a floating-point number cannot follow one, and its last digits betray what the noise
should hide.

Import this module freely: it needs NumPy only. The compiler is loaded at the first draw that is not ``numpy_only``.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn

import numpy as np

from discreet.errors import InvalidInput, check_integer
from discreet.noise import uniform
from discreet.noise.discrete import sample
from discreet.noise.source import Distribution, Source
from discreet.noise.tables import Law, table
from discreet.noise.uniform import below, bits, random, shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise.source import Shape

__all__ = ["SecureSource", "below", "bits", "gaussian", "laplace", "permutation", "permuted", "random"]

#: The largest scale of a Laplace law, and the largest standard deviation of a Gaussian.
LARGEST = 2**55


def gaussian(variance: int | Fraction, size: Shape, *, numpy_only: bool = False) -> NDArray[np.int64]:
    """Draws from the discrete Gaussian, P(x) ∝ exp(−x²/(2·variance)) on the integers.

    Args:
        variance: More than 0, at most 2^110: an integer or a `Fraction`. Floats are refused, because they are seldom
            the number that was meant.
        size: A number or a shape.
        numpy_only: For a user's device, which has no compiler. The law is the same.

    Returns:
        Independent samples, int64, of that shape.

    Guarantee:
        The law is exact: no rounding of floating-point numbers enters it. It assumes that the bits of `os.urandom`
        are uniform and independent. A sample beyond ±2^63 raises `NumericalError`; its probability is below 2^−360.
        Time depends slightly on the values: draw noise in bulk, and before the data are looked at.

    References:
        Canonne, Kamath, Steinke (2020), Definition 1.
    """
    shape = shape_of(size)
    law = Law.gaussian(_rational("variance", variance, LARGEST**2))
    return sample(table(law), prod(shape), numpy_only=numpy_only).reshape(shape)


def laplace(scale: int | Fraction, size: Shape, *, numpy_only: bool = False) -> NDArray[np.int64]:
    """Draws from the discrete Laplace law, P(x) ∝ exp(−|x|/scale) on the integers.

    Args:
        scale: More than 0, at most 2^55: an integer or a `Fraction`.
        size: A number or a shape.
        numpy_only: For a user's device, which has no compiler. The law is the same.

    Returns:
        Independent samples, int64, of that shape.

    Guarantee:
        As for `gaussian`. On integers that move by at most Δ in sum, it is ε-differentially private with ε = Δ/scale.
    """
    shape = shape_of(size)
    law = Law.laplace(_rational("scale", scale, LARGEST))
    return sample(table(law), prod(shape), numpy_only=numpy_only).reshape(shape)


def permutation(n: int) -> NDArray[np.int64]:
    """Returns the numbers below ``n`` in an order that is exactly uniform."""
    return uniform.orders(1, check_integer("n", n, least=0)).reshape(-1)


def permuted(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns a table (rows, n) with every row in an order of its own, which is exactly uniform."""
    if rows.ndim != 2:
        raise InvalidInput(f"rows must be a table, got an array of shape {rows.shape}")
    found: NDArray[np.bool_] = np.take_along_axis(rows, uniform.orders(*rows.shape), axis=1)
    return found


def _rational(name: str, value: object, most: int) -> Fraction:
    """Returns a positive integer or fraction exactly; raises `InvalidInput` naming it otherwise."""
    if isinstance(value, Fraction):
        number = value
    else:
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError
            number = Fraction(value.__index__())  # type: ignore[attr-defined]
        except (AttributeError, TypeError):
            raise InvalidInput(f"{name} must be an integer or a Fraction, got {name}={value!r}") from None
    if number <= 0:
        raise InvalidInput(f"{name} must be more than 0, got {name}={value!r}")
    if number > most:
        raise InvalidInput(f"{name} must be at most 2^{most.bit_length() - 1}, got {name}={value!r}")
    return number


class SecureSource(Source):
    """Draws from the operating system, exactly; it has no state.

    Guarantee:
        Every draw has exactly the law that its method names, and is independent of all others, if the bits of
        `os.urandom` are uniform and independent.
    """

    __slots__ = ()
    kind: ClassVar[Literal["fast", "secure"]] = "secure"

    def random(self, shape: Shape) -> NDArray[np.float64]:
        """Returns uniform multiples of 2⁻⁵³ in [0, 1)."""
        return random(shape)

    def chance(self) -> float:
        """Returns one uniform multiple of 2⁻⁵³ in [0, 1)."""
        return float(random(1)[0])

    def integer(self, high: int) -> int:
        """Returns a uniform draw below ``high``."""
        return int(below(high, 1)[0])

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Returns the numbers below ``n`` in a uniformly random order."""
        return permutation(n)

    def permuted(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns a table with every row in a uniformly random order of its own."""
        return permuted(rows)

    def integers(
        self, distribution: Distribution, parameter: int | Fraction, shape: Shape, *, numpy_only: bool = False
    ) -> NDArray[np.int64]:
        """Returns discrete Laplace or Gaussian samples; see `laplace` and `gaussian`."""
        if distribution == "gaussian":
            return gaussian(parameter, shape, numpy_only=numpy_only)
        if distribution == "laplace":
            return laplace(parameter, shape, numpy_only=numpy_only)
        raise InvalidInput(f"distribution must be 'laplace' or 'gaussian', got distribution={distribution!r}")

    def noise(self, distribution: Distribution, scale: float, shape: Shape) -> NoReturn:
        """Raises: there is no secure sample of a continuous law."""
        _refuse(distribution, scale)

    def fill(self, distribution: Distribution, scale: float, out: NDArray[np.float64]) -> NoReturn:
        """Raises: there is no secure sample of a continuous law."""
        _refuse(distribution, scale)


def _refuse(distribution: Distribution, scale: float) -> NoReturn:
    raise InvalidInput(
        f"secure noise is made of integers: a floating-point number cannot follow a continuous law exactly, got "
        f"{distribution} noise of scale={scale!r}; put the data on a grid and draw with integers(...)"
    )

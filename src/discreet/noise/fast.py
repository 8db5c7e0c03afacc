"""Fast noise, for simulation only.

Continuous samples in floating point, from a seeded pseudo-random stream: statistically what the accountant assumes, but
neither unpredictable nor safe against attacks on floating-point numbers. Never release anything computed with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.noise.secure import SecureSource
from discreet.noise.source import Distribution, Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from discreet.noise.source import Shape

__all__ = ["Distribution", "FastSource", "as_source", "fill"]


def fill(rng: np.random.Generator, distribution: Distribution, scale: float, out: NDArray[np.float64]) -> None:
    """Fills ``out`` (n,) or (rows, n) with independent Laplace(scale) or N(0, scale²) samples.

    Filling some rows and then others gives the same numbers as filling all at once.
    """
    if distribution == "gaussian":
        rng.standard_normal(out=out)
        out *= scale
    else:
        from discreet.noise import _kernels

        _kernels.fill_laplace_rows(rng, scale, out.reshape(-1, out.shape[-1]))


class FastSource(Source):
    """Draws from a seeded generator.

    A simulation may go back to a `mark`: what was drawn since was never shown to anybody.
    """

    kind = "fast"

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def random(self, shape: Shape) -> NDArray[np.float64]:
        """Returns uniform draws in [0, 1)."""
        return self.generator.random(shape)

    def chance(self) -> float:
        """Returns one uniform draw in [0, 1)."""
        return self.generator.random()

    def integer(self, high: int) -> int:
        """Returns a uniform draw below ``high``."""
        return int(self.generator.integers(high))

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Returns the numbers below ``n`` in a random order."""
        return self.generator.permutation(n)

    def permuted(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns a table with every row in a random order of its own."""
        return self.generator.permuted(rows, axis=1)

    def noise(self, distribution: Distribution, scale: float, shape: Shape) -> NDArray[np.float64]:
        """Returns Laplace or Gaussian samples, with NumPy alone."""
        draw = self.generator.laplace if distribution == "laplace" else self.generator.normal
        return draw(scale=scale, size=shape)

    def fill(self, distribution: Distribution, scale: float, out: NDArray[np.float64]) -> None:
        """Fills ``out`` with Laplace or Gaussian samples; see `fill`."""
        fill(self.generator, distribution, scale, out)

    def binomial(self, trials: int, probability: float, size: int) -> NDArray[np.int64]:
        """In simulation: returns totals of so many bits, without drawing each."""
        return self.generator.binomial(trials, probability, size=size)

    def mark(self) -> Mapping[str, Any]:
        """Returns where the generator is now."""
        return self.generator.bit_generator.state

    def rewind(self, mark: Mapping[str, Any]) -> None:
        """Goes back to a `mark`."""
        self.generator.bit_generator.state = mark


def as_source(rng: Source | np.random.Generator | None) -> Source:
    """Returns the source itself, a fast one that draws from a generator, or, without either, a secure one."""
    if type(rng) is FastSource:  # before the slow question whether it is another one: every report asks it
        return rng
    if isinstance(rng, np.random.Generator):
        return FastSource(rng)
    if isinstance(rng, Source):
        return rng
    if rng is None:
        return SecureSource()
    raise TypeError(f"expected a numpy.random.Generator or a discreet.noise.Source, got {type(rng).__name__}")

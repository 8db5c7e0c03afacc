"""Exact noise at a user: their vector in integers, plus discrete noise. NumPy only.

The user's vector is put on a grid of 2^-bits, so fine that rounding costs nothing, and integers are drawn for it: what
leaves the device is an integer number of grid units, which a float holds exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, check_integer
from discreet.noise import as_source
from discreet.privatizers.hiding import gaussian_hides

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Distribution, Source
    from discreet.privacy import Budget, accounting

__all__ = ["ExactNoise"]

_FINEST = 34  # bits of the noise's scale in grid units


@dataclass(frozen=True)
class ExactNoise:
    """Discrete noise of a vector that one user hides.

    Attributes:
        distribution: ``"laplace"`` or ``"gaussian"``.
        bits: The grid is 2^-bits.
        parameter: Laplace's scale or the Gaussian's variance, in grid units.
    """

    distribution: Distribution
    bits: int
    parameter: int

    def __post_init__(self) -> None:
        check_integer("bits", self.bits, least=0, most=52)
        check_integer("parameter", self.parameter, most=2**100)

    @classmethod
    def of(cls, distribution: Distribution, scale: float) -> ExactNoise:
        """Returns discrete noise of no smaller ``scale``, on a grid that suits it."""
        bits = min(_FINEST - math.ceil(math.log2(scale)), 40)
        if bits < 0:
            raise InvalidInput(f"noise='secure' has no grid for noise of {scale:.6g}; take a larger epsilon")
        unit = math.ldexp(scale, bits)
        return cls(distribution, bits, math.ceil(unit * unit if distribution == "gaussian" else unit))

    @classmethod
    def proven(cls, l2: float, size: int, budget: Budget, *, rounded: bool = False) -> ExactNoise:
        """Returns the least Gaussian noise, up to rounding, with which a report keeps to a budget.

        Args:
            l2: The sensitivity of the vector before it is put on the grid.
            size: How many coordinates can change.
            budget: The budget.
            rounded: Whether coordinates are rounded to the nearest grid point; else they lie on the grid.
        """
        from discreet.privacy import accounting, discrete

        mu = accounting.gaussian_mu(budget.epsilon - discrete.NEAR, budget.delta * (1 - discrete.NEAR))
        bits = cls.of("gaussian", l2 / mu).bits
        shift = math.ldexp(l2, bits) + (math.sqrt(size) if rounded else 0.0)
        variance = (shift / mu) ** 2 * (1 + 1e-11) + discrete.rounding_variance(size)
        return cls("gaussian", bits, math.ceil(variance))

    @property
    def scale(self) -> float:
        """Laplace's scale or the Gaussian's σ, in the units of the vector."""
        root = math.sqrt(self.parameter) if self.distribution == "gaussian" else float(self.parameter)
        return math.ldexp(root, -self.bits)

    @property
    def unit(self) -> float:
        """The grid."""
        return math.ldexp(1.0, -self.bits)

    def event(self, shift: float, size: int, *, rounded: bool = False) -> accounting.DpEvent:
        """Returns what a report does to privacy: ``shift`` is its L1 (Laplace) or L2 (Gaussian) sensitivity."""
        from discreet.privacy import accounting, discrete

        if self.distribution == "laplace":
            return accounting.laplace(self.parameter / math.ldexp(shift, self.bits))
        return discrete.gaussian(self.parameter, self._moved(shift, size, rounded), size)

    def _moved(self, shift: float, size: int, rounded: bool) -> float:
        return math.ldexp(shift, self.bits) + (math.sqrt(size) if rounded else 0.0)

    def hides(self, shift: float, size: int, epsilon: float, delta: float, *, rounded: bool = False) -> bool:
        """Returns whether a report is (ε, δ)-private: what `event` proves, with NumPy alone."""
        from discreet.privacy import discrete

        if self.distribution == "laplace":
            return math.ldexp(shift, self.bits) / self.parameter <= epsilon
        left = self.parameter - discrete.rounding_variance(size)
        if left <= 0 or epsilon <= discrete.NEAR:
            return False
        mu = self._moved(shift, size, rounded) / math.sqrt(left)
        return gaussian_hides(mu, epsilon - discrete.NEAR, delta * (1 - discrete.NEAR))

    def floor(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns values rounded down to the grid."""
        return np.ldexp(np.floor(np.ldexp(values, self.bits)), -self.bits)

    def perturb(self, vectors: NDArray[np.float64], rng: Source | np.random.Generator | None) -> NDArray[np.float64]:
        """Returns ``vectors``, to the nearest grid point, with independent noise on every entry."""
        z = as_source(rng).integers(self.distribution, self.parameter, vectors.shape, numpy_only=True)
        whole = np.rint(np.ldexp(vectors, self.bits)).astype(np.int64)
        return np.ldexp((whole + z).astype(np.float64), -self.bits)

    def document(self) -> dict[str, Any]:
        """Returns what JSON can hold; an encoder of the fast kind has none of it."""
        return {"bits": self.bits, "parameter": self.parameter}

    @classmethod
    def read(cls, distribution: Distribution, parameters: dict[str, Any]) -> ExactNoise | None:
        """Returns what `document` wrote, or None if there is no exact noise."""
        if "bits" not in parameters:
            return None
        return cls(distribution, parameters["bits"], parameters["parameter"])

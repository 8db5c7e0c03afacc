"""A source of randomness: what every mechanism is given, at the user, at the shuffler and at the server.

Nothing else draws noise. So where the noise of a guarantee comes from is one word, ``kind``, and the guarantee takes it
from the source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Distribution", "Shape", "Source"]

Distribution = Literal["laplace", "gaussian"]
Shape = int | tuple[int, ...]


class Source(ABC):
    """Where draws come from.

    Attributes:
        kind: ``"fast"`` is for simulation, ``"secure"`` may be released.
    """

    kind: ClassVar[Literal["fast", "secure"]]

    @abstractmethod
    def random(self, shape: Shape) -> NDArray[np.float64]:
        """Returns uniform draws in [0, 1): multiples of 2⁻⁵³."""

    @abstractmethod
    def chance(self) -> float:
        """Returns one uniform draw in [0, 1)."""

    @abstractmethod
    def integer(self, high: int) -> int:
        """Returns a uniform draw below ``high``."""

    @abstractmethod
    def permutation(self, n: int) -> NDArray[np.int64]:
        """Returns the numbers below ``n`` in a uniformly random order."""

    @abstractmethod
    def permuted(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns a table with every row in a uniformly random order of its own."""

    @abstractmethod
    def noise(self, distribution: Distribution, scale: float, shape: Shape) -> NDArray[np.float64]:
        """Returns Laplace(scale) or N(0, scale²) samples, one person's; NumPy only."""

    @abstractmethod
    def fill(self, distribution: Distribution, scale: float, out: NDArray[np.float64]) -> None:
        """Fills ``out`` (n,) or (rows, n) with Laplace(scale) or N(0, scale²) samples: a server's, in bulk.

        Filling some rows and then others gives the same numbers as filling all at once.
        """

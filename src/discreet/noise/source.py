"""A source of randomness: what every mechanism is given, at the user, at the shuffler and at the server.

Nothing else draws noise. So where the noise of a guarantee comes from is one word, ``kind``, and the guarantee takes it
from the source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from fractions import Fraction

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

    __slots__ = ()  # a source without state has nowhere to keep any
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

    def integers(
        self, distribution: Distribution, parameter: int | Fraction, shape: Shape, *, numpy_only: bool = False
    ) -> NDArray[np.int64]:
        """Returns exact samples of a discrete law on the integers; only a secure source has them.

        Args:
            distribution: ``"laplace"``, P(x) ∝ exp(−|x|/parameter), or ``"gaussian"``, P(x) ∝ exp(−x²/(2·parameter)).
            parameter: The scale of the Laplace law, the *variance* of the Gaussian: an integer or a `Fraction`.
            shape: Of the result.
            numpy_only: For a user's device, which has no compiler; a server draws in bulk with compiled code.
        """
        raise InvalidInput(
            f"{self.kind} noise is continuous: exact {distribution} integers need a SecureSource, got "
            f"parameter={parameter!r}"
        )

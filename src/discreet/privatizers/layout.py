"""Where each tabular statistic lives in the one vector that users sum up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from discreet.mdp import Spec

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """The coordinates of visits n, transitions m and reward sums r, one behind the other.

    Attributes:
        spec: The environment's public sizes.
        stationary: Whether one set of counters serves all steps (else there is one for each).
    """

    spec: Spec
    stationary: bool

    @property
    def steps(self) -> int:
        """Number of sets of counters: 1 if pooled, else H."""
        return 1 if self.stationary else self.spec.horizon

    @property
    def cells(self) -> int:
        """Number of (h, s, a)."""
        return self.steps * self.spec.states * self.spec.actions

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.cells * (self.spec.states + 2)

    def split(
        self, vector: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Returns views on n (steps, S, A), m (steps, S, A, S) and r (steps, S, A)."""
        S, A, n = self.spec.states, self.spec.actions, self.cells
        return (
            vector[:n].reshape(self.steps, S, A),
            vector[n : n * (S + 1)].reshape(self.steps, S, A, S),
            vector[n * (S + 1) :].reshape(self.steps, S, A),
        )

"""Where each tabular statistic lives in the one vector that users sum up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privatizers.base import PrivateCounts

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """The coordinates of visits n (if released), transitions m and reward sums r (if released), one behind the other.

    Attributes:
        spec: The environment's public sizes.
        stationary: Whether one set of counters serves all steps (else there is one for each).
        visits: Whether the visits have counters of their own; else they are sums of transitions.
        rewards: Whether there are reward sums at all.
        layer: The one step, from 0, that is counted; None counts all.
    """

    spec: Spec
    stationary: bool
    visits: bool = True
    rewards: bool = True
    layer: int | None = None

    @property
    def families(self) -> int:
        """How many families of counters there are: (n, m, r), (m, r), (n, m) or m."""
        return 1 + self.visits + self.rewards

    @property
    def steps(self) -> int:
        """Number of sets of counters: 1 if pooled or if one step is counted, else H."""
        return 1 if self.stationary or self.layer is not None else self.spec.horizon

    @property
    def counted(self) -> int:
        """How many steps of an episode are counted."""
        return self.spec.horizon if self.layer is None else 1

    @property
    def shift(self) -> int:
        """By how much a user can change a counter: 1, or H if it is pooled over the steps."""
        return self.counted if self.stationary else 1

    @property
    def pairs(self) -> int:
        """How many counters go up, and how many down, by `shift` in the worst case that one user is replaced."""
        return self.families * self.steps

    @property
    def touched(self) -> int:
        """How many counters can change at most if one user is replaced."""
        return min(2 * self.families * self.counted, self.size)

    @property
    def cells(self) -> int:
        """Number of (h, s, a)."""
        return self.steps * self.spec.states * self.spec.actions

    @property
    def starts(self) -> tuple[int, int]:
        """Where the transitions and the rewards begin; the visits, if any, begin at 0."""
        transitions = self.cells if self.visits else 0
        return transitions, transitions + self.cells * self.spec.states

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.starts[1] + (self.cells if self.rewards else 0)

    def split(
        self, vector: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Returns n (steps, S, A), m (steps, S, A, S) and r (steps, S, A): views, except for derived visits.

        If there are no reward sums, r is empty: (0, S, A).
        """
        S, A = self.spec.states, self.spec.actions
        m, r = self.starts
        transitions = vector[m:r].reshape(self.steps, S, A, S)
        if self.visits:
            visits = vector[:m].reshape(self.steps, S, A)
        else:
            visits = transitions[..., 0].copy()
            for s in range(1, S):  # one after the other, as compiled code does
                visits += transitions[..., s]
        return visits, transitions, vector[r:].reshape(-1, S, A)

    def joined(self, counts: PrivateCounts) -> NDArray[np.float64]:
        """Returns the vector that `split` makes these counts of, (size,)."""
        import numpy as np

        parts = [counts.visits] if self.visits else []
        return np.concatenate([part.ravel() for part in (*parts, counts.transitions, counts.rewards)])

"""Weighted counts: every user spends a bounded norm on what they saw, so that a sum needs far less noise.

A user's vector holds, for every cell c = (s,a), of all steps together (the *pooled* block), of each step (the *steps*
block) or both,

    x(c,s') = Σw,      k_n·ν(c) = k_n·Σw,      k_r·ρ(c) = k_r·Σw·(R − z)

over the visits of the cell, where z is the middle of the rewards. The weight w of a step is *predictable*: it may
depend on the user's earlier steps and on (s,a), not on s' or R. So x/ν and z + ρ/ν are unbiased, whatever the weights.

**The weight.** Let a = 1 + k_r²·y² + k_n² with y = max(z, 1 − z), and let a block's limit be ‖·‖² ≤ L. At step h in c
the user spends b, the share g(c)/(g(c) + max(F_h(s) − g(c), 0)) of what is left, where g is how much the server still
wants a cell and F_h(s) how much it expects to want from step h on, both public:

    β = max_{s'} x(c,s') + k_r²·y·|ρ(c)| + k_n²·ν(c),      w = (−β + √(β² + a·b))/a,

and at most 1 if weights are capped. Then for all s' and R

    ‖new‖² − ‖old‖² = w² + 2w·x(c,s') + k_r²(d² + 2d·ρ) + k_n²(w² + 2w·ν) ≤ a·w² + 2β·w = b,   d = w(R − z), |d| ≤ y·w.

So ‖x‖² ≤ L on every trajectory.

**Sensitivity.** For two users' vectors all products x·x' and ν·ν' are ≥ 0, and k_r²ρρ' ≥ −k_r²y²νν' if z lies inside,
so k_n ≥ k_r·y makes the inner product of a block ≥ 0 (for z = 0 there is nothing negative). Then ‖x − x'‖² ≤
‖x‖² + ‖x'‖² ≤ 2L: replacing a user moves the whole vector by at most √(2ΣL) over the blocks. Two users who never share
a cell, and spend all, attain it.

Weights and d lie on a grid, rounded towards 0, which keeps all of this and makes sums exact in any order if k_n and
k_r are small powers of 2. What floating point adds to a norm, and what the server lets pass because of it, `SLACK`, is
in the sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from discreet.errors import InvalidInput, check_flag, check_number
from discreet.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privatizers.weighted.serve import WeightedCounts
    from discreet.sums import Grid

__all__ = ["GRID", "SLACK", "Block", "WeightedLayout"]

#: Weights and what they make of rewards are multiples of this.
GRID_BITS = 22
GRID = 2.0**-GRID_BITS
#: By how much a squared length may exceed its limit, and a reward sum what the visits allow, relatively: rounding.
SLACK = 1e-9


@dataclass(frozen=True)
class WeightedLayout:
    """Where each weighted count lives in the one vector that users sum up, and how long a user's vector may be.

    Attributes:
        spec: The environment's public sizes.
        pooled: The pooled block's share of the norm; 0 is no such block.
        steps: The steps block's share.
        reward: k_r.
        visit: k_n.
        centre: z, what is subtracted from rewards.
        clipped: Whether users clip: L = a·H·share²; else every weight is the share, and L = a·H²·share² if pooled.
    """

    spec: Spec
    pooled: float = 1.0
    steps: float = 0.0
    reward: float = 1.0
    visit: float = 0.5
    centre: float = 0.5
    clipped: bool = True

    def __post_init__(self) -> None:
        for name in ("pooled", "steps", "reward", "visit", "centre"):
            check_number(name, getattr(self, name))
        check_flag("clipped", self.clipped)
        if not self.blocks:
            raise InvalidInput("there must be a pooled block or a steps block")
        if not 0 <= self.centre <= 1:
            raise InvalidInput(f"centre must lie in [0, 1], got centre={self.centre!r}")
        if (
            self.reward <= 0
            or self.visit <= 0
            or (self.centre not in (0, 1) and self.visit < self.reward * self.spread)
        ):
            raise InvalidInput(
                "the inner product of two users' vectors must not be negative: visit must be at least reward times "
                f"{self.spread:g}, got reward={self.reward!r}, visit={self.visit!r}"
            )

    @cached_property
    def spread(self) -> float:
        """Y: how far a reward is from the centre at most."""
        return max(self.centre, 1 - self.centre)

    @property
    def unit(self) -> float:
        """A: the squared length of one visit of weight 1 at most."""
        return 1 + (self.reward * self.spread) ** 2 + self.visit**2

    @cached_property
    def blocks(self) -> tuple[tuple[int, float], ...]:
        """(sets of counters, share) of each block: 1 set if pooled, else H."""
        found = ((1, self.pooled), (self.spec.horizon, self.steps))
        return tuple((sets, share) for sets, share in found if share > 0)

    def limit(self, sets: int, share: float) -> float:
        """Returns L of a block."""
        H = self.spec.horizon
        return self.unit * share**2 * (H if self.clipped or sets > 1 else H * H)

    @property
    def sensitivity(self) -> Sensitivity:
        """Of a user's vector, replace-one.

        ‖x − x'‖² ≤ 2L(1 + slack) − 2⟨x, x'⟩, and ⟨x, x'⟩ ≥ (1 − (1 + slack)²)·L: 2L(1 + 4·slack) covers both.
        """
        l2 = math.sqrt(2 * sum(self.limit(*block) for block in self.blocks) * (1 + 4 * SLACK))
        return Sensitivity(l1=l2 * math.sqrt(self.size), l2=l2)

    @property
    def grid(self) -> Grid:
        """What a sum of integers must know.

        Raises:
            InvalidInput: If k_n or k_r is no power of 2: the counts then lie on no grid.
        """
        from discreet.sums import Grid

        halved = max(0, *(1 - math.frexp(k)[1] for k in (self.visit, self.reward)))
        if any(math.frexp(k)[0] != 0.5 for k in (self.visit, self.reward)):
            raise InvalidInput("noise='secure' needs powers of 2 for reward and visit: else nothing lies on a grid")
        entry = math.sqrt(max(self.limit(*block) for block in self.blocks)) * (1 + SLACK)
        return Grid(3 * self.spec.horizon * len(self.blocks), entry, GRID_BITS + halved)

    @property
    def cells(self) -> int:
        """Number of (s,a)."""
        return self.spec.states * self.spec.actions

    @property
    def sets(self) -> int:
        """How many sets of counters there are in all blocks."""
        return sum(sets for sets, _ in self.blocks)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.sets * self.cells * (self.spec.states + 2)

    def split(self, vector: NDArray[np.float64]) -> list[Block]:
        """Returns the counts of each block, measured in weights."""
        S, found, start = self.spec.states, [], 0
        for sets, _ in self.blocks:
            cells = sets * self.cells
            parts = []
            for width in (S, 1, 1):
                parts.append(vector[start : start + cells * width].reshape(sets, self.cells, width))
                start += cells * width
            m, n, r = parts
            found.append(Block(m.copy(), n[..., 0] / self.visit, r[..., 0] / self.reward))
        return found

    def joined(self, counts: WeightedCounts) -> NDArray[np.float64]:
        """Returns the vector that `split` makes these blocks of, (size,)."""
        import numpy as np

        parts = [
            part.ravel() * scale
            for block in counts.blocks
            for part, scale in zip(block, (1.0, self.visit, self.reward), strict=True)
        ]
        return np.concatenate(parts)


class Block(NamedTuple):
    """The weighted counts of one block.

    Attributes:
        transitions: Σw, (sets, S·A, S).
        visits: ν, (sets, S·A).
        rewards: ρ, sums of w(R − z), (sets, S·A).
    """

    transitions: NDArray[np.float64]
    visits: NDArray[np.float64]
    rewards: NDArray[np.float64]

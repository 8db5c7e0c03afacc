"""How much one person can change what is released, under the replace-one relation.

Two inputs are neighbours if one user's whole trajectory is replaced by another. What follows is for the tabular
statistics: visits n_h(s,a), transitions m_h(s,a,s') and reward sums r_h(s,a), rewards in [0, 1].

*Per step.* At each step h the old trajectory is in one cell of a family and the new one in one, perhaps another. So
at most one cell goes down by at most 1 and one goes up by at most 1 (for r: by the rewards). If they are the same
cell, its change is at most 1. Over H steps that is at most 2H cells by 1 each: L1 = 2H, L2 = √(2H).

*Pooled over h.* The old trajectory adds H visits in all to the family, the new one too: L1 ≤ 2H. The squares are
largest if each stays in one cell for the whole episode, one going down by H and the other up by H: L2 = √(2H²) =
√2·H. (2H unit changes have the same L1 and a far smaller L2; taking them for the worst case would understate the
loss.)

*Several families* lie in different coordinates of one vector: L1 adds up, L2² adds up.

Trajectories that never share a cell attain all of these at once.

*Linear statistics.* With ‖φ‖, ‖φ'‖ ≤ B, ‖φφᵀ − φ'φ'ᵀ‖_F² = ‖φ‖⁴ + ‖φ'‖⁴ − 2⟨φ,φ'⟩² ≤ 2B⁴, attained by orthogonal
features; with |v|, |v'| ≤ C, ‖φv − φ'v'‖ ≤ 2BC, attained by opposite ones. The sums of different steps and kinds
lie in different coordinates: L2² adds up. But no pair of features attains both at once. In units of √2·B² and 2BC, with
c = ⟨φ,φ'⟩ for B = C = 1, the squares are (‖φ‖⁴ + ‖φ'‖⁴ − 2c²)/2 + ‖φv − φ'v'‖²/4 ≤ 1 − c² + (1 + |c|)/2: both terms
grow with the lengths and with |v| while c stays. This is largest at |c| = 1/4, where it is 25/16 = `PAIR` instead of 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import check_integer, check_number

__all__ = ["PAIR", "Sensitivity", "UserBound", "gram", "product", "tabular", "tabular_user"]


#: The largest squared change of a matrix φφᵀ and a vector φ·v together, in units of their own sensitivities.
PAIR = 25 / 16


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of a user's vector, in L1 and in L2 norm."""

    l1: float
    l2: float

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            check_number(name, getattr(self, name), above=True)


@dataclass(frozen=True)
class UserBound:
    """What one user's vector must keep for a sensitivity to hold: no negative entry, and these norms.

    For two such vectors ‖x − y‖₁ ≤ ‖x‖₁ + ‖y‖₁, and ‖x − y‖₂² ≤ ‖x‖₂² + ‖y‖₂² because their inner product is not
    negative.

    Both bounds are integers, so they can be enforced without slack. Sums of numbers in [0, 1], and their squares, never
    round above an integer that bounds them, because rounding is monotone and keeps integers.

    Attributes:
        l1: Of the L1 norm.
        l2_squared: Of the squared L2 norm.
    """

    l1: int
    l2_squared: int

    def __post_init__(self) -> None:
        for name in ("l1", "l2_squared"):
            check_integer(name, getattr(self, name))


def tabular(horizon: int, families: int = 1, *, stationary: bool = False) -> Sensitivity:
    """Returns the sensitivity of ``families`` of n, m and r together, for all steps.

    Args:
        horizon: Steps an episode H.
        families: How many of the three families are released: (m, r) is 2, (n, m, r) is 3.
        stationary: Whether they are pooled over the steps.
    """
    user = tabular_user(horizon, families, stationary=stationary)
    return Sensitivity(l1=2.0 * user.l1, l2=math.sqrt(2 * user.l2_squared))


def tabular_user(horizon: int, families: int = 1, *, stationary: bool = False) -> UserBound:
    """Returns the norms of one user's vector that imply `tabular`."""
    H, f = check_integer("horizon", horizon), check_integer("families", families)
    return UserBound(l1=H * f, l2_squared=(H * H if stationary else H) * f)


def gram(bound: float) -> float:
    """Returns the L2 (Frobenius) sensitivity √2·B² of a sum of φφᵀ with ‖φ‖ ≤ B."""
    return math.sqrt(2) * check_number("bound", bound) ** 2


def product(bound: float, most: float) -> float:
    """Returns the L2 sensitivity 2·B·C of a sum of φ·v with ‖φ‖ ≤ B and abs(v) ≤ C."""
    return 2 * check_number("bound", bound) * check_number("most", most)

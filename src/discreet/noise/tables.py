"""Integer tables from which discrete Gaussian and Laplace noise is drawn exactly.

The law is P(x) ∝ f(x) = exp(−E(x)) on the integers, E(x) = a·x² + b·|x| with rational a and b. Its two sides are cut
into columns: x = ±(j·W + r) with 0 ≤ r < W = 2^k. There are integers C and w_j with

    w_j ≥ C·f(jW)  for every column j < N,     w_N ≥ 2·C·f(NW)·V/W  for the tail,     Σ w_j = 2^24,

where a last column only rejects. A trial

1. takes column j with probability w_j/2^24, r uniformly and a fair sign;
2. rejects x = −0;
3. accepts with probability C·f(x)/w_j, which is at most 1 because f falls.

So x is accepted with probability w_j/2^24 · 1/W · 1/2 · C·f(x)/w_j = f(x)·C/(2^25·W). The factor is the same for every
x, hence accepted samples follow P exactly. The tail has blocks of V = W·2^m integers with E(NW + V) − E(NW) ≥ 1. E is
convex, so f falls from block to block by a factor of at most 1/e < 1/2. The tail takes block i with probability
2^−(i+1), r < V uniformly, and accepts x = NW + iV + r with probability C·f(x)·2^(m+i+1)/w_N ≤ 1: again f(x)·C/(2^25·W)
in all.

Exactness does not depend on the total. 2^24 is as good as 2^64 (rounding weights up wastes fewer than one trial in
ten thousand), and a whole trial fits into one random word of 64 bits, which is what the time goes to.

Step 3 compares a uniform number u with C·f(x)/w_j. Its first 14 digits decide if they are below ``low``, a bound for
the whole column. Then 62 digits are compared with q = ρ_j·exp(−d), d = E(x) − E(jW) ≤ 1/8, in floating point. With
u = 2^−53 and operations that round correctly: ρ_j has an absolute error of at most u; d = r·(slope_j + a·r) is a sum
of positive terms with a relative error of at most 4u, hence an absolute one of at most u/2; the nested Taylor
polynomial of degree 11 errs by at most 2u (rounding: u + d·(2u + …)) and 2^−60 (remainder); the last product by u.
Together less than 5u < 2^−50. So q·2^62 is known up to 2^12 + 1 < ``MARGIN``. What is nearer goes to exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import NumericalError
from discreet.noise import exponential

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CELLS", "COIN", "DIGITS", "MARGIN", "TOTAL", "Law", "Table", "build", "table"]

CELLS = 1 << 10  # cells of the alias table, and the most columns
COIN = 14  # bits of the coin that chooses between the two columns of a cell
TOTAL = CELLS << COIN  # the sum of all weights
DIGITS = 14  # digits of u that are looked at first
MARGIN = 1 << 13  # in units of 2^−62
_REACH = 28  # columns end where f < exp(−28), or when all are used
_WIDE_ENOUGH = 20  # all columns together reach at least to f = exp(−20)
_STEEPEST = Fraction(1, 8)
_BITS = 192  # digits behind the binary point of the bounds on f


@dataclass(frozen=True)
class Law:
    """f(x) = exp(−(square·x² + linear·|x|)/over) on the integers."""

    square: int
    linear: int
    over: int

    @classmethod
    def gaussian(cls, variance: Fraction) -> Law:
        """The discrete Gaussian: exp(−x²/(2·variance))."""
        return cls(variance.denominator, 0, 2 * variance.numerator)

    @classmethod
    def laplace(cls, scale: Fraction) -> Law:
        """The discrete Laplace: exp(−|x|/scale)."""
        return cls(0, scale.denominator, scale.numerator)

    def exponent(self, x: int) -> int:
        """Returns E(x)·over for x ≥ 0."""
        return (self.square * x + self.linear) * x


@dataclass(frozen=True, eq=False)
class Table:
    """What is drawn from; see the top of this file.

    Attributes:
        law: What is drawn.
        shift: k, the width of a column is 2^k.
        columns: N, the number of columns before the tail.
        factor: C.
        weights: w_j of the columns, the tail (column N) and the column that rejects (N + 1).
        block: m, a block of the tail has 2^(k+m) integers.
        cut: (1024,) A cell's own column is taken if the coin is below.
        alias: (1024,) The other column of a cell.
        low: (1024,) First digits below this accept, everywhere in the column.
        start: (1024,) ρ_j = C·f(jW)/w_j; 0 from the tail on.
        slope: (1024,) 2·a·j·W + b.
        curve: a.
        margin: First digits nearer than this to the floating-point number do not decide.
        cost: About how many trials a sample takes; it only decides how many are made at once.
    """

    law: Law
    shift: int
    columns: int
    factor: int
    weights: tuple[int, ...]
    block: int
    cut: NDArray[np.int64]
    alias: NDArray[np.int64]
    low: NDArray[np.int64]
    start: NDArray[np.float64]
    slope: NDArray[np.float64]
    curve: float
    margin: int
    cost: float


@lru_cache(maxsize=256)
def table(law: Law) -> Table:
    """Returns the table of a law; tables are public, and kept."""
    return build(law)


def build(law: Law, reach: int = _REACH) -> Table:
    """Computes a table, in integers.

    Args:
        law: What is drawn.
        reach: The columns end where E reaches this. Tests take little, so that the tail is common; the law is the same.
    """
    shift = 0
    while law.exponent((CELLS - 2) << shift) < _WIDE_ENOUGH * law.over:
        shift += 1
    width = 1 << shift
    columns = next((j for j in range(1, CELLS - 2) if law.exponent(j * width) >= reach * law.over), CELLS - 2)
    last = law.exponent(columns * width)
    if shift and (last - law.exponent((columns - 1) * width)) > _STEEPEST * law.over:
        raise NumericalError(f"the columns of {law} are wider than is proven")
    block = 0
    while law.exponent(columns * width + (width << block)) - last < law.over:
        block += 1

    low, high = _heights(law, width, columns)
    # Rounding up adds less than 1 a column: the sum stays below the total.
    factor = ((TOTAL - columns - 1) << _BITS) // (sum(high[:columns]) + (high[columns] << (block + 1)))
    weights = [_up(factor * h) for h in high[:columns]]
    weights.append(_up(factor * high[columns] << (block + 1)))
    weights.append(TOTAL - sum(weights))
    cut, alias = _alias(weights)
    ends = low[1:] if shift else low  # a column of width 1 has no other end
    first, start, slope = np.zeros(CELLS, np.int64), np.zeros(CELLS), np.zeros(CELLS)
    for j in range(columns):
        first[j] = (factor * ends[j] << DIGITS) // (weights[j] << _BITS)
        start[j] = factor * low[j] / (weights[j] << _BITS)  # Python rounds quotients of integers correctly
        if shift:
            slope[j] = (2 * law.square * j * width + law.linear) / law.over
    found = Table(
        law=law,
        shift=shift,
        columns=columns,
        factor=factor,
        weights=tuple(weights),
        block=block,
        cut=cut,
        alias=alias,
        low=first,
        start=start,
        slope=slope,
        curve=law.square / law.over if shift else 0.0,
        margin=MARGIN,
        cost=(2 * TOTAL << _BITS) / (factor * (2 * sum(high) - high[0])),
    )
    for array in (found.cut, found.alias, found.low, found.start, found.slope):
        array.flags.writeable = False
    return found


def _up(number: int) -> int:
    """Returns number/2^_BITS, rounded up."""
    return -(-number >> _BITS)


def _heights(law: Law, width: int, columns: int) -> tuple[list[int], list[int]]:
    """Returns bounds low_j ≤ 2^_BITS·f(j·width) ≤ high_j for 0 ≤ j ≤ columns.

    E((j + 1)W) − E(jW) = aW²(2j + 1) + bW: every height is the one before times a step, every step the one before times
    a constant. Bounds are multiplied with bounds, so they stay bounds.
    """
    squared = law.square * width * width
    step = exponential.bounds(squared + law.linear * width, law.over, _BITS)
    bend = exponential.bounds(2 * squared, law.over, _BITS)
    low, high = [1 << _BITS], [1 << _BITS]
    for _ in range(columns):
        low.append(low[-1] * step[0] >> _BITS)
        high.append(-(-high[-1] * step[1] >> _BITS))
        step = (step[0] * bend[0] >> _BITS, -(-step[1] * bend[1] >> _BITS))
    return low, high


def _alias(weights: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns Walker's alias table: column j has exactly weights[j] of the 2^24 pairs of a cell and a coin."""
    left = weights + [0] * (CELLS - len(weights))
    cut, alias = np.zeros(CELLS, np.int64), np.zeros(CELLS, np.int64)
    full = 1 << COIN
    poor = [j for j in range(CELLS) if left[j] < full]
    rich = [j for j in range(CELLS) if left[j] >= full]
    while poor:
        j, donor = poor.pop(), rich[-1]
        cut[j], alias[j] = left[j], donor
        left[donor] -= full - left[j]
        if left[donor] < full:
            poor.append(rich.pop())
    for j in rich:
        cut[j], alias[j] = full, j  # what is left is exactly one cell each
    return cut, alias

"""The factorisation of the prefix-sum matrix with the least noise in all reads together, for few reads.

Among all C whose columns have norm 1, the sum of the variances of all reads, ‖A C⁻¹‖_F², is least for CᵀC = X with

    X = D^{-1/2} (D^{1/2} AᵀA D^{1/2})^{1/2} D^{-1/2},    D diagonal such that X has ones on its diagonal.

D is the fixed point of D ← diag (D^{1/2} AᵀA D^{1/2})^{1/2}. C is the lower triangular root of X: then the mechanism
is adaptive. It takes all earlier draws to compute a read, so this is for up to `MOST` reads.

*Every machine has the same B.* The eigenvalues come from LAPACK, whose last bits differ from machine to machine: B by
2e-13, between LAPACK's own drivers. So B is rounded to multiples of 2⁻¹⁶. No entry of any B here lies within 3e-10 of
the middle between two of them, so all machines round it to the same one. This adds a hundred-thousandth of the noise at
most. The norm is that of C = B⁻¹A for the rounded B, computed in integers and rounded up: it is proven for the noise
that is added.

References:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy for SGD via optimal private
    linear operators on adaptive streams, Theorem 3.2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST", "MOST_DRAWS", "prefix"]

#: Reads at most.
MOST = 64
#: Draws that are kept at most where another sum would do: 256 MiB.
MOST_DRAWS = 2**25
_ROUNDS, _CLOSE = 200, 1e-4
_GRID_BITS = 16  # B is a multiple of 2^-16
_NORM_BITS = 256  # of C's entries behind the point; the errors of 64 rows take about 50 of them


@cache
def prefix(reads: int) -> tuple[NDArray[np.float64], float]:
    """Returns B = A C⁻¹, (reads, reads), and the largest norm of a column of C, which is 1 but for B's rounding."""
    units = np.round(np.ldexp(_unrounded(reads), _GRID_BITS))
    B = np.ldexp(units, -_GRID_BITS)
    B.flags.writeable = False
    return B, _norm(units.astype(np.int64))


def _unrounded(reads: int) -> NDArray[np.float64]:
    """Returns B as LAPACK has it."""
    A = np.tril(np.ones((reads, reads)))
    gram, d = A.T @ A, np.ones(reads)
    for _ in range(_ROUNDS):
        d, before = np.diag(_root(gram, d)), d
        if np.abs(d / before - 1).max() < _CLOSE:
            break
    X = _root(gram, d) / np.sqrt(np.outer(d, d))
    X /= np.sqrt(np.outer(np.diag(X), np.diag(X)))  # unit columns, whether or not the fixed point is reached
    C = np.linalg.cholesky(X[::-1, ::-1]).T[::-1, ::-1]  # lower triangular, CᵀC = X
    return np.tril(np.linalg.solve(C.T, A.T).T)


def _norm(B: NDArray[np.int64]) -> float:
    """Returns the largest norm of a column of C = B⁻¹A, rounded up, for ``B`` in units of the grid.

    C is solved for row by row in integers, in units of 2^-`_NORM_BITS`. ``errors`` bounds how far the entries of a row
    are off: by those of the rows before it, and by less than one if a division leaves a remainder.
    """
    rows, one = B.tolist(), 1 << (_GRID_BITS + _NORM_BITS)
    C = np.zeros(B.shape, dtype=object)
    errors: list[int] = []
    for i, row in enumerate(rows):
        rest = np.array([one] * (i + 1) + [0] * (len(rows) - i - 1), dtype=object)  # A's row
        rest -= sum(entry * C[k] for k, entry in enumerate(row[:i]))
        C[i] = rest // row[i]
        carried = sum(abs(entry) * error for entry, error in zip(row[:i], errors, strict=True))
        errors.append(-(-carried // row[i]) + int((rest % row[i]).any()))
    square = max(((abs(C) + np.array(errors, dtype=object)[:, None]) ** 2).sum(axis=0))
    root = math.isqrt(square)
    exact = Fraction(root if root * root == square else root + 1, 1 << _NORM_BITS)
    norm = float(exact)
    return norm if norm >= exact else math.nextafter(norm, math.inf)


def _root(gram: NDArray[np.float64], d: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (D^{1/2} G D^{1/2})^{1/2}."""
    scale = np.sqrt(d)
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
    root: NDArray[np.float64] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root

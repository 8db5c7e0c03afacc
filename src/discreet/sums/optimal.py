"""The factorisation of the prefix-sum matrix with the least noise in all reads together, for few reads.

Among all C whose columns have norm 1, the sum of the variances of all reads, ‖A C⁻¹‖_F², is least for CᵀC = X with

    X = D^{-1/2} (D^{1/2} AᵀA D^{1/2})^{1/2} D^{-1/2},    D diagonal such that X has ones on its diagonal.

D is the fixed point of D ← diag (D^{1/2} AᵀA D^{1/2})^{1/2}. C is the lower triangular root of X: then the mechanism
is adaptive. It takes all earlier draws to compute a read, so this is for up to `MOST` reads.

References:
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Improved differential privacy for SGD via optimal private
    linear operators on adaptive streams, Theorem 3.2.
"""

from __future__ import annotations

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


@cache
def prefix(reads: int) -> tuple[NDArray[np.float64], float]:
    """Returns B = A C⁻¹, (reads, reads), and the largest norm of a column of C, which is 1 but for rounding."""
    A = np.tril(np.ones((reads, reads)))
    gram, d = A.T @ A, np.ones(reads)
    for _ in range(_ROUNDS):
        d, before = np.diag(_root(gram, d)), d
        if np.abs(d / before - 1).max() < _CLOSE:
            break
    X = _root(gram, d) / np.sqrt(np.outer(d, d))
    X /= np.sqrt(np.outer(np.diag(X), np.diag(X)))  # exactly unit columns, whether or not the fixed point is reached
    C = np.linalg.cholesky(X[::-1, ::-1]).T[::-1, ::-1]  # lower triangular, CᵀC = X
    B = np.tril(np.linalg.solve(C.T, A.T).T)
    C = np.tril(np.linalg.solve(B, A))  # of the B that is used
    B.flags.writeable = False
    return B, float(np.linalg.norm(C, axis=0).max())


def _root(gram: NDArray[np.float64], d: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns (D^{1/2} G D^{1/2})^{1/2}."""
    scale = np.sqrt(d)
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
    root: NDArray[np.float64] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root

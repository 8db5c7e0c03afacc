"""Fast noise, for simulation only.

Continuous samples in floating point, from a seeded pseudo-random stream: statistically what the accountant assumes, but
neither unpredictable nor safe against attacks on floating-point numbers. Never release anything computed with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Distribution", "fill"]

Distribution = Literal["laplace", "gaussian"]


def fill(rng: np.random.Generator, distribution: Distribution, scale: float, out: NDArray[np.float64]) -> None:
    """Fills ``out`` (n,) or (rows, n) with independent Laplace(scale) or N(0, scale²) samples.

    Filling some rows and then others gives the same numbers as filling all at once.
    """
    if distribution == "gaussian":
        rng.standard_normal(out=out)
        out *= scale
    else:
        from discreet.noise import _kernels

        _kernels.fill_laplace_rows(rng, scale, out.reshape(-1, out.shape[-1]))

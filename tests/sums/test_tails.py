from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from discreet.sums.tails import exceedances, laplace_tail


@pytest.mark.parametrize("j", [1, 2, 5, 31])
@pytest.mark.parametrize("x", [0.1, 3.0, 40.0])
def test_tails_of_laplace_sums_are_exact(j, x):
    """Against the inversion of the characteristic function (1 + t²)^{−j} in 30 digits, and a closed form far out."""
    with mpmath.workdps(30):
        if x < 40 and j > 1:
            end = 80 if j == 2 else 20
            tail = 1 - 2 / mpmath.pi * mpmath.quad(
                lambda t: mpmath.sin(t * x) / t * (1 + t * t) ** -j, mpmath.linspace(0, end, end)
            )
            assert tail > 1e-12
            assert laplace_tail(j, x) == pytest.approx(float(mpmath.log(tail)), rel=1e-6)
        # the difference of two Gamma(j) is above 0 a mixture of Gamma(j − k)
        chances = (mpmath.binomial(j - 1 + k, k) / mpmath.mpf(2) ** (j + k) for k in range(j))
        tails = (mpmath.gammainc(j - k, x, regularized=True) for k in range(j))
        tail = 2 * sum(chance * beyond for chance, beyond in zip(chances, tails, strict=True))
        assert laplace_tail(j, x) == pytest.approx(float(mpmath.log(tail)), rel=1e-6)
    assert laplace_tail(j, 0.0) == 0


@pytest.mark.parametrize("j", [4, 1000])
def test_tails_agree_with_samples(rng, j):
    x = 2 * math.sqrt(2 * j)
    samples = np.abs(rng.gamma(j, size=400_000) - rng.gamma(j, size=400_000)) > x
    assert math.exp(laplace_tail(j, x)) == pytest.approx(samples.mean(), abs=5 * samples.std() / math.sqrt(400_000))


def test_exceedances_add_up():
    one = exceedances("gaussian", 2.0, np.array([1.0]), np.array([1.0]))
    assert exceedances("gaussian", 2.0, np.array([1.0, 1.0]), np.array([3.0, 4.0])) == pytest.approx(one + math.log(7))
    assert math.exp(one) == pytest.approx(0.0455, abs=1e-4)

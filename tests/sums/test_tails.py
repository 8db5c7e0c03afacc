from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from discreet.sums.tails import exceedances, laplace_tail


@pytest.mark.parametrize("j", [1, 2, 5, 31])
@pytest.mark.parametrize("x", [0.1, 3.0, 40.0])
def test_tails_of_laplace_sums_are_exact(j, x):
    """Against the integral of the density (y/2)^{j−½}·K_{j−½}(y)/(√π·Γ(j)), K being Bessel's, in 30 digits."""
    with mpmath.workdps(30):
        order = j - mpmath.mpf(1) / 2
        tail = mpmath.quad(
            lambda y: (y / 2) ** order * mpmath.besselk(order, y), [x, x + 5, x + 20, x + 80, mpmath.inf]
        )
        tail *= 2 / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(j))
        if j == 1:
            assert tail == pytest.approx(mpmath.exp(-x), rel=1e-12)
        assert laplace_tail(j, x) == pytest.approx(float(mpmath.log(tail)), rel=1e-9)
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

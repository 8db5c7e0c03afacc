"""Fast noise has the distributions that the accountant assumes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from discreet.noise import fast

EXACT = {"laplace": stats.laplace, "gaussian": stats.norm}


@pytest.mark.parametrize("distribution", EXACT)
@pytest.mark.parametrize(("n", "off"), [(60_000, 0.08), pytest.param(400_000, 0.02, marks=pytest.mark.slow)])
def test_distribution_with_power(rng, distribution, n, off):
    """Kolmogorov–Smirnov accepts the right scale and rejects 0.98 and 1.02 of it; fast, 0.92 and 1.08."""
    out = np.empty(n)
    fast.fill(rng, distribution, 3.0, out)
    for scale, accepted in ((3.0, True), (3.0 * (1 - off), False), (3.0 * (1 + off), False)):
        assert bool(stats.kstest(out, EXACT[distribution](scale=scale).cdf, method="asymp").pvalue > 1e-6) is accepted


@pytest.mark.parametrize("distribution", EXACT)
def test_samples_are_independent(rng, distribution):
    """Neighbours, sizes and signs: no autocorrelation at small lags."""
    out = np.empty(200_000)
    fast.fill(rng, distribution, 1.0, out)
    for transform in (np.sign, np.abs, lambda x: x):
        x = transform(out) - transform(out).mean()
        for lag in (1, 2, 3, 48, 49):
            assert abs((x[lag:] * x[:-lag]).mean() / x.var()) < 5.5 / np.sqrt(200_000)


@pytest.mark.parametrize("distribution", EXACT)
def test_the_same_seed_gives_the_same_noise(distribution):
    one, two = np.empty(1000), np.empty(1000)
    fast.fill(np.random.default_rng(5), distribution, 2.0, one)
    fast.fill(np.random.default_rng(5), distribution, 2.0, two)
    np.testing.assert_array_equal(one, two)
    fast.fill(np.random.default_rng(6), distribution, 2.0, two)
    assert not np.array_equal(one, two)

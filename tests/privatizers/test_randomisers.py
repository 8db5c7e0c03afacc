"""Randomisers by listing all of their reports: exact loss, probabilities and variances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet.privatizers.randomisers import RANDOMISERS, choose

CASES = [(kind, size, epsilon) for kind in RANDOMISERS for size in (1, 2, 3, 8) for epsilon in (0.3, 1.0, 3.0)]


def listed(randomiser):
    """All reports, (2^k, k), and their probabilities under each true value, (k, 2^k)."""
    reports = np.array(list(itertools.product((False, True), repeat=randomiser.size)))
    table = [[randomiser.likelihood(report, value) for report in reports] for value in range(randomiser.size)]
    return reports, np.array(table)


@pytest.mark.parametrize(("kind", "size", "epsilon"), CASES)
def test_the_exact_loss_is_at_most_epsilon(kind, size, epsilon):
    randomiser = choose(kind, epsilon, size)
    _, table = listed(randomiser)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-12)
    possible = table[:, table.max(axis=0) > 0]
    assert (possible > 0).all()  # no report rules a value out
    loss = np.log(possible[:, None] / possible[None]).max()
    assert loss == pytest.approx(randomiser.loss, abs=1e-12)
    assert loss <= epsilon * (1 + 1e-12)
    if size > 1:
        assert loss >= 0.99 * epsilon


@pytest.mark.parametrize(("kind", "size", "epsilon"), CASES)
def test_probabilities_and_variances_are_exact(kind, size, epsilon):
    randomiser = choose(kind, epsilon, size)
    reports, table = listed(randomiser)
    p, q = randomiser.probabilities
    assert table[0] @ reports[:, 0] == pytest.approx(p if size > 1 or kind != "unary" else 0.5, abs=1e-12)
    for other in range(1, size):
        assert table[0] @ reports[:, other] == pytest.approx(q, abs=1e-12)
    for width in range(1, size):
        for holds, columns in ((True, reports[:, :width]), (False, reports[:, 1 : width + 1])):
            found = columns.sum(axis=1)
            variance = table[0] @ found**2 - (table[0] @ found) ** 2
            assert randomiser.variance(width, holds=holds) == pytest.approx(variance / (p - q) ** 2, abs=1e-9)


@pytest.mark.parametrize("kind", RANDOMISERS)
def test_reports_have_the_listed_probabilities(rng, kind):
    randomiser = choose(kind, 1.0, 4)
    table = listed(randomiser)[1]
    n = 60_000
    drawn = np.array([randomiser.report(2, rng) for _ in range(n)])
    seen = np.bincount(drawn @ (2 ** np.arange(3, -1, -1)), minlength=16)
    expected = n * table[2]
    assert (seen[expected == 0] == 0).all()
    keep = expected > 0
    assert (((seen - expected) ** 2)[keep] / expected[keep]).sum() < 60  # chi-square with at most 15 degrees


def test_auto_takes_the_least_variance():
    for epsilon in (0.1, 1.0, 4.0):
        for size in (2, 5, 144):
            best = choose("auto", epsilon, size).variance(1, holds=False)
            assert all(best <= choose(kind, epsilon, size).variance(1, holds=False) for kind in RANDOMISERS)
    with pytest.raises(ValueError, match="did you mean 'unary'"):
        choose("unry", 1.0, 3)

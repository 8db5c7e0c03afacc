"""The account of symmetric binomial noise, recomputed from the probabilities alone.

A counter's noise is X − X' with X, X' ~ Bin(N, p); some counters go up by one and some down. δ(ε) of all of them is
computed by listing outcomes, or from the losses on a grid with exact convolutions that enclose it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import fft
from scipy.stats import binom

from discreet.privacy import accounting, binomial
from discreet.privacy.binomial import SymmetricEvent

FLOAT = 1e-14


def laws(trials, p, change):
    """The two laws of a counter that goes up or down by one, on the same outcomes."""
    one = binom.pmf(np.arange(trials + 1), trials, p)
    noise = np.convolve(one, one[::-1])
    still, moved = np.append(noise, 0.0), np.append(0.0, noise)
    return (moved, still) if change > 0 else (still, moved)


def listed_delta(trials, p, changes, eps):
    """δ by listing all outcomes."""
    P, Q = np.ones(1), np.ones(1)
    for change in changes:
        P, Q = (np.outer(law, new).ravel() for law, new in zip((P, Q), laws(trials, p, change), strict=True))
    return np.maximum(P - math.exp(eps) * Q, 0).sum()


def bracketed_delta(trials, p, moved, eps, interval=1e-4):
    """(lower, upper) bounds of δ: losses rounded down; or split such that the sums of P and Q stay what they are."""
    P, Q = laws(trials, p, 1)
    found = []
    for upper in (False, True):
        seen = (P > 1e-18) & (Q > 0)
        infinite = P[~seen].sum() if upper else P[Q == 0].sum()
        loss, mass = np.log(P[seen] / Q[seen]), P[seen]
        cell = np.floor(loss / interval).astype(int)
        if upper:
            share = np.clip(np.expm1(cell * interval - loss) / math.expm1(-interval), 0, 1)
            cell, mass = np.append(cell, cell + 1), np.append(mass * (1 - share), mass * share)
        first = moved * cell.min()
        size = fft.next_fast_len(int(moved * (cell.max() - cell.min()) + 1), real=True)
        total = fft.irfft(fft.rfft(np.bincount(cell - cell.min(), mass, size)) ** moved, size)
        loss = (first + np.arange(size)) * interval
        above = loss > eps
        delta = 1 - (1 - infinite) ** moved - (total[above] * np.expm1(eps - loss[above])).sum()
        found.append(delta + (FLOAT if upper else -FLOAT))
    return found


@pytest.mark.parametrize(("trials", "p"), [(5, 0.5), (12, 0.3), (40, 0.05)])
def test_it_does_not_matter_which_way_counters_move(trials, p):
    """Must show: δ of three counters is the same for all eight directions, at every ε; not so for plain Bin(N, p)."""
    for eps in (0.0, 0.5, 2.0):
        deltas = [listed_delta(trials, p, changes, eps) for changes in itertools.product((1, -1), repeat=3)]
        np.testing.assert_allclose(deltas, deltas[0], rtol=1e-10, atol=1e-15)


def test_brackets_enclose_the_listed():
    for eps in (0.1, 0.7):
        lower, upper = bracketed_delta(20, 0.3, 3, eps)
        assert lower <= listed_delta(20, 0.3, (1, 1, -1), eps) <= upper


@pytest.mark.parametrize(
    ("users", "cells", "eps", "delta"),
    [
        (1, 1, 1.0, 1e-6),
        (2, 2, 3.0, 1e-3),
        (5, 1, 0.5, 1e-6),
        (20, 4, 1.0, 1e-6),
        (50, 1, 3.0, 1e-3),
        (500, 1, 1.0, 1e-6),
    ],
)
def test_calibrated_noise_agrees_with_exact_convolutions(users, cells, eps, delta):
    """The proven ε is within [0.99, 1] of the budget, and the exact one is below it and above 0.99 of it.

    Catches a rounding to the wrong side, infinite losses left out, and one counter too few.
    """
    m, p = binomial.calibrate_symmetric(users, 3 * cells, eps, delta)
    claimed = binomial.epsilon(SymmetricEvent(users * m, p, 3 * cells), delta)
    assert 0.99 * eps <= claimed <= eps
    assert bracketed_delta(users * m, p, 3 * cells, claimed)[1] <= delta
    assert bracketed_delta(users * m, p, 3 * cells, 0.99 * claimed)[0] >= delta
    assert bracketed_delta(users * m, p, 3 * cells + 1, claimed)[0] > delta
    assert m == 1 or binomial.epsilon(SymmetricEvent(users * (m - 1), 0.5, 3 * cells), delta) > eps


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-20])
def test_large_noise_is_nearly_gaussian(delta):
    event = SymmetricEvent(10_000, 0.5, 12)
    mu = math.sqrt(12 / event.variance)
    assert binomial.epsilon(event, delta) == pytest.approx(accounting.gaussian_epsilon(mu, delta), rel=0.01)
    assert accounting.epsilon(event, delta) == binomial.epsilon(event, delta)


def test_what_cannot_be_proven_is_infinite():
    for event in (SymmetricEvent(0, 0.5, 1), SymmetricEvent(9, 0.0, 1), SymmetricEvent(2, 0.5, 1)):
        assert binomial.epsilon(event, 1e-6) == math.inf
    assert binomial.epsilon(SymmetricEvent(10, 0.5, 1), 0.9) == 0
    with pytest.raises(ValueError, match="too large"):
        binomial.calibrate_symmetric(10, 96, 1e-3, 1e-6)
    with pytest.raises(ValueError, match="delta > 0"):
        binomial.calibrate_symmetric(10, 3, 1.0, 0.0)


@pytest.mark.parametrize(("trials", "p"), [(3, 0.5), (200, 0.3), (5000, 0.01)])
def test_reach_is_the_exact_tail(trials, p):
    """Must show: exceeded with at most the failure probability, and the next smaller bound is not."""
    law = laws(trials, p, -1)[0][:-1]
    for failure in (0.1, 1e-3, 1e-9):
        reach = int(binomial.symmetric_reach(trials, p, failure))
        outside = np.abs(np.arange(-trials, trials + 1))
        assert law[outside > reach].sum() <= failure
        assert reach == 0 or law[outside > reach - 1].sum() > failure * 0.999

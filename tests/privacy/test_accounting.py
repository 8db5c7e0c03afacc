"""The accountant against mpmath and dp-accounting."""

from __future__ import annotations

import math

import dp_accounting
import mpmath
import pytest
from dp_accounting import pld

from discreet.errors import Unproven
from discreet.privacy import accounting


def pld_epsilon(event, delta):
    """dp-accounting's own answer; noise multipliers are relative to the whole sensitivity, as its relation wants."""
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    return accountant.compose(event).get_epsilon(delta)


@pytest.mark.parametrize("delta", [pytest.param(1e-9, marks=pytest.mark.slow), 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, pytest.param(10.0, marks=pytest.mark.slow)])
def test_gaussians_agree_with_dp_accounting(epsilon, delta):
    mu = accounting.gaussian_mu(epsilon, delta)
    for count in (1, 16):
        event = accounting.gaussian(math.sqrt(count) / mu, count)
        ours = accounting.epsilon(event, delta)
        assert 0.99 * epsilon <= ours <= epsilon
        assert ours == pytest.approx(pld_epsilon(event, delta), abs=1e-3)


@pytest.mark.parametrize("mu", [1e-3, 0.2, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_gaussian_epsilon_is_exact(mu, delta):
    """The definition in 60 digits; ours is at most a little above it, never below."""
    with mpmath.workdps(60):
        ours = accounting.gaussian_epsilon(mu, delta)

        def delta_at(eps):
            m, e = mpmath.mpf(mu), mpmath.mpf(eps)
            return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)

        if ours > 0:
            assert delta_at(ours) <= delta * (1 + mpmath.mpf("1e-12"))
            assert delta_at(ours * (1 - 1e-7)) >= delta
        else:
            assert delta_at(0) <= delta


def test_pure_losses_add_up_exactly():
    event = accounting.compose(accounting.laplace(4.0), accounting.laplace(32.0, 16))
    assert accounting.epsilon(event, 0.0) == pytest.approx(0.75, abs=1e-15)
    assert accounting.epsilon(event, 1e-6) == pytest.approx(0.75, abs=1e-15)


def test_both_together_are_at_most_their_sum():
    event = accounting.compose(accounting.laplace(4.0), accounting.gaussian(4.0))
    exact = pld_epsilon(event, 1e-6)
    ours = accounting.epsilon(event, 1e-6)
    assert exact - 1e-3 <= ours <= 0.25 + accounting.gaussian_epsilon(0.25, 1e-6) + 1e-12


def test_nothing_is_proven_for_what_it_does_not_know():
    with pytest.raises(Unproven, match="PoissonSampledDpEvent"):
        accounting.epsilon(dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.0)), 1e-6)
    assert accounting.epsilon(accounting.non_private(), 1e-6) == math.inf
    assert accounting.epsilon(accounting.gaussian(1.0), 0.0) == math.inf
    assert accounting.epsilon(dp_accounting.NoOpDpEvent(), 0.0) == 0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_noise_multipliers_are_positive(bad):
    for event in (accounting.gaussian, accounting.laplace):
        with pytest.raises(ValueError, match="noise_multiplier"):
            event(bad)
    with pytest.raises(ValueError, match="noise_multiplier"):
        accounting.epsilon(dp_accounting.GaussianDpEvent(0.0), 1e-6)


def test_gaussian_noise_needs_delta():
    with pytest.raises(ValueError, match="delta=0"):
        accounting.gaussian_mu(1.0, 0.0)

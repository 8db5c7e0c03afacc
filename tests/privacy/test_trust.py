"""What can be asked for, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import discreet as dc
from discreet import privacy
from discreet.errors import Unproven
from discreet.privacy import Ledger, accounting
from discreet.privacy.binomial import BinomialEvent, SymmetricEvent


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": -1}, "epsilon=-1"),
        ({"epsilon": math.inf}, "epsilon=inf"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"epsilon": "one"}, "epsilon='one'"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": 1, "delta": 1}, "delta=1"),
        ({"epsilon": 1, "delta": -1e-9}, "delta=-1e-09"),
        ({"epsilon": 1e200, "delta": 1e-6}, "epsilon=1e\\+200"),
        ({"epsilon": 1e-15, "delta": 1e-30}, "epsilon=1e-15"),
        ({"epsilon": 1, "delta": 1e-200}, "delta=1e-200"),
        ({"epsilon": 1, "sum": "treee"}, "did you mean 'tree'"),
        ({"epsilon": 1, "calibration": "papr"}, "did you mean 'paper'"),
        ({"epsilon": 1, "release": "nm"}, "did you mean"),
        ({"epsilon": 1, "noise": "fats"}, "did you mean 'fast'"),
        ({"epsilon": 1, "noise": "exact"}, "unknown noise 'exact'"),
    ],
)
def test_impossible_wishes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        dc.Central(**options)


def test_a_group_loses_more():
    pure = dc.Guarantee("joint", 0.5, 0.0, events=accounting.laplace(2.0))
    assert pure.group(1) is pure
    assert pure.group(3).epsilon == pytest.approx(1.5)
    assert pure.group(3).unit == "group of 3 users"
    event = accounting.gaussian(4.0)
    gaussian = dc.Guarantee("joint", accounting.epsilon(event, 1e-6), 1e-6, events=event)
    assert gaussian.group(2).epsilon == pytest.approx(accounting.gaussian_epsilon(0.5, 1e-6))
    assert dc.NonPrivate().guarantee.group(5).epsilon == math.inf
    assert dc.Guarantee("joint", 1.0, 0.0).group(2).epsilon == pytest.approx(2.0)
    with pytest.raises(ValueError, match="size=0"):
        pure.group(0)


def test_a_groups_loss_is_that_of_shifted_noise():
    """k users of one person: the neighbours differ k times as far, so the noise multiplier is k times smaller."""
    for k in np.arange(2, 5):
        event = accounting.gaussian(4.0)
        shifted = accounting.epsilon(accounting.gaussian(4.0 / k), 1e-6)
        group = dc.Guarantee("joint", 1.0, 1e-6, events=event).group(int(k))
        assert group.epsilon == pytest.approx(shifted, rel=1e-12)


def test_groups_of_groups():
    event = accounting.gaussian(4.0)
    guarantee = dc.Guarantee("joint", accounting.epsilon(event, 1e-6), 1e-6, events=event)
    assert guarantee.group(2).group(3).epsilon == pytest.approx(guarantee.group(6).epsilon, rel=1e-8)
    assert guarantee.group(2).group(3).unit == guarantee.group(6).unit == "group of 6 users"


@pytest.mark.parametrize("k", [2, 3])
def test_a_groups_loss_where_both_kinds_occur(k):
    """Laplace and Gaussian noise on one release each, shifted k times as far: the true δ at the group's ε."""
    event = accounting.compose(accounting.laplace(4.0), accounting.gaussian(3.0))
    alone = dc.Guarantee("joint", accounting.epsilon(event, 1e-3), 1e-3, events=event)
    group = alone.group(k)
    assert accounting.losses(group.events) == pytest.approx((k**2 / 9, k / 4))
    assert group.epsilon == pytest.approx(k / 4 + accounting.gaussian_epsilon(k / 3, 1e-3))
    mu, shift = k / 3, k / 4
    x = np.linspace(-30, 30, 200_001)

    def delta(eps):
        left = eps - (np.abs(x - shift) - np.abs(x))  # what the Gaussian part must lose for the rest
        tail = ndtr(-left / mu + mu / 2) - np.exp(left) * ndtr(-left / mu - mu / 2)
        return float((np.exp(-np.abs(x)) / 2 * tail).sum() * (x[1] - x[0]))

    assert delta(group.epsilon) <= 1e-3
    assert delta(alone.epsilon) > 1e-3  # alone would not cover a group


@pytest.mark.parametrize("event", [BinomialEvent(10**4, 0.5, 1, 3), SymmetricEvent(10**4, 0.5, 3)])
def test_groups_of_shuffled_people_have_the_general_bound(event):
    """Catches a group under Shuffle whose δ stays, or whose events are taken for Gaussian ones."""
    epsilon = accounting.epsilon(event, 1e-6)
    guarantee = dc.Guarantee("shuffle", epsilon, 1e-6, events=event, assumptions=("all add their bits",))
    assert guarantee.group(1) is guarantee
    three = guarantee.group(3)
    assert three.epsilon == pytest.approx(3 * epsilon, rel=1e-9)
    assert three.delta == pytest.approx(1e-6 * (1 + math.exp(epsilon) + math.exp(2 * epsilon)), rel=1e-9)
    assert (three.unit, three.assumptions) == ("group of 3 users", guarantee.assumptions)
    six = guarantee.group(6)
    assert three.group(2).delta == pytest.approx(six.delta, rel=1e-9)
    assert three.group(2).unit == six.unit
    with pytest.raises(Unproven):
        Ledger(dc.Budget(100.0, 1e-3)).charge(event)  # an event has no δ of its own
    Ledger(dc.Budget(100.0, 1e-3)).charge(six)


def test_the_general_bound_of_groups_is_what_the_worst_mechanism_loses():
    """Catches a sum over the wrong powers: the worst (ε, δ)-DP chain, whose k-th neighbour is known exactly."""
    epsilon, delta = 0.7, 0.01
    for k in (1, 2, 3, 4):
        # a set has probability p, its neighbour's is (p − δ)·e^{−ε}, and so on until 0
        p, q = dc.Guarantee("joint", epsilon, delta).group(k), 0.0
        for _ in range(k):
            q = math.exp(epsilon) * q + delta
        assert q <= p.delta <= q * (1 + 1e-9)
    for k in (100, 10**6):
        with pytest.raises(Unproven, match=f"a group of {k}"):
            dc.Guarantee("joint", epsilon, delta).group(k)
    assert dc.Guarantee("joint", 0.0, 1e-9).group(10).delta == pytest.approx(1e-8)


def test_a_group_of_which_nothing_is_left():
    for event in (accounting.laplace(2.0), accounting.gaussian(2.0), accounting.non_private()):
        with pytest.raises(Unproven, match="a group of 10000000000"):
            dc.Guarantee("joint", 1.0, 1e-6, events=event).group(10**10)


def test_names_of_sums_are_those_that_exist():
    from discreet.privatizers.local import LOCAL
    from discreet.sums import CENTRAL

    assert dc.Central.sums == (*CENTRAL, "auto")
    assert dc.Local.sums == (*LOCAL, "auto")


def test_trust_models_by_name():
    assert privacy.trust("none") == dc.NonPrivate()
    assert privacy.trust("central", epsilon=2.0, sum="tree", randomiser=None) == dc.Central(2.0, sum="tree")
    assert privacy.trust("shuffle", epsilon=1, delta=0.1, honest_fraction=0.5).honest_fraction == 0.5
    for name, options, message in (
        ("centrl", {}, "did you mean 'central'"),
        ("local", {"epsilon": 1.0, "release": "mr"}, "release='mr' is for the trust model central, shuffle, got local"),
        ("none", {"epsilon": 1.0}, "epsilon=1.0 is for"),
    ):
        with pytest.raises(ValueError, match=message):
            privacy.trust(name, **options)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-100), (1e-6, 1e-9), (1e4, 1e-9), (1e-6, 0.5), (300.0, 1e-6)])
def test_the_edges_of_what_is_covered(epsilon, delta):
    mu = accounting.gaussian_mu(epsilon, delta)
    assert 0.99 * epsilon <= accounting.epsilon(accounting.gaussian(1 / mu), delta) <= epsilon


def test_there_is_no_such_guarantee():
    for epsilon, delta in ((math.nan, 0.0), (-1.0, 0.0), (1.0, -3.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="no guarantee has"):
            dc.Guarantee("joint", epsilon, delta)


def test_first_visits_are_released_under_shuffle_only():
    assert dc.Shuffle(1.0, 1e-6, release="first-visits").release == "first-visits"
    assert "first-visits" in dc.Shuffle.releases
    with pytest.raises(ValueError, match="first-visits"):
        dc.Central(1.0, 1e-6, release="first-visits")

"""A ledger never spends more than it has."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import BudgetExceeded, Unproven
from discreet.privacy import Budget, Ledger, accounting


def test_charges_add_up_until_they_do_not_fit():
    ledger = Ledger(Budget(1.0))
    ledger.charge(accounting.laplace(2.0), "first")
    ledger.charge(accounting.laplace(4.0), "second")
    assert ledger.spent == pytest.approx(0.75)
    assert ledger.remaining == pytest.approx(0.25)
    before = ledger.to_json()
    assert not ledger.fits(accounting.laplace(3.0))
    with pytest.raises(BudgetExceeded, match="third would bring the total to epsilon=1"):
        ledger.charge(accounting.laplace(3.0), "third")
    assert ledger.to_json() == before
    ledger.charge(accounting.laplace(4.0))
    assert ledger.remaining == 0
    assert [charge.label for charge in ledger.charges] == ["first", "second", ""]


def test_gaussian_charges_compose_by_their_squares():
    budget = Budget(1.0, 1e-6)
    mu = accounting.gaussian_mu(1.0, 1e-6)
    ledger = Ledger(budget)
    for _ in range(4):  # each half of μ: four of them are exactly μ
        ledger.charge(accounting.gaussian(2 / mu))
    assert ledger.spent == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        ledger.charge(accounting.gaussian(100.0))
    with pytest.raises(BudgetExceeded):
        Ledger(Budget(1.0)).charge(accounting.gaussian(1e6))  # a pure budget pays for no Gaussian
    with pytest.raises(BudgetExceeded):
        Ledger(budget).charge(accounting.non_private())


def test_what_is_not_proven_is_not_charged():
    import dp_accounting

    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(Unproven):
        ledger.charge(dp_accounting.UnsupportedDpEvent())
    assert ledger.charges == ()


@given(st.lists(st.tuples(st.sampled_from(["gaussian", "laplace"]), st.floats(0.5, 1e3)), max_size=8))
@settings(max_examples=50, deadline=None)
def test_never_overspends_and_survives_its_serialised_form(events):
    ledger = Ledger(Budget(1.0, 1e-6))
    for kind, multiplier in events:
        event = getattr(accounting, kind)(multiplier)
        fits, before = ledger.fits(event), ledger.to_json()
        if fits:
            ledger.charge(event, kind)
        else:
            with pytest.raises(BudgetExceeded):
                ledger.charge(event, kind)
            assert ledger.to_json() == before
        assert ledger.spent <= 1.0
        again = Ledger.from_json(ledger.to_json())
        assert (again.charges, again.budget, again.spent) == (ledger.charges, ledger.budget, ledger.spent)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"budget": {"epsilon": -1.0, "delta": 0.0}},
        {"charges": [{"label": "x", "mu2": 0.0, "pure": 7.0}]},
        {"charges": [{"label": "x", "mu2": -1.0, "pure": 0.0}]},
        {"charges": [{"label": "x", "mu2": float("nan"), "pure": 0.0}]},
        {"charges": [{}]},
    ],
)
def test_a_forged_ledger_is_refused(change):
    document = json.loads(Ledger(Budget(1.0)).to_json())
    with pytest.raises(ValueError, match=r"ledger|budget|epsilon"):
        Ledger.from_json(json.dumps({**document, **change}))
    with pytest.raises(ValueError, match="not a ledger"):
        Ledger.from_json("{")


def test_nothing_is_refunded():
    """A count of −5 would give back what was spent."""
    import dp_accounting

    ledger = Ledger(Budget(1.0))
    ledger.charge(accounting.laplace(2.0))
    for count in (-5, 0.5):
        with pytest.raises(ValueError, match="count"):
            accounting.laplace(1.0, count)
        with pytest.raises(ValueError, match="count"):
            ledger.charge(dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(1.0), count))
    assert ledger.spent == pytest.approx(0.5)

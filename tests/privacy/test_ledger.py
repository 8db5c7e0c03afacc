"""A ledger never spends more than it has."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr, ndtri

from discreet.errors import BudgetExceeded, InvalidInput, Unproven
from discreet.privacy import Budget, Guarantee, Ledger, accounting, discrete


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


@given(
    st.lists(st.tuples(st.sampled_from(["gaussian", "laplace"]), st.floats(0.5, 1e3)), max_size=8),
    st.sampled_from([None, 0.0, 0.3, 1.0]),
)
@settings(max_examples=100, deadline=None)
def test_never_overspends_and_survives_its_serialised_form(events, pure):
    ledger = Ledger(Budget(1.0, 1e-6), pure=pure)
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
        assert (again.pure, again.remaining) == (ledger.pure, ledger.remaining)
        if ledger.remaining > 1e-8:
            assert ledger.fits(accounting.laplace(1 / (ledger.remaining * (1 - 1e-9))))
            assert not ledger.fits(accounting.laplace(1 / (ledger.remaining * (1 + 1e-6))))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"shares": {"pure": 2.0, "delta": None, "ratio": None}},
        {"shares": {"pure": "all", "delta": None, "ratio": None}},
        {"shares": {"pure": float("nan"), "delta": None, "ratio": None}},
        {"shares": {"pure": None, "delta": None}},
        {"charges": [{"label": "x", "mu2": 0.0, "pure": 0.1, "delta": 0.5, "ratio": 0.0}]},
        {"charges": [{"label": "x", "mu2": 0.0, "pure": 0.1, "delta": 0.0, "ratio": -1.0}]},
        {"budget": {"epsilon": -1.0, "delta": 0.0}},
        {"charges": [{"label": "x", "mu2": 0.0, "pure": 7.0, "delta": 0.0, "ratio": 0.0}]},
        {"charges": [{"label": "x", "mu2": -1.0, "pure": 0.0, "delta": 0.0, "ratio": 0.0}]},
        {"charges": [{"label": "x", "mu2": float("nan"), "pure": 0.0, "delta": 0.0, "ratio": 0.0}]},
        {"charges": [{"label": "x", "mu2": 0.0, "pure": float("inf"), "delta": 0.0, "ratio": 0.0}]},
        {"charges": [{}]},
        {"charges": 7},
    ],
)
def test_a_forged_ledger_is_refused(change):
    document = json.loads(Ledger(Budget(1.0)).to_json())
    with pytest.raises(ValueError, match=r"ledger|budget|epsilon|pure"):
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


SMALL, LARGE = accounting.laplace(100.0), accounting.laplace(3.0)
GAUSSIAN = accounting.gaussian(20.0)


def test_the_first_gaussian_charge_fixes_the_shares():
    ledger = Ledger(Budget(1.0, 1e-6))
    assert ledger.pure is None
    ledger.charge(LARGE)
    assert ledger.remaining == pytest.approx(2 / 3)
    ledger.charge(GAUSSIAN)
    assert ledger.pure == pytest.approx(1 / 3)
    with pytest.raises(BudgetExceeded, match=r"third does not fit into its share: .* 0 is left.*pure="):
        ledger.charge(LARGE, "third")  # the old rule took it
    ledger.charge(SMALL)
    assert ledger.charges[-1].pure == 0  # taken for a Gaussian one
    assert ledger.charges[-1].mu2 == pytest.approx(accounting.mu_of_pure(0.01) ** 2)
    ledger.charge(accounting.gaussian(30.0))


def test_a_share_that_is_given_is_kept():
    ledger = Ledger(Budget(1.0, 1e-6), pure=0.4)
    ledger.charge(GAUSSIAN)
    ledger.charge(LARGE)
    assert ledger.charges[-1].pure == pytest.approx(1 / 3)
    assert ledger.pure == 0.4
    with pytest.raises(BudgetExceeded):
        ledger.charge(LARGE)
    mu = accounting.gaussian_mu(0.6, 1e-6)
    left = math.sqrt(mu**2 - ledger.charges[0].mu2)
    assert ledger.fits(accounting.gaussian(1.0001 / left))
    assert not ledger.fits(accounting.gaussian(0.9999 / left))
    only = Ledger(Budget(1.0), pure=0.4)
    assert only.remaining == 0.4
    for bad in (-0.1, 1.1, math.nan, math.inf, "all", True):
        with pytest.raises(InvalidInput, match="pure"):
            Ledger(Budget(1.0, 1e-6), pure=bad)


def test_many_small_pure_charges_fit_into_a_gaussian_share():
    """Would catch an event converted as a whole: 400 charges of 0.01 are 4-DP, and 5-GDP, but also 0.25-GDP."""
    ledger = Ledger(Budget(2.0, 1e-6), pure=0.0)
    ledger.charge(accounting.laplace(100.0, 400))
    assert ledger.spent < 1.3
    one = Ledger(Budget(2.0, 1e-6), pure=0.0)
    for _ in range(400):
        one.charge(SMALL)
    assert one.spent == pytest.approx(ledger.spent)


def test_both_at_once():
    """An event with parts of both kinds is charged to both shares, or not at all."""
    both = accounting.compose(LARGE, GAUSSIAN)
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.charge(both)
    assert (ledger.charges[0].mu2, ledger.charges[0].pure) == accounting.losses(both)
    assert ledger.pure == pytest.approx(1 / 3)
    before = ledger.to_json()
    with pytest.raises(BudgetExceeded):
        ledger.charge(both)
    assert ledger.to_json() == before
    assert not Ledger(Budget(1.0, 1e-6), pure=0.2).fits(both)
    assert Ledger(Budget(1.0, 1e-6), pure=0.4).fits(both)
    ledger.charge(accounting.compose(SMALL, accounting.gaussian(100.0)))
    assert ledger.charges[-1].pure == 0


def test_ledgers_of_the_first_version():
    """Read if they are of one kind; the old rule was no filter for both."""
    pure, gaussian = ({"label": "x", "mu2": mu2, "pure": eps} for mu2, eps in ((0.0, 0.2), (0.001, 0.0)))
    document = {"version": 1, "budget": {"epsilon": 1.0, "delta": 1e-6}}
    for kind in (pure, gaussian):
        ledger = Ledger.from_json(json.dumps({**document, "charges": [kind, kind]}))
        assert len(ledger.charges) == 2
        assert json.loads(ledger.to_json())["version"] == 3
    for mixed in ([pure, gaussian], [gaussian, pure], [{**pure, "mu2": 0.001}]):
        with pytest.raises(InvalidInput, match=r"version 1 and mixes pure and Gaussian charges.*pure="):
            Ledger.from_json(json.dumps({**document, "charges": mixed}))


def test_a_document_keeps_to_the_shares_too():
    """A pure charge after a Gaussian one, in a document whose share was open."""
    document = json.loads(Ledger(Budget(1.0, 1e-6)).to_json())
    charges = [
        {"label": "", "mu2": mu2, "pure": pure, "delta": 0.0, "ratio": 0.0} for mu2, pure in ((0.001, 0.0), (0.0, 0.1))
    ]
    with pytest.raises(BudgetExceeded, match="shares"):
        Ledger.from_json(json.dumps({**document, "charges": charges}))
    shares = {**document["shares"], "pure": 0.1}
    assert Ledger.from_json(json.dumps({**document, "shares": shares, "charges": charges})).spent < 1


def test_charges_at_the_same_time_do_not_share_their_room(monkeypatch):
    """Would catch a check and an entry that others can come between."""
    real = accounting.gaussian_epsilon

    def slow(mu, delta):
        time.sleep(0.005)
        return real(mu, delta)

    monkeypatch.setattr(accounting, "gaussian_epsilon", slow)
    ledger = Ledger(Budget(1.0, 1e-6), pure=1.0)
    refused = []

    def spend():
        try:
            ledger.charge(accounting.laplace(4.0))
        except BudgetExceeded:
            refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.charges), len(refused)) == (4, 6)


@pytest.mark.parametrize("eps", [1e-9, 1e-5, 1e-4, 1e-3, 0.1, 1.0, 5.0, 30.0, 100.0])
def test_a_pure_mechanism_is_gaussian(eps):
    """The trade-off function of μ-GDP lies nowhere above that of ε-DP, and touches it where both errors are equal."""
    mu = accounting.mu_of_pure(eps)
    alpha = np.concatenate([np.geomspace(1e-60, 0.5, 2000), 1 - np.geomspace(1e-12, 0.5, 2000)])
    pure = np.maximum(1 - math.exp(eps) * alpha, math.exp(-eps) * (1 - alpha))
    assert (ndtr(-ndtri(alpha) - mu) <= pure + 1e-16).all()
    assert ndtr(-mu / 2) == pytest.approx(1 / (1 + math.exp(eps)), rel=1e-6)
    assert accounting.mu_of_pure(accounting.pure_of_mu(mu)) <= mu
    assert accounting.pure_of_mu(mu) == pytest.approx(eps, rel=1e-7)
    assert accounting.pure_of_mu(0.0) == 0


class OldLedger:
    """The rule of version 1, literally: one total over both kinds."""

    def __init__(self, budget):
        self.budget, self.charged = budget, []

    def fits(self, event):
        charges = [*self.charged, accounting.losses(event)]
        mu = math.sqrt(math.fsum(mu2 for mu2, _ in charges))
        pure = math.fsum(pure for _, pure in charges)
        return pure + accounting.gaussian_epsilon(mu, self.budget.delta) <= self.budget.epsilon

    def charge(self, event):
        assert self.fits(event)
        self.charged.append(accounting.losses(event))


class Attack:
    """Somebody who picks the next charge by what the releases so far have told, and the exact δ of it.

    A Gaussian charge is a normal variable of mean 0 or μ, a pure one randomised response on one bit: the most that such
    charges can tell. So far they told a loss l, and δ is the mean of (1 − e^{ε − l})₊ over all that may come. Whatever
    comes last is in closed form; whatever is before that is integrated over l, with the best continuation for each l.
    """

    def __init__(self, make):
        self.make = make
        self.epsilon = make().budget.epsilon

    def after(self, charges):
        """A ledger after these (kind, size)."""
        ledger = self.make()
        for kind, size in charges:
            ledger.charge(getattr(accounting, kind)(1 / size))
        return ledger

    def most(self, charges, kind):
        """The largest charge that still fits, by bisection; 0 if none does."""
        ledger, low, high = self.after(charges), 0.0, 16.0
        for _ in range(34):
            middle = (low + high) / 2
            low, high = (middle, high) if ledger.fits(getattr(accounting, kind)(1 / middle)) else (low, middle)
        return low

    def spend(self, charges, plan):
        """Charges after a plan of (kind, share of what fits)."""
        for kind, share in plan:
            size = share * self.most(charges, kind)
            charges = [*charges, (kind, size)] if size > 1e-6 else charges
        return charges

    def last(self, charges, plan, l):
        """δ after losses ``l`` if the plan is carried out without looking at what it tells."""
        new = self.spend(charges, plan)[len(charges) :]
        mu = math.sqrt(sum(size**2 for kind, size in new if kind == "gaussian"))
        found = np.zeros_like(l)
        answers = [size for kind, size in new if kind == "laplace"]
        for signs in itertools.product((1, -1), repeat=len(answers)):
            loss = sum(sign * size for sign, size in zip(signs, answers, strict=True))
            chance = math.prod(1 / (1 + math.exp(-sign * size)) for sign, size in zip(signs, answers, strict=True))
            found += chance * gaussian_delta(mu, self.epsilon - l - loss)
        return found

    def best(self, charges, l, looks):
        """δ after losses ``l`` if the best plan is picked for each of them, ``looks`` more times."""
        found = np.max([self.last(charges, plan, l) for plan in PLANS], axis=0)
        if looks:
            for plan in FIRST:
                found = np.maximum(found, self.delta(plan, looks - 1, charges, l))
        return found

    def delta(self, plan, looks=0, charges=(), l=0.0):
        """The δ of a first charge and of the best that can follow it."""
        before, l = list(charges), np.atleast_1d(np.asarray(l, dtype=float))
        charges = self.spend(before, [plan])
        if charges == before:
            return np.zeros_like(l)
        kind, size = charges[-1]
        if kind == "gaussian":
            z = np.linspace(-9, 9, 601)
            weights = np.exp(-z * z / 2)
            losses, weights = size**2 / 2 + size * z, weights / weights.sum()
        else:
            losses, weights = np.array([size, -size]), 1 / (1 + np.exp([-size, size]))
        later = self.best(charges, (l[:, None] + losses).ravel(), looks).reshape(len(l), -1)
        return later @ weights


def gaussian_delta(mu, eps):
    """δ of μ-GDP at any real ε; μ = 0 is nothing at all."""
    if mu == 0:
        return np.maximum(-np.expm1(np.minimum(eps, 0.0)), 0.0)
    return ndtr(-eps / mu + mu / 2) - np.exp(eps + log_ndtr(-eps / mu - mu / 2))


PLANS = [
    *([], [("laplace", 1.0)], [("gaussian", 1.0)], [("laplace", 1.0), ("gaussian", 1.0)]),
    *(
        [("gaussian", 1.0), ("laplace", 1.0)],
        [("gaussian", 0.5), ("laplace", 1.0)],
        [("laplace", 0.5), ("gaussian", 1.0)],
    ),
]
FIRST = [(kind, share) for kind in ("gaussian", "laplace") for share in (0.2, 0.5, 0.8)]
BUDGETS = [(0.5, 0.05), (1.0, 0.05), (4.0, 0.05), (1.0, 1e-3), (1.0, 1e-6), (3.0, 1e-9)]


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_pure_and_gaussian_charges_in_the_light_of_releases(epsilon, delta):
    """Must show: the attack exceeds δ under the old rule, and never under this one, whatever the shares."""
    budget = Budget(epsilon, delta)
    old = max(float(Attack(lambda: OldLedger(budget)).delta(plan)[0]) for plan in FIRST)
    assert old > 1.03 * delta
    for pure in (None, 0.0, 0.3 * epsilon, 0.7 * epsilon, epsilon):
        attack = Attack(lambda pure=pure: Ledger(budget, pure=pure))
        for plan in FIRST:
            assert attack.delta(plan)[0] <= delta * (1 + 1e-6)


@pytest.mark.parametrize("pure", [pytest.param(None, marks=pytest.mark.slow), 0.5])
def test_looking_twice_does_not_help(pure):
    """The same with a second look, after another charge of either kind."""
    budget = Budget(1.0, 0.05)
    attack, old = Attack(lambda: Ledger(budget, pure=pure)), Attack(lambda: OldLedger(budget))
    once, twice = (float(old.delta(("gaussian", 0.2), looks)[0]) for looks in (0, 1))
    assert twice > once > 0.05
    for plan in FIRST:
        assert attack.delta(plan, 1)[0] <= 0.05 * (1 + 1e-4)


def test_the_attack_is_the_true_delta():
    """Against plain composition: whoever does not look gets exactly what the accountant proves."""
    budget = Budget(1.0, 0.01)
    attack = Attack(lambda: Ledger(budget))
    mu = attack.most([], "gaussian")
    assert accounting.gaussian_epsilon(mu, 0.01) == pytest.approx(1.0)
    rest = [("gaussian", 1.0)]
    assert attack.last([], rest, np.zeros(1))[0] == pytest.approx(0.01, rel=1e-6)
    assert attack.delta(("gaussian", 0.5))[0] == pytest.approx(0.01, rel=1e-6)  # the Gaussian continuation is best


def _near(mu, ratio=5e-13):
    return discrete.NearEvent(accounting.gaussian(1 / mu), ratio)


def test_discrete_noise_is_charged_with_its_extra_terms():
    """Catches a ledger that takes secure noise for continuous noise, or refuses what was calibrated for its budget."""
    event = discrete.gaussian(10**12, 2.3e5, 40)
    ledger = Ledger(Budget(1.5, 1e-6))
    ledger.charge(event, "secure")
    assert ledger.charges[0].ratio == event.ratio > 0
    assert ledger.spent == accounting.epsilon(event, 1e-6)
    assert Ledger.from_json(ledger.to_json()).charges == ledger.charges
    large = Ledger(Budget(2.0, 1e-6))
    large.charge(_near(0.1, 0.1))  # terms that are not tiny: all of them must be seen
    left = accounting.gaussian_epsilon(0.1, 1e-6 * math.exp(-0.1))
    assert large.spent == pytest.approx(0.2 + left, rel=1e-12)
    assert not Ledger(Budget(0.2 + left - 1e-6, 1e-6)).fits(_near(0.1, 0.1))
    assert Ledger(Budget(0.2 + left + 1e-6, 1e-6)).fits(_near(0.1, 0.1))


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
def test_what_is_calibrated_for_a_budget_fits_into_it(epsilon):
    """Catches a share for discrete noise that is larger than what calibration leaves, and one that is too small."""
    import discreet as dc

    budget = Budget(epsilon, 1e-6)
    spec = dc.envs.riverswim(states=3, horizon=3).spec
    for noise in ("fast", "secure"):
        for name in ("dp-ucbvi", "discreet-vi", "rlsvi"):
            privacy = dc.Central(epsilon, 1e-6, noise=noise)
            found = dc.agents.make(name, spec, episodes=50, privacy=privacy, seed=0).guarantee
            for what in (found, found.events):
                ledger = Ledger(budget)
                ledger.charge(what, name)
                assert epsilon * 0.999 <= ledger.spent <= epsilon
                assert not ledger.fits(what)


def test_the_share_of_discrete_noise_is_fixed():
    """Catches charges whose extra terms add up beyond what Gaussian charges left for them."""
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.charge(_near(1e-3))
    ledger.charge(_near(1e-3, 5e-11))
    with pytest.raises(BudgetExceeded, match=r"Ledger\(budget, ratio=…\)"):
        ledger.charge(_near(1e-3, 6e-11))
    ledger = Ledger(Budget(1.0, 1e-6), ratio=0.01)
    for _ in range(100):
        ledger.charge(_near(1e-3, 1e-4))
    with pytest.raises(BudgetExceeded, match="ratio"):
        ledger.charge(_near(1e-3, 1e-4))
    ledger = Ledger(Budget(1.0, 1e-6), ratio=0.0)
    ledger.charge(accounting.gaussian(100.0))
    assert not ledger.fits(_near(1e-3))
    for share in ({"ratio": 0.6}, {"delta": 1e-5}, {"pure": 2.0}, {"ratio": -1.0}, {"delta": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(share))):
            Ledger(Budget(1.0, 1e-6), **share)


def test_approximate_guarantees_add_up():
    """Catches a δ that is not counted: basic composition adds both."""
    one = Guarantee("shuffle", 0.3, 1e-7)
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.charge(one, "first")
    ledger.charge(one.group(2), "two episodes")
    assert ledger.charges[1].pure == pytest.approx(0.6)
    assert ledger.charges[1].delta == pytest.approx(1e-7 * (1 + math.exp(0.3)))
    assert ledger.spent == pytest.approx(0.9)
    again = Ledger.from_json(ledger.to_json())
    assert (again.charges, again.spent, again.remaining) == (ledger.charges, ledger.spent, ledger.remaining)
    with pytest.raises(BudgetExceeded, match=r"the total to delta=1\.3"):
        ledger.charge(Guarantee("shuffle", 0.01, 1e-6))
    with pytest.raises(BudgetExceeded, match=r"epsilon=1\.2"):
        ledger.charge(one)
    assert not Ledger(Budget(1.0)).fits(one)  # a pure budget has no δ to give
    assert Ledger(Budget(1.0)).fits(Guarantee("local", 0.3, 0.0))
    assert not ledger.fits(Guarantee("none", math.inf, 0.0, protects="nothing", noise="none"))


def test_gaussian_charges_get_what_approximate_ones_leave():
    """Catches a Gaussian charge that uses the δ which other charges took, before it or after it."""
    budget, gaussian = Budget(1.0, 1e-6), accounting.gaussian(6.0)
    ledger = Ledger(budget)
    ledger.charge(accounting.ApproximateEvent(0.1, 4e-7))
    ledger.charge(gaussian)
    assert ledger.spent == pytest.approx(0.1 + accounting.gaussian_epsilon(1 / 6, 6e-7))
    with pytest.raises(BudgetExceeded, match=r"Ledger\(budget, delta=…\)"):  # all of δ is promised by now
        ledger.charge(accounting.ApproximateEvent(0.0, 1e-9))
    ledger = Ledger(budget, pure=0.1, delta=4e-7)
    ledger.charge(gaussian)
    ledger.charge(accounting.ApproximateEvent(0.1, 4e-7))
    full = accounting.gaussian(1 / accounting.gaussian_mu(0.9, 1e-6))
    assert not Ledger(budget, pure=0.1, delta=4e-7).fits(full)
    assert Ledger(budget, pure=0.1).fits(full)


def _coin_and_answer(epsilon, delta):
    """The worst (ε, δ)-DP mechanism, as two laws."""
    tails = (1 - delta) / (1 + math.exp(epsilon))
    p = np.array([delta, tails * math.exp(epsilon), tails, 0.0])
    return p, p[::-1]


def test_the_true_delta_of_approximate_and_discrete_charges():
    """Catches shares that are too large: two looks of the worst (ε, δ)-DP kind, and discrete noise in between.

    The last charge is made only where the discrete release was telling.
    """
    budget = Budget(1.5, 1e-3)
    variance, shift = 60, 2
    ledger = Ledger(budget, pure=0.4, delta=4e-4)
    event = accounting.ApproximateEvent(0.2, 2e-4)
    ledger.charge(event)
    shift = next(d for d in range(20, 0, -1) if ledger.fits(discrete.gaussian(variance, d, 1)))
    ledger.charge(discrete.gaussian(variance, shift, 1))
    ledger.charge(event)
    assert ledger.spent > 0.8 * budget.epsilon
    x = np.arange(-150, 151)
    laws = [np.exp(-((x - d) ** 2) / (2 * variance)) for d in (0, shift)]
    p, q = (law / law.sum() for law in laws)
    one, other = _coin_and_answer(0.2, 2e-4)

    def delta(telling):
        found = 0.0
        for i in range(4):
            for j in range(4):
                gain = np.maximum(one[i] * one[j] * p - math.exp(1.5) * other[i] * other[j] * q, 0)
                found += gain[telling].sum()
            found += np.maximum(one[i] * p - math.exp(1.5) * other[i] * q, 0)[~telling].sum()
        return found

    for threshold in (-150, -20, -5, 0, 5, 20, 150):
        assert delta(x <= threshold) <= budget.delta
    assert delta(x <= 150) > 4e-4  # the coins alone


def test_ledgers_of_the_second_version_have_no_share_for_discrete_noise():
    """Catches an old ledger whose Gaussian charges filled the budget and that is refused, or that takes more."""
    full = accounting.gaussian_mu(1.0, 1e-6) * (1 + 1e-9)
    document = {"version": 2, "budget": {"epsilon": 1.0, "delta": 1e-6}, "pure": None}
    old = Ledger.from_json(json.dumps({**document, "charges": [{"label": "", "mu2": full**2, "pure": 0.0}]}))
    assert old.spent <= 1.0
    assert not old.fits(_near(1e-6))
    assert Ledger.from_json(json.dumps({**document, "charges": []})).fits(_near(0.1))

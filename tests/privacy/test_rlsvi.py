"""RLSVI's accountants against the printed formula, dp-accounting, and every neighbour of tiny worlds."""

from __future__ import annotations

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

import discreet as dc
from discreet.privacy import Budget, Ledger, accounting
from discreet.privacy.rlsvi import Account, beta

RIVERSWIM = (6, 2, 20)
DELTA = 1e-6


def account(K, every=1, sizes=RIVERSWIM, **options):
    return Account(*sizes, np.arange(every, K + 1, every), **options)


@pytest.mark.parametrize("K", [1, 100, 50_000])
@pytest.mark.parametrize("sizes", [RIVERSWIM, (3, 2, 5), (1, 1, 1)])
def test_the_papers_account_is_corollary_14(K, sizes):
    """Must show, to 1e-9."""
    S, A, H = sizes
    x = 2 * A * K / (H**2 * math.log(2 * H * S * A))
    printed = x + 2 * math.sqrt(2 * A * K * math.log(1 / DELTA) / (H**2 * math.log(2 * H * S * A)))
    assert account(K, sizes=sizes).paper_epsilon(1.0, DELTA) == pytest.approx(printed, rel=1e-12, abs=1e-9)


def test_the_published_experiment():
    """Must show: 147.89 by the paper, at most 13.0 for the same releases."""
    spec = dc.envs.riverswim().spec
    for accountant, epsilon in (("paper", 147.887), ("tight", 12.953)):
        agent = dc.agents.make(
            "rlsvi", spec, episodes=50_000, accounting=accountant, noise_scale=1.0, delta=DELTA, seed=0
        )
        assert agent.guarantee.epsilon == pytest.approx(epsilon, abs=1e-3)
        assert agent.guarantee.protects == "rewards"
    assert agent.guarantee.epsilon <= 13.0


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize(
    ("K", "every", "scale"), [(4, 1, 0.3), pytest.param(21, 7, 0.1, marks=pytest.mark.slow), (1, 1, 0.05)]
)
def test_the_tight_account_equals_a_numerical_composition_of_all_releases(K, every, scale, stationary):
    """Must show, within 1e-3: every perturbed cell of every release as an event of its own."""
    S, A, H = sizes = (3, 2, 4)
    found = account(K, every, sizes, stationary=stationary)
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4
    )
    for n in range(every, K + 1, every):
        b = scale * 0.5 * S * H**3 * math.log(2 * H * S * A * (n + 1))
        one = dp_accounting.GaussianDpEvent(math.sqrt(b / 2))  # N = 1: variance β/2, shift 1
        accountant.compose(dp_accounting.SelfComposedDpEvent(one, H * H if stationary else H))  # H cells, at every h
    for delta in (1e-2, 1e-6):
        assert found.tight_epsilon(scale, delta) == pytest.approx(accountant.get_epsilon(delta), abs=1e-3, rel=1e-3)


@pytest.mark.parametrize("budget", [Budget(0.3, 1e-6), Budget(1.0, 1e-6), Budget(10.0, 1e-3)])
@pytest.mark.parametrize("every", [1, 500])
def test_solved_scales_give_the_budget(budget, every):
    found = account(50_000, every)
    assert 0.99 * budget.epsilon <= found.tight_epsilon(found.tight_scale(budget), budget.delta) <= budget.epsilon
    assert 0.99 * budget.epsilon <= found.paper_epsilon(found.paper_scale(budget), budget.delta) <= budget.epsilon
    assert found.even_scale(budget) < found.tight_scale(budget) < found.paper_scale(budget)


@pytest.mark.parametrize(("every", "scale"), [(1, 93), (500, 0.18)])
def test_what_an_epsilon_of_one_takes(every, scale):
    """Must show: about 93 replanning every episode, about 0.18 every 500, within 5 %; ε in [0.99, 1]."""
    agent = dc.agents.make(
        "rlsvi",
        dc.envs.riverswim().spec,
        episodes=50_000,
        privacy=dc.Central(1.0, DELTA),
        update_every=every,
        seed=0,
    )
    assert agent.noise_scale == pytest.approx(scale, rel=0.05)
    assert 0.99 <= agent.guarantee.epsilon <= 1.0


def shifts(cells, batches, S, A, H, stationary):
    """Σ μ² over all releases of the user who is largest, at noise scale 1, from the cells (users, H) of a history."""
    users = len(cells)
    largest = np.zeros(users)
    for i in range(users):
        for n in batches:
            if i >= n:
                continue
            b = 0.5 * S * H**3 * math.log(2 * H * S * A * (n + 1))
            for h in range(H):
                for c in range(S * A):
                    if stationary:
                        own, all_ = (cells[i] == c).sum(), (cells[:n] == c).sum()
                    else:
                        own, all_ = int(cells[i, h] == c), (cells[:n, h] == c).sum()
                    if own:
                        largest[i] += (own / all_) ** 2 * (all_ + 1) / b  # every reward moves from 0 to 1
    return largest.max()


@pytest.mark.parametrize(
    ("sizes", "stationary", "users", "attained"),
    [
        ((2, 1, 2), False, 3, True),
        ((2, 2, 2), False, 2, True),
        ((2, 2, 2), True, 2, True),
        ((3, 1, 2), True, 3, True),
        ((1, 2, 3), True, 1, True),  # fewer cells than steps: the bound is H·(H + S·A), not 2H²
        ((1, 2, 3), True, 2, False),  # others have to be somewhere, too
        ((1, 1, 2), False, 2, False),
    ],
)
@pytest.mark.parametrize("every", [1, 2])
def test_no_history_loses_more_and_one_loses_as_much(sizes, stationary, users, attained, every):
    """Must show: all histories of a tiny world. Would catch an N that leaves the user out, or a cell too few."""
    S, A, H = sizes
    batches = list(range(every, users + 1, every))
    if not batches:
        return
    episodes = list(itertools.product(range(S * A), repeat=H))
    worst = 0.0
    for history in itertools.product(episodes, repeat=users):
        worst = max(worst, shifts(np.array(history), batches, S, A, H, stationary))
    bound = account(users, every, sizes, stationary=stationary).tight_mu2
    assert worst <= bound * (1 + 1e-12)
    if attained:
        assert worst == pytest.approx(bound, rel=1e-12)
    else:
        assert worst < 0.999 * bound


def test_guarantees_fit_into_a_ledger_and_grow_with_groups():
    agent = dc.agents.make("rlsvi", dc.envs.riverswim().spec, episodes=100, privacy=dc.Central(1.0, DELTA), seed=0)
    ledger = Ledger(Budget(1.0, DELTA))
    ledger.charge(agent.guarantee.events, "rlsvi")
    assert ledger.spent == pytest.approx(agent.guarantee.epsilon)
    assert not ledger.fits(agent.guarantee.events)
    two = agent.guarantee.group(2)
    assert two.epsilon > 2 * agent.guarantee.epsilon
    assert two.protects == "rewards"
    assert "states and actions are not protected" in str(two)


def test_the_papers_event_proves_nothing_that_the_paper_does_not():
    """A Rényi bound is no Gaussian event: groups are refused rather than guessed."""
    agent = dc.agents.make(
        "rlsvi", dc.envs.riverswim().spec, episodes=9, accounting="paper", noise_scale=1.0, delta=DELTA, seed=0
    )
    with pytest.raises(ValueError, match="nothing is proven"):
        accounting.losses(agent.guarantee.events)


def test_beta_is_the_papers():
    np.testing.assert_allclose(beta(6, 2, 20, [1, 7]), [24_000 * math.log(480), 24_000 * math.log(3360)], rtol=1e-14)

"""Counts with central noise: what is released, promised and refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.privacy import accounting
from discreet.privacy.sensitivity import tabular
from discreet.privatizers.counts.serve import choose_sum
from discreet.privatizers.make import make
from tests.conftest import random_mdp
from tests.privatizers.parties import at_work, batch_of

RIVERSWIM = dc.envs.riverswim().spec


def build(privacy, spec=RIVERSWIM, *, capacity=50, horizon=None, stationary=False, failure=0.05):
    return make(
        "counts",
        spec,
        privacy,
        capacity=capacity,
        batches=[1] * (horizon or capacity),
        stationary=stationary,
        failure=failure,
    )


@pytest.mark.parametrize("release", ["nmr", "mr"])
@pytest.mark.parametrize("stationary", [True, False])
def test_counts_are_the_truth_within_their_error(rng, stationary, release):
    mdp = random_mdp(rng, 3, 2, 4)
    exact = at_work(build(dc.NonPrivate(), mdp.spec, stationary=stationary))
    asked = dc.Central(1.0, 1e-6, release=release)
    private = at_work(build(asked, mdp.spec, horizon=5, stationary=stationary, failure=1e-6))
    assert not private.last.visits.any()
    for _ in range(5):
        trajectories = [mdp.sample(mdp.optimal_policy, rng) for _ in range(10)]
        truth, released = (p.observe(batch_of(p, trajectories, rng)) for p in (exact, private))
        for field in ("visits", "transitions", "rewards"):
            difference = getattr(released, field) - getattr(truth, field)
            assert np.abs(difference).max() <= released.error
            assert difference.std() > 0
        if release == "mr":
            np.testing.assert_allclose(released.visits, released.transitions.sum(axis=3))
        assert private.last is released  # looking again draws nothing
    assert private.count == 50


def test_guarantees_are_computed_from_what_was_built():
    """Would catch a guarantee copied from the budget: halving the noise must double it."""
    privatizer = build(dc.Central(1.0))
    assert privatizer.guarantee.epsilon == pytest.approx(1.0, abs=1e-9)
    privatizer.sum.scale /= 2
    assert privatizer.guarantee.epsilon == pytest.approx(2.0, abs=1e-9)
    assert privatizer.guarantee.notion == "joint"
    assert privatizer.guarantee.protects == "trajectory"
    assert accounting.epsilon(privatizer.guarantee.events, 0.0) == privatizer.guarantee.epsilon


def test_the_papers_noise_shows_its_real_epsilon():
    """Must show: more than 1.9 for a requested 1.0 with the central Laplace tree at K = 50,000."""
    privatizer = build(dc.Central(1.0, sum="tree", calibration="paper"), capacity=50_000)
    levels, H = 16, 20
    assert privatizer.sum.scale == pytest.approx(3 * H * math.log2(50_000))
    assert privatizer.guarantee.epsilon == pytest.approx(2 * levels / math.log2(50_000))
    assert privatizer.guarantee.epsilon > 1.9
    assert privatizer.guarantee.delta == 0
    assert build(dc.Central(1.0, calibration="paper")).sum.name == "tree"


@pytest.mark.parametrize("options", [{"sum": "factored", "delta": 1e-6}, {"sum": "smooth-tree"}, {"release": "mr"}])
def test_paper_exists_only_where_it_is_printed(options):
    with pytest.raises(ValueError, match="calibration='paper' is printed for"):
        build(dc.Central(1.0, calibration="paper", **options))
    with pytest.raises(ValueError, match="at least 2 reads"):
        build(dc.Central(1.0, calibration="paper"), capacity=1)


def test_auto_takes_the_least_noise():
    sensitivity = tabular(20, 3)
    assert choose_sum(dc.Central(1.0), 50_000, sensitivity) == ("smooth-tree", dc.Budget(1.0))
    assert choose_sum(dc.Central(1.0, 1e-6), 50_000, sensitivity) == ("factored", dc.Budget(1.0, 1e-6))
    for delta in (0.0, 1e-6):
        for reads in (1, 2, 3, 10, 1000):
            auto = build(dc.Central(1.0, delta), capacity=reads).sum.worst_std
            for name in dc.sums.CENTRAL:
                if name == "optimal" and (delta == 0 or reads > 64):
                    continue
                if delta > 0 or name != "factored":
                    assert auto <= build(dc.Central(1.0, delta, sum=name), capacity=reads).sum.worst_std * (1 + 1e-9)


def test_auto_takes_laplace_noise_where_it_is_less():
    """Pure privacy is proven for any δ, and short streams of few counts need less noise with it."""
    private = build(dc.Central(1.0, 1e-6), dc.envs.riverswim(horizon=1).spec, capacity=1)
    assert private.sum.distribution == "laplace"
    assert private.guarantee.delta == 0
    assert private.guarantee.epsilon == pytest.approx(1.0)


def test_auto_leaves_out_what_is_not_proven_for_so_many_reads():
    assert choose_sum(dc.Central(1.0, 1e-6), 2**24 + 1, tabular(20, 3))[0] in ("tree", "smooth-tree")


def test_a_contribution_beyond_the_sensitivity_is_refused(rng):
    """Would catch a server that lets one report count for many: the guarantee rests on this bound."""
    from discreet.privacy import RawBatch

    for stationary in (False, True):
        privatizer = at_work(build(dc.Central(1.0), capacity=5, stationary=stationary))
        H = RIVERSWIM.horizon
        for values, repeat in ((1e6, 1), (-1.0, 1), (1.0, 2)):
            forged = RawBatch(np.tile(np.arange(3 * H), (1, repeat)), np.full((1, 3 * H * repeat), values))
            with pytest.raises(ValueError, match="must not be negative, with L1 norm at most 60"):
                privatizer.collect(forged)
        same = RawBatch(np.zeros((1, 60), dtype=np.int64), np.ones((1, 60)))
        with pytest.raises(ValueError, match="L2 norm at most"):
            privatizer.collect(same)
        assert privatizer.count == 0
        mdp = dc.envs.riverswim()
        for action in (0, 1):  # honest users, also those who stay in one cell
            trajectory = mdp.sample(np.full((20, 6), action), rng)
            privatizer.collect(batch_of(privatizer, [trajectory], rng))
        assert privatizer.count == 2


def test_derived_visits_have_a_larger_error_of_their_own():
    """About √S larger for the visits, while every count has less noise because less is released."""
    nmr, mr = (build(dc.Central(1.0, 1e-6, sum="factored", release=r), capacity=1000) for r in ("nmr", "mr"))
    assert mr.sum.worst_std == pytest.approx(nmr.sum.worst_std * math.sqrt(2 / 3), rel=1e-6)
    assert 1.5 < mr.error / mr.sum.error_bound(0.05) < math.sqrt(6)


def test_one_user_too_many_changes_nothing(rng):
    mdp = dc.envs.riverswim()
    privatizer = at_work(build(dc.Central(1.0), capacity=2))
    people = [mdp.sample(mdp.optimal_policy, rng) for _ in range(3)]
    privatizer.observe(batch_of(privatizer, people[:2], rng))
    kept, last = privatizer.reveal(), privatizer.last
    with pytest.raises(ValueError, match="2 users"):
        privatizer.observe(batch_of(privatizer, people[2:], rng))
    assert privatizer.reveal() is kept
    assert privatizer.last is last
    assert privatizer.count == 2
    with pytest.raises(TypeError, match="RawBatch"):
        privatizer.collect(privatizer.encoder.encode(people[0], rng))


def test_another_seed_is_other_noise_and_the_same_is_the_same(rng):
    mdp = dc.envs.riverswim()
    person, reads = mdp.sample(mdp.optimal_policy, rng), []
    for seed in (0, 0, 1):
        privatizer = at_work(build(dc.Central(1.0)), seed)
        reads.append(privatizer.observe(batch_of(privatizer, [person], rng)).visits)
    np.testing.assert_array_equal(reads[0], reads[1])
    assert not np.array_equal(reads[0], reads[2])

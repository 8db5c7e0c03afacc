"""Local privacy: exact losses, unbiased estimates, variances, and nothing raw at the server."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import discreet as dc
from discreet import privatizers
from discreet.errors import InvalidPersonalData
from discreet.mdp import Spec, Trajectory
from discreet.privacy import NoisyBatch, SampledBatch
from discreet.privacy.sensitivity import tabular
from discreet.privatizers import encoders
from discreet.privatizers.randomisers import RANDOMISERS
from tests.conftest import random_mdp

RIVERSWIM = dc.envs.riverswim().spec
SUMS = [("laplace", 0.0), ("gaussian", 1e-6), ("sampled", 0.0)]


def build(privacy, spec=RIVERSWIM, *, capacity=50_000, stationary=False):
    return privatizers.make(
        spec, privacy, capacity=capacity, batches=[1] * capacity, stationary=stationary, rng=np.random.default_rng(0)
    )


@pytest.mark.parametrize("randomiser", ["unary", "subset", "response"])
@pytest.mark.parametrize("stationary", [False, True])
def test_the_sampled_encoders_exact_loss_by_listing_everything(stationary, randomiser):
    """Must show: S = 2, A = 1, H = 2: every trajectory, every report, rewards 0, ½ and 1."""
    spec = Spec(2, 1, 2)
    encoder = build(dc.Local(1.0, sum="sampled", randomiser=randomiser), spec, stationary=stationary).encoder
    reports = np.array(list(itertools.product((False, True), repeat=8)))
    values = np.array([[encoder.randomiser.likelihood(report, value) for report in reports] for value in range(8)])
    laws = []
    for states in itertools.product(range(2), repeat=3):
        for rewards in itertools.product((0.0, 0.5, 1.0), repeat=2):
            law = np.zeros((2, len(reports)))
            for h in range(2):
                for bit, weight in ((0, 1 - rewards[h]), (1, rewards[h])):
                    value = (states[h] * 2 + states[h + 1]) * 2 + bit
                    law[0 if stationary else h] += weight * values[value] / 2
            laws.append(law.ravel())
    laws = np.array(laws)
    possible = laws[:, laws.max(axis=0) > 0]
    loss = np.log(possible.max(axis=0) / possible.min(axis=0)).max()
    assert loss <= 1.0 + 1e-12
    assert loss == pytest.approx(1.0, abs=1e-9)  # two users who differ everywhere attain it


@pytest.mark.parametrize("sum_and_delta", SUMS)
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_proven_epsilon_is_the_budgets(sum_and_delta, stationary, epsilon):
    name, delta = sum_and_delta
    guarantee = build(dc.Local(epsilon, delta, sum=name), stationary=stationary).guarantee
    assert guarantee.notion == "local"
    assert 0.99 * epsilon <= guarantee.epsilon <= epsilon


def test_the_papers_noise_loses_twice_its_epsilon():
    """Correction 1: Lap(3H/ε) for a change of 6H."""
    privatizer = build(dc.Local(1.0, sum="laplace", calibration="paper"))
    assert privatizer.encoder.scale == 60
    assert privatizer.guarantee.epsilon == pytest.approx(2.0, abs=1e-12)
    for name, delta in SUMS[1:]:
        with pytest.raises(ValueError, match="printed for local sum='laplace'"):
            build(dc.Local(1.0, delta, sum=name, calibration="paper"))


def test_noisy_vectors_lose_what_their_change_costs():
    """In closed form: the largest L1 or L2 distance of two users' vectors, over the scale."""
    spec = Spec(2, 2, 2)
    for stationary in (False, True):
        laplace = build(dc.Local(1.0, sum="laplace"), spec, stationary=stationary).encoder
        one, two = (laplace.vector(Trajectory(np.full(3, corner), np.full(2, corner), np.ones(2))) for corner in (0, 1))
        assert np.abs(one - two).sum() / laplace.scale == pytest.approx(1.0)
        assert np.sqrt(((one - two) ** 2).sum()) == pytest.approx(tabular(2, 3, stationary=stationary).l2)


@pytest.mark.parametrize("n", [6000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sum_and_delta", SUMS)
@pytest.mark.parametrize("stationary", [False, True])
def test_estimates_are_unbiased_and_have_their_variance(rng, sum_and_delta, stationary, n):
    """One trajectory, many users: means within six standard errors, and variances as stated for untouched counts."""
    mdp = random_mdp(rng, 2, 1, 2, reward_noise="bernoulli")
    trajectory = Trajectory(np.array([0, 1, 1]), np.array([0, 0]), np.array([0.3, 1.0]))
    name, delta = sum_and_delta
    privatizer = build(dc.Local(1.0, delta, sum=name), mdp.spec, capacity=20_000, stationary=stationary)
    exact = build(dc.NonPrivate(), mdp.spec, capacity=1, stationary=stationary)
    exact.collect(exact.shuffler([exact.encoder.encode(trajectory, rng)], rng))
    truth, reads, repeats = exact.counts(), {key: [] for key in ("visits", "transitions", "rewards")}, 2000
    for _ in range(repeats):
        privatizer = build(dc.Local(1.0, delta, sum=name), mdp.spec, capacity=20_000, stationary=stationary)
        reports = [privatizer.encoder.encode(trajectory, rng) for _ in range(n // repeats)]
        privatizer.collect(privatizer.shuffler(reports, rng))
        counts = privatizer.counts()
        for key, found in reads.items():
            found.append(getattr(counts, key) / (n // repeats))
    for key, found in reads.items():
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(repeats)
        assert (np.abs(mean - getattr(truth, key)) < 6 * error).all()
        untouched = getattr(truth, key) == 0
        if untouched.any():
            std = np.sqrt(np.var(found, axis=0, ddof=1)[untouched].mean() * (n // repeats))
            assert std == pytest.approx(privatizer.user_std[key], rel=0.06)  # rejects 0.8 and 1.25 times the variance


@pytest.mark.slow
@pytest.mark.parametrize("randomiser", ["unary", "subset", "response"])
def test_a_million_users_would_show_a_wrong_debiasing_factor(randomiser):
    """Must show: a z-test at 1e-6 accepts the estimate, and rejects it with a factor p − q that is 1 % off."""
    spec, n, rng = Spec(2, 1, 1), 1_000_000, np.random.default_rng(0)
    privatizer = build(dc.Local(3.0, sum="sampled", randomiser=randomiser), spec, capacity=n)
    trajectory = Trajectory(np.array([0, 1]), np.array([0]), np.array([1.0]))
    for _ in range(10):
        reports = [privatizer.encoder.encode(trajectory, rng) for _ in range(n // 10)]
        privatizer.collect(privatizer.shuffler(reports, rng))
    counts = privatizer.counts()
    for estimate, width, truth in (
        (counts.transitions[0, 0, 0, 1], 2, n),
        (counts.rewards[0, 0, 0], 2, n),
        (counts.visits[0, 0, 0], 4, n),
    ):
        error = math.sqrt(n * privatizer.encoder.randomiser.variance(width, holds=True))
        for factor, accepted in ((1.0, True), (1.01, False), (0.99, False)):
            assert bool(abs(estimate / factor - truth) < 4.9 * error) is accepted
    error = math.sqrt(n * privatizer.encoder.randomiser.variance(2, holds=False))
    assert abs(counts.transitions[0, 1, 0, 0]) < 4.9 * error


def test_sampled_beats_the_papers_laplace():
    """Must show: RiverSwim-6, H = 20, ε = 1: at least 12 times less noise per step, 2.8 times pooled."""
    for stationary, least in ((False, 12.0), (True, 2.8)):
        laplace, sampled = (
            build(dc.Local(1.0, sum=name), stationary=stationary).user_std["transitions"]
            for name in ("laplace", "sampled")
        )
        assert laplace / sampled >= least
        assert (
            build(dc.Local(1.0), stationary=stationary).guarantee
            == build(dc.Local(1.0, sum="sampled"), stationary=stationary).guarantee
        )


@pytest.mark.parametrize("runs", [60, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sum_and_delta", SUMS)
@pytest.mark.parametrize("stationary", [False, True])
def test_error_bounds_hold(rng, sum_and_delta, stationary, runs):
    """Runs of 60 users, read after every 20: no more failures than allowed, and four standard deviations."""
    mdp = random_mdp(rng, 2, 2, 3)
    name, delta = sum_and_delta
    failures = 0
    for _ in range(runs):
        private = build(dc.Local(2.0, delta, sum=name), mdp.spec, capacity=60, stationary=stationary)
        exact = build(dc.NonPrivate(), mdp.spec, capacity=60, stationary=stationary)
        failed = False
        for _ in range(3):
            trajectories = [mdp.sample(mdp.optimal_policy, rng) for _ in range(20)]
            for privatizer in (private, exact):
                reports = [privatizer.encoder.encode(t, rng) for t in trajectories]
                privatizer.collect(privatizer.shuffler(reports, rng))
            got, truth = private.counts(), exact.counts()
            worst = max(
                np.abs(getattr(got, key) - getattr(truth, key)).max() for key in ("visits", "transitions", "rewards")
            )
            failed |= bool(worst > got.error)
        failures += failed
    assert failures <= runs * 0.05 + 4 * math.sqrt(runs * 0.05 * 0.95)


@pytest.mark.parametrize("sum_and_delta", SUMS)
def test_encoders_travel_as_json(rng, sum_and_delta):
    mdp = dc.envs.riverswim()
    for privacy in (dc.Local(1.0, sum_and_delta[1], sum=sum_and_delta[0]), dc.NonPrivate()):
        encoder = build(privacy).encoder
        again = encoders.from_json(encoder.to_json())
        assert again == encoder
        trajectory = mdp.sample(mdp.optimal_policy, rng)
        one, two = (e.encode(trajectory, np.random.default_rng(7)) for e in (encoder, again))
        for name in vars(one):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for bad in ("{", "{}", "[" * 100_000, json.dumps({"kind": "x", "layout": {}, "parameters": {}})):
        with pytest.raises(ValueError, match=r"not an encoder|of the kind 'x'"):
            encoders.from_json(bad)
    with pytest.raises(ValueError, match="of the kind 'raw'"):
        encoders.from_json(build(dc.NonPrivate()).encoder.to_json(), kinds=("noisy", "sampled"))


@pytest.mark.parametrize(
    ("sum_", "change"),
    [
        ("laplace", {"scale": 0}),
        ("laplace", {"scale": float("nan")}),
        ("laplace", {"scale": float("inf")}),
        ("laplace", {"distribution": "cauchy"}),
        ("sampled", {"epsilon": 0}),
        ("sampled", {"epsilon": -3}),
        ("sampled", {"epsilon": 700}),
        ("sampled", {"epsilon": float("inf")}),
        ("sampled", {"randomiser": "none"}),
    ],
)
def test_encoders_that_hide_nothing_are_refused(sum_, change):
    document = json.loads(build(dc.Local(1.0, sum=sum_)).encoder.to_json())
    document["parameters"].update(change)
    with pytest.raises(ValueError, match=r"got|unknown|not an encoder"):
        encoders.from_json(json.dumps(document))
    document = json.loads(build(dc.Local(1.0, sum=sum_)).encoder.to_json())
    document["layout"]["stationary"] = "false"
    with pytest.raises(ValueError, match="stationary"):
        encoders.from_json(json.dumps(document))


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 3.0, 24.5, 26.5, 30.0])
@pytest.mark.parametrize("size", [2, 144, 1296, 100_000])
def test_losses_are_those_of_what_is_drawn(epsilon, size):
    """Large worlds and large ε: nothing overflows, and no loss exceeds the budget."""
    for kind in RANDOMISERS.values():
        assert 0.99 * epsilon <= kind(epsilon, size).loss <= epsilon


def test_collectors_and_servers_check_what_they_get(rng):
    """Under local privacy nobody collects a raw report, and one broken report does not spoil the sums."""
    spec = Spec(2, 1, 1)
    trajectory = Trajectory(np.array([0, 1]), np.array([0]), np.array([1.0]))
    raw = build(dc.NonPrivate(), spec, capacity=4).encoder.encode(trajectory, rng)
    for name in ("laplace", "sampled"):
        privatizer = build(dc.Local(1.0, sum=name), spec, capacity=4)
        with pytest.raises(TypeError, match="got RawReport"):
            privatizer.shuffler([raw], rng)
        with pytest.raises(ValueError, match="at least one report"):
            privatizer.shuffler([], rng)
    noisy, sampled = (build(dc.Local(1.0, sum=name), spec, capacity=4) for name in ("laplace", "sampled"))
    with pytest.raises(ValueError, match="finite"):
        noisy.collect(NoisyBatch(np.full((1, 8), np.nan)))
    for steps, support in (
        (np.zeros(1), np.ones((1, 8), bool)),
        (np.zeros(1, int), np.full((1, 8), 10**9)),
        (np.ones(1, int), np.ones((1, 8), bool)),
    ):
        with pytest.raises(ValueError, match="bits about one of"):
            sampled.collect(SampledBatch(steps, support))
    assert noisy.count == sampled.count == 0


@pytest.mark.parametrize("sum_and_delta", SUMS)
def test_the_server_takes_no_trajectory_and_no_raw_batch(rng, sum_and_delta):
    mdp = dc.envs.riverswim()
    privatizer = build(dc.Local(1.0, sum_and_delta[1], sum=sum_and_delta[0]))
    raw = build(dc.NonPrivate())
    trajectory = mdp.sample(mdp.optimal_policy, rng)
    report = privatizer.encoder.encode(trajectory, rng)
    raw_batch = raw.shuffler([raw.encoder.encode(trajectory, rng)], rng)
    for wrong in (trajectory, report, raw_batch):
        with pytest.raises(TypeError, match="expected a") as caught:
            privatizer.collect(wrong)
        assert not any(digit in str(caught.value) for digit in "0123456789")
    assert privatizer.count == 0
    with pytest.raises(InvalidPersonalData, match=r"rewards must lie in \[0, 1\]"):
        privatizer.encoder.encode(Trajectory(trajectory.states, trajectory.actions, trajectory.rewards + 7), rng)


def test_one_user_too_many_changes_nothing(rng):
    mdp = dc.envs.riverswim()
    for name, delta in SUMS:
        privatizer = build(dc.Local(1.0, delta, sum=name), capacity=2)
        reports = [privatizer.encoder.encode(mdp.sample(mdp.optimal_policy, rng), rng) for _ in range(3)]
        privatizer.collect(privatizer.shuffler(reports[:2], rng))
        before = privatizer.counts().transitions
        with pytest.raises(ValueError, match="2 users"):
            privatizer.collect(privatizer.shuffler(reports[2:], rng))
        np.testing.assert_array_equal(privatizer.counts().transitions, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sum": "gaussian"}, "needs delta > 0"),
        ({"sum": "tree"}, "unknown sum 'tree'"),
        ({"sum": "sampled", "randomiser": "unry"}, "did you mean 'unary'"),
    ],
)
def test_impossible_wishes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        build(dc.Local(1.0, **options))


def test_a_budget_that_promises_nothing_is_refused():
    """Would catch an overflow of e^ε."""
    with pytest.raises(ValueError, match="epsilon=1000"):
        dc.Local(1000)
    assert 0 < build(dc.Local(20.0, sum="sampled")).guarantee.epsilon <= 20.0

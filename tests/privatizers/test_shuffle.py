"""Shuffle privacy: the account against exact convolutions, the two paths against each other, and the trust boundary."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.mdp import Spec, Trajectory
from discreet.privacy import ShuffledBatch, binomial
from discreet.privacy.binomial import BinomialEvent
from discreet.privatizers import ShufflePrivatizer, encoders
from discreet.privatizers.shuffle import BitShuffler, SimulatedShuffler, paper_bits

SMALL = Spec(2, 1, 20)


def constant(corner, reward=1.0):
    """A user who stays where they are."""
    return Trajectory(np.full(21, corner), np.zeros(20, dtype=int), np.full(20, reward))


def build(privacy, spec=SMALL, *, batch_size=50, batches=None, stationary=False, **options):
    return ShufflePrivatizer(spec, privacy, batches=batches or [batch_size] * 4, stationary=stationary, **options)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 50, 500, 3000, 8192, 20000])
@pytest.mark.parametrize("stationary", [False, True])
def test_the_proven_epsilon_is_the_budgets(batch_size, stationary):
    """Must show: within [0.99, 1] of the budget at H = 20, for small and large batches."""
    guarantee = build(
        dc.Shuffle(1.0, 1e-6), dc.envs.riverswim().spec, batch_size=batch_size, stationary=stationary
    ).guarantee
    assert 0.99 <= guarantee.epsilon <= 1.0
    assert guarantee.notion == "shuffle"
    assert any("add their noise" in assumption for assumption in guarantee.assumptions)


def test_the_noise_is_a_small_part_of_the_printed():
    """Must show: at most 1/700 of τ/4 at ε = 0.1, β = 1e-6, n = 10,000, H = 20, per step n, m, r."""
    privatizer = build(dc.Shuffle(0.1, 1e-6), dc.envs.riverswim().spec, batch_size=10_000)
    tau = 96 * math.log(2 / 1e-6) * (3 * 20 / 0.1) ** 2
    assert privatizer.fresh_std**2 <= tau / 4 / 700
    m, p = paper_bits(0.1, 1e-6, 20, 10_000)
    assert (m, p) == (math.ceil(tau / 10_000), 0.5)
    assert paper_bits(10.0, 0.5, 1, 10_000) == (1, 96 * math.log(4) * 0.09 / 20_000)


def test_the_printed_noise_shows_its_real_epsilon():
    """Correction 4: it is ample."""
    guarantee = build(dc.Shuffle(1.0, 1e-6, calibration="paper"), dc.envs.riverswim().spec, batch_size=500).guarantee
    assert 0.02 < guarantee.epsilon < 0.04


class OneBitShort(SimulatedShuffler):
    """Planted: one noise bit of one user is missing in every counter."""

    def __call__(self, reports, rng):
        encoder, users = self._encoder, len(reports)
        ones = rng.binomial(users * encoder.noise_bits - 1, encoder.probability, size=encoder.layout.size)
        for report in reports:
            np.add.at(ones, report.indices, report.ones)
        return ShuffledBatch(ones, users * encoder.messages, users)


def test_paths_have_one_law_at_the_analyser(rng):
    """Must show: chi-square and Kolmogorov–Smirnov at 1e-6, with power against one missing noise bit."""
    spec, users, runs = Spec(2, 1, 1), 3, 5000  # a missing bit has p-values of 1e-12 and less
    privacy = dc.Shuffle(8.0, 1e-2)
    trajectory = Trajectory(np.array([0, 0]), np.array([0]), np.array([0.5]))
    slow = build(privacy, spec, batches=[users], messages=True)
    fast = build(privacy, spec, batches=[users])
    drawn = {}
    for name, privatizer, shuffler in (
        ("messages", slow, slow.shuffler),
        ("fast", fast, fast.shuffler),
        ("short", fast, OneBitShort(fast.encoder)),
    ):
        batches = ([privatizer.encoder.encode(trajectory, rng) for _ in range(users)] for _ in range(runs))
        drawn[name] = np.array([shuffler(batch, rng).ones for batch in batches])
    kinds = {"noise alone": [1, 3, 4, 5, 7], "and data": [0, 2], "and rewards, rounded at random": [6]}  # n, m, r

    def pvalues(one, other, columns):
        samples = [drawn[name][:, columns].ravel() for name in (one, other)]
        top = max(sample.max() for sample in samples)
        table = np.array([np.bincount(sample, minlength=top + 1) for sample in samples])
        common = table.sum(axis=0) >= 20
        rest = table[:, ~common].sum(axis=1, keepdims=True)
        table = np.concatenate([table[:, common], rest], axis=1) if rest.min() > 0 else table[:, common]
        return stats.ks_2samp(*samples, method="asymp").pvalue, stats.chi2_contingency(table).pvalue

    for what, columns in kinds.items():
        assert min(pvalues("messages", "fast", columns)) > 1e-6, what
        assert max(pvalues("messages", "short", columns)) < 1e-6, what
    noise = drawn["messages"][:, kinds["noise alone"]].ravel()
    assert noise.std() == pytest.approx(fast.fresh_std, rel=0.03)  # rejects 0.8 and 1.25 times the scale


def test_batches_may_differ_in_size(rng):
    """Each has noise of its own, proven for its size; the weakest is the guarantee; the debiasing keeps up."""
    batches = [2, 30, 31]
    privatizer = build(dc.Shuffle(1.0, 1e-3), batches=batches, failure=1e-3)
    assert 0.99 <= privatizer.guarantee.epsilon <= 1.0
    seen = set()
    for users in batches:
        assert privatizer.batch_size == users
        seen.add((privatizer.encoder.noise_bits, privatizer.encoder.probability))
        trials = users * privatizer.encoder.noise_bits
        event = BinomialEvent(trials, privatizer.encoder.probability, 1, 60)
        assert 0.99 <= binomial.epsilon(event, 1e-3) <= privatizer.guarantee.epsilon
        reports = [privatizer.encoder.encode(constant(0), rng) for _ in range(users)]
        wrong = privatizer.shuffler(reports[:1], rng)
        with pytest.raises(ValueError, match=f"calibrated for {users} users, got 1"):
            privatizer.collect(wrong)
        privatizer.collect(privatizer.shuffler(reports, rng))
    assert len(seen) == 3
    counts = privatizer.counts()
    assert np.abs(counts.visits[:, 0, 0] - 63).max() < 6 * privatizer.worst_std < 6 * counts.error
    assert abs(counts.visits[:, 0, 0].mean() - 63) < 6 * privatizer.worst_std / math.sqrt(20)
    with pytest.raises(ValueError, match="holds 63 users"):
        privatizer.collect(wrong)


@pytest.mark.parametrize("messages", [True, False])
@pytest.mark.parametrize("stationary", [True, False])
def test_counts_are_the_truth_within_their_error(rng, messages, stationary):
    mdp = dc.envs.riverswim(states=2, horizon=20)
    privatizer = build(
        dc.Shuffle(1.0, 1e-6), mdp.spec, batch_size=20, messages=messages, stationary=stationary, failure=1e-4
    )
    exact = dc.privatizers.make(
        mdp.spec, dc.NonPrivate(), capacity=80, batches=[20] * 4, stationary=stationary, rng=rng
    )
    for _ in range(4):
        trajectories = [mdp.sample(mdp.optimal_policy, rng) for _ in range(20)]
        for either in (privatizer, exact):
            either.collect(either.shuffler([either.encoder.encode(t, rng) for t in trajectories], rng))
        got, truth = privatizer.counts(), exact.counts()
        for field in ("visits", "transitions", "rewards"):
            difference = getattr(got, field) - getattr(truth, field)
            assert np.abs(difference).max() <= got.error
            ratio = np.abs(difference).mean() / (privatizer.fresh_std * math.sqrt(privatizer.count / 20))
            assert 0.1 < ratio < 2.5  # few counts if pooled


def test_every_user_sends_the_same_number_of_messages_whatever_they_did(rng):
    for stationary in (False, True):
        encoder = build(dc.Shuffle(1.0, 1e-6), messages=True, stationary=stationary).encoder
        shapes = set()
        for corner in (0, 1):
            shapes.add(encoder.encode(constant(corner), rng).bits.shape)
        assert shapes == {(encoder.layout.size, encoder.data_bits + encoder.noise_bits)}
        assert encoder.data_bits == (20 if stationary else 1)


def test_the_shuffler_breaks_every_link(rng):
    """A user's messages stay neither together nor in order: each counter has a permutation of its own."""
    encoder = build(dc.Shuffle(1.0, 1e-6), messages=True).encoder
    marked = np.zeros((encoder.layout.size, 40), dtype=bool)
    marked[:, 0] = True
    reports = [dc.privacy.BitsReport(marked), dc.privacy.BitsReport(np.zeros_like(marked))]
    mixed = BitShuffler().mix(reports, rng)
    positions = mixed.argmax(axis=1)
    assert len(set(positions.tolist())) > 40  # of 80 places
    np.testing.assert_array_equal(mixed.sum(axis=1), 1)


def test_the_server_takes_shuffled_batches_only(rng):
    mdp = dc.envs.riverswim(states=2, horizon=20)
    for messages in (True, False):
        privatizer = build(dc.Shuffle(1.0, 1e-6), mdp.spec, batch_size=2, messages=messages)
        trajectory = mdp.sample(mdp.optimal_policy, rng)
        report = privatizer.encoder.encode(trajectory, rng)
        for wrong in (trajectory, report, [report]):
            with pytest.raises(TypeError, match="expected a ShuffledBatch") as caught:
                privatizer.collect(wrong)
            assert not any(digit in str(caught.value) for digit in "0123456789")
        with pytest.raises(ValueError, match="calibrated for 2 users, got 1"):
            privatizer.collect(privatizer.shuffler([report], rng))
        batch = privatizer.shuffler([report, report], rng)
        assert not hasattr(batch, "reports")
        for _ in range(4):
            privatizer.collect(batch)
        with pytest.raises(ValueError, match="holds 8 users"):
            privatizer.collect(batch)


def test_honest_users_alone_are_accounted_for():
    """Must show: half the noise bits are enough for honest_fraction = 0.5, and not for 1."""
    half = build(dc.Shuffle(1.0, 1e-6, honest_fraction=0.5), batch_size=60)
    all_ = build(dc.Shuffle(1.0, 1e-6), batch_size=60)
    for privatizer, holds in ((half, True), (all_, False)):
        encoder = privatizer.encoder
        real = binomial.epsilon(BinomialEvent(30 * encoder.noise_bits, encoder.probability, 1, 60), 1e-6)
        assert (real <= 1.0) is holds
    assert "at least 50%" in half.guarantee.assumptions[0]
    with pytest.raises(ValueError, match="smallest batch is 10"):
        build(dc.Shuffle(1.0, 1e-6, honest_fraction=0.1), batch_size=5)


@pytest.mark.slow
def test_calibrations_are_kept_and_proven_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("DISCREET_CACHE_DIR", str(tmp_path))
    first = binomial.calibrate(40, 1, 60, 1.0, 1e-6)
    (file,) = (tmp_path / "discreet").glob("*.json")
    solved = []
    real = binomial._solve
    monkeypatch.setattr(binomial, "_solve", lambda *arguments: solved.append(1) or real(*arguments))
    assert binomial.calibrate(40, 1, 60, 1.0, 1e-6) == first
    assert not solved
    document = json.loads(file.read_text())
    for bad in (json.dumps({**document, "bits": 1}), json.dumps({**document, "probability": 0.9}), "{", ""):
        file.write_text(bad)  # too little noise, nonsense, half a file
        assert binomial.calibrate(40, 1, 60, 1.0, 1e-6) == first
    assert len(solved) == 4
    monkeypatch.setenv("DISCREET_CACHE_DIR", str(file))  # no directory can be made there
    assert binomial.calibrate(40, 1, 60, 1.0, 1e-6) == first


def test_encoders_travel_as_json():
    """The simulated one is raw, and never travels."""
    encoder = build(dc.Shuffle(1.0, 1e-6), messages=True).encoder
    assert encoders.from_json(encoder.to_json()) == encoder
    simulated = build(dc.Shuffle(1.0, 1e-6)).encoder
    with pytest.raises(ValueError, match="simulated-binomial"):
        encoders.from_json(simulated.to_json())


@pytest.mark.parametrize(
    "change",
    [
        {"noise_bits": 0},
        {"noise_bits": -1},
        {"noise_bits": 1.5},
        {"noise_bits": float("inf")},
        {"noise_bits": "many"},
        {"probability": 0},
        {"probability": -1.0},
        {"probability": 0.9},
        {"probability": float("nan")},
        {"probability": None},
    ],
)
def test_encoders_that_hide_nothing_are_refused(change):
    """Whatever reaches a user's device must hide them, or be refused in one line."""
    encoder = build(dc.Shuffle(1.0, 1e-6), messages=True).encoder
    document = json.loads(encoder.to_json())
    document["parameters"].update(change)
    with pytest.raises(ValueError, match=r"encoder|noise_bits|probability"):
        encoders.from_json(json.dumps(document))


def test_assumptions_are_printed_exactly():
    for fraction, words in ((0.504, "50.4%"), (0.02, "2%"), (1.0, "100%")):
        guarantee = build(dc.Shuffle(1.0, 1e-3, honest_fraction=fraction)).guarantee
        assert f"at least {words} of" in guarantee.assumptions[0]
    for users in (49, 98, 50, 7):
        assert build(dc.Shuffle(1.0, 1e-3, honest_fraction=1 / users), batch_size=users).guarantee.epsilon <= 1


def test_kept_calibrations_that_are_absurd_are_done_again(monkeypatch, tmp_path):
    """Hostile or broken entries: numbers that overflow, and noise that is proven but a thousand times too much."""
    monkeypatch.setenv("DISCREET_CACHE_DIR", str(tmp_path))
    first = binomial.calibrate(40, 1, 6, 1.0, 1e-6)
    (file,) = (tmp_path / "discreet").glob("*.json")
    document = json.loads(file.read_text())
    for bits in (
        "1e400",
        "1e308",
        str(10**25),
        str(10**9),
        str(1000 * first[0]),
        '"x"',
        "null",
        "[1]",
        str(first[0] + 1),
    ):
        file.write_text(json.dumps({**document, "bits": "BITS", "probability": 0.5}).replace('"BITS"', bits))
        assert binomial.calibrate(40, 1, 6, 1.0, 1e-6) == first
    file.write_text("[" * 100_000)
    assert binomial.calibrate(40, 1, 6, 1.0, 1e-6) == first
    assert not list((tmp_path / "discreet").glob("*.tmp"))
    with pytest.raises(ValueError, match="too large"):
        binomial.calibrate(1, 1, 60, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "delta > 0"),
        ({"delta": 1e-6, "sum": "tree"}, "unknown sum 'tree'"),
        ({"delta": 1e-6, "honest_fraction": 0}, "honest_fraction=0"),
        ({"delta": 1e-6, "honest_fraction": 1.5}, "honest_fraction=1.5"),
        ({"delta": 1e-6, "release": "mn"}, "did you mean"),
    ],
)
def test_impossible_wishes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        dc.Shuffle(1.0, **options)


def test_one_number_a_user_would_leak():
    """Correction 3: the multiset of the sums z = y + Σv shows an extreme that only a user with y = 1 can send."""
    m, p, n = 5, 0.5, 1000
    law = stats.binom.pmf(np.arange(m + 2), m, p)
    lost = law[m]  # y = 1 and all noise bits 1: z = m + 1, impossible for y = 0 whatever the other users send
    assert lost == pytest.approx(p**m)
    claimed = binomial.epsilon(BinomialEvent(n * m, p, 1, 1), 1e-3)
    assert claimed < 1.0  # one-bit messages of the same noise are private
    assert lost > 1e-3 * math.exp(claimed)  # the multiset of z is not, at this δ

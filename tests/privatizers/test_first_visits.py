"""First visits under shuffle privacy: what a user can change, the two paths, the server's checks, the guarantee."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.mdp import Spec, Trajectory
from discreet.privacy import ShuffledBatch, SimulatedReport, binomial
from discreet.privatizers import FirstVisitPrivatizer, encoders
from discreet.privatizers.first_visit_bits import FirstVisitEncoder, SimulatedFirstVisitEncoder
from discreet.privatizers.first_visits import SimulatedFirstVisitShuffler, cell_counts

NOISE = ((1, 2, 0.3), (8, 5, 0.4))


def build(spec=None, privacy=None, *, batches=(20, 20, 30), stationary=True, **options):
    return FirstVisitPrivatizer(
        spec or Spec(3, 2, 4), privacy or dc.Shuffle(1.0, 1e-6), batches=batches, stationary=stationary, **options
    )


def trajectories(spec):
    """All trajectories with reward bits."""
    S, A, H = spec.states, spec.actions, spec.horizon
    for path in itertools.product(range(S), repeat=H + 1):
        for played in itertools.product(range(A), repeat=H):
            for bits in itertools.product((0.0, 1.0), repeat=H):
                yield Trajectory(np.array(path), np.array(played), np.array(bits))


def vector(encoder, trajectory, rng):
    report = encoder.encode(trajectory, rng)
    return np.bincount(report.indices, report.ones, encoder.size)


@pytest.mark.parametrize(
    ("spec", "stationary", "cells"),
    [
        (Spec(2, 1, 3), True, (0, 1)),
        (Spec(2, 2, 2), True, (0, 1, 3)),
        (Spec(2, 2, 2), True, (2,)),
        (Spec(3, 1, 2), True, (0, 2)),
        (Spec(2, 1, 3), False, (0, 3, 5)),
        (Spec(2, 2, 2), False, (0, 3, 4, 7)),
    ],
)
def test_a_user_moves_at_most_three_counters_a_cell_by_one(rng, spec, stationary, cells):
    """All pairs of trajectories of a small world, with all reward bits, through the encoder itself.

    Must show: no counter moves by more than one; never more than 3 of a cell's, nor 3J in all, whether both visit or
    one does; both are attained where J cells can all be visited. Would catch a later visit that is counted too.
    """
    encoder = SimulatedFirstVisitEncoder(spec, stationary, cells, NOISE)
    users = np.unique([vector(encoder, t, rng) for t in trajectories(spec)], axis=0).astype(np.int8)
    change = np.abs(users[:, None] - users[None])
    assert change.max() == 1
    each = change.reshape(*change.shape[:2], len(cells), -1).sum(axis=3)
    assert each.max() == 3
    together = each.sum(axis=2).max()
    assert together <= 3 * len(cells)
    steps = {cell // (spec.states * spec.actions) for cell in cells}
    if (stationary and spec.horizon >= 2 * len(cells) - 1) or (not stationary and len(steps) == len(cells)):
        assert together == 3 * len(cells)


def test_the_worst_neighbours_attain_all_three_each():
    """Two users who go through both cells, with other successors and other rewards; and one who visits nothing."""
    spec = Spec(3, 2, 4)
    encoder = SimulatedFirstVisitEncoder(spec, True, (0, 2), NOISE)  # (0, 0) and (1, 0)
    rng = np.random.default_rng(0)
    one = Trajectory(np.array([0, 1, 2, 2, 2]), np.array([0, 0, 1, 1]), np.ones(4))
    other = Trajectory(np.array([1, 0, 0, 2, 2]), np.array([0, 0, 1, 1]), np.zeros(4))
    nobody = Trajectory(np.full(5, 2), np.ones(4, dtype=int), np.ones(4))
    a, b, c = (vector(encoder, t, rng) for t in (one, other, nobody))
    assert np.abs(a - b).sum() == 6
    assert np.abs(a - c).sum() == 6
    assert not c.any()


def adversarial(rng, spec, users):
    """Many trajectories: random ones, constant cells, alternating cells, extreme and real rewards."""
    S, A, H = spec.states, spec.actions, spec.horizon
    states, actions = rng.integers(S, size=(users, H + 1)), rng.integers(A, size=(users, H))
    kind = rng.integers(4, size=users)
    states[kind == 1] = states[kind == 1][:, :1]
    actions[kind == 1] = actions[kind == 1][:, :1]
    turn = np.arange(H + 1) % 2
    states[kind == 2] = np.take_along_axis(states[kind == 2], np.broadcast_to(turn, (np.sum(kind == 2), H + 1)), 1)
    actions[kind == 2] = actions[kind == 2][:, :1]
    rewards = rng.choice([0.0, 1.0, 1e-300, 1 - 2**-53], size=(users, H))
    rewards[kind == 3] = rng.random((np.sum(kind == 3), H))
    return states, actions, rewards


@pytest.mark.parametrize("stationary", [True, False])
def test_a_hundred_thousand_adversarial_users_move_no_more(rng, stationary):
    """Must show: bits are bits, Σ m = v and r ≤ v in every cell, and pairs move at most 3 a cell, which is attained."""
    spec, most, users = Spec(4, 2, 8), 0, 20_000
    for _ in range(5):
        cells = rng.choice(8 * (1 if stationary else 8), size=4, replace=False)
        encoder = SimulatedFirstVisitEncoder(spec, stationary, tuple(cells.tolist()), NOISE)
        indices, ones = encoder.contributions(*adversarial(rng, spec, users), rng.random((users, 4)))
        vectors = np.zeros((users, encoder.size), dtype=np.int8)
        np.add.at(vectors, (np.arange(users)[:, None], indices), ones.astype(np.int8))
        table = vectors.reshape(users, 4, 6)
        assert set(np.unique(vectors)) == {0, 1}
        np.testing.assert_array_equal(table[..., 1:-1].sum(axis=2), table[..., 0])
        assert (table[..., -1] <= table[..., 0]).all()
        assert table.sum(axis=(1, 2)).max() <= 3 * 4  # the square of the norm
        for shift in range(1, 20):
            moved = np.abs(table - np.roll(table, shift, axis=0)).sum(axis=2)
            assert moved.max() <= 3
            most = max(most, int(moved.sum(axis=1).max()))
    assert most == 3 * 4 if stationary else most >= 3 * 3


def literal(encoder, t):
    """First visits by the letter."""
    S, A, found = encoder.spec.states, encoder.spec.actions, np.zeros(encoder.size)
    for j, cell in enumerate(encoder.cells):
        for h in range(encoder.spec.horizon):
            here = (0 if encoder.stationary else h * S * A) + t.states[h] * A + t.actions[h]
            if here == cell:
                found[j * (S + 2)] = 1
                found[j * (S + 2) + 1 + t.states[h + 1]] = 1
                found[j * (S + 2) + S + 1] = t.rewards[h]
                break
    return found


@pytest.mark.parametrize("stationary", [True, False])
def test_only_first_visits_of_asked_cells_are_counted(rng, stationary):
    mdp = dc.envs.make("random", states=4, actions=2, horizon=6)
    total = 8 * (1 if stationary else 6)
    for _ in range(200):
        cells = rng.choice(total, size=rng.integers(1, 9), replace=False)
        encoder = SimulatedFirstVisitEncoder(mdp.spec, stationary, tuple(cells.tolist()), NOISE)
        policy = rng.integers(2, size=(6, 4))
        t = mdp.sample(policy, rng)
        t = Trajectory(t.states, t.actions, (t.rewards > 0.5).astype(float))
        np.testing.assert_array_equal(vector(encoder, t, rng), literal(encoder, t))


def test_real_rewards_are_rounded_with_their_mean(rng):
    encoder = SimulatedFirstVisitEncoder(Spec(2, 1, 2), True, (0,), NOISE)
    t = Trajectory(np.array([0, 0, 0]), np.array([0, 0]), np.array([0.25, 1.0]))
    drawn = np.array([vector(encoder, t, rng)[-1] for _ in range(4000)])
    assert abs(drawn.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


class OneBitShort(SimulatedFirstVisitShuffler):
    """Planted: one noise bit of one user is missing in every counter."""

    def __call__(self, reports, rng):
        batch, encoder = super().__call__(reports, rng), self._privatizer.encoder
        return replace(batch, ones=batch.ones - (rng.random(encoder.size) < 0.5))


def test_paths_have_one_law_at_the_analyser(rng):
    """Must show: chi-square and Kolmogorov–Smirnov at 1e-6, with power against one missing noise bit."""
    spec, users, runs = Spec(2, 1, 1), 3, 3000  # a missing bit has p-values of 1e-22 and less
    privacy = dc.Shuffle(8.0, 1e-2)
    t = Trajectory(np.array([0, 0]), np.array([0]), np.array([0.5]))
    slow, fast = (build(spec, privacy, batches=[users], messages=messages) for messages in (True, False))
    drawn = {}
    for name, privatizer, shuffler in (
        ("messages", slow, slow.shuffler),
        ("fast", fast, fast.shuffler),
        ("short", fast, OneBitShort(fast)),
    ):
        for either in (slow, fast):
            either.encoder = replace(either.encoder, cells=(0, 1))
        batches = ([privatizer.encoder.encode(t, rng) for _ in range(users)] for _ in range(runs))
        drawn[name] = np.array([shuffler(batch, rng).ones for batch in batches])
    kinds = {"noise alone": [2, 4, 5, 6, 7], "and data": [0, 1], "and rewards, rounded at random": [3]}

    def pvalues(one, other, columns):
        samples = [drawn[name][:, columns].ravel() for name in (one, other)]
        top = max(sample.max() for sample in samples)
        table = np.array([np.bincount(np.maximum(sample, 0), minlength=top + 1) for sample in samples])
        table = table[:, table.sum(axis=0) >= 20]
        return stats.ks_2samp(*samples, method="asymp").pvalue, stats.chi2_contingency(table).pvalue

    for what, columns in kinds.items():
        assert min(pvalues("messages", "fast", columns)) > 1e-6, what
        assert max(pvalues("messages", "short", columns)) < 1e-6, what
    noise = drawn["messages"][:, kinds["noise alone"]].ravel()
    assert noise.std() == pytest.approx(fast.fresh_std, rel=0.03)


@pytest.mark.parametrize("stationary", [True, False])
def test_tally_equals_reports_bit_for_bit(stationary):
    mdp = dc.envs.riverswim(states=4, horizon=6)
    privatizer = build(mdp.spec, batches=[50], stationary=stationary)
    privatizer.encoder = replace(privatizer.encoder, cells=(0, 3, 5))
    assert privatizer.simulated
    people, policy = np.random.default_rng(0), mdp.optimal_policy
    states, actions, rewards = mdp.sample_many(policy, people, 50)
    one, two = (np.random.default_rng(1) for _ in range(2))
    tally = privatizer.tally()
    tally.add(states[:20], actions[:20], rewards[:20], one)
    tally.add(states[20:], actions[20:], rewards[20:], one)
    rows = zip(states, actions, rewards, strict=True)
    reports = [privatizer.encoder.encode(Trajectory(*row), two) for row in rows]
    shuffled, tallied = privatizer.shuffler(reports, np.random.default_rng(2)), tally.batch(np.random.default_rng(2))
    np.testing.assert_array_equal(shuffled.ones, tallied.ones)
    assert (shuffled.messages, shuffled.users) == (tallied.messages, tallied.users)
    assert one.random() == two.random()
    assert not build(messages=True).simulated


@pytest.mark.parametrize("messages", [True, False])
def test_counts_are_the_truth_within_their_error(rng, messages):
    mdp = dc.envs.riverswim(states=3, horizon=4)
    privatizer = build(mdp.spec, batches=[40] * 3, messages=messages, failure=1e-4)
    for cells in ((0, 1), (1, 3, 5), (4,)):
        privatizer.encoder = replace(privatizer.encoder, cells=cells)
        trajectories = [mdp.sample(mdp.optimal_policy, rng) for _ in range(40)]
        truth = sum(literal(privatizer.encoder, t) for t in trajectories).reshape(len(cells), 5)
        reports = [privatizer.encoder.encode(t, rng) for t in trajectories]
        privatizer.collect(privatizer.shuffler(reports, rng))
        got = privatizer.counts()
        assert tuple(got.cells) == cells
        for field, exact in (("visits", truth[:, 0]), ("transitions", truth[:, 1:-1])):
            assert np.abs(getattr(got, field) - exact).max() <= got.error
        assert np.abs(got.rewards - truth[:, -1]).max() <= got.error + 40
        assert got.std == pytest.approx(privatizer.std(40, len(cells)))
    assert privatizer.count == 120


@pytest.mark.parametrize("honest", [1.0, 0.5])
@pytest.mark.parametrize("batches", [(2, 4), (50, 500, 3000)])
def test_the_guarantee_is_that_of_the_weakest_batch(batches, honest):
    """Must show: within [0.99, 1] of the budget, recomputed for every size and every number of cells."""
    spec = dc.envs.riverswim().spec
    privatizer = build(spec, dc.Shuffle(1.0, 1e-6, honest_fraction=honest), batches=batches)
    proven = []
    for users, encoder in zip(sorted(set(batches)), privatizer.encoders, strict=True):
        assert [line[0] for line in encoder.noise] == [1, 2, 4, 8, 12]
        for J, m, p in encoder.noise:
            event = binomial.SymmetricEvent(int(honest * users) * m, p, 3 * J)
            proven.append(binomial.epsilon(event, 1e-6))
            assert proven[-1] >= 0.97
    guarantee = privatizer.guarantee
    assert guarantee.epsilon == max(proven)
    assert 0.99 <= guarantee.epsilon <= 1.0
    assert guarantee.notion == "shuffle"
    assert f"{100 * honest:g}%" in guarantee.assumptions[0]


def test_other_noise_has_another_guarantee_also_if_it_was_asked_for_before():
    """Would catch a promise that is kept from before `recalibrate`, and hides half the noise."""
    privatizer = build(dc.envs.riverswim().spec, batches=[50])
    before = privatizer.guarantee.epsilon, privatizer.error
    weaker = [
        replace(encoder, noise=tuple((J, m, p / 4) for J, m, p in encoder.noise)) for encoder in privatizer.encoders
    ]
    privatizer.recalibrate(weaker)
    assert before[0] <= 1.0
    assert privatizer.guarantee.epsilon > 1.2
    assert privatizer.error < before[1]


def test_fewer_cells_need_less_noise():
    """About 3J/μ², instead of 4H²/μ² for pooled counts of all visits."""
    privatizer = build(dc.envs.riverswim().spec, batches=[500])
    mu = dc.privacy.accounting.gaussian_mu(1.0, 1e-6)
    for J in privatizer.cell_counts:
        assert privatizer.std(500, J) ** 2 == pytest.approx(3 * J / mu**2, rel=0.03)
    assert cell_counts(1) == [1]
    assert cell_counts(500) == [1, 2, 4, 8, 16, 32]
    assert cell_counts(12) == [1, 2, 4, 8, 12]


@pytest.mark.parametrize("kind", [FirstVisitEncoder, SimulatedFirstVisitEncoder])
def test_encoders_travel_as_json(kind):
    encoder = kind(Spec(3, 2, 4, np.array([0.5, 0.5, 0.0])), True, (5, 1), NOISE)
    assert encoders.from_json(encoder.to_json(), [kind.kind]) == encoder
    assert (encoder.noise_bits, encoder.probability) == (5, 0.4)
    with pytest.raises(ValueError, match="of the kind"):
        encoders.from_json(encoder.to_json(), ["noisy"])
    if kind is SimulatedFirstVisitEncoder:
        with pytest.raises(ValueError, match="of the kind"):
            encoders.from_json(encoder.to_json())
    document = json.loads(encoder.to_json())
    for key, bad in (
        ("cells", [1, 1]),
        ("cells", []),
        ("cells", [6]),
        ("cells", [-1]),
        ("cells", list(range(6)) * 2),
        ("noise", []),
        ("noise", [[1, 0, 0.3]]),
        ("noise", [[2, 3, 0.0]]),
        ("noise", [[2, 3, 0.7]]),
        ("noise", [[1, 2, 0.3]]),
        ("noise", [[4, 2, 0.3], [2, 2, 0.3]]),
        ("noise", "none"),
    ):
        parameters = {**document["parameters"], key: bad}
        with pytest.raises(ValueError, match=r".") as caught:
            encoders.from_json(json.dumps({**document, "parameters": parameters}), [kind.kind])
        assert caught.type is dc.errors.InvalidInput


def test_bad_data_is_named_and_not_repeated(rng):
    encoder = build().encoder
    bad = Trajectory(np.zeros(5, dtype=int), np.zeros(4, dtype=int), np.full(4, 98765.4))
    with pytest.raises(ValueError, match="rewards") as caught:
        encoder.encode(bad, rng)
    assert "9876" not in str(caught.value)


def test_malformed_batches_are_refused_and_change_nothing(rng):
    privatizer = build(batches=[4, 5])
    t = Trajectory(np.zeros(5, dtype=int), np.zeros(4, dtype=int), np.ones(4))
    good = privatizer.shuffler([privatizer.encoder.encode(t, rng) for _ in range(4)], rng)
    before = privatizer.state()
    for bad, error in (
        (t, TypeError),
        (privatizer.encoder.encode(t, rng), TypeError),
        (replace(good, users=3), ValueError),
        (replace(good, messages=good.messages + 1), ValueError),
        (replace(good, ones=good.ones[:-1]), ValueError),
        (replace(good, ones=good.ones.astype(float)), ValueError),
        (replace(good, ones=good.ones - good.messages), ValueError),
        (replace(good, ones=good.ones + good.messages), ValueError),
    ):
        with pytest.raises(error):
            privatizer.collect(bad)
        assert privatizer.state() == before
    with pytest.raises(ValueError, match="nothing has been released"):
        privatizer.counts()
    privatizer.collect(good)
    with pytest.raises(ValueError, match="calibrated for 5 users, got 4"):
        privatizer.collect(good)
    privatizer.collect(privatizer.shuffler([privatizer.encoder.encode(t, rng) for _ in range(5)], rng))
    with pytest.raises(ValueError, match="holds 9 users"):
        privatizer.collect(good)


def test_a_shuffler_takes_reports_of_its_kind_only(rng):
    fast, slow = build(batches=[2]), build(batches=[2], messages=True)
    t = Trajectory(np.zeros(5, dtype=int), np.zeros(4, dtype=int), np.ones(4))
    for one, other in ((fast, slow), (slow, fast)):
        with pytest.raises(TypeError):
            one.shuffler([other.encoder.encode(t, rng)] * 2, rng)
    assert "not shown" in repr(slow.encoder.encode(t, rng))
    assert isinstance(fast.encoder.encode(t, rng), SimulatedReport)
    assert isinstance(slow.shuffler([slow.encoder.encode(t, rng)] * 2, rng), ShuffledBatch)


@pytest.mark.parametrize("cells", [1, 4])
def test_every_counter_sends_as_many_messages_touched_or_not(rng, cells):
    privatizer = build(messages=True)
    privatizer.encoder = encoder = replace(privatizer.encoder, cells=tuple(range(cells)))
    stays = Trajectory(np.zeros(5, dtype=int), np.zeros(4, dtype=int), np.ones(4))
    leaves = Trajectory(np.full(5, 2), np.ones(4, dtype=int), np.ones(4))
    shapes = {encoder.encode(t, rng).bits.shape for t in (stays, leaves)}
    assert shapes == {(cells * 5, encoder.messages)}
    assert privatizer.messages_per_user(20, cells) == cells * 5 * encoder.messages


def test_refusals():
    for privacy, match in (
        (dc.Shuffle(1.0, 1e-6, release="mr"), "release='mr'"),
        (dc.Shuffle(1.0, 1e-6, calibration="paper"), "paper"),
        (dc.Shuffle(1.0, 1e-6, honest_fraction=0.01), "the smallest batch is 100"),
    ):
        with pytest.raises(ValueError, match=match):
            build(privacy=privacy)
    with pytest.raises(ValueError, match="positive numbers"):
        build(batches=[])
    with pytest.raises(ValueError, match="first-visits"):
        dc.Central(1.0, 1e-6, release="first-visits")
    spec = dc.envs.riverswim(states=3, horizon=4).spec
    for name in ("dp-ucbvi", "pucb", "private-ucb-vi", "private-ucb-po"):
        with pytest.raises(ValueError, match="plans on visit counts, and first visits are not"):
            dc.agents.make(name, spec, episodes=100, privacy=dc.Shuffle(1.0, 1e-6, release="first-visits"))
    with pytest.raises(ValueError, match="plans on visit counts"):
        dc.agents.make("sdp-pe", spec, episodes=1000, privacy=dc.Shuffle(1.0, 1e-6, release="first-visits"))

"""Weighted counts: the length and the distance that their privacy rests on, and what the server refuses."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.errors import CapacityExceeded, InvalidPersonalData
from discreet.mdp import Spec, Trajectory
from discreet.privacy import RawBatch, RawReport
from discreet.privatizers.codec import from_json
from discreet.privatizers.make import make
from discreet.privatizers.weighted.encode import WeightedEncoder
from discreet.privatizers.weighted.layout import SLACK, WeightedLayout
from discreet.runtime.tallies import WeightedTotals
from tests.conftest import random_mdp
from tests.privatizers.parties import at_work, tallied

LAYOUTS = {
    "pooled": {},
    "steps": {"pooled": 0.0, "steps": 1.0},
    "both": {"steps": 0.7},
    "pooled, not centred": {"centre": 0.0, "reward": 0.5, "visit": 0.25},
    "both, off centre": {"steps": 0.4, "centre": 0.3, "visit": 0.75},
    "from the top": {"centre": 1.0, "reward": 1.0, "visit": 0.25},
    "pooled, not clipped": {"clipped": False},
    "steps, not clipped": {"pooled": 0.0, "steps": 0.7, "clipped": False},
}
#: Those that discreet-vi builds: their values add up exactly.
DYADIC = [name for name in LAYOUTS if "off" not in name]


def layout(name, states=2, actions=2, horizon=3):
    return WeightedLayout(Spec(states, actions, horizon), **LAYOUTS[name])


def serve(where, privacy=None, *, capacity=9, horizon=2):
    return at_work(make("weighted", where, privacy or dc.Central(1.0, 1e-6), capacity=capacity, horizon=horizon))


def arbitrary(where, rng, *, wildest=6.0, spend=False):
    """An encoder with any want and ahead; if they ``spend``, nothing is left for after the last step."""
    want = 10 ** rng.uniform(-wildest, min(wildest, 5.9), size=(where.sets, where.cells))
    size = (len(where.blocks), where.spec.horizon, where.spec.states)
    ahead = rng.normal(size=size) * 10 ** rng.uniform(-2, wildest, size=size)
    if spend:
        ahead[:, -1] = -1.0
    return WeightedEncoder(where, want, ahead)


def everybody(where):
    """All trajectories with rewards 0, ½ and 1: states, actions, rewards."""
    spec = where.spec
    H, S, A = spec.horizon, spec.states, spec.actions
    found = itertools.product(
        itertools.product(range(S), repeat=H + 1),
        itertools.product(range(A), repeat=H),
        itertools.product((0.0, 0.5, 1.0), repeat=H),
    )
    states, actions, rewards = zip(*found, strict=True)
    return np.array(states), np.array(actions), np.array(rewards)


def vectors(encoder, people):
    """What each person adds to the sums, (people, size)."""
    indices, values = encoder.contributions(*people)
    found = np.zeros((len(indices), encoder.layout.size))
    np.add.at(found, (np.arange(len(indices))[:, None], indices), values)
    return found


def lengths(where, x):
    """The squared length of each block over its limit, (people, blocks)."""
    found, start = [], 0
    for sets, share in where.blocks:
        size = sets * where.cells * (where.spec.states + 2)
        found.append((x[:, start : start + size] ** 2).sum(axis=1) / where.limit(sets, share))
        start += size
    assert start == where.size
    return np.array(found).T


# --- the proof


@pytest.mark.parametrize("H", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LAYOUTS)
def test_over_all_people_of_tiny_worlds_the_bounds_hold_and_are_attained(rng, name, H):
    """Must show: norm of every block and distance of every pair, whatever is wanted; too large a claim would show too.

    `spend` is what attains them: a person who stays in one cell with extreme rewards until nothing is left.
    """
    where = layout(name, horizon=H)
    people = everybody(where)
    far = where.sensitivity.l2
    for i in range(5 if H < 3 else 3):
        encoder = WeightedEncoder(where) if i == 0 else arbitrary(where, rng, wildest=1 + i, spend=i % 2 == 1)
        x = vectors(encoder, people)
        norms = lengths(where, x)
        assert norms.max() <= 1 + 1e-12
        gram = x @ x.T
        assert gram.min() >= -1e-12  # what the distance rests on
        squares = np.add.outer(np.diag(gram), np.diag(gram))
        gram *= 2
        squares -= gram
        distances = np.sqrt(max(squares.max(), 0.0))
        assert distances <= far
        if i == 0 or (i % 2 == 1 and where.clipped):
            np.testing.assert_allclose(norms.max(axis=0), 1.0, atol=1e-5)
            assert distances == pytest.approx(far, rel=1e-5)


def adversarial(where, rng, n):
    """People who are hard on a norm: some stay, some alternate, some wander; rewards at their ends, or nearly."""
    spec = where.spec
    H, S, A = spec.horizon, spec.states, spec.actions
    states, actions = rng.integers(0, S, size=(n, H + 1)), rng.integers(0, A, size=(n, H))
    rewards = rng.random((n, H))
    kind = rng.integers(0, 4, size=n)
    states[kind == 0] = states[kind == 0, :1]
    actions[kind < 2] = actions[kind < 2, :1]
    turns = np.arange(H + 1) % 2
    states[kind == 1] = np.where(turns, states[kind == 1, :1], states[kind == 1, 1:2])
    ends = rng.integers(0, 5, size=n)
    rewards[ends == 0], rewards[ends == 1] = 1.0, 0.0
    rewards[ends == 2] = turns[:-1]
    rewards[ends == 3] = rng.choice([0.0, 1e-300, 0.5, np.nextafter(0.5, 1), np.nextafter(1, 0), 1.0], size=H)
    return states, actions, rewards


@pytest.mark.parametrize("name", LAYOUTS)
def test_adversarial_people_stay_within_the_bounds(name):
    """Must show: 10⁵ of them through the compiled encoder, over any g and F; pairs at random, and chosen to be far."""
    rng = np.random.default_rng(5)
    worst, far = 0.0, 0.0
    for H, S in ((1, 2), (2, 3), (7, 2), (12, 3), (20, 2)):
        where = layout(name, states=S, horizon=H)
        for part in range(8):
            encoder = WeightedEncoder(where) if part == 0 else arbitrary(where, rng)
            people = adversarial(where, rng, 500)
            states, actions, rewards = people
            others = [
                tuple(field[rng.permutation(500)] for field in people),  # at random: also mixed up
                ((states + 1) % S, actions, rewards),  # never in the same cell
                (states, actions, 1 - rewards),  # the same cells, the other rewards
                (states, 1 - actions, np.ones_like(rewards)),
            ]
            x = vectors(encoder, people)
            worst = max(worst, float(lengths(where, x).max()))
            for pair in others:
                y = vectors(encoder, pair)
                worst = max(worst, float(lengths(where, y).max()))
                distances = np.sqrt(((x - y) ** 2).sum(axis=1))
                far = max(far, float(distances.max() / where.sensitivity.l2))
                assert ((x * y).sum(axis=1) >= -1e-12).all()
    assert worst <= 1 + 1e-12  # far within the slack that the sensitivity has
    assert far <= 1.0
    assert far > 0.99


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_person_and_no_wish_is_too_much(data):
    """Property: any sizes, shares, centre, want, ahead and person."""
    S, A, H = (data.draw(st.integers(1, most)) for most in (3, 3, 6))
    number = st.floats(0, 1, allow_subnormal=False)
    centre, reward = data.draw(number), data.draw(st.floats(0.01, 3))
    shares = data.draw(st.sampled_from([(1.0, 0.0), (0.0, 1.0), (1.0, 0.7), (1e-3, 50.0)]))
    visit = reward * max(centre, 1 - centre) * data.draw(st.floats(1, 3)) + 1e-6
    where = WeightedLayout(Spec(S, A, H), *shares, reward, visit, centre, data.draw(st.booleans()))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    encoder = arbitrary(where, rng)
    states = data.draw(st.lists(st.integers(0, S - 1), min_size=H + 1, max_size=H + 1))
    actions = data.draw(st.lists(st.integers(0, A - 1), min_size=H, max_size=H))
    rewards = data.draw(st.lists(number, min_size=H, max_size=H))
    x = vectors(encoder, (np.array([states]), np.array([actions]), np.array([rewards])))
    assert lengths(where, x).max() <= 1 + 1e-12
    server = serve(where, dc.NonPrivate(), capacity=1)
    report = encoder.encode(Trajectory(np.array(states), np.array(actions), np.array(rewards)))
    server.collect(RawBatch(report.indices[None], report.values[None]))  # and the server agrees
    np.testing.assert_allclose(server.reveal().total, x[0], atol=1e-12)


def test_an_encoder_that_ignores_the_limit_is_found(rng):
    """The tests above have power: weights of 1, as if nobody clipped, are too long for a clipped layout."""
    where = layout("pooled")
    plain = WeightedEncoder(dataclasses.replace(where, clipped=False))
    x = vectors(plain, everybody(where))
    assert lengths(where, x).max() > 2
    distances = np.sqrt(((x[:, None, ::3] - x[None, ::16, ::3]) ** 2).sum(axis=2)).max()
    assert distances > where.sensitivity.l2


def test_the_slack_of_the_server_is_in_the_sensitivity(rng):
    """Two vectors that are as long, and as opposed, as the server lets pass, are no further apart than is accounted."""
    for name in LAYOUTS:
        where = layout(name, horizon=2)
        server = serve(where, dc.NonPrivate())
        cells, S, apart = where.cells, where.spec.states, np.zeros((2, where.size))
        start, rewards = 0, where.centre not in (0, 1)
        for sets, share in where.blocks:
            n = start + sets * cells * S
            for i in (0, 1):  # no transitions at all: the worst inner product that there is
                apart[i, n] = where.visit
                ratio = where.reward * where.spread * (1 + SLACK * (1 - 1e-6))
                apart[i, n + sets * cells] = ratio * (-1) ** i if rewards else 0.0
                block = apart[i, start : n + 2 * sets * cells]
                block *= math.sqrt(where.limit(sets, share) * (1 + SLACK * (1 - 1e-6))) / np.linalg.norm(block)
            start = n + 2 * sets * cells
        server.collect(RawBatch(np.tile(np.arange(where.size), (2, 1)), apart))
        assert np.linalg.norm(apart[0] - apart[1]) <= where.sensitivity.l2


# --- what the weights are


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_compiled_encoder_is_the_readable_one_bit_for_bit(rng, name):
    where = layout(name, states=3, horizon=9)
    for wildest in (1.0, 5.0):
        encoder = arbitrary(where, rng, wildest=wildest)
        states, actions, rewards = adversarial(where, rng, 60)
        compiled = encoder.weigh_many(states, actions, rewards)
        for k in range(60):
            person = Trajectory(states[k], actions[k], rewards[k])
            for one, many in zip(encoder._weigh(person), compiled, strict=True):
                np.testing.assert_array_equal(one, many[:, k])
            report = encoder.encode(person)
            indices, values = encoder.contributions(states[k : k + 1], actions[k : k + 1], rewards[k : k + 1])
            np.testing.assert_array_equal(report.indices, indices[0])
            np.testing.assert_array_equal(report.values, values[0])


class Peeking(WeightedEncoder):
    """Planted: a transition to state 0 counts more."""

    def weigh_many(self, states, actions, rewards):
        w, d = super().weigh_many(states, actions, rewards)
        less = np.where(states[:, 1:] == 0, 1.0, 0.5)
        return w * less, d * less


def predictable(encoder, rng):
    """Whether weights are the same whatever happens from (s', R) of their step on."""
    where = encoder.layout
    people = adversarial(where, rng, 300)
    before = encoder.weigh_many(*people)[0]
    for h in range(where.spec.horizon):
        states, actions, rewards = (field.copy() for field in people)
        other = adversarial(where, rng, 300)
        states[:, h + 1 :], actions[:, h + 1 :], rewards[:, h:] = other[0][:, h + 1 :], other[1][:, h + 1 :], 1.0
        if not np.array_equal(encoder.weigh_many(states, actions, rewards)[0][:, :, : h + 1], before[:, :, : h + 1]):
            return False
    return True


def bias(encoder, mdp, rng, users=40_000):
    """The largest mean of x(c,s') − P(s'|c)·ν(c) and ρ(c) + zν(c) − r(c)·ν(c), in standard errors."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    policy = rng.integers(0, A, size=(H, S))
    people = mdp.sample_many(policy, rng, users)
    parts = encoder.layout.split(np.zeros(encoder.layout.size))
    total, square = [0.0, 0.0], [0.0, 0.0]
    for start in range(0, users, 4000):
        x = vectors(encoder, tuple(field[start : start + 4000] for field in people))
        for row in x:
            (block,) = encoder.layout.split(row)
            off = (
                block.transitions[0] - mdp.transitions[0].reshape(S * A, S) * block.visits[0][:, None],
                block.rewards[0] + (encoder.layout.centre - mdp.rewards[0].ravel()) * block.visits[0],
            )
            for i, value in enumerate(off):
                total[i] = total[i] + value
                square[i] = square[i] + value**2
    assert len(parts) == 1
    return max(float(np.abs(t / np.sqrt(np.maximum(s, 1e-9))).max()) for t, s in zip(total, square, strict=True))


def test_weights_look_at_the_past_only(rng):
    """Must show: a weight that looks at s' is caught, by its dependence and by the bias of what it estimates."""
    for name in LAYOUTS:
        where = layout(name, states=3, horizon=6)
        assert predictable(arbitrary(where, rng, wildest=2.0), rng)
        assert not predictable(Peeking(where), rng)
    mdp = random_mdp(rng, 3, 2, 6, per_step=False, reward_noise="bernoulli")
    where = layout("pooled", states=3, horizon=6)
    focused = arbitrary(where, rng, wildest=1.0)
    assert bias(focused, mdp, rng, 12_000) < 4.5
    assert bias(Peeking(where, focused.want, focused.ahead), mdp, rng, 12_000) > 15


@pytest.mark.parametrize("name", DYADIC)
def test_sums_are_exact_in_any_order(rng, name):
    """What the tally adds up, what the server adds up and any other order have the same bits."""
    where = layout(name, states=3, horizon=9)
    server, again = (serve(where, dc.NonPrivate(), capacity=400) for _ in range(2))
    encoder = arbitrary(where, rng, wildest=2.0)
    people = adversarial(where, rng, 400)
    indices, values = encoder.contributions(*people)
    pieces = [[field[part] for field in people] for part in (slice(150), slice(150, 400))]
    assert tallied(WeightedTotals, again, encoder, pieces, rng) is None
    summed = again.reveal().total
    assert again.count == again.reveal().users == 400
    for _ in range(3):
        order = rng.permutation(indices.size)
        total = np.zeros(where.size)
        for i in order:
            total[indices.ravel()[i]] += values.ravel()[i]
        np.testing.assert_array_equal(total, summed)
    reports = [encoder.encode(Trajectory(*(field[k] for field in people))) for k in range(400)]
    server.collect(server.mechanism.shuffler()(reports), encoder)
    np.testing.assert_array_equal(server.reveal().total, summed)


# --- the server


def good(where):
    """A user's vector, whole."""
    rewards = np.full(where.spec.horizon, 0.0 if where.centre == 1 else 1.0)
    person = Trajectory(np.zeros(len(rewards) + 1, int), np.zeros(len(rewards), int), rewards)
    report, vector = WeightedEncoder(where).encode(person), np.zeros(where.size)
    np.add.at(vector, report.indices, report.values)
    return vector


def refused(where, indices, values, kind=InvalidPersonalData):
    """The server refuses, changes nothing and repeats nothing."""
    server = serve(where)
    before = server.reveal()
    for act in (server.collect, server.observe):
        with pytest.raises(kind) as caught:
            act(RawBatch(indices, values))
    assert server.reveal() is before
    assert (server.count, server.version, before.users, before.reads) == (0, 0, 0, 0)
    assert not before.total.any()
    assert not any(secret in str(caught.value) for secret in ("77", "nan", "inf"))
    return str(caught.value)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_server_refuses_what_the_proof_does_not_cover(name):
    where = layout(name)
    everything, x = np.arange(where.size)[None], good(where)
    cells, S = where.cells * where.blocks[0][0], where.spec.states
    n, r = cells * S, cells * (S + 1)
    server = serve(where)
    server.collect(RawBatch(everything, x[None]))
    for place, change in (
        (0, x * 1.001),  # too long
        (0, np.where(np.arange(where.size) == 0, -1e-6, 0.0)),  # negative transitions
        (n, np.where(np.arange(where.size) == n, -0.1, 0.0)),  # negative visits
        (r, np.where(np.arange(where.size) == r, 0.1, 0.0)),  # rewards without visits
        (r, np.where(np.arange(where.size) == r, -0.1, 0.0)),
        (0, np.full(where.size, 7.77)),
    ):
        assert "squared length at most" in refused(where, everything, change[None]), place
    beyond = np.zeros(where.size)
    beyond[n], beyond[r] = 0.1, 0.1 * where.reward * where.spread / where.visit * 1.0001
    refused(where, everything, beyond[None])
    if where.centre in (0, 1):  # the other side: without this, inner products could be negative
        beyond[r] *= 0.1 if where.centre == 1 else -0.1
        refused(where, everything, beyond[None])
    if len(where.blocks) > 1:  # each block has its own limit: what one saves, another must not spend
        moved = x.copy()
        moved[: cells * (S + 2)] *= 1.01
        moved[cells * (S + 2) :] = 0.0
        refused(where, everything, moved[None])
    crossed = np.concatenate([everything, [[0, 0]]], axis=1)
    refused(where, crossed, np.concatenate([x * 0.5, [1e12, -1e12]])[None])  # cancels, but not in floating point


@pytest.mark.parametrize(
    ("indices", "values"),
    [
        (np.array([[77_777]]), np.array([[1.0]])),
        (np.array([[-77]]), np.array([[1.0]])),
        (np.array([[0]]), np.array([[np.nan]])),
        (np.array([[0]]), np.array([[np.inf]])),
        (np.array([[0]]), np.array([[1.0, 77.0]])),
        (np.array([0]), np.array([1.0])),
        (np.array([[0.5]]), np.array([[1.0]])),
        (np.array([[0]]), np.array([["77"]])),
        (np.array([[0]]), np.array([[77.0]])),
    ],
)
def test_the_server_refuses_what_is_no_vector(indices, values):
    refused(layout("both"), indices, values)


def test_the_server_takes_batches_only():
    where = layout("pooled")
    for privacy in (dc.NonPrivate(), dc.Central(1.0, 1e-6)):
        server = serve(where, privacy)
        for wrong in (RawReport(np.arange(1), np.ones(1)), Trajectory(np.zeros(4, int), np.zeros(3, int), np.ones(3))):
            with pytest.raises(TypeError, match="expected a RawBatch"):
                server.collect(wrong)
        state, total = server.reveal(), np.zeros(where.size)
        for wrong, users in ((np.zeros(3), 1), (total, 0), (total[None], 1), (total + np.nan, 1)):
            with pytest.raises(InvalidPersonalData):
                server.mechanism.sum.added_total(state, wrong, users)
        with pytest.raises(CapacityExceeded):
            server.mechanism.sum.added_total(state, total, 10)
        assert server.count == 0


def test_layouts_without_a_proof_are_refused():
    spec = Spec(2, 2, 3)
    for options, message in (
        ({"visit": 0.49}, "visit must be at least reward times 0.5"),
        ({"centre": 0.3, "visit": 0.69}, "at least reward times 0.7"),
        ({"centre": 0.0, "visit": 0.0}, "visit=0"),
        ({"reward": -1.0}, "reward=-1"),
        ({"centre": 1.5}, "centre=1.5"),
        ({"pooled": 0.0}, "a pooled block or a steps block"),
        ({"pooled": math.nan}, "pooled=nan"),
        ({"clipped": "yes"}, "clipped=.yes"),
    ):
        with pytest.raises(ValueError, match=message):
            WeightedLayout(spec, **options)
    for privacy, message in (
        (dc.Central(1.0), "delta > 0, got delta=0"),
        (dc.Central(1.0, 1e-6, calibration="paper"), "calibration='paper'"),
        (dc.Local(1.0), "trusted server, got Local"),
        (dc.Shuffle(1.0, 1e-6), "trusted server, got Shuffle"),
    ):
        with pytest.raises(ValueError, match=message):
            serve(WeightedLayout(spec), privacy)


def test_an_encoder_refuses_people_of_other_worlds():
    encoder = WeightedEncoder(layout("both"))
    for states, actions, rewards, message in (
        ([0, 0, 0, 7], [0, 0, 0], [0, 0, 0], r"states must lie in \[0, 2\)"),
        ([0, 0, 0, 0], [0, 0, 7], [0, 0, 0], r"actions must lie in \[0, 2\)"),
        ([0, 0, 0, 0], [0, 0, 0], [0, 0, 7.7], r"rewards must lie in \[0, 1\]"),
        ([0, 0, 0, 0], [0, 0, 0], [0, 0, math.nan], r"rewards must lie in \[0, 1\]"),
        ([0, 0, 0], [0, 0], [0, 0], r"states must have shape \(4,\)"),
    ):
        with pytest.raises(InvalidPersonalData, match=message) as caught:
            encoder.encode(Trajectory(np.array(states), np.array(actions), np.array(rewards)))
        assert "7" not in str(caught.value)


# --- on the wire


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_encoder_travels_as_json(rng, name):
    encoder = arbitrary(layout(name, states=3, horizon=4), rng)
    again = from_json(encoder.to_json())
    assert again.layout == encoder.layout
    people = adversarial(encoder.layout, rng, 50)
    for one, two in zip(encoder.contributions(*people), again.contributions(*people), strict=True):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="not noisy, sampled"):  # nothing raw for those who trust nobody
        from_json(encoder.to_json(), ("noisy", "sampled"))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("layout", "visit"), 0.1, "visit must be at least"),
        (("layout", "visit"), "0.5", "not an encoder"),
        (("layout", "clipped"), "yes", "clipped"),
        (("layout", "centre"), None, "centre"),
        (("layout", "states"), -1, "states=-1"),
        (("layout", "surprise"), 1, "not an encoder"),
        (("layout",), [], "not an encoder"),
        (("parameters", "want"), [], "want"),
        (("parameters", "want"), [[1.0]], "shape"),
        (("parameters", "want"), "all", "not an encoder"),
        (("parameters", "want"), [[0.0, 1, 1, 1]], "want must be positive"),
        (("parameters", "want"), [[-1.0, 1, 1, 1]], "want must be positive"),
        (("parameters", "want"), [[math.nan, 1, 1, 1]], "want must be positive"),
        (("parameters", "want"), [[1e7, 1, 1, 1]], "want must be positive"),
        (("parameters", "ahead"), [[[math.inf, 0.0]] * 3], "finite"),
        (("parameters", "ahead"), [[[0.0, 0.0]]], "shape"),
        (("parameters", "ahead"), [[[0.0], [0.0, 1.0]]], "not an encoder"),
        (("parameters",), {}, "not an encoder"),
    ],
)
def test_hostile_json_is_refused(path, value, message):
    """A server that could choose the limit, or wishes that are no numbers, would choose a person's weights."""
    document = json.loads(WeightedEncoder(layout("pooled")).to_json())
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        from_json(json.dumps(document))

"""Sums of feature products: sensitivities, accounts, printed noise, and the bounds on the regulariser."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

import discreet as dc
from discreet.mdp import LinearSpec, Trajectory
from discreet.privacy import NoisyBatch, RawBatch, RawFeatureBatch, accounting
from discreet.privacy.sensitivity import gram, product
from discreet.privatizers.codec import from_json
from discreet.privatizers.features.encode import RawFeatureEncoder
from discreet.privatizers.features.layout import FeatureLayout
from discreet.privatizers.make import make
from discreet.sums.spectral import matrix_bound, vector_bound
from tests import linear
from tests.privatizers.parties import at_work

BUDGET = dc.Central(1.0, 1e-6, sum="tree")


def spec_of(features, horizon):
    """Two states, one action; features of the two states, and value features that are V(s') times the same."""
    features = np.asarray(features, dtype=float)[:, None, :]
    return LinearSpec.dense(np.repeat(features[:, :, None, :], 2, axis=2) / 2, features, horizon=horizon)


def build(spec, privacy=BUDGET, *, reads=16, bound=None, failure=0.05):
    return make(
        "features",
        spec,
        privacy,
        feature_bound=math.sqrt(spec.dimension) * spec.horizon if bound is None else bound,
        capacity=reads,
        batches=[1] * reads,
        failure=failure,
    )


def parts(layout, vector):
    """The vector's stretches, one a sum."""
    found, start = [], 0
    for units, d, matrix in layout._parts:
        width = d * (d + 1) // 2 if matrix else d
        for _ in units:
            found.append(vector[..., start : start + width])
            start += width
    assert start == layout.size
    return found


@pytest.mark.parametrize("H", [1, 2, 3])
@pytest.mark.parametrize("features", [[(1, 0), (0, 1)], [(1, 0), (-1, 0)], [(1, 0), (-0.25, math.sqrt(15 / 16))]])
def test_sensitivities_are_attained_and_never_exceeded(H, features):
    """Must show: all users of a tiny world with the values at their bounds, one sum at a time and all together.

    Would catch d·H² for √2·d·H² (the paper's), a vector's B·C for 2·B·C, off-diagonals without √2, and V ≤ H for H − h.
    """
    layout = FeatureLayout(spec_of(features, H), float(H))
    assert layout.sums == 4 * H - 2
    values = np.repeat(np.arange(H, -1.0, -1.0)[:, None], 2, axis=1)
    values[:, 1] *= 0.5  # the other state is worth less
    largest, together = np.zeros(layout.sums), 0.0
    for worth in (values, 2 * values.mean() + values):  # the second is beyond the bounds, and clipped
        encoder, rows = RawFeatureEncoder(layout, worth), []
        for states in itertools.product(range(2), repeat=H + 1):
            for rewards in itertools.product((0.0, 1.0), repeat=H):
                report = encoder.encode(Trajectory(np.array(states), np.zeros(H, dtype=int), np.array(rewards)))
                rows.append(layout.vectors(report.features[None], report.targets[None])[0])
        users = np.array(rows)  # neighbours carry the same values: these are public
        own = [max(np.linalg.norm(part - row, axis=1).max() for row in part) for part in parts(layout, users)]
        largest = np.maximum(largest, own)
        together = max(together, *(np.linalg.norm(users - row, axis=1).max() for row in users))
    assert max(largest) <= 1 + 1e-9  # in units of the sensitivities
    inner = float(np.dot(*features))
    matrices = [*range(H), *range(2 * H, 3 * H - 1)]
    assert all(largest[i] == pytest.approx(math.sqrt(1 - inner**2), abs=1e-9) for i in matrices)
    if inner == -1:
        assert all(largest[i] == pytest.approx(1) for i in range(layout.sums) if i not in matrices)
    assert together <= layout.sensitivity.l2 == pytest.approx(math.sqrt(25 / 32 * (4 * H - 2)), rel=1e-8)
    if inner == -0.25:
        assert together == pytest.approx(1.25 * math.sqrt(2 * H - 1))  # as far as a pair of features can be apart


def test_distances_of_vectors_are_those_of_matrices(rng):
    """The upper triangle with off-diagonals times √2, in the units of the sums; and back again."""
    mdp = linear.world(rng, d1=4, d2=3)
    layout = FeatureLayout(mdp.spec, 8.0)
    features = rng.normal(size=(2, 4, 7)) / 10
    targets = rng.random((2, 4, 2))
    vectors = layout.vectors(features, targets)
    G_r, u_r, G_p, u_p = layout.split(vectors[0] - vectors[1])
    x, y = features
    for h in range(4):
        expected = np.outer(x[h, :3], x[h, :3]) - np.outer(y[h, :3], y[h, :3])
        np.testing.assert_allclose(G_r[h], expected, atol=1e-12)
        np.testing.assert_allclose(u_r[h], x[h, :3] * targets[0, h, 0] - y[h, :3] * targets[1, h, 0], atol=1e-12)
        own = parts(layout, vectors[0] - vectors[1])
        assert np.linalg.norm(own[h]) * gram(1.0) == pytest.approx(np.linalg.norm(expected), abs=1e-12)
        if h < 3:
            expected = np.outer(x[h, 3:], x[h, 3:]) - np.outer(y[h, 3:], y[h, 3:])
            np.testing.assert_allclose(G_p[h], expected, atol=1e-12)
            unit = gram(8.0 * (3 - h) / 4)
            assert np.linalg.norm(own[8 + h]) * unit == pytest.approx(np.linalg.norm(expected), abs=1e-12)
            assert layout.unit(3)[h] == pytest.approx(product(8.0 * (3 - h) / 4, 3 - h))
    assert not G_p[3].any()
    assert not u_p[3].any()


@pytest.mark.parametrize(
    "privacy", [BUDGET, dc.Central(1.0, 1e-6, sum="factored"), dc.Central(1.0, 1e-6), dc.Local(1.0, 1e-6)]
)
def test_the_account_is_that_of_every_pair_composed(rng, privacy):
    """Must show: within 1e-3 of dp-accounting, which is told σ and sensitivity of each pair of sums separately.

    A matrix and its vector, each in units of its own sensitivity, change by 5/4 together, not by √2.
    """
    mdp = linear.world(rng)
    private = build(mdp.spec, privacy)
    layout, H = private.layout, 4
    B, C = math.sqrt(3) * H, float(H)
    scale = private.encoder.scale if isinstance(privacy, dc.Local) else private.sum.scale
    weight, entries = (1.0, 1) if isinstance(privacy, dc.Local) else private.sum.factorisation.entries
    events = []
    for h in range(H):
        own = [(layout.unit(0)[h], gram(1.0)), (layout.unit(1)[h], product(1.0, 1.0))]
        if h < H - 1:
            b, c = B * (H - h - 1) / H, C * (H - h - 1) / H
            own += [(layout.unit(2)[h], gram(b)), (layout.unit(3)[h], product(b, c))]
        assert all(unit == pytest.approx(sensitivity) for unit, sensitivity in own)
        events += [accounting.gaussian(scale / (weight * 1.25), entries)] * (len(own) // 2)
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    assert len(events) == 7
    found = accountant.compose(dp_accounting.ComposedDpEvent(events)).get_epsilon(1e-6)
    assert private.guarantee.epsilon == pytest.approx(found, abs=1e-3)
    assert 0.99 <= private.guarantee.epsilon <= 1.0
    assert private.guarantee.notion == ("local" if isinstance(privacy, dc.Local) else "joint")


def test_printed_noise_shows_its_real_epsilon_and_ours_is_smaller():
    """Must show: 0.118 for 1 at H = 20, K = 50,000, 16 levels; there ours has 9, 6.3 and 20 times less noise."""
    spec = dc.envs.linear_mixture(5, 10, 2, 20).spec
    printed, tree, factored = (
        build(spec, privacy, reads=50_000)
        for privacy in (
            dc.Central(1.0, 1e-6, calibration="paper"),
            dc.Central(1.0, 1e-6, sum="tree"),
            dc.Central(1.0, 1e-6, sum="factored"),
        )
    )
    assert printed.sum.factorisation.entries[1] == 16
    assert printed.guarantee.epsilon == pytest.approx(0.118, abs=5e-4)
    sigma = 20 / 1.0 * math.sqrt(32 * 16 * math.log(4 * 20 / 1e-6))  # HΔ/ε·√(32m ln(4H/δ)), Δ = d₁H², √d₁H², 1, 1
    for family, delta in ((0, 1.0), (1, 1.0), (2, 5 * 20**2), (3, math.sqrt(5) * 20**2)):
        assert printed.sum.scale * printed.layout.unit(family)[0] == pytest.approx(sigma * delta)
    for family, least in ((2, 9.0), (3, 6.3)):  # the noise of a node at h = 1: Gram matrix, vector
        ours = tree.sum.scale * tree.layout.unit(family)[0]
        theirs = printed.sum.scale * printed.layout.unit(family)[0]
        assert theirs / ours >= least
        reads = printed.sum.worst_std * printed.layout.unit(family)[0]
        assert reads / (factored.sum.worst_std * factored.layout.unit(family)[0]) >= 20
    assert tree.guarantee.epsilon <= 1.0
    assert build(spec, dc.Central(1.0, 1e-6), reads=50_000).name == "factored"


@pytest.mark.parametrize("d", [1, 2, 6])
def test_noise_matrices_and_vectors_stay_below_their_bounds(rng, d):
    """One read: the bound at failure f is exceeded with probability at most f, and one at a tenth of the excess is."""
    i, j = np.triu_indices(d)
    z = rng.normal(size=(20_000, len(i)))
    N = np.zeros((len(z), d, d))
    N[:, i, j] = z / np.where(i == j, 1, math.sqrt(2))
    N[:, j, i] = N[:, i, j]
    norms = np.abs(np.linalg.eigvalsh(N)).max(axis=1)
    lengths = np.linalg.norm(rng.normal(size=(20_000, d)), axis=1)
    one = (np.array([4.0]), np.array([1.0]))  # σ = 2
    assert (2 * norms > matrix_bound(d, one, 0.05)).mean() <= 0.05
    assert (2 * norms > matrix_bound(d, one, 0.05) / 3).mean() > 0.05
    assert (2 * lengths > vector_bound(d, one, 0.05)).mean() == pytest.approx(0.05, abs=0.008)  # exact
    assert matrix_bound(d, (np.array([1.0]), np.array([1000.0])), 0.05) > matrix_bound(
        d, (np.ones(1), np.ones(1)), 0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [BUDGET, dc.Central(1.0, 1e-6, sum="factored"), dc.Local(1.0, 1e-6)])
def test_assumption_2_holds_as_often_as_it_should(privacy):
    """Must show: λ_min ≤ Z ≤ λ_max and ν in all reads and steps of at least 1 − failure of 1,000 runs.

    A third of Σ would not do, nor half of ν: the bounds are no idle ones.
    """
    rng = np.random.default_rng(0)
    mdp = linear.world(rng, horizon=3)
    failed = {1.0: 0, 1 / 3: 0}
    mechanism = build(mdp.spec, privacy, reads=8)
    known, layout = mechanism.error, mechanism.layout
    for run in range(1000):
        private = at_work(mechanism, run)
        bad = dict.fromkeys(failed, False)
        total = np.zeros(layout.size)
        for _ in range(8):
            person = mdp.sample(np.zeros((3, 4), dtype=np.int64), rng)
            report = private.encoder.encode(person, rng)
            raw = RawFeatureEncoder(layout, private.encoder.values).encode(person)
            total += layout.vectors(raw.features[None], raw.targets[None])[0]
            got, exact = private.observe(mechanism.shuffler()([report], rng)), layout.split(total)
            for kind, G, g in (("reward", exact[0], exact[1]), ("value", exact[2], exact[3])):
                shift, least, largest, nu = (
                    getattr(known, f"{kind}_{what}") for what in ("shift", "least", "largest", "nu")
                )
                for h in range(3 if kind == "reward" else 2):
                    N = getattr(got, f"{kind}_gram")[h] - G[h]
                    z = getattr(got, f"{kind}_vector")[h] - g[h]
                    values, vectors = np.linalg.eigh(N + shift[h] * np.eye(len(N)))
                    whitened = math.sqrt(((vectors.T @ z) ** 2 / values).sum()) if values[0] > 0 else math.inf
                    for share in failed:
                        sigma = share * least[h]
                        bad[share] |= bool(
                            values[0] < shift[h] - sigma or values[-1] > shift[h] + sigma or whitened > nu[h]
                        )
                    assert least[h] == shift[h] / 2
                    assert largest[h] == 3 * least[h]
        for share in failed:
            failed[share] += bad[share]
    assert failed[1.0] <= 1000 * 0.05
    assert failed[1 / 3] > 1000 * 0.05


def test_reports_out_of_bounds_are_clipped_at_the_server_too(rng):
    """A report that no encoder of ours would make: it counts as much as the longest honest one, and is not refused."""
    mdp = linear.world(rng)
    private = at_work(build(mdp.spec))
    features, targets = np.full((1, 4, 5), 1e200), np.full((1, 4, 2), -7.0)
    features[0, 1], targets[0, 1, 1] = np.nan, np.inf
    private.collect(RawFeatureBatch(features, targets))
    exact = private.reveal().total
    assert np.isfinite(exact).all()
    assert all(np.linalg.norm(part) <= 1 / math.sqrt(2) + 1e-9 for part in parts(private.mechanism.layout, exact))
    for bad in (RawBatch(np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1))), NoisyBatch(np.zeros((1, 3)))):
        with pytest.raises(TypeError, match="expected a RawFeatureBatch"):
            private.collect(bad)
    with pytest.raises(ValueError, match="features of shape"):
        private.collect(RawFeatureBatch(np.zeros((1, 4, 4)), np.zeros((1, 4, 2))))
    assert private.count == 1


@pytest.mark.parametrize("privacy", [BUDGET, dc.Local(1.0, 1e-6)])
def test_encoders_travel_as_json(rng, privacy):
    mdp = linear.world(rng)
    encoder = dataclasses.replace(build(mdp.spec, privacy).encoder, values=rng.random((5, 4)))
    again = from_json(encoder.to_json())
    person = mdp.sample(np.zeros((4, 4), dtype=np.int64), rng)
    first, second = (one.encode(person, np.random.default_rng(1)) for one in (encoder, again))
    for name in vars(first):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    kinds = ("noisy", "sampled")
    with pytest.raises(ValueError, match="not noisy, sampled"):
        from_json(encoder.to_json(), kinds)
    document = json.loads(encoder.to_json())
    document["layout"]["feature_bound"] = 0
    with pytest.raises(ValueError, match="feature_bound=0"):
        from_json(json.dumps(document))
    document["layout"] = {}
    with pytest.raises(ValueError, match="not an encoder"):
        from_json(json.dumps(document))

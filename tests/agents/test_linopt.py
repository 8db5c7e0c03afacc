"""LinOpt-VI and LinOpt-PO against literal transcriptions, planted sums, and the truth."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.errors import NumericalError
from discreet.privatizers.features.serve import PrivateGrams
from discreet.runtime.fast import short_cut
from tests import linear
from tests.conftest import every_other, plant

NAMES = ("linopt-vi", "linopt-po")
TRUST = {
    "none": dc.NonPrivate(),
    "tree": dc.Central(1.0, 1e-6, sum="tree"),
    "factored": dc.Central(1.0, 1e-6, sum="factored"),
    "paper": dc.Central(1.0, 1e-6, calibration="paper"),
    "local": dc.Local(1.0, 1e-6),
}


def build(name, spec, trust="none", episodes=200, **options):
    return dc.agents.make(
        name, spec, episodes=episodes, **{"privacy": TRUST[trust], "preset": "theory", "seed": 0, **options}
    )


def planted(rng, spec, size, known):
    """Sums as ``size`` users might leave them, with noise of size √size."""

    def gram(d):
        x = rng.normal(size=(spec.horizon, d, d))
        noise = rng.normal(size=(spec.horizon, d, d)) * math.sqrt(size) / 10
        return size * x @ x.transpose(0, 2, 1) + noise @ noise.transpose(0, 2, 1)

    d1, d2, H = spec.dimension, spec.reward_dimension, spec.horizon
    return PrivateGrams(gram(d2), size * rng.normal(size=(H, d2)), gram(d1), size * rng.normal(size=(H, d1)), known)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e7])
@pytest.mark.parametrize("trust", ["none", "factored", "local"])
@pytest.mark.parametrize("name", NAMES)
def test_plans_equal_the_pseudo_code_on_planted_sums(rng, name, trust, size):
    """Must show, to 1e-9: three plans in a row. Would catch a wrong order of evaluation and improvement."""
    mdp = linear.world(rng)
    agent = build(name, mdp.spec, trust, bonus_scale=0.7)
    known = agent.mechanism.error
    beta_p, beta_r = linear.widths(4, 200, 0.05, 3, 2, math.sqrt(3) * 4, known)
    policy = None if name == "linopt-vi" else np.full((4, 4, 3), 1 / 3)
    nothing = PrivateGrams(np.zeros((4, 2, 2)), np.zeros((4, 2)), np.zeros((4, 3, 3)), np.zeros((4, 3)), known)
    Q, V, pi = linear.evaluate(mdp.spec, nothing, 0.7 * beta_p, 0.7 * beta_r, policy)
    for _ in range(3):
        np.testing.assert_allclose(agent.Q, Q, rtol=0, atol=1e-9)
        np.testing.assert_allclose(agent.V, V, rtol=0, atol=1e-9)
        np.testing.assert_allclose(agent.policy, pi, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(agent.encoder.values, agent.V)
        grams = planted(rng, mdp.spec, size, known)
        plant(agent, grams)
        if policy is not None:
            policy = linear.soften(policy, Q, math.sqrt(2 * math.log(3) / (4 * 200 * 4)))  # η = √(2 ln A/(HT))
        Q, V, pi = linear.evaluate(mdp.spec, grams, 0.7 * beta_p, 0.7 * beta_r, policy)


@pytest.mark.parametrize("trust", ["none", "tree", "local"])
@pytest.mark.parametrize("name", NAMES)
def test_runs_equal_the_pseudo_code(rng, name, trust):
    """Must show, to 1e-9: the same draws, the raw sums by the letter, noise taken from the releases."""
    mdp = linear.world(rng, reward_noise="bernoulli")
    spec, H, psi = mdp.spec, 4, linear.dense(mdp.spec)
    agent = build(name, spec, trust, episodes=30, update_every=3)
    known = agent.mechanism.error
    beta_p, beta_r = linear.widths(H, 30, 0.05, 3, 2, math.sqrt(3) * H, known)
    policy = None if name == "linopt-vi" else np.full((H, 4, 3), 1 / 3)
    G = [np.zeros((H, 2, 2)), np.zeros((H, 2)), np.zeros((H, 3, 3)), np.zeros((H, 3))]
    Q, V, pi = linear.evaluate(spec, PrivateGrams(*G, known), beta_p, beta_r, policy)
    releases = []
    agent.on_release = lambda grams, _policy, _count: releases.append(grams)
    people, noise = np.random.default_rng(1), np.random.default_rng(2)
    for _ in range(10):
        np.testing.assert_allclose(agent.policy, pi, rtol=0, atol=1e-9)
        reports = []
        for _ in range(3):
            person = mdp.sample(pi, people)
            reports.append(agent.encoder.encode(person, noise))
            for h in range(H):
                s, a, r, t = person.states[h], person.actions[h], person.rewards[h], person.states[h + 1]
                x, y = spec.reward_features[s, a], sum(psi[s, a, u] * V[h + 1, u] for u in range(4))
                for total, added in zip(G, (np.outer(x, x), x * r, np.outer(y, y), y * V[h + 1, t]), strict=True):
                    total[h] += added
        agent.observe(agent.shuffler(reports, noise))
        got = releases[-1]
        parts = (got.reward_gram, got.reward_vector, got.value_gram, got.value_vector)
        if trust == "none":
            for mine, theirs in zip(G, parts, strict=True):
                np.testing.assert_allclose(theirs, mine, rtol=0, atol=1e-9)
        elif trust == "tree":  # the server's exact totals are those of the letter, and there is noise on top
            for mine, exact in zip(G, agent.mechanism.layout.split(agent.privatizer.reveal().total), strict=True):
                np.testing.assert_allclose(exact, mine, rtol=0, atol=1e-9)
            assert np.abs(got.reward_vector - G[1]).min() > 0
        if policy is not None:
            policy = linear.soften(policy, Q, math.sqrt(2 * math.log(3) / (H * 30 * H)))
        Q, V, pi = linear.evaluate(spec, PrivateGrams(*parts, known), beta_p, beta_r, policy)
        np.testing.assert_allclose(agent.Q, Q, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trust", ["none", "factored"])
def test_theory_is_optimistic_half_a_bonus_below_the_truth(rng, name, trust):
    """Must show: θ̂ planted half a width away from θ, against every value; a whole β makes up for it, a tenth must not.

    For LinOpt-PO the truth is the value of the policy that it evaluates, the uniform one.
    """
    mdp = linear.world(rng, states=5, actions=3)
    spec, H, size = mdp.spec, 4, 1e9
    agent = build(name, spec, trust)
    known = agent.mechanism.error
    beta_p, beta_r = linear.widths(H, 200, 0.05, 3, 2, math.sqrt(3) * H, known)
    uniform = None if name == "linopt-vi" else np.full((H, 5, 3), 1 / 3)
    eye_r, eye_p = np.eye(2), np.eye(3)
    G_r, G_p = np.tile(size * eye_r, (H, 1, 1)), np.tile(size * eye_p, (H, 1, 1))
    L_r, L_p = size + known.reward_shift, size + known.value_shift
    # ‖θ − θ̂‖_Λ = β/2 in the direction −(1, …, 1): every feature here is nonnegative, so every estimate is too low
    low_r = mdp.theta_r - (beta_r / 2 / np.sqrt(L_r))[:, None] * np.ones(2) / math.sqrt(2)
    low_p = mdp.theta_p - (beta_p / 2 / np.sqrt(L_p))[:, None] * np.ones(3) / math.sqrt(3)
    grams = PrivateGrams(G_r, L_r[:, None] * low_r, G_p, L_p[:, None] * low_p, known)
    truth = mdp.rewards + np.einsum("hsat,ht->hsa", mdp.transitions, mdp.optimal_values[1:])
    if uniform is not None:
        truth = mdp.rewards + np.einsum("hsat,ht->hsa", mdp.transitions, mdp.values(uniform)[1:])
    optimistic = {}
    for scale in (1.0, 0.1):
        agent = build(name, spec, trust, bonus_scale=scale)
        plant(agent, grams)
        optimistic[scale] = bool((truth <= agent.Q + 1e-12).all())
        if scale == 1.0:
            assert (agent.Q < H).mean() >= 0.5
            assert (np.arange(H, 0, -1)[:, None, None] > agent.Q).mean() >= 0.5  # nor at the cap of its step
    assert optimistic == {1.0: True, 0.1: False}


def test_a_table_written_as_a_linear_mdp_is_planned_exactly():
    """Must show: infinite data (planted sums) give the exact values to 1e-8; the bonus is what vanishes last."""
    table = dc.envs.random(states=4, actions=2, horizon=5, per_step=True, seed=3)
    mdp = dc.envs.as_linear(table)
    assert mdp.optimal_value == pytest.approx(table.optimal_value, abs=1e-12)
    agent = build("linopt-vi", mdp.spec)
    n, H = 1e24, 5
    grams = PrivateGrams(
        np.tile(n * np.eye(8), (H, 1, 1)),
        n * mdp.theta_r,
        np.tile(n * np.eye(32), (H, 1, 1)),
        n * mdp.theta_p,
        agent.mechanism.error,
    )
    plant(agent, grams)
    np.testing.assert_allclose(agent.V, table.optimal_values, rtol=0, atol=1e-8)
    np.testing.assert_allclose(table.evaluate(agent.policy), table.optimal_value, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("trust", "preset"), every_other(TRUST, dc.agents.PRESETS))
@pytest.mark.parametrize("name", NAMES)
def test_agents_keep_the_protocol(rng, name, trust, preset):
    """Must show: replay, batches, capacity, both paths bit for bit, under every trust model."""
    mdp = linear.world(rng)
    make = functools.partial(build, name, trust=trust, preset=preset, update_every=7)
    testing.check_agent(lambda spec, episodes, seed: make(spec, episodes=episodes, seed=seed), mdp)


@pytest.mark.parametrize("trust", ["none", "tree", "factored"])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_equal_the_protocol_bit_for_bit(name, trust):
    """Stopping anywhere, with the two paths mixed; the first values are at their bound, where users clip."""
    mdp = dc.envs.linear_mixture(3, 8, 2, 4, successors=6)
    whole, parts = (build(name, mdp.spec, trust, episodes=90, update_every=7) for _ in range(2))
    assert short_cut(whole) is not None
    expected = dc.simulate(whole, mdp, seed=0, block=False).gaps
    pieces = [
        dc.simulate(parts, mdp, n, seed=0, block=block).gaps
        for n, block in ((3, True), (30, False), (40, True), (1, True), (16, True))
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)
    for field in ("Q", "V", "policy"):
        np.testing.assert_array_equal(getattr(parts, field), getattr(whole, field))
    np.testing.assert_array_equal(parts.privatizer.last.value_gram, whole.privatizer.last.value_gram)


@pytest.mark.parametrize("trust", TRUST)
@pytest.mark.parametrize("name", NAMES)
def test_saved_agents_go_on_bit_for_bit(rng, tmp_path, name, trust):
    """Within a batch: the encoder's values, the noise, the reports in transit and the regulariser come back."""
    mdp = linear.world(rng)
    saved, whole = (build(name, mdp.spec, trust, episodes=50, update_every=4) for _ in range(2))
    for agent in (saved, whole):
        dc.simulate(agent, mdp, 22, seed=1)
    saved.save(tmp_path / "agent")
    again = dc.agents.load(tmp_path / "agent")
    assert again.guarantee == whole.guarantee
    first, second = (dc.simulate(agent, mdp, 20, seed=1).gaps for agent in (again, whole))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(again.Q, whole.Q)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_needs_no_features(name):
    """A spec without features gets unit vectors; too large a table is refused, naming a way out."""
    mdp = dc.envs.riverswim(states=3, horizon=4)
    agent = build(name, mdp.spec, episodes=20)
    assert agent.features.dimension == 18
    assert dc.simulate(agent, mdp, seed=0).gaps.shape == (20,)
    with pytest.raises(ValueError, match=r"S²A = 20000 features.*dp-ucbvi"):
        build(name, dc.mdp.Spec(100, 2, 5))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("trust", ["tree", "local"])
def test_small_counts_and_large_noise_never_break_a_plan(rng, name, trust):
    """Must show: Gram matrices that are far from positive definite; the shift repairs every one."""
    mdp = linear.world(rng)
    privacy = dataclasses.replace(TRUST[trust], epsilon=0.01)
    agent = build(name, mdp.spec, privacy=privacy, episodes=40)
    negative = []
    agent.on_release = lambda grams, _policy, _count: negative.append(np.linalg.eigvalsh(grams.value_gram[0])[0] < 0)
    dc.simulate(agent, mdp, seed=0)
    assert sum(negative) > 20
    assert np.isfinite(agent.Q).all()
    assert np.isfinite(agent.policy).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["reward_gram", "value_gram"])
@pytest.mark.parametrize("kind", ["negative", "singular", "nan", "infinite"])
def test_a_planted_violation_is_a_numerical_error(rng, name, family, kind):
    """Must show: noise beyond the shift is said, and nothing changes."""
    mdp = linear.world(rng)
    agent = build(name, mdp.spec)
    good = planted(rng, mdp.spec, 10.0, agent.mechanism.error)
    bad = getattr(good, family).copy()
    bad[1] = np.diag(
        np.full(len(bad[1]), {"negative": -5.0, "singular": -1.0, "nan": np.nan, "infinite": np.inf}[kind])
    )
    before = agent.Q.copy(), agent.V.copy(), agent.policy
    with pytest.raises(NumericalError, match=f"{family.split('_')[0]} features at step 2 is not positive definite"):
        agent.planned(agent.learned, dataclasses.replace(good, **{family: bad}))
    for old, new in zip(before, (agent.Q, agent.V, agent.policy), strict=True):
        np.testing.assert_array_equal(old, new)
    learned = agent.learned
    for _ in range(2):  # the release is out: its plan is asked for again, and no other is shown in its place
        with pytest.raises(NumericalError):
            plant(agent, dataclasses.replace(good, **{family: bad}))
    assert agent._mind.state is learned


@pytest.mark.parametrize("name", NAMES)
def test_shuffle_and_impossible_wishes_are_refused_with_a_reason(rng, name):
    mdp = linear.world(rng)
    for privacy, message in (
        (dc.Shuffle(1.0, 1e-6), "sends bits, and sums of feature products are real numbers"),
        (dc.Central(1.0), "need delta > 0, got delta=0.0"),
        (dc.Local(1.0), "need delta > 0, got delta=0.0"),
        (dc.Local(1.0, 1e-6, sum="laplace"), "sum='gaussian' only, got sum='laplace'"),
        (dc.Local(1.0, 1e-6, calibration="paper"), "printed for the central Gaussian sum='tree'"),
        (dc.Central(1.0, 1e-6, sum="factored", calibration="paper"), "sum='tree', got sum='factored'"),
        (dc.Central(1.0, 1e-6, release="mr"), "release='mr'"),
        (None, "needs a trust model"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            build(name, mdp.spec, privacy=privacy)
        assert "\n" not in str(caught.value)
    for options, message in (
        ({"feature_bound": 0}, "feature_bound"),
        ({"feature_bound": math.nan}, "feature_bound=nan"),
        ({"stationary": True}, "stationary=True"),
    ):
        with pytest.raises(ValueError, match=message):
            build(name, mdp.spec, **options)


def test_a_feature_bound_is_checked_when_planning_and_clipped_at_the_user(rng):
    """Must show: the planner says that it is too small; the user's report is clipped and never refused."""
    mdp = linear.world(rng)
    assert mdp.spec.feature_norm <= math.sqrt(3)
    with pytest.raises(ValueError, match="longer than feature_bound=2 allows"):
        build("linopt-vi", mdp.spec, feature_bound=2.0)
    agent = build(
        "linopt-vi", mdp.spec, "tree", feature_bound=mdp.spec.feature_norm * 4
    )  # the smallest that always does
    long = dataclasses.replace(agent.encoder, values=np.full((5, 4), 1e6))
    report = long.encode(mdp.sample(agent.policy, rng))
    layout = agent.mechanism.layout
    norms = np.linalg.norm(report.features[:3, 2:], axis=1)
    np.testing.assert_allclose(norms, layout.feature_bounds, rtol=1e-12)
    np.testing.assert_allclose(report.targets[:3, 1], [3.0, 2.0, 1.0])
    agent.observe(agent.shuffler([report]))
    assert agent.count == 1


def test_auto_takes_the_features_where_there_are_some(rng):
    spec = linear.world(rng).spec
    for privacy, name in (
        (dc.NonPrivate(), "linopt-vi"),
        (dc.Central(1.0, 1e-6), "linopt-vi"),
        (dc.Local(1.0, 1e-6), "linopt-vi"),
        (dc.Central(1.0), "dp-ucbvi"),
        (dc.Shuffle(1.0, 1e-6), "dp-ucbvi"),
    ):
        assert dc.agents.make("auto", spec, episodes=500, privacy=privacy, update_every=100).name == name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_without_privacy_they_learn(name):
    """Must show: d=5, S=50, A=4, H=5: the second thousand episodes cost less than 0.7 of the first, 5 seeds."""
    for seed in range(5):
        mdp = dc.envs.linear_mixture(5, 50, 4, 5, seed=seed)
        agent = dc.agents.make(name, mdp.spec, episodes=2000, privacy=dc.NonPrivate(), seed=seed)
        regret = dc.simulate(agent, mdp, seed=seed).regret
        assert regret[-1] - regret[999] < 0.7 * regret[999]

"""discreet-vi under local privacy: the planner against a readable one, both paths, replay, save, and that it learns."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.agents._kernels import discreet_local as kernels
from discreet.agents._kernels import sparse
from discreet.agents.discreet.local import LocalLearner, Settings, sizes
from discreet.errors import CheckFailed, InvalidInput
from discreet.noise import Role
from discreet.privatizers.questions.serve import Answers
from tests.conftest import random_mdp


def build(mdp, episodes=2000, *, epsilon=1.0, stationary=True, seed=0, **options):
    return dc.agents.make(
        "discreet-vi",
        mdp.spec,
        episodes=episodes,
        privacy=dc.Local(epsilon),
        stationary=stationary,
        seed=seed,
        **options,
    )


def small(**options):
    return dc.envs.riverswim(states=3, horizon=5, **options)


# the compiled planner


def model(rng, steps, S=3, A=2):
    P = rng.dirichlet(np.full(S, 0.5), size=(steps, S, A))
    return P, rng.random((steps, S, A)) / 2, rng.random((steps, S, A)) < 0.7


@pytest.mark.parametrize("steps", [1, 4])
def test_the_plan_is_backward_induction_with_the_documented_bonus(steps, rng):
    S, A, H = 3, 2, 4
    for _ in range(20):
        P, r, known = model(rng, steps)
        spread, reward = rng.random((2, steps, S, A))
        order = rng.permuted(np.tile(np.arange(A), (S, 1)), axis=1)
        V, policy = np.empty((H + 1, S)), np.empty((H, S), dtype=np.int64)
        kernels.optimise(P, r, known, spread, reward, 1.0, order, V, policy)
        W = np.zeros(S)
        for h in reversed(range(H)):
            t = h if steps > 1 else 0
            mean = P[t] @ W
            norm = np.sqrt(((W - mean[..., None]) ** 2).sum(axis=-1))
            Q = np.minimum(r[t] + mean + spread[t] * norm + reward[t], H - h)
            Q = np.where(known[t], Q, H - h)
            for s in range(S):
                best = max(order[s], key=lambda a: Q[s, a])
                assert Q[s, policy[h, s]] == pytest.approx(Q[s, best], abs=1e-12)
                tied = [a for a in order[s] if Q[s, a] == H - h]
                if tied:
                    assert policy[h, s] == tied[0]  # the order breaks ties
            W = Q.max(axis=1)
            np.testing.assert_allclose(V[h], W, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 4])
def test_visits_and_first_visits_are_those_of_simulated_people(steps):
    """People who stop at unknown cells, one by one: means within five standard errors."""
    rng = np.random.default_rng(5)
    S, A, H, n = 3, 2, 4, 5000
    P, _, known = model(rng, steps)
    policy, initial = rng.integers(A, size=(H, S)), rng.dirichlet(np.ones(S))
    V = rng.random((H + 1, S))
    visits, worth, chances = (np.empty((steps, S, A)) for _ in range(3))
    kernels.visit(P, known, initial, policy, V, np.empty((2, S)), visits, worth)
    kernels.first(P, known, initial, policy, visits, np.empty((2, S)), chances)
    seen = np.zeros((n, steps, S, A))
    for i in range(n):
        s = rng.choice(S, p=initial)
        for h in range(H):
            t, a = (h if steps > 1 else 0), policy[h, s]
            seen[i, t, s, a] += 1
            if not known[t, s, a]:
                break
            s = rng.choice(S, p=P[t, s, a])
    for exact, people in ((visits, seen), (chances, seen > 0)):
        error = people.std(axis=0) / math.sqrt(n)
        assert (np.abs(people.mean(axis=0) - exact) <= 5 * error + 1e-12).all()
    assert (worth[~known] == 0).all()


def test_shrunken_counts_are_posterior_means(rng):
    """Against numerical integration of the prior and the likelihood."""
    for absent in (0.0, 0.5, 0.95):
        counts = rng.normal(0, 3, size=(6, 4)) + np.array([0, 2, 8, 15])
        total, std = rng.uniform(10, 20, size=6), rng.uniform(0.5, 4, size=6)
        out = np.empty_like(counts)
        sparse.shrink(counts, total, std, absent, out)
        for c in range(6):
            x = np.linspace(0, total[c], 200_001)
            for i in range(4):
                likelihood = np.exp(-0.5 * ((counts[c, i] - x) / std[c]) ** 2)
                slab = (1 - absent) * np.trapezoid(likelihood, x) / total[c]
                mean = (1 - absent) * np.trapezoid(x * likelihood, x) / total[c]
                assert out[c, i] == pytest.approx(mean / (slab + absent * likelihood[0]), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("far", [1e2, 1e6, 1e300])
def test_shrunken_counts_stay_in_bounds(far):
    """However far the noise goes, nothing is lost to rounding."""
    counts, out = np.array([[-far, far, 5.0]]), np.empty((1, 3))
    sparse.shrink(counts, np.array([10.0]), np.array([1.0]), 0.9, out)
    assert (out >= 0).all()
    assert (out <= 10).all()
    assert out[0, 0] < 0.1
    assert out[0, 1] == pytest.approx(10, rel=0.1)


# what it keeps


def test_answers_are_weighted_by_first_visits(rng):
    """m, R and v by the documented formulas, batch after batch."""
    mdp = small()
    agent = build(mdp)
    learner, known = agent.learner, agent.learned
    m, v, rng_agent = 0.0, 0.0, np.random.default_rng(0)
    for _ in range(5):
        x = known.weights.copy()
        assert (x >= 0.02).all()
        asked = rng.integers(50, size=(2, 1, 3, 2))
        new = Answers(asked, rng.normal(size=(1, 3, 2, 3)), rng.normal(size=(1, 3, 2, 2)), 0.0)
        before = dataclasses.replace(known, **{name: array.copy() for name, array in vars(known).items()})
        after, _ = learner.plan(known, new, 100, 100, rng_agent)
        for name, array in vars(before).items():  # pure: what was known stays as it was
            np.testing.assert_array_equal(getattr(known, name), array)
        known = after
        m, v = m + x[..., None] * new.transitions, v + x**2 * asked[0] * learner._variance[0]
        np.testing.assert_allclose(known.m, m)
        np.testing.assert_allclose(known.v[0], v)


def test_known_cells_stay_known_and_unknown_ones_are_asked_about():
    mdp = small()
    agent, rng = build(mdp), np.random.default_rng(0)
    learner, known = agent.learner, agent.learned
    s, a = 0, int(known.order[0, 0])
    sure = Answers(np.full((2, 1, 3, 2), 100), np.zeros((1, 3, 2, 3)), np.zeros((1, 3, 2, 2)), 0.0)
    sure.transitions[0, s, a, 1], sure.rewards[0, s, a, 0] = 1e4, 1e4
    known, proposal = learner.plan(known, sure, 100, 100, rng)
    assert np.argwhere(known.known).tolist() == [[0, s, a]]
    asked = proposal.carried["probabilities"]
    assert asked.sum() == pytest.approx(1.0)
    assert asked[:, ~known.known].sum() > asked[:, known.known].sum()  # H for an unknown cell is worth most
    wild = Answers(np.full((2, 1, 3, 2), 100), np.full((1, 3, 2, 3), -1e4), np.full((1, 3, 2, 2), -1e4), 0.0)
    known, _ = learner.plan(known, wild, 200, 100, rng)
    assert known.known[0, s, a]
    assert np.isfinite(learner.plan(known, wild, 300, 100, rng)[1].carried["probabilities"]).all()


@pytest.mark.parametrize("episodes", [1, 19, 20, 150, 3000, 1_000_000])
def test_batches_are_a_public_rule(episodes):
    found = sizes(episodes)
    assert sum(found) <= episodes
    assert all(size <= 2000 for size in found)
    assert list(found) == sorted(found)
    if episodes == 1_000_000:
        assert found[0] == 150
        assert found[-1] == 2000


# the protocol


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_it_keeps_the_contract(stationary, epsilon):
    testing.check_agent(
        lambda spec, episodes, seed: dc.agents.make(
            "discreet-vi", spec, episodes=episodes, privacy=dc.Local(epsilon), stationary=stationary, seed=seed
        ),
        random_mdp(np.random.default_rng(0), 3, 2, 3, reward_noise="bernoulli"),
    )


def test_one_state_one_action_one_step():
    """The smallest world there is, and fewer users than a batch."""
    mdp = dc.TabularMDP(np.ones((1, 1, 1, 1)), np.full((1, 1, 1), 0.5), horizon=1)
    assert (dc.simulate(build(mdp, 500), mdp, seed=0).gaps == 0).all()
    assert len(dc.simulate(build(mdp, 1), mdp, seed=0).gaps) == 1


@pytest.mark.parametrize("options", [{}, {"stationary": False}, {"update_every": 70}, {"update_every": "geometric"}])
def test_both_paths_are_the_same_bit_for_bit(options):
    """The tally in simulation against person by person; also from the middle of a batch on."""
    mdp = small(reward_noise="bernoulli")
    fast, slow, mixed = (build(mdp, 1500, **options) for _ in range(3))
    gaps = dc.simulate(fast, mdp, seed=1).gaps
    np.testing.assert_array_equal(gaps, dc.simulate(slow, mdp, seed=1, block=False).gaps)
    parts = [dc.simulate(mixed, mdp, n, seed=1).gaps for n in (101, 399, 1000)]
    np.testing.assert_array_equal(gaps, np.concatenate(parts))
    for name, array in vars(fast.learned).items():
        np.testing.assert_array_equal(array, getattr(slow.learned, name))
        np.testing.assert_array_equal(array, getattr(mixed.learned, name))


@pytest.mark.parametrize("block", [False, True])
def test_every_policy_and_question_is_rebuilt_from_what_was_released(block):
    mdp = small()
    agent, again = build(mdp, 1500), build(mdp, 1500)
    record = testing.record(agent)
    dc.simulate(agent, mdp, seed=1, block=block)
    testing.replay(record, again)
    assert len(record.rounds) > 10
    np.testing.assert_array_equal(again.encoder.probabilities, agent.encoder.probabilities)


def test_a_learner_that_looks_at_the_privatizer_is_caught(monkeypatch):
    """Planted: it prefers an action by how many users the privatizer has seen ask for it."""
    mdp, real = small(), LocalLearner.plan

    agents = []

    def peeking(self, *given):
        known, proposal = real(self, *given)
        seen = sum(int(agent.privatizer.reveal().supports.sum()) for agent in agents if agent.learner is self)
        proposal.policies[0, 0] = (seen + proposal.policies[0, 0]) % 2
        return known, proposal

    monkeypatch.setattr(LocalLearner, "plan", peeking)
    agent, again = build(mdp, 500), build(mdp, 500)
    agents += [agent, again]
    record = testing.record(agent)
    dc.simulate(agent, mdp, seed=1)
    with pytest.raises(CheckFailed, match="not a function of what was released"):
        testing.replay(record, again)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("first", [75, 101, 600])
def test_it_is_saved_and_goes_on_bit_for_bit(first, stationary, tmp_path):
    """At the end of a batch, and within one: reports wait with their questions."""
    mdp = small()
    whole, parts = (build(mdp, 1500, stationary=stationary) for _ in range(2))
    dc.simulate(whole, mdp, first, seed=1)
    dc.simulate(parts, mdp, first, seed=1)
    parts.save(tmp_path / "agent")
    with pytest.raises(InvalidInput, match="was saved"):
        parts.encoder  # noqa: B018
    parts = dc.agents.load(tmp_path / "agent")
    assert len(parts.shuffler.reports) == len(whole.shuffler.reports)
    assert parts.guarantee == whole.guarantee
    np.testing.assert_array_equal(parts.encoder.probabilities, whole.encoder.probabilities)
    np.testing.assert_array_equal(dc.simulate(parts, mdp, seed=1).gaps, dc.simulate(whole, mdp, seed=1).gaps)


def test_what_was_calibrated_travels(tmp_path, monkeypatch):
    """The guarantee is about the randomisers that users had."""
    mdp = small()
    agent = build(mdp, 1500)
    dc.simulate(agent, mdp, 300, seed=1)
    before = agent.guarantee.epsilon
    agent.save(tmp_path / "agent")
    hidden = agent.mechanism.encoder.randomisers
    monkeypatch.setattr(
        "discreet.privatizers.questions.serve.hiding",
        lambda *_: tuple(dataclasses.replace(found, epsilon=0.5) for found in hidden),
    )
    assert build(mdp, 1500).guarantee.epsilon != before
    assert dc.agents.load(tmp_path / "agent").guarantee.epsilon == before


def test_every_user_takes_as_many_draws():
    """Whatever they are asked and whatever they did: what one says tells nothing of another's noise."""
    mdp = small()
    agent = build(mdp, 1000)
    dc.simulate(agent, mdp, seed=1)
    fresh = build(mdp, 1000).sources[Role.ENCODER]
    fresh.random((agent.count, agent.encoder.draws))
    assert fresh.random(1) == agent.sources[Role.ENCODER].random(1)


def test_the_guarantee_is_the_encoders():
    agent = build(small(), 100, epsilon=0.7)
    assert agent.guarantee.notion == "local"
    assert agent.guarantee.delta == 0
    assert 0.99 * 0.7 <= agent.guarantee.epsilon <= 0.7
    assert agent.resolved["sum"] == "questions"


# learning


def test_it_learns_in_a_small_world():
    """Twenty thousand users at ε = 3 are enough to do much better than never learning."""
    mdp = small()
    regret = [dc.simulate(build(mdp, 20_000, epsilon=3.0, seed=i), mdp, seed=i).gaps for i in range(3)]
    worst = mdp.optimal_value
    assert np.mean(regret) < 0.3 * worst
    assert np.mean([gaps[-2000:].mean() for gaps in regret]) < 0.05 * worst


@pytest.mark.slow
def test_a_million_users_at_a_proven_epsilon_of_one():
    """Must show: mean regret at most 100,000, and no run above 1,000,000; the papers' Laplace costs two million."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    regret = []
    for i in range(10):
        agent = build(mdp, 1_000_000, seed=[77, i])
        assert agent.guarantee.epsilon <= 1.0
        regret.append(dc.simulate(agent, mdp, seed=[77, i]).regret[-1])
    assert np.mean(regret) < 40_000
    assert max(regret) < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("without", [{"absent": (0.0, 0.0)}, {"directed": False}])
def test_the_ingredients_matter(without, monkeypatch):
    """Would catch an ingredient that is switched off by mistake."""
    mdp, regret = dc.envs.riverswim(states=6, horizon=20), []
    for settings in (Settings(), Settings(**without)):
        monkeypatch.setattr(LocalLearner, "settings", settings)
        runs = [dc.simulate(build(mdp, 100_000, seed=[5, i]), mdp, seed=[5, i]).regret[-1] for i in range(5)]
        regret.append(np.mean(runs))
    assert regret[1] > 1.5 * regret[0]

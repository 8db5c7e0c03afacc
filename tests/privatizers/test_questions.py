"""One question a user: exact losses, unbiased first visits, and the fast path that equals the protocol."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

import discreet as dc
from discreet.mdp import Spec, Trajectory
from discreet.privacy import AnswerBatch, SampledBatch
from discreet.privatizers import NoisyLocal, QuestionLocal, encoders
from discreet.privatizers.asking import QuestionEncoder
from discreet.privatizers.randomisers import RANDOMISERS, choose
from tests.conftest import TRUST, make_agent, random_mdp

HIDING = tuple(RANDOMISERS)


def build(spec, epsilon=1.0, *, stationary=True, capacity=100_000, probabilities=None, **options):
    privatizer = QuestionLocal(
        spec, dc.Local(epsilon, sum="questions", **options), capacity=capacity, stationary=stationary, failure=0.05
    )
    if probabilities is not None:
        privatizer.encoder = dataclasses.replace(privatizer.encoder, probabilities=probabilities)
    return privatizer


def about(privatizer, kind, *cell):
    """Probabilities that ask one question only."""
    probabilities = np.zeros_like(privatizer.encoder.probabilities)
    probabilities[(kind, *cell)] = 1.0
    return dataclasses.replace(privatizer.encoder, probabilities=probabilities)


def trajectories(spec, rewards=(0.0, 0.5, 1.0)):
    """All that can happen to a person."""
    H = spec.horizon
    for states in itertools.product(range(spec.states), repeat=H + 1):
        for actions in itertools.product(range(spec.actions), repeat=H):
            for paid in itertools.product(rewards, repeat=H):
                yield Trajectory(np.array(states), np.array(actions), np.array(paid))


def law(encoder, trajectory):
    """The exact probability of every report: question by question, answer by answer, reward bit by reward bit."""
    found = []
    for question, chance in enumerate(encoder.probabilities.ravel()):
        hidden = encoder.randomisers[question // encoder.layout.cells]
        first = next(iter(_visits(encoder, trajectory, question)), None)
        bits = ((0.0, 1.0),)  # the draw that rounds a reward, and its probability
        if first is not None and question >= encoder.layout.cells:
            r = trajectory.rewards[first]
            bits = tuple((draw, weight) for draw, weight in ((0.0, r), (0.9999, 1 - r)) if weight > 0)
        for report in itertools.product((False, True), repeat=hidden.size):
            likelihoods = (
                weight * hidden.likelihood(np.array(report), encoder.answer(trajectory, question, draw))
                for draw, weight in bits
            )
            found.append(chance * sum(likelihoods))
    return np.array(found)


def _visits(encoder, trajectory, question):
    """Steps at which the cell of a question is visited, by reading the trajectory step by step."""
    spec = encoder.layout.spec
    cell = question % encoder.layout.cells
    for h in range(spec.horizon):
        step = 0 if encoder.layout.stationary else h
        if (step * spec.states + trajectory.states[h]) * spec.actions + trajectory.actions[h] == cell:
            yield h


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("stationary", [False, True])
def test_the_exact_loss_by_listing_everything(stationary, hiding, rng):
    """Every pair of people, every question, every report: the loss is at most ε and is attained."""
    spec = Spec(2, 2, 2)
    shape = (2, 1 if stationary else 2, 2, 2)
    for probabilities in (
        np.full(shape, 1 / math.prod(shape)),
        rng.dirichlet(np.ones(math.prod(shape))).reshape(shape),
    ):
        encoder = build(spec, stationary=stationary, probabilities=probabilities, randomiser=hiding).encoder
        laws = np.array([law(encoder, person) for person in trajectories(spec)])
        np.testing.assert_allclose(laws.sum(axis=1), 1.0, atol=1e-9)
        possible = laws[:, laws.max(axis=0) > 0]
        loss = np.log(possible.max(axis=0) / possible.min(axis=0)).max()
        assert loss <= encoder.loss <= 1.0
        assert loss == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_reports_from_given_draws_have_their_law(hiding, size):
    """Would catch selection sampling that is not uniform, and a draw that serves two decisions."""
    randomiser, n = choose(hiding, 1.0, size), 40_000
    rng = np.random.default_rng(1)
    for value in {0, size - 1}:
        draws = rng.random((n, size))
        seen = {}
        for row in draws:
            key = tuple(randomiser.decide(value, row).tolist())
            seen[key] = seen.get(key, 0) + 1
        for report in itertools.product((False, True), repeat=size):
            expected = n * randomiser.likelihood(np.array(report), value)
            assert abs(seen.get(report, 0) - expected) < 5.5 * math.sqrt(expected) + 1e-9


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_loss_of_the_code_itself(hiding, size):
    """Independent of the formulas: all draws at which `decide` can change its mind cut the cube into boxes."""
    randomiser = choose(hiding, 1.0, size)
    cuts = {0.0, 1.0, *randomiser.probabilities, *(i / n for n in range(1, size + 1) for i in range(n))}
    edges = np.array(sorted(cuts))
    middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    laws = []
    for value in range(size):
        law = dict.fromkeys(itertools.product((False, True), repeat=size), 0.0)
        for box in itertools.product(range(len(lengths)), repeat=size):
            report = randomiser.decide(value, middles[list(box)])
            law[tuple(report.tolist())] += lengths[list(box)].prod()
        laws.append(list(law.values()))
    laws = np.array(laws)
    possible = laws[:, laws.max(axis=0) > 0]
    loss = np.log(possible.max(axis=0) / possible.min(axis=0)).max()
    assert loss == pytest.approx(randomiser.loss, abs=1e-9)
    assert loss <= 1.0 + 1e-9


@pytest.mark.parametrize("hiding", HIDING)
def test_many_users_would_show_a_wrong_debiasing_factor(hiding):
    """A z-test at 1e-6 accepts the estimates, and rejects them with a factor p − q that is 2 % off."""
    n, rng = 400_000, np.random.default_rng(0)
    spec = Spec(4, 1, 2)
    for kind, truth in ((0, [0.0, 0.0, 1.0, 0.0]), (1, [0.0, 1.0])):
        privatizer = build(spec, 3.0, capacity=n, randomiser=hiding)
        privatizer.encoder = about(privatizer, kind, 0, 1, 0)
        tally = privatizer.tally()
        people = ([1, 2, 2], [0, 0], [1.0, 1.0])
        tally.add(*(np.tile(np.array(part), (n, 1)) for part in people), rng)
        privatizer.collect(tally.batch())
        counts = privatizer.counts()
        found = (counts.rewards if kind else counts.transitions)[0, 1, 0]
        hidden = privatizer.encoder.randomisers[kind]
        for estimate, holds in zip(found, truth, strict=True):
            error = math.sqrt(n * hidden.variance(1, holds=bool(holds)))
            for factor in (1.0, 1.02, 0.98) if holds else (1.0,):
                assert bool(abs(estimate / factor - n * holds) < 4.9 * error) is (factor == 1.0)


def test_an_answer_decides_nothing_but_itself():
    """The same draws, another person: the question is the same, and so is the number of draws."""
    spec = Spec(3, 2, 4)
    encoder = build(spec).encoder
    one = Trajectory(np.zeros(5, dtype=np.int64), np.zeros(4, dtype=np.int64), np.zeros(4))
    two = Trajectory(np.full(5, 2), np.ones(4, dtype=np.int64), np.ones(4))
    for seed in range(200):
        streams = [np.random.default_rng(seed) for _ in range(2)]
        reports = [encoder.encode(person, stream) for person, stream in zip((one, two), streams, strict=True)]
        assert reports[0].question == reports[1].question
        assert streams[0].bit_generator.state == streams[1].bit_generator.state


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0, 30.0])
@pytest.mark.parametrize("states", [2, 6, 100])
def test_the_proven_epsilon_is_the_budgets(epsilon, states):
    guarantee = build(Spec(states, 2, 5), epsilon).guarantee
    assert (guarantee.notion, guarantee.delta) == ("local", 0.0)
    assert 0.99 * epsilon <= guarantee.epsilon <= epsilon


def _loop():
    """A cell that is left for good with probability ½ at each visit, or visited again."""
    P = np.zeros((1, 2, 1, 2))
    P[0, 0, 0], P[0, 1, 0] = [0.5, 0.5], [0.0, 1.0]
    return dc.TabularMDP(P, np.array([[[0.3], [0.0]]]), initial=np.array([1.0, 0.0]), horizon=6)


class Anywhere(QuestionEncoder):
    """Planted: answers about a visit that is drawn uniformly among all, not the first one."""

    def answer(self, trajectory, question, draw):
        visits = list(_visits(self, trajectory, question))
        if not visits:
            return self.randomisers[question // self.layout.cells].size - 1
        h = visits[int(draw * len(visits))]
        return int(trajectory.states[h + 1])


def _stay(encoder, mdp, n, rng):
    """The estimated probability of staying in state 0, and its standard error."""
    privatizer = build(mdp.spec, 30.0, capacity=n)  # hardly any noise
    encoder = about(privatizer, 0, 0, 0, 0) if encoder is None else encoder
    policy = np.zeros((mdp.horizon, 2), dtype=np.int64)
    reports = [encoder.encode(mdp.sample(policy, rng), rng) for _ in range(n)]
    privatizer.collect(privatizer.shuffler(reports, rng))
    found = privatizer.counts().transitions[0, 0, 0]
    share = found[0] / found.sum()
    return share, math.sqrt(share * (1 - share) / found.sum())


def test_first_visits_are_unbiased_and_random_visits_are_not():
    """The strong Markov property; who stays longer is drawn at a visit that is followed by another more often."""
    mdp, n = _loop(), 4000
    share, error = _stay(None, mdp, n, np.random.default_rng(0))
    assert abs(share - 0.5) < 5 * error
    honest = about(build(mdp.spec, 30.0), 0, 0, 0, 0)
    planted = Anywhere(honest.layout, honest.randomisers, honest.probabilities)
    share, error = _stay(planted, mdp, n, np.random.default_rng(0))
    assert abs(share - 0.5) > 10 * error


@pytest.mark.parametrize("n", [6000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("stationary", [False, True])
def test_answers_are_unbiased_and_have_their_variance(stationary, hiding, n):
    """One person, many times: means within five standard errors, and the stated variance for what did not happen.

    A factor that is 2 % off is found by the tally of 400,000 people above.
    """
    spec, rng = Spec(3, 1, 3), np.random.default_rng(3)
    person = Trajectory(np.array([0, 1, 1, 2]), np.zeros(3, dtype=np.int64), np.array([0.0, 0.25, 1.0]))
    for kind, truth in ((0, [0.0, 1.0, 0.0]), (1, [0.75, 0.25])):
        privatizer = build(spec, stationary=stationary, randomiser=hiding, capacity=n)
        encoder = about(privatizer, kind, 0 if stationary else 1, 1, 0)  # state 1, first visited at step 1
        values = []
        for _ in range(200):
            reports = [encoder.encode(person, rng) for _ in range(n // 200)]
            privatizer.collect(privatizer.shuffler(reports, rng))
            counts = privatizer.counts()
            assert counts.asked.sum() == counts.asked[kind, 0 if stationary else 1, 1, 0] == n // 200
            values.append((counts.rewards if kind else counts.transitions)[0 if stationary else 1, 1, 0] / (n // 200))
        mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / math.sqrt(200)
        assert (np.abs(mean - truth) < 5 * error).all()
        if kind == 0:
            std = np.sqrt(np.var(values, axis=0, ddof=1)[[0, 2]].mean() * (n // 200))
            assert std == pytest.approx(privatizer.user_std["transitions"], rel=0.15)


@pytest.mark.parametrize("hiding", [*HIDING, "auto"])
@pytest.mark.parametrize("stationary", [False, True])
def test_the_tally_is_the_protocol_bit_for_bit(stationary, hiding, rng):
    """Same questions, same bits, same draws left over; also in several pieces."""
    mdp = random_mdp(rng, 4, 3, 5, reward_noise="bernoulli")
    steps = 1 if stationary else 5
    probabilities = rng.dirichlet(np.ones(2 * steps * 12)).reshape(2, steps, 4, 3)
    probabilities[0, 0, 0, 0] += probabilities[1, -1, -1, -1]
    probabilities[1, -1, -1, -1] = 0.0  # a last question that is never asked
    privatizer = build(mdp.spec, stationary=stationary, probabilities=probabilities, randomiser=hiding)
    assert privatizer.simulated
    data = mdp.sample_many(rng.integers(3, size=(5, 4)), rng, 300)
    data[2][:] = rng.random(data[2].shape)  # real rewards are rounded the same way
    single, many = (np.random.default_rng(7) for _ in range(2))
    reports = [privatizer.encoder.encode(Trajectory(*row), single) for row in zip(*data, strict=True)]
    one, tally = privatizer.shuffler(reports), privatizer.tally()
    for part in (slice(0, 100), slice(100, 101), slice(101, 300)):
        tally.add(*(array[part] for array in data), many)
    two = tally.batch(many)
    np.testing.assert_array_equal(one.questions, two.questions)
    np.testing.assert_array_equal(one.support, two.support)
    assert one.support.dtype == two.support.dtype
    assert single.random() == many.random()


def test_a_foreign_encoder_is_not_tallied():
    """What stands for the users must do what they do."""
    privatizer = build(Spec(2, 1, 2))
    privatizer.encoder = Anywhere(
        privatizer.encoder.layout, privatizer.encoder.randomisers, privatizer.encoder.probabilities
    )
    assert not privatizer.simulated


@pytest.mark.parametrize("stationary", [False, True])
def test_an_encoder_travels_as_json(stationary, rng):
    spec = Spec(3, 2, 2, np.array([0.2, 0.3, 0.5]))
    steps = 1 if stationary else 2
    probabilities = rng.dirichlet(np.ones(12 * steps)).reshape(2, steps, 3, 2)
    encoder = build(spec, 0.7, stationary=stationary, probabilities=probabilities).encoder
    again = encoders.from_json(encoder.to_json(), kinds=("questions",))
    assert isinstance(again, QuestionEncoder)
    assert again.layout == encoder.layout
    assert again.randomisers == encoder.randomisers
    np.testing.assert_array_equal(again.probabilities, encoder.probabilities)
    assert again.to_json() == encoder.to_json()
    with pytest.raises(ValueError, match="of the kind 'questions'"):
        encoders.from_json(encoder.to_json(), kinds=("noisy", "sampled"))


@pytest.mark.parametrize(
    "parameters",
    [
        {"probabilities": [[[[0.5]]], [[[0.4]]]]},
        {"probabilities": [[[[1.5]]], [[[-0.5]]]]},
        {"probabilities": [[[[float("nan")]]], [[[1.0]]]]},
        {"probabilities": [[[[1.0]]]]},
        {"probabilities": "all"},
        {"randomisers": [{"randomiser": "response", "epsilon": 700}] * 2},
        {"randomisers": [{"randomiser": "response", "epsilon": 0}] * 2},
        {"randomisers": [{"randomiser": "none", "epsilon": 1}] * 2},
        {"randomisers": [{"randomiser": "response", "epsilon": 1}]},
        {"randomisers": None},
    ],
)
def test_an_encoder_that_hides_nothing_is_refused(parameters):
    document = json.loads(build(Spec(1, 1, 1)).encoder.to_json())
    document["parameters"] |= parameters
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong, in one of several words
        encoders.from_json(json.dumps(document))


def test_the_server_refuses_what_is_no_batch_of_answers(rng):
    """And nothing changes; the message never repeats a report."""
    mdp = random_mdp(rng, 3, 2, 2, per_step=False)
    privatizer = build(mdp.spec, capacity=4)
    policy = np.zeros((2, 3), dtype=np.int64)
    good = privatizer.shuffler([privatizer.encoder.encode(mdp.sample(policy, rng), rng) for _ in range(3)])
    privatizer.collect(good)
    before = privatizer.counts()
    support = np.zeros((1, 4), dtype=np.bool_)
    padded = np.ones((1, 4), dtype=np.bool_)
    for questions, bits in (
        (np.array([12]), support),
        (np.array([-1]), support),
        (np.array([0.0]), support),
        (np.array([0]), support[:, :3]),
        (np.array([0]), support.astype(np.int64)),
        (np.array([[0]]), support),
        (np.array([6]), padded),  # a reward has three answers
    ):
        with pytest.raises(ValueError, match="bits"):
            privatizer.collect(AnswerBatch(questions, bits))
    with pytest.raises(TypeError):
        privatizer.collect(SampledBatch(np.array([0]), support))
    with pytest.raises(ValueError, match="holds 4 users"):
        privatizer.collect(good)
    after = privatizer.counts()
    assert privatizer.count == 3
    for name in ("asked", "transitions", "rewards"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    with pytest.raises(TypeError):
        privatizer.shuffler([mdp.sample(policy, rng)])


def test_the_error_bound_holds(rng):
    """Over all counts of many batches, added up."""
    mdp = random_mdp(rng, 2, 1, 2, per_step=False)
    policy, n = np.zeros((2, 2), dtype=np.int64), 2000
    privatizer = build(mdp.spec, capacity=n)
    sums, truth = np.zeros((1, 2, 1, 2)), np.zeros((1, 2, 1, 2))
    for _ in range(20):
        data = mdp.sample_many(policy, rng, n // 20)
        people = [Trajectory(*row) for row in zip(*data, strict=True)]
        reports = [privatizer.encoder.encode(person, rng) for person in people]
        for person, report in zip(people, reports, strict=True):
            if report.question < 2:
                answer = privatizer.encoder.answer(person, report.question, 0.0)
                if answer < 2:
                    truth[0, report.question, 0, answer] += 1
        privatizer.collect(privatizer.shuffler(reports))
        sums += privatizer.counts().transitions
        assert (np.abs(sums - truth) < privatizer.error).all()
    assert privatizer.error < 10 * np.abs(sums - truth).max()  # and says something


@pytest.mark.parametrize("name", ["dp-ucbvi", "pucb", "private-ucb-vi", "private-ucb-po"])
def test_the_papers_agents_refuse_questions(name):
    with pytest.raises(ValueError, match="first visits are no visit counts"):
        make_agent(name, Spec(2, 2, 2), episodes=10, privacy=dc.Local(1.0, sum="questions"))


def test_auto_stays_what_it_was_for_the_papers_agents():
    agent = make_agent("dp-ucbvi", Spec(6, 2, 20), episodes=10, privacy=dc.Local(1.0))
    assert agent.privatizer.name == "sampled"
    assert isinstance(
        make_agent("pucb", Spec(2, 2, 2), episodes=9, privacy=TRUST["local laplace"]).privatizer, NoisyLocal
    )


@pytest.mark.parametrize("sum_", ["laplace", "gaussian", "sampled"])
def test_discreet_vi_refuses_other_sums(sum_):
    with pytest.raises(ValueError, match="answers about first visits"):
        dc.agents.make("discreet-vi", Spec(2, 2, 2), episodes=10, privacy=dc.Local(1.0, 1e-6, sum=sum_))
    with pytest.raises(ValueError, match="printed for local sum='laplace'"):
        dc.agents.make("discreet-vi", Spec(2, 2, 2), episodes=10, privacy=dc.Local(1.0, calibration="paper"))
    with pytest.raises(ValueError, match="epsilon=31"):
        dc.agents.make("discreet-vi", Spec(2, 2, 2), episodes=10, privacy=dc.Local(31.0))

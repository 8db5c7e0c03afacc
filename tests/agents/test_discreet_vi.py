"""discreet-vi with a trusted server: what is promised, what steers it, its estimates, and that it learns."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from scipy.optimize import brentq
from scipy.stats import norm

import discreet as dc
from discreet import testing
from discreet.agents._kernels import discreet_central as kernels
from discreet.agents._kernels import sparse
from discreet.agents.discreet import DiscreetVI
from discreet.agents.discreet.central import CentralLearner
from discreet.errors import CheckFailed
from discreet.experiments.sweep import Sweep
from discreet.mdp import Spec
from discreet.noise import Role, as_source
from discreet.privacy import accounting
from discreet.privatizers import Privatizer
from discreet.privatizers.make import weighted
from discreet.privatizers.weighted.layout import Block, WeightedLayout
from discreet.runtime import handover as files
from discreet.runtime.tallies import WeightedTotals
from discreet.sums import optimal
from tests.agents import discreet_reference as reference
from tests.conftest import PRIVATE, every_other, random_mdp

RIVERSWIM = dc.envs.riverswim()
SMALL = dc.envs.riverswim(states=3, horizon=4)
ONE = dc.Central(1.0, 1e-6)
#: Every layout that it builds, and without noise.
VARIANTS = {
    "pooled": {"stationary": True},
    "shared": {},
    "steps": {"share_steps": False},
    "pooled, no noise": {"stationary": True, "privacy": dc.NonPrivate()},
    "shared, no noise": {"privacy": dc.NonPrivate()},
    "shared, tree": {"privacy": dc.Central(2.0, 1e-3, sum="tree", release="weighted")},
}


def make(spec=SMALL.spec, variant="pooled", kind=None, **options):
    given = {"episodes": 300, "privacy": ONE, "seed": 0, **VARIANTS[variant], **options}
    return (kind or functools.partial(dc.agents.make, "discreet-vi"))(spec, **given)


# --- what is promised


def delta_of(mu, epsilon):
    """δ of a μ-GDP mechanism at ε, by the letter (Dong, Roth and Su 2022, Corollary 1)."""
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@functools.cache
def theirs(mu, delta):
    """dp-accounting's ε of a Gaussian mechanism: the same for all variants at one budget."""
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    return accountant.compose(dp_accounting.GaussianDpEvent(1 / mu)).get_epsilon(delta)


@pytest.mark.parametrize("variant", ["pooled", "shared", "steps"])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
@pytest.mark.parametrize(
    "epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 1.0, pytest.param(3.0, marks=pytest.mark.slow)]
)
def test_the_proven_epsilon_is_the_budgets(epsilon, delta, variant):
    """Must show: within [0.99, 1] of the budget; recomputed from norms, columns and σ alone, and by dp-accounting."""
    agent = make(RIVERSWIM.spec, variant, episodes=20_000, privacy=dc.Central(epsilon, delta))
    assert (agent.guarantee.notion, agent.guarantee.protects) == ("joint", "trajectory")
    assert 0.99 * epsilon <= agent.guarantee.epsilon <= epsilon
    total = agent.mechanism.sum
    T, H, unit = total.horizon, RIVERSWIM.horizon, 1 + 1 / 4 + 1 / 4
    share = {"pooled": 1.0, "shared": 1 + 0.7**2, "steps": 1.0}[variant]
    distance = math.sqrt(2 * unit * H * share)
    assert total.sensitivity.l2 == pytest.approx(distance, rel=1e-8)
    B = total.factorisation.matrix()
    column = np.linalg.norm(np.linalg.solve(B, np.tril(np.ones((T, T)))), axis=0).max()
    mu = distance * column / total.scale
    assert mu == pytest.approx(brentq(lambda m: delta_of(m, epsilon) - delta, 1e-4, 10), rel=1e-4)
    assert accounting.gaussian_epsilon(mu, delta) == pytest.approx(agent.guarantee.epsilon, rel=1e-6)
    assert theirs(float(f"{mu:.6g}"), delta) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("name", ["optimal", "factored", "tree", "auto"])
def test_released_counts_have_the_noise_that_is_accounted(name):
    """With power: the same test rejects 0.8 and 1.25 times the right scale, in each kind of count and each read."""
    spec, reads, budget = Spec(25, 20, 5), 6, (1.0, 1e-6)
    layout = WeightedLayout(spec)
    private, exact = (
        Privatizer(weighted(layout, privacy, capacity=reads, horizon=reads), as_source(np.random.default_rng(3)))
        for privacy in (dc.Central(*budget, sum=name), dc.NonPrivate())
    )
    shuffler, total = private.mechanism.shuffler(), private.mechanism.sum
    mdp = dc.envs.random(states=25, actions=20, horizon=5)
    noise = {"transitions": [], "visits": [], "rewards": []}
    rng = np.random.default_rng(4)
    for _ in range(reads):
        report = private.encoder.encode(mdp.sample(np.zeros((5, 25), dtype=np.int64), rng), rng)
        released, truth = (server.observe(shuffler([report])) for server in (private, exact))
        assert released.std == total.std_after(private.version)
        assert truth.std == 0.0
        for kind, drawn in noise.items():
            drawn.append((getattr(released.blocks[0], kind) - getattr(truth.blocks[0], kind)).ravel())
    B, T = total.factorisation.matrix(), reads
    column = np.linalg.norm(np.linalg.solve(B, np.tril(np.ones((T, T)))), axis=0).max()
    mu = brentq(lambda m: delta_of(m, budget[0]) - budget[1], 1e-4, 10)
    sigma = math.sqrt(2 * 1.5 * 5) * column / mu  # the distance of two users, by hand
    for kind, unit in (("transitions", 1.0), ("visits", 2.0), ("rewards", 1.0)):
        fresh = np.linalg.solve(B, np.array(noise[kind])) / (sigma * unit)  # one draw a read and count
        z = {
            scale: np.abs(((fresh / scale) ** 2).mean(axis=1) - 1) * math.sqrt(fresh.shape[1] / 2)
            for scale in (1.0, 0.8, 1.25)
        }
        assert z[1.0].max() < 4.5
        assert z[0.8].min() > 4.5
        assert z[1.25].min() > 4.5
        stds = np.array(noise[kind]).std(axis=1)
        np.testing.assert_allclose(stds, sigma * unit * np.linalg.norm(B, axis=1), rtol=0.15)


def test_auto_takes_the_least_noise():
    """The sum with the smallest worst read, among those that are proven for so many reads."""
    for reads in (1, 5, 40, 64, 65, 400):
        build = functools.partial(weighted, WeightedLayout(SMALL.spec), capacity=reads, horizon=reads)
        worst = {}
        for name in dc.sums.CENTRAL:
            if name != "optimal" or reads <= 64:
                worst[name] = build(dc.Central(1.0, 1e-6, sum=name)).sum.worst_std
        assert build(ONE).sum.worst_std == pytest.approx(min(worst.values()))


@pytest.mark.parametrize("variant", VARIANTS)
def test_batches_are_public(variant):
    """Their sizes follow from the sizes of the world, the budget and the number of people: other people, same batches.

    The schedule is listed before anybody comes; nothing is read from the last people.
    """
    one, two = make(variant=variant, episodes=3000), make(variant=variant, episodes=3000, seed=5)
    sizes = list(one.schedule.sizes)
    assert sizes == list(two.schedule.sizes)
    assert sum(sizes) < 3000
    for agent, seed in ((one, 1), (two, 2)):
        seen = []
        agent.on_release = lambda _released, _policy, count, seen=seen: seen.append(count)
        dc.simulate(agent, SMALL, seed=seed)
        assert seen == np.cumsum(sizes).tolist()
        if isinstance(agent.privacy, dc.Central):
            assert len(sizes) == agent.mechanism.sum.horizon


# --- what steers it


@pytest.mark.parametrize("update_every", [pytest.param(1, marks=pytest.mark.slow), 7, "geometric", None])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_keeps_the_protocol(variant, update_every):
    """`check_agent`: schedules, capacity, bad data, replay. Its own schedule begins after all 50 people."""
    options = {"update_every": update_every}
    testing.check_agent(lambda spec, episodes, seed: make(spec, variant, episodes=episodes, seed=seed, **options))


@pytest.mark.parametrize("variant", VARIANTS)
def test_protocol_and_tally_agree_bit_for_bit_wherever_one_stops(variant, tmp_path):
    """Must show: gaps, sums, noise, plans and generators; also on the way through a file, within a batch and between.

    Would catch anything that is left behind, and whatever a tally adds up in another way than the server.
    """
    build = functools.partial(make, variant=variant, episodes=200, update_every=23)
    agents = [build() for _ in range(4)]
    expected = dc.simulate(agents[0], SMALL, seed=1, block=False).gaps
    np.testing.assert_array_equal(dc.simulate(agents[1], SMALL, seed=1).gaps, expected)
    gaps = []
    for i, people in enumerate((1, 22, 10, 50, 23, 94)):
        gaps.append(dc.simulate(agents[2], SMALL, people, seed=1, block=i % 2 == 1).gaps)
        saved = dc.simulate(agents[3], SMALL, people, seed=1, block=i % 2 == 0).gaps
        np.testing.assert_array_equal(saved, gaps[-1])
        agents[3].save(tmp_path / "agent")
        agents[3] = dc.agents.load(tmp_path / "agent")
        assert agents[3].guarantee == agents[0].guarantee
        assert agents[3].plan.hash == agents[2].plan.hash
    np.testing.assert_array_equal(np.concatenate(gaps), expected)
    packed = {files.pack(agent) for agent in agents}
    assert len(packed) == 1
    for agent in agents[1:]:
        np.testing.assert_array_equal(agent.policy, agents[0].policy)
        assert agent.rng.bit_generator.state == agents[0].rng.bit_generator.state
        assert agent.sources[Role.NOISE].mark() == agents[0].sources[Role.NOISE].mark()


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_rebuilt_from_what_was_released(variant, block):
    """Replay: every policy of every batch, and what users are asked to weigh."""
    build = functools.partial(make, variant=variant, episodes=200, update_every=20)
    agent = build()
    played = testing.record(agent)
    dc.simulate(agent, SMALL, seed=1, block=block)
    assert len(played.rounds) == 10
    assert all(found.encoder != played.encoder for found in played.rounds[:-1])  # what is asked follows the releases
    testing.replay(played, build())


class RawPolicies(CentralLearner):
    """Planted: the releases are fine, but the explorers go where somebody has really been."""

    def plan(self, *given):
        known, found = super().plan(*given)
        found.policies[:, 0, 0] = int(raw(self) > 3)
        return known, found


class RawWishes(CentralLearner):
    """Planted: the policies are fine, but what users should weigh is what nobody has really seen."""

    def plan(self, *given):
        known, found = super().plan(*given)
        if found.carried:
            found.carried["want"][0, 0] = 1.0 if raw(self) > 3 else 0.5
        return known, found


def raw(learner):
    """A raw count of the agent that a learner belongs to, which planted ones keep."""
    agent = learner.__dict__.get("agent")
    return 0.0 if agent is None or not hasattr(agent, "privatizer") else agent.privatizer.reveal().total[0]


@pytest.mark.parametrize(
    ("planted", "message"),
    [(RawPolicies, "the policy after batch"), (RawWishes, "what users are asked after batch")],
)
def test_a_learner_that_looks_at_raw_sums_is_caught(planted, message):
    """Must show, planted: replay has power over policies and over what the encoder carries."""

    class Leaks(DiscreetVI):
        def _schedule(self, update_every):
            found = super()._schedule(update_every)
            self.learner = planted(self, update_every)
            self.learner.agent = self
            return found

    build = functools.partial(make, episodes=200, update_every=20, kind=Leaks)
    agent = build()
    played = testing.record(agent)
    dc.simulate(agent, SMALL, seed=1)
    with pytest.raises(CheckFailed, match=message):
        testing.replay(played, build())


def test_an_interrupt_takes_a_batch_back(monkeypatch):
    """The agent is left where the batch began, and goes on as if nothing had happened."""
    whole, parts = (make(episodes=200, update_every=40) for _ in range(2))
    expected = dc.simulate(whole, SMALL, seed=1).gaps
    first = dc.simulate(parts, SMALL, 80, seed=1).gaps
    kind, calls = WeightedTotals, []
    real = kind.add

    def add(self, *arguments):
        real(self, *arguments)
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kind, "add", add)
        with pytest.raises(KeyboardInterrupt):
            dc.simulate(parts, SMALL, seed=1)
    assert parts.count == 80
    np.testing.assert_array_equal(np.concatenate([first, dc.simulate(parts, SMALL, seed=1).gaps]), expected)


# --- what is refused


def test_what_is_not_proven_or_not_claimed_is_refused():
    for options, message in (
        ({"privacy": dc.Central(1.0)}, "delta > 0, got delta=0.0; try dp-ucbvi"),
        ({"privacy": dc.Central(1.0, 1e-6, calibration="paper")}, "calibration='paper'"),
        ({"preset": "theory"}, "preset='theory'"),
        ({"privacy": dc.Central(1.0, 1e-6, release="nmr")}, "weighted counts, got release='nmr'"),
        ({"privacy": dc.Central(1.0, 1e-6, release="mr")}, "weighted counts, got release='mr'"),
        ({"privacy": dc.Central(1.0, 1e-6, sum="optimal"), "update_every": 1}, "up to 64 reads, got 300; try factored"),
        ({"share_steps": "yes"}, "share_steps='yes'"),
        ({"update_every": 0}, "update_every=0"),
        ({"privacy": None}, "needs a trust model"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**options)


@pytest.mark.parametrize("name", [*PRIVATE, "sdp-pe", "rlsvi", "linopt-vi"])
def test_the_papers_agents_do_not_take_weighted_counts(name):
    """Weights are no visits: their bounds would be wrong, silently."""
    spec = dc.envs.make("linear_mixture").spec if name == "linopt-vi" else SMALL.spec
    with pytest.raises(ValueError, match="release='weighted'"):
        dc.agents.make(name, spec, episodes=500, privacy=dc.Central(1.0, 1e-6, release="weighted"))


# --- on the command line


def test_a_budget_says_what_is_released(discreet_):
    command = ("budget", "riverswim", "--agent", "discreet-vi", "-d", "1e-6")
    blocks = {("--stationary",): "pooled", (): "pooled and for each step", ("--no-share-steps",): "for each step"}
    for options, expected in blocks.items():
        code, out, _ = discreet_(*command, *options)
        assert code == 0
        assert re.search(rf"released +weighted counts, {expected}: [\d,]+\n", out)
        assert "simulation only" in out
    code, _, err = discreet_("budget", "riverswim", "--no-share-steps")
    assert (code, err.count("\n")) == (2, 1)
    assert "--share-steps is for discreet-vi, got agent dp-ucbvi" in err


def test_sharing_is_an_option_of_runs_and_sweeps(discreet_):
    """Would catch a flag that does not arrive: without sharing, the noise of each step's counts is another one."""
    command = ("run", "riverswim:states=3,horizon=4", "--agent", "discreet-vi", "-d", "1e-6", "-K", "60", "--seed", "0")
    command += ("-e", "100", "--update-every", "5", "--json")
    found = {}
    for option in ((), ("--share-steps",), ("--no-share-steps",)):
        code, out, err = discreet_(*command, *option)
        assert code == 0, err
        document = json.loads(out)
        found[option] = document["regret"]["runs"]
    assert found[()] == found["--share-steps",]
    assert found[()] != found["--no-share-steps",]
    assert discreet_("run", "riverswim", "--agent", "ucbvi", "--no-share-steps")[0] == 2

    table = {"env": "riverswim", "agent": "discreet-vi", "delta": 1e-6, "episodes": 100, "share_steps": [True, False]}
    settings = Sweep.make(table).settings
    assert [setting.resolved["share_steps"] for setting in settings] == [True, False]
    with pytest.raises(ValueError, match="share_steps of the sweep must be true or false"):
        Sweep.make({**table, "share_steps": "no"})
    with pytest.raises(ValueError, match="repeats a setting"):
        Sweep.make({**table, "setting": [{"share_steps": True}, {"share_steps": [True]}]})
    with pytest.raises(ValueError, match=r"repeats a setting: auto, .* comes to the same as discreet-vi, "):
        Sweep.make({**table, "share_steps": True, "agent": ["discreet-vi", "auto"]})


# --- estimates


@pytest.mark.parametrize("spike", [0.0, 0.3, 0.98])
@pytest.mark.parametrize("high", [0.3, 80.0])
@pytest.mark.parametrize("sigma", [0.5, 10.0])
def test_the_posterior_mean_is_the_integral(sigma, high, spike):
    for y in (-5 * sigma, -sigma, 0.0, 0.2 * high, high, high + 2 * sigma):
        got = sparse.posterior_mean(y, sigma, high, spike)
        assert got == pytest.approx(reference.posterior_mean(y, sigma, high, spike), rel=1e-6, abs=1e-9 * high)
        assert 0 <= got <= high


def test_the_posterior_mean_at_its_ends():
    """No noise, nothing there, and counts so far out that every likelihood is 0."""
    assert sparse.posterior_mean(3.0, 0.0, 5.0, 0.9) == 3.0
    assert sparse.posterior_mean(-3.0, 0.0, 5.0, 0.9) == 0.0
    assert sparse.posterior_mean(9.0, 0.0, 5.0, 0.9) == 5.0
    assert sparse.posterior_mean(9.0, 1.0, 0.0, 0.9) == 0.0
    assert sparse.posterior_mean(1e4, 1.0, 5.0, 0.9) == 5.0
    assert sparse.posterior_mean(-1e4, 1.0, 5.0, 0.9) == 0.0
    for y in (-60.0, -45.0, 45.0, 60.0, 1e300, -1e300):
        assert 0.0 <= sparse.posterior_mean(y, 1.0, 5.0, 0.5) <= 5.0


def noisy(rng, G=3, S=4, A=2, size=200.0, sigma=10.0):
    """Noisy counts of G segments: some cells hardly seen, some negative."""
    C, sigmas = S * A, sigma * np.sqrt(np.arange(1.0, G + 1))
    n = size * rng.random((G, C)) * (rng.random((G, C)) > 0.2)
    P, r = rng.dirichlet(np.full(S, 0.4), size=C), rng.random((G, C))
    m = n[..., None] * P + sigmas[:, None, None] * rng.normal(size=(G, C, S))
    nu, rho = (
        n + 2 * sigmas[:, None] * rng.normal(size=n.shape),
        n * (r - 0.5) + sigmas[:, None] * rng.normal(size=n.shape),
    )
    return Block(m, nu, rho), sigmas


def test_estimates_equal_their_reference(rng):
    for centre, reward, visit in ((0.5, 1.0, 0.5), (0.0, 0.5, 0.25)):
        block, sigma = noisy(rng)
        spikes = np.array([0.98, 0.9])
        n, P, r = np.zeros_like(block.visits), np.zeros_like(block.transitions), np.zeros_like(block.visits)
        kernels.estimate(sparse.posterior_mean, *block, sigma, reward, visit, centre, spikes, n, P, r)
        expected = reference.estimate(*block, sigma, reward, visit, centre, spikes, sparse.posterior_mean)
        for got, want in zip((n, P, r), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(P.sum(axis=2), 1.0)
        assert ((r >= 0) & (r <= 1)).all()


def model(rng, G=3, S=4, A=2, H=7):
    C = S * A
    n = 300 * rng.random((G, C)) - 50
    segment = np.sort(rng.integers(0, G, size=H))
    return n, rng.dirichlet(np.ones(S), size=(G, C)), rng.random((G, C)), segment, 5 + 10 * rng.random(G)


@pytest.mark.parametrize("optimistic", [True, False])
def test_plans_equal_their_reference(rng, optimistic):
    for _ in range(10):
        n, P, r, segment, sigma = model(rng)
        ties, V, policy = rng.random((7, 4, 2)), np.zeros((8, 4)), np.zeros((7, 4), dtype=np.int64)
        least, noise = 3 * sigma, 1.2 * sigma
        kernels.plan(n, P, r, segment, sigma, noise, least, 0.4, 0.3, optimistic, ties, V, policy)
        expected = reference.plan(n, P, r, segment, sigma, noise, least, 0.4, 0.3, optimistic, ties)
        np.testing.assert_allclose(V, expected[0], rtol=1e-10)
        np.testing.assert_array_equal(policy, expected[1])
        assert not optimistic or (V.max(axis=1) <= np.arange(7, -1, -1) + 1e-9).all()


def test_demands_equal_their_reference(rng):
    n, P, _, segment, sigma = model(rng)
    for steps in (1, 7):
        policy, want = rng.integers(0, 2, size=(7, 4)), rng.random((steps, 8))
        ahead = np.zeros((7, 4))
        for share in (0.25, 0.75):
            kernels.demand(policy, n, P, segment, 3 * sigma, want, 0.5, share, ahead)
        expected = reference.demand(policy, n, P, segment, 3 * sigma, want, 0.5)
        np.testing.assert_allclose(ahead, expected, rtol=1e-12)


def test_splits_and_differences_equal_their_reference(rng):
    constants = (1.0, 0.5, 0.5, 1.4, 3.0)
    for _ in range(5):
        steps, _ = noisy(rng, G=6, size=300.0, sigma=0.1)
        steps.transitions[3:] = steps.transitions[3:, ::-1]
        sums = [np.concatenate([np.zeros((1, *x.shape[1:])), np.cumsum(x, axis=0)]) for x in steps]
        for low, high in ((0, 6), (1, 4), (2, 3)):
            got = kernels.best_split(*sums, 9.0, *constants, low, high)
            expected = reference.best_split(steps, 9.0, *constants, low, high)
            assert got[0] == expected[0]
            assert got[1] == pytest.approx(expected[1], rel=1e-9)
        block, sigma = noisy(rng, size=400.0)
        block.transitions[:2, 0] = block.visits[:2, 0] = 0.0  # known in one segment only
        z = np.zeros((2, 8))
        kernels.differences(*block, sigma, *constants, z)
        expected = reference.differences(block, sigma, *constants)
        np.testing.assert_allclose(z, expected, rtol=1e-9)
        assert (z[:, 0] == -1).all()


# --- sharing over the steps


def changed(mdp, what, at):
    """The world from step ``at`` on: its actions swapped, or its rewards moved to the other action."""
    P, r = np.array(mdp.transitions), np.array(mdp.rewards)
    if what == "actions":
        P[at:], r[at:] = P[at:, :, ::-1], r[at:, :, ::-1]
    elif what == "rewards":
        r[at:] = r[at:, :, ::-1]
    return dc.TabularMDP(P, r, initial=mdp.initial)


def released(agent, mdp, users, seed):
    """One release, of users with policies at random."""
    rng = np.random.default_rng(seed)
    tally = WeightedTotals(agent, agent.plan)
    for _ in range(40):
        policy = rng.integers(0, mdp.actions, size=(mdp.horizon, mdp.states))
        tally.meet(*mdp.sample_many(policy, rng, users // 40))
    tally.observe()
    return agent.privatizer.last


@pytest.mark.parametrize("privacy", [ONE, dc.NonPrivate()], ids=["central", "none"])
def test_steps_are_taken_apart_where_they_differ_and_only_there(privacy):
    """A false alarm in few of 30 runs of a world that does not change; changes are found within a step or so."""
    rng = np.random.default_rng(8)
    base, found = random_mdp(rng, 4, 2, 12, per_step=False, reward_noise="bernoulli"), {}
    for what in ("nothing", "actions", "rewards"):
        mdp, bounds = changed(base, what, 6), []
        for seed in range(30 if what == "nothing" else 6):
            agent = make(mdp.spec, "shared", privacy=privacy, episodes=8000, update_every=8000, seed=seed)
            counts = released(agent, mdp, 8000, seed)
            bounds.append(agent.learner._segments(counts.blocks[1], counts.std))
            assert len(agent.learner._believe(counts).n) == len(bounds[-1]) - 1
        found[what] = bounds
    alarms = sum(len(bounds) > 2 for bounds in found["nothing"])
    assert alarms <= 3
    for what in ("actions", "rewards"):
        for bounds in found[what]:
            assert min(abs(bound - 6) for bound in bounds[1:-1] or [99]) <= 1, (what, bounds)


def test_what_does_not_change_is_still_pooled():
    """Rewards change half-way: transitions are those of all steps, rewards are each half's own."""
    rng = np.random.default_rng(3)
    base = random_mdp(rng, 4, 2, 12, per_step=False)
    mdp = changed(base, "rewards", 6)
    agent = make(mdp.spec, "shared", episodes=40_000, update_every=40_000)
    counts = released(agent, mdp, 40_000, 1)
    believed = agent.learner._believe(counts)
    pooled = agent.learner._estimate(counts.blocks[0], np.zeros(12, dtype=np.int64), np.full(1, counts.std))
    first, last = believed.segment[0], believed.segment[-1]
    assert first != last
    np.testing.assert_array_equal(believed.P[first], pooled.P[0])
    np.testing.assert_array_equal(believed.P[last], pooled.P[0])
    truth = mdp.rewards.reshape(12, 8)
    assert np.abs(believed.r[first] - truth[0]).mean() < 0.1
    assert np.abs(believed.r[last] - truth[-1]).mean() < 0.1


# --- learning


def regret(mdp, seeds, K=50_000, **options):
    runs = []
    for seed in seeds:
        agent = dc.agents.make("discreet-vi", mdp.spec, episodes=K, privacy=ONE, seed=[77, seed], **options)
        runs.append(float(dc.simulate(agent, mdp, seed=[77, seed]).regret[-1]))
    return np.array(runs)


def test_it_learns_within_few_people():
    """A first look: far below never learning (16,900), pooled and shared, from 5,000 people."""
    for options in ({"stationary": True}, {}):
        assert regret(RIVERSWIM, range(2), K=5000, **options).mean() < 6000


@pytest.mark.slow
def test_it_learns_riverswim_pooled():
    """Must show: ε = 1, K = 50,000, 10 runs: at most 3,000 (never learning costs 170,000)."""
    assert regret(RIVERSWIM, range(10), stationary=True).mean() <= 3000


@pytest.mark.slow
def test_it_learns_riverswim_per_step():
    """Must show: nothing assumed about h: at most 4,500 with sharing, 48,000 without."""
    assert regret(RIVERSWIM, range(10)).mean() <= 4500
    assert regret(RIVERSWIM, range(4), share_steps=False).mean() <= 48_000


@pytest.mark.slow
@pytest.mark.parametrize("what", ["actions", "rewards"])
def test_sharing_costs_little_where_steps_differ(what):
    """Must show: at most 1.5 times the unshared learner's regret."""
    mdp = changed(RIVERSWIM, what, 10)
    shared, apart = (regret(mdp, range(4), share_steps=share).mean() for share in (True, False))
    assert shared <= 1.5 * apart


@pytest.mark.parametrize("variant", VARIANTS)
def test_beginning_anew_forgets_what_users_were_asked_later(variant):
    """Would catch an encoder that keeps the weights of people who are forgotten: auditors run an agent often."""
    agent = make(variant=variant, episodes=200, update_every=20)
    first = agent.encoder.to_json()
    dc.simulate(agent, SMALL, 100, seed=1)
    assert agent.encoder.to_json() != first
    agent.anew(as_source(np.random.default_rng(5)))
    assert agent.encoder.to_json() == first
    assert (agent.count, agent.plan.version, agent.shuffler.reports) == (0, 0, [])


class RawEncoders(DiscreetVI):
    """Planted: the plan is fine, but the encoder is given something else, from what somebody has really done."""

    @property
    def encoder(self):
        want = self.plan.encoder.want.copy()
        want[0, 0] = 1.0 if self.privatizer.reveal().total[0] > 3 else 0.5
        return dataclasses.replace(self.plan.encoder, want=want)


def test_what_the_encoder_really_carries_is_replayed():
    """Must show, planted: replay looks at the encoder, not at what the plan says of it."""
    build = functools.partial(make, episodes=200, update_every=20, kind=RawEncoders)
    agent = build()
    played = testing.record(agent)
    dc.simulate(agent, SMALL, seed=1)
    with pytest.raises(CheckFailed, match="what users are asked after batch"):
        testing.replay(played, build())


@pytest.mark.parametrize(("when", "block"), every_other(["before", "after"], [True, False]))
@pytest.mark.parametrize("privacy", [ONE, dc.Local(1.0), dc.Shuffle(1.0, 1e-6)], ids=["central", "local", "shuffle"])
def test_an_interrupted_plan_is_made_anew(privacy, when, block, tmp_path):
    """Must show: whoever stops it while it plans can go on, also through a file, to the same numbers.

    Would catch an agent that meets the next batch with the last one's policies and questions, or that adds a release
    twice. With a trusted server no batch was complete any more: they have other sizes.
    """
    build = functools.partial(dc.agents.make, "discreet-vi", SMALL.spec, episodes=900, privacy=privacy, seed=0)
    whole, agent = (build(stationary=True, update_every="geometric") for _ in range(2))
    expected = dc.simulate(whole, SMALL, seed=1).gaps
    real = agent.learner.plan
    for _ in range(11):
        dc.simulate(agent, SMALL, agent.batch_size, seed=1, block=block)

    def stopped(*given):
        if when == "after":
            real(*given)
        raise KeyboardInterrupt

    agent.learner.plan = stopped
    with pytest.raises(KeyboardInterrupt):
        dc.simulate(agent, SMALL, agent.batch_size, seed=1, block=block)
    agent.learner.plan = real
    agent.save(tmp_path / "agent")
    agent = dc.agents.load(tmp_path / "agent")
    played = agent.count
    np.testing.assert_array_equal(dc.simulate(agent, SMALL, seed=1, block=block).gaps, expected[played:])


@pytest.mark.parametrize("room", [0, 1])
def test_a_large_world_takes_a_sum_that_does_not_keep_all_draws(room, monkeypatch):
    """With 200 states, 5 actions and 20 steps all draws of 60 reads are two gigabytes; named, it is taken as asked."""
    layout = WeightedLayout(SMALL.spec)
    monkeypatch.setattr(optimal, "MOST_DRAWS", 30 * layout.size - 1 + room)
    for name, expected in (("auto", "optimal" if room else "factored"), ("optimal", "optimal")):
        privacy = dc.Central(1.0, 1e-6, sum=name)
        assert weighted(layout, privacy, capacity=300, horizon=30).name == expected

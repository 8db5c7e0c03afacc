"""RLSVI: against the pseudo-code, its filter against an independent one, and what must be refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet import audit, testing
from discreet.agents.rlsvi import RLSVI
from discreet.errors import CheckFailed, InvalidInput
from discreet.mdp import Spec, Trajectory
from discreet.noise import Role, seed_sequence, stream
from discreet.noise.fast import FastSource
from discreet.privacy import RawBatch, accounting
from discreet.privacy.rlsvi import beta
from discreet.privatizers import Privatizer
from discreet.privatizers.values.serve import PerturbedTables
from discreet.runtime import handover
from tests import reference
from tests.conftest import random_mdp

RIVERSWIM = dc.envs.riverswim()
BUDGET = dc.Central(1.0, 1e-6)


def build(spec=RIVERSWIM.spec, episodes=50, **options):
    options = {"privacy": BUDGET, "seed": 0, **options}
    return dc.agents.make("rlsvi", spec, episodes=episodes, **options)


def scaled(noise_scale, **options):
    return build(privacy=None, noise_scale=noise_scale, delta=1e-6, **options)


def losses_of(agent):
    return accounting.losses(agent.guarantee.events)[0]


# the algorithm


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("update_every", [1, 6])
@pytest.mark.parametrize("block", [False, True])
def test_every_release_equals_a_literal_transcription_with_the_same_draws(rng, stationary, update_every, block):
    """Must show, to 1e-10: Algorithm 1 beside the agent, from the first policy to the last."""
    mdp = random_mdp(rng, 3, 2, 4)
    H, S, A = 4, 3, 2
    agent = scaled(0.001, spec=mdp.spec, episodes=30, stationary=stationary, update_every=update_every)
    noise = stream(seed_sequence(0), Role.NOISE, agent._identity)
    steps = 1 if stationary else H
    N, M, R = np.zeros((steps, S, A)), np.zeros((steps, S, A, S)), np.zeros((steps, S, A))
    releases, people = [agent.Q.copy()], []
    agent.on_release = lambda released, _policy, _count: releases.append(released.values)
    policy = agent.policy
    dc.simulate(agent, mdp, seed=1, block=block)
    draws, expected = mdp.draws(stream(seed_sequence(1), Role.PEOPLE), 30), []
    for k in range(1, 32):
        if (k - 1) % update_every == 0:
            w = noise.standard_normal((H, S, A)) * math.sqrt(0.001)
            Q, V, policy = reference.rlsvi_plan(N, M, R, k=k, w=w)
            expected.append(Q)
        if k <= 30:
            person = sampled(mdp, policy, draws[k - 1])
            people.append(person)
            for h in range(H):
                cell = (0 if stationary else h, person.states[h], person.actions[h])
                N[cell] += 1
                M[(*cell, person.states[h + 1])] += 1
                R[cell] += person.rewards[h]
    np.testing.assert_allclose(np.array(releases), np.array(expected), rtol=0, atol=1e-10)
    np.testing.assert_allclose(agent.V, V, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(agent.policy, policy)


def sampled(mdp, policy, draws):
    from discreet.mdp import _kernels

    H = mdp.horizon
    states, actions, rewards = np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty(H)
    _kernels.sample(tuple(mdp.sample_tables), policy, draws, states, actions, rewards)
    return Trajectory(states, actions, rewards)


def test_with_its_noise_tuned_it_learns():
    """Must show: regret in the last tenth below a tenth of never learning."""
    agent = scaled(1e-4, episodes=50_000)
    last = dc.simulate(agent, RIVERSWIM, seed=0).gaps[-5000:].mean()
    uniform = np.full((20, 6, 2), 0.5)
    assert last < 0.1 * (RIVERSWIM.optimal_value - RIVERSWIM.evaluate(uniform))


def counts_of(agent):
    """The raw counts of those who are still active."""
    return agent.mechanism.layout.split(agent.privatizer.reveal().total)


def recovered(agent, mdp):
    """Lets everybody play, and computes the perturbation of every release from the raw counts, (releases, H, S, A)."""
    found = []

    def keep(released, _policy, count):
        N, M, R = counts_of(agent)
        found.append(reference.rlsvi_noise(released.values, N, M, R, k=count + 1) / math.sqrt(agent.noise_scale))

    agent.on_release = keep
    dc.simulate(agent, mdp, seed=3, block=False)
    return np.array(found)


def check_fresh(w):
    """Raises unless perturbations are standard normal and independent from one release to the next."""
    n = w[0].size * (len(w) - 1)
    if abs((w[1:] * w[:-1]).mean()) > 5 / math.sqrt(n):
        raise CheckFailed("a perturbation is used twice")
    if abs(w.mean()) > 5 / math.sqrt(w.size) or abs((w**2).mean() - 1) > 5 * math.sqrt(2 / w.size):
        raise CheckFailed("the perturbation has another scale")


@pytest.mark.parametrize("options", [{}, {"accounting": "individual"}, {"stationary": True, "update_every": 3}])
def test_every_release_draws_its_own_noise(options):
    check_fresh(recovered(build(episodes=60, **options), RIVERSWIM))


class Stuck(FastSource):
    """A source that draws once and repeats itself."""

    first = None

    def fill(self, distribution, scale, out):
        if self.first is None:
            self.first = self.generator.standard_normal(out.shape)
        out[...] = scale * self.first


def test_noise_that_is_used_again_is_caught():
    """Must show: a planted bug that keeps w between releases."""
    agent = build(episodes=60)
    agent.anew(Stuck(np.random.default_rng(0)))
    with pytest.raises(CheckFailed, match="used twice"):
        check_fresh(recovered(agent, RIVERSWIM))


class Shrunk(FastSource):
    """A source that draws less than it is asked for."""

    def fill(self, distribution, scale, out):
        super().fill(distribution, scale / math.sqrt(1.5), out)


def test_noise_of_another_scale_is_caught():
    agent = build(episodes=60)
    agent.anew(Shrunk(np.random.default_rng(0)))
    with pytest.raises(CheckFailed, match="another scale"):
        check_fresh(recovered(agent, RIVERSWIM))


def test_the_shift_of_the_released_sequence_is_the_account(rng):
    """Must show: the noise that makes a neighbour release the very same tables differs by exactly what is accounted.

    One person is alone in their cells and all their rewards change; the mechanism itself, fed with the other noise,
    confirms it.
    """
    H, K, spec = 3, 4, Spec(2, 2, 3)
    worlds = []
    for reward in (0.0, 1.0):
        agent = scaled(0.5, spec=spec, episodes=K)
        people = [walk(0, H, reward), *(walk(1, H, 0.3) for _ in range(K - 1))]
        if worlds:
            agent.privatizer.source = Planned(worlds[0][0], agent)
        tables, noise = [], []
        for i, person in enumerate(people):
            if worlds:
                agent.privatizer.source.people = people[: i + 1]
            agent.observe(agent.shuffler([agent.encoder.encode(person, rng)], rng))
            tables.append(agent.Q.copy())
            noise.append(reference.rlsvi_noise(agent.Q, *counts_of(agent), k=agent.count + 1) / math.sqrt(0.5))
        worlds.append((tables, np.array(noise)))
    np.testing.assert_allclose(worlds[0][0], worlds[1][0], atol=1e-10)
    shift = ((worlds[0][1] - worlds[1][1]) ** 2).sum()
    assert shift == pytest.approx(agent.account.tight_mu2 / 0.5, rel=1e-9)


def walk(corner, H, reward):
    return Trajectory(np.full(H + 1, corner), np.full(H, corner), np.full(H, reward))


class Planned(FastSource):
    """Draws just what makes the next table the planned one, for the people so far."""

    def __init__(self, tables, agent):
        super().__init__(np.random.default_rng())
        self.tables, self.agent, self.people = iter(tables), agent, []

    def fill(self, distribution, scale, out):
        layout, Q = self.agent.mechanism.layout, next(self.tables)
        total = np.zeros(layout.size)
        for person in self.people:
            report = self.agent.encoder.encode(person, self)
            np.add.at(total, report.indices, report.values)
        noise = reference.rlsvi_noise(Q, *layout.split(total), k=len(self.people) + 1)
        out[...] = scale * noise.reshape(out.shape) / math.sqrt(self.agent.noise_scale)


# individual


def literal_filter(people, batches, budget, scale, sizes, stationary):
    """The filter by the letter: rounds of 'drop everybody who would exceed, recompute N', with floats.

    Returns who is dropped after each release, (releases, users), and everybody's loss.
    """
    S, A, H = sizes
    cells = np.array([person.states[:-1] * A + person.actions for person in people])
    lost, active, history = np.zeros(len(people)), np.zeros(len(people), dtype=bool), []
    dropped = np.zeros(len(people), dtype=bool)
    for n in batches:
        active[:n] = ~dropped[:n]
        b = scale * float(beta(S, A, H, n + 1))
        while True:
            more = np.zeros(len(people))
            for i in np.flatnonzero(active):
                for h in range(H):
                    for c in np.unique(cells[i]) if stationary else [cells[i, h]]:
                        own = (cells[i] == c).sum() if stationary else 1
                        N = (cells[active] == c).sum() if stationary else (cells[active, h] == c).sum()
                        more[i] += own**2 * (N + 1) / (b * N**2)
            out = active & (lost + more > budget)
            if not out.any():
                break
            active &= ~out
            dropped |= out
        lost += more * active
        history.append(dropped.copy())
    return np.array(history), lost


def served(people, batches, budget, scale, sizes, stationary, capacity=None):
    """The same by the server; returns also the server."""
    spec = Spec(*sizes)
    mechanism = PerturbedTables(
        spec,
        capacity=capacity or len(people),
        releases=len(batches),
        stationary=stationary,
        scale=scale,
        promise=lambda _scale, _budget: dc.NonPrivate().guarantee,
        budget=budget,
    )
    shuffler, source = mechanism.shuffler(), FastSource(np.random.default_rng(0))
    server = Privatizer(mechanism, source)
    history, start = [], 0
    for n in batches:
        server.observe(shuffler([server.encoder.encode(person, source) for person in people[start:n]]))
        found = np.zeros(len(people), dtype=bool)
        found[:n] = revealed(server).dropped
        history.append(found)
        start = n
    return np.array(history), server


def revealed(server):
    """What everybody has lost."""
    return server.mechanism.reveal(server.reveal())


def random_people(rng, count, sizes):
    S, A, H = sizes
    skew = rng.dirichlet(np.full(S, 0.4))  # some cells are rare
    return [Trajectory(rng.choice(S, size=H + 1, p=skew), rng.integers(A, size=H), rng.random(H)) for _ in range(count)]


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_filter_drops_whom_it_must_and_nobody_else(seed, stationary):
    """Must show: random histories, every release; losses recomputed independently stay within the budget."""
    rng = np.random.default_rng(seed)
    sizes = (4, 2, 3)
    people = random_people(rng, 60, sizes)
    batches = sorted({*rng.integers(1, 60, size=25).tolist(), 60})
    scale = 0.2
    _, free = literal_filter(people, batches, math.inf, scale, sizes, stationary)
    budget = float(np.quantile(free, 0.9))
    expected, lost = literal_filter(people, batches, budget, scale, sizes, stationary)
    found, server = served(people, batches, budget, scale, sizes, stationary)
    np.testing.assert_array_equal(found, expected)
    assert 0 < found[-1].sum() < 60
    assert (lost <= budget).all()
    np.testing.assert_allclose(revealed(server).mu2, lost, rtol=1e-8)
    assert (revealed(server).mu2 >= lost * (1 - 1e-12)).all()  # rounded up, never down


def test_dropped_people_leave_nothing_behind(rng):
    """Their rewards are out of the sums to the last bit: what is left is the sum over those who stay."""
    sizes, people = (4, 2, 3), random_people(rng, 60, (4, 2, 3))
    batches = list(range(2, 61, 2))
    _, free = literal_filter(people, batches, math.inf, 0.2, sizes, stationary=False)
    _, server = served(people, batches, float(np.quantile(free, 0.9)), 0.2, sizes, stationary=False)
    dropped = revealed(server).dropped
    assert 0 < dropped.sum() < 60
    staying = [person for person, out in zip(people, dropped, strict=True) if not out]
    _, alone = served(staying, [len(staying)], 1e9, 0.2, sizes, stationary=False, capacity=60)
    np.testing.assert_array_equal(server.reveal().total, alone.reveal().total)


def test_a_cascade_is_followed_to_its_end():
    """Must show: dropping one user makes another one's cell dearer, who exceeds the budget only then."""
    sizes = S, A, H = (3, 1, 4)

    def goes(*states):
        return Trajectory(np.array([*states, 0]), np.zeros(H, dtype=np.int64), np.zeros(H))

    dummy = goes(0, 0, 0, 0)
    first, second, third = goes(1, 0, 0, 0), goes(1, 1, 1, 1), goes(0, 0, 0, 1)
    people = [first, *[dummy] * 50, dummy, dummy, second, third]
    batches, b = [51, 52, 53, 55], float(beta(S, A, H, 54))
    budget = 6.5 / b
    expected, lost = literal_filter(people, batches, budget, 1.0, sizes, stationary=False)
    found, server = served(people, batches, budget, 1.0, sizes, stationary=False)
    np.testing.assert_array_equal(found, expected)
    assert np.flatnonzero(found[-1]).tolist() == [0, 53]
    assert not found[:-1].any()
    alone, together = 0.75 + 2 + 2 + 0.75, 2 + 2 + 2 + 0.75  # the second user's loss while the first is there, and not
    assert alone < 6.5 < together
    assert revealed(server).mu2[53] == 0 == lost[53]


@pytest.mark.slow
def test_individual_accounts_allow_less_noise_and_no_more_regret():
    """Must show: at most half of tight's noise, regret no worse by two standard errors; who is dropped is counted."""
    differences, dropped = [], []
    for seed in range(10):
        tight, own = (
            build(episodes=50_000, accounting=accountant, update_every=500, seed=seed)
            for accountant in ("tight", "individual")
        )
        assert own.noise_scale <= 0.5 * tight.noise_scale
        regrets = [dc.simulate(agent, RIVERSWIM, seed=seed).regret[-1] for agent in (tight, own)]
        differences.append(regrets[1] - regrets[0])
        revealed = own.reveal_losses()
        dropped.append(int(revealed.dropped.sum()))
        assert revealed.mu2.max() <= losses_of(own)
    mean, error = np.mean(differences), np.std(differences, ddof=1) / math.sqrt(10)
    print(f"difference {mean:,.0f} ± {error:,.0f}; dropped {dropped}")  # noqa: T201
    assert mean <= 2 * error
    assert max(dropped) < 2500


# the contract


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accounting": "individual"},
        {"accounting": "individual", "noise_scale": 1e-3, "update_every": 7},
        {"accounting": "individual", "noise_scale": 1e-3, "stationary": True},
        {"accounting": "paper", "update_every": "geometric"},
        {"privacy": None, "noise_scale": 0.1, "delta": 1e-6},
        {"privacy": dc.NonPrivate(), "noise_scale": 0.1},
    ],
)
def test_the_protocol_and_replay(options):
    """Must show: every policy is a function of the perturbed tables; both paths agree to the last bit."""
    testing.check_agent(lambda spec, episodes, seed: build(spec, episodes, seed=seed, **options))


def test_guarantees_are_computed_from_what_was_built():
    """Would catch a budget that is copied back."""
    agent = build()
    agent.mechanism.parameters[0] /= 4
    assert agent.guarantee.epsilon > 1.9
    agent = build(accounting="individual")
    agent.mechanism.budget *= 4
    assert agent.guarantee.epsilon > 1.9


def test_raw_counts_that_steer_a_policy_are_caught():
    class Peeks(RLSVI):
        def _learn(self, *given):
            planned, proposal = super()._learn(*given)
            planned.policy[0, 0] = int(self.privatizer.reveal().total[0]) % 2
            return planned, proposal

    def make(spec, episodes, seed):
        return Peeks(spec, episodes=episodes, seed=seed, privacy=BUDGET)

    with pytest.raises(CheckFailed, match="function of what was released"):
        testing.check_agent(make)


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("accounting_", ["tight", "individual"])
def test_a_saved_agent_goes_on_bit_for_bit(tmp_path, accounting_, stationary):
    """The filter's accounts, the people it may still drop, the noise scale and the generator travel."""
    options = {"accounting": accounting_, "stationary": stationary, "update_every": 7, "episodes": 200}
    if accounting_ == "individual":
        options["noise_scale"] = 0.005 if stationary else 0.003
    whole, parts = build(**options), build(**options)
    expected, gaps = dc.simulate(whole, RIVERSWIM, seed=1).gaps, []
    for i, people in enumerate((0, 14, 45, 100, 41)):
        if people:
            gaps.append(dc.simulate(parts, RIVERSWIM, people, seed=1, block=i % 2 == 0).gaps)
        parts.save(tmp_path / "agent")
        parts = dc.agents.load(tmp_path / "agent")
    np.testing.assert_array_equal(np.concatenate(gaps), expected)
    assert handover.pack(parts) == handover.pack(whole)
    assert parts.guarantee == whole.guarantee
    if accounting_ == "individual":
        assert 0 < whole.reveal_losses().dropped.sum() < 200
        np.testing.assert_array_equal(parts.reveal_losses().mu2, whole.reveal_losses().mu2)


def test_beginning_anew_forgets_everybody():
    """Would catch an account, a sum or a drop that outlives its people: auditors run an agent often."""
    agent, gaps = build(accounting="individual", noise_scale=0.003, episodes=300), []
    for _ in range(2):
        agent.anew(FastSource(np.random.default_rng(4)))
        gaps.append(dc.simulate(agent, RIVERSWIM, 300, seed=1).gaps)
        assert 0 < agent.reveal_losses().dropped.sum() < 300
    np.testing.assert_array_equal(*gaps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_scale": 1.0}, "cannot both be given.*noise_scale=1.0"),
        ({"noise_scale": 1.0, "accounting": "paper"}, "cannot both be given"),
        ({"privacy": None, "accounting": "individual"}, "individual.*needs privacy"),
        ({"privacy": None, "accounting": "individual", "noise_scale": 1.0, "delta": 1e-6}, "individual.*needs privacy"),
        ({"privacy": dc.NonPrivate(), "accounting": "individual"}, "individual.*needs privacy.*got privacy=NonPrivate"),
        ({"privacy": dc.Central(1.0)}, "delta > 0, got delta=0.0"),
        ({"privacy": dc.Central(1.0), "accounting": "individual"}, "delta > 0, got delta=0.0"),
        ({"privacy": None, "noise_scale": 1.0, "delta": 0.0}, "delta > 0, got delta=0.0"),
        ({"privacy": None, "noise_scale": 1.0}, "delta=None"),
        ({"privacy": None}, "rlsvi needs privacy=Central.*noise_scale=None"),
        ({"privacy": None, "noise_scale": 0.0, "delta": 1e-6}, "noise_scale=0.0"),
        ({"privacy": None, "noise_scale": 1.0, "delta": 1.5}, "delta=1.5"),
        ({"delta": 1e-6}, "without privacy, got delta=1e-06"),
        ({"privacy": dc.Local(1.0)}, "privacy must be Central.*got Local"),
        ({"privacy": dc.Shuffle(1.0, 1e-6)}, "privacy must be Central.*got Shuffle"),
        ({"privacy": "central"}, "privacy must be Central.*got str"),
        ({"privacy": dc.Central(1.0, 1e-6, sum="tree")}, "sum must be 'auto', got sum='tree'"),
        ({"privacy": dc.Central(1.0, 1e-6, calibration="paper")}, "calibration must be 'sound'"),
        ({"accounting": "exact"}, "unknown accounting 'exact'.*tight"),
        ({"accounting": "paper", "stationary": True}, "Corollary 14.*stationary must be False"),
        ({"bonus_scale": 1.0}, "option of rlsvi"),
    ],
)
def test_what_cannot_be_proven_is_refused(options, message):
    """Must show: with the reason, in one line, before anybody is asked."""
    with pytest.raises(InvalidInput, match=message) as caught:
        build(**options)
    assert "\n" not in str(caught.value)


def test_realised_losses_are_asked_for_by_name():
    with pytest.raises(InvalidInput, match="only accounting='individual'"):
        build().reveal_losses()
    agent = build(accounting="individual", episodes=200)
    result = dc.simulate(agent, RIVERSWIM, seed=0)
    shown = repr(agent) + repr(result) + repr(vars(result)) + str(agent.guarantee)
    assert "drop" not in shown
    assert len(agent.reveal_losses().mu2) == 200


def test_everything_printed_says_what_is_not_protected(discreet_, tmp_path):
    """Must show: run, budget, sweep, report, results, audit and list, in words."""
    words = "states and actions are not protected"
    assert words in str(build().guarantee)
    assert words in repr(build())
    run = ("run", "riverswim", "--agent", "rlsvi", "-e", "1", "-d", "1e-6", "-K", "20", "--seed", "0", "--quiet")
    sweep = tmp_path / "values.toml"
    sweep.write_text('env = "riverswim"\nagent = "rlsvi"\ndelta = 1e-6\nepisodes = 20\nepsilon = 1\n')
    out = str(tmp_path / "out")
    for command in (
        run,
        (*run, "--json"),
        ("budget", "riverswim", "--agent", "rlsvi", "-e", "1", "-d", "1e-6"),
        ("budget", "riverswim", "--agent", "rlsvi", "-e", "1", "-d", "1e-6", "--json"),
        ("audit", "rlsvi", "-d", "1e-6", "--runs", "100", "--reads", "1", "--seed", "0"),
        ("list",),
        ("sweep", str(sweep), "--out", out, "--quiet", "--workers", "1"),
        ("results", "ls", out),
        ("results", "show", out, ""),
        ("report", out),
    ):
        code, stdout, stderr = discreet_(*command)
        assert code == 0, stderr
        if command[0] not in ("sweep", "report"):
            assert words in stdout, command
        elif command[0] == "sweep":
            assert words in stderr
    assert words in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, v: (i, np.where(np.arange(v.shape[1]) >= 40, 1.5, v)), r"rewards must lie in \[0, 1\]"),
        (lambda i, v: (i, np.where(np.arange(v.shape[1]) >= 40, np.nan, v)), r"rewards must lie in \[0, 1\]"),
        (lambda i, v: (i, v * 2), "must be 1"),
        (lambda i, v: (i[:, ::-1], v), "one visit, one transition and one reward"),
        (lambda i, v: (i[:, :-1], v[:, :-1]), "one shape"),
    ],
)
def test_reports_that_the_encoder_did_not_make_are_refused(rng, change, message):
    """The account needs one cell a step and rewards in [0, 1]; errors name the field and the bound, nobody's data."""
    agent = build()
    report = agent.encoder.encode(RIVERSWIM.sample(agent.policy, rng), rng)
    batch = agent.shuffler([report], rng)
    before = handover.pack(agent)
    with pytest.raises(InvalidInput, match=message):
        agent.observe(RawBatch(*change(batch.indices, batch.values)))
    assert handover.pack(agent) == before


# audits


#: Noise scales at which the filter drops the attacked user after some of the releases.
FILTERED = [
    {"accounting": "individual", "noise_scale": 0.5},
    {"accounting": "individual", "noise_scale": 0.6, "stationary": True},
]
SLOW = [pytest.param(options, marks=pytest.mark.slow) for options in FILTERED]


def attacked(**options):
    return audit.named("rlsvi", epsilon=2.0, delta=1e-2, steps=2, reads=3, **options)


@pytest.mark.parametrize("options", [{}, pytest.param({"stationary": True}, marks=pytest.mark.slow), *SLOW])
def test_no_attack_exceeds_the_claim(options):
    """Must show: for tight and individual, and the attack finds a good part of what is there."""
    finding = audit.audit(attacked(**options), runs=800, seed=1)
    assert not finding.violated
    assert finding.lower_bound > 0.3


class Halved(PerturbedTables):
    """Draws half the noise and tells nobody; the filter believes in the whole."""

    def released(self, kept, source):
        return super().released(kept, HalvedSource(source.generator))


class HalvedSource(FastSource):
    def fill(self, distribution, scale, out):
        super().fill(distribution, scale / 2, out)


class Unfiltered(PerturbedTables):
    """Forgets to drop anybody."""

    def released(self, kept, source):
        budget, self.budget = self.budget, None
        try:
            return super().released(kept, source)
        finally:
            self.budget = budget


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, *FILTERED])
def test_halved_noise_is_caught(options):
    """Must show: by the audit."""
    target = attacked(**options)
    target.prototype.mechanism.__class__ = Halved
    assert audit.audit(target, runs=2500, seed=1).violated


@pytest.mark.slow
def test_a_filter_that_drops_nobody_is_caught():
    target = attacked(accounting="individual", noise_scale=0.05)
    target.prototype.mechanism.__class__ = Unfiltered
    assert audit.audit(target, runs=2000, seed=1).violated

"""discreet-vi under shuffle privacy: protocol, replay, save, kernels against NumPy, and that it learns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import integrate, stats

import discreet as dc
from discreet import testing
from discreet.agents._kernels import discreet_shuffle as kernels
from discreet.agents._kernels import sparse
from discreet.agents.discreet import shuffle as discreet_shuffle
from discreet.agents.discreet.shuffle import SETTINGS, batch_sizes
from discreet.privacy import Batch, BitsReport, Report, ShuffledBatch
from discreet.runtime import handover
from discreet.runtime.fast import SimulatedReport
from tests.conftest import every_other

MDP = dc.envs.riverswim(states=3, horizon=4)
PRIVACY = dc.Shuffle(1.0, 1e-6)


def build(spec=MDP.spec, episodes=200, privacy=PRIVACY, stationary=True, seed=0, **options):
    return dc.agents.make(
        "discreet-vi", spec, episodes=episodes, privacy=privacy, stationary=stationary, seed=seed, **options
    )


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("update_every", [None, 7])
def test_it_keeps_the_protocol(stationary, update_every):
    """Also replays: every policy comes from what was released."""
    testing.check_agent(
        lambda spec, episodes, seed: build(spec, episodes, stationary=stationary, update_every=update_every, seed=seed)
    )


def test_a_longer_run_is_replayed_and_the_questions_are_too():
    """Must show: policies and questions of 40 batches are functions of the releases and the agent's own randomness."""
    mdp = dc.envs.riverswim(states=4, horizon=8)
    agent, again = (build(mdp.spec, 4000, update_every=100) for _ in range(2))
    played, asked = testing.record(agent), []
    real = agent.learner.plan

    def plan(*args):
        found = real(*args)
        asked.append(found[1].carried)
        return found

    agent.learner.plan = plan
    dc.simulate(agent, mdp, seed=1)
    assert len({len(carried["cells"]) for carried in asked if carried}) > 1  # they do depend on the releases
    replayed = []
    real_again = again.learner.plan

    def plan_again(*args):
        found = real_again(*args)
        replayed.append(found[1].carried)
        return found

    again.learner.plan = plan_again
    testing.replay(played, again)
    for one, two in zip(asked, replayed, strict=True):
        assert one.keys() == two.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], two[key])


@pytest.mark.parametrize("stationary", [True, False])
def test_the_tally_and_the_protocol_give_the_same_numbers(stationary):
    agents = [build(episodes=300, stationary=stationary) for _ in range(2)]
    gaps = [
        dc.simulate(agent, MDP, seed=3, block=block).gaps for agent, block in zip(agents, (True, False), strict=True)
    ]
    np.testing.assert_array_equal(*gaps)
    assert handover.pack(agents[0]) == handover.pack(agents[1])


@pytest.mark.parametrize(("stationary", "update_every"), every_other([True, False], [None, 7, "geometric"]))
def test_a_saved_agent_goes_on_bit_for_bit(stationary, update_every, tmp_path):
    """At the start, at a batch's end, within batches, and at the end; calibrations travel."""
    path, stops = tmp_path / "agent", (0, 7, 10, 24, 61, 80)
    whole, parts = (build(episodes=80, stationary=stationary, update_every=update_every) for _ in range(2))
    expected, gaps = dc.simulate(whole, MDP, 80, seed=1, block=False).gaps, []
    for i, (start, stop) in enumerate(zip((0, *stops), stops, strict=False)):
        if stop > start:
            gaps.append(dc.simulate(parts, MDP, stop - start, seed=1, block=i % 2 == 0).gaps)
        parts.save(path)
        parts = dc.agents.load(path)
    np.testing.assert_array_equal(np.concatenate(gaps), expected)
    assert parts.guarantee == whole.guarantee
    assert handover.pack(parts) == handover.pack(whole)


def test_what_was_calibrated_travels(tmp_path, monkeypatch):
    agent = build(episodes=80)
    dc.simulate(agent, MDP, 20, seed=1)
    expected = noise(agent), agent.mechanism.error, agent.guarantee
    agent.save(tmp_path / "agent")
    monkeypatch.setattr("discreet.privacy.binomial.calibrate_symmetric", lambda *_: (500, 0.5))
    again = dc.agents.load(tmp_path / "agent")
    assert (noise(again), again.mechanism.error, again.guarantee) == expected
    assert noise(build(episodes=80)) != expected[0]


def noise(agent):
    """What was calibrated for each size of batch."""
    return {users: encoder.noise for users, encoder in agent.mechanism.tables.items()}


def test_all_messages_can_be_sent():
    """The path on which every bit is drawn: the learner does not know which one it is on."""
    agent = build(episodes=60, update_every=8)
    dc.simulate(agent, MDP, 3, seed=1, messages=True)
    assert {type(report) for report in agent.shuffler.reports} == {BitsReport}
    dc.simulate(agent, MDP, 2, seed=1)  # a batch whose people sent messages goes on with messages
    assert {type(report) for report in agent.shuffler.reports} == {BitsReport}
    dc.simulate(agent, MDP, 5, seed=1)
    assert {type(report) for report in agent.shuffler.reports} == {SimulatedReport}
    dc.simulate(agent, MDP, 50, seed=1, messages=True)
    assert agent.count == 56


def test_the_server_sees_batches_only():
    """Must show: a spy in the place of `observe`, `folded` and `plan` sees no trajectory and no report."""
    agent, seen = build(episodes=40), []

    def spied(owner, name):
        real = getattr(owner, name)

        def call(*args):
            seen.extend(args)
            return real(*args)

        setattr(owner, name, call)

    spied(agent, "observe")
    spied(agent.privatizer, "observe")
    spied(agent.mechanism, "folded")
    spied(agent.learner, "plan")
    dc.simulate(agent, MDP, 40, seed=1, block=False)
    assert any(isinstance(x, ShuffledBatch) for x in seen)
    assert not any(isinstance(x, Report | dc.Trajectory) for x in seen)
    assert all(type(x) is ShuffledBatch for x in seen if isinstance(x, Batch))


@pytest.mark.parametrize("release", ["nmr", "mr"])
def test_other_releases_are_refused_with_the_reason(release):
    with pytest.raises(ValueError, match="plans on first visits, which need far less noise"):
        build(privacy=dc.Shuffle(1.0, 1e-6, release=release))
    with pytest.raises(ValueError, match="claims no theorem"):
        build(preset="theory")
    with pytest.raises(ValueError, match="paper"):
        build(privacy=dc.Shuffle(1.0, 1e-6, calibration="paper"))


def test_auto_means_first_visits():
    one, two = build(), build(privacy=dc.Shuffle(1.0, 1e-6, release="first-visits"))
    assert noise(one) == noise(two)
    assert one.guarantee == two.guarantee
    assert 0.99 <= one.guarantee.epsilon <= 1.0
    assert one.resolved["sum"] == "binomial"


@pytest.mark.parametrize(("eps", "episodes", "honest"), [(1.0, 50_000, 1.0), (0.1, 50_000, 1.0), (3.0, 777, 0.5)])
def test_the_schedule_is_public_and_grows(eps, episodes, honest):
    """Few sizes (each is calibrated for), that grow with the users so far, from a size that the noise decides."""
    std = discreet_shuffle.unit(dc.Shuffle(eps, 1e-6, honest_fraction=honest))
    sizes = batch_sizes(episodes, std, SETTINGS)
    assert sum(sizes) <= episodes < sum(sizes) + 2 * sizes[-1]
    assert list(sizes) == sorted(sizes)
    assert len(set(sizes)) <= 12
    assert sizes[0] == min(int(np.ceil(SETTINGS.first * std)), episodes // 10)
    for size, before in zip(sizes, np.cumsum([0, *sizes]), strict=False):
        assert size <= max(sizes[0], SETTINGS.growth * before + 1)


def test_posterior_means_are_bayes():
    """Against numerical integration of the spike and the slab."""
    for y in (-20.0, 0.0, 3.0, 40.0, 99.0, 130.0):
        for spike in (0.0, 0.5, 0.95):
            deviation, top = 7.0, 100.0
            points = [min(max(y, 0), 100)]
            slab, first = (
                integrate.quad(lambda x, k=k, y=y: x**k * stats.norm.pdf(y, x, 7.0) / 100, 0, 100, points=points)[0]
                for k in (0, 1)
            )
            truth = (1 - spike) * first / ((1 - spike) * slab + spike * stats.norm.pdf(y, 0, 7.0))
            assert sparse.posterior_mean(y, deviation, top, spike) == pytest.approx(truth, rel=1e-6)
    assert sparse.posterior_mean(-1e4, 1.0, 100.0, 0.5) == 0.0
    assert sparse.posterior_mean(1e4, 1.0, 100.0, 0.5) == 100.0
    assert sparse.posterior_mean(5.0, 1.0, 0.0, 0.5) == 0.0


def reference_plan(P, r, known, width, scale, hope, keys):
    """Backward induction by the letter."""
    (H, S, A), steps = keys.shape, len(P)
    V, policy = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
    for h in reversed(range(H)):
        i = h if steps > 1 else 0
        for s in range(S):
            Q = np.empty(A)
            for a in range(A):
                mean = P[i, s, a] @ V[h + 1]
                spread = np.linalg.norm(V[h + 1] - mean)
                bonus = scale * width[i, s, a] * (1 + spread)
                Q[a] = min(r[i, s, a] + mean + bonus, H - h) if known[i, s, a] else hope * (H - h)
            best = np.flatnonzero(Q.max() - Q < 1e-9)
            policy[h, s] = best[np.argmax(keys[h, s, best])]
            V[h, s] = Q.max()
    return V, policy


def reference_visits(P, known, initial, policy, rng, users):
    """What users do in a model in which whoever takes an unknown cell is lost, played out."""
    (steps, S, A, _), H = P.shape, len(policy)
    often, once = np.zeros((steps, S, A)), np.zeros((steps, S, A))
    for _ in range(users):
        s, seen = rng.choice(S, p=initial), np.zeros((steps, S, A), dtype=bool)
        for h in range(H):
            i, a = h if steps > 1 else 0, policy[h, s]
            often[i, s, a] += 1
            seen[i, s, a] = True
            if not known[i, s, a]:
                break
            s = rng.choice(S, p=P[i, s, a])
        once += seen
    return often / users, once / users


def random_model(rng, steps, S=3, A=2):
    P = rng.dirichlet(np.ones(S), size=(steps, S, A))
    known = rng.random((steps, S, A)) < 0.7
    return P, rng.random((steps, S, A)), known, rng.random((steps, S, A))


@pytest.mark.parametrize("steps", [1, 5])
def test_plans_equal_the_reference(rng, steps):
    for scale, hope in ((0.0, 0.0), (0.3, 1.0), (0.0, 1.0)):
        model, keys = random_model(rng, steps), rng.random((5, 3, 2))
        V, policy = np.zeros((6, 3)), np.zeros((5, 3), dtype=np.int64)
        kernels.plan(*model, scale, hope, keys, V, policy)
        expected = reference_plan(*model, scale, hope, keys)
        np.testing.assert_allclose(V, expected[0], atol=1e-12)
        np.testing.assert_array_equal(policy, expected[1])


@pytest.mark.parametrize("steps", [1, 4])
def test_predicted_visits_are_those_of_a_simulation(rng, steps):
    """Would catch a return that is counted as a first visit, and unknown cells that lead on."""
    P, _, known, _ = random_model(rng, steps)
    initial, policy, users = np.array([0.5, 0.5, 0.0]), rng.integers(2, size=(4, 3)), 4000
    expected, chance = np.zeros(known.shape), np.zeros(known.shape)
    kernels.visited(P, known, initial, policy, 1.0, expected, chance)
    often, once = reference_visits(P, known, initial, policy, rng, users)
    assert np.abs(expected - often).max() < 5 * 2 / np.sqrt(users)
    assert np.abs(chance - once).max() < 5 * 0.5 / np.sqrt(users)
    assert (chance <= expected + 1e-12).all()


def test_first_questions_are_about_the_start():
    """Nothing is known: cells that nobody can be seen in are not asked about."""
    agent = build(dc.envs.riverswim().spec, 5000)
    assert set(agent.plan.encoder.cells) <= {0, 1}
    agent = build(dc.envs.riverswim().spec, 5000, stationary=False)
    assert set(agent.plan.encoder.cells) <= {0, 1}


def test_it_finds_the_far_end_of_the_river():
    """Must show: three seeds, mean regret far below the 13,000 asked for, and the last policies are nearly optimal."""
    mdp, regrets = dc.envs.riverswim(states=6, horizon=20), []
    for i in range(3):
        result = dc.simulate(build(mdp.spec, 20_000, seed=[7, i]), mdp, seed=[7, i])
        regrets.append(result.regret[-1])
        assert result.gaps[-2000:].mean() < 0.1
    assert np.mean(regrets) < 6000


@pytest.mark.slow
@pytest.mark.parametrize(("episodes", "most"), [(50_000, 13_000), (200_000, 15_000)])
def test_no_run_of_forty_fails_to_learn(episodes, most):
    mdp, regrets = dc.envs.riverswim(states=6, horizon=20), []
    for i in range(40):
        agent = build(mdp.spec, episodes, seed=[31, i])
        assert 0.99 <= agent.guarantee.epsilon <= 1.0
        result = dc.simulate(agent, mdp, seed=[31, i])
        regrets.append(result.regret[-1])
        assert result.gaps[-episodes // 10 :].mean() < 0.1
    assert np.mean(regrets) < most / 2


def test_each_ingredient_can_be_taken_away(monkeypatch):
    """The ablation's settings run."""
    for change in ({"weighted": False}, {"exploit": False}, {"chosen": False}, {"spike": 0.0, "reward_spike": 0.0}):
        monkeypatch.setattr(discreet_shuffle, "SETTINGS", dataclasses.replace(SETTINGS, **change))
        dc.simulate(build(episodes=300), MDP, seed=0)

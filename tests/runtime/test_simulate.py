"""Same seed, same people, same numbers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import discreet as dc
from discreet.agents.ucbvi import UCBVI
from discreet.runtime.fast import short_cut
from tests.conftest import CENTRAL, PRIVATE, UPDATED, every_other, make_agent, random_mdp

RIVERSWIM = dc.envs.riverswim(states=6, horizon=20)
SMALL = dc.envs.riverswim(states=3, horizon=5)


def run(agent_seed=0, seed=0, mdp=RIVERSWIM, name="ucbvi", episodes=300, **options):
    block = options.pop("block", True)
    agent = make_agent(name, mdp.spec, episodes=episodes, seed=agent_seed, **options)
    return dc.simulate(agent, mdp, seed=seed, block=block)


@pytest.mark.parametrize("name", UPDATED)
@pytest.mark.parametrize(("stationary", "update_every"), every_other([True, False], [1, 7, "geometric", 1000]))
def test_block_and_protocol_are_equal_bit_for_bit(name, stationary, update_every):
    for mdp in (RIVERSWIM, dc.envs.hard(), dc.envs.random(per_step=True, reward_noise="bernoulli")):
        options = {
            "mdp": mdp,
            "name": name,
            "stationary": stationary,
            "update_every": update_every,
            "episodes": 100,
        }
        np.testing.assert_array_equal(run(**options).gaps, run(**options, block=False).gaps)


@pytest.mark.parametrize(("trust", "update_every"), every_other(CENTRAL, [1, 7, "geometric"]))
@pytest.mark.parametrize("name", PRIVATE)
def test_private_blocks_equal_the_protocol_bit_for_bit(name, trust, update_every):
    """Noise, releases, projection and plans; and stopping anywhere, with the two paths mixed."""
    for stationary in (True, False):
        whole, parts = (
            make_agent(
                name,
                SMALL.spec,
                trust=trust,
                episodes=60,
                stationary=stationary,
                update_every=update_every,
                seed=0,
            )
            for _ in range(2)
        )
        assert short_cut(whole) is not None
        expected = dc.simulate(whole, SMALL, seed=0, block=False).gaps
        pieces = [
            dc.simulate(parts, SMALL, n, seed=0, block=block).gaps
            for n, block in ((3, True), (20, False), (24, True), (1, True), (12, True))
        ]
        np.testing.assert_array_equal(np.concatenate(pieces), expected)
        for field in ("Q", "V", "policy"):
            np.testing.assert_array_equal(getattr(parts, field), getattr(whole, field))
        np.testing.assert_array_equal(parts.privatizer.last.transitions, whole.privatizer.last.transitions)


def test_what_was_told_is_never_taken_back():
    """A callback that fails, on either path: the noise of what it was told is not used for other people."""
    for block in (True, False):
        agent = make_agent("dp-ucbvi", RIVERSWIM.spec, episodes=60, stationary=True, seed=0)
        told = []

        def tell(released, _policy, count, told=told):
            told.append((count, released.transitions.copy()))
            if len(told) == 5:
                raise RuntimeError("full")

        agent.on_release = tell
        with pytest.raises(RuntimeError, match="full"):
            dc.simulate(agent, RIVERSWIM, 20, seed=0, block=block)
        agent.on_release = None
        assert agent.count >= told[-1][0]


def test_an_interrupted_shuffler_is_asked_again(monkeypatch):
    """It would go on for ever: the batch is complete, and nobody hands it on."""
    agent = make_agent("dp-ucbvi", RIVERSWIM.spec, trust="local laplace", episodes=30, update_every=10, seed=0)
    kind, calls = type(agent.shuffler), []
    real = kind.__call__

    def interrupted(self, reports, rng=None):
        calls.append(len(reports))
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(self, reports, rng)

    monkeypatch.setattr(kind, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dc.simulate(agent, RIVERSWIM, seed=0, block=False)
    assert (agent.count, len(agent.shuffler.reports)) == (0, 10)
    dc.simulate(agent, RIVERSWIM, seed=0, block=False)
    assert (agent.count, calls) == (30, [10, 10, 10, 10])


def test_agents_are_not_copied():
    """Two copies would hide different users behind the same noise."""
    agent = make_agent("dp-ucbvi", RIVERSWIM.spec, episodes=30, seed=0)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not copied"):
            copying(agent)


def test_the_same_seed_gives_the_same_numbers():
    np.testing.assert_array_equal(run().gaps, run().gaps)
    assert not np.array_equal(run(seed=0).gaps, run(seed=1).gaps)


def test_the_same_seed_gives_the_same_numbers_in_another_process(python):
    code = """if True:
        import discreet as dc
        mdp = dc.envs.riverswim(states=6, horizon=20)
        agent = dc.agents.make("ucbvi", mdp.spec, episodes=300, seed=0)
        print(dc.simulate(agent, mdp, seed=0).gaps.tobytes().hex())
    """
    assert python(code) == run().gaps.tobytes().hex()


def test_stopping_and_going_on_changes_nothing():
    """Also within a batch, and with the two paths mixed."""
    for update_every in (1, 7, "geometric"):
        whole = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=300, update_every=update_every, seed=0)
        parts = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=300, update_every=update_every, seed=0)
        expected = dc.simulate(whole, RIVERSWIM, seed=0).gaps
        pieces = [
            dc.simulate(parts, RIVERSWIM, n, seed=0, block=block).gaps
            for n, block in ((3, True), (50, False), (100, True), (1, True), (146, True))
        ]
        np.testing.assert_array_equal(np.concatenate(pieces), expected)
        np.testing.assert_array_equal(parts.Q, whole.Q)


class Watcher:
    """An encoder that remembers whom it met."""

    def __init__(self, encoder):
        self.encoder, self.met = encoder, []

    def encode(self, trajectory, rng):
        self.met.append((trajectory.states, trajectory.actions, trajectory.rewards))
        return self.encoder.encode(trajectory, rng)


def test_people_are_the_same_under_another_agent(rng):
    """Person k draws the same numbers whatever the agent: under one policy they live the same life."""
    mdp = random_mdp(rng, 3, 2, 4)
    met = []
    for name, agent_seed, update_every in (("ucbvi", 0, 1000), ("ucbvi", 1, 1000), ("ubev", 2, 1000)):
        agent = dc.agents.make(name, mdp.spec, episodes=40, update_every=update_every, seed=agent_seed)
        watcher = Watcher(agent.encoder)
        kind = type(agent)
        agent.__class__ = type(kind.__name__, (kind,), {"encoder": watcher})
        dc.simulate(agent, mdp, seed=9, block=False)
        met.append(watcher.met)
    for one, two, three in zip(*met, strict=True):
        for a, b, c in zip(one, two, three, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_gaps_are_exact_and_regret_adds_them_up():
    result = run(episodes=50)
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=50, seed=0)
    gaps = []
    for _ in range(50):
        gaps.append(RIVERSWIM.optimal_value - RIVERSWIM.evaluate(agent.policy))
        dc.simulate(agent, RIVERSWIM, 1, seed=0)
    np.testing.assert_allclose(result.gaps, gaps, atol=1e-12)
    np.testing.assert_allclose(result.regret, np.cumsum(gaps), atol=1e-10)


def test_suboptimal_episodes_are_counted_for_any_alpha():
    result = run()
    assert result.suboptimal(0.5) == (result.gaps > 0.5).sum()
    np.testing.assert_array_equal(result.suboptimal([0, 0.5, 20]), [(result.gaps > a).sum() for a in (0, 0.5, 20)])


def test_seeds_are_recorded():
    result = run(agent_seed=None, seed=None)
    again = run(agent_seed=result.agent_seed, seed=result.seed)
    np.testing.assert_array_equal(result.gaps, again.gaps)
    assert run(seed=[3, 1]).seed == [3, 1]


def test_an_incomplete_batch_is_played_and_not_collected():
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=25, update_every=10, seed=0)
    result = dc.simulate(agent, RIVERSWIM, seed=0)
    assert len(result.gaps) == 25
    assert agent.count == 20


def test_a_large_batch_is_played_in_pieces_of_bounded_size():
    options = {"episodes": 10_001, "update_every": 5_000, "stationary": True}
    np.testing.assert_array_equal(run(**options).gaps, run(**options, block=False).gaps)


class Uniform:
    """The smallest agent that is one, written by somebody else: a stochastic policy that never changes."""

    def __init__(self, spec, episodes):
        self.spec, self.episodes, self.count, self.batch_size = spec, episodes, 0, 5
        self.last = None
        helper = dc.agents.make("ucbvi", spec, episodes=episodes)
        self.encoder, self.shuffler, self.guarantee = helper.encoder, helper.shuffler, helper.guarantee

    @property
    def policy(self):
        return np.full((self.spec.horizon, self.spec.states, self.spec.actions), 1 / self.spec.actions)

    def observe(self, batch):
        if not isinstance(batch, dc.privacy.Batch):
            raise TypeError("no batch")
        if batch is self.last:
            raise ValueError("twice")
        if self.count + batch.users > self.episodes:
            raise ValueError("full")
        self.count += batch.users
        self.last = batch


def test_a_third_partys_agent_can_be_simulated():
    result = dc.simulate(Uniform(RIVERSWIM.spec, 20), RIVERSWIM, seed=0)
    uniform = RIVERSWIM.optimal_value - RIVERSWIM.evaluate(np.full((20, 6, 2), 0.5))
    np.testing.assert_allclose(result.gaps, uniform, atol=1e-12)
    dc.testing.check_agent(lambda spec, episodes, _: Uniform(spec, episodes))


def test_bad_calls_are_named():
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=5)
    with pytest.raises(ValueError, match="horizon=3"):
        dc.simulate(agent, dc.envs.riverswim(horizon=3))
    with pytest.raises(ValueError, match="TabularMDP"):
        dc.simulate(agent, "riverswim")
    with pytest.raises(ValueError, match="episodes=0"):
        dc.simulate(agent, RIVERSWIM, 0)


def test_nothing_is_printed_when_nobody_looks(capfd):
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=50)
    dc.simulate(agent, RIVERSWIM, progress=True)
    assert capfd.readouterr() == ("", "")


def test_progress_shows_rate_and_time_left_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=2000)
    dc.simulate(agent, RIVERSWIM, progress=True, block=False)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "ucbvi on riverswim" in shown.err
    assert "episodes/s" in shown.err


def test_an_interrupt_within_a_large_batch_loses_nothing(monkeypatch):
    """The agent is left at the end of a batch, and going on gives what an uninterrupted run gives."""
    expected = run(episodes=20_000, update_every=9_000, stationary=True).gaps
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=20_000, update_every=9_000, stationary=True, seed=0)
    real, calls = dc.TabularMDP.evaluate_many, []

    def interrupted(self, policies):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return real(self, policies)

    monkeypatch.setattr(dc.TabularMDP, "evaluate_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dc.simulate(agent, RIVERSWIM, seed=0)
    monkeypatch.undo()
    assert agent.count == 9_000
    np.testing.assert_array_equal(dc.simulate(agent, RIVERSWIM, seed=0).gaps, expected[9_000:])


def test_parts_that_somebody_replaced_are_used():
    """A subclass must see what the protocol would show it, though it looks like an agent that has short cuts."""
    seen = []

    class Spy(UCBVI):
        def observe(self, batch):
            seen.append(batch.users)
            super().observe(batch)

    agent = Spy(RIVERSWIM.spec, episodes=30, seed=0)
    np.testing.assert_array_equal(dc.simulate(agent, RIVERSWIM, seed=0).gaps, run(episodes=30).gaps)
    assert seen == [1] * 30


def test_a_last_batch_that_cannot_be_completed_costs_nothing():
    agent = dc.agents.make("ucbvi", RIVERSWIM.spec, episodes=100_000, update_every=60_000, stationary=True, seed=0)
    first = dc.simulate(agent, RIVERSWIM, 70_000, seed=0)
    second = dc.simulate(agent, RIVERSWIM, seed=0)
    assert len(first.gaps) + len(second.gaps) == 100_000
    assert agent.count == 60_000
    assert not agent.shuffler.reports
    assert second.gaps[0] == first.gaps[-1]


def test_a_spawned_seed_can_be_replayed():
    one, two = np.random.SeedSequence(5).spawn(2)
    first, second = run(seed=one), run(seed=two)
    assert not np.array_equal(first.gaps, second.gaps)
    np.testing.assert_array_equal(run(seed=second.seed).gaps, second.gaps)


class InPlace(Uniform):
    """Shows the array that it works on, and changes it."""

    def __init__(self, spec, episodes):
        super().__init__(spec, episodes)
        self.batch_size = 1
        self.array = np.zeros((spec.horizon, spec.states), dtype=np.int64)

    policy = property(lambda self: self.array)

    def observe(self, batch):
        super().observe(batch)
        self.array[...] = 1


def test_gaps_are_of_the_policy_that_was_played():
    gaps = dc.simulate(InPlace(RIVERSWIM.spec, 3), RIVERSWIM, seed=0).gaps
    left, right = (RIVERSWIM.optimal_value - RIVERSWIM.evaluate(np.full((20, 6), a)) for a in (0, 1))
    np.testing.assert_allclose(gaps, [left, right, right], atol=1e-12)

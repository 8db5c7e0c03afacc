"""The checkers catch what they are for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.agents.dp_ucbvi import DPUCBVI
from discreet.agents.ucbvi import UCBVI
from discreet.errors import CheckFailed, InvalidInput
from tests.conftest import PRIVATE, TRUST, every_other, make_agent


def build(spec, episodes, seed, **options):
    return dc.agents.make("ucbvi", spec, episodes=episodes, seed=seed, **{"update_every": 3, **options})


def test_a_simulator_that_lies_is_caught():
    mdp = dc.envs.riverswim(states=3, horizon=4)
    tables = mdp.sample_tables
    mdp.__dict__["sample_tables"] = tables._replace(cumulative=np.minimum(tables.cumulative + 0.05, 1.0))
    with pytest.raises(CheckFailed, match="sampled"):
        testing.check_env(mdp)


class PeeksWithinBatch:
    """Changes its policy when a report comes by."""

    def encode(self, trajectory, rng):
        report = self.inner.encode(trajectory, rng)
        steer(self.agent)
        return report


def steer(agent):
    """Changes the first action of an agent's plan, behind everybody's back."""
    policies = agent.plan.policies.copy()
    policies[:, 0, 0] ^= 1
    agent._mind = agent._mind._replace(plan=dataclasses.replace(agent.plan, policies=policies))


def with_encoder(agent, encoder):
    """Gives an agent another encoder than its plan has."""
    kind = type(agent)
    agent.__class__ = type(kind.__name__, (kind,), {"encoder": encoder})
    return agent


class RepeatsData:
    def encode(self, trajectory, rng):
        try:
            return self.inner.encode(trajectory, rng)
        except InvalidInput as error:
            raise InvalidInput(
                f"{error}: rewards {trajectory.rewards} {trajectory.states} {trajectory.actions}"
            ) from None


class Lenient:
    def encode(self, trajectory, rng):
        return self.inner.encode(
            type(trajectory)(trajectory.states % 4, trajectory.actions % 2, trajectory.rewards % 1), rng
        )


@pytest.mark.parametrize(
    ("encoder", "message"),
    [(PeeksWithinBatch, "encoding at a user changes"), (RepeatsData, "repeats a person's"), (Lenient, "out of bounds")],
)
def test_bad_encoders_are_caught(encoder, message):
    def broken(spec, episodes, seed):
        agent = build(spec, episodes, seed)
        bad = encoder()
        bad.inner, bad.agent = agent.encoder, agent
        return with_encoder(agent, bad)

    with pytest.raises(CheckFailed, match=message):
        testing.check_agent(broken)


def patched(**attributes):
    base = type(build(dc.envs.riverswim().spec, 5, 0))
    kind = type("Patched", (base,), attributes)
    return lambda spec, episodes, seed: kind(spec, episodes=episodes, seed=seed, update_every=3)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"policy": property(lambda self: self.learned.policy)}, "within a batch|writing into"),
        ({"guarantee": 1.0}, "Guarantee"),
        ({"observe": lambda self, batch: None}, "accepts a raw Trajectory|count must grow"),
        ({"fast": True, "planned": lambda self, before, counts: before}, "short cuts and the protocol give different"),
        (
            {"observe": lambda self, batch: UCBVI.observe(self, dataclasses.replace(batch, version=None))},
            "a batch is counted twice",
        ),
    ],
)
def test_bad_agents_are_caught(attributes, message):
    with pytest.raises(CheckFailed, match=message):
        testing.check_agent(patched(**attributes))


def test_an_agent_that_takes_too_many_users_is_caught():
    class Greedy(UCBVI):
        def _check_room(self, users):
            pass

    def greedy(spec, episodes, seed):
        agent = Greedy(spec, episodes=episodes * 2, seed=seed, update_every=3)
        agent.episodes = episodes
        return agent

    with pytest.raises(CheckFailed, match="accepts more"):
        testing.check_agent(greedy)


def test_an_agent_that_forgets_its_seed_is_caught():
    class Moody:
        def __init__(self, spec, episodes):
            self.inner = build(spec, episodes, 0)
            self.first = np.random.default_rng().integers(2, size=(spec.horizon, spec.states))

        def __getattr__(self, name):
            return getattr(self.inner, name)

        policy = property(lambda self: self.first.copy())
        count = property(lambda self: self.inner.count)
        batch_size = property(lambda self: self.inner.batch_size)
        guarantee = property(lambda self: self.inner.guarantee)

        def observe(self, batch):
            self.inner.observe(batch)

    with pytest.raises(CheckFailed, match="second time"):
        testing.check_agent(lambda spec, episodes, _: Moody(spec, episodes))


class NaNFriend:
    def encode(self, trajectory, rng):
        return self.inner.encode(
            type(trajectory)(trajectory.states, trajectory.actions, np.nan_to_num(trajectory.rewards)), rng
        )


def test_an_encoder_that_lets_nan_through_is_caught():
    def broken(spec, episodes, seed):
        agent = build(spec, episodes, seed)
        bad = NaNFriend()
        bad.inner = agent.encoder
        return with_encoder(agent, bad)

    with pytest.raises(CheckFailed, match="accepts rewards"):
        testing.check_agent(broken)


def test_batches_whose_size_depends_on_people_are_caught():
    """The usual 'replan when a count doubles' would leak."""

    class Impatient(type(build(dc.envs.riverswim().spec, 5, 0))):
        @property
        def batch_size(self):
            return 1 if self.privatizer.last.visits[0, 0, 0] > 5 else 2

    with pytest.raises(CheckFailed, match="sizes of batches"):
        testing.check_agent(
            lambda spec, episodes, seed: Impatient(spec, episodes=episodes, seed=seed), dc.envs.random()
        )


def test_a_missing_attribute_is_named():
    class Half:
        spec, episodes = None, 5

    with pytest.raises(CheckFailed, match="lacks the attribute encoder"):
        testing.check_agent(lambda *_: Half())


# replay


RIVERSWIM = dc.envs.riverswim()


@pytest.mark.parametrize(("trust", "preset"), every_other(TRUST, dc.agents.PRESETS))
@pytest.mark.parametrize("name", PRIVATE)
def test_every_policy_can_be_rebuilt_from_what_was_released(name, trust, preset):
    """Must show: every agent, trust model and path, on RiverSwim-6."""
    for block in (True, False):
        agent, again = (
            make_agent(name, RIVERSWIM.spec, trust=trust, preset=preset, episodes=63, update_every=7, seed=3)
            for _ in range(2)
        )
        record = testing.record(agent)
        dc.simulate(agent, RIVERSWIM, seed=1, block=block)
        assert len(record.releases) == len(record.policies) - 1 == 9
        testing.replay(record, again)


class RawBonus(DPUCBVI):
    """Planted: the bonus knows a raw count."""

    def constants(self, error):
        E, parameters = super().constants(error)
        return E, parameters * (1 + self.privatizer.reveal().total.sum())


class RawBonusUnawares(DPUCBVI):
    """Planted: the bonus knows how far people came, from a note that the encoder left behind."""

    note = 0.0

    def constants(self, error):
        E, parameters = super().constants(error)
        return E, parameters * (1 + RawBonusUnawares.note)


def visits(agent):
    """A raw count, if there is one."""
    return agent.privatizer.reveal().total[:12].sum()


class RawSchedule(DPUCBVI):
    """Planted: batches are longer where people often were."""

    @property
    def batch_size(self):
        return 1 + int(visits(self) > 100)


class RawStop(DPUCBVI):
    """Planted: learning stops when a raw count is large enough."""

    def planned(self, before, counts):
        return super().planned(before, counts) if visits(self) < 100 else before


class RawAfterwards(DPUCBVI):
    """Planted: the policy is changed after it was planned, by what people did."""

    def observe(self, batch):
        super().observe(batch)
        if getattr(batch, "values", np.zeros(1)).sum() > 20:
            steer(self)


class RawSilence(DPUCBVI):
    """Planted: nothing is released any more once people have come far enough."""

    def observe(self, batch):
        if visits(self) < 100:
            super().observe(batch)


def _left_behind(agent):
    """Puts an encoder into the agent that leaves a note."""
    inner = agent.encoder

    class Notes(type(inner)):
        def encode(self, trajectory, rng=None):
            RawBonusUnawares.note += trajectory.rewards.sum()
            return super().encode(trajectory, rng)

    with_encoder(agent, Notes(inner.layout))


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("kind", [RawBonus, RawBonusUnawares, RawSchedule, RawStop, RawAfterwards, RawSilence])
def test_raw_counts_that_steer_are_caught(kind, block):
    """Must show: in a bonus, in a schedule and in a stopping rule."""

    def build():
        RawBonusUnawares.note = 0.0
        privacy = dc.Central(100.0, 1e-6)  # little noise, so that policies change
        return kind(RIVERSWIM.spec, episodes=60, privacy=privacy, stationary=True, update_every=1, seed=3)

    agent = build()
    if kind is RawBonusUnawares:
        _left_behind(agent)
    record = testing.record(agent)
    dc.simulate(agent, RIVERSWIM, 30, seed=1, block=block)
    with pytest.raises(CheckFailed):
        testing.replay(record, build())


def test_the_same_agent_without_a_planted_bug_replays():
    """What the test above plants is what it catches."""
    agents = [
        dc.agents.make(
            "dp-ucbvi", RIVERSWIM.spec, episodes=60, privacy=dc.Central(100.0, 1e-6), stationary=True, seed=3
        )
        for _ in range(2)
    ]
    record = testing.record(agents[0])
    dc.simulate(agents[0], RIVERSWIM, 30, seed=1)
    assert any(not np.array_equal(one, two) for one, two in zip(record.policies, record.policies[1:], strict=False))
    testing.replay(record, agents[1])

"""The checkers catch what they are for."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.errors import CheckFailed, InvalidInput


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
        self.agent._policy[0, 0] ^= 1
        return report


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
    [(PeeksWithinBatch, "within a batch"), (RepeatsData, "repeats a person's"), (Lenient, "out of bounds")],
)
def test_bad_encoders_are_caught(encoder, message):
    def broken(spec, episodes, seed):
        agent = build(spec, episodes, seed)
        bad = encoder()
        bad.inner, bad.agent = agent.encoder, agent
        agent.privatizer.encoder = bad
        return agent

    with pytest.raises(CheckFailed, match=message):
        testing.check_agent(broken)


def patched(**attributes):
    base = type(build(dc.envs.riverswim().spec, 5, 0))
    kind = type("Patched", (base,), attributes)
    return lambda spec, episodes, seed: kind(spec, episodes=episodes, seed=seed, update_every=3)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"policy": property(lambda self: self._policy)}, "within a batch|writing into"),
        ({"guarantee": 1.0}, "Guarantee"),
        ({"observe": lambda self, batch: None}, "accepts a raw Trajectory|count must grow"),
        (
            {"play": lambda self, tables, draws, replan: np.zeros((int(replan.sum()) + 1, 5, 4), dtype=np.int64)},
            "second time|protocol",
        ),
    ],
)
def test_bad_agents_are_caught(attributes, message):
    with pytest.raises(CheckFailed, match=message):
        testing.check_agent(patched(**attributes))


def test_an_agent_that_takes_too_many_users_is_caught():
    def greedy(spec, episodes, seed):
        agent = build(spec, episodes * 2, seed)
        agent.episodes = episodes
        agent.observe = agent.privatizer.collect
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
        bad.inner, agent.privatizer.encoder = agent.encoder, bad
        return agent

    with pytest.raises(CheckFailed, match="accepts rewards"):
        testing.check_agent(broken)


def test_batches_whose_size_depends_on_people_are_caught():
    """The usual 'replan when a count doubles' would leak."""

    class Impatient(type(build(dc.envs.riverswim().spec, 5, 0))):
        @property
        def batch_size(self):
            return 1 if self.privatizer.counts().visits[0, 0, 0] > 5 else 2

    with pytest.raises(CheckFailed, match="sizes of batches"):
        testing.check_agent(
            lambda spec, episodes, seed: Impatient(spec, episodes=episodes, seed=seed), dc.envs.random()
        )


def test_a_missing_attribute_is_named():
    class Half:
        spec, episodes = None, 5

    with pytest.raises(CheckFailed, match="lacks the attribute encoder"):
        testing.check_agent(lambda *_: Half())

"""Adding a sum, an agent, a learner with a question of its own and a trust model, from outside: `src/` stays as it is.

Each toy below is what its author writes; the calls of ``register`` are all the places that must know it. So these
tests count the places, and would catch a list that somebody wrote down a second time.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest

import discreet as dc
from discreet.agents.base import LearningAgent
from discreet.agents.rounds import Proposal
from discreet.agents.tabular import TabularAgent
from discreet.noise import as_source
from discreet.privacy import Guarantee, NoisyBatch, NoisyReport, TrustModel, accounting
from discreet.privacy.trust import SUMS, TRUST_MODELS
from discreet.privatizers import Mechanism, Released, codec
from discreet.privatizers import make as factory
from discreet.privatizers.counts.encode import RawEncoder, sizes, spec_of
from discreet.privatizers.counts.serve import CentralCounts
from discreet.privatizers.shufflers import Collector
from discreet.registry import register
from discreet.runtime.fast import short_cut
from discreet.sums.factorisation import Batch
from discreet.testing import check_agent

MDP = dc.envs.riverswim(states=3, horizon=3)


# a central sum: its class, and its name


class Lumps(Batch):
    """Toy: fresh noise for every batch, under another name."""

    name = "lumps"


# an agent on counts: its file, and its name


class Counter(TabularAgent):
    """Toy: plays the action that was rewarded most in all, on private counts."""

    name = "counter"

    @property
    def kernel(self):
        return lambda parameters, counts, planned: np.copyto(planned[2], counts[2].sum(axis=0).argmax(axis=1))

    def error_bound(self, error):
        return error

    def parameters(self, E):
        return np.zeros(1)


# a learner with a question of its own: a folder (layout, encode, serve: here in one), and its file


@dataclass(frozen=True)
class LuckEncoder:
    """Toy, at the user: the mean reward of the episode, with Laplace noise."""

    spec: object
    epsilon: float
    kind = "luck"

    def encode(self, trajectory, rng):
        trajectory.check(self.spec)
        noise = as_source(rng).noise("laplace", 1 / self.epsilon, 1)
        return NoisyReport(trajectory.rewards.mean() + noise)

    def hides(self, epsilon, delta):
        return self.epsilon <= epsilon

    def to_json(self):
        import json

        return json.dumps({"kind": self.kind, "layout": sizes(self.spec), "parameters": {"epsilon": self.epsilon}})

    @classmethod
    def from_document(cls, document):
        return cls(spec_of(document["layout"]), document["parameters"]["epsilon"])


@dataclass(frozen=True, eq=False)
class Luck(Released):
    """Toy: what is released."""

    mean: float


class LuckMechanism(Mechanism):
    """Toy, at the server: adds up."""

    name, noise = "luck", "laplace"
    draws = (dc.noise.Role.ENCODER,)

    def __init__(self, spec, privacy, *, capacity):
        self.encoder, self.capacity = LuckEncoder(spec, privacy.epsilon), capacity

    def promise(self, kind):
        event = accounting.laplace(1 / self.encoder.epsilon)
        return Guarantee("local", accounting.epsilon(event, 0.0), 0.0, noise=kind, events=event)

    def encoder_of(self, version):
        return self.encoder

    def shuffler(self):
        return Collector(NoisyReport, NoisyBatch)

    def start(self):
        return 0, 0.0

    def folded(self, kept, batch, encoder):
        if not isinstance(batch, NoisyBatch) or kept[0] + batch.users > self.capacity:
            raise TypeError("expected a NoisyBatch within the capacity")
        return kept[0] + batch.users, kept[1] + float(batch.values.sum())

    def released(self, kept, source):
        return kept, Luck(kept[1] / max(kept[0], 1))


class Lucky(LearningAgent):
    """Toy: changes its mind as long as people are unlucky."""

    name = "lucky"

    def __init__(self, spec, *, episodes, privacy=None, update_every=None, seed=None):
        super().__init__(
            spec, episodes=episodes, privacy=privacy, preset="practical", stationary=True, update_every=update_every,
            failure=0.05, bonus_scale=1.0, seed=seed,
        )  # fmt: skip

    def _build(self):
        return factory.make("luck", self.spec, self.privacy, capacity=self.episodes)

    def _start(self, first, size, rng):
        return self._learn(0, Luck(1.0), 0, size, rng)

    def _learn(self, state, released, count, size, rng):
        action = (state + (released.mean < 0.1)) % self.spec.actions
        policy = np.full((self.spec.horizon, self.spec.states), action)
        return action, Proposal(policy[None], np.array([size]), policy, {})


# a trust model: its dataclass, its name, and how counts are kept under it


@dataclass(frozen=True)
class Committee(TrustModel):
    """Toy: users trust two servers that do not talk to each other; here one stands for both."""

    epsilon: float = 1.0


class CommitteeCounts(CentralCounts):
    """Toy: central counts, with a promise that names what it rests on."""

    def promise(self, kind):
        return dataclasses.replace(super().promise(kind), assumptions=("the two servers do not talk to each other",))


def committee(spec, privacy, *, capacity, batches, stationary, failure):
    own = dc.Central(privacy.epsilon)
    reads = len(batches)
    return CommitteeCounts(spec, own, capacity=capacity, horizon=reads, stationary=stationary, failure=failure)


@pytest.fixture(scope="module", autouse=True)
def added():
    """All that another package does, once, when it is imported; taken back for the other tests."""
    from discreet.agents import AGENTS

    register("sum", "lumps", Lumps, trust="central")
    register("agent", "counter", Counter)
    register("agent", "lucky", Lucky)
    codec.register(LuckEncoder)
    factory.THINGS["luck"] = LuckMechanism
    register("trust model", "committee", Committee)
    factory.COUNTS[Committee] = committee
    yield
    for registry, name in ((SUMS, "lumps"), (AGENTS, "counter"), (AGENTS, "lucky"), (TRUST_MODELS, "committee")):
        del registry.entries[name]
    del codec.ENCODERS["luck"], factory.THINGS["luck"], factory.COUNTS[Committee]


def test_a_sum_is_taken_where_sums_are_named():
    """2 places: its class and its registration."""
    agent = dc.agents.make("dp-ucbvi", MDP.spec, episodes=20, privacy=dc.Central(1.0, sum="lumps"), seed=0)
    assert agent.mechanism.name == "lumps"
    ours = dc.agents.make("dp-ucbvi", MDP.spec, episodes=20, privacy=dc.Central(1.0, sum="batch"), seed=0)
    assert agent.guarantee.epsilon == ours.guarantee.epsilon
    assert len(dc.simulate(agent, MDP, seed=0).gaps) == 20


def test_an_agent_on_counts_is_made_by_name_and_keeps_the_protocol():
    """2 files: its own and the registry; under every trust model."""
    for privacy in (dc.NonPrivate(), dc.Central(1.0), dc.Local(1.0), dc.Shuffle(1.0, 1e-4)):
        options = {"privacy": privacy, "update_every": 5}
        check_agent(lambda spec, episodes, seed, o=options: dc.agents.make("counter", spec, episodes=episodes, seed=seed, **o), MDP)  # fmt: skip # noqa: E501
    assert short_cut(dc.agents.make("counter", MDP.spec, episodes=5, privacy=dc.NonPrivate())) is None


def test_a_learner_with_a_question_of_its_own_is_a_folder_and_a_file():
    options = {"privacy": dc.Local(1.0), "update_every": 5}
    check_agent(
        lambda spec, episodes, seed: dc.agents.make("lucky", spec, episodes=episodes, seed=seed, **options), MDP
    )
    agent = dc.agents.make("lucky", MDP.spec, episodes=20, seed=0, **options)
    assert math.isclose(agent.guarantee.epsilon, 1.0)
    pinned = codec.from_json(agent.encoder.to_json(), epsilon=1.0)
    assert pinned == agent.encoder
    with pytest.raises(ValueError, match="hides less"):
        codec.from_json(agent.encoder.to_json(), epsilon=0.5)
    assert dc.agents.Plan.from_json(agent.plan.to_json()).hash == agent.plan.hash


def test_a_trust_model_needs_three_places():
    """Its class, its registration and how counts are kept; nothing else names trust models one by one."""
    assert TRUST_MODELS["committee"] is Committee
    agent = dc.agents.make("dp-ucbvi", MDP.spec, episodes=20, privacy=Committee(2.0), update_every=5, seed=0)
    assert agent.guarantee.assumptions == ("the two servers do not talk to each other",)
    assert agent.guarantee.epsilon <= 2.0
    assert isinstance(agent.encoder, RawEncoder)
    assert len(dc.simulate(agent, MDP, seed=0).gaps) == 20

"""Who gets a short cut: exactly the agents that they were written for; and nobody else can reach what they use."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.privacy import BitsReport
from discreet.runtime.blocks import (
    CountBlocks,
    FeatureBlocks,
    LocalBlocks,
    LocalFeatureBlocks,
    SampledBlocks,
    ValueBlocks,
    base,
    counts,
)
from discreet.runtime.fast import SimulatedReport, short_cut
from discreet.runtime.tallies import Batches
from tests.rounds import CASES, Hand, build, fingerprint, plain

SHUFFLED = [case for case, (_, _, options) in CASES.items() if isinstance(options.get("privacy"), dc.Shuffle)]


def expected(case):
    """The short cut of a case, or None."""
    _, name, options = CASES[case]
    privacy = options.get("privacy", dc.NonPrivate())
    if name == "rlsvi":
        return ValueBlocks
    if name in ("linopt-vi", "linopt-po"):
        return LocalFeatureBlocks if isinstance(privacy, dc.Local) else FeatureBlocks
    if isinstance(privacy, dc.Local) and name != "discreet-vi":
        return LocalBlocks if privacy.sum in ("laplace", "gaussian") else SampledBlocks
    if name in ("sdp-pe", "discreet-vi") or isinstance(privacy, dc.Shuffle):
        return Batches
    return CountBlocks


@pytest.mark.parametrize("case", CASES)
def test_built_in_agents_have_theirs(case):
    """Would catch a short cut that is lost, and slow simulations with it."""
    found = short_cut(build(case))
    assert (found and type(found)) == expected(case)


BLOCKED = [case for case in CASES if expected(case) not in (Batches, None)]


@pytest.mark.parametrize("every", [1, 7, "geometric"])
@pytest.mark.parametrize("case", BLOCKED)
def test_blocks_leave_what_the_protocol_leaves(case, every, monkeypatch):
    """Would catch a bit that differs in what a server holds, draws, plans or tells.

    Also if a call stops within a batch, and if an agent is handed over seldom.
    """
    for numbers, told in ((base.NUMBERS, True), (base.NUMBERS, False), (400, True), (400, False)):
        ends, heard = [], []
        for block in (False, True):
            agent = build(case, episodes=50, update_every=every)
            if told:
                agent.on_release = lambda *given, heard=heard: heard.append(plain(given))
            for module in (base, counts):
                monkeypatch.setattr(module, "NUMBERS", numbers)
            gaps = dc.simulate(agent, CASES[case][0], seed=1, block=block).gaps
            ends.append((gaps.tolist(), fingerprint(agent)))
        assert ends[0] == ends[1]
        assert heard[: len(heard) // 2] == heard[len(heard) // 2 :]
        assert bool(heard) == told


class OtherSource(FastSource):
    """Draws the same, but is another class."""


@pytest.mark.parametrize("case", CASES)
def test_nobody_else_has_one(case):
    """A subclass, another source of any party, another mechanism: whatever they change, the protocol shows it."""
    agent = build(case)
    kind = type(agent)
    agent.__class__ = type("Sub", (kind,), {})
    assert short_cut(agent) is None
    vouched = type("Vouched", (kind,), {"fast": True})
    agent.__class__ = vouched
    assert (short_cut(agent) is None) == (expected(case) is None)
    agent.__class__ = type("SubOfVouched", (vouched,), {})
    assert short_cut(agent) is None
    for role in (Role.ENCODER, Role.SHUFFLER, Role.NOISE):
        agent = build(case)
        agent.sources[role] = OtherSource(np.random.default_rng(0))
        assert short_cut(agent) is None
    agent = build(case)
    agent.privatizer.source = OtherSource(np.random.default_rng(0))
    assert short_cut(agent) is None
    agent = build(case)
    mechanism = agent.mechanism
    mechanism.__class__ = type("OtherMechanism", (type(mechanism),), {})
    assert short_cut(agent) is None


@pytest.mark.parametrize("other", [None, 3, object()])
def test_what_is_no_agent_of_ours_has_none(other):
    assert short_cut(other) is None


@pytest.mark.parametrize("case", ["dp-ucbvi laplace tree", "discreet-vi central", "discreet-vi shuffle", "rlsvi tight"])
def test_an_altered_mechanism_is_what_people_meet(case):
    """Would catch a short cut that goes on without the mechanism that somebody changed."""
    agent, seen = build(case), []
    kind = type(agent.mechanism)

    def folded(self, kept, batch, encoder):
        seen.append(batch.users)
        return kind.folded(self, kept, batch, encoder)

    agent.mechanism.__class__ = type("Spy", (kind,), {"folded": folded})
    dc.simulate(agent, CASES[case][0], seed=1)
    assert sum(seen) == agent.count > 0


def encoders(owner):
    """Everything that can encode among the attributes of an object, and in what these hold."""
    for name in dir(owner):
        if name.startswith("__"):
            continue
        try:
            value = getattr(owner, name)
        except (AttributeError, NotImplementedError):
            continue
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
        yield from (found for found in values if hasattr(found, "encode") and not isinstance(found, str))


@pytest.mark.parametrize("case", SHUFFLED)
def test_outside_of_a_simulation_messages_are_real(case):
    """Must show: beside a guarantee of shuffle DP, no encoder of an agent gives a person's raw cells.

    Also while a simulation's reports wait: what it puts there is reached from nowhere but `simulate`.
    """
    mdp, agent, rng = CASES[case][0], build(case), np.random.default_rng(0)
    dc.simulate(agent, mdp, agent.batch_size + 1, seed=1)
    assert type(agent.shuffler.reports[0]) is SimulatedReport
    person, found = mdp.sample(agent.policy, rng), 0
    for owner in (agent, agent.plan, agent.mechanism, agent.privatizer, agent.shuffler):
        for encoder in encoders(owner):
            report = encoder.encode(person, rng)
            assert type(report) is BitsReport
            assert report.bits.shape == (encoder.size, encoder.messages)
            found += 1
    assert found >= 3
    hand = Hand(case, build(case))
    hand.batch()
    assert {type(report) for report in hand.reports[0]} == {BitsReport}
    with pytest.raises(TypeError, match="expected a BitsReport"):  # nor does a real shuffler take one
        agent.shuffler(agent.shuffler.reports, rng)


def test_an_agent_that_meets_people_imports_no_short_cut(python):
    """Would catch a way from agents or privatizers into the room where raw data of simulated people is used."""
    code = """if True:
        import sys
        import numpy as np
        from discreet import agents, envs, privacy
        mdp = envs.riverswim(states=3, horizon=4)
        for name, trust in (("dp-ucbvi", privacy.Central(1.0)), ("discreet-vi", privacy.Shuffle(1.0, 1e-3))):
            agent = agents.make(name, mdp.spec, episodes=20, update_every=4, privacy=trust, seed=0)
            rng = np.random.default_rng(0)
            people = [mdp.sample(agent.plan.policy(slot), rng) for slot in range(4)]
            agent.observe(agent.shuffler([agent.encoder.encode(person, rng) for person in people], rng))
        print(sorted(name for name in sys.modules if name.startswith("discreet.runtime")))
    """
    assert python(code) == "[]"

"""A plan is public and never changes; playing and encoding change nothing at the server."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from discreet.agents.rounds import Plan
from discreet.errors import InvalidInput
from tests import rounds
from tests.rounds import CASES, Hand, build, fingerprint


def played(case, batches=1):
    """Returns an agent after some batches."""
    agent = build(case)
    hand = Hand(case, agent)
    for _ in range(batches):
        agent.observe(hand.batch())
    return agent


@pytest.mark.parametrize("case", CASES)
def test_a_plan_cannot_be_changed(case):
    """Would catch a device, a callback or a service that changes what later people play or are asked."""
    agent = played(case)
    plan = agent.plan
    before = plan.hash
    for field in dataclasses.fields(plan):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(plan, field.name, None)
    arrays = [plan.policies, plan.users, plan.rest]
    arrays += [value for value in vars(plan.encoder).values() if isinstance(value, np.ndarray)]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    for copied in (plan.policy(0), plan.policy(plan.size), *(policy for policy, _ in plan.assignments), agent.policy):
        copied[...] = 0
    assert agent.plan.hash == plan.hash == before


@pytest.mark.parametrize("case", CASES)
def test_a_plan_travels_as_json(case):
    """At first, after a batch, and when nobody is collected any more; the encoder says the same bits there."""
    agent = build(case)
    hand = Hand(case, agent)
    hashes, last = [], False
    while not last:
        plan, last = agent.plan, agent.plan.size == 0
        again = Plan.from_json(plan.to_json())
        assert (again.version, again.start, again.size, again.hash) == (plan.version, plan.start, plan.size, plan.hash)
        for name in ("policies", "users", "rest"):
            one, two = getattr(plan, name), getattr(again, name)
            assert one.dtype == two.dtype
            np.testing.assert_array_equal(one, two)
        assert type(again.encoder) is type(plan.encoder)
        person = hand.mdp.sample(plan.policy(0), np.random.default_rng(5))
        sent = [vars(found.encoder.encode(person, np.random.default_rng(6))) for found in (plan, again)]
        for name, value in sent[0].items():
            np.testing.assert_array_equal(value, sent[1][name])
        hashes.append(plan.hash)
        if not last:
            agent.observe(hand.batch())
    assert len(set(hashes)) == len(hashes) > 2  # a hash tells rounds apart


def small(users=(2, 0, 3), size=5, n=3):
    policies = np.arange(n * 2 * 2).reshape(n, 2, 2)
    encoder = build("ucbvi").encoder
    return Plan(0, 0, size, policies, np.array(users, dtype=np.int64), np.full((2, 2), 99), encoder)


def test_slots_play_what_the_plan_says():
    """Would catch an off-by-one at the ends, policies that nobody plays, and who comes after the last slot."""
    plan = small()
    shown = [plan.policy(slot)[0, 0] for slot in range(7)]
    assert shown == [0, 0, 8, 8, 8, 99, 99]
    assert [(policy[0, 0], n) for policy, n in plan.assignments] == [(0, 2), (4, 0), (8, 3)]
    for slot in (-1, 1.5):
        with pytest.raises(ValueError, match="slot"):
            plan.policy(slot)
    for users, size in (((2, 0, 2), 5), ((2, -1, 4), 5), ((2, 3), 5)):
        with pytest.raises(InvalidInput):
            small(users, size)


@pytest.mark.parametrize(
    "change",
    [
        {"users": [5]},
        {"users": [2, -1, 4]},
        {"size": 4},
        {"size": -1},
        {"version": "now"},
        {"policies": []},
        {"policies": [[[0]]]},
        {"encoder": {"kind": "none"}},
        {"encoder": None},
        {"rest": None},
    ],
)
def test_what_is_no_plan_is_refused(change):
    with pytest.raises(InvalidInput):
        Plan.from_json(json.dumps({**json.loads(small().to_json()), **change}))
    for text in ("", "[]", "{}", "null", "3"):
        with pytest.raises(InvalidInput):
            Plan.from_json(text)


@pytest.mark.parametrize("case", CASES)
def test_the_policy_follows_the_reports_in_transit(case):
    """Also for agents that give the people of a batch different policies; whoever is in no batch plays the rest."""
    agent = played(case)
    plan, rng = agent.plan, np.random.default_rng(3)
    mdp = CASES[case][0]
    for slot in range(plan.size):
        np.testing.assert_array_equal(agent.policy, plan.policy(slot))
        agent.shuffler.reports.append(agent.encoder.encode(mdp.sample(agent.policy, rng), rng))
    np.testing.assert_array_equal(agent.policy, plan.rest)


@pytest.mark.parametrize("case", CASES)
def test_playing_and_encoding_change_nothing_at_the_server(case):
    """Must show: the old agents moved their schedule when somebody encoded, or did not if that was elsewhere."""
    agent, rng = played(case), np.random.default_rng(4)
    mdp, before = CASES[case][0], fingerprint(agent)
    for slot in (0, 0, 1, 2, 0):
        policy = agent.plan.policy(slot)
        person = mdp.sample(policy, rng)
        for encoder in (agent.encoder, agent.plan.encoder, Plan.from_json(agent.plan.to_json()).encoder):
            encoder.encode(person, rng)
        np.testing.assert_array_equal(agent.policy, agent.plan.policy(0))
    assert fingerprint(agent) == before
    assert agent.guarantee == rounds.guarantee(case)

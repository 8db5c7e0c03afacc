"""Episodes that are played at the server: step by step, the first write wins, nothing raw stays."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.errors import Closed, InvalidInput, InvalidPersonalData
from discreet.live.stores import sql
from discreet.mdp import Trajectory
from discreet.privatizers.codec import to_wire
from tests.live.people import deploy, shut


@pytest.fixture
def deployment():
    found = deploy()
    yield found
    shut(found)


def play(deployment, ticket, states, rewards, upto=5):
    """Plays the first steps of an episode; returns the actions."""
    given = [(1, states[0], None)] + [(h + 2, states[h + 1], rewards[h]) for h in range(4)]
    return [deployment.step(ticket.token, *each, now=1.0) for each in given[:upto]]


def test_a_whole_episode_is_what_a_device_would_send(deployment):
    """Would catch a reward that goes to another step, or an action that is not the policy's."""
    ticket = deployment.start(person="a", now=0.0)
    states, rewards = [0, 1, 2, 2, 1], [0.25, 0.0, 1.0, 0.5]
    actions = play(deployment, ticket, states, rewards)
    assert actions == [*(int(ticket.policy[h, states[h]]) for h in range(4)), None]
    expected = to_wire(ticket.encoder.encode(Trajectory(states, actions[:4], rewards)))
    kept = deployment.store.do(lambda db: db.rows(sql.REPORTS, name="steps", version=0))
    assert [(slot, bytes(body).decode()) for slot, body in kept] == [(0, expected)]
    assert deployment.store.do(lambda db: db.rows("SELECT * FROM steps")) == []


def test_the_first_write_wins(deployment):
    """Would catch an answer that changes when it is asked for again."""
    ticket = deployment.start(person="a", now=0.0)
    first = deployment.step(ticket.token, 1, 0, now=1.0)
    assert deployment.step(ticket.token, 1, 2, now=1.0) == first
    deployment.step(ticket.token, 2, 1, 0.5, now=1.0)
    with pytest.raises(InvalidInput, match="in order"):
        deployment.step(ticket.token, 4, 1, 0.5, now=1.0)
    kept = deployment.store.do(lambda db: db.rows(sql.STEPS, name="steps", version=0, slot=0))
    assert [state for state, _, _ in kept] == [0, 1]


def test_after_the_end_everything_is_said_again(deployment):
    ticket = deployment.start(person="a", now=0.0)
    play(deployment, ticket, [0, 1, 2, 2, 1], [0.0] * 4)
    assert deployment.step(ticket.token, 5, 1, 0.0, now=1.0) is None


@pytest.mark.parametrize(
    "given",
    [(0, 0, None), (6, 0, 0.1), (1, 3, None), (1, -1, None), (2, 0, None), (1, 0, 0.5), (2, 0, 1.5), (1, True, None)],
)
def test_steps_of_no_world_are_refused(deployment, given):
    ticket = deployment.start(person="a", now=0.0)
    with pytest.raises(InvalidPersonalData):
        deployment.step(ticket.token, *given, now=1.0)
    assert deployment.store.do(lambda db: db.rows("SELECT * FROM steps")) == []


def test_late_steps_are_refused(deployment):
    ticket = deployment.start(person="a", now=0.0)
    with pytest.raises(Closed):
        deployment.step(ticket.token, 1, 0, now=10.5)


@pytest.mark.parametrize("gone", [None, 2])
def test_episodes_that_break_off(gone):
    """With a state for it they count up to there; without one they are absent. Nothing raw stays either way."""
    world = {"states": 3, "actions": 2, "horizon": 4, **({} if gone is None else {"gone": gone})}
    deployment = deploy(world=world)
    tickets = [deployment.start(person=str(k), now=0.0) for k in range(5)]
    actions = play(deployment, tickets[0], [0, 1, 1, 1, 1], [0.5, 0.25, 0.0, 0.0], upto=2)
    assert deployment.close_due(now=11.0) == [1]
    assert deployment.store.do(lambda db: db.rows("SELECT * FROM steps")) == []
    from discreet.runtime import records

    kept = records.unpack(bytes(deployment.store.do(lambda db: db.row(sql.SECRET, name="steps"))[1]))["kept"]
    total = np.zeros(deployment.agent.mechanism.layout.size)
    if gone is not None:
        report = tickets[0].encoder.encode(Trajectory([0, 1, 2, 2, 2], [*actions, 0, 0], [0.5, 0.0, 0.0, 0.0]))
        np.add.at(total, report.indices, report.values)
    np.testing.assert_array_equal(np.ldexp(kept.total.astype(float), -deployment.agent.mechanism.sum.bits), total)
    shut(deployment)


def test_only_a_trusted_server_plays():
    deployment = deploy("discreet-vi local")
    ticket = deployment.start(person="a", now=0.0)
    with pytest.raises(InvalidInput, match="trusted"):
        deployment.step(ticket.token, 1, 0, now=1.0)
    shut(deployment)


def test_erasure_takes_the_steps_too(deployment):
    ticket = deployment.start(person="a", now=0.0)
    deployment.step(ticket.token, 1, 0, now=1.0)
    assert deployment.erase(token=ticket.token) == "erased"
    assert deployment.store.do(lambda db: db.rows("SELECT * FROM steps")) == []

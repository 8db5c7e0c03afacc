"""Values that must not turn up anywhere: pseudonyms, states, rewards and raw reports."""

from __future__ import annotations

import json
import logging
import sqlite3

import numpy as np
import pytest

from discreet.errors import DiscreetError
from discreet.mdp import Trajectory
from discreet.privatizers.codec import to_wire
from discreet.runtime import records
from tests.live.people import Crowd, deploy, shut

PSEUDONYM = "canary-7f3a91"
REWARD = 0.7182818  # its digits, and what the grid makes of it


def person(rng):
    return Trajectory(rng.integers(0, 3, 5), rng.integers(0, 2, 4), rng.random(4))


def contents(folder):
    """Returns all bytes of all files, and their names."""
    return b"".join(path.name.encode() + path.read_bytes() for path in sorted(folder.iterdir()))


def test_raw_rows_are_gone_from_the_files_after_their_release(tmp_path):
    """Also from free pages and the log: would catch rows that are deleted but not overwritten.

    Before the release they are there, so the search finds what it looks for.
    """
    deployment = deploy("discreet-vi central", f"sqlite:///{tmp_path / 'steps.db'}")
    rng = np.random.default_rng(0)
    for round_ in range(3):
        size, texts, now = deployment.plan().size, [], 1000.0 * (round_ + 1)
        for k in range(size):
            ticket = deployment.start(person=f"{PSEUDONYM} {round_} {k}", now=now)
            texts.append(to_wire(ticket.encoder.encode(person(rng))))
            deployment.report(ticket.token, texts[-1], now=now)
        found = contents(tmp_path)
        middle = [text[200:240].encode() for text in texts]
        assert len(set(middle)) == size
        assert sum(text in found for text in middle) == size
        assert deployment.close_due(now=now + 11) == [round_ + 1]
        found = contents(tmp_path)
        assert [text for text in middle if text in found] == []
        assert PSEUDONYM.encode() not in found
    shut(deployment)
    assert PSEUDONYM.encode() not in contents(tmp_path)


def test_what_was_erased_is_gone_from_the_files(tmp_path):
    """Would catch a report that is deleted and stays in the log until the next release."""
    deployment = deploy("discreet-vi central", f"sqlite:///{tmp_path / 'steps.db'}")
    ticket = deployment.start(person=PSEUDONYM, now=1.0)
    text = to_wire(ticket.encoder.encode(person(np.random.default_rng(0))))
    deployment.report(ticket.token, text, now=1.0)
    assert text[200:240].encode() in contents(tmp_path)
    assert deployment.erase(token=ticket.token) == "erased"
    assert text[200:240].encode() not in contents(tmp_path)
    shut(deployment)


def test_the_key_of_pseudonyms_is_gone_from_the_files_at_the_end(tmp_path):
    """Would catch a key that is destroyed in the tables, and stays in the log while the process lives."""
    deployment = deploy("discreet-vi central", f"sqlite:///{tmp_path / 'steps.db'}")
    key, crowd = deployment._keys.person, Crowd(deployment)
    assert key in contents(tmp_path)
    crowd.all()
    assert key not in contents(tmp_path)
    assert deployment._keys.person is None
    shut(deployment)


def test_without_overwriting_they_would_be_found(tmp_path):
    """The search has power: SQLite without secure_delete leaves what was deleted in its pages."""
    path = tmp_path / "plain.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA secure_delete=OFF")
        db.execute("CREATE TABLE reports (body TEXT)")
        db.executemany("INSERT INTO reports VALUES (?)", [(f"{PSEUDONYM} {i} " + "x" * 500,) for i in range(200)])
        db.commit()
        db.execute("DELETE FROM reports")
        db.commit()
    db.close()
    assert PSEUDONYM.encode() in contents(tmp_path)


def test_errors_and_logs_show_nobody(tmp_path, caplog, capsys):
    """Every refusal that a person's data can cause: none repeats it, and nothing is logged or printed."""
    caplog.set_level(logging.DEBUG)
    deployment = deploy(url=f"sqlite:///{tmp_path / 'steps.db'}")
    ticket = deployment.start(person=PSEUDONYM, now=0.0)
    said = []

    def refused(call, *given, **more):
        with pytest.raises((DiscreetError, TypeError)) as caught:
            call(*given, **more)
        error = caught.value
        while error is not None:
            said.append(str(error))
            error = error.__cause__ or error.__context__

    states, actions, rewards = [0, 1, 2, 1, 0], [0, 1, 1, 0], [REWARD, 0.0, 1.0, 0.5]
    bad = [
        Trajectory([7777, *states[1:]], actions, rewards),
        Trajectory(states, [8888, *actions[1:]], rewards),
        Trajectory(states, actions, [7.182818, *rewards[1:]]),
        Trajectory(states[:-1], actions, rewards),
    ]
    for trajectory in bad:
        refused(ticket.encoder.encode, trajectory)
    report = ticket.encoder.encode(Trajectory(states, actions, rewards))
    text = to_wire(report)
    for sent in (text[:-1], text + "A", "2" + text[1:], text[:50] + "!" + text[51:]):
        refused(deployment.report, ticket.token, sent, now=1.0)
    refused(deployment.report, ticket.token, text, now=11.0)
    refused(deployment.report, "1.1." + PSEUDONYM, text, now=1.0)
    refused(deployment.start, person=PSEUDONYM * 1000, now=1.0)
    refused(deployment.start, now=1.0)
    whole = "\n".join([*said, caplog.text, *capsys.readouterr()])
    for canary in (PSEUDONYM, "7777", "8888", "7.18", str(REWARD)[:6], text[60:90], ticket.token):
        assert canary not in whole
    shut(deployment)


def test_what_is_public_holds_no_person(tmp_path):
    """Releases, plans, status and the configuration: no report, no pseudonym, no key."""
    deployment = deploy(url=f"sqlite:///{tmp_path / 'steps.db'}")
    keys = deployment._keys
    crowd = Crowd(deployment)
    crowd.all()
    public = [json.dumps(deployment.status), json.dumps(deployment.document), repr(deployment), repr(keys)]
    public += [deployment.plan(version).to_json() for version in range(deployment.version + 1)]
    bodies = b"".join(records.pack(release.released) for release in deployment.releases())
    whole = "\n".join(public).encode() + bodies
    for key in (keys.token, keys.person):
        assert key not in whole
        assert key.hex().encode() not in whole
    assert b"person 1" not in whole
    for _, _, report in crowd.sent[:5]:
        assert to_wire(report)[30:60].encode() not in whole
        assert report.values.tobytes() not in whole
    shut(deployment)

"""Between devices and server: n reports or noise, no report kept, the same counters however often they are asked."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from discreet import live
from discreet.errors import Closed, InvalidInput, InvalidPersonalData, InvalidToken, RolledBack
from discreet.live.stores import sql
from discreet.privatizers.codec import to_wire
from tests.live.people import MDP, Crowd, config, deploy, shut


@pytest.fixture
def deployment():
    found = deploy("binomial")
    yield found
    shut(found)


def test_counters_are_the_sum_of_all_reports(deployment):
    """Would catch a report that is lost or added twice: duplicates, as objects and as texts, change nothing."""
    crowd = Crowd(deployment)
    tickets = crowd.fill()
    for ticket, (_, _, report) in zip(tickets, crowd.sent, strict=True):
        for again in (report, to_wire(report), ticket.encoder.absent()):
            assert deployment.shuffler.report(ticket.token, again) == "recorded"
    batch = deployment.shuffler.close(0)
    np.testing.assert_array_equal(batch.ones, sum(report.bits.sum(axis=1) for _, _, report in crowd.sent))
    assert (batch.users, batch.messages) == (20, 20 * tickets[0].encoder.messages)


def test_absent_slots_are_filled_with_noise(deployment):
    """450 of 500 reports would give ε = 1.05 for 1, one report ∞: would catch a batch with less noise than it needs."""
    encoder, size = deployment.plan().encoder, deployment.plan().size
    ticket = deployment.start(person="a", now=0.0)
    deployment.shuffler.report(ticket.token, ticket.encoder.absent())
    batch = deployment.shuffler.close(0)
    noise = size * encoder.noise_bits * encoder.size
    p = encoder.probability
    assert abs(batch.ones.sum() - noise * p) < 6 * np.sqrt(noise * p * (1 - p))
    assert noise * p / size > 12 * np.sqrt(noise * p * (1 - p)) / size  # one person's noise would be missed


def test_a_closed_batch_is_the_same_however_often(deployment):
    """Would catch noise that is drawn anew: two draws over the same people."""
    Crowd(deployment, absent=range(10)).fill()
    first = deployment.shuffler.close(0)
    again = deployment.shuffler.close(0)
    np.testing.assert_array_equal(first.ones, again.ones)
    ticket = deployment.start(person="person 3", now=0.0)
    with pytest.raises(Closed):
        deployment.shuffler.report(ticket.token, ticket.encoder.absent())


def test_it_goes_on_after_a_crash_and_keeps_no_report(tmp_path):
    """In a file: the counters and who is in them are durable, and nothing else is there."""
    deployment = deploy("discreet-vi shuffle")
    shut_early = deployment.shuffler
    shut_early.shut()
    url = f"sqlite:///{tmp_path / 'mixed.db'}"
    deployment.shuffler = live.Shuffler(url, deployment.terms)
    crowd = Crowd(deployment, absent=range(20, 40))
    crowd.fill()
    deployment.shuffler.shut()
    deployment.shuffler = live.Shuffler(url, deployment.terms)
    store = deployment.shuffler.store
    assert store.do(lambda db: db.rows("SELECT * FROM reports")) == []
    kept = np.frombuffer(store.do(lambda db: db.row(sql.MIXED, name="steps", version=0))[2], dtype=np.int64)
    np.testing.assert_array_equal(kept, sum(report.bits.sum(axis=1) for _, _, report in crowd.sent))
    assert deployment.close_due(now=crowd.now + 11) == [1]
    assert store.do(lambda db: db.rows("SELECT * FROM used")) == []
    shut(deployment)


def test_the_server_sees_no_report_and_no_part_of_a_batch(deployment):
    ticket = deployment.start(person="a", now=0.0)
    report = ticket.encoder.encode(MDP.sample(ticket.policy, np.random.default_rng(0)))
    with pytest.raises(InvalidInput, match="never sees one"):
        deployment.report(ticket.token, report, now=0.0)
    ones, messages = report.bits.sum(axis=1), ticket.encoder.messages
    for users, sent in ((1, messages), (19, 19 * messages), (20, messages)):
        with pytest.raises(InvalidInput):
            deployment.receive(0, ones, sent, users)
    assert deployment.store.do(lambda db: db.rows("SELECT * FROM batches")) == []


def test_what_is_handed_in_again_changes_nothing(deployment):
    """Would catch a second value of one version."""
    crowd = Crowd(deployment)
    crowd.fill()
    batch = deployment.shuffler.close(0)
    given = (batch.messages, batch.users)
    assert deployment.receive(0, batch.ones, *given) == "recorded"
    assert deployment.receive(0, np.zeros_like(batch.ones), *given) == "recorded"  # the first one counts
    assert deployment.close_due(now=crowd.now + 11) == [1]
    assert deployment.receive(0, np.zeros_like(batch.ones), *given) == "recorded"
    released = deployment.releases()[0].released
    total = batch.ones - batch.users * deployment.plan(0).encoder.expected
    np.testing.assert_allclose(released.visits.ravel(), total[: released.visits.size])


def test_bad_tokens_and_reports_are_refused(deployment):
    ticket, other = deployment.start(person="a", now=0.0), deploy("binomial", name="other")
    foreign = other.start(person="a", now=0.0)
    report = ticket.encoder.absent()
    for token in (foreign.token, ticket.token[:-1], "x", "", None, "0.999999.abc"):
        with pytest.raises(InvalidToken):
            deployment.shuffler.report(token, report)
    for bad in (to_wire(report)[:-1], "1.bits.", 7):
        with pytest.raises(InvalidPersonalData):
            deployment.shuffler.report(ticket.token, bad)
    shut(other)


def test_terms_that_change_are_refused():
    """Would catch a server that takes noise away after people have reported."""
    deployment = deploy("binomial")
    shuffler = deployment.shuffler
    ticket = deployment.start(person="a", now=0.0)
    shuffler.report(ticket.token, ticket.encoder.absent())
    weaker = live.Shuffler(shuffler.store, lambda version: deployment.terms(version)._replace(size=1))
    with pytest.raises(InvalidInput, match="changed"):
        weaker.close(0)
    shut(deployment)


@pytest.mark.parametrize("kind", ["binomial", "discreet-vi shuffle"])
def test_a_server_that_takes_people_away_is_refused(kind):
    """Would catch a server that tells devices of a whole batch, and the shuffler of one slot, and sees one person."""
    deployment = deploy(kind)
    asked, ticket = deployment.config.privacy, deployment.start(person="a", now=0.0)
    pinned = {"epsilon": asked["epsilon"], "delta": asked["delta"]}
    honest = live.Shuffler("memory:", deployment.terms, **pinned)
    assert honest.report(ticket.token, ticket.encoder.absent()) == "recorded"
    alone = live.Shuffler("memory:", lambda version: deployment.terms(version)._replace(size=1), **pinned)
    fewer = live.Shuffler("memory:", deployment.terms, **pinned, honest_fraction=0.5)
    for shuffler in (alone, fewer):
        with pytest.raises(InvalidInput, match="hides less"):
            shuffler.report(ticket.token, ticket.encoder.absent())
        assert shuffler.newest("steps") == -1
    for shuffler in (honest, alone, fewer):
        shuffler.shut()
    shut(deployment)


def test_another_deployment_of_the_same_name_is_refused(deployment):
    """Would catch reports that are acknowledged and dropped, because somebody of a former deployment used the slot."""
    ticket = deployment.start(person="a", now=0.0)
    deployment.shuffler.report(ticket.token, ticket.encoder.absent())
    with live.create("memory:", config("binomial"), now=0.0) as later:
        again = later.start(person="b", now=0.0)
        shuffler = live.Shuffler(deployment.shuffler.store, later.terms)
        with pytest.raises(InvalidInput, match="another deployment"):
            shuffler.report(again.token, again.encoder.absent())


def test_a_shuffler_that_is_ahead_proves_a_roll_back(tmp_path):
    """Would catch an old copy of the server, which sees no token under Shuffle, and gives people slots once more."""
    path = tmp_path / "steps.db"
    deployment = deploy("binomial", url=f"sqlite:///{path}")
    shuffler, crowd = deployment.shuffler, Crowd(deployment)
    crowd.fill()
    deployment.close()
    shutil.copy(path, tmp_path / "backup.db")
    with live.open(f"sqlite:///{path}", "steps") as newer:
        crowd.deployment, newer.shuffler, shuffler._ask = newer, shuffler, newer.terms
        assert newer.close_due(now=crowd.now + 11) == [1]
        crowd.one()
    with live.open(f"sqlite:///{tmp_path / 'backup.db'}", "steps") as old:
        old.shuffler, shuffler._ask = shuffler, old.terms
        with pytest.raises(RolledBack, match="shuffler"):
            old.close_due(now=crowd.now + 11)
        assert old.state == "rolled-back"
        assert old.releases() == []
    shuffler.shut()


def test_fast_noise_is_for_simulation():
    assert live.read(config("binomial")).privacy["noise"] == "secure"


def test_erasure_says_what_it_can_do(deployment):
    """Would catch "erased" being said of bits that are in the sum, or that are added to it afterwards."""
    first, second = (deployment.start(person=name, now=0.0) for name in "ab")
    deployment.shuffler.report(first.token, first.encoder.absent())
    assert deployment.erase(token=first.token) == "mixed"
    assert deployment.erase(person="b") == "erased"
    before = deployment.shuffler.store.do(lambda db: db.row(sql.MIXED, name="steps", version=0))[2]
    deployment.shuffler.report(second.token, second.encoder.absent())  # as if again: the slot is filled with noise
    assert deployment.shuffler.store.do(lambda db: db.row(sql.MIXED, name="steps", version=0))[2] == before
    batch = deployment.shuffler.close(0)
    assert batch.users == deployment.plan().size
    third = deployment.start(person="c", now=0.0)
    assert deployment.erase(token=third.token) == "closed"
    deployment.shuffler.shut()
    deployment.shuffler = None  # in another process: nobody here knows
    assert deployment.erase(token=deployment.start(person="d", now=0.0).token) == "mixed"
    deployment.shuffler = live.Shuffler("memory:", deployment.terms)

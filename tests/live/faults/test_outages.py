"""What is not a crash: backups that are restored, full disks, databases that restart, connections, clocks."""

from __future__ import annotations

import resource
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from discreet import live
from discreet.errors import Closed, InvalidInput, InvalidToken, LiveError, RolledBack, Unavailable
from discreet.live import points
from discreet.live.stores import connect, sql
from discreet.live.stores.postgres import PostgresStore
from discreet.runtime import records
from tests.live.faults.book import read
from tests.live.faults.campaign import Databases
from tests.live.faults.rig import RANDOM, Rig
from tests.live.faults.warm import batch
from tests.live.faults.worlds import SLOTS, WITHIN, config, report_of, total_of, units
from tests.live.postgres import Postgres

DAY = 86_400.0


def started(deployment, rng, people=SLOTS, now=1.0, name="person"):
    """Has people start; returns their tokens and the reports that they will send."""
    found = []
    for i in range(people):
        ticket = deployment.start(f"{name} {i}", now)
        found.append((ticket.token, report_of(ticket.encoder.to_json(), rng)[0]))
    return found


def expected(deployment, texts, version=0):
    """Returns the sum of reports."""
    encoder = deployment.plan(version).encoder.to_json()
    mechanism = deployment.agent.mechanism
    return sum(units("central", mechanism, encoder, text) for text in texts)


def kept(deployment):
    """Returns the raw totals."""
    return total_of("central", deployment.agent.mechanism, deployment._kept(deployment.version)["kept"])


def restored(url, postgres, tmp_path):
    """Returns the URL of a copy."""
    if not url.startswith("sqlite:"):
        return postgres.copy(url)
    shutil.copy(url.removeprefix("sqlite:///"), tmp_path / "copy.db")
    return f"sqlite:///{tmp_path / 'copy.db'}"


@pytest.mark.parametrize("newer", ["version", "slot"])
def test_a_restored_backup_is_refused(newer, url, request, tmp_path, rng):
    """Would catch a second release of a version that people have seen: its noise would be drawn again."""
    postgres = None if url.startswith("sqlite:") else request.getfixturevalue("postgres")
    with live.create(url, config("central"), now=0.0) as deployment:
        batch(deployment, rng, 1.0, "early")
        started(deployment, rng, 2, 300.0)
    backup = restored(url, postgres, tmp_path)
    with live.open(url, "steps") as deployment:  # life goes on, and then the backup is restored
        (token, text), *_ = started(deployment, rng, 1, 300.0, "newcomer")
        if newer == "version":
            started(deployment, rng, SLOTS - 3, 300.0, "others")
            assert deployment.close_due(300.0 + 2 * WITHIN) == [2]
            (token, text), *_ = started(deployment, rng, 1, 600.0, "late")
        seen = deployment.releases()
    with live.open(backup, "steps") as deployment:
        with pytest.raises(InvalidToken):  # anybody can make up a token
            deployment.report("7.0." + token.rpartition(".")[2], text, 301.0)
        assert deployment.state == "open"
        with pytest.raises(RolledBack, match="nothing more is released"):
            deployment.report(token, text, 301.0)
        assert deployment.state == "rolled-back"
    with live.open(backup, "steps") as deployment:  # it is written down
        for refused in (lambda: deployment.start("somebody", 302.0), lambda: deployment.close_due(9e9)):
            with pytest.raises(RolledBack, match="backup"):
                refused()
        assert [each.hash for each in deployment.releases()] == [each.hash for each in seen[:1]]
    with live.open(url, "steps") as deployment:
        assert deployment.report(token, text, 601.0 if newer == "version" else 301.0) == "recorded" or newer == "slot"


@pytest.mark.parametrize("how", ["pages", "bytes"])
def test_a_full_disk(how, tmp_path, rng):
    """Would catch a report that is acknowledged and not kept, or a release that is made twice, when a disk is full."""
    url = f"sqlite:///{tmp_path / 'live.db'}"
    many = {"name": "dp-ucbvi", "episodes": 600, "update_every": 60}  # more than fit into the pages that there are
    with live.create(url, config("central", agent=many), now=0.0) as deployment:
        reports = started(deployment, rng, 60)
        deployment.report(*reports[0], 2.0)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)

        def full(yes):
            if how == "bytes":  # of a file; SQLite's log grows with every commit
                size = (tmp_path / "live.db-wal").stat().st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size if yes else before[0], before[1]))
            else:
                limit = "1" if yes else str(2**30)  # as many as there are, that is
                deployment.store.do(lambda db: db.rows(f"PRAGMA max_page_count = {limit}"))

        refused = []
        full(True)
        try:
            for token, text in reports[1:]:
                try:
                    deployment.report(token, text, 2.0)
                except Unavailable as error:
                    refused.append(str(error))
            if how == "bytes":  # where pages are scarce, a release frees some
                with pytest.raises(Unavailable):
                    deployment.close_due(2 * WITHIN + 2.0)
        finally:
            full(False)
        assert refused
        assert all("to do the same again is safe" in message for message in refused)
        assert not any(text in message for message in refused for _, text in reports)
        for token, text in reports[1:]:
            assert deployment.report(token, text, 3.0) == "recorded"
        assert deployment.close_due(2 * WITHIN + 2.0) == [1]
        assert (kept(deployment) == expected(deployment, [text for _, text in reports])).all()
        assert len(deployment.releases()) == 1


def patiently(what, *given):
    """Does the same again until it is answered."""
    while True:
        try:
            return what(*given)
        except Unavailable:
            threading.Event().wait(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "crash", "drop_connections"])
def test_a_database_that_goes_away(how, rng):
    """Would catch a report that was acknowledged and is gone after a restart, and a store that does not come back."""
    postgres = Postgres()
    try:
        with live.create(postgres.new(), config("central"), now=0.0) as deployment, ThreadPoolExecutor(4) as people:
            for version in range(4):
                now = 1.0 + 10 * WITHIN * version
                reports = started(deployment, rng, SLOTS, now, f"in {version}")
                answers = [people.submit(patiently, deployment.report, *sent, now + 1.0) for sent in reports * 3]
                getattr(postgres, how)()
                if how != "drop_connections":
                    postgres.start()
                assert {answer.result(60) for answer in answers} == {"recorded"}
                before = kept(deployment)
                assert patiently(deployment.close_due, now + 2 * WITHIN) == [version + 1]
                added = kept(deployment) - before
                assert (added == expected(deployment, [text for _, text in reports], version)).all()
            assert [each.version for each in deployment.releases()] == [1, 2, 3, 4]
    finally:
        postgres.close()


@pytest.mark.slow
def test_commits_that_do_not_wait_are_lost_in_a_crash(monkeypatch, rng):
    """Would catch a test of crashes that loses nothing: without synchronous_commit acknowledged reports are gone."""
    original = PostgresStore._open

    def opened(self):
        original(self)
        self._connection.execute("SET synchronous_commit = off")

    postgres = Postgres(wal_writer_delay="10s")
    try:
        with live.create(postgres.new(), config("central"), now=0.0) as deployment:
            reports = started(deployment, rng)
            url = deployment.store._url
        monkeypatch.setattr(PostgresStore, "_open", opened)
        with live.open(url, "steps") as deployment:
            for sent in reports:
                deployment.report(*sent, 2.0)
            postgres.crash()
            postgres.start()
            assert len(read(url, "steps").reports) < SLOTS
    finally:
        postgres.close()


def test_two_servers_that_wait_for_each_other(postgres):
    """Would catch a group of requests that fails because two servers got the same reports in different orders."""
    url = postgres.new()
    stores = [connect(url), connect(url)]
    met = [threading.Event(), threading.Event()]
    report = {"name": "d", "version": 0, "body": b"x"}

    def crossing(me):
        def what(db):
            db.run(sql.NEW_REPORT, **report, slot=me)
            met[me].set()
            assert met[1 - me].wait(30)
            return db.run(sql.NEW_REPORT, **report, slot=1 - me)

        return what

    try:
        answers = [store.submit(crossing(i)) for i, store in enumerate(stores)]
        for answer in answers:
            answer.result(60)
        assert [slot for slot, _ in stores[0].do(lambda db: db.rows(sql.REPORTS, name="d", version=0))] == [0, 1]
    finally:
        for store in stores:
            store.close()


def test_two_stores_of_one_process(tmp_path, python):
    """Would catch a store whose opening ends the locks of another: its log is deleted, and what it commits is lost."""
    url = f"sqlite:///{tmp_path / 'live.db'}"
    first, second = connect(url), connect(url)
    python(f"from discreet.live.stores import connect; store = connect({url!r}); store.close()")  # would delete the log
    first.do(lambda db: db.run(sql.NEW_LEDGER, population="kept", document="{}"))
    there = (
        f"from discreet.live.stores import connect, sql; print(connect({url!r}).do(lambda db: db.rows(sql.LEDGERS)))"
    )
    assert python(there) == "[('kept', '{}')]"
    first.close()
    second.close()


def test_what_cannot_be_opened(tmp_path):
    """Would catch an error of the driver that nobody expects."""
    with pytest.raises(InvalidInput, match="cannot be opened"):
        connect(f"sqlite:///{tmp_path}")
    with pytest.raises(InvalidInput, match="cannot be opened"):
        connect(f"sqlite:///{tmp_path / 'nowhere' / 'live.db'}")


def test_a_deployment_that_ends_while_it_closes(url, rng):
    """Would catch a server that tries for ever to release a batch of a deployment that was ended."""
    with live.create(url, config("central"), now=0.0) as deployment:
        started(deployment, rng)
        assert deployment._closing(2 * WITHIN).closing
        deployment.end()
        assert deployment.close_due(3 * WITHIN) == []
        assert (deployment.state, deployment.version) == ("complete", 0)


def test_a_store_that_is_closed_says_so(url):
    """Would catch a caller who waits for ever for a writer that has ended."""
    store = connect(url)
    given_up = store.submit(lambda db: None)
    given_up.cancel()
    assert store.do(lambda db: db.rows("SELECT 1")) == [(1,)]
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.do(lambda db: None)


def test_a_clock_that_jumps_a_day(url, rng):
    """Would catch a report that is lost, or a batch that is released twice, because a clock is wrong."""
    with live.create(url, config("central"), now=0.0) as deployment:
        reports = started(deployment, rng, SLOTS, 10 * DAY)
        assert deployment.report(*reports[0], 9 * DAY) == "recorded"  # a day back
        assert deployment.close_due(9 * DAY) == []
        with pytest.raises(Closed, match="within"):
            deployment.report(*reports[1], 11 * DAY)  # a day forward: refused, and nothing else
        for sent in reports[1:]:
            assert deployment.report(*sent, 10 * DAY + 1) == "recorded"
        assert deployment.close_due(11 * DAY) == [1]
        assert (kept(deployment) == expected(deployment, [text for _, text in reports])).all()
        assert deployment.close_due(10 * DAY) == []  # back again
        second = started(deployment, rng, SLOTS, 10 * DAY, "next")
        before = kept(deployment)
        for sent in second:
            assert deployment.report(*sent, 10 * DAY) == "recorded"
        assert deployment.close_due(10 * DAY + 2 * WITHIN) == []  # the batch began a day later, says the database
        assert deployment.close_due(11 * DAY + 2 * WITHIN) == [2]
        added = kept(deployment) - before
        assert (added == expected(deployment, [text for _, text in second], 1)).all()
        assert [each.version for each in deployment.releases()] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_kills_while_clocks_jump(store, trust, forks, tmp_path, request):
    """Would catch any of the ten invariants that holds only while time goes forward."""
    databases = Databases(tmp_path, request.getfixturevalue("postgres") if store == "postgresql" else None)
    shuffler = databases.new() if trust == "shuffle" else None
    rig = Rig(forks, databases.new(), trust, servers=2, shuffler=shuffler, jumps=True, seed=4)
    for turn in range(10):
        rig.round(f"server {turn % 2}", RANDOM)
    assert rig.finish().releases > 2


def test_a_full_memory_of_errors_shows_nobody(rng):
    """Would catch an error that keeps a report: exceptions hold the frames that they went through."""
    with live.create("memory:", config("central"), now=0.0) as deployment:
        (token, text), *_ = started(deployment, rng, 1)
        for bad in (text[:-4] + "zzzz", text[:-1], "1.raw." + text):
            with pytest.raises((LiveError, ValueError)) as refused:
                deployment.report(token, bad, 2.0)
            assert bad not in str(refused.value)


def test_records_of_a_snapshot(url, rng):
    """Would catch a reader that sees something else than the deployment."""
    with live.create(url, config("central"), now=0.0) as deployment:
        batch(deployment, rng, 1.0)
        now = read(url, "steps")
        assert now.row.version == deployment.version == 1
        assert np.array_equal(records.unpack(now.secret[1])["kept"].total, kept(deployment))


def test_an_erasure_waits_for_a_report_that_is_on_its_way(postgres):
    """Would catch a report that is kept, and counted, after its person was told that it is erased."""
    url, held, go = postgres.new(), threading.Event(), threading.Event()

    def pause(point):
        if point == "report: before the commit":
            held.set()
            assert go.wait(60)

    with live.create(url, config("central"), now=0.0) as first, live.open(url, first.name) as second:
        ticket = first.start(person="a", now=1.0)
        points.watch(pause)
        try:
            with ThreadPoolExecutor(2) as people:
                sent = people.submit(first.report, ticket.token, ticket.encoder.absent(), now=1.0)
                assert held.wait(60)
                erased = people.submit(second.erase, token=ticket.token)
                try:
                    with pytest.raises(TimeoutError):
                        erased.result(timeout=0.5)
                finally:
                    go.set()
                assert (sent.result(), erased.result()) == ("recorded", "erased")
        finally:
            points.watch(None)
        assert first.store.do(lambda db: db.rows("SELECT * FROM reports")) == []

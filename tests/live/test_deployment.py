"""One person at a time: slots, absence, lateness, several episodes, erasure, closing, roll-back."""

from __future__ import annotations

import dataclasses
import shutil
import threading

import numpy as np
import pytest

import discreet as dc
from discreet import live
from discreet.errors import (
    Closed,
    InvalidInput,
    InvalidPersonalData,
    InvalidToken,
    RolledBack,
    Unavailable,
    UnknownName,
)
from discreet.live import points, rows
from discreet.live.stores import sql
from discreet.privatizers.codec import to_wire
from discreet.runtime import records
from tests.golden import plain
from tests.live.people import KINDS, MDP, Crowd, config, deploy, send, shut


@pytest.fixture
def made():
    """Deployments that are left at the end."""
    found = []

    def make(*args, **more):
        found.append(deploy(*args, **more))
        return found[-1]

    yield make
    for each in found:
        shut(each)


@pytest.mark.parametrize("kind", KINDS)
def test_people_come_and_some_stay_away(made, kind):
    """Would catch a mechanism that cannot take a batch in which somebody is missing, or nobody came at all."""
    deployment = made(kind)
    crowd = Crowd(deployment, absent=[*range(0, 400, 3), *range(deployment.plan().size)])
    first = deployment.plan()
    crowd.all()
    assert deployment.version == len(deployment.releases()) > 1
    assert deployment.plan(0).hash == first.hash
    assert deployment.releases()[-1].users <= deployment.config.episodes
    found = deployment.guarantee
    assert found.noise == "secure"
    assert 0.99 * KINDS[kind][3]["epsilon"] <= found.epsilon <= KINDS[kind][3]["epsilon"]


@pytest.mark.parametrize("kind", ["dp-ucbvi", "discreet-vi central", "linopt-vi"])
def test_without_drop_outs_it_is_what_simulate_does(made, kind):
    """Bit for bit, with fast noise: would catch people added in another order, or a plan from another release."""
    options = {"privacy": {"noise": "fast"}, "simulation": True, "seed": 3}
    deployment = made(kind, **options)
    agent, episodes, given, privacy = KINDS[kind]
    own = {key: value for key, value in privacy.items() if key != "trust"}
    twin = dc.agents.make(agent, MDP.spec, episodes=episodes, seed=3, privacy=dc.Central(**own), **given)
    people = np.random.Generator(np.random.PCG64())
    from discreet.noise import Role, seed_sequence, stream

    people = stream(seed_sequence(5), Role.PEOPLE)
    crowd = Crowd(deployment)
    crowd.rng = people
    gaps = []
    while deployment.state == "open":
        gaps += [MDP.optimal_value - MDP.evaluate(ticket.policy) for ticket in crowd.fill()]
        crowd.now += 11
        deployment.close_due(now=crowd.now)
    result = dc.simulate(twin, MDP, len(gaps), 5, block=False)
    np.testing.assert_allclose(result.gaps, gaps, atol=1e-12)
    assert deployment.plan().hash == twin.plan.hash
    assert plain(deployment.releases()[-1].released) == plain(twin.privatizer.last)


def test_plans_replay_from_releases(made):
    """Would catch a plan that depends on anything but what was released and the agent's own randomness."""
    deployment = made("discreet-vi central")
    learner = deployment.store.do(lambda db: db.row(sql.LEARNER, name="steps"))[1]
    Crowd(deployment).all()
    for release in deployment.releases():
        learner, plan = deployment.planned(bytes(learner), release.version, release.users, release.released)
        assert plan.hash == deployment.plan(release.version).hash


def test_totals_are_what_people_sent(made):
    """Would catch a report that is lost, counted twice, or moved to another batch."""
    deployment = made("dp-ucbvi")
    crowd = Crowd(deployment, absent=range(1, 40, 7))
    while deployment.version < len(deployment.agent.batches) - 1:  # at the end totals are destroyed
        crowd.batch()
    total = np.zeros(deployment.agent.mechanism.layout.size)
    for _, _, report in crowd.sent:
        np.add.at(total, report.indices, report.values)
    kept = records.unpack(bytes(deployment.store.do(lambda db: db.row(sql.SECRET, name="steps"))[1]))["kept"]
    np.testing.assert_array_equal(np.ldexp(kept.total.astype(float), -deployment.agent.mechanism.sum.bits), total)
    assert kept.users == 35  # slots: who stays away is in it, as zeros


def test_the_same_person_has_the_same_slot(made):
    deployment = made()
    one, again, other = (deployment.start(person=name, now=1.0) for name in ("a", "a", "b"))
    assert (one.version, one.slot, one.token) == (again.version, again.slot, again.token)
    assert other.slot == 1
    assert deployment.status["issued"] == 2


def test_a_person_with_one_episode_is_never_in_two_batches(made):
    deployment = made()
    crowd = Crowd(deployment)
    crowd.batch()
    for now in (crowd.now, crowd.now + 1):
        ticket = deployment.start(person="person 0", now=now)
        assert not ticket.collected
        assert (ticket.token, ticket.encoder, ticket.slot, ticket.report_by) == (None,) * 4
        np.testing.assert_array_equal(ticket.policy, deployment.plan().rest)
    assert deployment.status["issued"] == 0


def test_several_episodes_are_declared_and_promised(made):
    """Would catch a guarantee that is one episode's while a person has three."""
    deployment = made("discreet-vi central", episodes_per_person=3)
    assert deployment.guarantee.unit == "group of 3 users"
    assert deployment.guarantee.epsilon > 3 * 2.5


def test_a_person_has_one_slot_of_a_batch_whether_they_report_or_not(made):
    """Would catch a second slot that a report opens: then who stays away would move everybody after them."""
    deployment = made(episodes_per_person=3)
    crowd, had = Crowd(deployment), []
    while deployment.state == "open":
        first = deployment.start(person="a", now=crowd.now)
        if first.collected:
            had.append(first.version)
            if len(had) % 2:
                deployment.report(first.token, first.encoder.absent(), now=crowd.now)
            again = deployment.start(person="a", now=crowd.now)
            assert (again.slot, again.token) == (first.slot, first.token)
        crowd.batch()
    assert had == [0, 1, 2]


def test_anonymous_people_are_said(made):
    with pytest.raises(InvalidInput, match="anonymous = true"):
        made().start(now=0.0)
    deployment = made(anonymous=True)
    assert [deployment.start(now=0.0).slot for _ in range(3)] == [0, 1, 2]
    assert any("more than 1 slot, with or without a pseudonym" in said for said in deployment.guarantee.assumptions)


def test_a_full_batch_collects_nobody_else(made):
    """Would catch capacity that is used by people who are not collected."""
    deployment = made()
    crowd = Crowd(deployment)
    crowd.fill()
    late = deployment.start(person="late", now=crowd.now)
    assert not late.collected
    crowd.now += 11
    assert deployment.close_due(now=crowd.now) == [1]
    assert deployment.start(person="late", now=crowd.now).slot == 0


def test_the_window_closes_a_batch_that_never_fills(made):
    deployment = made(window="1 min")
    assert deployment.start(person="a", now=59.0).collected
    assert not deployment.start(person="b", now=61.0).collected
    assert deployment.close_due(now=69.0) == []
    assert deployment.close_due(now=70.5) == [1]
    assert deployment.releases()[0].users == 5  # the schedule's size: absent people are zeros


def test_late_reports_are_refused_and_not_moved(made):
    deployment = made()
    ticket = deployment.start(person="a", now=0.0)
    assert ticket.report_by == 10.0
    report = ticket.encoder.absent()
    with pytest.raises(Closed, match="within 10 s"):
        deployment.report(ticket.token, report, now=10.5)
    for name in "bcde":
        deployment.start(person=name, now=0.0)
    assert deployment.close_due(now=10.5) == [1]
    with pytest.raises(Closed, match="not moved"):
        deployment.report(ticket.token, report, now=5.0)


def test_the_first_report_of_a_slot_counts(made):
    """Would catch the last report that wins, and a report that is counted again."""
    deployment = made()
    ticket = deployment.start(person="a", now=0.0)
    mine = ticket.encoder.encode(MDP.sample(ticket.policy, np.random.default_rng(0)))
    for report in (mine, ticket.encoder.absent(), to_wire(mine), mine):
        assert deployment.report(ticket.token, report, now=1.0) == "recorded"
    kept = deployment.store.do(lambda db: db.rows(sql.REPORTS, name="steps", version=0))
    assert [(slot, bytes(body).decode()) for slot, body in kept] == [(0, to_wire(mine))]


@pytest.mark.parametrize("kind", ["dp-ucbvi", "discreet-vi central", "discreet-vi local", "binomial"])
def test_one_bad_report_does_not_poison_the_batch(made, kind):
    """Would catch a report that is acknowledged and then refuses everybody."""
    deployment = made(kind)
    ticket = deployment.start(person="bad", now=0.0)
    good = to_wire(ticket.encoder.absent())
    for bad in (good[:-4], "x" * len(good), good.replace(".", ",", 1), 7, b"", "1.raw."):
        with pytest.raises(InvalidPersonalData):
            send(deployment, ticket, bad, 1.0)
    if kind == "dp-ucbvi":
        report = ticket.encoder.absent()
        heavy = dataclasses.replace(report, values=np.ones_like(report.values), indices=np.zeros_like(report.indices))
        with pytest.raises(InvalidPersonalData):
            deployment.report(ticket.token, heavy, now=1.0)
    crowd = Crowd(deployment)
    crowd.batch()
    assert deployment.version == 1


def test_tokens_of_others_are_refused(made):
    one, other = made(), made(name="other")
    ticket, foreign = (each.start(person="a", now=0.0) for each in (one, other))
    report = ticket.encoder.absent()
    version, slot, mark = ticket.token.split(".")
    forged = [f"{version}.1.{mark}", f"1.{slot}.{mark}", f"0{version}.{slot}.{mark}", f"{version}.{slot}.{mark[:-1]}A"]
    for token in (*forged, foreign.token, "", "0.0.", "a.b.c", None, 7, "9" * 4000, f"{version}.{slot}.é"):
        with pytest.raises(InvalidToken) as caught:
            one.report(token, report, now=1.0)
        assert str(token)[:20] not in str(caught.value) or not token
    assert one.report(ticket.token, report, now=1.0) == "recorded"


def test_erasure(made):
    """Would catch a report that is erased and still counted, or that comes back with a retry."""
    deployment = made()
    crowd = Crowd(deployment)
    tickets = crowd.fill()
    assert deployment.erase(person="person 2") == "erased"
    assert deployment.erase(token=tickets[3].token) == "erased"
    assert deployment.erase(person="nobody") == "unknown"
    with pytest.raises(Closed, match="erased"):
        deployment.report(tickets[3].token, crowd.sent[3][2], now=crowd.now)
    assert not deployment.start(person="person 2", now=crowd.now).collected
    crowd.now += 11
    deployment.close_due(now=crowd.now)
    assert deployment.erase(person="person 1") == "closed"
    kept = records.unpack(bytes(deployment.store.do(lambda db: db.row(sql.SECRET, name="steps"))[1]))["kept"]
    total = np.zeros(deployment.agent.mechanism.layout.size)
    for _, slot, report in crowd.sent:
        if slot not in (2, 3):
            np.add.at(total, report.indices, report.values)
    np.testing.assert_array_equal(np.ldexp(kept.total.astype(float), -deployment.agent.mechanism.sum.bits), total)


def test_public_timing_closes_when_all_have_reported_and_says_so(made):
    private, public = made(), made(timing="public")
    for deployment, closed in ((private, []), (public, [1])):
        crowd = Crowd(deployment)
        crowd.fill()
        assert deployment.close_due(now=crowd.now) == closed
        said = "whether and when people report is not protected" in deployment.guarantee.assumptions
        assert said == bool(closed)


def test_public_timing_waits_for_whoever_can_still_report(made):
    deployment = made(timing="public")
    crowd = Crowd(deployment, absent=[2])
    crowd.fill()
    assert deployment.close_due(now=9.0) == []
    assert deployment.close_due(now=11.0) == [1]


def test_nothing_is_left_of_people_at_the_end(made):
    deployment = made()
    Crowd(deployment).all()
    assert deployment.state == "complete"
    for table in ("slots", "reports", "steps", "batches", "secrets"):
        assert deployment.store.do(lambda db, table=table: db.rows(f"SELECT * FROM {table}")) == []
    assert deployment.store.do(lambda db: db.row(sql.KEYS, name="steps"))[1] is None
    assert not deployment.start(person="person 0", now=1e6).collected
    assert deployment.close_due(now=1e6) == []


def test_it_can_be_ended_early(made):
    deployment = made()
    crowd = Crowd(deployment)
    tickets = crowd.fill()
    deployment.end()
    assert deployment.state == "complete"
    for table in ("slots", "reports", "secrets"):
        assert deployment.store.do(lambda db, table=table: db.rows(f"SELECT * FROM {table}")) == []
    assert deployment.close_due(now=1e6) == []
    with pytest.raises(Closed):
        deployment.report(tickets[0].token, crowd.sent[0][2], now=crowd.now)


def test_after_a_crash_it_goes_on_where_it_was(tmp_path):
    """In a file: would catch a state that lives in memory only."""
    url = f"sqlite:///{tmp_path / 'steps.db'}"
    deployment = deploy(url=url)
    crowd = Crowd(deployment)
    ticket = crowd.fill()[0]
    shut(deployment)
    with live.open(url, "steps") as again:
        assert again.report(ticket.token, crowd.sent[0][2], now=crowd.now) == "recorded"
        assert again.close_due(now=crowd.now + 11) == [1]
        assert again.guarantee == deployment.guarantee
        assert live.names(url) == ["steps"]
        with pytest.raises(InvalidInput, match="there is steps"):
            live.open(again.store, "other")
        with pytest.raises(InvalidInput, match="already"):
            live.create(again.store, config())


@pytest.mark.parametrize(
    "point", ["reports read", "noise drawn", "release: before the commit", "plan made", "plan: before the commit"]
)
def test_a_failure_at_any_point_is_safe_to_repeat(made, point):
    """Would catch noise that is drawn again for a version that was committed, and a batch that is folded in twice."""
    deployment, twin = (made(privacy={"noise": "fast"}, simulation=True, seed=3) for _ in range(2))
    one, other = Crowd(deployment, absent=[2]), Crowd(twin, absent=[2])
    other.batch()

    def fail(reached):
        if reached == point:
            points.watch(None)
            raise RuntimeError("planted")

    one.fill()
    points.watch(fail)
    try:
        with pytest.raises((RuntimeError, Unavailable)):
            deployment.close_due(now=one.now + 11)
    finally:
        points.watch(None)
    committed = deployment.releases()
    deployment.close_due(now=one.now + 11)
    assert deployment.version == 1
    if committed:
        assert committed[0].hash == deployment.releases()[0].hash
    assert deployment.plan().hash == twin.plan().hash  # fast noise: the same draw, once
    assert len(deployment.releases()) == 1


def test_of_two_servers_one_releases(tmp_path):
    """Would catch two releases of one version: compare and swap decides."""
    url = f"sqlite:///{tmp_path / 'steps.db'}"
    one = deploy("discreet-vi central", url)
    other = live.open(url, "steps")
    crowd = Crowd(one, absent=[3])
    for _ in range(2):
        crowd.fill()
        crowd.now += 11
        found = []
        threads = [
            threading.Thread(target=lambda each=each, found=found: found.extend(each.close_due(now=crowd.now)))
            for each in (one, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(found) == {one.version}
        assert [r.hash for r in one.releases()] == [r.hash for r in other.releases()]
    assert len(one.releases()) == 2
    shut(one)
    shut(other)


def test_a_restored_backup_is_found_out(tmp_path):
    """Would catch a second release of the same people with other noise."""
    path = tmp_path / "steps.db"
    deployment = deploy(url=f"sqlite:///{path}")
    crowd = Crowd(deployment)
    crowd.fill()
    shut(deployment)
    backup = tmp_path / "backup.db"
    shutil.copy(path, backup)
    deployment = crowd.deployment = live.open(f"sqlite:///{path}", "steps")
    crowd.now += 11
    deployment.close_due(now=crowd.now)
    newer = deployment.start(person="newer", now=crowd.now)
    shut(deployment)
    with live.open(f"sqlite:///{backup}", "steps") as old:
        assert old.version == 0
        with pytest.raises(RolledBack, match="restored"):
            old.report(newer.token, newer.encoder.absent(), now=crowd.now)
        assert old.state == "rolled-back"
        for call in (lambda: old.close_due(now=crowd.now), lambda: old.start(person="x", now=crowd.now)):
            with pytest.raises(RolledBack):
                call()
        assert old.releases() == []
    with pytest.raises(RolledBack, match="old copy"):
        live.open(f"sqlite:///{backup}", "steps", at_least=1)


def test_a_slot_that_the_database_never_gave_out_proves_a_roll_back(tmp_path):
    path = tmp_path / "steps.db"
    deployment = deploy(url=f"sqlite:///{path}")
    deployment.start(person="a", now=0.0)
    shut(deployment)
    shutil.copy(path, tmp_path / "backup.db")
    deployment = live.open(f"sqlite:///{path}", "steps")
    ticket = deployment.start(person="b", now=0.0)
    shut(deployment)
    with live.open(f"sqlite:///{tmp_path / 'backup.db'}", "steps") as old:
        with pytest.raises(RolledBack):
            old.report(ticket.token, ticket.encoder.absent(), now=1.0)
        assert old.state == "rolled-back"


def test_what_real_people_must_not_meet_is_refused():
    for more, message in (
        ({"privacy": {"noise": "fast"}}, "need noise='secure'"),
        ({"seed": 1}, "seed is for simulation"),
    ):
        with pytest.raises(InvalidInput, match=message):
            live.create("memory:", config(**more))
    rlsvi = {**config(), "agent": {"name": "rlsvi", "episodes": 40}}
    rlsvi["privacy"] = {"trust": "central", "epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InvalidInput, match="simulation = true"):
        live.create("memory:", rlsvi)
    nothing = {**config(), "agent": {"name": "ucbvi", "episodes": 40}, "privacy": {"trust": "none"}}
    with pytest.raises(InvalidInput, match="protects its people"):
        live.create("memory:", nothing)
    for given in (rlsvi, nothing):
        live.create("memory:", {**given, "simulation": True}).close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nam": 1}, "did you mean 'name'"),
        ({"name": "Steps!"}, "small letters"),
        ({"timing": "privat"}, "did you mean 'private'"),
        ({"report_within": "soon"}, "90 min"),
        ({"report_within": -1}, "more than 0"),
        ({"world": {"states": 3, "actions": 2}}, "needs 'horizon'"),
        ({"world": {"states": 3, "actions": 2, "horizon": 4, "state": 1}}, "did you mean 'states'"),
        ({"world": {"states": 3, "actions": 2, "horizon": 4, "gone": 3}}, "gone"),
        ({"agent": {"nme": "x"}}, "did you mean 'name'"),
        ({"agent": {"update_evry": 1}}, "did you mean 'update_every'"),
        ({"privacy": {"epsilo": 1}}, "did you mean 'epsilon'"),
        ({"privacy": {"trust": "centrl"}}, "did you mean 'central'"),
        ({"privacy": {"trust": ["central"]}}, "trust model"),
        ({"world": {"states": 3, "actions": 2, "horizon": 4, "initial": [1, "x", 0]}}, "3 probabilities"),
        ({"population": {"nam": "x"}}, "did you mean 'name'"),
        ({"population": {"delta": 0.1}}, "no epsilon"),
        ({"episodes_per_person": 0}, "at least 1"),
        ({"anonymous": "yes"}, "true or false"),
        ({"report_within": 10**400}, "must be a number"),
        ({"agent": {"name": ["dp-ucbvi"]}}, "no text"),
    ],
)
def test_mistakes_in_a_configuration_are_named(change, message):
    with pytest.raises((InvalidInput, UnknownName), match=message):
        live.read(config(**change))


def test_a_budget_must_be_said():
    """Would catch a TypeError of Python instead of a message."""
    with pytest.raises(InvalidInput, match="needs 'epsilon'"):
        live.read({**config(), "privacy": {"trust": "local"}})


def test_a_file_is_a_configuration(tmp_path):
    path = tmp_path / "steps.toml"
    path.write_text(
        'name = "steps"\nreport_within = "2 days"\n[world]\nstates = 3\nactions = 2\nhorizon = 4\ngone = 2\n'
        '[agent]\nepisodes = 200\n[privacy]\ntrust = "central"\nepsilon = 1.0\ndelta = 1e-6\n'
    )
    found = live.read(path)
    assert (found.report_within, found.gone, found.privacy["noise"]) == (172800.0, 2, "secure")
    assert live.read(found.to_document()).to_document() == found.to_document()
    path.write_text("name = ")
    with pytest.raises(InvalidInput, match="is no TOML"):
        live.read(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        live.read(tmp_path / "none.toml")


def test_databases_are_named_clearly(tmp_path):
    (tmp_path / "text.db").write_text("this is no database, and long enough to be sure of it")
    for url, message in (
        ("mysql://user:secret@host/x", "sqlite:///FILE"),
        (f"sqlite:///{tmp_path / 'none' / 'x.db'}", "cannot be opened"),
        (f"sqlite:///{tmp_path / 'text.db'}", "is no database"),
    ):
        with pytest.raises(InvalidInput, match=message) as caught:
            live.open(url, "steps")
        assert "secret" not in str(caught.value)


def test_tables_of_a_later_version_are_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'steps.db'}"
    deployment = deploy(url=url)
    deployment.store.do(lambda db: db.run(sql.MOVE_TABLES, version=sql.VERSION + 1))
    shut(deployment)
    with pytest.raises(InvalidInput, match="knows"):
        live.open(url, "steps")


def test_only_the_owner_can_read_the_file(tmp_path):
    deployment = deploy(url=f"sqlite:///{tmp_path / 'steps.db'}")
    deployment.start(person="a", now=0.0)
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0
    shut(deployment)


def test_many_clients_at_once(tmp_path):
    """Would catch a slot that two people have, or an answer that goes to somebody else."""
    deployment = deploy("discreet-vi central", f"sqlite:///{tmp_path / 'steps.db'}")
    found, size = {}, deployment.plan().size

    def client(i):
        for j in range(5):
            ticket = deployment.start(person=f"{i} {j}", now=0.0)
            if ticket.collected:
                deployment.report(ticket.token, ticket.encoder.absent(), now=0.0)
                found[i, j] = ticket.slot

    threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found.values()) == list(range(size))
    kept = deployment.store.do(lambda db: db.rows(sql.REPORTS, name="steps", version=0))
    assert [slot for slot, _ in kept] == list(range(size))
    shut(deployment)


def test_due_depends_on_starts_and_the_clock_alone(made):
    """Would catch a batch that closes by who reported."""
    deployment = made()
    row = deployment._row()
    for issued, latest, now, expected in ((4, 0.0, 1e9, False), (5, 3.0, 12.9, False), (5, 3.0, 13.1, True)):
        at = row._replace(issued=issued, latest=latest)
        assert rows.due(None, deployment.config, at, now) is expected

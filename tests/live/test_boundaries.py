"""Somebody who stays away moves no boundary; if they did, the stated ε would be false, and an audit proves it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.audit.bound import lower_bound
from discreet.live import rows
from discreet.live.stores import sql
from discreet.mdp import Trajectory
from discreet.noise import SecureSource
from discreet.privacy import RawBatch, accounting
from discreet.privatizers.codec import from_wire
from tests.live.people import deploy, shut

SIZE, BATCHES = 4, 60
PLAYED = BATCHES - 2  # so that the planted rule, which counts too many, has room
#: Two kinds of people whose data differ as much as anybody's can.
PEOPLE = [Trajectory([0, 0], [0], [0.0]), Trajectory([1, 1], [0], [1.0])]


def run(monkeypatch, absent):
    """Plays a deployment in which every ``2·SIZE``-th person is of the second kind, and notes who is in which batch.

    Returns:
        For every batch when it closed, which slots were given out, and what was reported.
    """
    deployment = deploy(
        world={"states": 2, "actions": 1, "horizon": 1},
        agent={"name": "dp-ucbvi", "episodes": SIZE * BATCHES, "update_every": SIZE},
        privacy={"epsilon": 1.0, "delta": 1e-5, "sum": "batch"},
    )
    found, now, k = [], 0.0, 0
    batch_of = type(deployment)._batch

    def noted(self, version, plan):
        sent = self.store.do(lambda db: db.rows(sql.REPORTS, name=self.name, version=version))
        slots = self.store.do(lambda db: db.rows("SELECT slot FROM slots WHERE version = :version", version=version))
        reports = [from_wire(bytes(text), plan.encoder) for _, text in sent]
        found.append((now, sorted(slot for (slot,) in slots), [(r.indices, r.values) for r in reports]))
        return batch_of(self, version, plan)

    monkeypatch.setattr(type(deployment), "_batch", noted)
    while len(found) < PLAYED:
        ticket = deployment.start(person=f"{k}", now=now)
        if ticket.collected and k != absent:
            report = ticket.encoder.encode(PEOPLE[k % (2 * SIZE) == 0])
            deployment.report(ticket.token, report, now=now)
        k += 1
        now += 1.0
        status = deployment.status
        if status["issued"] >= status["slots"]:
            deployment.close_due(now=now)  # as often as one likes
            if k % SIZE == 0:
                now += 11.0
                deployment.close_due(now=now)
    monkeypatch.undo()
    return found, deployment


def close_on_reports(monkeypatch):
    """Plants the rule that a batch closes when as many have reported as it has slots, whoever started."""
    start = rows.start

    def due(db, config, row, now):
        (reports,) = db.row("SELECT COUNT(*) FROM reports WHERE version = :version", version=row.version)
        return row.planned == 1 and row.state == "open" and reports >= row.size > 0

    def more(db, config, person, now):
        row = rows.deployed(db, config.name)
        db.run("UPDATE deployments SET size = :size WHERE name = :name", size=max(row.size, SIZE), name=config.name)
        place = start(db, config, person, now)
        if place.slot is None and row.planned and row.state == "open":  # one more than there are
            db.run("UPDATE deployments SET size = size + 1 WHERE name = :name", name=config.name)
            place = start(db, config, person, now)
            db.run("UPDATE deployments SET size = size - 1 WHERE name = :name", name=config.name)
        return place

    monkeypatch.setattr(rows, "due", due)
    monkeypatch.setattr(rows, "start", more)


def distance(one, other, size):
    """Returns the length of the difference of what two worlds put into every batch, over all batches."""
    total = 0.0
    for (_, _, mine), (_, _, theirs) in zip(one, other, strict=False):
        vector = np.zeros(size)
        for sign, reports in ((1, mine), (-1, theirs)):
            for indices, values in reports:
                np.add.at(vector, indices, sign * values)
        total += float(vector @ vector)
    return math.sqrt(total)


def test_somebody_who_stays_away_moves_nothing(monkeypatch):
    """The same closing times, slots and neighbours in both worlds: would catch a boundary that depends on reports."""
    (here, one), (away, other) = run(monkeypatch, None), run(monkeypatch, 0)
    assert [(at, slots) for at, slots, _ in here] == [(at, slots) for at, slots, _ in away]
    assert len(here) == PLAYED
    mechanism = one.agent.mechanism
    mu = distance(here, away, mechanism.layout.size) / mechanism.sum.scale
    claim = one.guarantee
    assert accounting.gaussian_epsilon(mu, claim.delta) < claim.epsilon
    shut(one)
    shut(other)


def test_closing_on_reports_would_break_the_claim(monkeypatch):
    """The planted rule: one person who stays away moves everybody after them, and the loss is far above the claim."""
    close_on_reports(monkeypatch)
    with pytest.MonkeyPatch.context() as patch:
        here, one = run(patch, None)
    close_on_reports(monkeypatch)
    with pytest.MonkeyPatch.context() as patch:
        away, other = run(patch, 0)
    assert [at for at, _, _ in here] != [at for at, _, _ in away]
    mechanism = one.agent.mechanism
    mu = distance(here, away, mechanism.layout.size) / mechanism.sum.scale
    assert accounting.gaussian_epsilon(mu, one.guarantee.delta) > 2.5 * one.guarantee.epsilon
    shut(one)
    shut(other)


def _batch(reports, empty):
    filled = [*reports, *[(empty.indices, empty.values)] * (SIZE - len(reports))]
    return RawBatch(*(np.stack(column) for column in zip(*filled, strict=True)))


def _total(batch, size):
    found = np.zeros(size)
    np.add.at(found, batch.indices, batch.values)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("planted", [False, True])
def test_an_audit_proves_it(monkeypatch, planted):
    """Runs of the real mechanism on what the two worlds put into its batches: broken if planted, and only then."""
    worlds, deployments = [], []
    for absent in (None, 0):
        with pytest.MonkeyPatch.context() as patch:
            if planted:
                close_on_reports(monkeypatch)
            found, deployment = run(patch, absent)
            worlds.append(found)
            deployments.append(deployment)
    mechanism, encoder = deployments[0].agent.mechanism, deployments[0].plan(0).encoder
    empty, source = encoder.absent(), SecureSource()
    batches = [[_batch(reports, empty) for _, _, reports in found] for found in worlds]
    sums = [np.array([_total(batch, mechanism.layout.size) for batch in found]) for found in batches]
    difference = sums[1] - sums[0]  # what the attacker knows

    def scores(world, runs):
        seen = np.zeros(runs)
        for i in range(runs):
            kept, before = mechanism.start(), np.zeros(mechanism.layout.size)
            for batch, direction in zip(batches[world], difference, strict=True):
                kept, found = mechanism.released(mechanism.folded(kept, batch, encoder), source)
                read = np.concatenate([part.ravel() for part in (found.visits, found.transitions, found.rewards)])
                seen[i] += (read - before) @ direction
                before = read
        return seen

    pilot, fresh = ({"likelihood": (scores(0, runs), scores(1, runs))} for runs in (200, 800))
    claim = deployments[0].guarantee
    bound, _ = lower_bound(pilot, fresh, claim.delta)
    assert (bound > claim.epsilon) == planted
    for deployment in deployments:
        shut(deployment)

"""The campaign in small, and whether it would find what it looks for."""

from __future__ import annotations

import pytest

from discreet import live
from discreet.live.points import POINTS
from tests.live.faults.book import Book, read
from tests.live.faults.campaign import Databases, run, targets
from tests.live.faults.invariants import INVARIANTS, Broken, charged_before_released
from tests.live.faults.plants import FOUND_BY
from tests.live.faults.rig import RANDOM, Rig
from tests.live.faults.warm import batch
from tests.live.faults.worlds import TRUSTS, config

PLANTED = {"acknowledge early", "last report wins", "show before commit", "fold twice", "noise redrawn"}


def test_every_point_is_aimed_at():
    """Would catch a new crash point that no campaign comes by."""
    assert {point for trust in TRUSTS for _, point in targets(trust, 2)} >= {*POINTS, RANDOM}


def test_every_planted_bug_is_aimed_at():
    """Would catch a planted bug that is forgotten, or that names an invariant which nobody checks."""
    assert set(FOUND_BY) >= {*PLANTED, "close on received reports"}
    named = {name for _, _, names in FOUND_BY.values() for name in names.split(" or ")}
    assert named <= {check.__name__ for check in INVARIANTS}


def test_a_release_that_was_not_charged_is_found(tmp_path, rng):
    """Would catch an invariant that is blind to ledgers: charges are made with a deployment, before any server runs."""
    url = f"sqlite:///{tmp_path / 'live.db'}"
    with live.create(url, config("central"), now=0.0) as deployment:
        batch(deployment, rng, 1.0)
        book = Book("central", deployment.agent.mechanism, b"", deployment.planned, 1)
    now = read(url, "steps")
    charged_before_released(book, now)
    for ledgers in ({}, {"steps": '{"charges": []}'}):
        with pytest.raises(Broken):
            charged_before_released(book, now._replace(ledgers=ledgers))


@pytest.mark.parametrize("trust", TRUSTS)
def test_kills(trust, forks, tmp_path):
    """Would catch a report that is lost or counted twice when a server dies; `make test-faults` is the long form."""
    tally = run(forks, Databases(tmp_path), trust, servers=2, kills=6, seed=17)
    assert sum(tally.kills.values()) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
@pytest.mark.parametrize("bug", FOUND_BY)
def test_planted_bugs_are_found(bug, store, forks, tmp_path, request):
    """Would catch a campaign that is blind: each bug breaks the invariant that is named for it."""
    trust, point, name = FOUND_BY[bug]
    databases = Databases(tmp_path, request.getfixturevalue("postgres") if store == "postgresql" else None)
    shuffler = databases.new() if trust == "shuffle" else None
    rig = Rig(forks, databases.new(), trust, shuffler=shuffler, bug=bug, seed=3)
    request.addfinalizer(rig.end)
    role = "shuffler" if (point or "").startswith("shuffler") else "server 0"

    def hunted():
        for turn in range(20):
            rig.round(role, point if point is not None and turn % 2 == 0 else RANDOM)

    with pytest.raises(Broken) as found:
        hunted()
    assert found.value.invariants & set(name.split(" or "))

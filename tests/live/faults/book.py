"""What people remember of a deployment, and what its databases hold at one moment: the two sides that must agree."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from discreet.live.rows import Deployed
from discreet.live.stores import sql
from discreet.live.stores.postgres import PostgresConnection
from discreet.live.stores.sqlite import SQLiteConnection

__all__ = ["Book", "Person", "Snapshot", "read"]

Place = tuple[int, int]  # version and slot


@dataclass
class Person:
    """Somebody with a pseudonym.

    Attributes:
        name: The pseudonym: a canary, which must turn up nowhere.
        stays_away: Whether they never report.
        tickets: What they were given, by version and slot, in order.
        texts: Their reports.
    """

    name: str
    stays_away: bool = False
    tickets: dict[Place, dict[str, Any]] = field(default_factory=dict)
    texts: dict[Place, str] = field(default_factory=dict)


@dataclass
class Book:
    """All that people were told, and all that they sent.

    Attributes:
        trust: The trust model.
        mechanism: The deployment's.
        first: The first learner row, from which plans replay.
        per_person: How many slots a person may have.
        people: By pseudonym.
        owners: Whose a slot is.
        encoders: By version.
        sent: Reports that were sent for a slot since the books were last compared, and may have arrived.
        acknowledged: Reports that may be the one that was acknowledged, by slot; one, if nobody sent two.
        held: What the database was seen to hold for a slot.
        counted: What is known to be in the totals, by slot.
        releases: Hashes that somebody saw, by version.
        plans: The same of plans.
        mixed: Counters of closed batches that a shuffler handed out.
        starts: The latest moment until which a report of a version is taken, as far as people know.
        asked: The latest moment, by any clock, at which somebody asked to close.
        matched: Closed batches of a shuffler whose counters were compared.
        clean: Whether the database was opened again since the last release, so that no trace may be left.
        canaries: What must turn up nowhere.
        messages: Texts of errors.
    """

    trust: str
    mechanism: Any
    first: bytes
    planned: Any
    per_person: int
    people: dict[str, Person] = field(default_factory=dict)
    owners: dict[Place, str] = field(default_factory=dict)
    encoders: dict[int, str] = field(default_factory=dict)
    sent: dict[Place, set[str]] = field(default_factory=dict)
    acknowledged: dict[Place, frozenset[str]] = field(default_factory=dict)
    held: dict[Place, str] = field(default_factory=dict)
    counted: dict[Place, str] = field(default_factory=dict)
    settled: int = 0
    total: Any = None
    replayed: list[tuple[str, str, bytes]] = field(default_factory=list)
    releases: dict[int, str] = field(default_factory=dict)
    plans: dict[int, str] = field(default_factory=dict)
    mixed: dict[int, tuple[int, ...]] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)
    asked: float = 0.0
    matched: set[int] = field(default_factory=set)
    clean: bool = False
    canaries: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    contradictions: list[tuple[str, str]] = field(default_factory=list)

    def sends(self, place: Place, text: str) -> None:
        """Notes that a report may arrive."""
        self.sent.setdefault(place, set()).add(text)

    def hears(self, place: Place) -> None:
        """Notes that a slot's report was acknowledged: it is one of those that had been sent by then."""
        if place not in self.acknowledged:
            known = {self.held[place]} if place in self.held else self.sent.get(place, set())
            self.acknowledged[place] = frozenset(known)

    def sees(self, kind: str, where: dict[int, Any], version: int, value: Any) -> None:
        """Notes what somebody was shown of a version, for ever."""
        if where.setdefault(version, value) != value:
            self.contradictions.append(("one_value_a_version", f"{kind} of version {version} has two values"))

    def given(self, person: Person, ticket: dict[str, Any]) -> None:
        """Notes a ticket."""
        self.sees("the plan", self.plans, ticket["version"], ticket["plan"])
        if ticket["slot"] is None:
            return
        place = (ticket["version"], ticket["slot"])
        if self.owners.setdefault(place, person.name) != person.name:
            self.contradictions.append(("slots_per_person", "a slot was given to two people"))
        open_ = [known for known in person.tickets if known[0] == place[0] and known not in self.sent]
        if place not in person.tickets and open_:
            self.contradictions.append(("safe_to_repeat", "a start that was repeated gave another slot"))
        known = person.tickets.setdefault(place, ticket)
        if known["token"] != ticket["token"]:
            self.contradictions.append(("safe_to_repeat", "a start that was repeated gave another token"))
        self.encoders[place[0]] = ticket["encoder"]
        self.starts[place[0]] = max(self.starts.get(place[0], 0.0), ticket["by"])


class Snapshot(NamedTuple):
    """What the databases hold at one moment."""

    row: Deployed
    secret: tuple[int, bytes]
    learner: tuple[int, bytes]
    releases: list[tuple[int, int, bytes, str, str]]
    plans: list[tuple[int, str, str]]
    slots: list[tuple[int, int, bytes | None, int]]
    reports: dict[Place, str]
    batches: dict[int, bytes]
    ledgers: dict[str, str]
    document: str
    mixed: dict[int, tuple[int, bytes, bool]]
    used: set[Place]
    bytes_: bytes


_PLANS = "SELECT version, body, hash FROM plans WHERE deployment = :name ORDER BY version"
_SLOTS = "SELECT version, slot, person, erased FROM slots WHERE deployment = :name ORDER BY version, slot"
_REPORTS = "SELECT version, slot, body FROM reports WHERE deployment = :name"
_BATCHES = "SELECT version, body FROM batches WHERE deployment = :name"
_MIXED = "SELECT version, size, ones, closed FROM mixed WHERE deployment = :name"
_USED = "SELECT version, slot FROM used WHERE deployment = :name"


class _Look:
    """A connection that looks and changes nothing."""

    def __init__(self, url: str) -> None:
        if url.startswith("sqlite:"):
            self._connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60, isolation_level=None)
            self._connection.execute("BEGIN")
            self.rows = SQLiteConnection(self._connection).rows
        else:
            import psycopg

            self._connection = psycopg.connect(url, autocommit=True)
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            self.rows = PostgresConnection(self._connection).rows

    def close(self) -> None:
        self._connection.execute("COMMIT")
        self._connection.close()


def read(url: str, name: str, shuffler: str | None = None) -> Snapshot:
    """Returns what a deployment's database holds, and the shuffler's, if there is one."""
    look = _Look(url)
    row = Deployed(*look.rows(sql.DEPLOYMENT, name=name)[0])
    secret, learner = (look.rows(statement, name=name)[0] for statement in (sql.SECRET, sql.LEARNER))
    found = Snapshot(
        row,
        (secret[0], bytes(secret[1])),
        (learner[0], bytes(learner[1])),
        [(v, users, bytes(body), *links) for v, users, body, *links in look.rows(sql.RELEASES, name=name)],
        look.rows(_PLANS, name=name),  # type: ignore[arg-type]
        look.rows(_SLOTS, name=name),  # type: ignore[arg-type]
        {(v, slot): bytes(body).decode() for v, slot, body in look.rows(_REPORTS, name=name)},
        {v: bytes(body) for v, body in look.rows(_BATCHES, name=name)},
        dict(look.rows(sql.LEDGERS)),  # type: ignore[arg-type]
        look.rows(sql.BUILT, name=name)[0][0],
        {},
        set(),
        b"",
    )
    look.close()
    if shuffler is not None:
        look = _Look(shuffler)
        mixed = {v: (size, bytes(ones), bool(shut)) for v, size, ones, shut in look.rows(_MIXED, name=name)}
        found = found._replace(mixed=mixed, used=set(look.rows(_USED, name=name)))  # type: ignore[arg-type]
        look.close()
    return found._replace(bytes_=b"".join(_files(each) for each in (url, shuffler) if each is not None))


def _files(url: str) -> bytes:
    """Returns all bytes of a SQLite file and its log."""
    if not url.startswith("sqlite:"):
        return b""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(each.read_bytes() for each in path.parent.glob(path.name + "*") if not each.name.endswith("-shm"))

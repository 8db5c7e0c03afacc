"""Bugs that a fault campaign must find: `FOUND_BY` names the invariant that each of them breaks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidPersonalData
from discreet.live import rows
from discreet.live.deployment import Deployment
from discreet.live.keys import read_token
from discreet.live.shuffler import Shuffler
from discreet.live.stores import sql
from discreet.live.stores.sqlite import SQLiteStore
from discreet.noise import Role
from discreet.runtime import records

if TYPE_CHECKING:
    from collections.abc import Callable

    Say = Callable[[dict[str, Any]], None]

__all__ = ["FOUND_BY", "install"]

#: Other counters are seen by whoever had the first ones, or do not add up: it depends on when the shuffler died.
_OTHER_COUNTERS = "one_value_a_version or acknowledged_are_counted_once"
#: Bug, trust model, the point at which processes die, and the invariant that must tell.
FOUND_BY = {
    "acknowledge early": ("central", "report: before the commit", "acknowledged_are_counted_once"),
    "last report wins": ("central", None, "acknowledged_are_counted_once"),
    "fold twice": ("central", "release: before the commit", "acknowledged_are_counted_once"),
    "bits added again": ("shuffle", None, "acknowledged_are_counted_once"),
    "a slot each time": ("central", None, "slots_per_person"),
    "show before commit": ("central", "release: before the commit", "one_value_a_version"),
    "noise redrawn": ("central", "release: committed, not planned", "one_value_a_version"),
    "shuffler closes twice": ("shuffle", "shuffler: batch closed", _OTHER_COUNTERS),
    "noise not kept": ("central", None, "noise_is_kept"),
    "plan by chance": ("local", None, "plans_replay"),
    "close on received reports": ("central", None, "closing_by_starts_and_clock"),
    "raw rows stay": ("local", None, "no_raw_rows"),
    "value in the message": ("local", None, "canaries_nowhere"),
}


def install(bug: str | None, say: Say) -> None:
    """Plants a bug in this process; ``say`` is how it shows what nobody should see yet."""
    if bug is not None:
        _BUGS[bug](say)


def _acknowledge_early(_: Say) -> None:
    def report(self: Any, token: str, report: Any, now: float | None = None) -> str:
        version, slot = read_token(self._keys.token, self.name, token)
        body = self._checked(version, report)
        self.store.submit(lambda db: rows.report(db, self.config, version, slot, body, now))
        return "recorded"

    Deployment.report = report  # type: ignore[method-assign, assignment]


def _last_report_wins(_: Say) -> None:
    sql.REPORTED += " AND slot < 0"
    sql.NEW_REPORT = sql.NEW_REPORT.replace(
        "DO NOTHING", "(deployment, version, slot) DO UPDATE SET body = excluded.body"
    )


def _before_release(what: Callable[..., None]) -> None:
    """Has something done in the transaction of a release, first of all."""
    original = Deployment._put_down

    def put_down(self: Any, db: Any, version: int, users: int, secret: bytes, body: bytes, digest: str) -> bool:
        what(self, db, version, secret, digest)
        return original(self, db, version, users, secret, body, digest)

    Deployment._put_down = put_down  # type: ignore[method-assign]


def _fold_twice(_: Say) -> None:
    def committed_alone(self: Any, db: Any, version: int, secret: bytes, digest: str) -> None:
        db.run(sql.SET_SECRET, name=self.name, version=version, body=secret)
        for statement in ("RELEASE SAVEPOINT asked", "COMMIT", "BEGIN", "SAVEPOINT asked"):
            db._connection.execute(statement)

    _before_release(committed_alone)


def _show_before_commit(say: Say) -> None:
    def shown(self: Any, db: Any, version: int, secret: bytes, digest: str) -> None:
        say({"id": -1, "shown": [version + 1, digest]})

    _before_release(shown)


def _again(self: Any) -> tuple[int, Any, bytes]:
    """Returns the newest version, what is kept, and a release of it with new noise."""
    version = self._row().version
    kept = self._kept(version)["kept"]
    _, drawn = self.agent.mechanism.released(kept, self.agent.sources[Role.NOISE])
    return version, kept, records.pack(drawn)


def _noise_redrawn(_: Say) -> None:
    original = Deployment.__init__

    def opened(self: Any, *given: Any) -> None:
        original(self, *given)
        if self._row().version > 0:
            version, _, body = _again(self)
            said = {"name": self.name, "version": version, "body": body, "hash": hashlib.sha256(body).hexdigest()}
            change = "UPDATE releases SET body = :body, hash = :hash WHERE deployment = :name AND version = :version"
            self.store.do(lambda db: db.run(change, **said))

    Deployment.__init__ = opened  # type: ignore[method-assign]


def _noise_not_kept(_: Say) -> None:
    original = Deployment._put_down

    def put_down(self: Any, db: Any, version: int, users: int, secret: bytes, *release: Any) -> bool:
        held = records.unpack(secret)
        kept = held["kept"]
        noise = {**kept.noise, "array": np.zeros_like(kept.noise["array"])}
        changed = records.pack({**held, "kept": kept._replace(noise=noise)})
        return original(self, db, version, users, changed, *release)

    Deployment._put_down = put_down  # type: ignore[method-assign]


def _plan_by_chance(_: Say) -> None:
    original = Deployment.planned

    def planned(self: Any, *given: Any) -> Any:
        learner, plan = original(self, *given)
        found = records.unpack(learner)
        rng = type(self.agent.rng)(type(self.agent.rng.bit_generator)())
        return records.pack({**found, "rng": rng.bit_generator.state}), plan

    Deployment.planned = planned  # type: ignore[method-assign]


def _close_on_received(_: Say) -> None:
    original = rows.due

    def due(db: Any, config: Any, row: Any, now: float) -> bool:
        sent = db.rows(sql.REPORTS, name=config.name, version=row.version)
        return original(db, config, row, now) or (bool(row.planned) and 0 < row.size <= len(sent) + 1)

    rows.due = due


def _raw_rows_stay(_: Say) -> None:
    sql.FORGET_REPORTS += " AND slot < 0"


def _a_slot_each_time(_: Say) -> None:
    sql.SLOTS_OF += " AND slot < 0"


def _value_in_the_message(_: Say) -> None:
    original = Deployment._checked

    def checked(self: Any, version: int, report: Any) -> bytes:
        try:
            return original(self, version, report)
        except InvalidPersonalData:
            raise InvalidPersonalData(f"this is no report: {report!r}") from None

    Deployment._checked = checked  # type: ignore[method-assign]


def _bits_added_again(_: Say) -> None:
    sql.USE = sql.USE.replace("DO NOTHING", "(deployment, version, slot) DO UPDATE SET slot = excluded.slot")


def _shuffler_closes_twice(_: Say) -> None:
    original = Shuffler._closed

    def closed(self: Any, db: Any, terms: Any, encoder: Any) -> Any:
        given = {"name": terms.deployment, "version": terms.version}
        before, ones = db.rows(sql.MIXED, **given)[0][3], original(self, db, terms, encoder)
        if before:  # other noise in place of one bit's
            ones = np.where(ones > 0, ones - 1, ones + 1)
            db.run(sql.CLOSE_MIXED, **given, ones=ones.tobytes())
        return ones

    Shuffler._closed = closed  # type: ignore[method-assign]


def _synchronous(how: str) -> Callable[[Say], None]:
    """A commit that does not wait for the disk."""

    def planted(_: Say) -> None:
        original = SQLiteStore._connect

        def connect(self: Any) -> None:
            original(self)
            self._connection.execute(f"PRAGMA synchronous={how}")

        SQLiteStore._connect = connect  # type: ignore[method-assign]

    return planted


_BUGS: dict[str, Callable[[Any], None]] = {
    "acknowledge early": _acknowledge_early,
    "last report wins": _last_report_wins,
    "fold twice": _fold_twice,
    "bits added again": _bits_added_again,
    "a slot each time": _a_slot_each_time,
    "show before commit": _show_before_commit,
    "noise redrawn": _noise_redrawn,
    "shuffler closes twice": _shuffler_closes_twice,
    "noise not kept": _noise_not_kept,
    "plan by chance": _plan_by_chance,
    "close on received reports": _close_on_received,
    "raw rows stay": _raw_rows_stay,
    "value in the message": _value_in_the_message,
    "synchronous off": _synchronous("OFF"),
    "synchronous normal": _synchronous("NORMAL"),
}

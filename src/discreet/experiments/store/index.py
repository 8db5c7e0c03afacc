"""The index of a store: one SQLite table, one row a run.

``application_id`` says that a file is ours, ``user_version`` which layout it has. No index but the primary key:
a store has thousands of runs, not millions, and is listed as a whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import sqlite3
from typing import TYPE_CHECKING

from discreet import __version__
from discreet.errors import DamagedStore, LockedStore, StoreError
from discreet.experiments.files import sync
from discreet.experiments.records import RunRow, canonical

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from discreet.experiments.configs import Value

__all__ = ["Index", "read_row"]

_APPLICATION, _FORMAT = 0x44637274, 1  # in the index's header: whose it is ("Dcrt"), and which layout it has
_TYPES = {
    **dict.fromkeys(("key", "setting", "env", "agent", "options", "trust", "privacy"), "TEXT"),
    **dict.fromkeys(("epsilon_requested", "delta_requested", "epsilon_proven", "delta_proven"), "REAL"),
    "seed": "TEXT",
    "run": "INTEGER",
    "episodes": "INTEGER",
    "regret": "REAL",
    "suboptimal": "TEXT",
    **dict.fromkeys(("config", "guarantee", "thinning", "version", "git_commit"), "TEXT"),
    "wall_seconds": "REAL",
    "cpu_seconds": "REAL",
    "host": "TEXT",
    "created": "TEXT",
    "curve_bytes": "INTEGER",
    "curve_sha256": "TEXT",
    "checksum": "TEXT",
}
_SELECT = f"SELECT {', '.join(_TYPES)} FROM runs"
_ORDER = " ORDER BY env, agent, options, trust, privacy, episodes, setting, length(seed), seed, run"
_JSON = ("suboptimal", "config", "guarantee", "host")


def _to_values(row: RunRow, data: bytes) -> dict[str, Value]:
    """Returns a row of the index, by column."""
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    fields["git_commit"] = fields.pop("commit")
    values = {**row.labels, **fields, **{name: canonical(fields[name]) for name in _JSON}}
    values |= {"curve_bytes": len(data), "curve_sha256": hashlib.sha256(data).hexdigest()}
    values["checksum"] = _checksum(values)
    return values


def _checksum(values: dict[str, Value]) -> str:
    return hashlib.sha256(canonical([values[name] for name in _TYPES if name != "checksum"]).encode()).hexdigest()


def read_row(values: dict[str, Value]) -> RunRow:
    """Reads what `_to_values` made; raises `DamagedStore` if anything in it was altered."""
    try:
        if _checksum(values) != values["checksum"]:
            raise DamagedStore("its row is damaged")
    except (TypeError, ValueError):
        raise DamagedStore("its row is damaged") from None
    fields = values | {name: json.loads(str(values[name])) for name in _JSON} | {"commit": values["git_commit"]}
    return RunRow(**{field.name: fields[field.name] for field in dataclasses.fields(RunRow)})


class Index:
    """The index of a store; a connection lasts for a statement or two.

    Attributes:
        path: Of the file.
        writable: Whether runs may be added.
    """

    def __init__(self, path: Path, *, writable: bool) -> None:
        self.path, self.writable = path, writable

    def keys(self) -> set[str]:
        """Returns the keys of all runs."""
        with self.database() as db:
            return {key for (key,) in db.execute("SELECT key FROM runs")}

    def rows(self) -> list[tuple[int, dict[str, Value]]]:
        """Returns the number and the values of every row, in an order that does not depend on when it was added."""
        with self.database() as db:
            found = db.execute(_SELECT.replace("SELECT", "SELECT rowid,") + _ORDER).fetchall()
        return [(number, dict(zip(_TYPES, values, strict=True))) for number, *values in found]

    def select(self, key: str) -> dict[str, Value] | None:
        """Returns the values of a run; None if it is not there."""
        with self.database() as db:
            values = db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
        return None if values is None else dict(zip(_TYPES, values, strict=True))

    def add(self, row: RunRow, data: bytes) -> None:
        """Adds a run whose curve is these bytes."""
        values = _to_values(row, data)
        with self.database() as db:
            db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(_TYPES))})", [values[name] for name in _TYPES])

    def remove(self, *, key: str | None = None, number: int | None = None) -> None:
        """Removes a row by its key; or by its number, because in a damaged row the key may be anything."""
        with self.database() as db:
            db.execute("DELETE FROM runs WHERE key = ? OR rowid = ?", (key, number))

    def made(self) -> bool:
        """Returns whether there is one, and something in it."""
        return self.path.is_file() and self.path.stat().st_size > 0

    def make(self) -> None:
        """Makes an empty index, whole or not at all."""
        draft = self.path.with_name(self.path.name + ".tmp")
        # A killed writer's; the journal of a lost index would be taken for that of the new one.
        for name in (draft.name, f"{draft.name}-journal", f"{self.path.name}-journal"):
            self.path.with_name(name).unlink(missing_ok=True)
        with _translated(self.path):
            db = sqlite3.connect(draft, isolation_level=None)
            try:
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {_FORMAT}")
                names = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
                db.execute(f"CREATE TABLE runs ({names}, PRIMARY KEY (key))")
            finally:
                db.close()
        draft.replace(self.path)
        sync(self.path.parent)

    def check(self, *, thorough: bool = False) -> None:
        """Raises unless the index is one that this version can read, and sound."""
        with self.database() as db:
            (application,), (layout,) = (
                db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if application != _APPLICATION:
                raise DamagedStore(f"{str(self.path)!r} is no index of runs")
            if layout != _FORMAT and 0 < layout < 1000:  # else it is no number that we would give
                raise StoreError(f"{str(self.path)!r} has format {layout}; discreet {__version__} reads {_FORMAT}")
            if layout != _FORMAT:
                raise DamagedStore(f"{str(self.path)!r} is damaged (format {layout})")
            (answer,) = db.execute(f"PRAGMA {'integrity_check' if thorough else 'quick_check'}(1)").fetchone()
            if answer != "ok":
                raise DamagedStore(f"{str(self.path)!r} is damaged ({' '.join(answer.split())})")

    @contextlib.contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """A connection for one statement or two: none outlives a thread, a fork or a call.

        Also those who only read may write, if they can: a transaction that was killed is rolled back by whoever comes
        next.
        """
        with _translated(self.path):
            db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=60)
            try:
                db.text_factory = lambda raw: raw.decode(errors="replace")  # a damaged row is found by its checksum
                db.execute("PRAGMA synchronous = EXTRA" if self.writable else "PRAGMA query_only = ON")
                yield db
            finally:
                db.close()


_SYSTEM = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
}


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into those of the system, or of this library; each names the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # not the database's, but a mistake of ours
            raise
        if code == sqlite3.SQLITE_READONLY_ROLLBACK:
            message = "holds an unfinished transaction and is read-only; open it once where it can be written"
            raise StoreError(f"{str(path)!r} {message}") from None
        primary = code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LockedStore(f"{str(path)!r} is in use by another process") from None
        if primary in _SYSTEM and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            number = _SYSTEM[primary]
            raise OSError(number, os.strerror(number), str(path)) from None
        raise DamagedStore(f"{str(path)!r} is damaged ({' '.join(str(error).split())})") from None

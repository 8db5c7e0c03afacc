"""SQLite: one file, the default. Every acknowledged commit is on the disk."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import DiscreetError, InvalidInput
from discreet.live.stores import sql
from discreet.live.stores.base import Connection, Store, failure_of

if TYPE_CHECKING:
    from discreet.live.stores.base import _Asked

__all__ = ["SQLiteStore"]

_WAIT = 60.0  # seconds that another process may hold the file
_TIDY = 64 * 2**20  # bytes that the log may have before it is written back
_REASONS: dict[type[BaseException], str] = {
    sqlite3.DatabaseError: "the database file cannot be written now (disk full, locked, or damaged)"
}


class SQLiteConnection(Connection):
    """A connection of Python's own library."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, **given: Any) -> list[tuple[Any, ...]]:
        """Runs a statement and returns what it found."""
        return self._connection.execute(statement.removesuffix(" FOR UPDATE"), given).fetchall()

    def run(self, statement: str, **given: Any) -> int:
        """Runs a statement and returns how many rows it changed."""
        return self._connection.execute(statement, given).rowcount

    def lock(self, name: str, *, alone: bool) -> None:
        """A transaction that writes has the whole file already."""


class SQLiteStore(Store):
    """A file, or memory.

    The log is on the disk before a commit returns (``synchronous=FULL``). What is deleted is overwritten with zeros
    (``secure_delete``), and `tidy` writes the log back and cuts it, so that no page of either file holds a deleted row.

    Args:
        path: Of the file; None is memory, which is gone with the process.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self.url = "memory:" if path is None else f"sqlite:///{path}"
        super().__init__()

    def _connect(self) -> None:
        if self._path is not None:
            try:
                # Nobody else can read it, at any time; the log gets the same rights. What is there is left alone:
                # to close it would end all locks of this process on it, and another process would delete the log that
                # another store of this one goes on writing to.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                pass
            except OSError as error:
                raise InvalidInput(f"the database {str(self._path)!r} cannot be opened: {error.strerror}") from None
        target = ":memory:" if self._path is None else str(self._path)
        try:
            self._connection = sqlite3.connect(target, timeout=_WAIT, isolation_level=None, cached_statements=256)
        except sqlite3.Error as error:
            raise InvalidInput(f"the database {target!r} cannot be opened: {error}") from None
        try:
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("PRAGMA wal_autocheckpoint=0")
            self._migrate()
            self._cut()  # a process that died after a release may have left deleted rows in the log
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise InvalidInput(f"{target!r} is no database of discreet: {error}") from None
        except DiscreetError:
            self._connection.close()
            raise
        self._held = SQLiteConnection(self._connection)

    def _migrate(self) -> None:
        db = self._connection
        db.execute("BEGIN IMMEDIATE")
        with contextlib.ExitStack() as undo:
            undo.callback(db.rollback)
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if "tables" not in names:
                if names:
                    raise InvalidInput("this file holds other tables, and is no database of discreet")
                for statement in (*sql.TABLES.split(";"), sql.REMEMBER_TABLES):
                    db.execute(statement)
                db.execute(sql.SET_TABLES, {"version": sql.VERSION})
            (version,) = db.execute(sql.KNOWN).fetchone()
            if version > sql.VERSION:
                raise InvalidInput(f"its tables have version {version}, and this discreet knows {sql.VERSION}")
            for step in range(version + 1, sql.VERSION + 1):
                for statement in sql.MIGRATIONS[step].split(";"):
                    db.execute(statement)
                db.execute(sql.MOVE_TABLES, {"version": step})
            db.commit()
            undo.pop_all()

    def _transaction(self, asked: list[_Asked[Any]]) -> list[tuple[Any, BaseException | None]]:
        db, held = self._connection, self._held
        found: list[tuple[Any, BaseException | None]] = []
        try:
            db.execute("BEGIN IMMEDIATE")
            for each in asked:
                db.execute("SAVEPOINT asked")
                try:
                    found.append((each.what(held), None))
                except sqlite3.Error:
                    raise
                except Exception as error:  # whoever asked is told
                    db.execute("ROLLBACK TO asked")
                    found.append((None, error))
                db.execute("RELEASE asked")
            db.execute("COMMIT")
        except BaseException as error:
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
            raise failure_of(error, _REASONS) from None
        self._write_back()
        return found

    def _write_back(self) -> None:
        """Writes a long log back into the file."""
        if self._path is not None:
            log = self._path.with_name(self._path.name + "-wal")
            with contextlib.suppress(OSError):
                if log.stat().st_size > _TIDY:
                    self._cut()

    def _cut(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # another process reads or writes: the next one does it
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _tidy(self) -> None:
        """Writes the log back and cuts it: deleted rows are then in neither file."""
        self._cut()

    def _disconnect(self) -> None:
        self._cut()
        self._connection.close()

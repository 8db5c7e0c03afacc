"""PostgreSQL: for several processes or machines that serve one deployment."""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput, MissingExtra
from discreet.live.stores import sql
from discreet.live.stores.base import Connection, Store, failure_of

if TYPE_CHECKING:
    from discreet.live.stores.base import _Asked

__all__ = ["PostgresStore"]

_TYPES = {"BLOB": "BYTEA", "REAL": "DOUBLE PRECISION"}
_TIDY = 60.0  # seconds between two removals of dead rows
#: Seconds (the last one: milliseconds) after which a server that was cut off counts as gone, unless the URL says else.
_PATIENCE = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: Tables from which something personal is deleted.
_PERSONAL = "reports, steps, secrets, learners, batches, slots, keys, mixed, used"
_SCHEMA = 1_157_627_904  # the advisory lock of whoever makes the tables


@cache
def _translated(statement: str) -> str:
    """Returns a statement with PostgreSQL's parameters and types."""
    for shared, own in _TYPES.items():
        statement = re.sub(rf"\b{shared}\b", own, statement)
    return re.sub(r":(\w+)", r"%(\1)s", statement)


class PostgresConnection(Connection):
    """A connection of psycopg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str, **given: Any) -> list[tuple[Any, ...]]:
        """Runs a statement and returns what it found."""
        found: list[tuple[Any, ...]] = self._connection.execute(_translated(statement), given).fetchall()
        return found

    def run(self, statement: str, **given: Any) -> int:
        """Runs a statement and returns how many rows it changed."""
        changed: int = self._connection.execute(_translated(statement), given).rowcount
        return changed

    def lock(self, name: str, *, alone: bool) -> None:
        """An advisory lock: shared by starts and reports, so that they do not wait for each other; a release is alone.

        Without it a report could be acknowledged that the release, which began before, does not see.
        """
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        self._connection.execute(f"SELECT {how}(%s)", (key,))


class PostgresStore(Store):
    """A database of a server; a commit waits for its disk (``synchronous_commit``).

    What is deleted stays in dead rows until `tidy` (VACUUM) lets others overwrite it, and in the server's own log until
    that is recycled: keep both on an encrypted disk.

    Args:
        url: ``postgresql://user:password@host/database``.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("psycopg", "postgres") from None
        self._driver: Any = psycopg
        self._connection: Any = None
        self._url, self._tidied, self._stage = url, 0.0, "away"
        self.url = re.sub(r"//[^@/]*@", "//", url).partition("?")[0]
        super().__init__()

    def _open(self) -> None:
        self._connection = self._driver.connect(**{**_PATIENCE, **self._driver.conninfo.conninfo_to_dict(self._url)})
        self._connection.autocommit = True
        self._connection.execute("SET synchronous_commit = on")
        self._held = PostgresConnection(self._connection)

    def _connect(self) -> None:
        try:
            self._open()
        except self._driver.Error:
            raise InvalidInput(f"the database {self.url} does not answer") from None
        with self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA,))
            self._migrate()

    def _migrate(self) -> None:
        db = self._connection
        (there,) = db.execute("SELECT to_regclass('tables') IS NOT NULL").fetchone()
        if not there:
            for statement in (*sql.TABLES.split(";"), sql.REMEMBER_TABLES):
                if statement.strip():
                    db.execute(_translated(statement))
            db.execute(_translated(sql.SET_TABLES), {"version": sql.VERSION})
        (version,) = db.execute(sql.KNOWN).fetchone()
        if version > sql.VERSION:
            raise InvalidInput(f"its tables have version {version}, and this discreet knows {sql.VERSION}")
        for step in range(version + 1, sql.VERSION + 1):
            for statement in sql.MIGRATIONS[step].split(";"):
                db.execute(_translated(statement))
            db.execute(_translated(sql.MOVE_TABLES), {"version": step})

    def _transaction(self, asked: list[_Asked[Any]]) -> list[tuple[Any, BaseException | None]]:
        for last in (False, False, True):
            self._stage = "away"
            try:
                if self._was_lost():
                    self._open()
                self._stage = "begun"
                return self._done(asked)
            except BaseException as error:
                with contextlib.suppress(self._driver.Error):
                    self._connection.rollback()
                if not last and self._is_undone(error):
                    continue
                reasons: dict[type[BaseException], str] = {self._driver.Error: "the database did not answer"}
                raise failure_of(error, reasons) from None
        raise AssertionError  # the last time returns or raises

    def _is_undone(self, error: BaseException) -> bool:
        """Whether a transaction certainly left nothing behind, and may succeed if it is done again.

        It lost against another process's (PostgreSQL ends one of two that wait for each other, such as two servers that
        got the same reports in different orders), or its connection was lost before the commit was asked for.
        """
        errors = self._driver.errors
        if isinstance(error, (errors.DeadlockDetected, errors.SerializationFailure)):
            return True
        return isinstance(error, self._driver.OperationalError) and self._stage == "begun" and self._was_lost()

    def _was_lost(self) -> bool:
        return bool(self._connection.closed or self._connection.broken)

    def _done(self, asked: list[_Asked[Any]]) -> list[tuple[Any, BaseException | None]]:
        db = self._connection
        found: list[tuple[Any, BaseException | None]] = []
        db.execute("BEGIN")
        for each in asked:
            db.execute("SAVEPOINT asked")
            try:
                found.append((each.what(self._held), None))
            except self._driver.Error:
                raise
            except Exception as error:
                db.execute("ROLLBACK TO SAVEPOINT asked")
                found.append((None, error))
            db.execute("RELEASE SAVEPOINT asked")
        self._stage = "committing"
        db.execute("COMMIT")
        return found

    def _tidy(self) -> None:
        if time.monotonic() - self._tidied > _TIDY:
            self._tidied = time.monotonic()
            with contextlib.suppress(self._driver.Error):
                self._connection.execute(f"VACUUM {_PERSONAL}")

    def _disconnect(self) -> None:
        self._connection.close()

"""Finished runs on disk: whole or not there at all.

::

    DIR/index.sqlite           one row a run: configuration, guarantee, results, version, commit, times, host
    DIR/curves/KEY.parquet     its regret, thinned; the same row again, so that the index can be built anew
    DIR/lock                   held by the one process that writes; names it

A run is added in two steps: its curve is written aside, flushed to the disk and renamed to its place; then one SQLite
transaction adds the row with the file's SHA-256. Whatever kills the writer in between leaves every earlier run as it
was, and at most a draft, which the next writer removes, or a whole curve without a row, which it takes in.

What is stored is computed by the simulator: from public settings, from its exact model and from the policies that were
played, which learn from simulated people only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet import __version__
from discreet.errors import DamagedStore, DuplicateRun, InvalidInput, LockedStore, StoreError
from discreet.experiments.records import Curve, RunRow, canonical, run_key
from discreet.experiments.store.parquet import pack, pyarrow, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self


__all__ = ["Damage", "Store"]


class Damage(NamedTuple):
    """A run that is not as it was stored, or the index itself."""

    key: str
    reason: str


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


def _to_values(row: RunRow, data: bytes) -> dict[str, Any]:
    """Returns a row of the index, by column."""
    fields = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    fields["git_commit"] = fields.pop("commit")
    values = {**row.labels, **fields, **{name: canonical(fields[name]) for name in _JSON}}
    values |= {"curve_bytes": len(data), "curve_sha256": hashlib.sha256(data).hexdigest()}
    values["checksum"] = _checksum(values)
    return values


def _checksum(values: dict[str, Any]) -> str:
    return hashlib.sha256(canonical([values[name] for name in _TYPES if name != "checksum"]).encode()).hexdigest()


def _from_values(values: dict[str, Any]) -> RunRow:
    """Reads what `_to_values` made; raises `DamagedStore` if anything in it was altered."""
    try:
        if _checksum(values) != values["checksum"]:
            raise DamagedStore("its row is damaged")
    except (TypeError, ValueError):
        raise DamagedStore("its row is damaged") from None
    fields = values | {name: json.loads(values[name]) for name in _JSON} | {"commit": values["git_commit"]}
    return RunRow(**{field.name: fields[field.name] for field in dataclasses.fields(RunRow)})


class Store:
    """A directory of finished runs: one process writes, any number read.

    Use `create` to write and `open` to read. Reading needs no lock and never sees half a run.
    """

    def __init__(self, directory: str | os.PathLike[str], *, writable: bool) -> None:
        self.directory, self.writable = Path(directory), writable
        self.index, self.curves = self.directory / "index.sqlite", self.directory / "curves"
        self._mutex = threading.RLock()
        self._file: int | None = None  # the lock's file descriptor
        self._holders = 0

    @classmethod
    def create(cls, directory: str | os.PathLike[str], *, exist_ok: bool = True) -> Store:
        """Returns a store to write to, made if it is not there.

        Raises:
            StoreError: If there is one already and ``exist_ok`` is false, or the index is damaged.
            LockedStore: If it must be made and somebody else is doing so.
            MissingExtra: If Parquet files cannot be written.
        """
        pyarrow()  # before anything is run
        store = cls(directory, writable=True)
        if store.directory.exists() and not store.directory.is_dir():
            raise StoreError(f"{str(directory)!r} is no directory")
        store.curves.mkdir(parents=True, exist_ok=True)
        if not exist_ok and store._made():
            raise StoreError(f"{str(directory)!r} holds runs already")
        if not store._made():
            with store._locked():
                if not store._made():  # still
                    store._make()
        store._check()
        return store

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Store:
        """Returns a store to read from; raises `StoreError` if there is none or its index is damaged."""
        store = cls(directory, writable=False)
        if not store._made():
            raise StoreError(
                f"{str(directory)!r} holds no runs: there is no {store.index.name} in it, or nothing in that"
            )
        store._check()
        return store

    @classmethod
    def begun(cls, directory: str | os.PathLike[str]) -> bool:
        """Returns whether there is a store, or the beginnings of one."""
        store = cls(directory, writable=False)
        return store.index.exists() or store.curves.is_dir()

    @classmethod
    def repair(cls, directory: str | os.PathLike[str]) -> list[Damage]:
        """Makes the store sound again and returns what was wrong with it; what it has lost must be run again.

        A damaged index is built anew from the curves, a damaged row is taken from its curve again, a damaged curve is
        lost. Damaged files are set aside: they get another name.

        Raises:
            LockedStore: If somebody writes to it.
        """
        store = cls(directory, writable=True)
        if not cls.begun(directory):
            raise StoreError(f"{str(directory)!r} holds no runs: there is no {store.index.name} in it")
        with store._locked():
            try:
                store.curves.mkdir(exist_ok=True)
                if not store._made():
                    raise DamagedStore(f"{str(store.index)!r} is missing or empty")
                found = []
                for number, path, damage in store._examine():
                    found.append(damage)
                    if path != store.index:
                        _set_aside(path)
                    with store._database() as db:
                        db.execute("DELETE FROM runs WHERE rowid = ?", (number,))
            except DamagedStore as error:
                found = [Damage("index", str(error))]
                _set_aside(store.index)
                store._make()
            known = {damage.key for damage in found}
            return found + [damage for damage in store._tidy() if damage.key not in known]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {str(self.directory)!r}>"

    def close(self) -> None:
        """Gives up the lock, if it is held. Nothing else stays open between calls."""
        with self._mutex:
            self._holders = 0
            self._release()

    @contextlib.contextmanager
    def lock(self) -> Iterator[Store]:
        """Makes this the only writer, for as long as a ``with`` block lasts; whatever ends the process ends it too.

        What earlier writers left unfinished is cleared away: drafts are removed, whole curves without a row are taken
        in. `put` and `discard` take the lock by themselves if nobody did.

        Raises:
            LockedStore: If another process, or another store object of this one, holds it.
        """
        with self._locked(tidy=True):
            yield self

    def put(self, row: RunRow, curve: Curve) -> None:
        """Adds a run, whole or not at all.

        If it raises `OSError` (the disk is full, the directory read-only), all other runs are as they were. If only
        the index could not be written, the curve is in its place, and the next writer takes it in.

        Raises:
            DuplicateRun: If the run is there already, even with the same numbers: no run should be run twice.
            InvalidInput: If row and curve do not belong together.
        """
        if (row.key, row.thinning, row.regret) != (run_key(row.config), curve.thinning, curve.regret[-1]):
            raise InvalidInput(f"row and curve of run {row.key} do not belong together")
        data = pack(row, curve)
        with self.lock(), self._mutex:
            old = self._select(row.key)
            if old is not None:
                same = "the same regret" if old["regret"] == row.regret else f"regret {old['regret']!r}"
                raise DuplicateRun(f"run {row.key} is in {str(self.directory)!r} already, with {same}")
            self._write(row, data)
            self._enter(row, data)

    def discard(self, key: str) -> None:
        """Removes a run, so that it can be run again."""
        with self.lock(), self._database() as db:
            if _KEY.fullmatch(key):  # a damaged row may say anything
                self._path(key).unlink(missing_ok=True)  # first: a curve without a row would be taken in again
            db.execute("DELETE FROM runs WHERE key = ?", (key,))

    def has(self, key: str) -> bool:
        """Returns whether a run is there."""
        return self._select(key) is not None

    def keys(self) -> set[str]:
        """Returns the keys of all runs."""
        with self._database() as db:
            return {key for (key,) in db.execute("SELECT key FROM runs")}

    def runs(self) -> list[RunRow]:
        """Returns all runs, in an order that does not depend on when they were done."""
        with self._database() as db:
            rows = [dict(zip(_TYPES, values, strict=True)) for values in db.execute(_SELECT + _ORDER)]
        return [self._row(values) for values in rows]

    def curve(self, key: str) -> Curve:
        """Returns the curve of a run; raises `DamagedStore` naming the file if it is not as it was stored."""
        values = self._select(key)
        if values is None:
            raise StoreError(f"there is no run {key} in {str(self.directory)!r}")
        try:
            return unpack(self._read(values))[1]
        except DamagedStore as error:
            raise DamagedStore(f"{str(self._path(key))!r}: {error}") from None

    def verify(self) -> list[Damage]:
        """Reads everything and returns which runs are not as they were stored, and why.

        Raises:
            DamagedStore: If the index as a whole cannot be trusted; see `repair`.
        """
        return [damage for _, _, damage in self._examine()]

    def _examine(self) -> list[tuple[int, Path, Damage]]:
        """As `verify`, with the row's number and the file: in a damaged row, the key may be anything."""
        self._check(thorough=True)
        with self._database() as db:
            rows = db.execute(_SELECT.replace("SELECT", "SELECT rowid,") + _ORDER).fetchall()
        found = []
        for number, *rest in rows:
            values = dict(zip(_TYPES, rest, strict=True))
            path = self.index
            try:
                path = self._path(_from_values(values).key)
                self._read(values)
            except DamagedStore as error:
                found.append((number, path, Damage(str(values["key"]), f"{str(path)!r}: {error}")))
        return found

    def _path(self, key: str) -> Path:
        return self.curves / f"{key}.parquet"

    def _read(self, values: dict[str, Any]) -> bytes:
        """Returns the bytes of a curve; raises `DamagedStore` unless they are those that were written."""
        try:
            data = self._path(values["key"]).read_bytes()
        except FileNotFoundError:
            raise DamagedStore("it is missing") from None
        if len(data) != values["curve_bytes"]:
            raise DamagedStore(f"it has {len(data):,} bytes, not {values['curve_bytes']:,}")
        if hashlib.sha256(data).hexdigest() != values["curve_sha256"]:
            raise DamagedStore("it was altered: its checksum is wrong")
        return data

    def _row(self, values: dict[str, Any]) -> RunRow:
        try:
            return _from_values(values)
        except DamagedStore as error:
            raise DamagedStore(f"{str(self.index)!r}, run {values['key']}: {error}") from None

    def _select(self, key: str) -> dict[str, Any] | None:
        with self._database() as db:
            values = db.execute(f"{_SELECT} WHERE key = ?", (key,)).fetchone()
        return None if values is None else dict(zip(_TYPES, values, strict=True))

    def _write(self, row: RunRow, data: bytes) -> None:
        """The first step of adding a run."""
        target = self._path(row.key)
        draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
            _sync(self.curves)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from None  # not the draft's name
        finally:
            with contextlib.suppress(OSError):  # what could not be written is said above
                draft.unlink(missing_ok=True)

    def _enter(self, row: RunRow, data: bytes) -> None:
        """The second step."""
        values = _to_values(row, data)
        with self._database() as db:
            db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(_TYPES))})", [values[name] for name in _TYPES])

    def _tidy(self) -> list[Damage]:
        """Clears away what a killed writer left; returns what was no whole run. Other files are left alone."""
        known, found = self.keys(), []
        for path in sorted(self.curves.iterdir()):
            if _DRAFT.fullmatch(path.name):
                path.unlink()
            elif path.suffix == ".parquet" and _KEY.fullmatch(path.stem) and path.stem not in known:
                data = path.read_bytes()
                try:
                    row, curve = unpack(data)
                    if row.key != path.stem:
                        raise DamagedStore(f"it is of run {row.key}")
                except DamagedStore as error:
                    found.append(Damage(path.stem, f"{str(path)!r}: {error}"))
                    _set_aside(path)
                else:
                    whole = pack(row, curve)
                    if data != whole:  # another pyarrow wrote it, or harm was done where no digest sees it
                        self._write(row, whole)
                    self._enter(row, whole)
        return found

    def _made(self) -> bool:
        return self.index.is_file() and self.index.stat().st_size > 0

    def _make(self) -> None:
        """Makes an empty index, whole or not at all."""
        draft = self.index.with_name(self.index.name + ".tmp")
        # A killed writer's; the journal of a lost index would be taken for that of the new one.
        for name in (draft.name, f"{draft.name}-journal", f"{self.index.name}-journal"):
            self.index.with_name(name).unlink(missing_ok=True)
        with _translated(self.index):
            db = sqlite3.connect(draft, isolation_level=None)
            try:
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {_FORMAT}")
                names = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
                db.execute(f"CREATE TABLE runs ({names}, PRIMARY KEY (key))")
            finally:
                db.close()
        draft.replace(self.index)
        _sync(self.directory)

    def _check(self, *, thorough: bool = False) -> None:
        """Raises unless the index is one that this version can read, and sound."""
        with self._database() as db:
            (application,), (layout,) = (
                db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if application != _APPLICATION:
                raise DamagedStore(f"{str(self.index)!r} is no index of runs")
            if layout != _FORMAT and 0 < layout < 1000:  # else it is no number that we would give
                raise StoreError(f"{str(self.index)!r} has format {layout}; discreet {__version__} reads {_FORMAT}")
            if layout != _FORMAT:
                raise DamagedStore(f"{str(self.index)!r} is damaged (format {layout})")
            (answer,) = db.execute(f"PRAGMA {'integrity_check' if thorough else 'quick_check'}(1)").fetchone()
            if answer != "ok":
                raise DamagedStore(f"{str(self.index)!r} is damaged ({' '.join(answer.split())})")

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """A connection for one statement or two: none outlives a thread, a fork or a call.

        Also those who only read may write, if they can: a transaction that was killed is rolled back by whoever comes
        next.
        """
        with _translated(self.index):
            db = sqlite3.connect(
                f"{self.index.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=60
            )
            try:
                db.text_factory = lambda raw: raw.decode(errors="replace")  # a damaged row is found by its checksum
                db.execute("PRAGMA synchronous = EXTRA" if self.writable else "PRAGMA query_only = ON")
                yield db
            finally:
                db.close()

    @contextlib.contextmanager
    def _locked(self, *, tidy: bool = False) -> Iterator[None]:
        if not self.writable:
            raise StoreError(f"{str(self.directory)!r} was opened for reading")
        with self._mutex:
            if not self._holders:
                self._acquire()
                try:
                    if tidy:
                        self._tidy()
                except BaseException:
                    self._release()
                    raise
            self._holders += 1
        try:
            yield
        finally:
            with self._mutex:
                self._holders = max(0, self._holders - 1)
                if not self._holders:
                    self._release()

    def _acquire(self) -> None:
        if self._file is not None:
            return
        path = self.directory / "lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(file, f"process {os.getpid()} on {platform.node()}".ljust(120).encode() + b"\n", 0)
        except OSError as error:
            holder = os.pread(file, 120, 0).decode(errors="replace").strip() or "another process"
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise LockedStore(f"{str(self.directory)!r} is being written to by {holder}") from None
            raise OSError(error.errno, error.strerror, str(path)) from None
        self._file = file
        _HELD.add(self)

    def _release(self) -> None:
        _HELD.discard(self)
        if self._file is not None:
            os.close(self._file)  # unlocks it
            self._file = None


_KEY = re.compile("[0-9a-f]{16}")
_DRAFT = re.compile(r"[0-9a-f]{16}\.parquet\.\d+\.tmp")

_HELD: weakref.WeakSet[Store] = weakref.WeakSet()


def _forget() -> None:
    """In a forked child: closes its copies of the locks, lest it hold them when its parent is killed."""
    for store in list(_HELD):
        store._mutex = threading.RLock()  # another thread may have held it
        store._holders = 0
        store._release()


os.register_at_fork(after_in_child=_forget)


def _set_aside(path: Path) -> None:
    """Keeps a damaged file out of the way; what we cannot read, a later version may."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.damaged"))


def _sync(directory: Path) -> None:
    """Flushes the names in a directory to the disk."""
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


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

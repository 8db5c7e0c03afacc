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
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from discreet.errors import DamagedStore, DuplicateRun, InvalidInput, StoreError
from discreet.experiments.files import replacing
from discreet.experiments.records import Curve, RunRow, run_key
from discreet.experiments.store.index import Index, read_row
from discreet.experiments.store.lock import Lock
from discreet.experiments.store.parquet import pack, pyarrow, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from discreet.experiments.configs import Value

__all__ = ["Damage", "Store"]


class Damage(NamedTuple):
    """A run that is not as it was stored, or the index itself."""

    key: str
    reason: str


class Store:
    """A directory of finished runs: one process writes, any number read.

    Use `create` to write and `open` to read. Reading needs no lock and never sees half a run.
    """

    def __init__(self, directory: str | os.PathLike[str], *, writable: bool) -> None:
        self.directory, self.writable = Path(directory), writable
        self.index, self.curves = self.directory / "index.sqlite", self.directory / "curves"
        self._rows, self._lock = Index(self.index, writable=writable), Lock(self.directory)

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
        if not exist_ok and store._rows.made():
            raise StoreError(f"{str(directory)!r} holds runs already")
        if not store._rows.made():
            with store._locked():
                if not store._rows.made():  # still
                    store._rows.make()
        store._rows.check()
        return store

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Store:
        """Returns a store to read from; raises `StoreError` if there is none or its index is damaged."""
        store = cls(directory, writable=False)
        if not store._rows.made():
            raise StoreError(
                f"{str(directory)!r} holds no runs: there is no {store.index.name} in it, or nothing in that"
            )
        store._rows.check()
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
                if not store._rows.made():
                    raise DamagedStore(f"{str(store.index)!r} is missing or empty")
                found = []
                for number, path, damage in store._examine():
                    found.append(damage)
                    if path != store.index:
                        _set_aside(path)
                    store._rows.remove(number=number)
            except DamagedStore as error:
                found = [Damage("index", str(error))]
                _set_aside(store.index)
                store._rows.make()
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
        self._lock.give_up()

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
        with self.lock(), self._lock.mutex:
            old = self._rows.select(row.key)
            if old is not None:
                same = "the same regret" if old["regret"] == row.regret else f"regret {old['regret']!r}"
                raise DuplicateRun(f"run {row.key} is in {str(self.directory)!r} already, with {same}")
            self._write(row, data)
            self._rows.add(row, data)

    def discard(self, key: str) -> None:
        """Removes a run, so that it can be run again."""
        with self.lock():
            if _KEY.fullmatch(key):  # a damaged row may say anything
                self._path(key).unlink(missing_ok=True)  # first: a curve without a row would be taken in again
            self._rows.remove(key=key)

    def has(self, key: str) -> bool:
        """Returns whether a run is there."""
        return self._rows.select(key) is not None

    def keys(self) -> set[str]:
        """Returns the keys of all runs."""
        return self._rows.keys()

    def runs(self) -> list[RunRow]:
        """Returns all runs, in an order that does not depend on when they were done."""
        return [self._row(values) for _, values in self._rows.rows()]

    def curve(self, key: str) -> Curve:
        """Returns the curve of a run; raises `DamagedStore` naming the file if it is not as it was stored."""
        values = self._rows.select(key)
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
        self._rows.check(thorough=True)
        found = []
        for number, values in self._rows.rows():
            path = self.index
            try:
                path = self._path(read_row(values).key)
                self._read(values)
            except DamagedStore as error:
                found.append((number, path, Damage(str(values["key"]), f"{str(path)!r}: {error}")))
        return found

    def _path(self, key: str) -> Path:
        return self.curves / f"{key}.parquet"

    def _read(self, values: dict[str, Value]) -> bytes:
        """Returns the bytes of a curve; raises `DamagedStore` unless they are those that were written."""
        try:
            data = self._path(str(values["key"])).read_bytes()
        except FileNotFoundError:
            raise DamagedStore("it is missing") from None
        if len(data) != values["curve_bytes"]:
            raise DamagedStore(f"it has {len(data):,} bytes, not {values['curve_bytes']:,}")
        if hashlib.sha256(data).hexdigest() != values["curve_sha256"]:
            raise DamagedStore("it was altered: its checksum is wrong")
        return data

    def _row(self, values: dict[str, Value]) -> RunRow:
        try:
            return read_row(values)
        except DamagedStore as error:
            raise DamagedStore(f"{str(self.index)!r}, run {values['key']}: {error}") from None

    def _write(self, row: RunRow, data: bytes) -> None:
        """The first step of adding a run: its bytes are on the disk before its name is."""
        with replacing(self._path(row.key), durable=True) as draft, draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self, *, tidy: bool = False) -> Iterator[None]:
        if not self.writable:
            raise StoreError(f"{str(self.directory)!r} was opened for reading")
        with self._lock.held(self._tidy if tidy else None):
            yield

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
                    self._rows.add(row, whole)
        return found


_KEY = re.compile("[0-9a-f]{16}")
_DRAFT = re.compile(r"[0-9a-f]{16}\.parquet\.\d+\.tmp")


def _set_aside(path: Path) -> None:
    """Keeps a damaged file out of the way; what we cannot read, a later version may."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.damaged"))

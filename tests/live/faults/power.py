"""A power cut: files as they are if only what was synced is on the disk, and of the rest whatever chance put there."""

from __future__ import annotations

import copy
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.live.faults import invariants
from tests.live.faults.book import Book, read
from tests.live.faults.rig import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from tests.live.faults.forks import Forks

__all__ = ["PoweredRig", "compiled", "files_after", "records"]

_SECTOR = 512  # bytes that a disk writes at once


class Record(NamedTuple):
    """Something that was done to a file."""

    kind: str
    name: str
    offset: int
    data: bytes
    end: int  # of the record, in the log


def compiled(folder: Path) -> Path | None:
    """Returns the library that notes what is written; None if there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    made = folder / "power.so"
    source = Path(__file__).with_name("power.c")
    given = [compiler, "-O1", "-shared", "-fPIC", "-w", "-o", str(made), str(source), "-ldl", "-lpthread"]
    subprocess.run(given, check=True)
    return made


def records(log: bytes) -> Iterator[Record]:
    """Reads the log."""
    place = 0
    while place < len(log):
        named = log[place + 1]
        offset, length = (int.from_bytes(log[place + at : place + at + 8], "little") for at in (2, 10))
        start = place + 18 + named
        name, kind = log[place + 18 : start].decode(), chr(log[place])
        place = start + length
        yield Record(kind, name, offset, log[start:place], place)


def _applied(content: bytearray, record: Record, keep: tuple[int, int] | None = None) -> None:
    """Does to a file what was done to it: all of it, or one piece of what was written."""
    if record.kind == "t":
        del content[record.offset :]
        content.extend(bytes(record.offset - len(content)))
        return
    start, end = keep or (0, len(record.data))
    if len(content) < record.offset + end:
        content.extend(bytes(record.offset + end - len(content)))
    content[record.offset + start : record.offset + end] = record.data[start:end]


def _sectors(record: Record) -> list[tuple[int, int]]:
    return [(at, min(at + _SECTOR, len(record.data))) for at in range(0, len(record.data), _SECTOR)]


def files_after(
    base: dict[str, bytes], log: list[Record], cut: int, luck: float, rng: np.random.Generator
) -> dict[str, bytes]:
    """Returns the files after a power cut.

    Args:
        base: Files at the beginning, all on the disk.
        log: What was done since.
        cut: Position in the log.
        luck: With what probability something that was not synced is on the disk anyway, sector by sector.
        rng: Chance.
    """
    files = {name: bytearray(content) for name, content in base.items()}
    waiting: dict[str, list[Record]] = {}
    for record in log:
        if record.end > cut:
            break
        if record.kind == "s":
            content = files.setdefault(record.name, bytearray())
            for each in waiting.pop(record.name, []):
                _applied(content, each)
        else:
            waiting.setdefault(record.name, []).append(record)
    for name, left in waiting.items():
        content = files.setdefault(name, bytearray())
        pieces = [(each, piece) for each in left for piece in (_sectors(each) or [None])]
        for each, piece in pieces:
            if rng.random() < luck:
                _applied(content, each, piece)
    return {name: bytes(content) for name, content in files.items()}


@dataclass
class _Mark:
    """What people knew when the log had a length."""

    size: int
    held: dict[Any, str]
    tickets: dict[str, dict[Any, Any]]
    releases: dict[int, str]
    plans: dict[int, str]
    starts: dict[int, float] = field(default_factory=dict)


class PoweredRig(Rig):
    """A deployment in a SQLite file whose writes are noted."""

    def __init__(self, forks: Forks, folder: Path, log: Path, trust: str, **given: Any) -> None:
        self.folder, self.log_, self.base, self.marks = folder, log, {}, []  # type: ignore[var-annotated]
        super().__init__(forks, f"sqlite:///{folder / 'live.db'}", trust, **given)

    def revive(self) -> None:
        """Before the first process: what the disk holds."""
        if not self.base:
            self.base = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        super().revive()

    def play(self, waves: int) -> None:
        """Goes on for a while, and notes after every wave what people know."""
        for _ in range(waves):
            self.exchange(self.wave(), [])
            now, book = read(self.url, "steps"), self.book
            self.version, self.closing, self.planned = now.row.version, bool(now.row.closing), bool(now.row.planned)
            for place, text in now.reports.items():
                book.held.setdefault(place, text)
            for place in [place for place in book.acknowledged if place not in book.held]:  # acknowledged and released
                (book.held[place],) = book.acknowledged[place]
            tickets = {name: dict(person.tickets) for name, person in book.people.items()}
            seen = (dict(book.releases), dict(book.plans), dict(book.starts))
            self.marks.append(_Mark(self.log_.stat().st_size, dict(book.held), tickets, *seen))

    def cut(self, at: int, luck: float, folder: Path) -> None:
        """Cuts the power at a position of the log, and compares what people knew then with what is left."""
        known = max((mark for mark in self.marks if mark.size <= at), key=lambda mark: mark.size, default=None)
        later = min(
            (mark for mark in self.marks if mark.size >= at), key=lambda mark: mark.size, default=self.marks[-1]
        )
        log = list(records(self.log_.read_bytes()))
        for name, content in files_after(self.base, log, at, luck, self.rng).items():
            (folder / name).write_bytes(content)
        book = Book(
            self.trust, self.book.mechanism, self.book.first, self.book.planned, self.book.per_person, asked=1e18
        )
        book.encoders = self.book.encoders
        book.sent = {place: {text} for place, text in later.held.items()}
        if known is not None:
            book.acknowledged = {place: frozenset([text]) for place, text in known.held.items()}
            book.releases, book.plans, book.starts = dict(known.releases), dict(known.plans), known.starts
            book.people = {
                name: copy.copy(person) for name, person in self.book.people.items() if name in known.tickets
            }
            for name, person in book.people.items():
                person.tickets = known.tickets[name]
        invariants.check(book, read(f"sqlite:///{folder / 'live.db'}", "steps"))

"""What happens to the rows of a deployment: each function runs in one transaction, and decides from rows alone.

Nothing here looks at what people report. Slots are given out in the order of starts, and batches close by starts and
the clock (with ``timing = "public"``, also by who has reported).
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

from discreet.errors import Closed, InvalidInput, RolledBack, check_number
from discreet.live import points
from discreet.live.stores import sql

if TYPE_CHECKING:
    from discreet.live.config import Config
    from discreet.live.stores.base import Connection

__all__ = [
    "Deployed",
    "Place",
    "clock",
    "close_if_due",
    "closes",
    "deployed",
    "due",
    "erase",
    "report",
    "roll_back",
    "start",
]


class Deployed(NamedTuple):
    """The row of a deployment.

    Attributes:
        state: ``"open"``, ``"complete"`` (all slots are used up) or ``"rolled-back"``.
        version: Releases so far: the number of the current batch.
        planned: Whether the current batch has its plan.
        size: Slots of the current batch.
        issued: How many of them are given out.
        opened: When the batch began.
        latest: When the last slot was given out.
        closing: Whether no more reports are taken, because the release is being made.
    """

    state: str
    version: int
    planned: int
    size: int
    issued: int
    opened: float
    latest: float
    closing: int


class Place(NamedTuple):
    """What somebody who starts is given: a slot, or none.

    Attributes:
        version: Of the batch, or of the newest plan.
        slot: None if nothing is collected.
        started: When the slot was given out.
    """

    version: int
    slot: int | None
    started: float


def clock(now: float | None) -> float:
    """Returns the time, in seconds since 1970: the clock's, unless somebody says another one that is a number."""
    return time.time() if now is None else check_number("now", now, least=-math.inf, above=True)


def deployed(db: Connection, name: str, *, held: bool = False) -> Deployed:
    """Returns a deployment's row."""
    row = db.row(sql.DEPLOYMENT_HELD if held else sql.DEPLOYMENT, name=name)
    if row is None:
        raise InvalidInput(f"there is no deployment {name!r} in this database")
    return Deployed(*row)


def _check_state(row: Deployed) -> None:
    if row.state == "rolled-back":
        raise RolledBack(
            "this database is older than what people have seen (a backup was restored): nothing more is released"
        )


def start(db: Connection, config: Config, person: bytes | None, now: float) -> Place:
    """Gives out the next slot, or the same one again to the same person.

    A person has one slot of a batch at most, whether they have reported or not: if a report opened the way to another
    slot, who stays away would move everybody after them.
    """
    db.lock(config.name, alone=False)
    row = deployed(db, config.name, held=True)
    _check_state(row)
    nothing = Place(row.version if row.planned else row.version - 1, None, now)
    taking = bool(row.state == "open" and row.planned and not row.closing)
    if person is not None:
        own = db.rows(sql.SLOTS_OF, name=config.name, person=person)
        for version, slot, started, erased in own:
            if taking and version == row.version and not erased:
                return Place(version, slot, started)
        if len(own) >= config.episodes_per_person or any(version == row.version for version, *_ in own):
            return nothing
    if not taking or row.issued >= row.size or (config.window is not None and now > row.opened + config.window):
        return nothing
    db.run(sql.NEW_SLOT, name=config.name, version=row.version, slot=row.issued, person=person, now=now)
    db.run(sql.ISSUE, name=config.name, latest=max(now, row.latest))
    points.reached("start: before the commit")
    return Place(row.version, row.issued, now)


def report(db: Connection, config: Config, version: int, slot: int, body: bytes, now: float) -> bool:
    """Keeps a report that was checked; the first one of a slot counts, and all others are like it.

    Returns:
        False if the token, which is valid, is newer than this database: then nothing more is released, for ever.
    """
    known, _ = taking(db, config, version, slot, now)
    if not known:
        return False
    db.run(sql.NEW_REPORT, name=config.name, version=version, slot=slot, body=body)
    db.run(sql.ERASE_STEPS, name=config.name, version=version, slot=slot)
    points.reached("report: before the commit")
    return True


def taking(db: Connection, config: Config, version: int, slot: int, now: float) -> tuple[bool, float]:
    """Whether a slot's data are taken now, and when it began; raises `Closed` if it is too late.

    Returns:
        False if the token, which is valid, is newer than this database: then nothing more is released, for ever.
    """
    db.lock(config.name, alone=False)
    row = deployed(db, config.name)
    _check_state(row)
    if version < row.version or row.closing or row.state != "open":
        raise Closed("the batch of this report is closed: it is not moved to a later one")
    found = db.row(sql.SLOT, name=config.name, version=version, slot=slot)
    if version > row.version or found is None:
        db.run(sql.SET_STATE, name=config.name, state="rolled-back")
        return False, 0.0
    started, erased = found
    if erased:
        raise Closed("this episode was erased")
    if (
        now > started + config.report_within
        and db.row(sql.REPORTED, name=config.name, version=version, slot=slot) is None
    ):
        raise Closed(f"a report is taken within {config.report_within:g} s of the start")
    return True, started


def roll_back(db: Connection, name: str) -> None:
    """Notes that the database is older than what people have seen."""
    db.lock(name, alone=True)
    row = deployed(db, name, held=True)
    if row.state != "complete":
        db.run(sql.SET_STATE, name=name, state="rolled-back")


def erase(db: Connection, config: Config, version: int, slot: int) -> str:
    """Deletes a report and makes its slot absent, if its batch is not closed; says what became of it.

    Returns:
        ``"rolled-back"`` if the token, which is valid, is newer than this database, as in `report`.
    """
    db.lock(config.name, alone=True)  # else a report that is on its way would be kept after all
    row = deployed(db, config.name)
    if version < row.version or row.closing or row.state != "open":
        return "closed"
    if version > row.version or db.row(sql.SLOT, name=config.name, version=version, slot=slot) is None:
        db.run(sql.SET_STATE, name=config.name, state="rolled-back")
        return "rolled-back"
    db.run(sql.ERASE_STEPS, name=config.name, version=version, slot=slot)
    db.run(sql.ERASE_REPORT, name=config.name, version=version, slot=slot)
    db.run(sql.ERASE_SLOT, name=config.name, version=version, slot=slot)
    return "erased"


def closes(config: Config, row: Deployed) -> float | None:
    """Returns when the current batch closes at the latest, if that is known: by starts and the clock alone."""
    if row.state != "open" or not row.planned or row.size == 0:
        return None
    if row.issued >= row.size:
        return row.latest + config.report_within
    return None if config.window is None else max(row.latest, row.opened + config.window) + config.report_within


def due(db: Connection, config: Config, row: Deployed, now: float) -> bool:
    """Whether the current batch closes now: by starts and the clock, and if timing is public also by reports."""
    at = closes(config, row)
    if at is None or now > at:
        return at is not None
    if config.timing == "private" or (row.issued < row.size and now <= at - config.report_within):
        return False
    since = now - config.report_within
    (awaited,) = db.rows(sql.AWAITED, name=config.name, version=row.version, since=since)[0]
    return bool(awaited == 0)


def close_if_due(db: Connection, config: Config, now: float) -> Deployed:
    """Takes no more reports if the batch is due; returns the row as it is then."""
    row = deployed(db, config.name)
    _check_state(row)
    if not row.closing and due(db, config, row, now):
        db.lock(config.name, alone=True)
        row = deployed(db, config.name, held=True)
        if not row.closing and due(db, config, row, now):
            db.run(sql.CLOSE, name=config.name, version=row.version)
            row = row._replace(closing=1)
    return row

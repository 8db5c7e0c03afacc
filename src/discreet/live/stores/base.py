"""One writer, many callers: what is asked within a moment is committed together, and answered after that.

A commit waits for the disk. If every report waited for a commit of its own, a disk would set the pace; so the writer
takes all that waits in its queue into one transaction. Nobody is answered before the commit, so whoever was answered is
on the disk.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from discreet.errors import DiscreetError, LiveError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Connection", "Store"]

T = TypeVar("T")
_MOST = 256  # asked together at most


class Connection(ABC):
    """A database within a transaction: what the statements of `discreet.live.stores.sql` are run with."""

    @abstractmethod
    def rows(self, statement: str, **given: Any) -> list[tuple[Any, ...]]:
        """Runs a statement with named parameters and returns what it found."""

    @abstractmethod
    def run(self, statement: str, **given: Any) -> int:
        """Runs a statement and returns how many rows it changed."""

    def row(self, statement: str, **given: Any) -> tuple[Any, ...] | None:
        """Returns the first row that a statement found, if any."""
        found = self.rows(statement, **given)
        return found[0] if found else None

    @abstractmethod
    def lock(self, name: str, *, alone: bool) -> None:
        """Holds others off a deployment until the transaction ends: those who are alone, or everybody."""


class Answer(Protocol):
    """Who waits for something to be done: a `Future`, or an event loop's."""

    def set_running_or_notify_cancel(self) -> bool:
        """Whether anybody still waits."""

    def set_result(self, result: Any) -> None:
        """Is told what came of it."""

    def set_exception(self, error: BaseException) -> None:
        """Is told what went wrong."""


class _Asked(NamedTuple, Generic[T]):
    """Something to do, and who waits for it."""

    what: Callable[[Connection], T]
    alone: bool
    answer: Answer
    outside: bool = False


class Store(ABC):
    """A database with one writer of this process, in a thread of its own.

    Several processes may work on one database: every one has a writer, and the database keeps them apart.

    Attributes:
        url: Of the database, without a password.
    """

    url: str

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Asked[Any] | None] = queue.SimpleQueue()
        self._ready: Future[None] = Future()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="discreet writer", daemon=True)
        self._thread.start()
        self._ready.result()

    @abstractmethod
    def _connect(self) -> None:
        """Connects, and makes or migrates the tables: in the writer's thread."""

    @abstractmethod
    def _transaction(self, asked: list[_Asked[Any]]) -> list[tuple[Any, BaseException | None]]:
        """Does everything in one transaction; returns results and errors after the commit, or raises."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Leaves the database."""

    @abstractmethod
    def _tidy(self) -> None:
        """Removes what deleted rows left behind, as far as the database can: in the writer's thread."""

    def tidy(self) -> None:
        """Removes what deleted rows left behind, as far as the database can."""
        answer: Future[None] = Future()
        self._put(_Asked(lambda _: None, True, answer, outside=True))
        answer.result()

    def submit(self, what: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Has something done in a transaction; the answer comes after the commit.

        Args:
            what: Is called in the writer's thread. If it raises, nothing that it did stays.
            alone: Whether it has a transaction of its own, because it holds others off.
        """
        answer: Future[T] = Future()
        self.put(what, answer, alone=alone)
        return answer

    def put(self, what: Callable[[Connection], T], answer: Answer, *, alone: bool = False) -> None:
        """Has something done in a transaction, for whoever waits: see `submit`."""
        self._put(_Asked(what, alone, answer))

    def _put(self, asked: _Asked[Any]) -> None:
        if self._closed:
            raise Unavailable("this database was closed in this process: open it again")
        self._queue.put(asked)

    def do(self, what: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Does something in a transaction, and returns after the commit.

        Raises:
            Unavailable: If the database could not do it. To do the same again is safe.
        """
        return self.submit(what, alone=alone).result()

    def close(self) -> None:
        """Ends the writer after all that was asked."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        try:
            self._connect()
        except BaseException as error:  # whoever waits is told
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        first = self._queue.get()
        while first is not None:
            gathered, following = self._gathered(first)
            asked = [each for each in gathered if each.answer.set_running_or_notify_cancel()]  # some wait no longer
            if asked:
                self._answer(asked)
            first = following if following is not None else self._queue.get()
        self._disconnect()

    def _gathered(self, first: _Asked[Any]) -> tuple[list[_Asked[Any]], _Asked[Any] | None]:
        """Returns what is done together with the first that waits, and what comes after it, if that is known."""
        asked = [first]
        while not first.alone and len(asked) < _MOST and not self._queue.empty():
            following = self._queue.get()
            if following is None:
                self._queue.put(None)
                break
            if following.alone:
                return asked, following
            asked.append(following)
        return asked, None

    def _answer(self, asked: list[_Asked[Any]]) -> None:
        try:
            if asked[0].outside:
                self._tidy()
            found = [(None, None)] if asked[0].outside else self._transaction(asked)
        except BaseException as error:  # whoever waits is told
            told = error if isinstance(error, DiscreetError) else unavailable(error)
            for each in asked:
                each.answer.set_exception(told)
            return
        for each, (result, failure) in zip(asked, found, strict=True):
            if failure is None:
                each.answer.set_result(result)
            else:
                each.answer.set_exception(failure)


def unavailable(error: BaseException) -> LiveError:
    """Returns what is told of a failure of the database: its kind, and nothing that was being written."""
    return Unavailable(f"the database did not do it ({type(error).__name__}); to do the same again is safe")


def failure_of(error: BaseException, known: Mapping[type[BaseException], str]) -> LiveError:
    """Returns what is told of an error that has a plain reason."""
    for kind, reason in known.items():
        if isinstance(error, kind):
            return Unavailable(f"{reason}; nothing was acknowledged, and to do the same again is safe")
    return unavailable(error)

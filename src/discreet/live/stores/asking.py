"""Answers for an event loop: all that one commit answered wakes the loop once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.live.stores.base import Connection, Store

__all__ = ["Asker"]

T = TypeVar("T")


class _Answer:
    """Takes one answer in the writer's thread and hands it to the loop's."""

    __slots__ = ("_asker", "_waiting")

    def __init__(self, asker: Asker, waiting: asyncio.Future[Any]) -> None:
        self._asker, self._waiting = asker, waiting

    def set_running_or_notify_cancel(self) -> bool:
        return True  # whoever has gone is found out when the answer is there

    def set_result(self, result: Any) -> None:
        self._asker._answered(self._waiting, result, None)

    def set_exception(self, error: BaseException) -> None:
        self._asker._answered(self._waiting, None, error)


class Asker:
    """Asks a store from one event loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._woken = False

    async def ask(self, what: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Has something done in a transaction, and returns after the commit: see `Store.do`."""
        waiting: asyncio.Future[T] = self._loop.create_future()
        self.store.put(what, _Answer(self, waiting), alone=alone)
        return await waiting

    def _answered(self, waiting: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._ready.append((waiting, result, error))
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._hand_out)

    def _hand_out(self) -> None:
        self._woken = False  # first: whatever is answered from here on wakes the loop again
        while self._ready:
            waiting, result, error = self._ready.popleft()
            if waiting.done():  # whoever asked has gone
                continue
            if error is None:
                waiting.set_result(result)
            else:
                waiting.set_exception(error)

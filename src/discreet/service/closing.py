"""Closes batches when they are due. Of several workers one does it at a time."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from typing import TYPE_CHECKING

from discreet.errors import LiveError, RolledBack
from discreet.live.stores import sql

if TYPE_CHECKING:
    from discreet.live.stores.base import Connection
    from discreet.service.served import Serving

__all__ = ["Closer"]

_LEASE = 10.0  # seconds after which a worker that is gone is replaced


class Closer:
    """Looks at all deployments now and then.

    A release is safe whoever makes it: compare-and-swap on the version lets one in. The lease only saves the others
    the work.
    """

    def __init__(self, serving: Serving, every: float) -> None:
        self._serving, self._every, self._name = serving, every, secrets.token_hex(8)

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        while True:
            with contextlib.suppress(LiveError):  # the database is away: the next look is soon
                if await self._serving.asker.ask(self._lease, alone=True):
                    await self.close()
            await asyncio.sleep(self._every)

    def _lease(self, db: Connection) -> bool:
        """Whether it is this worker's turn, for the next seconds."""
        now = time.time()
        db.run(sql.NEW_LEASE, purpose="closing", holder=self._name, until=now + _LEASE)
        return db.run(sql.TAKE_LEASE, purpose="closing", holder=self._name, now=now, until=now + _LEASE) == 1

    async def close(self) -> None:
        """Closes what is due, of all deployments."""
        for name in await self._serving.names():
            served = await self._serving.get(name)
            with contextlib.suppress(RolledBack):
                await asyncio.to_thread(served.deployment.close_due)

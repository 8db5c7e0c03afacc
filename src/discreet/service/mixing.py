"""The shuffler as a process of its own: devices send it their bits, the server gets counts of whole batches only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import httpx
from starlette.applications import Starlette

from discreet.errors import InvalidInput, LiveError, Unavailable
from discreet.live.shuffler import Shuffler, Terms
from discreet.live.stores.asking import Asker
from discreet.service import messages
from discreet.service.app import Door, answering, told
from discreet.service.guards import Headers
from discreet.service.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from discreet.live.stores.base import Store
    from discreet.service.app import Settings

__all__ = ["mixer"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")  # nothing else becomes a part of what the server is asked


class _Server:
    """What a shuffler asks its server."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(base_url=url.rstrip("/"), headers={"authorization": f"Bearer {key}"}, timeout=10.0)

    def _asked(self, method: str, path: str, **more: Any) -> Any:
        try:
            response = self._http.request(method, path, **more)
        except httpx.TransportError:
            raise Unavailable("the server does not answer; to do the same again is safe") from None
        if response.status_code == 404:
            raise InvalidInput("the server has no such batch")
        if not response.is_success:
            raise Unavailable(f"the server answered {response.status_code}; to do the same again is safe")
        return response.json()

    def terms(self, deployment: str, version: int) -> Terms:
        """Returns the terms of a batch."""
        told = self._asked("GET", f"/v1/batches/{deployment}/{version}")
        return Terms(deployment, version, told["size"], json.dumps(told["encoder"]), bytes.fromhex(told["key"]))

    def batches(self) -> list[dict[str, Any]]:
        """Returns the current batches."""
        found: list[dict[str, Any]] = self._asked("GET", "/v1/batches")
        return found

    def hand_in(self, deployment: str, version: int, ones: list[int], sent: int, users: int) -> None:
        """Hands a whole batch in."""
        body = {"ones": ones, "messages": sent, "users": users}
        self._asked("PUT", f"/v1/batches/{deployment}/{version}", json=body)

    def close(self) -> None:
        """Ends the connection."""
        self._http.close()


class _Mixer(Door):
    """The handlers of a shuffler."""

    def __init__(self, store: Store, settings: Settings, server: _Server) -> None:
        super().__init__(settings)
        self.store, self.server = store, server
        self.shufflers: dict[str, Shuffler] = {}
        self.asker: Asker

    @contextlib.asynccontextmanager
    async def life(self, _: Starlette) -> AsyncIterator[None]:
        """Mixes from here to there: batches that are due are handed in meanwhile."""
        self.asker = Asker(self.store)
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await asyncio.to_thread(self.store.close)
            self.server.close()

    def of(self, deployment: str) -> Shuffler:
        """Returns the shuffler of a deployment; it is remembered once the server has given terms for it."""
        found = self.shufflers.get(deployment)
        return found or Shuffler(self.store, lambda version: self.server.terms(deployment, version))

    async def run(self) -> None:
        """Asks the server what is due, and hands it in, until it is cancelled."""
        while True:
            with contextlib.suppress(LiveError, InvalidInput):  # somebody is away: the next look is soon
                for batch in await asyncio.to_thread(self.server.batches):
                    if batch["closing"]:
                        await asyncio.to_thread(self.hand_in, batch["deployment"], batch["version"])
            await asyncio.sleep(self.settings.every)

    def hand_in(self, deployment: str, version: int) -> None:
        """Closes a batch and hands it in."""
        shuffler = self.of(deployment)
        found = shuffler.close(version)
        self.shufflers.setdefault(deployment, shuffler)
        self.server.hand_in(deployment, version, found.ones.tolist(), found.messages, found.users)

    async def report(self, request: Request) -> Any:
        """POST /v1/episodes/{id}/report."""
        self.allow(request, "client")
        parts = request.path_params["id"].split(".")
        if (
            len(parts) != 3
            or not _NAME.fullmatch(parts[0])
            or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts[1:])
        ):
            raise Problem(404, "there is no such episode")
        asked = await self.read(request, messages.Reported)
        if asked.token.split(".")[:2] != parts[1:]:
            raise Problem(403, "this token is of another episode", title="invalid token")
        shuffler, version = self.of(parts[0]), int(parts[1])
        what = (
            shuffler.adding(asked.token, asked.report, version)
            if shuffler.knows(version)
            else await asyncio.to_thread(shuffler.adding, asked.token, asked.report, version)
        )
        self.shufflers.setdefault(parts[0], shuffler)
        await self.asker.ask(what)
        return messages.Recorded("recorded")

    async def healthy(self, request: Request) -> Any:
        """GET /healthz."""
        return messages.Recorded("ok")

    async def readiness(self, request: Request) -> Any:
        """GET /readyz."""
        await self.asker.ask(lambda _: None)
        return messages.Recorded("ok")


def mixer(store: Store, settings: Settings, server: str, key: str) -> Any:
    """Returns the ASGI application of a shuffler.

    Args:
        store: Its own database: never the server's.
        settings: How to serve.
        server: URL of the server.
        key: A key of the server's with the scope ``shuffler``.
    """
    from starlette.routing import Route

    app = _Mixer(store, settings, _Server(server, key))
    routes = [
        Route("/v1/episodes/{id}/report", answering(app.report), methods=["POST"]),
        Route("/healthz", answering(app.healthy)),
        Route("/readyz", answering(app.readiness)),
    ]
    return Headers(Starlette(routes=routes, lifespan=app.life, exception_handlers=told()), settings.origins)

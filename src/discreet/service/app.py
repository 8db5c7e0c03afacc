"""The service as an ASGI application: thin; it reads, asks the live core, and writes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from discreet import live
from discreet.errors import InvalidInput
from discreet.live.stores import sql
from discreet.service import messages
from discreet.service.closing import Closer
from discreet.service.endpoints import ENDPOINTS
from discreet.service.guards import Buckets, Headers
from discreet.service.pages import PAGES
from discreet.service.problems import Problem, problem_of, response_of
from discreet.service.served import Serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from discreet.live.stores.base import Store
    from discreet.service.access import Access
    from discreet.service.served import Served

__all__ = ["Door", "Settings", "answering", "application", "told"]

T = TypeVar("T")
_SLOW = 10.0  # seconds that a body may take


@dataclass(frozen=True)
class Settings:
    """How a worker serves.

    Attributes:
        access: Who may do what.
        largest: Bytes of a request at most.
        rate: Requests a second that a key may send, on average; twice as many at once.
        every: Seconds between two looks at what is due.
        origins: Web pages that may call from a browser.
    """

    access: Access
    largest: int = 2**24
    rate: float = 5000.0
    every: float = 1.0
    origins: tuple[str, ...] = ()


class Door:
    """Who is let in, and with how much."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.buckets = Buckets(settings.rate)
        self.decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def allow(self, request: Request, *scopes: str) -> None:
        """Raises unless the caller's key has one of the scopes."""
        header = request.headers.get("authorization")
        found = self.settings.access.scopes(header)
        who = header[:19] if found is not None and header is not None else request.client.host if request.client else ""
        if not self.buckets.take(who):
            raise Problem(429, "this key sends too many requests", {"Retry-After": "1"})
        if found is None:
            raise Problem(401, "a valid key is needed: Authorization: Bearer dk_…", {"WWW-Authenticate": "Bearer"})
        if not set(found) & set(scopes):
            raise Problem(403, f"a key with the scope {' or '.join(scopes)} is needed")

    async def body(self, request: Request) -> bytes:
        """Returns the body of a request, if it is not too large and does not take too long."""
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length[:18]) > self.settings.largest:
            raise Problem(413, f"a request has at most {self.settings.largest} bytes")
        found = bytearray()
        try:
            async with asyncio.timeout(_SLOW):
                async for chunk in request.stream():
                    found += chunk
                    if len(found) > self.settings.largest:
                        raise Problem(413, f"a request has at most {self.settings.largest} bytes")
        except TimeoutError:
            raise Problem(408, f"a request is sent within {_SLOW:g} s") from None
        return bytes(found)

    async def read(self, request: Request, kind: type[T]) -> T:
        """Returns what a request holds; what is wrong with it is not repeated."""
        body = await self.body(request)
        decoder = self.decoders.get(kind)
        if decoder is None:
            decoder = self.decoders[kind] = msgspec.json.Decoder(kind)
        try:
            return decoder.decode(body)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            raise Problem(422, f"the request must be a {kind.__name__}, as /openapi.json says") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise Problem(400, "the request must be JSON") from None


class _App(Door):
    """The handlers of one worker."""

    def __init__(self, store: Store, settings: Settings) -> None:
        super().__init__(settings)
        self.store = store
        self.serving: Serving

    @contextlib.asynccontextmanager
    async def life(self, _: Starlette) -> AsyncIterator[None]:
        """Serves from here to there: due batches are closed meanwhile."""
        self.serving = Serving(self.store)
        closer = asyncio.create_task(Closer(self.serving, self.settings.every).run())
        try:
            yield
        finally:
            closer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await closer
            await asyncio.to_thread(self.store.close)

    async def start(self, request: Request) -> Any:
        """POST /v1/episodes."""
        self.allow(request, "client")
        asked = await self.read(request, messages.Started)
        served = await self.serving.get(asked.deployment)
        return await served.start(asked.person)

    async def _episode(self, request: Request) -> tuple[Served, tuple[int, int]]:
        parts = request.path_params["id"].split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts[1:]):
            raise Problem(404, "there is no such episode")
        return await self.serving.get(parts[0]), (int(parts[1]), int(parts[2]))

    async def report(self, request: Request) -> Any:
        """POST /v1/episodes/{id}/report."""
        self.allow(request, "client")
        served, place = await self._episode(request)
        asked = await self.read(request, messages.Reported)
        if served.deployment.place(asked.token) != place:
            raise Problem(403, "this token is of another episode", title="invalid token")
        return messages.Recorded(await served.report(asked.token, asked.report))

    async def erase(self, request: Request) -> Any:
        """DELETE /v1/episodes/{id}."""
        self.allow(request, "client", "admin")
        served, place = await self._episode(request)
        token = request.headers.get("discreet-token", "")
        if served.deployment.place(token) != place:
            raise Problem(403, "an episode is erased with its token: Discreet-Token", title="invalid token")
        return messages.Erased(await asyncio.to_thread(served.deployment.erase, token=token))

    async def create(self, request: Request) -> Any:
        """POST /v1/deployments."""
        self.allow(request, "admin")
        body, kind = await self.body(request), request.headers.get("content-type", "").partition(";")[0]
        try:
            config = tomllib.loads(body.decode()) if "toml" in kind else msgspec.json.decode(body, type=dict)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError):
            raise Problem(400, "a deployment is JSON, or TOML with Content-Type: application/toml") from None
        served = await self.serving.create(config)
        made = served.deployment
        return messages.Deployed(made.name, made.guarantee.to_dict(), [int(n) for n in made.agent.batches])

    async def shown(self, served: Served) -> messages.Shown:
        """What a viewer sees of a deployment."""
        found = served.deployment
        status = await asyncio.to_thread(found.look)
        names = ("name", "state", "version", "slots", "issued", "opened", "closes")
        public = {key: value for key, value in found.document["config"].items() if key != "seed"}
        return messages.Shown(
            **{name: status[name] for name in names},
            now=time.time(),
            guarantee=found.guarantee.to_dict(),
            config=public,
        )

    async def list(self, request: Request) -> Any:
        """GET /v1/deployments."""
        self.allow(request, "viewer", "admin")
        return [await self.shown(await self.serving.get(name)) for name in await self.serving.names()]

    async def show(self, request: Request) -> Any:
        """GET /v1/deployments/{name}."""
        self.allow(request, "viewer", "admin")
        return await self.shown(await self.serving.get(request.path_params["name"]))

    async def guarantee(self, request: Request) -> Any:
        """GET /v1/deployments/{name}/guarantee."""
        self.allow(request, "viewer", "admin")
        return (await self.serving.get(request.path_params["name"])).deployment.guarantee.to_dict()

    async def releases(self, request: Request) -> Any:
        """GET /v1/deployments/{name}/releases."""
        self.allow(request, "viewer", "admin")
        found = (await self.serving.get(request.path_params["name"])).deployment
        return await asyncio.to_thread(lambda: [release.to_dict() for release in found.releases()])

    async def plan(self, request: Request) -> Any:
        """GET /v1/deployments/{name}/plans/{version}."""
        self.allow(request, "viewer", "admin", "client")
        found = (await self.serving.get(request.path_params["name"])).deployment
        try:
            plan = await asyncio.to_thread(found.plan, request.path_params["version"])
        except InvalidInput:
            raise Problem(404, "there is no such plan") from None
        return msgspec.Raw(plan.to_json().encode())

    async def statement(self, request: Request) -> Any:
        """GET /v1/deployments/{name}/statement."""
        self.allow(request, "viewer", "admin")
        found = (await self.serving.get(request.path_params["name"])).deployment
        return msgspec.Raw((await asyncio.to_thread(lambda: found.statement().to_json())).encode())

    async def ledger(self, request: Request) -> Any:
        """GET /v1/ledger."""
        self.allow(request, "viewer", "admin")
        return await asyncio.to_thread(self._spent)

    def _spent(self) -> Any:
        found = self.store.do(lambda db: [row[0] for row in db.rows(sql.LEDGERS)])
        return [messages.Spent.of(live.ledger(self.store, name)) for name in found]

    async def step(self, request: Request) -> Any:
        """PUT /v1/episodes/{id}/steps/{step}."""
        self.allow(request, "client")
        served, place = await self._episode(request)
        asked = await self.read(request, messages.Step)
        if served.deployment.place(asked.token) != place:
            raise Problem(403, "this token is of another episode", title="invalid token")
        given = (asked.token, request.path_params["step"], asked.state, asked.reward)
        return messages.Stepped(await asyncio.to_thread(served.deployment.step, *given))

    async def batches(self, request: Request) -> Any:
        """GET /v1/batches."""
        self.allow(request, "shuffler")
        found = []
        for name in await self.serving.names():
            served = await self.serving.get(name)
            if served.shuffled:
                status = await asyncio.to_thread(served.deployment.look)
                found.append(messages.Open(name, status["version"], status["closing"]))
        return found

    async def terms(self, request: Request) -> Any:
        """GET /v1/batches/{name}/{version}."""
        self.allow(request, "shuffler")
        found = (await self.serving.get(request.path_params["name"])).deployment
        try:
            terms = await asyncio.to_thread(found.terms, request.path_params["version"])
        except InvalidInput:
            raise Problem(404, "there is no such batch") from None
        status = await asyncio.to_thread(found.look)
        closing = status["closing"] and status["version"] == terms.version
        encoder = msgspec.Raw(terms.encoder.encode())
        return messages.Handed(terms.deployment, terms.version, terms.size, encoder, terms.key.hex(), closing)

    async def receive(self, request: Request) -> Any:
        """PUT /v1/batches/{name}/{version}."""
        self.allow(request, "shuffler")
        served = await self.serving.get(request.path_params["name"])
        asked = await self.read(request, messages.Mixed)
        version, ones = request.path_params["version"], np.array(asked.ones, dtype=np.int64)
        taken = asyncio.to_thread(served.deployment.receive, version, ones, asked.messages, asked.users)
        return messages.Recorded(await taken)

    async def healthy(self, request: Request) -> Any:
        """GET /healthz: the process is there."""
        return messages.Recorded("ok")

    async def readiness(self, request: Request) -> Any:
        """GET /readyz: the database answers."""
        await self.serving.asker.ask(lambda _: None)
        return messages.Recorded("ok")


def answering(
    handler: Callable[[Request], Awaitable[Any]], status: int = 200
) -> Callable[[Request], Awaitable[Response]]:
    """Returns a handler that writes JSON, and problems for errors."""

    async def answer(request: Request) -> Response:
        try:
            found = await handler(request)
        except Exception as error:  # whoever asked is told, in our own words
            return response_of(problem_of(error))
        return Response(msgspec.json.encode(found), status, media_type="application/json")

    return answer


def told() -> Any:
    """Returns what is answered where no handler is."""

    async def say(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return response_of(Problem(status, "there is nothing here" if status == 404 else "this cannot be done here"))

    return {HTTPException: say, Exception: say}


def application(store: Store, settings: Settings) -> Any:
    """Returns the ASGI application of one worker.

    Args:
        store: The database; it is closed with the application.
        settings: How to serve.
    """
    app = _App(store, settings)
    routes = [
        Route(
            re.sub(r"{(version|step)}", r"{\1:int}", each.path),
            answering(getattr(app, each.name), each.status),
            methods=[each.method],
        )
        for each in ENDPOINTS
    ]
    routes += PAGES

    return Headers(Starlette(routes=routes, lifespan=app.life, exception_handlers=told()), settings.origins)

"""What a browser may look at without a key: pages that hold nothing, and the OpenAPI document."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from discreet.service.endpoints import document

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["PAGES"]

#: Scripts and styles of our own only, and no other place to talk to.
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " + (
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FILES = {"/": "index.html", "/api": "api.html"}


@lru_cache(maxsize=64)
def _file(name: str) -> bytes | None:
    found = files("discreet.service").joinpath("dashboard", name)
    return found.read_bytes() if found.is_file() else None


def _shown(name: str) -> Response:
    body = _file(name)
    if body is None:
        return Response("there is nothing here", 404, media_type="text/plain")
    kind = next(kind for end, kind in _KINDS.items() if name.endswith(end))
    headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
    return Response(body, headers=headers, media_type=f"{kind}; charset=utf-8")


async def _page(request: Request) -> Response:
    return _shown(_FILES[request.url.path])


async def _part(request: Request) -> Response:
    name = request.path_params["name"]
    known = name.replace("-", "").replace(".", "").isalnum() and name.isascii() and ".." not in name
    return _shown(name if known and name.endswith(tuple(_KINDS)) else "none.html")


async def _openapi(_: Request) -> Response:
    return Response(msgspec.json.encode(document()), media_type="application/json")


PAGES = [
    *(Route(path, _page) for path in _FILES),
    Route("/static/{name}", _part),
    Route("/openapi.json", _openapi),
]

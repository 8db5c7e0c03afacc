"""What stands before the handlers: headers that browsers obey, and limits on how often somebody asks."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

__all__ = ["Buckets", "Headers"]

_MOST = 10_000  # callers that are remembered
_STRICT = "default-src 'none'; frame-ancestors 'none'"
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_UNSTORED = (b"cache-control", b"no-store")


class Buckets:
    """How many requests each caller may send: a bucket that fills at ``rate`` a second and holds two seconds' worth."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> bool:
        """Whether a caller has one request left."""
        now = time.monotonic()
        left, then = self._left.pop(who, (2 * self._rate, now))
        left = min(2 * self._rate, left + (now - then) * self._rate)
        enough = left >= 1
        self._left[who] = (left - 1 if enough else left, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return enough


class Headers:
    """Adds the headers that browsers obey; answers their question whether a page may call."""

    def __init__(self, app: Any, origins: tuple[str, ...] = ()) -> None:
        self._app, self._origins = app, tuple(origin.encode() for origin in origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        allowed = [] if origin is None or origin not in self._origins else _allowing(origin)
        if scope["method"] == "OPTIONS" and allowed:
            await send({"type": "http.response.start", "status": 204, "headers": allowed})
            await send({"type": "http.response.body", "body": b""})
            return

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                named = {name for name, _ in message["headers"]}
                extra = [pair for pair in (*_ALWAYS, _UNSTORED) if pair[0] not in named]
                if b"content-security-policy" not in named:
                    extra.append((b"content-security-policy", _STRICT.encode()))
                message["headers"] = [*message["headers"], *extra, *allowed]
            await send(message)

        await self._app(scope, receive, sent)


def _allowing(origin: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
        (b"access-control-allow-headers", b"authorization, content-type, discreet-token"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"Origin"),
    ]

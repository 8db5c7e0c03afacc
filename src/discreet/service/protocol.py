"""HTTP connections that nobody can hold open by being slow, or fill by never ending a head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["protocol"]

_HEAD = 32 * 2**10  # bytes of a request's head at most


def protocol(slow: float) -> Any:  # noqa: C901
    """Returns the protocol: the head of a request comes within ``slow`` seconds, and is not too long."""

    class Patient(HttpToolsProtocol):
        """What uvicorn does, and no more patience than that."""

        _timer: asyncio.TimerHandle | None = None
        _head = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._came()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._wait()

        def on_headers_complete(self) -> None:
            self._came()
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            if self._timer is not None:
                self._head += len(data)
                whole = b"\r\n\r\n" in data
                if self._head > _HEAD and not whole:
                    self._refuse(b"431 Request Header Fields Too Large")
                    return
            super().data_received(data)

        def _wait(self) -> None:
            if self._timer is None:
                self._head = 0
                self._timer = self.loop.call_later(slow, self._refuse, b"408 Request Timeout")

        def _came(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _refuse(self, status: bytes) -> None:
            self._came()
            if not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                self.transport.close()

    return Patient

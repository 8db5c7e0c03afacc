"""Processes that serve: one or several workers behind one socket."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from discreet import live
from discreet.errors import InvalidInput
from discreet.live.stores import connect
from discreet.service.access import SCOPES, Access, Key, KeyFile, new_key

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

__all__ = ["Options", "serve", "shuffle", "work"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SLOW = 10  # seconds that the head of a request may take


@dataclass(frozen=True)
class Options:
    """How the service runs.

    Attributes:
        database: Its URL.
        host: Where it listens.
        port: Where it listens; 0 is any that is free.
        workers: How many processes.
        keys: The key file; without it the service listens on loopback only, and makes a key for this run.
        origins: Web pages that may call from a browser.
        rate: Requests a second that a key may send.
        largest: Bytes of a request at most.
    """

    database: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    keys: str | None = None
    origins: tuple[str, ...] = ()
    rate: float = 5000.0
    largest: int = 2**24


def serve(options: Options, configs: tuple[str | os.PathLike[str], ...] = (), say: Any = print) -> int:
    """Makes the deployments that are not there yet, and serves until it is told to stop (SIGINT, SIGTERM).

    Args:
        options: How to serve.
        configs: TOML files of deployments.
        say: Is told where it listens, and the key for this run.

    Returns:
        The exit code.
    """
    _check_keys(options)
    if options.workers > 1 and options.database == "memory:":
        raise InvalidInput("several workers need a database that they share, got memory:")
    own: tuple[Key, str] | None = None if options.keys is not None else new_key(SCOPES, "this run")
    store = connect(options.database)
    try:
        there = live.names(store)
        for path in configs:
            config = live.read(path)
            if config.name not in there:
                live.create(store, config)
    finally:
        if options.database != "memory:" or options.workers > 1:
            store.close()
    with contextlib.closing(_socket(options)) as bound:
        host, port = bound.getsockname()[:2]
        say(f"discreet serves http://{host}:{port}")
        if own is not None:
            say(f"key for this run: {own[1]}")
        keys = None if own is None else [own[0]]
        if options.workers == 1:
            kept = store if options.database == "memory:" else None
            asyncio.run(_served(options, bound, keys, lambda settings: _application(options, settings, kept)))
            return 0
        return _workers(options, bound, keys)


def shuffle(options: Options, server: str, key: str, say: Any = print) -> int:
    """Mixes for a service until it is told to stop.

    Args:
        options: How to serve; the database is the shuffler's own.
        server: URL of the service.
        key: A key of the service with the scope ``shuffler``.
        say: Is told where it listens, and the key for this run.
    """
    _check_keys(options)
    own = None if options.keys is not None else new_key(("client",), "this run")
    store = connect(options.database)
    with contextlib.closing(_socket(options)) as bound:
        host, port = bound.getsockname()[:2]
        say(f"discreet shuffles http://{host}:{port}")
        if own is not None:
            say(f"key for this run: {own[1]}")

        def application(settings: Any) -> Any:
            from discreet.service.mixing import mixer

            return mixer(store, settings, server, key)

        asyncio.run(_served(options, bound, None if own is None else [own[0]], application))
    return 0


def _socket(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((options.host, options.port))
        bound.listen(2048)
    except OSError as error:
        bound.close()
        raise InvalidInput(f"cannot listen on {options.host}:{options.port}: {error.strerror}") from None
    bound.set_inheritable(True)
    return bound


def _workers(options: Options, bound: socket.socket, keys: list[Key] | None) -> int:
    """Runs several processes; if one ends, the others are told to."""
    given = msgspec.json.encode({"options": asdict(options), "keys": keys and [asdict(key) for key in keys]}).decode()
    command = [sys.executable, "-m", "discreet.service.server", str(bound.fileno())]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[bound.fileno()]) for _ in range(options.workers)
    ]
    for each in running:
        assert each.stdin is not None
        each.stdin.write(given.encode())
        each.stdin.close()

    def stop(*_: object) -> None:
        for each in running:
            with contextlib.suppress(ProcessLookupError):
                each.send_signal(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    codes = []
    for each in running:
        codes.append(each.wait())
        stop()
    return max(abs(code) for code in codes)


def _check_keys(options: Options) -> None:
    """Refuses to be open to others without keys."""
    if options.keys is not None:
        KeyFile(options.keys).read()
    elif options.host not in _LOOPBACK:
        raise InvalidInput(
            f"without a key file the service listens on loopback only, got host={options.host!r}: make keys with "
            "discreet keys create, and give --keys FILE"
        )


def _application(options: Options, settings: Any, store: Any = None) -> Any:
    from discreet.service.app import application

    return application(connect(options.database) if store is None else store, settings)


async def _served(options: Options, bound: socket.socket, keys: list[Key] | None, made: Callable[[Any], Any]) -> None:
    """Serves what ``made`` makes of the settings, until a signal comes."""
    import uvicorn

    from discreet.service.app import Settings
    from discreet.service.protocol import protocol

    access = Access(KeyFile(options.keys) if options.keys is not None else keys or [])
    settings = Settings(access, largest=options.largest, rate=options.rate, origins=options.origins)
    config = uvicorn.Config(
        made(settings),
        access_log=False,  # who asked, and when, is not kept
        log_level="warning",
        server_header=False,
        date_header=False,
        lifespan="on",
        http=protocol(_SLOW),
        loop="auto",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        limit_concurrency=4096,
    )

    class Server(uvicorn.Server):
        """Ends with code 0 when it is told to stop: uvicorn's own would raise the signal again."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
            for number in numbers:
                loop.add_signal_handler(number, self.handle_exit, number, None)
            try:
                yield
            finally:
                for number in numbers:
                    loop.remove_signal_handler(number)

    await Server(config).serve([bound])


def work(number: int) -> None:
    """Runs one worker on a socket that it was given: `serve` starts it."""
    given = msgspec.json.decode(sys.stdin.buffer.read())
    options = Options(**{**given["options"], "origins": tuple(given["options"]["origins"])})
    keys = given["keys"] and [Key(**{**key, "scopes": tuple(key["scopes"])}) for key in given["keys"]]
    with socket.socket(fileno=number) as bound:
        asyncio.run(_served(options, bound, keys, lambda settings: _application(options, settings)))


if __name__ == "__main__":
    work(int(sys.argv[1]))

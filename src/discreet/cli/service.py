"""``discreet serve``, ``shuffler`` and ``keys``: the service, who mixes for it, and who may call."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from discreet.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["keys", "serve", "shuffler"]


_F = TypeVar("_F", bound="Callable[..., Any]")


def _server() -> Any:
    try:
        for name in ("httptools", "httpx", "msgspec", "starlette", "uvicorn"):
            importlib.import_module(name)
    except ImportError:
        raise MissingExtra("starlette, uvicorn and msgspec", "serve") from None
    return importlib.import_module("discreet.service.server")


def _listening(port: int) -> Callable[[_F], _F]:
    """The options of whatever listens."""

    def with_options(command: _F) -> _F:
        for option in reversed(
            [
                click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens."),
                click.option("--port", default=port, show_default=True, help="Where it listens; 0 is any free one."),
                click.option(
                    "--keys", "keys_", metavar="FILE", help="The key file; without it: loopback, one-time key."
                ),
                click.option("--origin", "origins", multiple=True, metavar="URL", help="A web page that may call."),
                click.option("--rate", default=5000.0, show_default=True, help="Requests a second and key."),
                click.option("--largest", default=2**24, show_default=True, help="Bytes of a request."),
            ]
        ):
            command = option(command)
        return command

    return with_options


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE.toml]…")
@click.option(
    "--database", default="sqlite:///discreet.db", show_default=True, envvar="DISCREET_DATABASE", metavar="URL"
)
@click.option("--workers", default=1, show_default=True, help="Processes.")
@_listening(8000)
def serve(files: tuple[str, ...], database: str, workers: int, keys_: str | None, **how: Any) -> int:
    """Serve deployments over HTTP, with a dashboard at /. Files that are new make deployments."""
    server = _server()
    options = server.Options(database=database, workers=workers, keys=keys_, **how)
    found: int = server.serve(options, files, say=click.echo)
    return found


@click.command()
@click.option("--server", "url", required=True, metavar="URL", help="The service that it mixes for.")
@click.option("--server-key", required=True, envvar="DISCREET_SERVER_KEY", help="A key of the service, scope shuffler.")
@click.option(
    "--database", default="sqlite:///shuffler.db", show_default=True, metavar="URL", help="Its own, never the server's."
)
@_listening(8001)
def shuffler(url: str, server_key: str, database: str, keys_: str | None, **how: Any) -> int:
    """Mix the messages of devices: the server gets counts of whole batches only."""
    server = _server()
    options = server.Options(database=database, keys=keys_, **how)
    found: int = server.shuffle(options, url, server_key, say=click.echo)
    return found


@click.group()
def keys() -> None:
    """Keys of the service: who may call, and what for. The file holds hashes only."""


_FILE = click.option("--keys", "path", default="keys.json", show_default=True, metavar="FILE", help="The key file.")


@keys.command()
@_FILE
@click.option(
    "--scope", "scopes", multiple=True, required=True, help="client, viewer, shuffler or admin; may be repeated."
)
@click.option("--label", default="", help="For people.")
def create(path: str, scopes: tuple[str, ...], label: str) -> None:
    """Make a key and print it: it is shown once and kept nowhere."""
    from discreet.service.access import KeyFile

    click.echo(KeyFile(path).add(scopes, label))


@keys.command("list")
@_FILE
def list_(path: str) -> None:
    """List the keys of a file."""
    from discreet.service.access import KeyFile

    for key in KeyFile(path).read():
        day = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        state = "revoked" if key.revoked is not None else "valid"
        click.echo(f"{key.id}  {state:7}  {day}  {','.join(key.scopes):30}  {key.label}".rstrip())


@keys.command()
@_FILE
@click.argument("number", metavar="ID")
def revoke(path: str, number: str) -> None:
    """Revoke a key by its id. A running service obeys within a second."""
    from discreet.service.access import KeyFile

    KeyFile(path).revoke(number)

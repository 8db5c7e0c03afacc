"""The command about statements of deployments."""

from __future__ import annotations

import json
from pathlib import Path

import click

from discreet.errors import InvalidInput

__all__ = ["verify"]


def _key(given: str) -> str:
    """Returns the key that was given, or what the file that was named holds."""
    path = Path(given)
    if len(given) == 64 or not path.is_file():
        return given
    try:
        return path.read_text()[:1000]
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(f"{given!r} holds no public key") from None


@click.command()
@click.argument("statement", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--key", help="The public key of the signer, or a file that holds it.  [default: any]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def verify(statement: Path, key: str | None, as_json: bool) -> None:
    """Check the statement of a deployment: compute ε anew from the file alone, check chain and signature.

    Exits with 1 if it does not hold, with 2 if it is no statement.
    """
    from discreet.live import verify as check

    try:
        text = statement.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{str(statement)!r} cannot be read: {error.strerror}") from None
    try:
        found = check(text, None if key is None else _key(key))
    except InvalidInput as error:
        raise InvalidInput(f"{str(statement)!r}: {error}") from None
    click.echo(json.dumps(found.to_dict()) if as_json else found.to_text())
    if not found.holds:
        raise click.exceptions.Exit(1)

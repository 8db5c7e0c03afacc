"""Reading what people type."""

from __future__ import annotations

from typing import Any

import click

from discreet.errors import InvalidInput

__all__ = ["UPDATE_EVERY", "environment", "scalar"]


def scalar(text: str) -> bool | int | float | str:
    """Returns what a value on the command line stands for."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def environment(text: str) -> tuple[str, dict[str, Any]]:
    """Splits ``name[:key=value,…]`` into the name and its parameters."""
    name, colon, rest = text.partition(":")
    parameters: dict[str, Any] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InvalidInput(f"an environment is written name:key=value,…, got {text!r}")
        if key in parameters:
            raise InvalidInput(f"{key} is given twice in {text!r}")
        parameters[key] = scalar(value)
    return name, parameters


class _UpdateEvery(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "integer|geometric"

    def convert(self, value: Any, _parameter: click.Parameter | None, _context: click.Context | None) -> int | str:
        read = scalar(value) if isinstance(value, str) else value
        return read if isinstance(read, (int, str)) else str(value)


#: A number of people, or the name of a schedule.
UPDATE_EVERY = _UpdateEvery()

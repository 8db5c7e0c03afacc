"""Environments as people write them: ``name[:key=value,…]``."""

from __future__ import annotations

from typing import Any

from discreet.errors import InvalidInput

__all__ = ["environment", "scalar"]


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

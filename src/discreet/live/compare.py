"""Whether two documents say the same: numbers may differ by rounding, all else not at all."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np

from discreet.runtime import records

__all__ = ["close", "differences", "laid_open", "listed"]

#: Relative: the same sums in another order, or by another library.
ROUNDING = 1e-9
_SHOWN = 4


def close(first: float, second: float, tolerance: float = ROUNDING) -> bool:
    """Whether two numbers differ by rounding at most, relative to them."""
    if first == second:
        return True
    finite = math.isfinite(first) and math.isfinite(second)
    return finite and abs(first - second) <= tolerance * max(abs(first), abs(second))


def differences(found: Any, stated: Any, path: str, tolerance: float = ROUNDING, *, whole: bool = False) -> list[str]:
    """Returns where two documents differ.

    Args:
        found: One of them.
        stated: The other.
        path: What the first part of a place is called.
        tolerance: How far floats may differ.
        whole: Whether integers may differ by as much.
    """
    if type(found) is not type(stated):
        return [path]
    if isinstance(found, dict):
        if set(found) != set(stated):
            return [path]
        pairs = [(found[key], stated[key], f"{path}.{key}") for key in found]
    elif isinstance(found, list):
        if len(found) != len(stated):
            return [path]
        pairs = [(found[i], stated[i], f"{path}[{i}]") for i in range(len(found))]
    elif isinstance(found, float) or (whole and type(found) is int):
        return [] if close(found, stated, tolerance) else [path]
    else:
        return [] if found == stated else [path]
    return [place for a, b, where in pairs for place in differences(a, b, where, tolerance, whole=whole)]


def laid_open(value: Any, without: tuple[str, ...] = ()) -> Any:
    """Returns plain values, arrays, records and the texts of encoders as lists and dicts.

    Args:
        value: What `discreet.runtime.records.pack` takes.
        without: Names of fields that are left out.
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str) and value.startswith("{"):  # an encoder
        return laid_open(json.loads(value), without)
    if dataclasses.is_dataclass(value) and records.is_record(type(value)):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: laid_open(item, without) for key, item in value.items() if key not in without}
    return [laid_open(item, without) for item in value] if isinstance(value, list | tuple) else value


def listed(said: str, places: list[str]) -> str | None:
    """Returns what is wrong, and where; None if it is nowhere."""
    return f"{said}: {', '.join(places[:_SHOWN])}{', …' * (len(places) > _SHOWN)}" if places else None

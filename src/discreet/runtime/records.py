"""Plain records as bytes: what a hand-over or a store keeps of mechanisms, learners and releases.

The bytes are an ``.npz``: plain arrays, one of which is a JSON document that refers to the others. Nothing in it is
pickled, and reading it runs no code of its own. The same values give the same bytes.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.privatizers.codec import ENCODERS, from_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["from_plain", "is_record", "name_of", "pack", "record", "to_plain", "unpack"]

#: Rooms whose plain records (data classes, named tuples) a file may hold.
_ROOMS = (
    "discreet.agents.",
    "discreet.mdp.",
    "discreet.privacy.",
    "discreet.privatizers.",
    "discreet.runtime.",
    "discreet.sums.",
)


def pack(value: Any) -> bytes:
    """Returns plain values, arrays, encoders and records of ours as bytes.

    Raises:
        InvalidInput: If there is anything else in it.
    """
    arrays: dict[str, NDArray[Any]] = {}
    document = json.dumps(_plain(value, arrays), sort_keys=True)
    buffer = io.BytesIO()
    np.savez(buffer, document=np.frombuffer(document.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(body: bytes) -> Any:
    """Returns what `pack` was given."""
    with np.load(io.BytesIO(body), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return _whole(json.loads(arrays.pop("document").tobytes()), arrays)


def to_plain(value: Any) -> dict[str, Any]:
    """Returns what `pack` takes as a document that JSON can hold, for people to read: arrays are lists of numbers."""
    arrays: dict[str, NDArray[Any]] = {}
    document = _plain(value, arrays)
    lists = {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}
        for name, array in arrays.items()
    }
    return {"arrays": lists, "document": document}


def from_plain(found: dict[str, Any]) -> Any:
    """Returns what `to_plain` was given.

    Raises:
        InvalidInput: If an array is none of numbers.
    """
    arrays = {}
    for name, kept in found["arrays"].items():
        kind = np.dtype(kept["dtype"])
        if kind.kind not in "biuf":
            raise InvalidInput("it holds an array that is none of numbers")
        arrays[name] = np.array(kept["values"], dtype=kind).reshape(kept["shape"])
    return _whole(found["document"], arrays)


def is_record(kind: type[Any]) -> bool:
    """Whether a class is a plain record of ours: its fields are all that there is."""
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return f"{kind.__module__}.".startswith(_ROOMS) and (named or dataclasses.is_dataclass(kind))


def name_of(kind: type[Any]) -> str:
    """Returns how a record is named."""
    return f"{kind.__module__}:{kind.__qualname__}"


def record(name: str) -> type[Any]:
    """Returns the record of that name; raises if it is none of ours."""
    module, _, qualname = name.partition(":")
    if not f"{module}.".startswith(_ROOMS) or "." in qualname:
        raise InvalidInput("it holds a record that is none of ours")
    kind = getattr(importlib.import_module(module), qualname, None)
    if not isinstance(kind, type) or not is_record(kind):
        raise InvalidInput("it holds a record that is none of ours")
    return kind


def _plain(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Returns what JSON can hold, and puts the arrays into ``arrays``."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"$array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: _plain(item, arrays) for key, item in value.items()}
    if ENCODERS.get(getattr(value, "kind", "")) is type(value):
        return {"$encoder": value.to_json()}
    if is_record(type(value)):
        names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
        fields = {name: _plain(getattr(value, name), arrays) for name in names}
        return {"$record": name_of(type(value)), "fields": fields}
    if isinstance(value, list | tuple):
        kind = "$tuple" if isinstance(value, tuple) else "$list"
        return {kind: [_plain(item, arrays) for item in value]}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise InvalidInput(f"this cannot be saved: it holds a {type(value).__name__}")


def _whole(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The inverse of `_plain`."""
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return arrays[value["$array"]]
    if "$list" in value:
        return [_whole(item, arrays) for item in value["$list"]]
    if "$tuple" in value:
        return tuple(_whole(item, arrays) for item in value["$tuple"])
    if "$encoder" in value:
        return from_json(value["$encoder"])
    if "$record" in value:
        return record(value["$record"])(**_whole(value["fields"], arrays))
    return {key: _whole(item, arrays) for key, item in value.items()}

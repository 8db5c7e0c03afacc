"""A run as a Parquet file: the curve as its table, the whole row beside it, and a digest of both."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from discreet.errors import DamagedStore, MissingExtra
from discreet.experiments.records import Curve, RunRow, canonical, columns

__all__ = ["pack", "pyarrow", "to_table", "unpack"]


def pyarrow() -> tuple[Any, Any]:
    """Returns pyarrow and its Parquet; raises `MissingExtra` if they are not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtra("pyarrow", "sweep") from None
    return pa, pq


def to_table(row: RunRow, curve: Curve) -> Any:
    """Returns the curve as an Arrow table; labels are columns, so that files can be read together."""
    pa, _ = pyarrow()
    types = {"run": pa.int64(), "episode": pa.int64()} | dict.fromkeys(_NUMBERS, pa.float64())
    arrays = {}
    for name, value in columns(row, curve).items():
        kind = types.get(name, pa.string())
        arrays[name] = pa.array(value if isinstance(value, np.ndarray) else [value] * len(curve.episodes), kind)
    return pa.table(arrays)


_NUMBERS = ("epsilon_requested", "delta_requested", "epsilon_proven", "delta_proven", "regret", "gap")


def pack(row: RunRow, curve: Curve) -> bytes:
    """Returns a Parquet file of the curve that also holds the whole row, and a digest of both."""
    pa, pq = pyarrow()
    table, sink, text = to_table(row, curve), pa.BufferOutputStream(), canonical(dataclasses.asdict(row))
    labels = [name for name in table.column_names if name not in ("episode", "regret", "gap")]
    with pq.ParquetWriter(sink, table.schema, compression="zstd", use_dictionary=labels, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"discreet.run": text, "discreet.sha256": _digest(text, curve)})
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack(data: bytes) -> tuple[RunRow, Curve]:
    """Reads what `pack` made; raises `DamagedStore` unless all of it is there."""
    pa, pq = pyarrow()
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        extra = file.metadata.metadata
        text, digest = extra[b"discreet.run"].decode(), extra[b"discreet.sha256"].decode()
        table = file.read(columns=["episode", "regret", "gap"], use_threads=False)
        episodes, regret, gaps = (table.column(name).to_numpy() for name in ("episode", "regret", "gap"))
        row = RunRow(**json.loads(text))
        curve = Curve(episodes, regret, gaps, row.episodes)
        if digest != _digest(text, curve):
            raise DamagedStore("its digest is wrong")
        return row, curve
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedStore(f"it cannot be read ({' '.join(str(error).split())})") from None


def _digest(text: str, curve: Curve) -> str:
    hashed = hashlib.sha256(text.encode())
    for values, kind in ((curve.episodes, "<i8"), (curve.regret, "<f8"), (curve.gaps, "<f8")):
        hashed.update(np.ascontiguousarray(values, dtype=kind).tobytes())
    return hashed.hexdigest()

"""Finished runs, read back: what a sweep left in its directory.

    import discreet as dc

    results = dc.results.load("sweep")
    for run in results.runs:
        print(run.config["agent"], run.guarantee["epsilon"], run.regret)
    frame = results.to_pandas()          # one row for every kept episode of every run

All of it is computed by the simulator, from its exact model and the policies that were played.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np

from discreet.errors import InvalidInput, UnknownName
from discreet.experiments.files import replacing
from discreet.experiments.records import Curve, RunRow, columns
from discreet.experiments.store import Store
from discreet.experiments.store.parquet import to_table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["FORMATS", "Results", "load", "same_content"]

#: What `Results.export` writes.
FORMATS = ("csv", "json", "parquet")
#: What may differ between two stores of the same runs.
_INCIDENTAL = ("wall_seconds", "cpu_seconds", "host", "created")


class Results:
    """The runs of a store, as they were when it was opened; curves are read when they are asked for.

    Attributes:
        runs: What the index knows of each run, in an order that does not depend on when they were done.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs: list[RunRow] = store.runs()

    def __repr__(self) -> str:
        return f"<Results: {len(self.runs)} runs in {str(self._store.directory)!r}>"

    def curve(self, key: str) -> Curve:
        """Returns the regret of a run at the kept episodes."""
        return self._store.curve(key)

    def summary(self) -> dict[str, NDArray[Any]]:
        """Returns one row a run, by column: what was asked for, what was proven, the regret after the last episode."""
        rows = [
            row.labels
            | {"episodes": row.episodes, "regret": row.regret}
            | {f"suboptimal_{alpha}": count for alpha, count in row.suboptimal.items()}
            | {"version": row.version, "wall_seconds": row.wall_seconds, "cpu_seconds": row.cpu_seconds}
            for row in self.runs
        ]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: _column([row.get(name) for row in rows]) for name in names}

    def table(self) -> dict[str, NDArray[Any]]:
        """Returns one row for every kept episode of every run, by column; where ε is infinite, it is NaN."""
        parts: dict[str, list[NDArray[Any]]] = {}
        for row, curve in self._curves():
            for name, value in columns(row, curve).items():
                whole = value if isinstance(value, np.ndarray) else np.repeat(_column([value]), len(curve.episodes))
                parts.setdefault(name, []).append(whole)
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    def to_pandas(self) -> Any:
        """Returns `table` as a pandas DataFrame; needs pandas."""
        return importlib.import_module("pandas").DataFrame(self.table())

    def export(
        self,
        path: str | os.PathLike[str],
        format: Literal["csv", "json", "parquet"] | None = None,  # noqa: A002
    ) -> None:
        """Writes `table` to a file, whole or not at all.

        Args:
            path: Of the file; replaced if it is there.
            format: csv, json (a list of objects) or parquet; what the path ends in by default.
        """
        path = Path(path)
        name = path.suffix.removeprefix(".") if format is None else format
        if name not in FORMATS:
            raise UnknownName("format", name, FORMATS)
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{str(path)!r} is there and is no file: it is not replaced")
        if path.resolve().is_relative_to(self._store.directory.resolve()) and (
            path.parent.resolve() != self._store.directory.resolve() or path.resolve() == self._store.index.resolve()
        ):
            raise InvalidInput(f"{str(path)!r} is a part of the store: export to another place")
        if not self.runs:
            raise InvalidInput(f"there are no runs in {str(self._store.directory)!r} to export")
        with replacing(path) as draft:
            if name == "parquet":
                self._write_parquet(draft)
            else:
                with draft.open("w", encoding="utf-8", newline="") as file:
                    {"csv": self._write_csv, "json": self._write_json}[name](file)

    def _curves(self) -> Iterator[tuple[RunRow, Curve]]:
        for row in self.runs:
            yield row, self.curve(row.key)

    def _records(self) -> Iterator[dict[str, object]]:
        for row, curve in self._curves():
            labels = row.labels
            points = (values.tolist() for values in (curve.episodes, curve.regret, curve.gaps))
            for episode, regret, gap in zip(*points, strict=True):
                yield {**labels, "episode": episode, "regret": regret, "gap": gap}

    def _write_csv(self, file: TextIO) -> None:
        writer = csv.DictWriter(file, next(self._records()))
        writer.writeheader()
        writer.writerows(self._records())

    def _write_json(self, file: TextIO) -> None:
        file.write("[")
        for i, record in enumerate(self._records()):
            file.write((",\n" if i else "\n") + json.dumps(record))
        file.write("\n]\n")

    def _write_parquet(self, path: Path) -> None:
        import pyarrow.parquet as pq

        tables = (to_table(row, curve) for row, curve in self._curves())
        first = next(tables)
        with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
            for table in itertools.chain([first], tables):
                writer.write_table(table)


def load(directory: str | os.PathLike[str]) -> Results:
    """Returns the runs that a sweep left in a directory, so far.

    Raises:
        StoreError: If it holds no runs, or its index is damaged.
    """
    return Results(Store.open(directory))


def same_content(one: Store, other: Store) -> list[str]:
    """Compares two stores in all but times, host and timestamps, and returns the differences in words."""
    mine, yours = ({row.key: row for row in store.runs()} for store in (one, other))
    found = [f"run {key} is in {one.directory} only" for key in sorted(mine.keys() - yours.keys())]
    found += [f"run {key} is in {other.directory} only" for key in sorted(yours.keys() - mine.keys())]
    for key in sorted(mine.keys() & yours.keys()):
        for field in dataclasses.fields(RunRow):
            a, b = getattr(mine[key], field.name), getattr(yours[key], field.name)
            if field.name not in _INCIDENTAL and a != b:
                found.append(f"run {key} differs in {field.name}: {a!r}, {b!r}")
        if one.curve(key) != other.curve(key):
            found.append(f"run {key} differs in its curve")
    return found


def _column(values: Sequence[object]) -> NDArray[Any]:
    """Returns an array: numbers as numbers, None among them as NaN, texts as objects."""
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if any(value is None for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(values)

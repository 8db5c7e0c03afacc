"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["replacing", "sync", "write_file"]


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yields where to write a draft; it takes the place of the file when the ``with`` block ends.

    Args:
        path: Of the file; errors name it.
        durable: Whether its name is flushed to the disk as well.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        draft.replace(path)
        if durable:
            sync(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None  # not the draft's name
    finally:
        with contextlib.suppress(OSError):  # what could not be written is said above
            draft.unlink(missing_ok=True)


def write_file(path: Path, data: bytes) -> None:
    """Writes a file."""
    with replacing(path) as draft:
        draft.write_bytes(data)


def sync(directory: Path) -> None:
    """Flushes the names in a directory to the disk."""
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

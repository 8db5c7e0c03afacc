"""Where a deployment keeps what must not be lost: SQLite or PostgreSQL behind one writer with group commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.live.stores.base import Store

__all__ = ["connect"]


def connect(url: str) -> Store:
    """Returns the store that a URL names.

    Args:
        url: ``"sqlite:///file.db"`` (relative) or ``"sqlite:////folder/file.db"`` (absolute), ``"postgresql://…"``, or
            ``"memory:"``, which is gone with the process.
    """
    if url == "memory:":
        from discreet.live.stores.sqlite import SQLiteStore

        return SQLiteStore(None)
    if url.startswith("sqlite:///"):
        from discreet.live.stores.sqlite import SQLiteStore

        return SQLiteStore(url.removeprefix("sqlite:///"))
    if url.startswith(("postgresql://", "postgres://")):
        from discreet.live.stores.postgres import PostgresStore

        return PostgresStore(url)
    shown = url.partition(":")[0]  # what follows may hold a password
    raise InvalidInput(f"a database is sqlite:///FILE, postgresql://… or memory:, got {shown + ':…'!r}")

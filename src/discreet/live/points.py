"""Moments at which a process may die. Fault tests end it at each of them; otherwise nothing happens here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["POINTS", "reached", "watch"]

#: All of them, in the order of a batch's life.
POINTS = (
    "start: before the commit",
    "start: committed, not answered",
    "report: before the commit",
    "report: committed, not answered",
    "batch closing",
    "reports read",
    "noise drawn",
    "release: before the commit",
    "release: committed, not planned",
    "plan made",
    "plan: before the commit",
    "plan: committed",
    "shuffler: before the commit",
    "shuffler: committed, not answered",
    "shuffler: absent slots filled",
    "shuffler: batch closed",
)
_watcher: Callable[[str], None] | None = None


def reached(name: str) -> None:
    """Says that a moment has come."""
    if _watcher is not None:
        _watcher(name)


def watch(watcher: Callable[[str], None] | None) -> None:
    """Has somebody told of every moment; None is nobody."""
    global _watcher  # noqa: PLW0603
    _watcher = watcher

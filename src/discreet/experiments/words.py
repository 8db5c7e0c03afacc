"""Words for people."""

from __future__ import annotations

__all__ = ["count"]


def count(number: int, noun: str) -> str:
    """Returns a number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

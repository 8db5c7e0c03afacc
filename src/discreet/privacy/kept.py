"""Calibrations of shuffled noise that were found before: on disk, and never trusted before they are proven again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

__all__ = ["recall", "remember"]


def _file(key: dict[str, Any]) -> Path:
    """Where a calibration is kept: by all that it depends on."""
    root = os.environ.get("DISCREET_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root else Path.home() / ".cache"
    text = json.dumps(key, sort_keys=True)
    return base / "discreet" / f"binomial-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def recall(key: dict[str, Any], most: int) -> tuple[int, float] | None:
    """Returns what is kept, if it is of our kind and not absurd; it is not proven yet."""
    try:
        path = _file(key)
        document = json.loads(path.read_text())
        m, p = int(document["bits"]), float(document["probability"])
    except (OSError, ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError, RuntimeError):
        return None  # nothing there, or nothing of ours: it is computed anew
    return (m, p) if 1 <= m <= most and 0 < p <= 0.5 else None


def remember(key: dict[str, Any], found: tuple[int, float]) -> None:
    """Keeps a calibration, if there is a place for it."""
    try:
        path = _file(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            draft.write_text(json.dumps({**key, "bits": found[0], "probability": found[1]}))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, RuntimeError):
        return  # a cache that cannot be written is no obstacle

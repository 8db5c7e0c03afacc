"""From trajectories to what planners see: encode (at the user), shuffle, analyse (at the server).

One folder for each thing that is asked: where it lives in a vector (`layout`), what runs at the user (`encode`), and
what the server does with it (`serve`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from discreet.privatizers.base import (
    AnyMechanism,
    AnyPrivatizer,
    Encoder,
    Mechanism,
    PrivateCounts,
    Privatizer,
    Released,
)
from discreet.privatizers.shufflers import AnyShuffler, BitShuffler, Collector, Shuffler

if TYPE_CHECKING:
    from discreet.privatizers.codec import from_json
    from discreet.privatizers.counts.projection import project

__all__ = [
    "AnyMechanism",
    "AnyPrivatizer",
    "AnyShuffler",
    "BitShuffler",
    "Collector",
    "Encoder",
    "Mechanism",
    "PrivateCounts",
    "Privatizer",
    "Released",
    "Shuffler",
    "from_json",
    "project",
]

_LATE = {
    "from_json": "discreet.privatizers.codec",
    "project": "discreet.privatizers.counts.projection",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:  # devices import encoders and nothing of the server
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'discreet.privatizers' has no attribute {name!r}")

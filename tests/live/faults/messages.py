"""What is asked of processes, and what a campaign adds up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live.faults.forks import Process

    Heard = Callable[[dict[str, Any]], None]

__all__ = ["EXPECTED", "Heard", "Request", "Tally"]

#: Errors that faults may cause; anything else is a bug.
EXPECTED = {"Closed", "InvalidPersonalData", "InvalidToken", "Unavailable"}


@dataclass
class Request:
    """Something that a person, or a clock, asks of a process."""

    to: Process
    do: str
    order: dict[str, Any]
    heard: Heard | None = None
    allowed: set[str] = field(default_factory=lambda: EXPECTED)


@dataclass
class Tally:
    """What a campaign adds up."""

    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    lost: int = 0
    double: int = 0
    releases: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Adds another."""
        self.kills += other.kills
        self.refused += other.refused
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.double += other.double
        self.releases += other.releases

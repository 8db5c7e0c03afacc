"""The exceptions of this library.

::

    DiscreetError
    ├── InvalidInput (ValueError)          a parameter is out of bounds; the message names its value
    │   ├── UnknownName                    no such environment, agent, preset, …; suggests the nearest
    │   ├── CapacityExceeded               more users or reads than the noise was calibrated for
    │   ├── BudgetExceeded                 a charge does not fit into the privacy budget
    │   ├── Unproven                       no guarantee can be proven for what was asked
    │   └── InvalidPersonalData            a person's data is out of bounds; names the field and the bound only
    ├── NumericalError (ArithmeticError)   a computation left the numbers it is proven for; names it
    ├── NotReadable (RuntimeError)         a sum has nothing to release now
    ├── StoreError                         a directory of runs cannot be used as was asked
    │   ├── DamagedStore                   a file of it is missing, truncated or altered; names it
    │   ├── LockedStore                    another process writes to it; names it
    │   └── DuplicateRun                   the run is there already
    ├── LiveError                          a deployment cannot do what was asked (`discreet.live`)
    │   ├── Closed                         a report comes too late: its batch is closed, or its time is over
    │   ├── InvalidToken                   a token is not one that this deployment gave out
    │   ├── RolledBack                     the database is older than what people have seen: nothing is released
    │   └── Unavailable                    the database did not answer; to do the same again is safe
    ├── CheckFailed (AssertionError)       an environment or agent does not keep its contract (`discreet.testing`)
    └── MissingExtra (ImportError)         an optional dependency is not installed

Errors about parameters name the offending value. Errors about a person's data never do, because messages end up
in logs that no accountant sees.
"""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BudgetExceeded",
    "CapacityExceeded",
    "CheckFailed",
    "Closed",
    "DamagedStore",
    "DiscreetError",
    "DuplicateRun",
    "InvalidInput",
    "InvalidPersonalData",
    "InvalidToken",
    "LiveError",
    "LockedStore",
    "MissingExtra",
    "NotReadable",
    "NumericalError",
    "RolledBack",
    "StoreError",
    "Unavailable",
    "UnknownName",
    "Unproven",
    "check_flag",
    "check_fraction",
    "check_integer",
    "check_number",
]


class DiscreetError(Exception):
    """Base class of everything this library raises on purpose."""


class InvalidInput(DiscreetError, ValueError):
    """A parameter is out of bounds."""


class UnknownName(InvalidInput):
    """A name that is not in the catalogue it was looked up in."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = list(known)
        near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {kind} {str(name)!r}: {hint}known: {', '.join(known)}")


class CapacityExceeded(InvalidInput):
    """More users or reads than the object was built for."""


class BudgetExceeded(InvalidInput):
    """A charge does not fit into the privacy budget."""


class Unproven(InvalidInput):
    """No guarantee can be proven for what was asked."""


class NumericalError(DiscreetError, ArithmeticError):
    """A computation left the numbers it is proven for, such as a matrix that is not positive definite."""


class NotReadable(DiscreetError, RuntimeError):
    """A sum has nothing to release now."""


class InvalidPersonalData(InvalidInput):
    """A person's data is out of bounds; the message names the field and the bound, never the value."""


class CheckFailed(DiscreetError, AssertionError):
    """An environment or agent does not keep its contract."""


class StoreError(DiscreetError):
    """A directory of runs cannot be used as was asked."""


class DamagedStore(StoreError):
    """A file of the store is missing, truncated or altered; the message names it."""


class LockedStore(StoreError):
    """Another process writes to the store; the message names it."""


class DuplicateRun(StoreError):
    """The run is in the store already."""


class LiveError(DiscreetError):
    """A deployment cannot do what was asked."""


class Closed(LiveError):
    """A report comes too late: its batch is closed, or its time is over. It is never moved to a later batch."""


class InvalidToken(LiveError):
    """A token is not one that this deployment gave out."""


class RolledBack(LiveError):
    """The database is older than what people have seen, so what it would release has been released before."""


class Unavailable(LiveError):
    """The database did not answer; nothing was acknowledged, and to do the same again is safe."""


class MissingExtra(DiscreetError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'discreet[{extra}]'")


def check_integer(name: str, value: object, *, least: int = 1, most: int = 2**53) -> int:
    """Returns ``value`` as an ``int`` between ``least`` and ``most``; raises `InvalidInput` naming it otherwise."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        raise InvalidInput(f"{name} must be an integer, got {name}={value!r}") from None
    if number < least:
        raise InvalidInput(f"{name} must be at least {least}, got {name}={value!r}")
    if number > most:
        raise InvalidInput(f"{name} must be at most {most}, got {name}={value!r}")
    return int(number)


def check_number(name: str, value: object, *, least: float = 0.0, above: bool = False) -> float:
    """Returns ``value`` as a finite float of at least ``least`` (more, if ``above``); raises naming it otherwise."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        raise InvalidInput(f"{name} must be a number, got {name}={value!r}") from None
    if not (least < number if above else least <= number) or number == math.inf:
        bound = f"{'more than' if above else 'at least'} {least:g}"
        raise InvalidInput(f"{name} must be finite and {bound}, got {name}={value!r}")
    return number


def check_flag(name: str, value: object) -> bool:
    """Returns ``value`` as a ``bool``; raises `InvalidInput` naming it if it is neither true nor false."""
    if value not in (False, True):
        raise InvalidInput(f"{name} must be true or false, got {name}={value!r}")
    return bool(value)


def check_fraction(name: str, value: object, *, closed: bool = False) -> float:
    """Returns ``value`` as a float in (0, 1), or [0, 1] if ``closed``; raises `InvalidInput` naming it otherwise."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a number, got {name}={value!r}") from None
    if not (0 <= number <= 1 if closed else 0 < number < 1):
        interval = "[0, 1]" if closed else "(0, 1)"
        raise InvalidInput(f"{name} must lie in {interval}, got {name}={value!r}")
    return number

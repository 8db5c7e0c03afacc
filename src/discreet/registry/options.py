"""Tables of options: a dataclass field says all that the command line, sweeps, labels and documents know of one.

    @dataclass(frozen=True)
    class Greedy:
        eagerness: float = field(default=1.0, metadata=about("How eager it is."))

`table` reads such a dataclass. Nothing else lists options, so that a new one is one new field.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Option", "Value", "about", "table", "union"]

#: What an option can be, in a file, on the command line and in a store.
Value: TypeAlias = bool | int | float | str | None

_WORDS = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class _About:
    help: str = ""
    label: str | Mapping[Value, str] = ""
    short: str = ""
    unset: str = ""
    noise: bool = False


def about(
    help: str,  # noqa: A002 - what everybody calls it
    *,
    label: str | Mapping[Value, str] = "",
    short: str = "",
    unset: str = "",
    noise: bool = False,
) -> dict[str, object]:
    """Returns the metadata of a field that is an option.

    Args:
        help: What it does, in a sentence or two.
        label: How a picture says it: a format such as ``"{} sum"``, or words for some values. ``"name value"`` where
            it does not say. Nothing is said of ``"auto"`` and None.
        short: A short flag, such as ``"-e"``.
        unset: What happens if nobody gives it, where the default does not tell.
        noise: Whether the noise depends on it: `discreet budget` takes those.
    """
    return {"about": _About(help, label, short, unset, noise)}


@dataclass(frozen=True)
class Option:
    """One option, as it is read from its field.

    Attributes:
        name: In Python and in files; on the command line it has dashes.
        default: None where what takes it decides, or where it has to be given.
        types: Of its values, but for None.
        help: What it does.
        short: A short flag, if it has one.
        unset: What happens if nobody gives it.
        noise: Whether the noise depends on it.
        words: How a label says it; see `about`.
    """

    name: str
    default: Value
    types: tuple[type, ...]
    help: str = ""
    short: str = ""
    unset: str = ""
    noise: bool = False
    words: str | Mapping[Value, str] = ""

    @property
    def flag(self) -> str:
        """On the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def expects(self) -> str:
        """Which values it takes, in words."""
        return " or ".join(_WORDS[kind] for kind in self.types)

    def fits(self, value: object) -> bool:
        """Returns whether a value is of its kind: a whole number is a number, a bool is none."""
        known = (*self.types, int) if float in self.types else self.types
        return isinstance(value, known) and (bool in self.types or not isinstance(value, bool))

    def label(self, value: Value) -> str:
        """Returns how a label says a value."""
        if value is None or value == "auto":  # what is not auto says so
            return ""
        if isinstance(self.words, str) and self.words:
            return self.words.format(value)
        if isinstance(self.words, Mapping) and value in self.words:
            return self.words[value]
        return f"{self.name.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"


@functools.cache
def table(kind: type[DataclassInstance]) -> Mapping[str, Option]:
    """Returns the options that a dataclass declares, by name."""
    hints, found = get_type_hints(kind), dict[str, Option]()
    for field in dataclasses.fields(kind):
        said = field.metadata.get("about", _About())
        default = None if field.default is dataclasses.MISSING else field.default
        found[field.name] = Option(
            field.name, default, _types(hints[field.name]), said.help, said.short, said.unset, said.noise, said.label
        )
    return types.MappingProxyType(found)


def _types(hint: object) -> tuple[type, ...]:
    several = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(kind for kind in several if isinstance(kind, type) and kind is not type(None))


def union(tables: Iterable[Mapping[str, Option]]) -> dict[str, Option]:
    """Returns all options of several tables, each as the first one has it."""
    found: dict[str, Option] = {}
    for each in tables:
        for name, option in each.items():
            found.setdefault(name, option)
    return found

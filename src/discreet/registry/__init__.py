"""What there is, by name: agents, environments, trust models, sums and experiments; other packages may add to it.

    from discreet.registry import register

    register("agent", "greedy", "my.agents:Greedy", options="my.agents:GreedyOptions")

An entry names where a thing is. Nothing is imported before the thing is used, so that a list of names costs nothing.
Where a name is expected, ``module:name`` and ``module.name`` of something that nobody registered work as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from discreet.errors import InvalidInput, UnknownName

__all__ = ["KINDS", "Entry", "Registry", "imported", "register"]

T = TypeVar("T")

#: Each kind of thing, and the module that keeps its registry.
KINDS: dict[str, str] = {
    "agent": "discreet.agents",
    "environment": "discreet.envs",
    "trust model": "discreet.privacy.trust",
    "sum": "discreet.privacy.trust",
    "experiment": "discreet.experiments.reproduce",
}
_KEPT: dict[str, Registry[Any]] = {}


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One thing.

    Attributes:
        name: What it is called.
        target: The thing, or ``module:name``, where it is found once it is needed.
        facts: What else its kind wants to know of it, such as the ``options`` of an agent.
    """

    name: str
    target: T | str
    facts: Mapping[str, object] = field(default_factory=dict)

    def load(self) -> T:
        """Returns the thing."""
        return cast("T", imported(self.target)) if isinstance(self.target, str) else self.target


class Registry(Mapping[str, T]):
    """The things of one kind, by name, in the order in which they were added.

    Attributes:
        kind: What they are, in words.
        entries: By name; reading them imports nothing.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.entries: dict[str, Entry[T]] = {}
        _KEPT[kind] = self

    def add(self, name: str, target: T | str, **facts: object) -> None:
        """Adds a thing; a name that is taken is refused."""
        if name in self.entries:
            raise InvalidInput(f"there is a {self.kind} {name!r} already: register another name")
        self.entries[name] = Entry(name, target, facts)

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self.entries)

    def entry(self, name: str) -> Entry[T]:
        """Returns the entry of a name, or of a path that nobody registered.

        Raises:
            UnknownName: If there is neither; it suggests the nearest name.
        """
        if name in self.entries:
            return self.entries[name]
        if isinstance(name, str) and ("." in name or ":" in name):
            return Entry(name, name)
        raise UnknownName(self.kind, name, self.entries)

    def __getitem__(self, name: str) -> T:
        return self.entry(name).load()

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def register(kind: str, name: str, target: object, **facts: object) -> None:
    """Adds something of your own, so that `make`, sweeps and the command line know it by name.

    Args:
        kind: One of `KINDS`.
        name: What it is to be called.
        target: The thing itself, or ``module:name``, which is imported when it is needed.
        **facts: Of an agent ``options``, the dataclass of what it takes; of a sum ``trust``, the trust model it is for.
    """
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    importlib.import_module(KINDS[kind])
    _KEPT[kind].add(name, target, **facts)


def imported(path: str) -> object:
    """Returns what ``module:name`` or ``module.name`` stands for.

    Raises:
        InvalidInput: If there is no such module, or nothing of that name in it.
    """
    module, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"{path!r} cannot be imported: {error}") from None
    except AttributeError:
        raise InvalidInput(f"there is no {name!r} in the module {module!r}") from None

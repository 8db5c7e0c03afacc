"""What only a server may hold: raw totals, and the noise that is inside its releases."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

from discreet.errors import InvalidInput

__all__ = ["Secret"]

T = TypeVar("T")


class _Turn:
    """Whether a release has been made from a state."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = False


class Secret(Generic[T]):
    """A server's state between two releases. It is not shown, not copied, not pickled, and releases once.

    If two releases went on from one state with different people, both would hold the same earlier noise, and their
    difference would betray them. So all that was folded from one state shares its turn, and the first release spends
    it. The contents are never changed in place: whoever fails half-way leaves them as they were.
    """

    __slots__ = ("_contents", "_turn")

    def __init__(self, contents: T) -> None:
        self._contents = contents
        self._turn = _Turn()

    def open(self) -> T:
        """Returns the contents: raw personal data.

        Raises:
            InvalidInput: If a release has been made from them.
        """
        if self._turn.spent:
            raise InvalidInput("this state has been released from: a server goes on from a state only once")
        return self._contents

    def folded(self, contents: T) -> Secret[T]:
        """Returns the state with more people in it, and the same turn."""
        self.open()
        found: Secret[T] = Secret(contents)
        found._turn = self._turn
        return found

    def released(self, contents: T) -> Secret[T]:
        """Spends the turn, and returns the state after the release."""
        self.open()
        self._turn.spent = True
        return Secret(contents)

    def __repr__(self) -> str:
        return "<Secret: contents not shown>"

    def __copy__(self) -> NoReturn:
        raise TypeError("a server's state is not copied: two copies would hide different users behind the same noise")

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server's state is not pickled: two copies would hide different users behind the same noise")

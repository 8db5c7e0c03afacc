"""What an agent may know of an environment before it has met a single user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, check_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Spec", "check_distribution"]


def check_distribution(name: str, values: ArrayLike, size: int) -> NDArray[np.float64]:
    """Returns ``values`` as a read-only probability vector of length ``size``."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):  # text, or lists of different lengths
        raise InvalidInput(f"{name} must be {size} probabilities") from None
    if array.shape != (size,):
        raise InvalidInput(f"{name} must have shape ({size},), got {array.shape}")
    for i in np.flatnonzero(~(array >= 0)):  # catches NaN too
        raise InvalidInput(f"{name}[{i}] must be a probability, got {array[i]}")
    if not abs(array.sum() - 1) <= 1e-8:
        raise InvalidInput(f"{name} must sum to 1 within 1e-8, got {array.sum()}")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Spec:
    """The public facts of a tabular environment: sizes and the initial distribution, never dynamics or rewards.

    Attributes:
        states: Number of states S.
        actions: Number of actions A.
        horizon: Steps an episode H.
        initial: Distribution of the first state, (S,); uniform if not given.
    """

    states: int
    actions: int
    horizon: int
    initial: NDArray[np.float64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            object.__setattr__(self, name, check_integer(name, getattr(self, name)))
        initial = np.full(self.states, 1 / self.states) if self.initial is None else self.initial
        object.__setattr__(self, "initial", check_distribution("initial", initial, self.states))

    def _key(self) -> tuple[Any, ...]:
        return self.states, self.actions, self.horizon, self.initial.tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Spec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

"""One person's episode: the data that everything here protects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidPersonalData

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from discreet.mdp.spec import Spec

__all__ = ["Trajectory"]

_SHORT = 32


def _array(name: str, what: str, kinds: str, values: ArrayLike) -> NDArray[Any]:
    """Returns an array of one of the ``kinds``; NumPy's own conversions would take text, None and complex numbers."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # such as lists of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in kinds:
        raise InvalidPersonalData(f"{name} must be {what}")
    return array


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    return _array(name, "integers", "iu", values).astype(np.int64)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = _array(name, "numbers", "iuf", values)
    if array.dtype == np.float64:
        return array
    with np.errstate(over="ignore"):  # a wider float may become infinite, which no bound allows
        return np.asarray(array, dtype=np.float64)


def _within(values: NDArray[Any], least: int, most: int) -> bool:
    """Whether all of them lie in [least, most]; NaN does not. Everybody's are checked: a short list is faster."""
    if len(values) <= _SHORT:
        return all(least <= value <= most for value in values.tolist())
    return bool(values.min() >= least and values.max() <= most)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """What one user did and met. Its representation never shows the data.

    Attributes:
        states: s_1 … s_{H+1}, (H+1,).
        actions: a_1 … a_H, (H,).
        rewards: r_1 … r_H in [0, 1], (H,).

    Raises:
        InvalidPersonalData: If states or actions are not integers, or rewards are not real numbers. Truth values, text,
            None and other objects are neither.
    """

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", _integers("states", self.states))
        object.__setattr__(self, "actions", _integers("actions", self.actions))
        object.__setattr__(self, "rewards", _numbers("rewards", self.rewards))

    def __repr__(self) -> str:
        return "<Trajectory: contents not shown>"

    def check(self, spec: Spec) -> None:
        """Raises `InvalidPersonalData`, naming a field and its bound, unless this is an episode of ``spec``."""
        H = spec.horizon
        for name, array, length in (
            ("states", self.states, H + 1),
            ("actions", self.actions, H),
            ("rewards", self.rewards, H),
        ):
            if array.shape != (length,):
                raise InvalidPersonalData(f"{name} must have shape ({length},)")
        if not _within(self.states, 0, spec.states - 1):
            raise InvalidPersonalData(f"states must lie in [0, {spec.states})")
        if not _within(self.actions, 0, spec.actions - 1):
            raise InvalidPersonalData(f"actions must lie in [0, {spec.actions})")
        if not _within(self.rewards, 0, 1):
            raise InvalidPersonalData("rewards must lie in [0, 1]")

    def completed(self, horizon: int, gone: int) -> Trajectory:
        """Returns a whole episode of somebody who may have left: what did not happen is in an absorbing state.

        Leaving is what came of the last action, so every state after it is ``gone``; there, the action is 0 and the
        reward is 0. Without such a state an episode that ends early would hide where its last action led.

        Args:
            horizon: Steps of an episode, H.
            gone: The absorbing state.

        Raises:
            InvalidPersonalData: If this is no beginning of an episode. The message names the bound only.
        """
        n = len(self.actions) if self.actions.ndim == 1 else horizon + 1
        if n > horizon or self.rewards.shape != (n,) or self.states.shape not in ((n,), (n + 1,)):
            raise InvalidPersonalData(
                f"an episode that ends early has n ≤ {horizon} actions, n rewards, and n or n + 1 states"
            )
        whole = n == horizon and len(self.states) == n + 1
        states = self.states if whole else np.append(self.states[:n], np.full(horizon + 1 - n, gone))
        missing = np.zeros(horizon - n)
        return Trajectory(states, np.append(self.actions, missing.astype(np.int64)), np.append(self.rewards, missing))

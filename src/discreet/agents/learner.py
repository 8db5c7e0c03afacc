"""What discreet-vi is made of under each trust model: what users are asked, and what is planned from the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from discreet.agents.schedule import Listed, Schedule
    from discreet.privatizers import Privatizer

__all__ = ["Learner", "Plan"]


class Plan(NamedTuple):
    """What the users of a batch play.

    Attributes:
        policies: (n, H, S).
        users: How many play each, in order, (n,).
        exploit: The best policy known, (H, S): for users who are in no batch.
        carried: What the encoder of the batch is given, by name; public.
    """

    policies: NDArray[np.int64]
    users: NDArray[np.int64]
    exploit: NDArray[np.int64]
    carried: dict[str, Any]


class Learner(ABC):
    """One trust model's way to ask and to plan.

    Attributes:
        schedule: When the policies change: public.
        privatizer: What users run, what is between, and what the server keeps.
    """

    schedule: Schedule | Listed
    privatizer: Privatizer[Any, Any]

    @abstractmethod
    def plan(self, released: Any | None, count: int, size: int, rng: np.random.Generator) -> Plan:
        """Returns the plan of a batch, from releases, public numbers and the agent's own randomness alone.

        Args:
            released: What the last batch's end released; None before the first batch.
            count: Users so far.
            size: Users of the batch; 0 if there is none any more.
            rng: The agent's own randomness.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Returns copies of all that planning changes, by name: arrays, numbers and lists of them."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`."""

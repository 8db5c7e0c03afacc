"""What discreet-vi is made of under each trust model: what users are asked, and what is planned from the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from discreet.agents.rounds import Listed, Proposal, Schedule
    from discreet.privatizers import AnyMechanism

__all__ = ["Learner"]

S = TypeVar("S")


class Learner(ABC, Generic[S]):
    """One trust model's way to ask and to plan: public facts, and no state.

    Attributes:
        schedule: When the policies change: public.
        mechanism: What users run, what is between, and what the server does.
    """

    schedule: Schedule | Listed
    mechanism: AnyMechanism

    @abstractmethod
    def start(self) -> S:
        """Returns what is known before anybody came."""

    @abstractmethod
    def plan(
        self, known: S, released: Any | None, count: int, size: int, rng: np.random.Generator
    ) -> tuple[S, Proposal]:
        """Returns what is known now and what the next batch plays, from releases and the agent's own randomness alone.

        Args:
            known: What was known before; it stays as it is.
            released: What the last batch's end released; None before the first batch.
            count: Users so far.
            size: Users of the batch; 0 if there is none any more.
            rng: The agent's own randomness.
        """

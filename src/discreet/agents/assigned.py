"""Agents whose users follow a public schedule within a batch: some play one policy, some another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.learning import LearningAgent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.privacy import Report
    from discreet.privatizers import Encoder

__all__ = ["AssignedAgent"]


class _Attended:
    """The user's encoder; tells the agent that one more user of the batch has played, and nothing else."""

    def __init__(self, encoder: Encoder[Any], agent: AssignedAgent) -> None:
        self._encoder, self._agent = encoder, agent

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> Report:
        """Returns the encoder's report."""
        report: Report = self._encoder.encode(trajectory, rng)
        self._agent.played += 1
        return report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)


class AssignedAgent(LearningAgent):
    """A planner that gives every batch several policies, and says how many users play each, in order.

    Subclasses call `_assign` whenever they have planned, and say with `leftover` what is played after the last batch.

    Attributes:
        played: How many users of the current batch have played.
    """

    played: int
    _policies: NDArray[np.int64]
    _ends: NDArray[np.int64]

    def _assign(self, policies: NDArray[np.int64], users: NDArray[np.int64]) -> None:
        """Begins a batch: ``users[i]`` users play ``policies[i]``, one policy after the other."""
        self.played = 0
        self._policies, self._ends = policies, np.cumsum(users, dtype=np.int64)

    def _ready(self) -> None:
        """Called before anything of the current batch is looked at: the place to finish what was interrupted."""

    @property
    def leftover(self) -> NDArray[np.int64]:
        """What users play who are in no batch, (H, S)."""
        raise NotImplementedError

    @property
    def encoder(self) -> Encoder[Report]:
        """What runs at the user."""
        self._check_here()
        self._ready()
        return _Attended(self.privatizer.encoder, self)

    @property
    def policy(self) -> NDArray[np.int64]:
        """For the next user, (H, S): the next one of the batch's public schedule; at last `leftover`."""
        self._ready()
        i = int(np.searchsorted(self._ends, self.played, side="right"))
        return self._policies[i].copy() if i < len(self._ends) else self.leftover.copy()

    @property
    def assignments(self) -> list[tuple[NDArray[np.int64], int]]:
        """The public schedule of the current batch: policies, and how many users play each, in order."""
        self._ready()
        users = np.diff(self._ends, prepend=0)
        return [(policy.copy(), int(n)) for policy, n in zip(self._policies, users, strict=True)]

    @property
    def tallied(self) -> bool:
        """In simulation: whether ``privatizer.tally()`` may stand for the users and the shuffler of a batch."""
        self._ready()
        return bool(getattr(self.privatizer, "simulated", False))

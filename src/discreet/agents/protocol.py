"""What an agent is, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from discreet.agents.rounds import Policy
    from discreet.mdp import Spec
    from discreet.privacy import Batch, Guarantee, Report
    from discreet.privatizers import AnyShuffler, Encoder

__all__ = ["Agent"]


class Agent(Protocol):
    """What `discreet.simulate` and `discreet.testing.check_agent` ask of an agent; yours need not inherit anything.

    A user plays ``policy``; ``encoder.encode`` turns the trajectory into a report on the user's device; after
    ``batch_size`` users the ``shuffler`` makes a batch of the reports, and ``observe`` shows it to the server.
    """

    spec: Spec
    episodes: int

    @property
    def encoder(self) -> Encoder[Report]:
        """At the user."""

    @property
    def shuffler(self) -> AnyShuffler:
        """Between the users and the server."""

    @property
    def policy(self) -> Policy:
        """For the next slot, (H, S) or (H, S, A); depends on earlier batches only."""

    @property
    def batch_size(self) -> int:
        """Size of the current batch: public."""

    @property
    def count(self) -> int:
        """Number of users observed."""

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for this agent."""

    def observe(self, batch: Batch) -> None:
        """At the server: updates the sums and plans anew."""

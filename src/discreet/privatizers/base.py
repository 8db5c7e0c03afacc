"""The parties between a trajectory and a planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy import Batch, RawBatch, RawReport, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.privacy import Guarantee
    from discreet.sums import ExactSum, PrivateSum

__all__ = ["Collector", "Encoder", "PrivateCounts", "Privatizer", "RawServer", "Shuffler", "check_reports"]

R = TypeVar("R", bound=Report)
B = TypeVar("B", bound=Batch)
R_co = TypeVar("R_co", bound=Report, covariant=True)


@dataclass(frozen=True, eq=False)
class PrivateCounts:
    """All that a planner may see.

    Attributes:
        visits: Ñ_h(s,a), (H, S, A); the first axis is 1 if pooled over the steps.
        transitions: Ñ_h(s,a,s'), (H, S, A, S) or (1, S, A, S).
        rewards: R̃_h(s,a), sums, (H, S, A) or (1, S, A).
        error: A bound on how far any count is from the truth, at the failure probability it was asked for.
    """

    visits: NDArray[np.float64]
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    error: float = 0.0


class Encoder(Protocol[R_co]):
    """At the user: turns a trajectory into the report that leaves the device."""

    def encode(self, trajectory: Trajectory, rng: np.random.Generator) -> R_co:
        """Returns the report; raises, naming a field and its bound, if the trajectory is none of this environment."""


class Shuffler(Generic[R, B]):
    """Between users and server: holds the reports of a batch until it is complete, then hands them on.

    Attributes:
        reports: The reports in transit. The server never looks at them.
        uncollected: How many people played in a last batch that cannot be completed; nothing of theirs is kept.
    """

    def __init__(self) -> None:
        self.reports: list[R] = []
        self.uncollected = 0

    def __call__(self, reports: Sequence[R], rng: np.random.Generator) -> B:
        """Returns what the server receives of ``reports``."""
        raise NotImplementedError


class Collector(Shuffler[RawReport, RawBatch]):
    """Collects raw reports, in order: for a trusted server."""

    def __call__(self, reports: Sequence[RawReport], rng: np.random.Generator | None = None) -> RawBatch:
        """Returns the reports, one row each."""
        check_reports(reports, RawReport)
        return RawBatch(np.stack([r.indices for r in reports]), np.stack([r.values for r in reports]))


def check_reports(reports: Sequence[Report], kind: type[Report]) -> None:
    """Raises unless there are reports, all of one kind; never shows one."""
    if len(reports) == 0:
        raise InvalidInput("a batch needs at least one report")
    for report in reports:
        if not isinstance(report, kind):
            raise TypeError(f"expected a {kind.__name__}, got {type(report).__name__}")


class RawServer:
    """The server's side where it is trusted with raw batches: it adds them to ``sum``."""

    sum: PrivateSum | ExactSum

    @property
    def count(self) -> int:
        """Number of users collected."""
        return self.sum.count

    def collect(self, batch: RawBatch) -> None:
        """Adds a batch to the sums; nothing changes if an error is raised."""
        if not isinstance(batch, RawBatch):
            raise TypeError(f"expected a RawBatch, got {type(batch).__name__}")
        self.sum.add(batch.indices, batch.values)

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes: personal data and noise, by name."""
        return self.sum.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`, which is used up."""
        self.sum = type(self.sum).from_state(state)


class Privatizer(Protocol[R, B]):
    """A trust model at work: the user's encoder, the shuffler, and the server's sums."""

    @property
    def guarantee(self) -> Guarantee:
        """What is proven."""

    @property
    def encoder(self) -> Encoder[R]:
        """At the user."""

    @property
    def shuffler(self) -> Shuffler[R, B]:
        """Between the users and the server."""

    @property
    def name(self) -> str:
        """Of the sum."""

    @property
    def noise(self) -> str:
        """Its distribution, or how it hides."""

    @property
    def count(self) -> int:
        """Number of users collected."""

    @property
    def error(self) -> Any:
        """What is known of the noise: a bound on how far any count ever is from the truth, or a regulariser."""

    def collect(self, batch: B) -> None:
        """At the server: adds a batch to the sums."""

    def counts(self) -> Any:
        """Returns what has been released: `PrivateCounts`, or sums of feature products."""

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes: personal data and noise, by name."""

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`, which is used up."""

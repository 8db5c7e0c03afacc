"""What an agent is, and what all tabular agents share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from discreet.agents.schedule import Schedule
from discreet.errors import (
    CapacityExceeded,
    InvalidInput,
    UnknownName,
    check_flag,
    check_fraction,
    check_integer,
    check_number,
)
from discreet.noise import Role, seed_sequence, stream
from discreet.privacy import Batch, NonPrivate, TrustModel
from discreet.privatizers import Collector, NonPrivatePrivatizer
from discreet.privatizers.encoders import RawEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.mdp.tabular import SampleTables
    from discreet.noise import Seed
    from discreet.privacy import Guarantee
    from discreet.privatizers import Encoder, PrivateCounts, Shuffler

__all__ = ["Agent", "TabularAgent"]


class Agent(Protocol):
    """What `discreet.simulate` and `discreet.testing.check_agent` ask of an agent; yours need not inherit anything.

    A user plays ``policy``; ``encoder.encode`` turns the trajectory into a report on the user's device; after
    ``batch_size`` users the ``shuffler`` makes a batch of the reports, and ``observe`` shows it to the server.
    """

    spec: Spec
    episodes: int

    @property
    def encoder(self) -> Encoder[Any]:
        """At the user."""

    @property
    def shuffler(self) -> Shuffler[Any, Any]:
        """Between the users and the server."""

    @property
    def policy(self) -> NDArray[Any]:
        """For the next user, (H, S) or (H, S, A); depends on earlier batches only."""

    @property
    def batch_size(self) -> int:
        """Size of the current batch: public."""

    @property
    def count(self) -> int:
        """Number of users observed."""

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for this agent."""

    def observe(self, batch: Any) -> None:
        """At the server: updates the sums and plans anew."""


class TabularAgent:
    """A planner on private counts; subclasses say which.

    Subclasses give ``name``, the compiled ``kernel`` and its ``parameters``.
    """

    name: ClassVar[str]

    def __init__(
        self,
        spec: Spec,
        *,
        episodes: int,
        privacy: TrustModel | None = None,
        preset: str = "practical",
        stationary: bool = False,
        update_every: int | str = 1,
        failure: float = 0.05,
        bonus_scale: float = 1.0,
        seed: Seed = None,
    ) -> None:
        from discreet.agents import PRESETS

        if preset not in PRESETS:
            raise UnknownName("preset", preset, PRESETS)
        if privacy is not None and not isinstance(privacy, NonPrivate):
            kind = type(privacy).__name__
            raise InvalidInput(f"{self.name} offers no privacy: privacy must be NonPrivate(), got {kind}")
        self.spec = spec
        self.episodes = check_integer("episodes", episodes)
        self.privacy = privacy or NonPrivate()
        self.preset = preset
        self.stationary = check_flag("stationary", stationary)
        self.failure = check_fraction("failure", failure)
        self.bonus_scale = check_number("bonus_scale", bonus_scale)
        self.schedule = Schedule(update_every)
        self.seed = seed_sequence(seed)
        self.streams = {role: stream(self.seed, role) for role in (Role.AGENT, Role.ENCODER, Role.SHUFFLER)}
        self.privatizer = NonPrivatePrivatizer(
            spec, capacity=self.episodes, stationary=self.stationary, guarantee=self.privacy.guarantee
        )
        H, S, A = spec.horizon, spec.states, spec.actions
        self.Q = np.full((H, S, A), float(H))
        self.V = np.zeros((H + 1, S))
        self._policy = np.zeros((H, S), dtype=np.int64)
        self._parameters = self.parameters()
        self.plan(self.privatizer.counts())

    def __repr__(self) -> str:
        return f"<{self.name} agent after {self.count} of {self.episodes} users: {self.guarantee}>"

    @property
    def kernel(self) -> Any:
        """The compiled planner."""
        raise NotImplementedError

    def parameters(self) -> NDArray[np.float64]:
        """Returns the constants that the kernel reads."""
        raise NotImplementedError

    @property
    def policy(self) -> NDArray[np.int64]:
        """For the next user, (H, S); depends on earlier batches only."""
        return self._policy.copy()

    @property
    def encoder(self) -> Encoder[Any]:
        """What runs at the user."""
        return self.privatizer.encoder

    @property
    def shuffler(self) -> Shuffler[Any, Any]:
        """What makes a batch of reports."""
        return self.privatizer.shuffler

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for this agent."""
        return self.privatizer.guarantee

    @property
    def count(self) -> int:
        """Number of users observed."""
        return self.privatizer.count

    @property
    def batch_size(self) -> int:
        """Users in the current batch."""
        return self.schedule.batch_size(self.count)

    @property
    def _planned(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        return self.Q, self.V, self._policy

    def observe(self, batch: Batch) -> None:
        """Adds a batch to the sums and plans anew; nothing changes if an error is raised."""
        if not isinstance(batch, Batch):
            raise TypeError(f"expected a Batch, got {type(batch).__name__}")
        if self.count + batch.users > self.episodes:
            raise CapacityExceeded(
                f"{self.name} was built for {self.episodes} users: {self.count} are observed, got {batch.users} more"
            )
        if batch.users != self.batch_size:
            raise InvalidInput(f"the current batch has {self.batch_size} users, got {batch.users}")
        self.privatizer.collect(batch)  # type: ignore[arg-type]  # it checks the kind of batch itself
        self.plan(self.privatizer.counts())

    def plan(self, counts: PrivateCounts) -> None:
        """Computes Q, V and the policy from ``counts`` alone (and from the previous Q, where the paper does)."""
        self.kernel(self._parameters, (counts.visits, counts.transitions, counts.rewards), self._planned)

    @property
    def compiled(self) -> bool:
        """Whether `play` does what the protocol does: nobody has put other parts into this agent."""
        own = all(
            getattr(getattr(self, name), "__func__", None) is getattr(TabularAgent, name)
            for name in ("observe", "plan")
        )
        return own and type(self.encoder) is RawEncoder and type(self.shuffler) is Collector

    def snapshot(self) -> tuple[NDArray[Any], ...]:
        """Returns copies of all that `play` changes."""
        exact = self.privatizer.sum
        return (exact.total.copy(), np.array(exact.count), *(array.copy() for array in self._planned))

    def restore(self, snapshot: tuple[NDArray[Any], ...]) -> None:
        """Goes back to a `snapshot`."""
        exact = self.privatizer.sum
        exact.total[...], exact.count = snapshot[0], int(snapshot[1])
        for array, saved in zip(self._planned, snapshot[2:], strict=True):
            array[...] = saved

    def play(self, tables: SampleTables, draws: NDArray[np.float64], replan: NDArray[np.bool_]) -> NDArray[np.int64]:
        """In simulation: acts, observes and plans for one person a row of ``draws``, in one compiled call.

        It does what the protocol does, bit for bit. The last batch must be complete by the last call.

        Args:
            tables: The simulator's dynamics; they reach the sampler only.
            draws: The people's own randomness, (n, 1 + 3H).
            replan: Marks the last person of each batch, (n,).

        Returns:
            The policy in force at first and after each mark, (marks + 1, H, S).
        """
        from discreet.agents._kernels import block
        from discreet.mdp import _kernels

        H, S = self.spec.horizon, self.spec.states
        exact = self.privatizer.sum
        if exact.count + len(draws) > self.episodes:
            raise CapacityExceeded(
                f"{self.name} was built for {self.episodes} users: {exact.count} are observed, got {len(draws)} more"
            )
        counts = self.privatizer.layout.split(exact.total)
        policies = np.empty((int(replan.sum()) + 1, H, S), dtype=np.int64)
        episode = np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty(H)
        block.play(
            _kernels.sample,
            tuple(tables),
            self.kernel,
            self._parameters,
            counts,
            self._planned,
            draws,
            replan,
            policies,
            episode,
        )
        exact.count += len(draws)
        return policies

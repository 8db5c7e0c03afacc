"""What an agent is, and what all our agents share: batches, streams, the protocol, save and restore."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from discreet.agents.schedule import Schedule, Stages
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
from discreet.privacy import Batch, NonPrivate, Report, Shuffle, TrustModel

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.mdp.finite import SampleTables
    from discreet.noise import Seed
    from discreet.privacy import Guarantee
    from discreet.privatizers import Encoder, Privatizer, Shuffler

__all__ = ["Agent", "LearningAgent", "default_update"]


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


class LearningAgent:
    """A planner on private sums; subclasses say on which sums, and how it plans.

    Subclasses give ``name``, build ``privatizer`` with `_build`, and ``plan`` from what it releases.

    Attributes:
        name: Of the agent.
        private: Whether it takes a private trust model.
        protects: What of a person its guarantee protects then.
        linear: Whether it learns from sums of feature products instead of counts.
        mixed: Whether its policies are probabilities, (H, S, A).
        on_release: If set, called after every release with what was released, the policy that was planned from it and
            the number of users so far.
    """

    name: ClassVar[str]
    private: ClassVar[bool] = True
    protects: ClassVar[str] = "trajectory"
    linear: ClassVar[bool] = False
    mixed: ClassVar[bool] = False
    _saved: Path | None = None

    def __init__(
        self,
        spec: Spec,
        *,
        episodes: int,
        privacy: TrustModel | None,
        preset: str,
        stationary: bool,
        update_every: int | str | None,
        failure: float,
        bonus_scale: float,
        seed: Seed,
    ) -> None:
        self._set(spec, episodes, privacy, preset, stationary, failure, bonus_scale, seed)
        self.schedule: Schedule | Stages = Schedule(
            default_update(self.privacy, self.episodes) if update_every is None else update_every
        )
        self.batches = np.diff(self.schedule.ends(0, self.episodes), prepend=0).tolist()
        self.privatizer: Privatizer[Any, Any] = self._build()
        self.mechanism = (self.privatizer.name, self.privatizer.noise)
        H, S, A = spec.horizon, spec.states, spec.actions
        self.Q = np.full((H, S, A), float(H))
        self.V = np.zeros((H + 1, S))
        self._policy: NDArray[Any] = np.full((H, S, A), 1 / A) if self.mixed else np.zeros((H, S), dtype=np.int64)

    def _set(
        self,
        spec: Spec,
        episodes: int,
        privacy: TrustModel | None,
        preset: str,
        stationary: bool,
        failure: float,
        bonus_scale: float,
        seed: Seed,
    ) -> None:
        """Checks and keeps what all agents are given."""
        from discreet.agents import PRESETS

        if preset not in PRESETS:
            raise UnknownName("preset", preset, PRESETS)
        self.spec = spec
        self.episodes = check_integer("episodes", episodes)
        self.privacy: TrustModel | None = self._trust(privacy)
        self.preset = preset
        self.stationary = check_flag("stationary", stationary)
        self.failure = check_fraction("failure", failure)
        self.bonus_scale = check_number("bonus_scale", bonus_scale)
        self.seed = seed_sequence(seed)
        roles = (Role.AGENT, Role.ENCODER, Role.SHUFFLER, Role.NOISE)
        self.streams = {role: stream(self.seed, role) for role in roles}
        self.on_release: Callable[[Any, NDArray[Any], int], None] | None = None
        self._untold: list[tuple[Any, NDArray[Any], int]] = []

    def _build(self) -> Privatizer[Any, Any]:
        """Returns a new privatizer."""
        raise NotImplementedError

    @property
    def options(self) -> dict[str, Any]:
        """What `discreet.agents.make` was given, beside the sizes and the seed."""
        names = [name for name in inspect.signature(type(self)).parameters if name not in ("spec", "episodes", "seed")]
        return {name: getattr(self.schedule if name == "update_every" else self, name) for name in names}

    @property
    def resolved(self) -> dict[str, Any]:
        """What became of all that was left open: this agent, its options, the sum and its noise."""
        options = {name: value for name, value in self.options.items() if name != "privacy"}
        return {"agent": self.name, **options, "sum": self.mechanism[0], "noise": self.mechanism[1]}

    def plan(self, released: Any) -> None:
        """Computes Q, V and the policy from what was released."""
        raise NotImplementedError

    @property
    def asked(self) -> dict[str, Any]:
        """What the encoder of the current batch was given by the plan, by name: as public as the policy."""
        return {}

    @property
    def compiled(self) -> bool:
        """Whether `play` does what the protocol does."""
        return False

    @property
    def release_size(self) -> int:
        """How many numbers a release has; asking releases nothing."""
        raise NotImplementedError

    def play(self, tables: SampleTables, draws: NDArray[np.float64], replan: NDArray[np.bool_]) -> NDArray[Any]:
        """In simulation: acts, observes and plans for one person a row of ``draws``, as the protocol does, bit for bit.

        The last batch must be complete by the last call. `tell` has to follow, when nothing can go wrong any more.

        Args:
            tables: The simulator's dynamics; they reach the sampler only.
            draws: The people's own randomness, (n, 1 + 3H).
            replan: Marks the last person of each batch, (n,).

        Returns:
            The policy in force at first and after each mark, (marks + 1, H, S) or (marks + 1, H, S, A).
        """
        raise NotImplementedError

    def _check_room(self, users: int) -> None:
        if self.count + users > self.episodes:
            raise CapacityExceeded(
                f"{self.name} was built for {self.episodes} users: {self.count} are observed, got {users} more"
            )

    def _trust(self, privacy: TrustModel | None) -> TrustModel | None:
        """Returns the trust model, if this agent can have it."""
        if privacy is None and not self.private:
            return NonPrivate()
        if not isinstance(privacy, TrustModel):
            raise no_trust(self.name, privacy)
        if not self.private and not isinstance(privacy, NonPrivate):
            kind = type(privacy).__name__
            raise InvalidInput(
                f"{self.name} offers no privacy: privacy must be NonPrivate(), got {kind}; private agents are "
                "dp-ucbvi, pucb, private-ucb-vi, private-ucb-po, rlsvi, sdp-pe, linopt-vi, linopt-po, discreet-vi "
                "and auto"
            )
        return privacy

    def __reduce__(self) -> Any:
        raise TypeError("an agent is not copied: two copies would hide different users behind the same noise")

    def __repr__(self) -> str:
        return f"<{self.name} agent after {self.count} of {self.episodes} users: {self.guarantee}>"

    @property
    def policy(self) -> NDArray[Any]:
        """For the next user, (H, S) or (H, S, A); depends on earlier batches only."""
        return self._policy.copy()

    @property
    def encoder(self) -> Encoder[Report]:
        """What runs at the user."""
        self._check_here()
        return self.privatizer.encoder

    @property
    def shuffler(self) -> Shuffler[Report, Batch]:
        """What makes a batch of reports."""
        self._check_here()
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
    def _planned(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any]]:
        return self.Q, self.V, self._policy

    def observe(self, batch: Batch) -> None:
        """Adds a batch to the sums and plans anew; nothing changes if an error is raised."""
        self._check_here()
        if not isinstance(batch, Batch):
            raise TypeError(f"expected a Batch, got {type(batch).__name__}")
        self._check_room(batch.users)
        if batch.users != self.batch_size:
            raise InvalidInput(f"the current batch has {self.batch_size} users, got {batch.users}")
        self.privatizer.collect(batch)
        released = self.privatizer.counts()
        self.plan(released)
        if self.on_release is not None:
            self.on_release(released, self.policy, self.count)

    @property
    def saved(self) -> Path | None:
        """Where this agent was saved to, and goes on from; None while it is here."""
        return self._saved

    def _check_here(self) -> None:
        if self._saved is not None:
            raise InvalidInput(
                f"this agent was saved to {str(self._saved)!r} and goes on from there only: dc.agents.load it"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Moves this agent into a new file, from which `discreet.agents.load` takes it, to go on exactly.

        The file is *personal data*: raw totals, reports in transit, and the noise that hides them. Treat it like the
        raw data; only its owner can read it (mode 0600). It is used once: two agents that went on from one state
        would hide different users behind the same noise, and the difference of their releases would be raw. So this
        agent is retired (its policy and guarantee can still be read, but it meets nobody any more), loading consumes
        the file, and no copy of the file may ever be loaded.

        ``on_release`` is not saved.

        Raises:
            InvalidInput: If the path exists, if this agent was saved before, or if it has parts that `make` does
                not build. The agent goes on.
            OSError: If the file cannot be written. The agent goes on.
        """
        from discreet.agents import saved

        saved.save(self, path)

    def snapshot(self) -> tuple[dict[str, Any], Any]:
        """Returns copies of all that `play` changes: personal data and noise."""
        return self.privatizer.state(), tuple(array.copy() for array in self._planned)

    def restore(self, snapshot: tuple[dict[str, Any], Any]) -> None:
        """Goes back to a `snapshot`, which is used up."""
        self._untold = []
        self.privatizer.restore(snapshot[0])
        for array, saved in zip(self._planned, snapshot[1], strict=True):
            array[...] = saved

    def tell(self) -> None:
        """Tells `on_release` what `play` released. Once it is told, nothing may be taken back: noise is used once."""
        untold, self._untold = self._untold, []
        if self.on_release is not None:
            for released in untold:
                self.on_release(*released)


def no_trust(name: str, privacy: object) -> InvalidInput:
    """Returns what is said of an agent that was given no trust model."""
    got = "" if privacy is None else f", got {type(privacy).__name__}"
    known = "Central(epsilon=1.0), Local(…), Shuffle(…) or NonPrivate()"
    return InvalidInput(f"{name} needs a trust model: privacy={known}{got}")


def default_update(privacy: TrustModel | None, episodes: int) -> int:
    """Returns how many users a batch has by default: 1; under `Shuffle` a hundredth of all, and at most 500.

    A shuffled batch of n users needs the same noise in total whatever n is: small batches cost messages and noise.
    """
    return max(1, min(500, episodes // 100)) if isinstance(privacy, Shuffle) else 1

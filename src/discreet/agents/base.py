"""What an agent is, and what all our agents share: rounds of a plan, a batch and a release."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from discreet.agents.protocol import Agent
from discreet.agents.rounds import Plan, Proposal, Schedule
from discreet.agents.trusting import default_update, trusted
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
from discreet.noise.fast import FastSource
from discreet.noise.secure import SecureSource
from discreet.privacy import Batch, Report, TrustModel
from discreet.privatizers import Privatizer

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from discreet.agents.rounds import Listed, Policy, Stages
    from discreet.mdp import Spec
    from discreet.noise import Seed, Source
    from discreet.privacy import Guarantee
    from discreet.privatizers import AnyMechanism, AnyPrivatizer, AnyShuffler, Encoder

__all__ = ["Agent", "LearningAgent", "default_update"]

_SOURCES = (Role.ENCODER, Role.SHUFFLER, Role.NOISE)


class _Mind(NamedTuple):
    """What was learned so far and the plan that follows from it: replaced together, or not at all."""

    state: Any
    plan: Plan


class LearningAgent:
    """A planner on private releases; subclasses say what is asked, and how it plans.

    A round: `plan` says what the slots of a batch play and what their encoder is given; the reports go to the
    `shuffler`; `observe` folds its batch in and releases, both or nothing; the next plan is a pure function of the
    release, of what was learned before and of the agent's own randomness. If planning fails, the release stands, and
    the plan is made when it is next asked for.

    Subclasses give ``name``, say with `_build` what is asked, and learn with `_learn`.

    Attributes:
        name: Of the agent.
        private: Whether it takes a private trust model.
        protects: What of a person its guarantee protects then.
        linear: Whether it learns from sums of feature products instead of counts.
        mixed: Whether its policies are probabilities, (H, S, A).
        fast: Whether a simulation may take its short cuts (`discreet.runtime.fast`). It is not inherited: whoever
            changes an agent goes through the protocol until they say otherwise.
        on_release: If set, called after every release with what was released, the policy that was planned from it and
            the number of users so far. Whatever it does, the release stands.
    """

    name: ClassVar[str]
    private: ClassVar[bool] = True
    protects: ClassVar[str] = "trajectory"
    linear: ClassVar[bool] = False
    mixed: ClassVar[bool] = False
    fast: ClassVar[bool] = False
    _saved: Path | None = None

    def __init_subclass__(cls, **given: object) -> None:
        super().__init_subclass__(**given)
        cls.fast = vars(cls).get("fast", False)

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
        self.schedule: Schedule | Stages | Listed = self._schedule(update_every)
        self.seed = seed_sequence(seed)
        self.rng = stream(self.seed, Role.AGENT)
        secure = getattr(self.privacy, "noise", "fast") == "secure"
        self.sources: dict[Role, Source] = {
            role: SecureSource() if secure else FastSource(stream(self.seed, role, self._identity)) for role in _SOURCES
        }
        self.on_release: Callable[[Any, Policy, int], None] | None = None
        mechanism = self._build()
        if secure and not mechanism.exact:
            asked = f"{mechanism.name} of {self.name} under {type(self.privacy).__name__}"
            raise InvalidInput(f"noise='secure' is not built for {asked}: its noise is not exact; take noise='fast'")
        self.privatizer: AnyPrivatizer = Privatizer(mechanism, self.sources[Role.NOISE])
        self._seen: weakref.WeakSet[Batch] = weakref.WeakSet()
        self._shuffler = self.mechanism.shuffler()
        self._ready: _Mind | None = None
        self._mind = self._begun()

    def _schedule(self, update_every: int | str | None) -> Schedule | Stages | Listed:
        """Returns when the policy changes."""
        return Schedule(default_update(self.privacy, self.episodes) if update_every is None else update_every)

    @property
    def _identity(self) -> str:
        """All public parameters as text: whose noise it is."""
        spec = self.spec
        sizes = (spec.states, spec.actions, spec.horizon, *spec.initial.tolist(), self.episodes)
        return repr((self.name, sizes, sorted(self.options.items(), key=lambda item: item[0])))

    @cached_property
    def batches(self) -> list[int]:
        """How many users each whole batch has, in order."""
        found: list[int] = np.diff(self.schedule.ends(0, self.episodes), prepend=0).tolist()
        return found

    def _build(self) -> AnyMechanism:
        """Returns what is asked, under the trust model."""
        raise NotImplementedError

    def _start(self, first: Any, size: int, rng: np.random.Generator) -> tuple[Any, Proposal]:
        """Returns what is learned before anybody came, and what the first batch plays."""
        raise NotImplementedError

    def _learn(
        self, state: Any, released: Any, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Any, Proposal]:
        """Returns what is learned with a release, and what the next batch plays. Pure: ``state`` stays as it was.

        Args:
            state: What was learned before.
            released: What the last batch's end released.
            count: Users so far.
            size: Users of the next batch; 0 if there is none any more.
            rng: The agent's own randomness.
        """
        raise NotImplementedError

    @property
    def mechanism(self) -> AnyMechanism:
        """What is asked and answered for: public."""
        return self.privatizer.mechanism

    @property
    def options(self) -> dict[str, object]:
        """What `discreet.agents.make` was given, beside the sizes and the seed."""
        names = [name for name in inspect.signature(type(self)).parameters if name not in ("spec", "episodes", "seed")]
        return {name: getattr(self.schedule if name == "update_every" else self, name) for name in names}

    @property
    def resolved(self) -> dict[str, Any]:
        """What became of all that was left open: this agent, its options, the sum and its noise."""
        options = {name: value for name, value in self.options.items() if name != "privacy"}
        return {"agent": self.name, **options, "sum": self.mechanism.name, "noise": self.mechanism.noise}

    def _trust(self, privacy: TrustModel | None) -> TrustModel | None:
        """Returns the trust model, if this agent can have it."""
        return trusted(self.name, privacy, private=self.private)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an agent is not copied: two copies would hide different users behind the same noise")

    def __repr__(self) -> str:
        return f"<{self.name} agent after {self.count} of {self.episodes} users: {self.guarantee}>"

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for this agent, with the sources that its noise comes from."""
        sources = {**self.sources, Role.NOISE: self.privatizer.source}  # what is drawn from, whoever replaced what
        secure = all(sources[role].kind == "secure" for role in self.mechanism.draws)
        return self.mechanism.promise("secure" if secure else "fast")

    @property
    def count(self) -> int:
        """Number of users observed."""
        return self.privatizer.count

    @property
    def batch_size(self) -> int:
        """Users in the current batch."""
        return self.schedule.batch_size(self.count)

    @property
    def plan(self) -> Plan:
        """The current round: what every slot of the batch plays, and what its encoder is given."""
        if self._mind.plan.version < self.privatizer.version:
            if self._ready is not None and self._ready.plan.version == self.privatizer.version:
                self._mind = self._ready  # a block was interrupted before it could
            else:
                self._replan()
        return self._mind.plan

    @property
    def policy(self) -> Policy:
        """For the next slot, (H, S) or (H, S, A): that after the reports which the shuffler holds.

        Reading it changes nothing. Whoever keeps the reports of a batch elsewhere asks ``plan.policy(slot)``.
        """
        return self.plan.policy(len(self._shuffler.reports))

    @property
    def encoder(self) -> Encoder[Report]:
        """What runs at the people of the current batch."""
        self._check_here()
        return self.plan.encoder

    @property
    def shuffler(self) -> AnyShuffler:
        """What makes a batch of reports; it holds those in transit."""
        self._check_here()
        plan = self.plan  # its round is what the shuffler works for
        if self._shuffler.version != plan.version:
            self._shuffler.begin(plan.version, plan.size, plan.encoder)
        return self._shuffler

    def observe(self, batch: Batch) -> None:
        """Folds a batch in, releases and plans anew. Nothing changes if an error is raised before the release.

        Raises:
            InvalidInput: If the batch is not of the current round, or has been observed.
            InvalidPersonalData: If somebody's data is out of bounds; the message names the bound only.
            CapacityExceeded: If there is no room for it.
        """
        self._check_here()
        if not isinstance(batch, Batch):
            raise TypeError(f"expected a Batch, got {type(batch).__name__}")
        plan = self.plan  # if the last one could not be made, it is made now
        if batch in self._seen or (batch.version is not None and batch.version < plan.version):
            raise InvalidInput("this batch has been observed: nobody is counted twice")
        if batch.version is not None and batch.version > plan.version:
            raise InvalidInput(f"this batch is of round {batch.version}, the current one is {plan.version}")
        self._check_room(batch.users)
        if batch.users != self.batch_size:
            raise InvalidInput(f"the current batch has {self.batch_size} users, got {batch.users}")
        try:
            self._seen.add(batch)  # first: whatever happens from here on, nobody is counted twice
            self.privatizer.observe(batch, plan.encoder)
        except BaseException:
            if self.privatizer.version == plan.version:  # nothing was released
                self._seen.discard(batch)
            raise
        self._replan()

    @property
    def learned(self) -> Any:
        """What was learned so far, from releases and the agent's own randomness alone."""
        _ = self.plan  # made now, if it could not be before
        return self._mind.state

    def absorb(self, kept: Any, users: int) -> None:
        """In simulation: goes on from what a short cut folded, as `observe` does."""
        self._check_here()
        self._check_room(users)
        self.privatizer.absorb(kept, users)
        self._replan()

    def settle(
        self, kept: Any, users: int, releases: int, last: Any, state: Any, proposed: Callable[[int], Proposal]
    ) -> None:
        """In simulation: takes what a compiled block did (see `Privatizer.settle`) and learned.

        ``proposed`` returns the proposal that follows from ``state``, for a size of batch.
        """
        count, version = self.count + users, self.privatizer.version + releases
        size = self._next_size(count)
        self._ready = _Mind(state, self._planned(proposed(size), version, count, size))
        self.privatizer.settle(kept, users, releases, last)
        self._mind = self._ready

    def anew(self, noise: Source) -> None:
        """Forgets everybody and begins again with noise from another source: for auditors, who run an agent often.

        What is public stays as it was calibrated. Nothing that was released before is released again.
        """
        self.sources[Role.NOISE] = noise
        self.privatizer = Privatizer(self.mechanism, noise)
        self._shuffler = self.mechanism.shuffler()
        self._ready = None
        self._mind = self._begun()

    def pack_learned(self, state: Any) -> Any:
        """Returns what was learned as plain records, for a hand-over."""
        return state

    def unpack_learned(self, packed: Any) -> Any:
        """The inverse of `pack_learned`."""
        return packed

    def resume(self, state: Any, plan: dict[str, Any]) -> None:
        """Goes on from what another machine handed over."""
        self._mind = _Mind(state, Plan(**plan))

    def _check_room(self, users: int) -> None:
        if self.count + users > self.episodes:
            built = f"{self.name} was built for {self.episodes} users"
            raise CapacityExceeded(f"{built}: {self.count} are observed, got {users} more")

    def _next_size(self, count: int) -> int:
        """Returns the users of the batch that begins after ``count``; 0 if it can never be completed."""
        size = self.schedule.batch_size(count)
        return size if count + size <= self.episodes else 0

    def _begun(self) -> _Mind:
        """Returns what is learned and planned before anybody came."""
        state, proposal = self._start(self.privatizer.last, size := self._next_size(0), self.rng)
        return _Mind(state, self._planned(proposal, 0, 0, size))

    def _planned(self, proposal: Proposal, version: int, start: int, size: int) -> Plan:
        """Returns the plan of a batch."""
        encoder: Any = self.mechanism.encoder_of(version)
        if proposal.carried:
            encoder = dataclasses.replace(encoder, **proposal.carried)
        end = None if size else 0
        policies, users = proposal.policies[:end], np.array(proposal.users, dtype=np.int64)[:end]
        return Plan(version, start, size, policies.copy(), users, proposal.rest.copy(), encoder)

    def next_round(self, state: Any, released: Any, count: int, rng: np.random.Generator) -> tuple[Any, Plan]:
        """Returns what is learned with a release, and the plan that follows from it. Only ``rng`` moves.

        Args:
            state: What was learned before (`learned`).
            released: What the last batch's end released.
            count: Slots so far.
            rng: The agent's own randomness.
        """
        size = self._next_size(count)
        state, proposal = self._learn(state, released, count, size, rng)
        return state, self._planned(proposal, released.version, count, size)

    def _replan(self) -> None:
        """Goes on from a release to the next plan; if it is interrupted, it is done anew when it is needed.

        The release is out and its users are counted, so the batch that follows must have its own plan.
        """
        released, count, drawn = self.privatizer.last, self.count, self.rng.bit_generator.state
        assert released is not None
        try:
            self._mind = _Mind(*self.next_round(self._mind.state, released, count, self.rng))
        except BaseException:
            self.rng.bit_generator.state = drawn
            raise
        if self.on_release is not None:
            self.on_release(released, self._mind.plan.policy(0), count)

    @property
    def saved(self) -> Path | None:
        """Where this agent was saved to, and goes on from; None while it is here."""
        return self._saved

    def _check_here(self) -> None:
        if self._saved is not None:
            where = str(self._saved)
            raise InvalidInput(f"this agent was saved to {where!r} and goes on from there only: dc.agents.load it")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Moves this agent into a new file, from which `discreet.agents.load` takes it, to go on exactly.

        The file is *personal data*: raw totals, reports in transit, and the noise that hides them. Treat it like the
        raw data; only its owner can read it (mode 0600). It is used once: two agents that went on from one state
        would hide different users behind the same noise, and the difference of their releases would be raw. So this
        agent is retired (its policy and guarantee can still be read, but it meets nobody any more), loading consumes
        the file, and no copy of the file may ever be loaded. ``on_release`` is not saved.

        Raises:
            InvalidInput: If the path exists, this agent was saved before, or it has parts that `make` does not build.
            OSError: If the file cannot be written. The agent goes on, then and in the other cases.
        """
        importlib.import_module("discreet.runtime.handover").save(self, path)  # a room below

"""Everything that an agent released, and whether that alone explains what it played."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.agents.base import LearningAgent
from discreet.errors import CheckFailed
from discreet.noise.fast import FastSource
from discreet.privacy import Batch
from discreet.privatizers import Privatizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.base import Agent
    from discreet.noise import Source
    from discreet.privatizers import Mechanism, Released

__all__ = ["Record", "record", "replay", "require", "shown"]


def require(condition: bool, message: str) -> None:
    """Raises `CheckFailed` unless a condition holds."""
    if not condition:
        raise CheckFailed(message)


def shown(agent: Agent) -> NDArray[Any]:
    """Returns what the people of the current batch play, a policy each; one policy if nobody is collected any more."""
    if not isinstance(agent, LearningAgent):
        return np.array(agent.policy)[None]
    plan = agent.plan
    return np.repeat(plan.policies, plan.users, axis=0) if plan.size else plan.rest[None].copy()


class _Round(NamedTuple):
    """One batch of a record: its users, what was released after it, and what the next batch was then shown."""

    users: int
    released: Released | None
    played: NDArray[Any] | None
    policy: NDArray[Any]
    encoder: str | None


@dataclass
class Record:
    """Everything that an agent released, and what it planned.

    Attributes:
        played: What the people of the first batch play.
        encoder: What runs at them, as JSON.
        rounds: In order. Of batches within a compiled block the policy is recorded, and not the rest of the plan.
    """

    played: NDArray[Any]
    encoder: str
    rounds: list[_Round] = dataclasses.field(default_factory=list)

    @property
    def releases(self) -> list[Released]:
        """What was released, in order."""
        return [found.released for found in self.rounds if found.released is not None]

    @property
    def policies(self) -> list[NDArray[Any]]:
        """What the first slot plays, at first and after each batch."""
        return [self.played[0], *(found.policy for found in self.rounds)]

    def met(self, agent: LearningAgent) -> None:
        """Notes what a whole batch has been shown: an agent may have changed it since it was planned."""
        played, encoder = shown(agent), agent.encoder.to_json()
        if self.rounds:
            self.rounds[-1] = self.rounds[-1]._replace(played=played, policy=played[0], encoder=encoder)
        else:
            self.played, self.encoder = played, encoder


def record(agent: LearningAgent) -> Record:
    """Starts to record everything that a new ``agent`` releases, on every path; the record grows as people play.

    The agent becomes one of a class that notes what it shows when a batch comes in.
    """
    require(agent.count == 0, "recording starts before the first user")
    found = Record(shown(agent), agent.encoder.to_json())

    def add(released: Released, policy: NDArray[Any], count: int) -> None:
        users = count - sum(before.users for before in found.rounds)
        if agent.plan.version == released.version:
            found.rounds.append(_Round(users, released, shown(agent), policy, agent.encoder.to_json()))
        else:  # a compiled block is ahead of it
            found.rounds.append(_Round(users, released, None, policy, None))

    agent.on_release = add
    kind: Any = type(agent)

    def observe(self: LearningAgent, batch: Batch) -> None:
        found.met(self)
        before = self.privatizer.version
        kind.observe(self, batch)
        if self.privatizer.version == before:
            found.rounds.append(_Round(batch.users, None, None, self.policy, None))

    watched = {"observe": observe, "fast": kind.fast, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    agent.__class__ = type(kind.__name__, (kind,), watched)
    return found


@dataclass(frozen=True, eq=False)
class _Nobody(Batch):
    """A batch without anybody's data."""

    users: int
    version: int | None = None


class _Playback(Privatizer[Any, Any, Any]):
    """In the place of a privatizer: releases what was recorded, and has nothing else."""

    def __init__(self, mechanism: Mechanism[Any, Any, Any], source: Source, releases: list[Released]) -> None:
        super().__init__(mechanism, source)
        self._releases = releases

    def observe(self, batch: Batch, encoder: object = None) -> Released:
        """Nobody is folded in, and the next recorded release is let out."""
        books = self._books
        found = self._releases[books.version]
        self._books = books._replace(users=books.users + batch.users, version=books.version + 1, released=found)
        return found


def replay(played: Record, agent: LearningAgent) -> None:
    """Rebuilds every plan of a record from the releases, the public parameters and the agent's own randomness alone.

    So it does with what a plan gives the encoder, such as which cells users should weigh most.

    This shows that nothing else steers the agent: no raw count, no noise, nobody's data.

    Args:
        played: What `record` recorded.
        agent: A new agent, made as the recorded one was, with the same seed.

    Raises:
        CheckFailed: If a policy, what users are asked or the size of a batch comes out differently, or if the agent
            asks for anything that was not released.
    """
    _forget(agent, played)
    require(
        bool(np.array_equal(shown(agent), played.played)), "the first policy depends on more than public parameters"
    )
    require(
        agent.encoder.to_json() == played.encoder,
        "what users are asked at first depends on more than public parameters",
    )
    for i, found in enumerate(played.rounds, start=1):
        size = agent.batch_size
        require(size == found.users, f"batch {i} has another size when replayed from what was released")
        require(found.released is not None, f"batch {i} was observed, and nothing was released")
        try:
            agent.observe(_Nobody(found.users))
            now, policy, encoder = shown(agent), agent.plan.policy(0), agent.encoder.to_json()
        except Exception as error:
            raise CheckFailed(
                f"batch {i} cannot be replayed from what was released: {type(error).__name__}: {error}"
            ) from error
        same = bool(np.array_equal(policy, found.policy))
        same = same and (found.played is None or bool(np.array_equal(now, found.played)))
        require(same, f"the policy after batch {i} is not a function of what was released")
        if found.encoder is not None:
            same = encoder == found.encoder
            require(same, f"what users are asked after batch {i} is not a function of what was released")


def _forget(agent: LearningAgent, played: Record) -> None:
    """Takes everything from an agent but public parameters and its own randomness."""
    first = agent.privatizer.last
    playback = _Playback(agent.mechanism, FastSource(np.random.default_rng()), played.releases)
    playback.resume(playback._books.secret, 0, 0, first)
    agent.privatizer = playback
    for role in agent.sources:  # whatever is drawn from them is other people's
        agent.sources[role] = FastSource(np.random.default_rng())

"""People meet an agent, one after the other, and the simulator keeps the score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from discreet.agents.assigned import AssignedAgent
from discreet.agents.base import LearningAgent
from discreet.errors import CapacityExceeded, InvalidInput, check_integer
from discreet.experiments.progress import Progress, Watch
from discreet.mdp import FiniteMDP
from discreet.noise import Role, seed_sequence, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from discreet.agents.base import Agent
    from discreet.noise import Seed
    from discreet.privacy import Guarantee

__all__ = ["Result", "simulate"]

RecordedSeed = int | list[int] | np.random.SeedSequence

# People a compiled call plays at most, and numbers its policies fill at most: memory does not grow with K.
_BLOCK_PEOPLE = 4096
_BLOCK_NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class Result:
    """What a simulation measured, by its exact model, of the policies that were played.

    Attributes:
        gaps: V*_1 − V^{π_k}_1 of each episode, over the initial distribution, (K,).
        guarantee: What was proven for the agent.
        seed: The people's seed, such as ``[S, i]`` or the operating system's entropy: the same seed, the same people.
        agent_seed: The agent's seed, likewise (None if the agent does not say).
    """

    gaps: NDArray[np.float64]
    guarantee: Guarantee
    seed: RecordedSeed
    agent_seed: RecordedSeed | None

    def __repr__(self) -> str:
        return f"<Result: {len(self.gaps)} episodes, regret {self.gaps.sum():.6g}, {self.guarantee}>"

    @cached_property
    def regret(self) -> NDArray[np.float64]:
        """Cumulative regret after each episode, (K,)."""
        return np.cumsum(self.gaps)

    @overload
    def suboptimal(self, alpha: float) -> int: ...
    @overload
    def suboptimal(self, alpha: Sequence[float]) -> NDArray[np.int64]: ...
    def suboptimal(self, alpha: float | Sequence[float]) -> int | NDArray[np.int64]:
        """Returns how many episodes have a gap larger than ``alpha``, for one α or several: the PAC measure."""
        counts = (self.gaps > np.asarray(alpha, dtype=np.float64)[..., None]).sum(axis=-1)
        return int(counts) if counts.ndim == 0 else counts.astype(np.int64)


def simulate(
    agent: Agent,
    mdp: FiniteMDP,
    episodes: int | None = None,
    seed: Seed = None,
    *,
    block: bool = True,
    progress: bool | Callable[[int, float], None] = False,
) -> Result:
    """Lets ``episodes`` people play, one episode each, and the agent learn from them.

    Person k is the same person under every agent: the seed and k alone decide what happens to them for any choice
    of actions. Simulating again with the same seed goes on with the next person.

    Args:
        agent: Any `discreet.agents.Agent`.
        mdp: The environment; the agent sees none of it.
        episodes: How many people; all that the agent has room for by default.
        seed: Of the people; the operating system's entropy by default, recorded in the result.
        block: Whether compiled blocks may replace the protocol where the numbers are the same.
        progress: Whether to show progress on stderr, if that is a terminal; or what to call now and then with the
            number of episodes done and the regret so far.

    Returns:
        Regret and gaps against the exact optimum.

    Raises:
        CapacityExceeded: Before anything changes, if the agent was built for fewer people.
    """
    if not isinstance(mdp, FiniteMDP):
        raise InvalidInput(f"mdp must be a TabularMDP or a LinearMDP, got {type(mdp).__name__}")
    if agent.spec != mdp.spec:
        raise InvalidInput(f"the agent was built for {agent.spec}, the environment is {mdp.spec}")
    played = agent.count + len(agent.shuffler.reports) + agent.shuffler.uncollected
    room = agent.episodes - played
    n = room if episodes is None else check_integer("episodes", episodes)
    if n > room or n < 1:
        raise CapacityExceeded(
            f"the agent was built for {agent.episodes} episodes, {played} are played: got episodes={n}"
        )

    sequence = seed_sequence(seed)
    people = stream(sequence, Role.PEOPLE)
    people.bit_generator.advance(played * mdp.draws_per_person)  # type: ignore[attr-defined]
    simulation = _Simulation(agent, mdp, people, sequence, np.empty(n))
    if callable(progress):
        watched = progress
        simulation.run(block, Watch(lambda done: watched(done, float(simulation.gaps[:done].sum()))))
    else:
        title = f"{getattr(agent, 'name', 'agent')} on {mdp.name or 'the environment'}"
        with Progress(title, n, show=progress) as bar:
            simulation.run(block, bar)
    agent_sequence = getattr(agent, "seed", None)
    return Result(
        simulation.gaps,
        agent.guarantee,
        _entropy(sequence),
        _entropy(agent_sequence) if isinstance(agent_sequence, np.random.SeedSequence) else None,
    )


def _entropy(sequence: np.random.SeedSequence) -> RecordedSeed:
    """Returns what `seed_sequence` makes the same sequence of: numbers, unless it is somebody's child."""
    if sequence.spawn_key:
        return sequence
    entropy: Any = sequence.entropy
    return entropy if isinstance(entropy, int) else [int(part) for part in entropy]


class _Simulation:
    """A simulation under way: ``done`` of ``len(gaps)`` people have played."""

    def __init__(
        self,
        agent: Agent,
        mdp: FiniteMDP,
        people: np.random.Generator,
        seed: np.random.SeedSequence,
        gaps: NDArray[np.float64],
    ) -> None:
        self.agent, self.mdp, self.people, self.gaps = agent, mdp, people, gaps
        self.done = 0
        streams = getattr(agent, "streams", {})  # an agent without streams of its own draws from the people's seed
        self._encoder = streams.get(Role.ENCODER) or stream(seed, Role.ENCODER)
        self._shuffler = streams.get(Role.SHUFFLER) or stream(seed, Role.SHUFFLER)
        self._optimum = mdp.evaluate_many(mdp.optimal_policy[None].copy())[0]
        self._policy: NDArray[Any] | None = None
        self._gap = 0.0

    def run(self, block: bool, bar: Progress | Watch) -> None:
        """Plays all people: whole batches in compiled code where possible, the rest by the protocol."""
        agent = self.agent
        while self.done < len(self.gaps):
            if len(agent.shuffler.reports) == agent.batch_size:  # somebody interrupted the server
                self._collect()
            left, waiting = len(self.gaps) - self.done, len(agent.shuffler.reports)
            if agent.count + agent.batch_size > agent.episodes:  # a last batch that can never be completed
                for _ in range(left):
                    self._score(agent.policy)
                    agent.shuffler.uncollected += 1
                    bar.update(self.done)
                continue
            if block and isinstance(agent, AssignedAgent) and agent.tallied and not waiting:
                if agent.batch_size <= left:
                    self._play_batch(agent, bar)
                    continue
            elif block and isinstance(agent, LearningAgent) and agent.compiled and not waiting:
                ends = agent.schedule.ends(agent.count, left)
                if len(ends):
                    self._play_blocks(agent, ends, bar)
                    continue
            for _ in range(min(left, agent.batch_size - waiting)):
                self._play_one()
                bar.update(self.done)

    def _play_blocks(self, agent: LearningAgent, ends: NDArray[np.int64], bar: Progress | Watch) -> None:
        """Plays the batches that end at ``ends``; a compiled call may stop within one.

        Whatever interrupts it, the agent is left at the end of a batch.
        """
        n, saved = int(ends[-1]), agent.snapshot()
        size = max(1, min(_BLOCK_PEOPLE, _BLOCK_NUMBERS // agent.policy.size))
        reads = max(1, _BLOCK_NUMBERS // agent.release_size)
        first = 0
        try:
            while first < n:
                low, high = np.searchsorted(ends, [first, first + size], side="right")
                high = min(high, low + reads)
                people = int(ends[high - 1]) - first if high > low else min(size, n - first)
                replan = np.zeros(people, dtype=np.bool_)
                replan[ends[low:high] - first - 1] = True
                policies = agent.play(self.mdp.sample_tables, self.mdp.draws(self.people, people), replan)
                gaps = np.maximum(self._optimum - self.mdp.evaluate_many(policies), 0.0)  # but for rounding
                self.gaps[self.done : self.done + people] = gaps[np.cumsum(replan) - replan]
                self.done += people
                first += people
                if high > low:
                    saved = agent.snapshot()
                    agent.tell()  # from here on nothing is taken back
                bar.update(self.done)
        except BaseException:
            agent.restore(saved)
            raise

    def _play_batch(self, agent: AssignedAgent, bar: Progress | Watch) -> None:
        """Plays a whole batch of an agent whose users follow a schedule: their reports are added up as they come.

        Whatever interrupts it, the agent is left at the beginning of the batch.
        """
        private: Any = agent.privatizer
        tally, begun, first = private.tally(), self._encoder.bit_generator.state, self.done
        try:
            for policy, users in agent.assignments:
                gap = max(self._optimum - self.mdp.evaluate_many(policy[None])[0], 0.0)
                for start in range(0, users, _BLOCK_PEOPLE):
                    n = min(_BLOCK_PEOPLE, users - start)
                    tally.add(*self.mdp.sample_many(policy, self.people, n), self._encoder)
                    self.gaps[self.done : self.done + n] = gap
                    self.done += n
                    bar.update(self.done)
        except BaseException:
            self._encoder.bit_generator.state, self.done = begun, first
            raise
        agent.observe(tally.batch(self._shuffler))

    def _play_one(self) -> None:
        """The protocol of an agent, for one person."""
        agent = self.agent
        policy = np.array(agent.policy)
        trajectory = self.mdp.sample(policy, self.people)
        reports = agent.shuffler.reports
        reports.append(agent.encoder.encode(trajectory, self._encoder))  # at the user
        self._score(policy)
        if len(reports) == agent.batch_size:
            self._collect()

    def _collect(self) -> None:
        """Hands the complete batch on to the server."""
        agent = self.agent
        shuffler = agent.shuffler
        batch = shuffler(shuffler.reports, self._shuffler)
        shuffler.reports.clear()  # before anything is released: nobody is ever in two batches
        agent.observe(batch)

    def _score(self, policy: NDArray[Any]) -> None:
        """Writes down the gap of the policy that the next person plays."""
        if self._policy is None or not np.array_equal(policy, self._policy):
            value = self.mdp.evaluate_many(policy[None])[0]
            self._policy, self._gap = np.array(policy), max(self._optimum - value, 0.0)
        self.gaps[self.done] = self._gap
        self.done += 1

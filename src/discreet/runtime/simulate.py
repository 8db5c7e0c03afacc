"""People meet an agent, one after the other, and the simulator keeps the score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_integer
from discreet.mdp import FiniteMDP
from discreet.noise import Role, seed_sequence, stream
from discreet.noise.fast import FastSource
from discreet.runtime.fast import Bits, SimulatedReport, short_cut, simulated_batch, simulated_report
from discreet.runtime.progress import Progress, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from discreet.agents.base import Agent
    from discreet.noise import Seed
    from discreet.privacy import Guarantee

__all__ = ["RecordedSeed", "Result", "recorded", "simulate"]

RecordedSeed = int | list[int] | np.random.SeedSequence


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
    messages: bool = False,
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
        block: Whether short cuts may replace the protocol where the numbers are the same.
        messages: Under `Shuffle`: whether every message is drawn and mixed; else, with or without short cuts, the noise
            bits of a batch are drawn as totals with the same law.
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
    run = Run(agent, mdp, people, sequence, np.empty(n), messages=messages)
    if callable(progress):
        watched = progress
        run.bar = Watch(lambda done: watched(done, float(run.gaps[:done].sum())))
        run.all(block)
    else:
        title = f"{getattr(agent, 'name', 'agent')} on {mdp.name or 'the environment'}"
        with Progress(title, n, show=progress) as run.bar:
            run.all(block)
    agent_sequence = getattr(agent, "seed", None)
    return Result(
        run.gaps,
        agent.guarantee,
        recorded(sequence),
        recorded(agent_sequence) if isinstance(agent_sequence, np.random.SeedSequence) else None,
    )


def recorded(sequence: np.random.SeedSequence) -> RecordedSeed:
    """Returns what `seed_sequence` makes the same sequence of: numbers, unless it is somebody's child."""
    if sequence.spawn_key:
        return sequence
    entropy: Any = sequence.entropy
    return entropy if isinstance(entropy, int) else [int(part) for part in entropy]


class Run:
    """A simulation under way: ``done`` of ``len(gaps)`` people have played.

    Attributes:
        mdp: The environment.
        people: The people's own randomness.
        gaps: What every policy that was played falls short of the optimum.
        done: How many people have played.
        bar: Who is told how far it is.
    """

    def __init__(
        self,
        agent: Agent,
        mdp: FiniteMDP,
        people: np.random.Generator,
        seed: np.random.SeedSequence,
        gaps: NDArray[np.float64],
        *,
        messages: bool,
    ) -> None:
        self.agent, self.mdp, self.people, self.gaps = agent, mdp, people, gaps
        self.done = 0
        self.bar: Progress | Watch = Watch(lambda _: None)
        own = getattr(agent, "sources", {})  # an agent without sources of its own draws from the people's seed
        self._users = own.get(Role.ENCODER) or FastSource(stream(seed, Role.ENCODER))
        self._shuffler = own.get(Role.SHUFFLER) or FastSource(stream(seed, Role.SHUFFLER))
        self._messages = messages or not isinstance(self._shuffler, FastSource)
        self._optimum = mdp.evaluate_many(mdp.optimal_policy[None].copy())[0]
        self._policy: NDArray[Any] | None = None
        self._gap = 0.0

    def all(self, block: bool) -> None:
        """Plays everybody: whole batches by a short cut where there is one, the rest by the protocol."""
        agent, cut = self.agent, short_cut(self.agent) if block else None
        if self._messages and isinstance(getattr(agent, "encoder", None), Bits):
            cut = None
        while self.done < len(self.gaps):
            reports, left = agent.shuffler.reports, len(self.gaps) - self.done
            if len(reports) == agent.batch_size:  # somebody interrupted the server
                self._collect()
            elif agent.count + agent.batch_size > agent.episodes:  # a last batch that can never be completed
                self._play_uncollected(left, together=cut is not None)
            elif cut is None or reports or not cut.run(self, left):
                for _ in range(min(left, agent.batch_size - len(reports))):
                    self._play_one()
                    self.bar.update(self.done)

    def _play_one(self) -> None:
        """The protocol of an agent, for one person."""
        agent = self.agent
        policy, encoder, reports = np.array(agent.policy), agent.encoder, agent.shuffler.reports
        trajectory = self.mdp.sample(policy, self.people)
        if isinstance(encoder, Bits) and self._as_totals(reports):
            reports.append(simulated_report(encoder, trajectory, self._users))
        else:
            reports.append(encoder.encode(trajectory, self._users))  # at the user
        self.score(policy, 1)
        if len(reports) == agent.batch_size:
            self._collect()

    def _as_totals(self, reports: Sequence[object]) -> bool:
        """Whether noise bits are drawn as totals; a batch whose people sent messages goes on with messages."""
        return isinstance(reports[0], SimulatedReport) if reports else not self._messages

    def _collect(self) -> None:
        """Hands the complete batch on to the server."""
        agent, shuffler = self.agent, self.agent.shuffler
        reports = list(shuffler.reports)
        if isinstance(reports[0], SimulatedReport):
            batch = simulated_batch(agent.encoder, reports, self._shuffler, shuffler.version)  # type: ignore[arg-type]
        else:
            batch = shuffler(reports, self._shuffler)
        before = agent.count
        shuffler.reports.clear()  # before anything is released: nobody is ever in two batches
        try:
            agent.observe(batch)
        except BaseException:
            if agent.count == before:  # nothing was: they wait for the next try
                shuffler.reports[:] = reports
            raise

    def _play_uncollected(self, people: int, *, together: bool) -> None:
        """Lets people play of whom nothing is kept; ``together`` if nothing changes what they play."""
        step = people if together else 1
        for _ in range(0, people, step):
            self.score(self.agent.policy, step)
            self.agent.shuffler.uncollected += step
            self.bar.update(self.done)

    def score(self, policy: NDArray[Any], people: int) -> None:
        """Writes down the gap of the policy that the next people play."""
        if self._policy is None or not np.array_equal(policy, self._policy):
            value = self.mdp.evaluate_many(np.array(policy)[None])[0]
            self._policy, self._gap = np.array(policy), max(self._optimum - value, 0.0)  # but for rounding
        self.gaps[self.done : self.done + people] = self._gap
        self.done += people

    def score_many(self, policies: NDArray[Any], played: NDArray[np.int64]) -> None:
        """Writes down the gaps of the next people, each of whom plays one of ``policies``."""
        gaps = np.maximum(self._optimum - self.mdp.evaluate_many(policies), 0.0)
        self.gaps[self.done : self.done + len(played)] = gaps[played]
        self.done += len(played)

"""Checkers for environments and agents, ours and yours.

from discreet import testing

testing.check_env(my_mdp)
testing.check_agent(lambda spec, episodes, seed: MyAgent(spec, episodes, seed))

record = testing.record(agent)  # then let people play, and
testing.replay(record, agent_made_the_same_way)  # rebuild every policy from what was released
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet import envs
from discreet.agents.assigned import AssignedAgent
from discreet.agents.base import Agent, LearningAgent
from discreet.errors import CheckFailed
from discreet.mdp import FiniteMDP, Trajectory
from discreet.mdp.policy import check_policy
from discreet.noise import Role
from discreet.privacy import Batch, Guarantee, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privatizers import Encoder, PrivateCounts, Shuffler

__all__ = ["Record", "check_agent", "check_env", "record", "replay"]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckFailed(message)


def check_env(mdp: FiniteMDP, *, episodes: int = 20_000, seed: int = 0) -> None:
    """Checks that an environment is what it says.

    Distributions and rewards are in bounds, no policy beats the optimum, and what is sampled agrees with the exact
    values: the mean return and the frequency of every transition, within five and six standard errors.

    Raises:
        CheckFailed: Naming what is wrong.
    """
    _require(isinstance(mdp, FiniteMDP), f"an environment is a TabularMDP or LinearMDP, got {type(mdp).__name__}")
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    P, r = mdp.transitions, mdp.rewards
    _require(P.shape == (H, S, A, S) and r.shape == (H, S, A), f"shapes {P.shape}, {r.shape} do not fit {mdp.spec}")
    _require(bool((P >= 0).all() and np.allclose(P.sum(axis=3), 1, atol=1e-8)), "transitions are no distributions")
    _require(bool(((r >= 0) & (r <= 1)).all()), "rewards must lie in [0, 1]")
    rng = np.random.default_rng(seed)
    for _ in range(5):
        policy = rng.integers(A, size=(H, S))
        _require(mdp.evaluate(policy) <= mdp.optimal_value + 1e-9, "a random policy beats the optimal value")
    _require(
        abs(mdp.evaluate(mdp.optimal_policy) - mdp.optimal_value) < 1e-9,
        "the optimal policy misses its value",
    )

    uniform = np.full((H, S, A), 1 / A)
    states, actions, rewards = mdp.sample_many(uniform, rng, episodes)
    for k in range(min(episodes, 100)):
        Trajectory(states[k], actions[k], rewards[k]).check(mdp.spec)
    returns = rewards.sum(axis=1)
    error = 5 * max(returns.std(), 1e-9) / np.sqrt(episodes) + 1e-9
    _require(
        abs(returns.mean() - mdp.evaluate(uniform)) < error,
        f"sampled returns average {returns.mean():.4g}, their exact mean is {mdp.evaluate(uniform):.4g}",
    )
    for h in {0, H - 1}:
        cells = states[:, h] * A + actions[:, h]
        seen = np.bincount(cells * S + states[:, h + 1], minlength=S * A * S).reshape(S, A, S)
        n = seen.sum(axis=2, keepdims=True)
        worst = (np.abs(seen - n * P[h]) - 6 * np.sqrt(n * P[h] * (1 - P[h])) - 6 * (P[h] > 0)).max()
        _require(bool(worst <= 0), f"sampled transitions at step h={h} do not have the stated probabilities")


def check_agent(make: Callable[[Spec, int, int], Agent], mdp: FiniteMDP | None = None) -> None:
    """Checks that an agent keeps the protocol of `discreet.agents.Agent`.

    Its policies are policies, depend on whole batches only and repeat with the seed; its encoder turns away data that
    is out of bounds without repeating it; its server takes batches and nothing else, never more users than it was
    built for, and an error leaves it unchanged; compiled blocks give the same numbers as the protocol. Of a
    `discreet.agents.LearningAgent` every policy is rebuilt from what was released (`replay`).

    Args:
        make: Called with a spec, a number of episodes and a seed; returns a new agent.
        mdp: The environment to try it on; a small RiverSwim by default.

    Raises:
        CheckFailed: Naming what is wrong.
    """
    mdp = mdp or envs.riverswim(states=4, horizon=5)
    agent = make(mdp.spec, 50, 0)
    for name in (*Agent.__annotations__, *(key for key in vars(Agent) if not key.startswith("_"))):
        _require(hasattr(agent, name), f"{type(agent).__name__} lacks the attribute {name} of discreet.agents.Agent")
    _require(isinstance(agent.guarantee, Guarantee), "agent.guarantee must be a Guarantee")
    _require(
        hasattr(agent.shuffler, "reports"), "agent.shuffler needs a list of the reports in transit: inherit Shuffler"
    )
    _require(agent.count == 0 and agent.episodes == 50, "a new agent has observed nobody and has room for all")
    _check_encoder(agent, mdp)
    _check_batches(make(mdp.spec, 50, 0), mdp)
    _check_capacity(make(mdp.spec, 50, 0), mdp)
    first, second = (_protocol(make(mdp.spec, 50, 0), mdp) for _ in range(2))
    _require(bool(np.array_equal(first, second)), "the same seed gives other policies the second time")
    sizes = [_sizes(make(mdp.spec, 50, 0), mdp, people) for people in (1, 2)]
    _require(sizes[0] == sizes[1], "the sizes of batches depend on what people did")
    if isinstance(agent, LearningAgent):
        _check_replay(make, mdp, _protocol)
        if agent.compiled:
            block = _block(agent, mdp)
            _require(bool(np.array_equal(first, block)), "compiled blocks and the protocol give different policies")
            _check_replay(make, mdp, _block)


def _report(agent: Agent, mdp: FiniteMDP, rng: np.random.Generator) -> Any:
    return agent.encoder.encode(mdp.sample(agent.policy, rng), rng)


def _protocol(agent: Agent, mdp: FiniteMDP) -> NDArray[Any]:
    """Plays all whole batches person by person; returns the policy at first and after each batch."""
    people, noise = np.random.default_rng(1), np.random.default_rng(2)
    policies = [agent.policy]
    while agent.count + agent.batch_size <= agent.episodes:
        size = agent.batch_size
        reports = [agent.encoder.encode(mdp.sample(agent.policy, people), noise) for _ in range(size)]
        agent.observe(agent.shuffler(reports, noise))
        policies.append(agent.policy)
    return np.array(policies)


def _sizes(agent: Agent, mdp: FiniteMDP, seed: int) -> list[int]:
    """Returns the sizes of the batches for one draw of people."""
    people, noise, sizes = np.random.default_rng(seed), np.random.default_rng(2), []
    while agent.count + agent.batch_size <= agent.episodes:
        sizes.append(agent.batch_size)
        reports = [agent.encoder.encode(mdp.sample(agent.policy, people), noise) for _ in range(sizes[-1])]
        agent.observe(agent.shuffler(reports, noise))
    return sizes


def _block(agent: LearningAgent, mdp: FiniteMDP) -> NDArray[Any]:
    """Does what `_protocol` does in one compiled call."""
    ends = agent.schedule.ends(0, agent.episodes)
    replan = np.zeros(ends[-1] if len(ends) else 0, dtype=np.bool_)
    replan[ends - 1] = True
    policies = agent.play(mdp.sample_tables, mdp.draws(np.random.default_rng(1), len(replan)), replan)
    agent.tell()
    return policies


def _check_encoder(agent: Agent, mdp: FiniteMDP) -> None:
    """An encoder returns reports, and turns away a person's bad data without repeating it."""
    rng = np.random.default_rng(0)
    _require(isinstance(_report(agent, mdp, rng), Report), "encoder.encode must return a Report")
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    zeros, steps = np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
    for field, bad in (
        ("rewards", Trajectory(zeros, steps, np.full(H, 98765.4321))),
        ("rewards", Trajectory(zeros, steps, np.full(H, np.nan))),
        ("rewards", Trajectory(zeros, steps, np.zeros(H + 1))),
        ("states", Trajectory(zeros + S + 98765, steps, np.zeros(H))),
        ("states", Trajectory(zeros[:-1], steps, np.zeros(H))),
        ("actions", Trajectory(zeros, steps + A + 98765, np.zeros(H))),
    ):
        try:
            agent.encoder.encode(bad, rng)
        except ValueError as error:
            _require(field in str(error), f"the encoder's error does not name the field {field}")
            leaks = "9876" in str(error) or "nan" in str(error)
            _require(not leaks, f"the encoder's error repeats a person's {field}")
        else:
            raise CheckFailed(f"the encoder accepts {field} out of bounds")


def _shown(agent: Agent) -> NDArray[Any]:
    """Returns what the users of the current batch play: one policy, or one for each where that is a public schedule."""
    if not isinstance(agent, AssignedAgent):
        return np.array(agent.policy)
    schedule = agent.assignments or [(agent.policy, 1)]
    return np.repeat([policy for policy, _ in schedule], [users for _, users in schedule], axis=0)


def _check_batches(agent: Agent, mdp: FiniteMDP) -> None:
    """Policies are valid, cannot be changed from outside, and change between batches or by a public schedule only."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        size = agent.batch_size
        if agent.count + size > agent.episodes:
            return
        before = _shown(agent)
        schedule = before if isinstance(agent, AssignedAgent) else np.broadcast_to(before, (size, *before.shape))
        _require(len(schedule) == size, "the schedule of a batch is not for all of its users")
        reports = []
        for expected in schedule:
            shown = check_policy(agent.policy, mdp.spec)
            _require(np.array_equal(shown, expected), "the policy changes within a batch")
            shown = agent.policy
            if shown.flags.writeable:
                shown[...] = 0
            _require(np.array_equal(agent.policy, expected), "writing into agent.policy changes the agent")
            reports.append(_report(agent, mdp, rng))
        _require(np.array_equal(_shown(agent), before), "the policy changes within a batch")
        batch = agent.shuffler(reports, rng)
        _require(isinstance(batch, Batch), "the shuffler must return a Batch")
        count = agent.count
        agent.observe(batch)
        _require(agent.count == count + size, "agent.count must grow by the users of the batch")


def _check_capacity(agent: Agent, mdp: FiniteMDP) -> None:
    """The server refuses what is no batch, and more users than it was built for; refusing changes nothing."""
    rng = np.random.default_rng(0)
    before = np.array(agent.policy)
    try:
        agent.observe(mdp.sample(agent.policy, rng))
    except (TypeError, ValueError):
        _require(np.array_equal(agent.policy, before), "a refused trajectory changes the agent")
    else:
        raise CheckFailed("agent.observe accepts a raw Trajectory")
    while agent.count + agent.batch_size <= agent.episodes:
        agent.observe(agent.shuffler([_report(agent, mdp, rng) for _ in range(agent.batch_size)], rng))
    before, count = np.array(agent.policy), agent.count
    surplus = agent.shuffler([_report(agent, mdp, rng) for _ in range(agent.batch_size)], rng)
    try:
        agent.observe(surplus)
    except ValueError:
        pass
    else:
        raise CheckFailed(f"the agent was built for {agent.episodes} users and accepts more")
    _require(agent.count == count and np.array_equal(agent.policy, before), "a refused batch changes the agent")


class _Batch(NamedTuple):
    """One batch of a record: how many users, the policies before and after it, and what was released after it.

    ``asked`` is what the encoder of the next batch was given by the plan.
    """

    users: int
    before: NDArray[Any]
    after: NDArray[Any]
    releases: list[PrivateCounts]
    asked: dict[str, NDArray[Any]] | None = None


@dataclass
class Record:
    """Everything that an agent released, and what it played.

    A policy is one array, or as many as the batch has users where they follow a public schedule.

    Attributes:
        first: The policy at first.
        batches: In order.
        asked: What the encoder of the first batch was given by the plan.
    """

    first: NDArray[Any]
    batches: list[_Batch] = dataclasses.field(default_factory=list)
    asked: dict[str, NDArray[Any]] = dataclasses.field(default_factory=dict)

    @property
    def policies(self) -> list[NDArray[Any]]:
        """In force at first and after each batch."""
        return [self.first, *(batch.after for batch in self.batches)]

    @property
    def releases(self) -> list[PrivateCounts]:
        """The private counts, in order."""
        return [released for batch in self.batches for released in batch.releases]


def _asked(agent: LearningAgent) -> dict[str, NDArray[Any]]:
    """Returns what the plan gave the encoder: it decides what users send, and must be as public as the policies."""
    return {name: np.array(value) for name, value in agent.asked.items()}


def _same(one: dict[str, NDArray[Any]], two: dict[str, NDArray[Any]]) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[key], two[key]) for key in one)


def record(agent: LearningAgent) -> Record:
    """Starts to record everything that a new ``agent`` releases, on both paths; the record grows as people play."""
    _require(agent.count == 0, "recording starts before the first user")
    found = Record(_shown(agent), asked=_asked(agent))
    released: list[PrivateCounts] = []
    if agent.compiled:  # its own `observe`: a batch is a release, on both paths

        def add(counts: PrivateCounts, policy: NDArray[Any], count: int) -> None:
            before = sum(batch.users for batch in found.batches)
            found.batches.append(_Batch(count - before, found.policies[-1], policy, [counts]))

        agent.on_release = add
        return found
    real = agent.observe

    def observe(batch: Batch) -> None:
        before = _shown(agent)
        released.clear()
        real(batch)
        found.batches.append(_Batch(batch.users, before, _shown(agent), list(released), _asked(agent)))

    agent.on_release = lambda counts, _policy, _count: released.append(counts)
    agent.observe = observe  # type: ignore[method-assign]
    return found


@dataclass(frozen=True, eq=False)
class _Nobody(Batch):
    """A batch without anybody's data."""

    users: int


class _Playback:
    """In the place of a privatizer: releases what was recorded, and has nothing else."""

    name = noise = "playback"

    def __init__(
        self, played: Record, guarantee: Guarantee, encoder: Encoder[Any], shuffler: Shuffler[Any, Any]
    ) -> None:
        self.guarantee, self.encoder, self.shuffler = guarantee, encoder, shuffler
        self.count = 0
        self.error = played.releases[0].error if played.releases else 0.0
        self.read = 0
        self._releases = played.releases

    def collect(self, batch: _Nobody) -> None:
        self.count += batch.users
        self.read += 1

    def counts(self) -> PrivateCounts:
        return self._releases[self.read - 1]

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        del state


def replay(played: Record, agent: LearningAgent) -> None:
    """Rebuilds every policy of a record from the releases, the public parameters and the agent's own randomness alone.

    So it does with what a plan gives the encoder, such as which cells users should weigh most.

    This shows that nothing else steers the agent: no raw count, no noise, nobody's data.

    Args:
        played: What `record` recorded.
        agent: A new agent, made as the recorded one was, with the same seed.

    Raises:
        CheckFailed: If a policy, what users are asked or the size of a batch comes out differently, or if the agent
            asks for anything that was not released.
    """
    private = agent.privatizer
    playback = _Playback(played, private.guarantee, private.encoder, private.shuffler)
    agent.privatizer = playback
    for role in (Role.ENCODER, Role.SHUFFLER, Role.NOISE):  # whatever is drawn from them is other people's
        agent.streams[role] = np.random.default_rng()
    _require(np.array_equal(_shown(agent), played.first), "the first policy depends on more than public parameters")
    _require(_same(_asked(agent), played.asked), "what users are asked at first depends on more than public parameters")
    reads = 0
    for i, batch in enumerate(played.batches, start=1):
        reads += len(batch.releases)
        same = np.array_equal(_shown(agent), batch.before)
        _require(same, f"the policy of batch {i} is not a function of what was released")
        try:
            size = agent.batch_size
            agent.observe(_Nobody(batch.users))
            policy = _shown(agent)
        except Exception as error:
            raise CheckFailed(
                f"batch {i} cannot be replayed from what was released: {type(error).__name__}: {error}"
            ) from error
        _require(size == batch.users, f"batch {i} has another size when replayed from what was released")
        _require(playback.read == reads, f"whether there is a release after batch {i} depends on more than releases")
        same = np.array_equal(policy, batch.after)
        _require(same, f"the policy after batch {i} is not a function of what was released")
        if batch.asked is not None:
            same = _same(_asked(agent), batch.asked)
            _require(same, f"what users are asked after batch {i} is not a function of what was released")


def _check_replay(
    make: Callable[[Spec, int, int], Agent],
    mdp: FiniteMDP,
    path: Callable[[Any, FiniteMDP], NDArray[Any]],
) -> None:
    """Plays all whole batches on one path, and replays them."""
    agent, again = make(mdp.spec, 50, 0), make(mdp.spec, 50, 0)
    assert isinstance(agent, LearningAgent)
    assert isinstance(again, LearningAgent)
    played = record(agent)
    path(agent, mdp)
    replay(played, again)

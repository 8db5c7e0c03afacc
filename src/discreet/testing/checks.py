"""What an environment and an agent must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet import envs
from discreet.agents.base import Agent, LearningAgent
from discreet.errors import CheckFailed
from discreet.mdp import FiniteMDP, Trajectory
from discreet.mdp.policy import check_policy
from discreet.privacy import Batch, Guarantee, Report
from discreet.runtime import simulate
from discreet.testing.replaying import record, replay, require, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.mdp import Spec

__all__ = ["check_agent", "check_env"]


def check_env(mdp: FiniteMDP, *, episodes: int = 20_000, seed: int = 0) -> None:
    """Checks that an environment is what it says.

    Distributions and rewards are in bounds, no policy beats the optimum, and what is sampled agrees with the exact
    values: the mean return and the frequency of every transition, within five and six standard errors.

    Raises:
        CheckFailed: Naming what is wrong.
    """
    require(isinstance(mdp, FiniteMDP), f"an environment is a TabularMDP or LinearMDP, got {type(mdp).__name__}")
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    P, r = mdp.transitions, mdp.rewards
    require(P.shape == (H, S, A, S) and r.shape == (H, S, A), f"shapes {P.shape}, {r.shape} do not fit {mdp.spec}")
    require(bool((P >= 0).all() and np.allclose(P.sum(axis=3), 1, atol=1e-8)), "transitions are no distributions")
    require(bool(((r >= 0) & (r <= 1)).all()), "rewards must lie in [0, 1]")
    rng = np.random.default_rng(seed)
    for _ in range(5):
        policy = rng.integers(A, size=(H, S))
        require(mdp.evaluate(policy) <= mdp.optimal_value + 1e-9, "a random policy beats the optimal value")
    require(
        abs(mdp.evaluate(mdp.optimal_policy) - mdp.optimal_value) < 1e-9,
        "the optimal policy misses its value",
    )

    uniform = np.full((H, S, A), 1 / A)
    states, actions, rewards = mdp.sample_many(uniform, rng, episodes)
    for k in range(min(episodes, 100)):
        Trajectory(states[k], actions[k], rewards[k]).check(mdp.spec)
    returns = rewards.sum(axis=1)
    error = 5 * max(returns.std(), 1e-9) / np.sqrt(episodes) + 1e-9
    require(
        abs(returns.mean() - mdp.evaluate(uniform)) < error,
        f"sampled returns average {returns.mean():.4g}, their exact mean is {mdp.evaluate(uniform):.4g}",
    )
    for h in {0, H - 1}:
        cells = states[:, h] * A + actions[:, h]
        seen = np.bincount(cells * S + states[:, h + 1], minlength=S * A * S).reshape(S, A, S)
        n = seen.sum(axis=2, keepdims=True)
        worst = (np.abs(seen - n * P[h]) - 6 * np.sqrt(n * P[h] * (1 - P[h])) - 6 * (P[h] > 0)).max()
        require(bool(worst <= 0), f"sampled transitions at step h={h} do not have the stated probabilities")


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
        require(hasattr(agent, name), f"{type(agent).__name__} lacks the attribute {name} of discreet.agents.Agent")
    require(isinstance(agent.guarantee, Guarantee), "agent.guarantee must be a Guarantee")
    require(
        hasattr(agent.shuffler, "reports"), "agent.shuffler needs a list of the reports in transit: inherit Shuffler"
    )
    require(agent.count == 0 and agent.episodes == 50, "a new agent has observed nobody and has room for all")
    _check_encoder(agent, mdp)
    _check_batches(make(mdp.spec, 50, 0), mdp)
    _check_capacity(make(mdp.spec, 50, 0), mdp)
    _check_shuffler(make(mdp.spec, 50, 0), mdp)
    first, sizes = _protocol(make(mdp.spec, 50, 0), mdp)
    again = make(mdp.spec, 50, 0)
    played = record(again) if isinstance(again, LearningAgent) else None
    require(_equal(first, _protocol(again, mdp)[0]), "the same seed gives other policies the second time")
    _, others = _protocol(make(mdp.spec, 50, 0), mdp, seed=2)
    require(sizes == others, "the sizes of batches depend on what people did")
    if played is None or not isinstance(agent, LearningAgent):
        return
    replay(played, _learning(make, mdp))
    if agent.fast:
        fast, slow = _learning(make, mdp), _learning(make, mdp)
        played = record(fast)
        gaps = [simulate(each, mdp, seed=1, block=each is fast).gaps for each in (slow, fast)]
        require(bool(np.array_equal(gaps[0], gaps[1])), "short cuts and the protocol give different policies")
        replay(played, _learning(make, mdp))


def _learning(make: Callable[[Spec, int, int], Agent], mdp: FiniteMDP) -> LearningAgent:
    """Returns a new agent that can be replayed."""
    agent = make(mdp.spec, 50, 0)
    assert isinstance(agent, LearningAgent)
    return agent


def _equal(one: list[NDArray[Any]], two: list[NDArray[Any]]) -> bool:
    return len(one) == len(two) and all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))


def _policy(agent: Agent, slot: int) -> NDArray[Any]:
    """Returns what a slot of the current batch plays: the agent's plan says it, or one policy is for all."""
    return agent.plan.policy(slot) if isinstance(agent, LearningAgent) else np.array(agent.policy)


def _reports(agent: Agent, mdp: FiniteMDP, people: np.random.Generator, noise: np.random.Generator) -> list[Any]:
    """Returns the reports of a batch."""
    slots = range(agent.batch_size)
    return [agent.encoder.encode(mdp.sample(_policy(agent, slot), people), noise) for slot in slots]


def _protocol(agent: Agent, mdp: FiniteMDP, seed: int = 1) -> tuple[list[NDArray[Any]], list[int]]:
    """Plays all whole batches person by person.

    Returns:
        What is played at first and after each batch, and the sizes of the batches.
    """
    people, noise, sizes = np.random.default_rng(seed), np.random.default_rng(2), []
    policies = [shown(agent)]
    while agent.count + agent.batch_size <= agent.episodes:
        sizes.append(agent.batch_size)
        agent.observe(agent.shuffler(_reports(agent, mdp, people, noise), noise))
        policies.append(shown(agent))
    return policies, sizes


def _check_encoder(agent: Agent, mdp: FiniteMDP) -> None:
    """An encoder returns reports, and turns away a person's bad data without repeating it."""
    rng = np.random.default_rng(0)
    report = agent.encoder.encode(mdp.sample(agent.policy, rng), rng)
    require(isinstance(report, Report), "encoder.encode must return a Report")
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
            require(field in str(error), f"the encoder's error does not name the field {field}")
            leaks = "9876" in str(error) or "nan" in str(error)
            require(not leaks, f"the encoder's error repeats a person's {field}")
        else:
            raise CheckFailed(f"the encoder accepts {field} out of bounds")


def _check_batches(agent: Agent, mdp: FiniteMDP) -> None:
    """Policies are valid, cannot be changed from outside, and change between batches or by a public plan only."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        size = agent.batch_size
        if agent.count + size > agent.episodes:
            return
        before, first, reports = shown(agent), np.array(agent.policy), []
        for slot in range(size):
            expected = _policy(agent, slot)
            check_policy(expected, mdp.spec)
            played = agent.policy
            if played.flags.writeable:
                played[...] = 0
            require(bool(np.array_equal(agent.policy, first)), "writing into agent.policy changes the agent")
            reports.append(agent.encoder.encode(mdp.sample(expected, rng), rng))
            require(bool(np.array_equal(agent.policy, first)), "encoding at a user changes what the server shows")
            require(bool(np.array_equal(_policy(agent, slot), expected)), "the policy changes within a batch")
        require(bool(np.array_equal(shown(agent), before)), "the policy changes within a batch")
        batch = agent.shuffler(reports, rng)
        require(isinstance(batch, Batch), "the shuffler must return a Batch")
        count = agent.count
        agent.observe(batch)
        require(agent.count == count + size, "agent.count must grow by the users of the batch")
        _check_refused(agent, batch, "a batch is counted twice")


def _check_refused(agent: Agent, batch: object, message: str) -> None:
    """The server refuses a batch, and that changes nothing."""
    before, count = shown(agent), agent.count
    try:
        agent.observe(cast("Batch", batch))
    except (TypeError, ValueError):
        unchanged = agent.count == count and bool(np.array_equal(shown(agent), before))
        require(unchanged, "a refused batch changes the agent")
    else:
        raise CheckFailed(message)


def _check_capacity(agent: Agent, mdp: FiniteMDP) -> None:
    """The server refuses what is no batch, and more users than it was built for; refusing changes nothing."""
    rng = np.random.default_rng(0)
    _check_refused(agent, mdp.sample(agent.policy, rng), "agent.observe accepts a raw Trajectory")
    while agent.count + agent.batch_size <= agent.episodes:
        agent.observe(agent.shuffler(_reports(agent, mdp, rng, rng), rng))
    try:
        surplus = agent.shuffler(_reports(agent, mdp, rng, rng), rng)
    except ValueError:  # nobody is collected any more, and the shuffler knows it
        return
    _check_refused(agent, surplus, f"the agent was built for {agent.episodes} users and accepts more")


def _check_shuffler(agent: Agent, mdp: FiniteMDP) -> None:
    """Under `Shuffle` the noise is that of a whole batch: the shuffler hands on nothing less."""
    if agent.guarantee.notion != "shuffle" or agent.batch_size < 2:
        return
    rng = np.random.default_rng(0)
    reports = _reports(agent, mdp, rng, rng)
    for fewer in (reports[:1], reports[:-1], [*reports[:-1], reports[0]]):
        try:
            agent.shuffler(fewer, rng)
        except ValueError:
            continue
        raise CheckFailed(
            f"the shuffler hands on {len(set(map(id, fewer)))} of {len(reports)} reports: the server must not see less "
            "than a whole batch"
        )

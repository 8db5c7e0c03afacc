"""Agents under attack, end to end: all private counts and all policies of a run in which one person is one of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import agents
from discreet.audit.world import corners, digits_of, source_of, tiny
from discreet.privacy import RawFeatureReport, RawReport
from discreet.privatizers.counts.serve import CentralSum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.mdp import Trajectory
    from discreet.privacy import Central, Guarantee

__all__ = ["AgentTarget", "agent"]


@dataclass(frozen=True)
class AgentTarget:
    """A whole run under attack: person after person goes through the protocol, one of them is replaced.

    The attacker sees every release and every policy, and knows everything but whose data it was. They compute the
    exact likelihood ratio of the releases, and they learn the best linear combination of releases and policies.

    Attributes:
        name: What it is called.
        claim: What is claimed.
        prototype: An agent that nobody has met; every run begins as it is, with noise of its own.
        people: The two neighbours. All other users are like the first.
        position: Who is replaced, from 0.
        runs: How many it takes to attack it well.
    """

    name: str
    claim: Guarantee
    prototype: LearningAgent
    people: tuple[Trajectory, Trajectory]
    position: int = 0
    runs: int = 4000

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Runs the agent ``runs`` times."""
        agent, built = self.prototype, self._mechanism.sum
        solve, laplace = np.linalg.inv(built.factorisation.matrix()), built.distribution == "laplace"
        seen, ratios, digits = [], np.empty(runs), digits_of(self.claim)
        for i in range(runs):
            agent.anew(source_of(self.claim, rng))
            releases, policies, added = self._run(world, rng)
            apart = added[self.position, 1] - added[self.position, 0]
            logs = []
            for difference in (0.0 * apart, apart):
                data = np.cumsum(added[:, 0], axis=0)  # everybody is like the first
                data[self.position :] += difference  # but one
                z = solve @ (releases - data) / built.scale  # the releases are prefix sums plus B z
                logs.append(float((-np.abs(z) if laplace else -(z**2) / 2).sum()))
            ratios[i] = round(logs[1] - logs[0], digits)
            seen.append(np.concatenate([np.round(releases @ apart, digits), policies]))
        return {"likelihood ratio": ratios, "releases and policies": np.array(seen)}

    @property
    def _mechanism(self) -> Any:
        assert isinstance(self.prototype.mechanism, CentralSum)
        return self.prototype.mechanism

    def _vector(self, person: Trajectory) -> NDArray[np.float64]:
        """Returns what a person adds to the sums now; for linear agents it depends on what was released."""
        report, layout = self.prototype.encoder.encode(person, np.random.default_rng(0)), self._mechanism.layout
        if isinstance(report, RawFeatureReport):
            whole: NDArray[np.float64] = self._mechanism.contributions(report.features[None], report.targets[None])[0]
            return whole
        assert isinstance(report, RawReport)
        vector = np.zeros(layout.size)
        np.add.at(vector, report.indices, report.values)
        return vector

    def _run(
        self, world: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Returns all releases, (batches, size), all policies, flat, and what each person adds, (batches, 2, size)."""
        agent, added = self.prototype, []
        releases: list[NDArray[np.float64]] = []
        policies: list[NDArray[Any]] = [agent.policy]
        for t in range(agent.episodes):
            person = self.people[world if t == self.position else 0]
            added.append([self._vector(one) for one in self.people])
            agent.observe(agent.shuffler([agent.encoder.encode(person, rng)], rng))
            releases.append(self._mechanism.layout.joined(agent.privatizer.last))
            policies.append(agent.policy)
        return np.array(releases), np.array(policies, dtype=np.float64).ravel(), np.array(added)


def agent(
    name: str, privacy: Central, *, steps: int = 2, reads: int = 8, stationary: bool = False, position: int = 0
) -> AgentTarget:
    """Returns an agent in a world of two states and two actions, with a release after each of ``reads`` users."""
    made = agents.make(
        name, tiny(steps), episodes=reads, privacy=privacy, stationary=stationary, update_every=1, seed=0
    )
    return AgentTarget(name, made.guarantee, made, corners(steps), position)

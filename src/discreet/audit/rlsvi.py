"""RLSVI under attack, end to end: all tables and all policies of a run in which one person's rewards are one of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import agents
from discreet.audit.world import digits_of, source_of, tiny
from discreet.mdp import Trajectory
from discreet.privacy.rlsvi import beta

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.privacy import Central, Guarantee

__all__ = ["ValuesTarget", "rlsvi"]


@dataclass(frozen=True)
class ValuesTarget:
    """A whole run of RLSVI under attack: the first person is alone in their cells, with all rewards 0 or all 1.

    The attacker sees every released table, knows all states and actions (they are not protected) and everybody else's
    rewards, and computes the exact likelihood ratio; and they learn the best linear combination of tables and policies.

    Attributes:
        name: What it is called.
        claim: What is claimed.
        prototype: An agent that nobody has met; every run begins as it is, with noise of its own.
        runs: How many it takes to attack it well.
    """

    name: str
    claim: Guarantee
    prototype: LearningAgent
    runs: int = 4000

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Runs the agent ``runs`` times."""
        agent, seen, ratios, digits = self.prototype, [], np.empty(runs), digits_of(self.claim)
        reports = [agent.encoder.encode(person, rng) for person in self._people(world)]
        for i in range(runs):
            agent.anew(source_of(self.claim, rng))  # fresh noise in every run
            tables, policies = self._run(reports)
            ratios[i] = round(float(self._ratio(tables)), digits)
            seen.append(np.concatenate([np.round(tables.ravel(), digits), policies]))
        return {"likelihood ratio": ratios, "tables and policies": np.array(seen)}

    def _people(self, world: int) -> list[Trajectory]:
        """Returns everybody in order: the first in one corner of the world, all others in another."""
        H, others = self.prototype.spec.horizon, self.prototype.episodes - 1
        zero, one = (
            Trajectory(np.full(H + 1, corner), np.full(H, corner), np.full(H, reward))
            for corner, reward in ((0, float(world)), (1, 0.0))
        )
        return [zero, *[one] * others]

    def _run(self, reports: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns all tables, (releases, H, S, A), and all policies, flat."""
        agent: Any = self.prototype
        tables, policies = [], [agent.policy]
        for report in reports:
            agent.observe(agent.shuffler([report]))
            tables.append(agent.privatizer.last.values)
            policies.append(agent.policy)
        return np.array(tables), np.array(policies, dtype=np.float64).ravel()

    def _ratio(self, tables: NDArray[np.float64]) -> float:
        """Returns ln P₁/P₀ of the tables: at each step the first person's cell has mean r/N + Ṽ_{h+1}(0), r = 0 or 1.

        N is 1, or the visits of their whole episode if pooled. Whoever is dropped moves nothing: the attacker can
        compute when that is, for the filter goes by states and actions.
        """
        agent: Any = self.prototype
        spec, budget = agent.spec, agent.mechanism.budget
        N = spec.horizon if agent.stationary else 1
        variance = agent.noise_scale * beta(spec.states, spec.actions, spec.horizon, np.arange(2, len(tables) + 2))
        variance /= N + 1
        after = np.concatenate([tables[:, 1:, 0].max(axis=2), np.zeros((len(tables), 1))], axis=1)
        rest = tables[:, :, 0, 0] - after
        logs = (rest - 0.5) / variance[:, None]  # ln N(rest; 1, σ²) − ln N(rest; 0, σ²)
        if budget is not None:
            spent = np.cumsum(spec.horizon / variance)
            logs = logs[spent <= budget]
        return float(logs.sum())


def rlsvi(
    privacy: Central,
    *,
    steps: int = 2,
    reads: int = 8,
    stationary: bool = False,
    accounting: str = "tight",
    noise_scale: float | None = None,
) -> ValuesTarget:
    """Returns RLSVI in a world of two states and two actions, with a release after each of ``reads`` users."""
    made = agents.make(
        "rlsvi",
        tiny(steps),
        episodes=reads,
        privacy=privacy,
        stationary=stationary,
        accounting=accounting,
        noise_scale=noise_scale,
        seed=0,
    )
    return ValuesTarget("rlsvi", made.guarantee, made)

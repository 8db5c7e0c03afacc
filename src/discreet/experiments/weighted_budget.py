"""What a budget promises and costs where users weight their counts: discreet-vi under `Central`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.agents.discreet_vi import DiscreetVI
from discreet.errors import InvalidInput
from discreet.privacy import NonPrivate

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["WeightedBudget"]


@dataclass(frozen=True)
class WeightedBudget:
    """What discreet-vi promises, and how much noise that takes.

    Attributes:
        title: What the sizes are those of.
        agent: Built for them; nobody has met it.
    """

    title: str
    agent: DiscreetVI

    @classmethod
    def make(cls, title: str, spec: Spec, privacy: TrustModel, *, agent: str, **options: Any) -> WeightedBudget:
        """Builds the agent."""
        if isinstance(privacy, NonPrivate):
            raise InvalidInput("there is no budget without privacy: the trust model must be central, local or shuffle")
        return cls(title, DiscreetVI(spec, privacy=privacy, seed=0, **options))

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON can hold it."""
        agent, spec = self.agent, self.agent.spec
        return {
            "env": self.title,
            "agent": agent.name,
            "sizes": {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon},
            "trust": type(agent.privacy).__name__.lower(),
            "episodes": agent.episodes,
            "reads": len(agent.schedule.ends(0, agent.episodes)),
            "stationary": agent.stationary,
            "guarantee": agent.guarantee.to_dict(),
            "sum": agent.mechanism[0],
            "noise": agent.mechanism[1],
            **agent.privatizer.facts,  # type: ignore[attr-defined]
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        agent, spec = self.agent, self.agent.spec
        ends = agent.schedule.ends(0, agent.episodes)
        batches = f"{len(ends)} reads"
        if len(ends):
            batches += f", the first after {ends[0]:,} users, the last after {ends[-1]:,} of {agent.episodes:,}"
        facts = {
            "promise": str(agent.guarantee),
            "sizes": f"{self.title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}",
            "batches": batches,
            "mechanism": f"{agent.mechanism[0]}, {agent.mechanism[1]}",
        }
        if agent.guarantee.assumptions:
            facts["assumes"] = "; ".join(agent.guarantee.assumptions)
        for name, value in agent.privatizer.facts.items():  # type: ignore[attr-defined]
            facts[name.replace("_", " ")] = f"{value:,.6g}" if isinstance(value, float) else str(value)
        lines = [f"{key:20} {value}" for key, value in facts.items()]
        return "\n".join([*lines, f"{'events':20} {agent.guarantee.events}"])

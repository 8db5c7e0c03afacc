"""A budget where batches ask different questions, sdp-pe: noise and messages of every stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict

from discreet.agents.sdp_pe import SDPPE
from discreet.experiments.budget.case import Case, lines_of
from discreet.privacy import Shuffle

__all__ = ["StagedBudget"]


class _Batch(TypedDict):
    users: int
    std: float
    error_bound: float
    messages_per_user: NotRequired[int]


class _Stage(TypedDict):
    length: int
    users_a_policy: int
    crude: NotRequired[_Batch]
    fine: NotRequired[_Batch]


@dataclass(frozen=True)
class StagedBudget:
    """Noise and messages of every stage of SDP-PE.

    Attributes:
        case: What it is about.
        agent: Built for them; nobody has met it.
    """

    case: Case
    agent: SDPPE

    @classmethod
    def make(cls, case: Case) -> StagedBudget:
        """Builds the agent."""
        made = case.build()
        assert isinstance(made, SDPPE)
        return cls(case, made)

    @property
    def _stages(self) -> list[_Stage]:
        """One row a stage, with its crude and its fine batches."""
        private, schedule = self.agent.mechanism, self.agent.schedule
        rows: list[_Stage] = []
        for i, phase in enumerate(schedule.phases):
            if phase.layer == 0:
                rows.append({"length": schedule.lengths[phase.stage], "users_a_policy": schedule.each[phase.stage]})
            if phase.layer in (0, None):
                row: _Batch = {"users": phase.users, "std": private.std(i), "error_bound": private.errors[i]}
                if isinstance(self.agent.privacy, Shuffle):
                    row["messages_per_user"] = private.messages_per_user(i)
                rows[-1]["fine" if phase.layer is None else "crude"] = row
        return rows

    def to_dict(self) -> dict[str, object]:
        """Returns the report as JSON can hold it."""
        agent, privacy = self.agent, self.agent.privacy
        return {
            "env": self.case.title,
            "agent": agent.name,
            "sizes": self.case.sizes,
            "trust": type(privacy).__name__.lower(),
            "episodes": agent.episodes,
            "collected": agent.schedule.total,
            "stationary": agent.stationary,
            "failure": agent.failure,
            "guarantee": agent.guarantee.to_dict(),
            "stages": self._stages,
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        agent, spec = self.agent, self.agent.spec
        visits = agent.mechanism.layouts[0].visits
        every = "one step: " + ("n, m" if visits else "m")
        fine = ("n, m, r" if visits else "m, r") + (" pooled over the steps" if agent.stationary else " at every step")
        facts = {
            "promise": str(agent.guarantee),
            "sizes": self.case.sizes_in_words,
            "batches": f"{len(agent.schedule.phases)} for {agent.schedule.total:,} of {agent.episodes:,} users; "
            f"each user is in one",
            "crude": f"{every}; {spec.horizon} batches a stage",
            "fine": f"{fine}; one batch a stage",
        }
        if agent.guarantee.assumptions:
            facts["assumes"] = "; ".join(agent.guarantee.assumptions)
        lines = lines_of(facts)
        head = ("L", "crude: users", "std", "messages", "fine: users", "std", "messages")
        lines += ["", "{:>9} {:>13} {:>8} {:>9} {:>13} {:>8} {:>9}".format(*head)]
        for row in self._stages:
            cells = [f"{row['length']:9,}"]
            for batch in (row["crude"], row["fine"]):
                sent = batch.get("messages_per_user")
                messages = "–" if sent is None else f"{sent:,}"
                cells.append(f"{batch['users']:13,} {batch['std']:8.1f} {messages:>9}")
            lines.append(" ".join(cells))
        return "\n".join(
            [*lines, "", "std is that of the noise in a count; messages are those of a user, one bit each."]
        )

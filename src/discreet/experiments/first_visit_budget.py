"""What a budget promises and costs where batches are asked about first visits: discreet-vi under `Shuffle`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.agents.discreet_vi import DiscreetVI
from discreet.errors import InvalidInput
from discreet.privacy import Shuffle
from discreet.privatizers import FirstVisitPrivatizer

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["FirstVisitBudget"]


@dataclass(frozen=True)
class FirstVisitBudget:
    """Noise and messages of every size of batch and number of questions of discreet-vi under `Shuffle`.

    Attributes:
        title: What the sizes are those of.
        agent: Built for them; nobody has met it.
    """

    title: str
    agent: DiscreetVI

    @classmethod
    def make(cls, title: str, spec: Spec, privacy: TrustModel, *, agent: str, **options: Any) -> FirstVisitBudget:
        """Builds the agent."""
        if not isinstance(privacy, Shuffle):
            raise InvalidInput(f"{agent} asks about first visits under shuffle privacy, got {type(privacy).__name__}")
        return cls(title, DiscreetVI(spec, privacy=privacy, seed=0, **options))

    @property
    def _private(self) -> FirstVisitPrivatizer:
        private: Any = self.agent.privatizer
        assert isinstance(private, FirstVisitPrivatizer)
        return private

    @property
    def _sizes(self) -> list[dict[str, Any]]:
        """One row a size of batch, with an entry for every number of questions."""
        private = self._private
        return [
            {
                "users": users,
                "batches": private.batches.count(users),
                "questions": {
                    str(J): {"std": private.std(users, J), "messages_per_user": private.messages_per_user(users, J)}
                    for J in private.cell_counts
                },
            }
            for users in sorted(set(private.batches))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON can hold it."""
        agent, spec = self.agent, self.agent.spec
        return {
            "env": self.title,
            "agent": agent.name,
            "sizes": {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon},
            "trust": "shuffle",
            "release": "first-visits",
            "episodes": agent.episodes,
            "collected": sum(self._private.batches),
            "stationary": agent.stationary,
            "failure": agent.failure,
            "error_bound": self._private.error,
            "guarantee": agent.guarantee.to_dict(),
            "batches": self._sizes,
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        agent, spec, private = self.agent, self.agent.spec, self._private
        cell = "(s, a)" if agent.stationary else "(h, s, a)"
        facts = {
            "promise": str(agent.guarantee),
            "sizes": f"{self.title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}",
            "released": f"first visits of the cells {cell} that a batch is asked about: v, m, r",
            "sensitivity": "3 counters a cell move by 1, whichever way (replacing one user)",
            "batches": f"{len(private.batches)} for {sum(private.batches):,} of {agent.episodes:,} users; "
            f"each user is in one",
            "assumes": "; ".join(agent.guarantee.assumptions),
        }
        lines = [f"{key:12} {value}" for key, value in facts.items()]
        counts = private.cell_counts
        lines += ["", f"{'users':>9} {'batches':>8}  " + " ".join(f"{f'J = {J}':>15}" for J in counts)]
        for row in self._sizes:
            found = [row["questions"][str(J)] for J in counts]
            cells = " ".join("{:7.1f} / {:>5,}".format(one["std"], one["messages_per_user"]) for one in found)
            lines.append(f"{row['users']:9,} {row['batches']:8,}  {cells}")
        tail = f"No noise exceeds {private.error:.0f}, with probability {1 - agent.failure:g}."
        return "\n".join(
            [*lines, "", "J cells asked about: std of the noise in a count / one-bit messages a user.", tail]
        )

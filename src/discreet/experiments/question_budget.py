"""What a budget promises and costs where every user answers one question: `discreet budget --agent discreet-vi`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.agents.discreet_local import LocalLearner
from discreet.agents.discreet_vi import DiscreetVI
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import Local

__all__ = ["QuestionBudget"]


@dataclass(frozen=True)
class QuestionBudget:
    """The two kinds of questions of discreet-vi under local privacy, and what hides the answers.

    Attributes:
        title: What the sizes are those of.
        agent: Built for them; nobody has met it.
    """

    title: str
    agent: DiscreetVI

    @classmethod
    def make(cls, title: str, spec: Spec, privacy: Local, *, agent: str, **options: Any) -> QuestionBudget:
        """Builds the agent."""
        made = DiscreetVI(spec, privacy=privacy, seed=0, **options)
        if not len(made.schedule.ends(0, made.episodes)):
            raise InvalidInput(f"{made.episodes} episodes never fill a batch of {agent}: got episodes={made.episodes}")
        return cls(title, made)

    @property
    def _learner(self) -> LocalLearner:
        assert isinstance(self.agent.learner, LocalLearner)
        return self.agent.learner

    @property
    def _questions(self) -> dict[str, dict[str, Any]]:
        """One row a kind."""
        private, rows = self._learner.privatizer, {}
        for kind, hidden, enough in zip(
            ("next state", "reward"), private.encoder.randomisers, self._learner.enough, strict=True
        ):
            p, q = hidden.probabilities
            std = math.sqrt(hidden.variance(1, holds=False))
            rows[kind] = {
                "answers": hidden.size,
                "randomiser": hidden.name,
                "truth": p,
                "other": q,
                "std": std,
                "users_to_know_a_cell": math.ceil(enough),
                "epsilon": hidden.loss + hidden.rounding,
            }
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON can hold it."""
        agent, spec, private = self.agent, self.agent.spec, self._learner.privatizer
        return {
            "env": self.title,
            "agent": agent.name,
            "sizes": {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon},
            "trust": "local",
            "sum": private.name,
            "episodes": agent.episodes,
            "batches": len(agent.schedule.ends(0, agent.episodes)),
            "stationary": agent.stationary,
            "failure": agent.failure,
            "budget": {"epsilon": private.privacy.epsilon, "delta": private.privacy.delta},
            "guarantee": agent.guarantee.to_dict(),
            "error_bound": private.error,
            "questions": self._questions,
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        agent, spec, private = self.agent, self.agent.spec, self._learner.privatizer
        batches = len(agent.schedule.ends(0, agent.episodes))
        where = "at the first visit" if agent.stationary else "at one step"
        facts = {
            "promise": str(agent.guarantee),
            "sizes": f"{self.title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}",
            "asked": f"one question a user about a cell, {where}: {2 * private.layout.cells:,} questions; "
            f"{agent.episodes:,} users, {batches:,} batches",
            "budget": f"ε = {private.privacy.epsilon:g}, δ = {private.privacy.delta:g}",
        }
        lines = [f"{key:12} {value}" for key, value in facts.items()]
        heads = ("question", "answers", "hidden by", "p", "q", "std, one user", "users to know", "proven ε")
        lines += ["", "{:12} {:>8} {:>10} {:>8} {:>8} {:>14} {:>14} {:>10}".format(*heads)]
        for kind, row in self._questions.items():
            lines.append(f"{kind:12} " + "{:8} {:>10} {:8.4f} {:8.4f} {:14.3f} {:14,} {:10.4f}".format(*row.values()))
        return "\n".join(
            [
                *lines,
                "",
                "p, q: with which a report contains the true answer, and another one.",
                "users to know: how many answers make a cell known that every one of them visits.",
                f"{'events':12} {agent.guarantee.events}",
            ]
        )

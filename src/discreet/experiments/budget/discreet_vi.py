"""A budget where an agent asks its own questions, discreet-vi: a part for each trust model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypedDict

from discreet.agents.discreet import DiscreetVI
from discreet.agents.discreet.local import LocalLearner
from discreet.errors import InvalidInput
from discreet.experiments.budget.case import Case, lines_of
from discreet.privacy import Local, Shuffle
from discreet.privatizers.first_visits.serve import FirstVisitCounts

__all__ = ["OwnBudget", "own_budget"]


@dataclass(frozen=True)
class OwnBudget(ABC):
    """What discreet-vi promises, and how much noise that takes.

    Attributes:
        case: What it is about.
        agent: Built for them; nobody has met it.
    """

    case: Case
    agent: DiscreetVI

    @property
    def _private(self) -> Any:
        return self.agent.mechanism

    @property
    def _ends(self) -> list[int]:
        found: list[int] = self.agent.schedule.ends(0, self.agent.episodes).tolist()
        return found

    @property
    @abstractmethod
    def _own(self) -> dict[str, object]:
        """What the trust model adds to the report, as JSON can hold it."""

    @property
    @abstractmethod
    def _facts(self) -> dict[str, str]:
        """What the trust model adds, in words."""

    def _table(self) -> list[str]:
        """Lines of a table below that."""
        return []

    def to_dict(self) -> dict[str, object]:
        """Returns the report as JSON can hold it."""
        agent = self.agent
        return {
            "env": self.case.title,
            "agent": agent.name,
            "sizes": self.case.sizes,
            "trust": type(agent.privacy).__name__.lower(),
            "episodes": agent.episodes,
            "reads": len(self._ends),
            "collected": self._ends[-1],
            "stationary": agent.stationary,
            "failure": agent.failure,
            "guarantee": agent.guarantee.to_dict(),
            "sum": agent.mechanism.name,
            "noise": agent.mechanism.noise,
            **self._own,
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        agent, ends = self.agent, self._ends
        batches = f"{len(ends):,}, the first of {ends[0]:,} users; {ends[-1]:,} of {agent.episodes:,} users are in one"
        facts = {
            "promise": str(agent.guarantee),
            "sizes": self.case.sizes_in_words,
            "batches": batches,
            "mechanism": f"{agent.mechanism.name}, {agent.mechanism.noise}",
            **self._facts,
        }
        if agent.guarantee.assumptions:
            facts["assumes"] = "; ".join(agent.guarantee.assumptions)
        return "\n".join([*lines_of(facts, 16), *self._table(), f"{'events':16} {agent.guarantee.events}"])


class _Weighted(OwnBudget):
    """Weighted counts, with a trusted server."""

    @property
    def _blocks(self) -> list[str]:
        layout = self._private.layout
        named = zip(("pooled", "steps"), (layout.pooled, layout.steps), strict=True)
        return [name for name, share in named if share > 0]

    @property
    def _own(self) -> dict[str, object]:
        layout, sum_ = self._private.layout, self._private.sum
        return {
            "release": "weighted",
            "blocks": self._blocks,
            "counts": layout.size,
            "sensitivity_l2": layout.sensitivity.l2,
            "std_fresh": sum_.fresh_std,
            "std_worst_read": sum_.worst_std,
        }

    @property
    def _facts(self) -> dict[str, str]:
        own = self._own
        blocks = " and ".join({"pooled": "pooled", "steps": "for each step"}[name] for name in self._blocks)
        return {
            "released": f"weighted counts, {blocks}: {own['counts']:,}",
            "sensitivity": f"L2 {own['sensitivity_l2']:.4g} (replacing one user)",
            "std, one draw": f"{own['std_fresh']:,.1f}",
            "std, worst read": f"{own['std_worst_read']:,.1f}",
        }


class _Questions(OwnBudget):
    """The two kinds of questions under local privacy, and what hides the answers."""

    @property
    def _own(self) -> dict[str, object]:
        privacy = self._private.privacy
        return {
            "budget": {"epsilon": privacy.epsilon, "delta": privacy.delta},
            "error_bound": self._private.error,
            "questions": self._rows,
        }

    @property
    def _rows(self) -> dict[str, dict[str, float | str]]:
        """One row a kind."""
        learner, rows = self.agent.learner, dict[str, dict[str, float | str]]()
        assert isinstance(learner, LocalLearner)
        hiding = zip(("next state", "reward"), self._private.encoder.randomisers, learner.enough, strict=True)
        for kind, hidden, enough in hiding:
            p, q = hidden.probabilities
            rows[kind] = {
                "answers": hidden.size,
                "randomiser": hidden.name,
                "truth": p,
                "other": q,
                "std": math.sqrt(hidden.variance(1, holds=False)),
                "users_to_know_a_cell": math.ceil(enough),
                "epsilon": hidden.loss + hidden.rounding,
            }
        return rows

    @property
    def _facts(self) -> dict[str, str]:
        where = "at the first visit" if self.agent.stationary else "at one step"
        return {"asked": f"one question a user about a cell, {where}: {2 * self._private.layout.cells:,} questions"}

    def _table(self) -> list[str]:
        heads = ("question", "answers", "hidden by", "p", "q", "std, one user", "users to know", "proven ε")
        lines = ["", "{:12} {:>8} {:>10} {:>8} {:>8} {:>14} {:>14} {:>10}".format(*heads)]
        for kind, row in self._rows.items():
            lines.append(f"{kind:12} " + "{:8} {:>10} {:8.4f} {:8.4f} {:14.3f} {:14,} {:10.4f}".format(*row.values()))
        return [
            *lines,
            "",
            "p, q: with which a report contains the true answer, and another one.",
            "users to know: how many answers make a cell known that every one of them visits.",
        ]


class _Asked(TypedDict):
    std: float
    messages_per_user: int


class _Size(TypedDict):
    users: int
    batches: int
    questions: dict[str, _Asked]


class _FirstVisits(OwnBudget):
    """Noise and messages of every size of batch and number of questions, with a shuffler."""

    @property
    def _own(self) -> dict[str, object]:
        return {"release": "first-visits", "error_bound": self._private.error, "batches": self._rows}

    @property
    def _rows(self) -> list[_Size]:
        """One row a size of batch, with an entry for every number of questions."""
        private = self._private
        assert isinstance(private, FirstVisitCounts)
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

    @property
    def _facts(self) -> dict[str, str]:
        cell = "(s, a)" if self.agent.stationary else "(h, s, a)"
        return {
            "released": f"first visits of the cells {cell} that a batch is asked about: v, m, r",
            "sensitivity": "3 counters a cell move by 1, whichever way (replacing one user)",
        }

    def _table(self) -> list[str]:
        counts = self._private.cell_counts
        lines = ["", f"{'users':>9} {'batches':>8}  " + " ".join(f"{f'J = {J}':>15}" for J in counts)]
        for row in self._rows:
            found = [row["questions"][str(J)] for J in counts]
            cells = " ".join("{:7.1f} / {:>5,}".format(one["std"], one["messages_per_user"]) for one in found)
            lines.append(f"{row['users']:9,} {row['batches']:8,}  {cells}")
        tail = f"No noise exceeds {self._private.error:.0f}, with probability {1 - self.agent.failure:g}."
        return [*lines, "", "J cells asked about: std of the noise in a count / one-bit messages a user.", tail]


def own_budget(case: Case) -> OwnBudget:
    """Returns the report on discreet-vi under a trust model."""
    made = case.build()
    assert isinstance(made, DiscreetVI)
    if not len(made.schedule.ends(0, made.episodes)):
        raise InvalidInput(f"{made.episodes} episodes never fill a batch of {case.agent}: got episodes={made.episodes}")
    asked = case.privacy
    kind = _FirstVisits if isinstance(asked, Shuffle) else _Questions if isinstance(asked, Local) else _Weighted
    return kind(case, made)

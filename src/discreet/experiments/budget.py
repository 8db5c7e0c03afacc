"""What a budget promises and costs: what `discreet budget` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.schedule import Schedule
from discreet.errors import InvalidInput, check_integer
from discreet.privacy import Central
from discreet.privatizers import CentralPrivatizer
from discreet.sums import CENTRAL

if TYPE_CHECKING:
    from discreet.mdp import Spec

__all__ = ["BudgetReport"]


@dataclass(frozen=True)
class BudgetReport:
    """Every central sum at one budget, and the paper's noise beside it.

    Attributes:
        title: What the sizes are those of.
        spec: The sizes.
        asked: The trust model as it was asked for.
        reads: Number of reads.
        episodes: Number of people.
        stationary: Whether counts are pooled over the steps.
        failure: Of the error bound.
        chosen: The row that ``asked`` stands for.
        rows: A privatizer each, by name.
    """

    title: str
    spec: Spec
    asked: Central
    reads: int
    episodes: int
    stationary: bool
    failure: float
    chosen: str
    rows: dict[str, CentralPrivatizer]

    @classmethod
    def make(
        cls,
        title: str,
        spec: Spec,
        *,
        episodes: int,
        update_every: int | str,
        stationary: bool,
        failure: float,
        **privacy: Any,
    ) -> BudgetReport:
        """Builds the privatizers that are compared."""
        check_integer("episodes", episodes)
        asked = Central(**privacy)
        reads = len(Schedule(update_every).ends(0, episodes))
        if reads == 0:
            raise InvalidInput(f"{episodes} episodes never fill a batch of update_every={update_every}")

        def build(trust: Central) -> CentralPrivatizer:
            return CentralPrivatizer(
                spec,
                trust,
                capacity=episodes,
                horizon=reads,
                stationary=stationary,
                failure=failure,
                rng=np.random.default_rng(0),
            )

        own = build(asked)
        chosen = "paper" if asked.calibration == "paper" else own.sum.name
        rows = {}
        for name in CENTRAL:
            if asked.delta > 0 or name != "factored":
                rows[name] = build(Central(asked.epsilon, asked.delta, sum=name, release=asked.release))
        if reads > 1 and asked.release != "mr":
            rows["paper"] = build(Central(asked.epsilon, asked.delta, sum="tree", calibration="paper"))
        return cls(title, spec, asked, reads, episodes, stationary, failure, chosen, rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON can hold it."""
        return {
            "env": self.title,
            "sizes": {"states": self.spec.states, "actions": self.spec.actions, "horizon": self.spec.horizon},
            "episodes": self.episodes,
            "reads": self.reads,
            "stationary": self.stationary,
            "failure": self.failure,
            "budget": {"epsilon": self.asked.epsilon, "delta": self.asked.delta},
            "chosen": self.chosen,
            "sums": {name: _row(privatizer) for name, privatizer in self.rows.items()},
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        own, spec = self.rows[self.chosen], self.spec
        layout, sensitivity = own.layout, own.sum.sensitivity
        what = ("n, m, r" if layout.visits else "m, r") + (" pooled over the steps" if self.stationary else " per step")
        facts = {
            "promise": str(own.guarantee),
            "sizes": f"{self.title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}",
            "released": f"{what}: {layout.size:,} counts; {self.episodes:,} users, {self.reads:,} reads",
            "sensitivity": f"L1 {sensitivity.l1:g}, L2 {sensitivity.l2:.4g} (replacing one user)",
            "budget": f"ε = {self.asked.epsilon:g}, δ = {self.asked.delta:g}",
        }
        heads = ("sum", "noise", "std, fresh", "std, worst read", "error bound E", "proven ε")
        lines = [f"{key:12} {value}" for key, value in facts.items()]
        lines += ["", "  {:12} {:9} {:>12} {:>16} {:>14} {:>10}".format(*heads)]
        for name, privatizer in self.rows.items():
            row = _row(privatizer)
            cells = (row["noise"], row["std_fresh"], row["std_worst_read"], row["error_bound"], row["epsilon"])
            mark = "*" if name == self.chosen else " "
            lines.append(f"{mark} {name:12} " + "{:9} {:12,.1f} {:16,.1f} {:14,.0f} {:10.4f}".format(*cells))
        return "\n".join(
            [
                *lines,
                "",
                f"* is what the budget gets. E holds for all counts and reads with probability {1 - self.failure:g}.",
                "  'paper' is the printed Laplace noise of the tree, with the ε that it really gives.",
                f"{'events':12} {own.guarantee.events}",
            ]
        )


def _row(privatizer: CentralPrivatizer) -> dict[str, Any]:
    guarantee, sum_ = privatizer.guarantee, privatizer.sum
    return {
        "noise": sum_.distribution,
        "std_fresh": sum_.fresh_std,
        "std_worst_read": sum_.worst_std,
        "error_bound": privatizer.error,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": guarantee.relation,
        "events": str(guarantee.events),
    }

"""A budget for agents on counts: every sum of the trust model, and the paper's noise beside them."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from discreet import agents
from discreet.agents.rounds import Schedule
from discreet.agents.trusting import default_update
from discreet.errors import InvalidInput, check_fraction
from discreet.experiments.budget.case import Case, lines_of
from discreet.privacy import Central, Local, Shuffle
from discreet.privacy.sensitivity import tabular
from discreet.privatizers.counts.serve import CentralCounts, NoisyCounts
from discreet.privatizers.counts.shuffle import ShuffledCounts
from discreet.privatizers.make import counts
from discreet.privatizers.sampled.serve import SampledCounts

if TYPE_CHECKING:
    from discreet.privacy import TrustModel

__all__ = ["BudgetReport"]

_Row = CentralCounts | NoisyCounts | SampledCounts | ShuffledCounts


@dataclass(frozen=True)
class BudgetReport:
    """Every sum of a trust model at one budget, and the paper's noise beside it.

    Attributes:
        case: What it is about.
        asked: The trust model as it was asked for.
        batches: How many users each batch has.
        stationary: Whether counts are pooled over the steps.
        failure: Of the error bound.
        chosen: The row that ``asked`` stands for.
        rows: A mechanism each, by name.
    """

    case: Case
    asked: Central | Local | Shuffle
    batches: list[int]
    stationary: bool
    failure: float
    chosen: str
    rows: dict[str, _Row]

    @classmethod
    def make(cls, case: Case) -> BudgetReport:
        """Builds the mechanisms that are compared."""
        spec, privacy, agent, episodes = case.spec, case.privacy, case.agent, case.episodes
        if not isinstance(privacy, Central | Local | Shuffle):
            raise InvalidInput("there is no budget without privacy: the trust model must be central, local or shuffle")
        if not agents.is_private(agent):
            raise InvalidInput(f"there is no budget without privacy: {agent} offers none")
        if agents.is_linear(agent):
            raise InvalidInput(
                f"discreet budget compares sums of counts, and {agent} has none: its guarantee and noise are in "
                "dc.agents.make(…).guarantee and .mechanism"
            )
        stationary, failure = bool(case.options["stationary"]), check_fraction("failure", case.options["failure"])
        update_every: Any = case.options["update_every"]  # `Schedule` says what is wrong with it
        if update_every is None:
            update_every = default_update(privacy, episodes)
        batches = np.diff(Schedule(update_every).ends(0, episodes), prepend=0).tolist()
        if not batches:
            raise InvalidInput(f"{episodes} episodes never fill a batch of update_every={update_every}")

        def build(trust: TrustModel) -> _Row:
            given = {"capacity": episodes, "batches": batches, "stationary": stationary, "failure": failure}
            built = counts(spec, trust, **given)
            assert isinstance(built, _Row)
            return built

        own = build(privacy)
        chosen = "paper" if privacy.calibration == "paper" else own.name
        rows = {chosen: own}
        for name in privacy.sums:
            if name not in ("auto", *rows):
                with contextlib.suppress(InvalidInput):  # not proven for this δ, or not for so many reads
                    rows[name] = build(dataclasses.replace(privacy, sum=name, calibration="sound"))
        if chosen != "paper" and getattr(privacy, "release", "auto") != "mr" and len(batches) > 1:
            rows["paper"] = build(dataclasses.replace(privacy, sum="auto", calibration="paper"))
        order = [*privacy.sums, "paper"]
        rows = {name: rows[name] for name in sorted(rows, key=order.index)}
        return cls(case, privacy, batches, stationary, failure, chosen, rows)

    def to_dict(self) -> dict[str, object]:
        """Returns the report as JSON can hold it."""
        return {
            "env": self.case.title,
            "sizes": self.case.sizes,
            "trust": type(self.asked).__name__.lower(),
            "episodes": self.case.episodes,
            "reads": len(self.batches),
            "stationary": self.stationary,
            "failure": self.failure,
            "budget": {"epsilon": self.asked.epsilon, "delta": self.asked.delta},
            "chosen": self.chosen,
            "sums": {name: _row(mechanism) for name, mechanism in self.rows.items()},
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        own, spec = self.rows[self.chosen], self.case.spec
        layout = own.layout
        sensitivity = tabular(spec.horizon, layout.families, stationary=self.stationary)
        what = ("n, m, r" if layout.visits else "m, r") + (" pooled over the steps" if self.stationary else " per step")
        facts = {
            "promise": str(own.guarantee),
            "sizes": self.case.sizes_in_words,
            "released": f"{what}: {layout.size:,} counts; {self.case.episodes:,} users, {len(self.batches):,} reads",
            "sensitivity": f"L1 {sensitivity.l1:g}, L2 {sensitivity.l2:.4g} (replacing one user)",
            "budget": f"ε = {self.asked.epsilon:g}, δ = {self.asked.delta:g}",
        }
        if own.guarantee.assumptions:
            facts["assumes"] = "; ".join(own.guarantee.assumptions)
        if isinstance(own, ShuffledCounts):
            sizes = sorted(set(self.batches))
            users = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
            facts["batches"] = f"of {users} users"
            facts["messages"] = f"{own.messages_per_user:,} of one bit a user, {own.bytes_per_user:,} bytes"
            if len(sizes) > 1:
                facts["messages"] += " (first batch)"
        heads = ("sum", "noise", f"std, {_FRESH[type(self.asked)]}", "std, worst read", "error bound E", "proven ε")
        lines = [*lines_of(facts), "", "  {:12} {:9} {:>14} {:>16} {:>14} {:>10}".format(*heads)]
        for name, mechanism in self.rows.items():
            row = _row(mechanism)
            cells = (row["noise"], row["std_fresh"], row["std_worst_read"], row["error_bound"], row["epsilon"])
            mark = "*" if name == self.chosen else " "
            lines.append(f"{mark} {name:12} " + "{:9} {:14,.1f} {:16,.1f} {:14,.0f} {:10.4f}".format(*cells))
        return "\n".join(
            [
                *lines,
                "",
                f"* is what the budget gets. E holds for all counts and reads with probability {1 - self.failure:g}.",
                "  'paper' is the printed noise, with the ε that it really gives.",
                f"{'events':12} {own.guarantee.events}",
            ]
        )


#: What a fresh draw of noise belongs to.
_FRESH: dict[type, str] = {Central: "one draw", Local: "one user", Shuffle: "one batch"}


class _Numbers(TypedDict, total=False):
    """What is known of a sum."""

    noise: str
    std_fresh: float
    std_worst_read: float
    error_bound: float
    epsilon: float
    delta: float
    relation: str
    assumptions: list[str]
    events: str
    messages_per_user: int
    bytes_per_user: int


def _row(mechanism: _Row) -> _Numbers:
    guarantee = mechanism.guarantee
    row: _Numbers = {
        "noise": mechanism.noise,
        "std_fresh": mechanism.fresh_std,
        "std_worst_read": mechanism.worst_std,
        "error_bound": mechanism.error,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": guarantee.relation,
        "assumptions": list(guarantee.assumptions),
        "events": str(guarantee.events),
    }
    if isinstance(mechanism, ShuffledCounts):
        row["messages_per_user"] = mechanism.messages_per_user
        row["bytes_per_user"] = mechanism.bytes_per_user
    return row

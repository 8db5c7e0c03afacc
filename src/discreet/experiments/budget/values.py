"""A budget for perturbed values, rlsvi: what its accountants make of it, or of one noise scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.agents.rlsvi import RLSVI
from discreet.errors import InvalidInput
from discreet.experiments.budget.case import Case, lines_of
from discreet.privacy.rlsvi import ACCOUNTANTS, beta

if TYPE_CHECKING:
    from discreet.experiments.configs import Value

__all__ = ["ValuesReport"]


@dataclass(frozen=True)
class ValuesReport:
    """What RLSVI's accountants make of one budget, or of one noise scale.

    Attributes:
        case: What it is about.
        releases: How many tables are released.
        chosen: The accountant that was asked for.
        rows: An agent for each accountant.
    """

    case: Case
    releases: int
    chosen: str
    rows: dict[str, RLSVI]

    @classmethod
    def make(cls, case: Case) -> ValuesReport:
        """Builds the agents that are compared; accountants that cannot be asked the same are left out."""
        chosen, scale = str(case.options["accounting"]), case.options["noise_scale"]

        def build(accountant: str, scale: Value) -> RLSVI:
            made = case.build(accounting=accountant, noise_scale=scale)
            assert isinstance(made, RLSVI)
            return made

        own = build(chosen, scale)
        if not own.batches:
            every = case.options["update_every"]
            raise InvalidInput(f"{case.episodes} episodes never fill a batch of update_every={every}")
        free, rows = case.privacy is None, {}
        for accountant in ACCOUNTANTS:
            if accountant == chosen:
                rows[accountant] = own
            elif not ((accountant == "paper" and own.stationary) or (accountant == "individual" and free)):
                rows[accountant] = build(accountant, scale if free else None)
        return cls(case, len(own.batches), chosen, rows)

    def to_dict(self) -> dict[str, object]:
        """Returns the report as JSON can hold it."""
        own = self.rows[self.chosen].guarantee
        return {
            "env": self.case.title,
            "sizes": self.case.sizes,
            "trust": "central",
            "episodes": self.case.episodes,
            "releases": self.releases,
            "stationary": self.rows[self.chosen].stationary,
            "guarantee": own.to_dict(),
            "chosen": self.chosen,
            "accountants": {
                name: {"noise_scale": agent.noise_scale, "epsilon": agent.guarantee.epsilon, "delta": own.delta}
                for name, agent in self.rows.items()
            },
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        own, spec = self.rows[self.chosen], self.case.spec
        pooled = "pooled over the steps" if own.stationary else "per step"
        facts = {
            "promise": str(own.guarantee),
            "sizes": self.case.sizes_in_words,
            "released": f"perturbed values, {own.Q.size:,} numbers; "
            f"{self.case.episodes:,} users, counts {pooled}, {self.releases:,} releases",
            "assumes": "; ".join(own.guarantee.assumptions),
        }
        heads = ("accountant", "noise scale", "std, N = 0", f"std, N = {self.case.episodes:,}", "proven ε")
        lines = [*lines_of(facts), "", "  {:12} {:>14} {:>14} {:>16} {:>10}".format(*heads)]
        for name, agent in self.rows.items():
            variance = agent.noise_scale * float(
                beta(spec.states, spec.actions, spec.horizon, own.account.users[-1] + 1)
            )
            cells = (
                agent.noise_scale,
                variance**0.5,
                (variance / (self.case.episodes + 1)) ** 0.5,
                agent.guarantee.epsilon,
            )
            mark = "*" if name == self.chosen else " "
            lines.append(f"{mark} {name:12} " + "{:14,.4g} {:14,.4g} {:16,.4g} {:10.4f}".format(*cells))
        return "\n".join(
            [
                *lines,
                "",
                "* is what was asked for. std: of the perturbation in the last release, in a cell with N visits.",
                "  'individual' leaves out whoever would exceed the budget; its noise scale is free.",
                f"{'events':12} {own.guarantee.events}",
            ]
        )

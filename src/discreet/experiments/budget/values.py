"""A budget for perturbed values, rlsvi: what its accountants make of it, or of one noise scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet import agents
from discreet.agents.rlsvi import RLSVI
from discreet.errors import InvalidInput
from discreet.experiments.budget.words import lines_of, sizes, sizes_in_words
from discreet.privacy import NonPrivate
from discreet.privacy.rlsvi import ACCOUNTANTS, beta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.experiments.configs import Value
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["ValuesReport"]


@dataclass(frozen=True)
class ValuesReport:
    """What RLSVI's accountants make of one budget, or of one noise scale.

    Attributes:
        title: What the sizes are those of.
        spec: The sizes.
        releases: How many tables are released.
        episodes: Number of people.
        chosen: The accountant that was asked for.
        rows: An agent for each accountant.
    """

    title: str
    spec: Spec
    releases: int
    episodes: int
    chosen: str
    rows: dict[str, RLSVI]

    @classmethod
    def make(
        cls,
        title: str,
        spec: Spec,
        privacy: TrustModel | None,
        agent: str,
        episodes: int,
        options: Mapping[str, Value],
    ) -> ValuesReport:
        """Builds the agents that are compared; accountants that cannot be asked the same are left out."""
        if isinstance(privacy, NonPrivate):
            raise InvalidInput("there is no budget without privacy: the trust model must be central")
        chosen = str(options["accounting"])

        def build(accountant: str, scale: Value) -> RLSVI:
            asked = {**options, "accounting": accountant, "noise_scale": scale}
            made = agents.make(agent, spec, episodes=episodes, privacy=privacy, seed=0, **asked)
            assert isinstance(made, RLSVI)
            return made

        own = build(chosen, options["noise_scale"])
        if not own.batches:
            raise InvalidInput(f"{episodes} episodes never fill a batch of update_every={options['update_every']}")
        rows = {}
        for accountant in ACCOUNTANTS:
            if accountant == chosen:
                rows[accountant] = own
            elif not ((accountant == "paper" and own.stationary) or (accountant == "individual" and privacy is None)):
                rows[accountant] = build(accountant, options["noise_scale"] if privacy is None else None)
        return cls(title, spec, len(own.batches), episodes, chosen, rows)

    def to_dict(self) -> dict[str, object]:
        """Returns the report as JSON can hold it."""
        own = self.rows[self.chosen].guarantee
        return {
            "env": self.title,
            "sizes": sizes(self.spec),
            "trust": "central",
            "episodes": self.episodes,
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
        own, spec = self.rows[self.chosen], self.spec
        pooled = "pooled over the steps" if own.stationary else "per step"
        facts = {
            "promise": str(own.guarantee),
            "sizes": sizes_in_words(self.title, spec),
            "released": f"perturbed values, {own.Q.size:,} numbers; {self.episodes:,} users, counts {pooled}, "
            f"{self.releases:,} releases",
            "assumes": "; ".join(own.guarantee.assumptions),
        }
        heads = ("accountant", "noise scale", "std, N = 0", f"std, N = {self.episodes:,}", "proven ε")
        lines = [*lines_of(facts), "", "  {:12} {:>14} {:>14} {:>16} {:>10}".format(*heads)]
        for name, agent in self.rows.items():
            variance = agent.noise_scale * float(
                beta(spec.states, spec.actions, spec.horizon, own.account.users[-1] + 1)
            )
            cells = (agent.noise_scale, variance**0.5, (variance / (self.episodes + 1)) ** 0.5, agent.guarantee.epsilon)
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

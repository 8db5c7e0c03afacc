"""What a budget promises and costs: what `discreet budget` prints."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import agents, privatizers
from discreet.agents.base import default_update
from discreet.agents.rlsvi import RLSVI
from discreet.agents.schedule import Schedule
from discreet.errors import InvalidInput, check_integer
from discreet.privacy import Central, Local, NonPrivate, Shuffle
from discreet.privacy.rlsvi import ACCOUNTANTS, beta
from discreet.privacy.sensitivity import tabular
from discreet.privatizers import CentralPrivatizer, NoisyLocal, NonPrivatePrivatizer, SampledLocal, ShufflePrivatizer

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["BudgetReport", "ValuesReport"]

_Row = CentralPrivatizer | NoisyLocal | SampledLocal | ShufflePrivatizer


@dataclass(frozen=True)
class BudgetReport:
    """Every sum of a trust model at one budget, and the paper's noise beside it.

    Attributes:
        title: What the sizes are those of.
        spec: The sizes.
        asked: The trust model as it was asked for.
        batches: How many users each batch has.
        episodes: Number of people.
        stationary: Whether counts are pooled over the steps.
        failure: Of the error bound.
        chosen: The row that ``asked`` stands for.
        rows: A privatizer each, by name.
    """

    title: str
    spec: Spec
    asked: Central | Local | Shuffle
    batches: list[int]
    episodes: int
    stationary: bool
    failure: float
    chosen: str
    rows: dict[str, _Row]

    @classmethod
    def make(
        cls,
        title: str,
        spec: Spec,
        privacy: TrustModel | None,
        *,
        agent: str,
        episodes: int,
        update_every: int | str | None,
        stationary: bool,
        failure: float,
    ) -> BudgetReport:
        """Builds the privatizers that are compared."""
        if not isinstance(privacy, Central | Local | Shuffle):
            raise InvalidInput("there is no budget without privacy: the trust model must be central, local or shuffle")
        if not agents.is_private(agent):
            raise InvalidInput(f"there is no budget without privacy: {agent} offers none")
        if agents.is_linear(agent):
            raise InvalidInput(
                f"discreet budget compares sums of counts, and {agent} has none: its guarantee and noise are in "
                "dc.agents.make(…).guarantee and .privatizer"
            )
        check_integer("episodes", episodes)
        if update_every is None:
            update_every = default_update(privacy, episodes)
        batches = np.diff(Schedule(update_every).ends(0, episodes), prepend=0).tolist()
        if not batches:
            raise InvalidInput(f"{episodes} episodes never fill a batch of update_every={update_every}")

        def build(trust: TrustModel) -> _Row:
            built = privatizers.make(
                spec,
                trust,
                capacity=episodes,
                batches=batches,
                stationary=stationary,
                failure=failure,
                rng=np.random.default_rng(0),
            )
            assert not isinstance(built, NonPrivatePrivatizer)
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
        return cls(title, spec, privacy, batches, episodes, stationary, failure, chosen, rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON can hold it."""
        return {
            "env": self.title,
            "sizes": {"states": self.spec.states, "actions": self.spec.actions, "horizon": self.spec.horizon},
            "trust": type(self.asked).__name__.lower(),
            "episodes": self.episodes,
            "reads": len(self.batches),
            "stationary": self.stationary,
            "failure": self.failure,
            "budget": {"epsilon": self.asked.epsilon, "delta": self.asked.delta},
            "chosen": self.chosen,
            "sums": {name: _row(privatizer) for name, privatizer in self.rows.items()},
        }

    def to_text(self) -> str:
        """Returns the report for people to read."""
        own, spec = self.rows[self.chosen], self.spec
        layout = own.layout
        sensitivity = tabular(spec.horizon, layout.families, stationary=self.stationary)
        what = ("n, m, r" if layout.visits else "m, r") + (" pooled over the steps" if self.stationary else " per step")
        facts = {
            "promise": str(own.guarantee),
            "sizes": f"{self.title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}",
            "released": f"{what}: {layout.size:,} counts; {self.episodes:,} users, {len(self.batches):,} reads",
            "sensitivity": f"L1 {sensitivity.l1:g}, L2 {sensitivity.l2:.4g} (replacing one user)",
            "budget": f"ε = {self.asked.epsilon:g}, δ = {self.asked.delta:g}",
        }
        if own.guarantee.assumptions:
            facts["assumes"] = "; ".join(own.guarantee.assumptions)
        if isinstance(own, ShufflePrivatizer):
            sizes = sorted(set(self.batches))
            users = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
            facts["batches"] = f"of {users} users"
            facts["messages"] = f"{own.messages_per_user:,} of one bit a user, {own.bytes_per_user:,} bytes"
            if len(sizes) > 1:
                facts["messages"] += " (first batch)"
        heads = ("sum", "noise", f"std, {_FRESH[type(self.asked)]}", "std, worst read", "error bound E", "proven ε")
        lines = [f"{key:12} {value}" for key, value in facts.items()]
        lines += ["", "  {:12} {:9} {:>14} {:>16} {:>14} {:>10}".format(*heads)]
        for name, privatizer in self.rows.items():
            row = _row(privatizer)
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


def _row(privatizer: _Row) -> dict[str, Any]:
    guarantee = privatizer.guarantee
    row = {
        "noise": privatizer.noise,
        "std_fresh": privatizer.fresh_std,
        "std_worst_read": privatizer.worst_std,
        "error_bound": privatizer.error,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": guarantee.relation,
        "assumptions": list(guarantee.assumptions),
        "events": str(guarantee.events),
    }
    if isinstance(privatizer, ShufflePrivatizer):
        row["messages_per_user"] = privatizer.messages_per_user
        row["bytes_per_user"] = privatizer.bytes_per_user
    return row


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
        *,
        episodes: int,
        accounting: str | None,
        noise_scale: float | None,
        stationary: bool,
        update_every: int | str | None,
        delta: float | None = None,
        **_other: Any,
    ) -> ValuesReport:
        """Builds the agents that are compared; accountants that cannot be asked the same are left out."""
        if isinstance(privacy, NonPrivate):
            raise InvalidInput("there is no budget without privacy: the trust model must be central")
        chosen = accounting or "tight"

        def build(accountant: str, scale: float | None) -> RLSVI:
            return RLSVI(
                spec,
                episodes=episodes,
                privacy=privacy,
                accounting=accountant,
                noise_scale=scale,
                delta=delta,
                stationary=stationary,
                update_every=update_every,
                seed=0,
            )

        own = build(chosen, noise_scale)
        if not own.batches:
            raise InvalidInput(f"{episodes} episodes never fill a batch of update_every={update_every}")
        rows = {}
        for accountant in ACCOUNTANTS:
            if accountant == chosen:
                rows[accountant] = own
            elif not ((accountant == "paper" and stationary) or (accountant == "individual" and privacy is None)):
                rows[accountant] = build(accountant, noise_scale if privacy is None else None)
        return cls(title, spec, len(own.batches), episodes, chosen, rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON can hold it."""
        own = self.rows[self.chosen].guarantee
        return {
            "env": self.title,
            "sizes": {"states": self.spec.states, "actions": self.spec.actions, "horizon": self.spec.horizon},
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
            "sizes": f"{self.title}: {spec.states} states, {spec.actions} actions, horizon {spec.horizon}",
            "released": f"perturbed values, {own.release_size:,} numbers; {self.episodes:,} users, counts {pooled}, "
            f"{self.releases:,} releases",
            "assumes": "; ".join(own.guarantee.assumptions),
        }
        heads = ("accountant", "noise scale", "std, N = 0", f"std, N = {self.episodes:,}", "proven ε")
        lines = [f"{key:12} {value}" for key, value in facts.items()]
        lines += ["", "  {:12} {:>14} {:>14} {:>16} {:>10}".format(*heads)]
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

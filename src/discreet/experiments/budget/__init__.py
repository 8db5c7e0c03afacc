"""What a budget promises and costs: what `discreet budget` prints, one file for each kind of mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from discreet import agents
from discreet.agents.options import Discreet, Staged, Values
from discreet.errors import InvalidInput, check_integer
from discreet.experiments.setting import asked
from discreet.privacy import trust

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from discreet.experiments.configs import Value
    from discreet.mdp import Spec

__all__ = ["Report", "report"]


class Report(Protocol):
    """What a budget promises, and how much noise that takes."""

    def to_dict(self) -> dict[str, object]:
        """Returns the report as JSON can hold it."""

    def to_text(self) -> str:
        """Returns the report for people to read."""


def report(title: str, spec: Spec, given: Mapping[str, Value]) -> Report:
    """Returns the report on what an agent's mechanism makes of a budget.

    Args:
        title: What the sizes are those of.
        spec: The sizes.
        given: What a setting of a sweep says, ``agent`` and ``episodes`` among it; the server is trusted by default.
    """
    from discreet.agents.auto import choose
    from discreet.experiments.budget.case import Case
    from discreet.experiments.budget.counts import BudgetReport
    from discreet.experiments.budget.discreet_vi import own_budget
    from discreet.experiments.budget.stages import StagedBudget
    from discreet.experiments.budget.values import ValuesReport

    name, episodes = str(given["agent"]), check_integer("episodes", given["episodes"])
    model, budget, options = asked({"trust": "central", **given})
    privacy = trust(model, **budget) if budget or model == "none" else None
    if name == "auto" and privacy is not None:
        name, own = choose(privacy, episodes, spec)
        options = {**own, **options}
    takes = agents.table(name)
    for key in options:
        if key not in takes:
            others = ", ".join(other for other in agents.AGENTS if key in agents.table(other))
            raise InvalidInput(f"{agents.table()[key].flag} is for {others}, got agent {name}")
    options = {key: option.default for key, option in takes.items() if option.noise} | options
    kinds: dict[type | None, Callable[[Case], Report]] = {
        Values: ValuesReport.make,
        Staged: StagedBudget.make,
        Discreet: own_budget,
    }
    make = kinds.get(agents.family(name), BudgetReport.make)
    return make(Case(title, spec, privacy, name, episodes, options))

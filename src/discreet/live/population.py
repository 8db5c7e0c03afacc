"""A population's ledger: deployments on the same people charge one budget, before anything can be released.

A person may be in every deployment of their population. What they lose in all of them together is at most the budget of
its ledger: each deployment is charged with what it proves for one person, in the transaction that makes it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import BudgetExceeded, InvalidInput, Unproven
from discreet.live.stores import sql
from discreet.privacy import Budget, Ledger

if TYPE_CHECKING:
    from discreet.live.stores.base import Connection
    from discreet.privacy import Guarantee

__all__ = ["Charged", "Population", "charge", "find"]

_VERSION = 1
#: Rounding, relative: what is added to the budget of a ledger that is made for exactly one deployment.
_ROOM = (0.0, 1e-12, 1e-9)


@dataclass(frozen=True)
class Charged:
    """One entry: a deployment, and what it proves for one person.

    Attributes:
        deployment: Its name.
        epsilon: The proven ε.
        delta: The proven δ.
    """

    deployment: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Population:
    """People who may be in several deployments, and what these may lose of them in all.

    Attributes:
        name: Of the population.
        budget: (ε, δ) for all deployments together.
        charges: Of each deployment, in order.
        ledger: The filter that composes them; None: ε and δ are added up (basic composition).

    Guarantee:
        All deployments together are (ε, δ)-DP with the budget's ε and δ for every person, whoever chose later
        deployments in the light of earlier releases.
    """

    name: str
    budget: Budget
    charges: tuple[Charged, ...] = ()
    ledger: Ledger | None = None

    @property
    def spent(self) -> tuple[float, float]:
        """What all charges come to: ε and δ."""
        if self.ledger is not None:
            return self.ledger.spent, self.budget.delta
        return math.fsum(c.epsilon for c in self.charges), math.fsum(c.delta for c in self.charges)

    def charged(self, guarantee: Guarantee, deployment: str) -> Population:
        """Returns the population with one more deployment; this one stays as it was.

        Raises:
            BudgetExceeded: If it does not fit.
        """
        entry = Charged(deployment, guarantee.epsilon, guarantee.delta)
        ledger = _composed(self, guarantee, deployment)
        found = Population(self.name, self.budget, (*self.charges, entry), ledger)
        epsilon, delta = found.spent
        if not (epsilon <= self.budget.epsilon and delta <= self.budget.delta):
            raise BudgetExceeded(
                f"{deployment} would bring the population {self.name!r} to epsilon={epsilon:.6g}, delta={delta:.6g}; "
                f"its budget is epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "version": _VERSION,
            "name": self.name,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "charges": [vars(charge) for charge in self.charges],
            "ledger": None if self.ledger is None else json.loads(self.ledger.to_json()),
        }

    @classmethod
    def from_dict(cls, document: Any) -> Population:
        """Returns the population that `to_dict` described.

        Raises:
            InvalidInput: If it is none, or its charges exceed its budget.
        """
        try:
            if document["version"] != _VERSION or set(document) != {"version", "name", "budget", "charges", "ledger"}:
                raise InvalidInput(f"this is no ledger of a population of version {_VERSION}")
            charges = tuple(Charged(**charge) for charge in document["charges"])
            numbers = [number for charge in charges for number in (charge.epsilon, charge.delta)]
            kept = document["ledger"]
            ledger = None if kept is None else Ledger.from_json(json.dumps(kept))
            found = cls(document["name"], Budget(**document["budget"]), charges, ledger)
            epsilon, delta = found.spent
        except InvalidInput:
            raise
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is no ledger of a population: {type(error).__name__}") from None
        if any(not 0 <= number < math.inf for number in numbers):
            raise InvalidInput("this is no ledger of a population: a charge is negative or not finite")
        if ledger is not None and (
            ledger.budget != found.budget or [c.label for c in ledger.charges] != [c.deployment for c in charges]
        ):
            raise InvalidInput("this is no ledger of a population: its filter has other charges or another budget")
        if not (epsilon <= found.budget.epsilon and delta <= found.budget.delta):
            raise BudgetExceeded(f"the charges of the population {found.name!r} exceed its budget")
        return found


def _composed(population: Population, guarantee: Guarantee, label: str) -> Ledger | None:
    """Returns the filter with one more charge; None where it proves nothing, and ε and δ are added up instead."""
    if population.charges and population.ledger is None:
        return None
    ledger = Ledger(population.budget) if population.ledger is None else Ledger.from_json(population.ledger.to_json())
    try:
        ledger.charge(guarantee, label)
    except Unproven:
        if population.charges:
            raise
        return None
    return ledger


def find(db: Connection, name: str) -> Population | None:
    """Returns a population by its name, if it has a ledger."""
    row = db.row(sql.LEDGER, population=name)
    return None if row is None else Population.from_dict(json.loads(row[0]))


def charge(
    db: Connection, name: str, deployment: str, guarantee: Guarantee, budget: tuple[float, float] | None
) -> None:
    """Charges a deployment to its population: in the transaction that makes it, and alone.

    Args:
        db: The database, within the transaction.
        name: Of the population.
        deployment: Its name.
        guarantee: What it proves for one person.
        budget: (ε, δ) of the ledger. A new one without it has room for exactly this deployment.

    Raises:
        BudgetExceeded: If it does not fit.
        InvalidInput: If the population has another budget.
    """
    db.lock(f"population {name}", alone=True)  # no deployment has such a name: two that are made at once wait here
    before = find(db, name)
    if before is None:
        after = _opened(name, deployment, guarantee, budget)
        db.run(sql.NEW_LEDGER, population=name, document=json.dumps(after.to_dict()))
        return
    if budget is not None and Budget(*budget) != before.budget:
        raise InvalidInput(
            f"the population {name!r} has the budget epsilon={before.budget.epsilon!r}, "
            f"delta={before.budget.delta!r}, got epsilon={budget[0]!r}, delta={budget[1]!r}: a budget is never changed"
        )
    after = before.charged(guarantee, deployment)
    db.run(sql.SET_LEDGER, population=name, document=json.dumps(after.to_dict()))


def _opened(name: str, deployment: str, guarantee: Guarantee, budget: tuple[float, float] | None) -> Population:
    """Returns a new population with its first deployment."""
    if budget is not None:
        return Population(name, Budget(*budget)).charged(guarantee, deployment)
    for more in _ROOM:
        exact = Budget(guarantee.epsilon * (1 + more), min(guarantee.delta * (1 + more), math.nextafter(1, 0)))
        try:
            return Population(name, exact).charged(guarantee, deployment)
        except BudgetExceeded:
            continue
    raise BudgetExceeded(f"no ledger can be made for {deployment}: its guarantee does not fit into itself")

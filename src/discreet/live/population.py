"""A population's ledger: deployments on the same people charge one budget, before anything can be released.

A person may be in every deployment of their population. What they lose in all of them together is at most the budget of
its ledger: each deployment is charged with what it proves for one person, in the transaction that makes it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import BudgetExceeded, InvalidInput
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
        ledger: The filter that composes what was charged.
        charges: Of each deployment, in order.

    Guarantee:
        All deployments together are (ε, δ)-DP with the budget's ε and δ for every person, whoever chose later
        deployments in the light of earlier releases.
    """

    name: str
    ledger: Ledger
    charges: tuple[Charged, ...] = ()

    @property
    def budget(self) -> Budget:
        """(ε, δ) for all deployments together."""
        return self.ledger.budget

    @property
    def spent(self) -> float:
        """The ε of all charges, at the budget's δ."""
        return self.ledger.spent

    def charged(self, guarantee: Guarantee, deployment: str) -> Population:
        """Returns the population with one more deployment; this one stays as it was.

        Raises:
            BudgetExceeded: If it does not fit.
        """
        ledger = Ledger.from_json(self.ledger.to_json())
        try:
            ledger.charge(guarantee, deployment)
        except BudgetExceeded as error:
            raise BudgetExceeded(f"the population {self.name!r} has no room for it: {error}") from None
        return Population(self.name, ledger, (*self.charges, Charged(deployment, guarantee.epsilon, guarantee.delta)))

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "version": _VERSION,
            "name": self.name,
            "charges": [vars(charge) for charge in self.charges],
            "ledger": json.loads(self.ledger.to_json()),
        }

    @classmethod
    def from_dict(cls, document: Any) -> Population:
        """Returns the population that `to_dict` described.

        Raises:
            InvalidInput: If it is none, or its charges exceed its budget.
        """
        try:
            if document["version"] != _VERSION or set(document) != {"version", "name", "charges", "ledger"}:
                raise InvalidInput(f"this is no ledger of a population of version {_VERSION}")
            charges = tuple(Charged(**charge) for charge in document["charges"])
            ledger = Ledger.from_json(json.dumps(document["ledger"]))
            held = all(0 <= number < math.inf for charge in charges for number in (charge.epsilon, charge.delta))
        except InvalidInput:
            raise
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is no ledger of a population: {type(error).__name__}") from None
        if not held or [c.label for c in ledger.charges] != [c.deployment for c in charges]:
            raise InvalidInput("this is no ledger of a population: its charges are not those of its deployments")
        return cls(document["name"], ledger, charges)


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
        return Population(name, Ledger(Budget(*budget))).charged(guarantee, deployment)
    for more in _ROOM:
        exact = Budget(guarantee.epsilon * (1 + more), min(guarantee.delta * (1 + more), math.nextafter(1, 0)))
        try:
            return Population(name, Ledger(exact)).charged(guarantee, deployment)
        except BudgetExceeded:
            continue
    raise BudgetExceeded(f"no ledger can be made for {deployment}: its guarantee does not fit into itself")

"""What has been charged to a budget, and what still fits."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from discreet.errors import BudgetExceeded, InvalidInput
from discreet.privacy import accounting
from discreet.privacy.budget import Budget

__all__ = ["Charge", "Ledger"]

_VERSION = 1


@dataclass(frozen=True)
class Charge:
    """One entry: what it was for, and its losses (μ² of the Gaussian part, ε of the pure part)."""

    label: str
    mu2: float
    pure: float


class Ledger:
    """Keeps a budget: charges what fits, refuses what does not.

    It is a privacy filter: charges may be chosen in the light of everything released before, because Gaussian (Σμ²) and
    pure (Σε) losses add up under full adaptivity.

    Args:
        budget: What may be spent in all.

    Guarantee:
        Whatever was charged is, all together, (ε, δ)-DP with ε ≤ ``budget.epsilon`` and δ ≤ ``budget.delta``, as long
        as nothing is released before it is charged.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._charges: list[Charge] = []

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Everything charged, in order."""
        return tuple(self._charges)

    def _epsilon(self, *more: Charge) -> float:
        charges = [*self._charges, *more]
        mu = math.sqrt(math.fsum(charge.mu2 for charge in charges))
        pure = math.fsum(charge.pure for charge in charges)
        return pure + accounting.gaussian_epsilon(mu, self.budget.delta)

    @property
    def spent(self) -> float:
        """The proven ε of all charges at the budget's δ."""
        return self._epsilon()

    @property
    def remaining(self) -> float:
        """The largest pure ε that still fits."""
        return max(self.budget.epsilon - self.spent, 0.0)

    def _charge(self, event: accounting.DpEvent, label: str) -> Charge:
        charge = Charge(str(label), *accounting.losses(event))
        if not (charge.mu2 >= 0 and charge.pure >= 0):
            raise InvalidInput("a charge must not be negative")
        return charge

    def fits(self, event: accounting.DpEvent) -> bool:
        """Returns whether ``event`` could be charged now."""
        return self._epsilon(self._charge(event, "")) <= self.budget.epsilon

    def charge(self, event: accounting.DpEvent, label: str = "") -> None:
        """Charges ``event``; call this before anything is released.

        Raises:
            BudgetExceeded: If it does not fit; nothing is charged then.
        """
        charge = self._charge(event, label)
        total = self._epsilon(charge)
        if not total <= self.budget.epsilon:
            raise BudgetExceeded(
                f"{label or 'this'} would bring the total to epsilon={total:.6g} at delta={self.budget.delta:g}, "
                f"the budget is epsilon={self.budget.epsilon:g}"
            )
        self._charges.append(charge)

    def to_json(self) -> str:
        """Returns the ledger as text; floats survive exactly."""
        document = {
            "version": _VERSION,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "charges": [vars(charge) for charge in self._charges],
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Returns the ledger that `to_json` wrote.

        Raises:
            ValueError: If the text is not one, or its charges exceed its budget.
        """
        try:
            document: Any = json.loads(text)
            if document["version"] != _VERSION:
                raise InvalidInput(f"this ledger has version {document['version']!r}, {_VERSION} is needed")
            ledger = cls(Budget(**document["budget"]))
            charges = [Charge(str(c["label"]), float(c["mu2"]), float(c["pure"])) for c in document["charges"]]
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is not a ledger: {type(error).__name__}") from None
        if any(not (charge.mu2 >= 0 and charge.pure >= 0) for charge in charges):
            raise InvalidInput("this is not a ledger: a charge is negative")
        ledger._charges = charges
        if ledger.spent > ledger.budget.epsilon:
            raise BudgetExceeded(f"these charges come to epsilon={ledger.spent:.6g}, more than the budget")
        return ledger

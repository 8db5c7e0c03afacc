"""What has been charged to a budget, and what still fits.

A ledger is a *privacy filter*: whoever makes the charges may choose each of them, its kind and its size, in the light
of everything released before.

*Two shares.* Pure charges may use a share E of ε, Gaussian ones a share of Σμ² ≤ M², with E + ε_G(M, δ) ≤ ε, where
ε_G(M, δ) is the exact ε of M-GDP. The shares are fixed before the first Gaussian release. It is not enough that Σε +
ε_G(√Σμ², δ) ≤ ε: after a Gaussian release, one could spend the rest on pure charges if the release was telling, and
on Gaussian ones if it was not. Each of the two continuations uses up all of δ, and the better of them for each
release uses up more.

*The proof.* Let P and Q be the laws of all releases for two neighbours. Given the releases before it, each charge has
a loss, the logarithm of its likelihood ratio. Let L_p be the sum of the losses of pure charges and L_g that of the
others, so that ln dP/dQ = L_p + L_g. On every path L_p ≤ Σε ≤ E (Rogers et al.), so

    δ(ε) = E_P (1 − e^{ε − L_p − L_g})₊ ≤ E_P (1 − e^{(ε − E) − L_g})₊.

Let Q' be the law under which Gaussian charges are answered as under Q and pure charges as under P. Then L_g = ln
dP/dQ', and the right-hand side is the δ of P and Q' at ε − E. Between these two, pure charges tell nothing: they are
coins that whoever makes the charges might have tossed. What remains is a sequence of μ-GDP mechanisms, chosen
adaptively, with Σμ² ≤ M² on every path. It is M-GDP (Smith and Thakurta), so its δ at ε − E ≥ ε_G(M, δ) is at most δ.
The same holds with P and Q exchanged.

*When the shares are fixed.* They may depend on the pure releases before the first Gaussian one. If those took s, then
their L_p is at most s. Given those releases, the rest is a filter as above with the shares E − s and M, and (E − s) +
ε_G(M, δ) ≤ ε − s: its δ at ε − s is at most δ, whatever they were, and so is the average.

*Pure charges in the Gaussian share.* Every ε-DP mechanism is μ-GDP with μ = −2Φ⁻¹(1/(1 + e^ε))
(`accounting.mu_of_pure`). So a pure charge for which its own share has no room may be taken for a Gaussian one. Each
charge goes into one share or the other before it is released, which the proof allows: "pure" and "Gaussian" are the
shares that charges were put into.

References:
    Rogers, Roth, Ullman and Vadhan (2016), Privacy odometers and filters: pay-as-you-go composition; Smith and
    Thakurta (2022), Fully adaptive composition for Gaussian differential privacy; Dong, Roth and Su (2022), Gaussian
    differential privacy.
"""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import BudgetExceeded, InvalidInput, check_number
from discreet.privacy import accounting
from discreet.privacy.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Charge", "Ledger"]

_VERSION = 2
_LEAST = 1e-6  # a smaller rest of ε is not offered to Gaussian charges: `accounting.gaussian_mu` begins here


@dataclass(frozen=True)
class Charge:
    """One entry: what it was for, and what it took of the Gaussian share (μ²) and of the pure share (ε)."""

    label: str
    mu2: float
    pure: float


class Ledger:
    """Keeps a budget: charges what fits, refuses what does not.

    Pure charges take from the pure share. Where that has no room, they are taken for Gaussian charges: ε-DP is μ-GDP
    with μ of about 1.25·ε. This suits many small charges; a large one rarely fits.

    Args:
        budget: What may be spent in all.
        pure: The share of ``budget.epsilon`` that is kept for pure charges; the rest is for Gaussian ones. 0 takes all
            pure charges for Gaussian ones. By default, pure charges take what they need until the first Gaussian
            charge, which gets all that is left: give the share if there will be pure charges after it.

    Guarantee:
        Whatever was charged is, all together, (ε, δ)-DP with ε ≤ ``budget.epsilon`` and δ ≤ ``budget.delta``, as long
        as nothing is released before it is charged. Charges may depend on everything released before; the proof is
        above.
    """

    def __init__(self, budget: Budget, *, pure: float | None = None) -> None:
        self.budget = budget
        if pure is not None:
            pure = check_number("pure", pure)
            if pure > budget.epsilon:
                raise InvalidInput(f"pure must be at most the budget's epsilon={budget.epsilon:g}, got pure={pure!r}")
        self._given = pure
        self._charges: list[Charge] = []
        self._lock = threading.Lock()  # two charges at once must not both see the same room

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Everything charged, in order."""
        return tuple(self._charges)

    @property
    def pure(self) -> float | None:
        """The share of ε for pure charges; None as long as it is open."""
        return self._share(self._charges)

    @property
    def spent(self) -> float:
        """The ε of all charges at the budget's δ, had they been planned in advance; at most the budget's."""
        return self._epsilon(self._charges)

    @property
    def remaining(self) -> float:
        """The largest pure ε that still fits, in either share."""
        charges, epsilon = list(self._charges), self.budget.epsilon
        spent, share = _pure(charges), self._share(charges)
        room = (epsilon if share is None else share) - spent
        rest = epsilon - (spent if share is None else share)
        if self.budget.delta > 0 and rest >= _LEAST:
            left = accounting.gaussian_mu(rest, self.budget.delta) ** 2 - _mu2(charges)
            room = max(room, accounting.pure_of_mu(math.sqrt(max(left, 0.0))))
        return max(room, 0.0)

    def fits(self, event: accounting.DpEvent) -> bool:
        """Returns whether ``event`` could be charged now."""
        return any(self._within([*self._charges, way]) for way in self._ways(event, ""))

    def charge(self, event: accounting.DpEvent, label: str = "") -> None:
        """Charges ``event``; call this before anything is released.

        Raises:
            BudgetExceeded: If it does not fit; nothing is charged then.
        """
        ways = self._ways(event, label)
        with self._lock:
            for way in ways:
                if self._within([*self._charges, way]):
                    self._charges.append(way)
                    return
            raise BudgetExceeded(self._why_not(ways[0]))

    def _ways(self, event: accounting.DpEvent, label: str) -> list[Charge]:
        """Returns how ``event`` may be charged: as it is, and with its pure parts taken for Gaussian ones."""
        ways = [Charge(str(label), *accounting.losses(event))]
        if ways[0].pure > 0 and self.budget.delta > 0:
            ways.append(Charge(str(label), *accounting.losses(event, convert=True)))
        if any(not (way.mu2 >= 0 and way.pure >= 0) for way in ways):  # NaN too
            raise InvalidInput("a charge must not be negative")
        return ways

    def _share(self, charges: Iterable[Charge]) -> float | None:
        """Returns E: what was given, or what pure charges took up to and with the first Gaussian one."""
        if self._given is not None:
            return self._given
        before: list[Charge] = []
        for charge in charges:
            before.append(charge)
            if charge.mu2 > 0:
                return _pure(before)
        return None

    def _within(self, charges: list[Charge]) -> bool:
        """Whether ``charges`` keep to their shares."""
        share, spent = self._share(charges), _pure(charges)
        if share is None:
            return spent <= self.budget.epsilon
        # ε_G grows with μ, so this is Σμ² ≤ M² for one M, whatever is charged.
        return spent <= share and share + self._gaussian(charges) <= self.budget.epsilon

    def _gaussian(self, charges: Iterable[Charge]) -> float:
        return accounting.gaussian_epsilon(math.sqrt(_mu2(charges)), self.budget.delta)

    def _epsilon(self, charges: Iterable[Charge]) -> float:
        charges = list(charges)
        return _pure(charges) + self._gaussian(charges)

    def _why_not(self, charge: Charge) -> str:
        name, epsilon = charge.label or "this", self.budget.epsilon
        total = self._epsilon([*self._charges, charge])
        if not total <= epsilon:
            return (
                f"{name} would bring the total to epsilon={total:.6g} at delta={self.budget.delta:g}, "
                f"the budget is epsilon={epsilon:g}"
            )
        share = self._share([*self._charges, charge]) or 0.0
        left = max(share - _pure(self._charges), 0.0)
        return (
            f"{name} does not fit into its share: pure charges have epsilon={share:.6g} of {epsilon:g}, of which "
            f"{left:.6g} is left, and Gaussian ones have the rest; shares are fixed before the first Gaussian charge, "
            f"by Ledger(budget, pure=…)"
        )

    def to_json(self) -> str:
        """Returns the ledger as text; floats survive exactly."""
        document = {
            "version": _VERSION,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "pure": self._given,
            "charges": [vars(charge) for charge in self._charges],
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Returns the ledger that `to_json` wrote.

        Raises:
            ValueError: If the text is not one, or its charges exceed its budget or their shares of it. Ledgers of
                version 1 are read unless they mix pure and Gaussian charges: their rule was no filter for that.
        """
        try:
            document: Any = json.loads(text)
            version = document["version"]
            if version not in (1, _VERSION):
                raise InvalidInput(f"this ledger has version {version!r}, {_VERSION} is needed")
            ledger = cls(Budget(**document["budget"]), pure=None if version == 1 else document["pure"])
            charges = [Charge(str(c["label"]), float(c["mu2"]), float(c["pure"])) for c in document["charges"]]
        except InvalidInput:
            raise
        except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is not a ledger: {type(error).__name__}") from None
        if any(not (0 <= charge.mu2 < math.inf and 0 <= charge.pure < math.inf) for charge in charges):
            raise InvalidInput("this is not a ledger: a charge is negative or not finite")
        if version == 1 and _mu2(charges) > 0 and _pure(charges) > 0:
            raise InvalidInput(
                "this ledger has version 1 and mixes pure and Gaussian charges, for which its rule proves nothing: "
                "start a new one, and give pure= for the share of pure charges"
            )
        ledger._charges = charges
        if not ledger._within(charges):
            raise BudgetExceeded(
                f"these charges come to epsilon={ledger.spent:.6g}, more than the budget or their shares of it"
            )
        return ledger


def _mu2(charges: Iterable[Charge]) -> float:
    return math.fsum(charge.mu2 for charge in charges)


def _pure(charges: Iterable[Charge]) -> float:
    return math.fsum(charge.pure for charge in charges)

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

*Discrete Gaussian noise* (`discrete.NearEvent`). Its probabilities lie within e^{±ν} of those of a Gaussian charge. The
ν of all charges have a share too: Σν ≤ V on every path. Let P̃ and Q̃ be the laws under which such charges are answered
by their Gaussian twins. Then P ≤ e^V·P̃ and Q̃ ≤ e^V·Q, and between P̃ and Q̃ there is a filter as above: if that has (ε',
δ'), the whole has (ε' + 2V, e^V·δ'). V is fixed together with the other shares.

*Any other (ε, δ)-DP charge* is a post-processing of a coin, whose probability of heads is δ for both neighbours, and of
an ε-DP charge that is asked if it shows tails (Kairouz, Oh and Viswanath). Let D be the share of these δ: on every path
they add up to at most D, so that some coin shows heads with probability at most D. On all other paths the charges are
pure. So the losses that are counted above lack at most D: basic composition, adaptively.

Together: E + 2V + ε_G(M, e^{−V}·δ − D) ≤ ε. As long as nothing is Gaussian, Σε ≤ ε and Σδ ≤ δ will do. If the shares
are open, D is what was taken before the first Gaussian charge, and that is fine for the same reason: heads that showed
before have a probability of at most the mean of what was taken, and what is left after it is left for each path.

*Pure charges in the Gaussian share.* Every ε-DP mechanism is μ-GDP with μ = −2Φ⁻¹(1/(1 + e^ε))
(`accounting.mu_of_pure`). So a pure charge for which its own share has no room may be taken for a Gaussian one. Each
charge goes into one share or the other before it is released, which the proof allows: "pure" and "Gaussian" are the
shares that charges were put into.

References:
    Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy, Theorem 3.4 and its proof;
    Rogers, Roth, Ullman and Vadhan (2016), Privacy odometers and filters: pay-as-you-go composition; Smith and
    Thakurta (2022), Fully adaptive composition for Gaussian differential privacy; Dong, Roth and Su (2022), Gaussian
    differential privacy.
"""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet.errors import BudgetExceeded, InvalidInput, Unproven, check_number
from discreet.privacy import accounting, discrete
from discreet.privacy.budget import Budget
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Charge", "Ledger"]

_VERSION = 3
_LEAST = 1e-6  # a smaller rest of ε is not offered to Gaussian charges: `accounting.gaussian_mu` begins here
#: What is kept for the ν of discrete noise, relative to ε: some hundred charges, and less than calibration rounds away.
_NEAR = 1e-10


@dataclass(frozen=True)
class Charge:
    """One entry: what it was for, and what it took of every share.

    Attributes:
        label: What it was for.
        mu2: μ², of the Gaussian share.
        pure: ε, of the pure share.
        delta: δ, if it is any (ε, δ)-DP mechanism.
        ratio: ν, if its noise is discrete.
    """

    label: str
    mu2: float
    pure: float
    delta: float = 0.0
    ratio: float = 0.0


class _Shares(NamedTuple):
    """E, D and V."""

    pure: float
    delta: float
    ratio: float


class Ledger:
    """Keeps a budget: charges what fits, refuses what does not.

    Pure charges take from the pure share. Where that has no room, they are taken for Gaussian charges: ε-DP is μ-GDP
    with μ of about 1.25·ε. This suits many small charges; a large one rarely fits.

    It takes events and whole guarantees. A guarantee whose events do not compose, as under `Shuffle`, is charged with
    its ε and its δ, by basic composition.

    Args:
        budget: What may be spent in all.
        pure: The share of ``budget.epsilon`` that is kept for pure charges; the rest is for Gaussian ones. 0 takes all
            pure charges for Gaussian ones. By default, pure charges take what they need until the first Gaussian
            charge, which gets all that is left: give the share if there will be pure charges after it.
        delta: The same for the share of ``budget.delta`` that charges with a δ of their own may take.
        ratio: The share for the small terms of discrete noise (`discrete.NearEvent`), Σν at most. By default that of
            the first Gaussian charge, and no less than 10⁻¹⁰ of ε, which is enough for 200 charges at ε = 1: give it if
            there will be more.

    Guarantee:
        Whatever was charged is, all together, (ε, δ)-DP with ε ≤ ``budget.epsilon`` and δ ≤ ``budget.delta``, as long
        as nothing is released before it is charged. Charges may depend on everything released before; the proof is
        above.
    """

    def __init__(
        self, budget: Budget, *, pure: float | None = None, delta: float | None = None, ratio: float | None = None
    ) -> None:
        self.budget = budget
        given = {"pure": pure, "delta": delta, "ratio": ratio}
        for name, most in (("pure", budget.epsilon), ("delta", budget.delta), ("ratio", budget.epsilon / 2)):
            if given[name] is None:
                continue
            given[name] = share = check_number(name, given[name])
            if share > most:
                of = "half the budget's epsilon" if name == "ratio" else "the budget's " + _OF[name]
                raise InvalidInput(f"{name} must be at most {of}={most:g}, got {name}={share!r}")
        self._given = given
        self._charges: list[Charge] = []
        self._lock = threading.Lock()  # two charges at once must not both see the same room

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Everything charged, in order."""
        return tuple(self._charges)

    @property
    def pure(self) -> float | None:
        """The share of ε for pure charges; None as long as it is open."""
        shares = self._shares(self._charges)
        return self._given["pure"] if shares is None else shares.pure

    @property
    def spent(self) -> float:
        """The ε of all charges at the budget's δ, had they been planned in advance; at most the budget's."""
        return self._epsilon(self._charges)

    @property
    def remaining(self) -> float:
        """The largest pure ε that still fits, in either share."""
        charges, epsilon = list(self._charges), self.budget.epsilon
        shares, spent = self._shares(charges), _sum(charges, "pure")
        share = self.pure
        room = (epsilon if share is None else share) - spent
        if self.budget.delta > 0:
            E, D, V = shares or self._fixed(charges, Charge("", 1.0, 0.0))
            rest, delta = epsilon - E - 2 * V, self._left(D, V)
            if rest >= _LEAST and delta > 0:
                left = accounting.gaussian_mu(rest, delta) ** 2 - _sum(charges, "mu2")
                room = max(room, accounting.pure_of_mu(math.sqrt(max(left, 0.0))))
        return max(room, 0.0)

    def fits(self, event: accounting.DpEvent | Guarantee) -> bool:
        """Returns whether ``event`` could be charged now."""
        return any(self._within([*self._charges, way]) for way in self._ways(event, ""))

    def charge(self, event: accounting.DpEvent | Guarantee, label: str = "") -> None:
        """Charges ``event``, or what a guarantee promises; call this before anything is released.

        Raises:
            BudgetExceeded: If it does not fit; nothing is charged then.
            Unproven: If nothing is proven for the event by itself: charge the guarantee, which has an ε and a δ.
        """
        ways = self._ways(event, label)
        with self._lock:
            for way in ways:
                if self._within([*self._charges, way]):
                    self._charges.append(way)
                    return
            raise BudgetExceeded(self._why_not(ways[0]))

    def _ways(self, event: accounting.DpEvent | Guarantee, label: str) -> list[Charge]:
        """Returns how ``event`` may be charged: as it is, and with its pure parts taken for Gaussian ones."""
        ways = [_taken(event, str(label))]
        if ways[0].pure > 0 and self.budget.delta > 0:
            ways.append(_taken(event, str(label), convert=True))
        for way in ways:
            if any(not getattr(way, name) >= 0 for name in _SHARES):  # NaN too
                raise InvalidInput("a charge must not be negative")
        return ways

    def _shares(self, charges: Iterable[Charge]) -> _Shares | None:
        """Returns what was given, and for the rest what charges took up to and with the first Gaussian one."""
        before: list[Charge] = []
        for charge in charges:
            if charge.mu2 > 0:
                return self._fixed(before, charge)
            before.append(charge)
        return None

    def _fixed(self, before: list[Charge], first: Charge) -> _Shares:
        """Returns the shares if ``first`` is the first Gaussian charge."""
        found = {name: _sum([*before, first], name) for name in ("pure", "delta")}
        found["ratio"] = max(first.ratio, _NEAR * self.budget.epsilon)
        return _Shares(**{name: found[name] if given is None else given for name, given in self._given.items()})

    def _within(self, charges: list[Charge]) -> bool:
        """Whether ``charges`` keep to their shares."""
        budget, shares = self.budget, self._shares(charges)
        if shares is None:
            pure, delta = self._given["pure"], self._given["delta"]
            shares = _Shares(budget.epsilon if pure is None else pure, budget.delta if delta is None else delta, 0.0)
        E, D, V = shares
        if any(not _sum(charges, name) <= share for name, share in (("pure", E), ("delta", D), ("ratio", V))):
            return False
        # ε_G grows with μ, so this is Σμ² ≤ M² for one M, whatever is charged.
        return E + 2 * V + self._gaussian(charges, D, V) <= budget.epsilon

    def _left(self, delta: float, ratio: float) -> float:
        """Returns the δ of Gaussian charges, rounded down."""
        if delta == 0 == ratio:
            return self.budget.delta
        return self.budget.delta * math.exp(-ratio) * (1 - 1e-15) - delta

    def _gaussian(self, charges: Iterable[Charge], delta: float, ratio: float) -> float:
        return accounting.gaussian_epsilon(math.sqrt(_sum(charges, "mu2")), self._left(delta, ratio))

    def _epsilon(self, charges: Iterable[Charge]) -> float:
        charges = list(charges)
        pure, delta, ratio = (_sum(charges, name) for name in ("pure", "delta", "ratio"))
        return pure + 2 * ratio + self._gaussian(charges, delta, ratio) if delta <= self.budget.delta else math.inf

    def _why_not(self, charge: Charge) -> str:
        name, epsilon, charges = charge.label or "this", self.budget.epsilon, [*self._charges, charge]
        delta = _sum(charges, "delta")
        if delta > self.budget.delta:
            return f"{name} would bring the total to delta={delta:.6g}, the budget is delta={self.budget.delta:g}"
        total = self._epsilon(charges)
        if not total <= epsilon:
            return (
                f"{name} would bring the total to epsilon={total:.6g} at delta={self.budget.delta:g}, "
                f"the budget is epsilon={epsilon:g}"
            )
        shares = self._shares(charges) or _Shares(self.pure or 0.0, self._given["delta"] or 0.0, 0.0)
        for share, of in (("delta", "a delta of their own"), ("ratio", "discrete noise (the ratio)")):
            if not _sum(charges, share) <= getattr(shares, share):
                return (
                    f"{name} does not fit into its share: charges with {of} have {getattr(shares, share):.6g}; shares "
                    f"are fixed before the first Gaussian charge, by Ledger(budget, {share}=…)"
                )
        left = max(shares.pure - _sum(self._charges, "pure"), 0.0)
        return (
            f"{name} does not fit into its share: pure charges have epsilon={shares.pure:.6g} of {epsilon:g}, of which "
            f"{left:.6g} is left, and Gaussian ones have the rest; shares are fixed before the first Gaussian charge, "
            f"by Ledger(budget, pure=…)"
        )

    def to_json(self) -> str:
        """Returns the ledger as text; floats survive exactly."""
        document = {
            "version": _VERSION,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "shares": self._given,
            "charges": [vars(charge) for charge in self._charges],
        }
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Returns the ledger that `to_json` wrote.

        Raises:
            ValueError: If the text is not one, or its charges exceed its budget or their shares of it. Ledgers of
                version 1 are read unless they mix pure and Gaussian charges: their rule was no filter for that. Those
                of versions 1 and 2 with Gaussian charges have no share for discrete noise.
        """
        try:
            document: Any = json.loads(text)
            version = document["version"]
            if version not in (1, 2, _VERSION):
                raise InvalidInput(f"this ledger has version {version!r}, {_VERSION} is needed")
            charges = [
                Charge(str(c["label"]), *(float(c[name]) for name in (_SHARES if version == _VERSION else _SHARES[:2])))
                for c in document["charges"]
            ]
            if version == _VERSION:
                shares = {name: document["shares"][name] for name in ("pure", "delta", "ratio")}
            else:
                shares = {"pure": document["pure"] if version == 2 else None}
                shares["ratio"] = 0.0 if _sum(charges, "mu2") > 0 else None
            ledger = cls(Budget(**document["budget"]), **shares)
        except InvalidInput:
            raise
        except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise InvalidInput(f"this is not a ledger: {type(error).__name__}") from None
        if any(not 0 <= getattr(charge, name) < math.inf for charge in charges for name in _SHARES):
            raise InvalidInput("this is not a ledger: a charge is negative or not finite")
        if version == 1 and _sum(charges, "mu2") > 0 and _sum(charges, "pure") > 0:
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


_SHARES = ("mu2", "pure", "delta", "ratio")
_OF = {"pure": "epsilon", "delta": "delta"}


def _sum(charges: Iterable[Charge], name: str) -> float:
    return math.fsum(getattr(charge, name) for charge in charges)


def _taken(event: accounting.DpEvent | Guarantee, label: str, *, convert: bool = False) -> Charge:
    """Returns what an event or a guarantee takes; its pure parts as Gaussian ones, if they are to be converted."""
    if isinstance(event, Guarantee):
        try:
            if event.notion != "none":
                return _taken(event.events, label, convert=convert)
            event = accounting.non_private()
        except Unproven:  # nothing is known but what it says
            event = accounting.ApproximateEvent(event.epsilon, event.delta)
    if isinstance(event, accounting.ApproximateEvent):
        if convert:
            return Charge(label, accounting.mu_of_pure(event.epsilon) ** 2, 0.0, event.delta)
        return Charge(label, 0.0, event.epsilon, event.delta)
    near = event if isinstance(event, discrete.NearEvent) else None
    mu2, pure = accounting.losses(event if near is None else near.event, convert=convert)
    return Charge(label, mu2, pure, ratio=0.0 if near is None else near.ratio)

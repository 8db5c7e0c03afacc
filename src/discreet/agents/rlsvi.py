"""RLSVI: randomised least-squares value iteration, whose exploration noise hides everybody's rewards.

Notation: N, M, R are the exact visits N_h(s,a), transitions N_h(s,a,s') and reward sums R_h(s,a) of the users so far,
P̂ = M/N, R̂ = R/N and both 0 where N = 0; k is one more than the number of users so far, and

    β_k = c·½·S·H³·ln(2HSAk),   c = ``noise_scale``.

After every batch it plans backwards from Ṽ_{H+1} = 0 (Algorithm 1, lines 5 to 15):

    Q̃_h(s,a) = R̂ + P̂Ṽ_{h+1} + w,   w ~ N(0, β_k/(N+1)) drawn anew,
    Ṽ_h(s) = max_a Q̃_h(s,a),   π_h(s) = argmax_a Q̃_h(s,a).

The table Q̃ is what is released: `discreet.privatizers.values` makes it, `discreet.privacy.rlsvi` proves what it gives,
and the policy is a function of it. Neighbours have the same states and actions: *rewards* are protected, nothing else.

References:
    Lu, Gajane, Bai and Talebi (2026), Algorithm 1 and Corollary 14; Osband, Van Roy, Russo and Wen (2019).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.tabular import Planned, TabularAgent
from discreet.errors import InvalidInput, UnknownName, Unproven, check_number
from discreet.privacy import Budget, Central, NonPrivate, TrustModel
from discreet.privacy.rlsvi import ACCOUNTANTS, SIGMA, Account
from discreet.privatizers.values.serve import PerturbedTables, PerturbedValues

if TYPE_CHECKING:
    from discreet.agents.rounds import Proposal
    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import Guarantee
    from discreet.privatizers.values.serve import Revealed

__all__ = ["RLSVI"]


class RLSVI(TabularAgent):
    """RLSVI (Lu et al. 2026): greedy on perturbed values. Protects rewards; states and actions are not protected.

    Args:
        spec: The environment's public facts.
        episodes: Number of users at most.
        privacy: ``Central(ε, δ)`` with δ > 0: the budget that ``noise_scale`` is solved for; or `NonPrivate`, which
            promises nothing.
        accounting: ``"tight"`` holds for the worst history; ``"paper"`` is Corollary 14; ``"individual"`` keeps an
            account of every user and leaves out those who would exceed the budget.
        noise_scale: Multiplies β_k; instead of ``privacy``, except for ``"individual"``, where it is free and by
            default that of `Account.even_scale`, below what ``"tight"`` needs.
        delta: With ``noise_scale``: the δ that ε is stated for.
        stationary: Whether counts are pooled over the steps of an episode.
        update_every: Users between two releases, or ``"geometric"``; 1 by default.
        seed: Of the perturbations.

    Guarantee:
        Joint DP for one user's rewards, replace-one. States and actions are not protected.
    """

    name = "rlsvi"
    fast = True
    protects = "rewards"

    def __init__(
        self,
        spec: Spec,
        *,
        episodes: int,
        privacy: TrustModel | None = None,
        accounting: str = "tight",
        noise_scale: float | None = None,
        delta: float | None = None,
        stationary: bool = False,
        update_every: int | str | None = None,
        seed: Seed = None,
    ) -> None:
        if accounting not in ACCOUNTANTS:
            raise UnknownName("accounting", accounting, ACCOUNTANTS)
        self.accounting = accounting
        self.delta = delta
        if noise_scale is not None:
            check_number("noise_scale", noise_scale, above=True)
        self._given: dict[str, Any] = {
            "privacy": privacy,
            "accounting": accounting,
            "noise_scale": noise_scale,
            "delta": delta,
        }
        super().__init__(
            spec, episodes=episodes, privacy=privacy, stationary=stationary, update_every=update_every, seed=seed
        )

    @property
    def options(self) -> dict[str, Any]:
        """What `discreet.agents.make` was given."""
        return {**self._given, "stationary": self.stationary, "update_every": self.schedule.update_every}

    @property
    def resolved(self) -> dict[str, Any]:
        """As for all agents, with the noise scale that was solved for."""
        return {**super().resolved, "noise_scale": self.noise_scale}

    def _trust(self, privacy: TrustModel | None) -> TrustModel | None:
        """Returns the trust model, if anything can be proven for it; None if epsilon follows from the noise scale."""
        given = self._given["noise_scale"] is not None
        if self.accounting == "individual" and (privacy is None or isinstance(privacy, NonPrivate)):
            raise InvalidInput(
                "accounting='individual' keeps to a budget: it needs privacy=Central(epsilon, delta), "
                f"got privacy={privacy!r}"
            )
        if privacy is None:
            if not given or self.delta is None:
                raise InvalidInput(
                    "rlsvi needs privacy=Central(epsilon, delta), for which noise_scale is solved, or noise_scale with "
                    f"delta, from which epsilon follows; got noise_scale={self._given['noise_scale']!r}, "
                    f"delta={self.delta!r}"
                )
            self._check_delta(Budget(1.0, self.delta).delta)
            return None
        if self.delta is not None:
            raise InvalidInput(f"delta goes with noise_scale and without privacy, got delta={self.delta!r}")
        if isinstance(privacy, NonPrivate):
            return privacy
        if not isinstance(privacy, Central):
            raise InvalidInput(
                "rlsvi's server is trusted with raw data and releases perturbed values: privacy must be "
                f"Central(epsilon, delta), got {type(privacy).__name__}"
            )
        self._check_delta(privacy.delta)
        for field in dataclasses.fields(privacy):
            value = getattr(privacy, field.name)
            if field.name not in ("epsilon", "delta", "noise") and value != field.default:
                raise InvalidInput(
                    f"rlsvi releases values with Gaussian noise, and no sums: {field.name} must be {field.default!r}, "
                    f"got {field.name}={value!r}"
                )
        if given and self.accounting != "individual":
            raise InvalidInput(
                f"accounting={self.accounting!r} solves noise_scale for privacy, or epsilon follows from noise_scale: "
                f"they cannot both be given, got noise_scale={self._given['noise_scale']!r}"
            )
        return privacy

    @staticmethod
    def _check_delta(delta: float) -> None:
        if delta == 0:
            raise InvalidInput("rlsvi's noise is Gaussian and needs delta > 0, got delta=0.0")

    def _build(self) -> PerturbedTables:
        """Returns what is released, with the noise scale solved for the budget."""
        if self.accounting == "paper" and self.stationary:
            raise Unproven("accounting='paper' is Corollary 14, for counts per step: stationary must be False")
        spec, privacy, scale = self.spec, self.privacy, self._given["noise_scale"]
        users = np.cumsum(self.batches or [self.schedule.batch_size(0)])
        exact = isinstance(privacy, Central) and privacy.noise == "secure"
        self.account = Account(spec.states, spec.actions, spec.horizon, users, self.stationary, exact)
        budget = None
        if isinstance(privacy, Central):
            scale = self._solved(privacy.budget) if scale is None else scale
            if self.accounting == "individual":
                budget = self.account.filter_budget(privacy.budget)
        return PerturbedTables(
            spec,
            capacity=self.episodes,
            releases=len(users),
            stationary=self.stationary,
            scale=1.0 if scale is None else float(scale),
            promise=self._promise,
            budget=budget,
            sigma=SIGMA if exact else None,
        )

    @property
    def mechanism(self) -> PerturbedTables:
        """What releases the perturbed values."""
        found: PerturbedTables = self.privatizer.mechanism  # type: ignore[assignment]
        return found

    @property
    def noise_scale(self) -> float:
        """Multiplies β_k: what was given or solved for."""
        return self.mechanism.scale

    def _promise(self, scale: float, budget: float | None) -> Guarantee:
        """Returns what is proven with this noise scale and filter."""
        if isinstance(self.privacy, NonPrivate):
            return self.privacy.guarantee
        delta = self.privacy.delta if isinstance(self.privacy, Central) else self.delta
        assert delta is not None
        return self.account.guarantee(self.accounting, scale, float(delta), budget)

    def _solved(self, budget: Budget) -> float:
        """Returns the noise scale for a budget, from public sizes alone."""
        if self.accounting == "paper":
            return self.account.paper_scale(budget)
        return self.account.even_scale(budget) if self.accounting == "individual" else self.account.tight_scale(budget)

    def _start(self, first: PerturbedValues, size: int, rng: np.random.Generator) -> tuple[Planned, Proposal]:  # type: ignore[override]
        return self._learn(self._blank(), first, 0, size, rng)

    def _learn(  # type: ignore[override]
        self, state: Planned, released: PerturbedValues, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Planned, Proposal]:
        """Computes V and the policy from the released Q̃: lines 14 and 15."""
        Q, V = released.values, np.zeros_like(state.V)
        V[:-1] = Q.max(axis=2)
        planned = Planned(Q, V, Q.argmax(axis=2))  # the first of equal actions
        return planned, planned.proposal(size)

    def reveal_losses(self) -> Revealed:
        """Returns what every user has lost so far and who was dropped, under ``individual``.

        This *reveals states*: N, and with it everybody's loss, depends on where people were. It is a diagnostic of a
        simulation, is never stored, and must never be released.
        """
        if self.accounting != "individual":
            raise InvalidInput(f"only accounting='individual' follows every user, got accounting={self.accounting!r}")
        return self.mechanism.reveal(self.privatizer.reveal())

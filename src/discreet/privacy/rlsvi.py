"""What RLSVI's own exploration noise proves about the rewards: three accountants of one mechanism.

A release is a table Q̃_h(s,a) = R̂ + P̂Ṽ_{h+1} + w, w ~ N(0, β_k/(N+1)), computed from the last step to the first. Two
inputs are neighbours if one user's rewards differ, in [0, 1], and all states and actions are the same: so N, P̂ and,
given Q̃_{h+1}, the term P̂Ṽ_{h+1} are equal, and only R̂ moves. Step by step this is an adaptive composition of
Gaussian mechanisms, and exactly so: μ² = (shift)²·(N+1)/β_k adds up over cells, steps and releases, whatever was chosen
in the light of earlier releases (Dong, Roth and Su 2022). In Rényi's currency ρ = μ²/2.

*Per step.* At each step the user is in one cell, whose mean moves by at most 1/N: μ² = (N+1)/(β_k·N²). N counts the
user, so N ≥ 1, where this is largest: 2/β_k a step, 2H/β_k a release. (The paper's Lemma 12 sums over all S·A cells.)

*Pooled over h* (``stationary``). A cell that the user visits c times moves by at most c/N at every h, and every h draws
a w of its own: μ² = H·Σ_cells c²(N+1)/(β_k·N²) with N ≥ c, so at most H·Σ(c+1)/β_k. The c add up to H and at most
min(H, S·A) of them are positive: H·(H + min(H, S·A))/β_k a release, which is 2H²/β_k if S·A ≥ H.

*Individual.* A filter follows every user with the N that occurred and leaves out whoever would exceed the budget, so
any noise scale will do. `Account.even_scale` is the default: where people share cells it is far below what the worst
history needs, and few are left out.

*Integers.* With secure noise a release is, of every cell, y = ⌊R̂·σ₀/s⌋ + z with s = √(β_k/(N+1)), z discrete Gaussian
of standard deviation σ₀ = 2³⁴, and Q̃ = y·s/σ₀ + P̂Ṽ is computed from it. A cell that the user is in moves by at most
its shift and one unit for the floor (1.01 with the rounding of floats): μ₀ = (μ·σ₀ + 1.01·√entries)/√(σ₀² − r²) takes
the place of μ (`discreet.privacy.discrete`), where entries counts the user's cells in all releases. The filter charges
the same 1.01.

*Releases.* k is one more than the number of users so far. The first policy is pure noise. The first user is in every
other one, and nobody is in more: that includes the one after the last batch, which anybody may read.

References:
    Lu, Gajane, Bai and Talebi (2026), Algorithm 1, Lemmas 11 and 12, Corollary 14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy import accounting, discrete
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from discreet.privacy.budget import Budget

__all__ = ["ACCOUNTANTS", "SIGMA", "Account", "beta"]

#: How the loss is counted: by the paper's Corollary 14, for the worst history, or person by person as they go.
ACCOUNTANTS = ("paper", "tight", "individual")
#: Standard deviation of discrete noise, in units of what is released.
SIGMA = 2**34

_TOO_SMALL = "epsilon is too small for noise='secure' with so many releases, got epsilon={!r}"
_NEIGHBOURS = "neighbours differ in rewards only: states and actions are not protected"


def beta(states: int, actions: int, horizon: int, k: ArrayLike) -> NDArray[np.float64]:
    """Returns β_k = ½·S·H³·ln(2HSAk), the variance of the perturbation where nobody has been."""
    S, A, H = states, actions, horizon
    return np.asarray(0.5 * S * H**3 * np.log(2.0 * H * S * A * np.asarray(k, dtype=np.float64)))


@dataclass(frozen=True, eq=False)
class Account:
    """The account of all releases of one agent, from public sizes alone.

    Attributes:
        states: S.
        actions: A.
        horizon: H.
        users: How many users have been observed at each release, in order.
        stationary: Whether counts are pooled over the steps.
        exact: Whether integers are released, with discrete noise.
    """

    states: int
    actions: int
    horizon: int
    users: NDArray[np.int64]
    stationary: bool = False
    exact: bool = False

    @property
    def entries(self) -> int:
        """In how many cells of all releases a user can be."""
        H = self.horizon
        return len(self.users) * (H * min(H, self.states * self.actions) if self.stationary else H)

    def _rounded(self, mu: float) -> float:
        """Returns μ₀ for μ; μ itself if noise is continuous."""
        if not self.exact:
            return mu
        left = math.sqrt(SIGMA * SIGMA - discrete.rounding_variance(self.entries))
        return (mu * SIGMA + 1.01 * math.sqrt(self.entries)) / left * (1 + 1e-12)

    def _most(self, budget: Budget) -> float:
        """Returns the largest μ that keeps to a budget; for integers, the largest whose μ₀ does."""
        if not self.exact:
            return accounting.gaussian_mu(budget.epsilon, budget.delta)
        most = accounting.gaussian_mu(budget.epsilon - discrete.NEAR, budget.delta * (1 - discrete.NEAR))
        zero, one = self._rounded(0.0), self._rounded(1.0)
        found = (most - zero) / (one - zero) * (1 - 1e-9)
        if found <= 0:
            raise InvalidInput(_TOO_SMALL.format(budget.epsilon))
        return found

    def filter_budget(self, budget: Budget) -> float:
        """Returns the μ² that the filter keeps to: rounding is charged there."""
        if not self.exact:
            return accounting.gaussian_mu(budget.epsilon, budget.delta) ** 2
        most = accounting.gaussian_mu(budget.epsilon - discrete.NEAR, budget.delta * (1 - discrete.NEAR))
        return (most * math.sqrt(1 - discrete.rounding_variance(self.entries) / SIGMA**2)) ** 2 * (1 - 1e-12)

    @property
    def worst(self) -> float:
        """The largest β_k·μ² of a release: twice the steps, or what they are pooled to."""
        H, cells = self.horizon, self.states * self.actions
        return float(H * (H + min(H, cells))) if self.stationary else 2.0 * H

    @cached_property
    def tight_mu2(self) -> float:
        """Σ μ² of the worst user of all releases, at noise scale 1."""
        return math.fsum(self.worst / beta(self.states, self.actions, self.horizon, self.users + 1))

    @cached_property
    def even_mu2(self) -> float:
        """Σ μ² of the first user, at noise scale 1, if everybody's visits were spread evenly over the S·A cells.

        With n users a cell has N = n/(S·A) visits, or N = n·H/(S·A) if pooled, and never fewer than the user's own c.
        """
        H, cells = self.horizon, self.states * self.actions
        c = max(1.0, H / cells) if self.stationary else 1.0
        N = np.maximum(c, self.users * (H if self.stationary else 1) / cells)
        worst = H * (H * c if self.stationary else 1.0) * (N + 1) / N**2
        return math.fsum(worst / beta(self.states, self.actions, H, self.users + 1))

    @property
    def paper_rho(self) -> float:
        """Lemma 12's Rényi loss a unit of α, at noise scale 1: 2AK/(H²·ln(2HSA)), K counting the releases."""
        S, A, H = self.states, self.actions, self.horizon
        return 2 * A * len(self.users) / (H**2 * math.log(2 * H * S * A))

    def tight_epsilon(self, scale: float, delta: float) -> float:
        """Returns the ε of the worst user: exact Gaussian composition."""
        return accounting.epsilon(self._event(self._rounded(math.sqrt(self.tight_mu2 / scale))), delta)

    def _event(self, mu: float) -> accounting.DpEvent:
        """Returns the event of μ-GDP, or of integers nearly that."""
        event = accounting.gaussian(1 / mu)
        return discrete.near(event, self.entries) if self.exact else event

    def paper_epsilon(self, scale: float, delta: float) -> float:
        """Returns Corollary 14's ε."""
        rho = self._rho(scale)
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))

    def _rho(self, scale: float) -> float:
        """Returns Lemma 12's loss at a noise scale; integers move by one more an entry, and lose no more than that."""
        rho = self.paper_rho / scale
        if self.exact:  # discrete Gaussian noise is ½(Δ/σ)²-concentrated (Canonne, Kamath and Steinke 2020)
            rho = (math.sqrt(2 * rho) + 1.01 * math.sqrt(self.entries) / SIGMA) ** 2 / 2
        return rho

    def tight_scale(self, budget: Budget) -> float:
        """Returns the smallest noise scale with which `tight_epsilon` is within the budget."""
        return self.tight_mu2 / self._most(budget) ** 2

    def even_scale(self, budget: Budget) -> float:
        """Returns the noise scale at which evenly spread users use up the budget: at most that of `tight_scale`."""
        return self.even_mu2 / self._most(budget) ** 2

    def paper_scale(self, budget: Budget) -> float:
        """Returns the smallest noise scale with which `paper_epsilon` is within the budget: a quadratic in √ρ."""
        log = math.log(1 / budget.delta)
        root = budget.epsilon / (math.sqrt(log) + math.sqrt(log + budget.epsilon))  # √ρ, without cancellation
        if self.exact:
            root -= 1.01 * math.sqrt(self.entries / 2) / SIGMA
            if root <= 0:
                raise InvalidInput(_TOO_SMALL.format(budget.epsilon))
        return self.paper_rho / root**2 * (1 + 1e-12)  # and so rounded up

    def guarantee(self, accountant: str, scale: float, delta: float, budget: float | None = None) -> Guarantee:
        """Returns what is proven for all releases at a noise scale; with a filter, for the μ² that it keeps to."""
        if accountant == "paper":
            event, epsilon = accounting.zero_concentrated(self._rho(scale)), self.paper_epsilon(scale, delta)
        else:
            if budget is None:
                event = self._event(self._rounded(math.sqrt(self.tight_mu2 / scale)))
            elif self.exact:  # the filter has charged for rounding
                shrunk = math.sqrt(1 - discrete.rounding_variance(self.entries) / SIGMA**2)
                event = self._event(math.sqrt(budget) / shrunk)
            else:
                event = accounting.gaussian(1 / math.sqrt(budget))
            epsilon = accounting.epsilon(event, delta)
        return Guarantee(
            "joint", epsilon, delta, protects="rewards", noise="fast", assumptions=(_NEIGHBOURS,), events=event
        )

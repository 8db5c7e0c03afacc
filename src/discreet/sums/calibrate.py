"""How much noise a budget needs: neither less nor more."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput, UnknownName, check_integer
from discreet.privacy import accounting
from discreet.privacy.trust import SUMS
from discreet.sums import optimal
from discreet.sums.base import NoisySum
from discreet.sums.private import PrivateSum
from discreet.sums.secure import Grid, secure_sum

if TYPE_CHECKING:
    import numpy as np

    from discreet.noise import Distribution, Source
    from discreet.privacy import Budget
    from discreet.privacy.sensitivity import Sensitivity, UserBound
    from discreet.sums.factorisation import Factorisation

__all__ = ["CENTRAL", "calibrated", "central", "factorise", "noise_scale", "proven", "quietest", "worst_std"]


def central() -> dict[str, type[Factorisation]]:
    """Returns the central sums by name: ours, and those that other packages registered."""
    return {name: SUMS[name] for name in SUMS if SUMS.entry(name).facts["trust"] == "central"}


#: The names of ours.
CENTRAL: tuple[str, ...] = tuple(name for name in SUMS if SUMS.entry(name).facts["trust"] == "central")


def factorise(name: str, horizon: int, delta: float) -> Factorisation:
    """Returns the factorisation of a central sum, with Laplace noise for δ = 0 and Gaussian noise for δ > 0.

    Raises:
        ValueError: If the name is unknown, or the sum has no noise that is proven for this δ.
    """
    kinds = central()
    if name not in kinds:
        raise UnknownName("sum", name, (*kinds, "auto"))
    kind = kinds[name]
    distribution: Distribution = "gaussian" if delta > 0 else "laplace"
    if distribution not in kind.distributions:
        others = ", ".join(other for other, found in kinds.items() if distribution in found.distributions)
        raise InvalidInput(
            f"sum='{name}' has Gaussian noise only and needs delta > 0, got delta={delta!r}; try {others}"
        )
    return kind(check_integer("horizon", horizon), distribution)


def noise_scale(shape: Factorisation, sensitivity: Sensitivity, budget: Budget) -> float:
    """Returns the smallest scale whose proven ε is at most the budget's.

    Laplace: pure composition over the entries, b = k·c·Δ₁/ε. Gaussian: exactly μ-GDP with μ = c·√k·Δ₂/σ.
    """
    weight, entries = shape.entries
    if shape.distribution == "gaussian":
        mu = accounting.gaussian_mu(budget.epsilon, budget.delta)
        return weight * math.sqrt(entries) * sensitivity.l2 / mu
    return weight * entries * sensitivity.l1 / budget.epsilon * (1 + 1e-12)


def proven(
    name: str,
    size: int,
    *,
    capacity: int,
    horizon: int,
    sensitivity: Sensitivity,
    budget: Budget,
    bound: UserBound | None = None,
    grid: Grid | None = None,
) -> NoisySum:
    """Returns a sum whose proven ε is the budget's, to within rounding and never above it: with a grid, in integers."""
    shape = factorise(name, horizon, budget.delta)
    scale = noise_scale(shape, sensitivity, budget)
    if grid is not None:
        given: dict[str, Any] = {"scale": scale, "sensitivity": sensitivity, "bound": bound, "budget": budget}
        return secure_sum(shape, size, capacity=capacity, grid=grid, **given)
    return NoisySum(shape, size, capacity=capacity, scale=scale, sensitivity=sensitivity, bound=bound)


def calibrated(
    name: str,
    size: int,
    *,
    capacity: int,
    horizon: int,
    sensitivity: Sensitivity,
    budget: Budget,
    rng: Source | np.random.Generator,
    bound: UserBound | None = None,
) -> PrivateSum:
    """Returns the same as `proven`, with its state in memory."""
    shape = factorise(name, horizon, budget.delta)
    scale = noise_scale(shape, sensitivity, budget)
    return PrivateSum(shape, size, capacity=capacity, scale=scale, sensitivity=sensitivity, rng=rng, bound=bound)


def worst_std(name: str, horizon: int, sensitivity: Sensitivity, budget: Budget) -> float:
    """Returns the largest standard deviation of the noise in any read of a calibrated sum."""
    shape = factorise(name, horizon, budget.delta)
    unit = noise_scale(shape, sensitivity, budget) * (1 if shape.distribution == "gaussian" else math.sqrt(2))
    return unit * math.sqrt(shape.worst_variance)


def quietest(horizon: int, sensitivity: Sensitivity, *budgets: Budget, size: int = 1) -> tuple[str, Budget]:
    """Returns the sum with the least noise in its worst read, and the budget of ``budgets`` that it is proven for.

    Sums that would take gigabytes for ``size`` coordinates are left out.
    """
    found: list[tuple[float, int, str, Budget]] = []
    for i, budget in enumerate(budgets):
        for name in central():
            if name == "optimal" and horizon * size > optimal.MOST_DRAWS:
                continue  # it keeps the draws of all reads
            with contextlib.suppress(InvalidInput):  # not proven for this δ, or not for so many reads
                found.append((worst_std(name, horizon, sensitivity, budget), i, name, budget))
    return min(found)[2:]

"""Central privacy: the server is trusted with raw reports; what it releases is private."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, check_fraction, check_integer
from discreet.privacy import Budget, Guarantee, Sensitivity, accounting
from discreet.privacy.sensitivity import UserBound, tabular, tabular_user
from discreet.privatizers.base import Collector, PrivateCounts, RawServer
from discreet.privatizers.encoders import RawEncoder
from discreet.privatizers.layout import Layout
from discreet.sums import PrivateSum, calibrated, factorise, quietest

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import Central

__all__ = ["CentralPrivatizer", "CentralServer", "choose_sum", "paper_scale"]


def choose_sum(privacy: Central, horizon: int, sensitivity: Sensitivity, size: int = 1) -> tuple[str, Budget]:
    """Returns the sum that ``privacy`` names and the budget it is calibrated for.

    For ``"auto"`` the sum with the least noise in its worst read: with Gaussian noise for δ > 0, or with Laplace
    noise, which is proven for δ = 0 and thus for any δ.
    """
    if privacy.calibration == "paper":
        return ("tree" if privacy.sum == "auto" else privacy.sum), Budget(privacy.epsilon)
    if privacy.sum != "auto":
        return privacy.sum, privacy.budget
    return quietest(horizon, sensitivity, *dict.fromkeys((privacy.budget, Budget(privacy.epsilon))), size=size)


def paper_scale(epsilon: float, steps: int, reads: int) -> float:
    """Returns the printed Laplace scale a node, 3H·log₂K/ε (the paper's log taken as log₂).

    References:
        Qiao and Wang (2023), Section 5.1 (1) and (3); Vietri et al. (2020), Section 4.
    """
    if reads < 2:
        raise InvalidInput(f"calibration='paper' divides by log K and needs at least 2 reads, got {reads}")
    return 3 * steps * math.log2(reads) / epsilon


class CentralServer(RawServer):
    """What all central privatizers share: a private sum, and what is proven for its reads."""

    sum: PrivateSum
    privacy: Central

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for the reads of this privatizer."""
        delta = self.privacy.delta if self.sum.distribution == "gaussian" else 0.0
        return Guarantee("joint", accounting.epsilon(self.sum.event, delta), delta, noise="fast", events=self.sum.event)

    @property
    def name(self) -> str:
        """The sum's."""
        return self.sum.name

    @property
    def noise(self) -> str:
        """Its distribution."""
        return self.sum.distribution

    @property
    def fresh_std(self) -> float:
        """Standard deviation of one draw of noise."""
        return self.sum.fresh_std

    @property
    def worst_std(self) -> float:
        """Standard deviation of the noise in a count, at the noisiest read."""
        return self.sum.worst_std


class CentralPrivatizer(CentralServer):
    """Sums raw reports and releases the sums with noise.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        capacity: Number of users at most.
        horizon: Number of reads, that is of batches, at most.
        stationary: Whether counts are pooled over the steps.
        failure: Probability with which `counts().error` may fail.
        rng: Where the noise comes from.
        layout: Of the counts, if it is not the usual one.

    Guarantee:
        ``guarantee``: joint DP for one user's whole trajectory, replace-one, computed from the sum's event. The reads
        are DP as a function of all users, adaptively: the sensitivity bound holds for every history, a batch's policy
        is fixed before it, and reads before a batch do not depend on it. What each user is shown is a function of the
        reads and their own data, so the billboard lemma gives joint DP.
    """

    def __init__(
        self,
        spec: Spec,
        privacy: Central,
        *,
        capacity: int,
        horizon: int,
        stationary: bool,
        failure: float = 0.05,
        rng: np.random.Generator,
        layout: Layout | None = None,
    ) -> None:
        check_integer("horizon", horizon)
        if privacy.release == "weighted":
            raise InvalidInput(
                "release='weighted' is for discreet-vi: weights are not visits, which the bounds of other agents count"
            )
        self.privacy = privacy
        self.failure = check_fraction("failure", failure)
        self.layout = layout or Layout(spec, stationary, visits=privacy.release != "mr")
        released = (self.layout.counted, self.layout.families)
        sensitivity = tabular(*released, stationary=self.layout.stationary)
        bound = tabular_user(*released, stationary=self.layout.stationary)
        name, budget = choose_sum(privacy, horizon, sensitivity, self.layout.size)
        if privacy.calibration == "paper":
            self.sum = self._printed(name, capacity, horizon, sensitivity, rng, bound)
        else:
            self.sum = calibrated(
                name,
                self.layout.size,
                capacity=capacity,
                horizon=horizon,
                sensitivity=sensitivity,
                budget=budget,
                rng=rng,
                bound=bound,
            )
        self.encoder = RawEncoder(self.layout)
        self.shuffler = Collector()

    def _printed(
        self,
        name: str,
        capacity: int,
        horizon: int,
        sensitivity: Sensitivity,
        rng: np.random.Generator,
        bound: UserBound,
    ) -> PrivateSum:
        """The paper's noise, with the event that it really has."""
        if name != "tree" or not self.layout.visits:
            asked = f"sum={name!r}, release={self.privacy.release!r}"
            raise InvalidInput(
                f"calibration='paper' is printed for the central Laplace sum='tree' with release='nmr', got {asked}"
            )
        return PrivateSum(
            factorise("tree", horizon, 0.0),
            self.layout.size,
            capacity=capacity,
            scale=paper_scale(self.privacy.epsilon, self.layout.spec.horizon, horizon),
            sensitivity=sensitivity,
            rng=rng,
            bound=bound,
        )

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this."""
        return self.sum.error_bound(self.failure, groups=self._groups)

    @property
    def _groups(self) -> tuple[tuple[int, int], ...]:
        """What the error bound covers: every released coordinate, and derived visits (sums of S transitions)."""
        single = ((self.layout.size, 1),)
        return single if self.layout.visits else (*single, (self.layout.cells, self.layout.spec.states))

    def counts(self) -> PrivateCounts:
        """Ends the batch and returns what is released; zeros before anybody has been collected."""
        vector = self.sum.read() if self.sum.readable else np.zeros(self.layout.size)
        return PrivateCounts(*self.layout.split(vector), self.error)

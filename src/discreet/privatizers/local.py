"""Local privacy: every user hides their own data; the server only adds up and debiases."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, UnknownName, check_fraction, check_integer
from discreet.privacy import (
    Batch,
    Guarantee,
    NoisyBatch,
    NoisyReport,
    SampledBatch,
    SampledReport,
    Sensitivity,
    accounting,
)
from discreet.privacy.sensitivity import tabular
from discreet.privatizers.base import PrivateCounts, Shuffler, check_reports
from discreet.privatizers.encoders import NoisyEncoder, SampledEncoder
from discreet.privatizers.layout import Layout
from discreet.privatizers.randomisers import MOST, Randomiser, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise.fast import Distribution
    from discreet.privacy import Local

__all__ = ["LOCAL", "LocalPrivatizer", "NoisyLocal", "NoisyServer", "SampledLocal", "make_local"]

#: The local sums.
LOCAL: tuple[str, ...] = ("laplace", "gaussian", "sampled", "questions")


class NoisyCollector(Shuffler[NoisyReport, NoisyBatch]):
    """Collects noisy vectors, in order: each is private by itself."""

    def __call__(self, reports: Sequence[NoisyReport], rng: np.random.Generator | None = None) -> NoisyBatch:
        """Returns the reports, one row each."""
        check_reports(reports, NoisyReport)
        return NoisyBatch(np.stack([report.values for report in reports]))


class SampledCollector(Shuffler[SampledReport, SampledBatch]):
    """Collects randomised answers, in order: each is private by itself."""

    def __call__(self, reports: Sequence[SampledReport], rng: np.random.Generator | None = None) -> SampledBatch:
        """Returns the reports, one row each."""
        check_reports(reports, SampledReport)
        return SampledBatch(
            np.array([report.step for report in reports]), np.stack([report.support for report in reports])
        )


class LocalPrivatizer:
    """What all local privatizers share: at the server nothing is raw.

    Guarantee:
        ``guarantee``: local DP of every report, computed from what the encoder really does. Whatever the server does
        with the reports is post-processing.
    """

    _changes: ClassVar[tuple[str, ...]]

    def __init__(self, layout: Layout, privacy: Local, capacity: int, failure: float) -> None:
        self.layout = layout
        self.privacy = privacy
        self.capacity = check_integer("capacity", capacity)
        self.failure = check_fraction("failure", failure)
        self.count = 0

    @property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of what one user adds to the error of a count of each family."""
        raise NotImplementedError

    @property
    def fresh_std(self) -> float:
        """Standard deviation of what one user adds to the error of a transition count."""
        return self.user_std["transitions"]

    @property
    def worst_std(self) -> float:
        """Standard deviation of the noise in a transition count, after the last user."""
        return self.fresh_std * math.sqrt(self.capacity)

    def _guarantee(self, event: accounting.DpEvent, delta: float) -> Guarantee:
        return Guarantee("local", accounting.epsilon(event, delta), delta, noise="fast", events=event)

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes, by name."""
        return {name: copy.copy(getattr(self, name)) for name in self._changes}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`."""
        for name in self._changes:
            setattr(self, name, state[name])

    def _admit(self, batch: Batch, kind: type[Batch]) -> None:
        """Refuses what is no batch of this kind, and more users than the capacity."""
        if not isinstance(batch, kind):
            raise TypeError(f"expected a {kind.__name__}, got {type(batch).__name__}")
        if self.count + batch.users > self.capacity:
            raise CapacityExceeded(
                f"this privatizer holds {self.capacity} users: {self.count} are in it, got {batch.users} more"
            )


class NoisyServer(LocalPrivatizer):
    """What all privatizers share whose users add noise to their whole vector: the server adds the vectors up."""

    _changes = ("count", "_total")
    encoder: NoisyEncoder

    def __init__(self, layout: Layout, privacy: Local, capacity: int, failure: float, sensitivity: Sensitivity) -> None:
        super().__init__(layout, privacy, capacity, failure)
        self._sensitivity = sensitivity
        self._total = np.zeros(layout.size)

    @property
    def name(self) -> str:
        """The sum's."""
        return self.encoder.distribution

    @property
    def noise(self) -> str:
        """Its distribution."""
        return self.encoder.distribution

    @property
    def guarantee(self) -> Guarantee:
        """Local DP of a report."""
        if self.encoder.distribution == "laplace":
            return self._guarantee(accounting.laplace(self.encoder.scale / self._sensitivity.l1), 0.0)
        return self._guarantee(accounting.gaussian(self.encoder.scale / self._sensitivity.l2), self.privacy.delta)

    def collect(self, batch: NoisyBatch) -> None:
        """Adds up the vectors; nothing changes if an error is raised."""
        self._admit(batch, NoisyBatch)
        if batch.values.shape != (batch.users, self.layout.size) or not np.isfinite(batch.values).all():
            raise InvalidInput(f"reports must have {self.layout.size} finite values")
        self._total += batch.values.sum(axis=0)
        self.count += batch.users


class NoisyLocal(NoisyServer):
    """Every user adds Laplace or Gaussian noise to their whole vector (DP-UCBVI, Section 5.2)."""

    def __init__(
        self, layout: Layout, privacy: Local, capacity: int, failure: float, distribution: Distribution
    ) -> None:
        sensitivity = tabular(layout.spec.horizon, layout.families, stationary=layout.stationary)
        super().__init__(layout, privacy, capacity, failure, sensitivity)
        if privacy.calibration == "paper":
            if distribution != "laplace":
                raise InvalidInput(f"calibration='paper' is printed for local sum='laplace', got sum={distribution!r}")
            scale = 3 * layout.spec.horizon / privacy.epsilon  # Section 5.2: Lap(3H/ε)
        elif distribution == "laplace":
            scale = sensitivity.l1 / privacy.epsilon * (1 + 1e-12)
        else:
            scale = sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta)
        self.encoder = NoisyEncoder(layout, distribution, scale)
        self.shuffler = NoisyCollector()

    @property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of the noise that one user adds to a count of each family."""
        unit = self.encoder.scale * (math.sqrt(2) if self.encoder.distribution == "laplace" else 1.0)
        return dict.fromkeys(("visits", "transitions", "rewards"), unit)

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        The noise of a count is a sum of independent symmetric terms, so by Lévy's inequality its largest absolute
        value over all reads exceeds x with at most twice the probability that it does after the last user.
        """
        from scipy.optimize import brentq

        from discreet.sums.tails import exceedances

        scale, size = self.encoder.scale, self.layout.size
        users = np.array([float(self.capacity)])

        def excess(x: float) -> float:
            tail = exceedances(self.encoder.distribution, x / scale, users, np.array([2.0 * size]))
            return tail - math.log(self.failure)

        high = scale * math.sqrt(2 * self.capacity)
        while excess(high) > 0:
            high *= 2
        return float(brentq(excess, 0.0, high, rtol=1e-9))

    def counts(self) -> PrivateCounts:
        """Returns the sums of the noisy vectors."""
        return PrivateCounts(*self.layout.split(self._total.copy()), self.error)


class SampledLocal(LocalPrivatizer):
    """Every user answers about one step through a randomiser; the server debiases."""

    _changes = ("count", "_supports", "_users")

    def __init__(self, layout: Layout, privacy: Local, capacity: int, failure: float) -> None:
        super().__init__(layout, privacy, capacity, failure)
        if privacy.calibration == "paper":
            raise InvalidInput("calibration='paper' is printed for local sum='laplace', got sum='sampled'")
        size = SampledEncoder.values(layout.spec)
        self.encoder = SampledEncoder(layout, choose(privacy.randomiser, privacy.epsilon, size))
        self.shuffler = SampledCollector()
        self._supports = np.zeros((layout.steps, size))
        self._users = np.zeros(layout.steps)

    name = "sampled"

    @property
    def noise(self) -> str:
        """How an answer is hidden."""
        return self.encoder.randomiser.name

    @property
    def guarantee(self) -> Guarantee:
        """Pure local DP of a report."""
        return self._guarantee(accounting.pure(self.encoder.randomiser.loss), 0.0)

    @property
    def _widths(self) -> dict[str, int]:
        """How many values each count adds up."""
        S = self.layout.spec.states
        return {"visits": 2 * S, "transitions": 2, "rewards": S}

    def _variance(self, width: int, *, holds: bool) -> float:
        """A bound on the variance of one user's error in a count of ``width`` values.

        The debiased answer about step h is D with mean x (whether the value occurred) and variance v. Per step the user
        contributes H·1{h sampled}·D, with variance H(v + x²) − x². Pooled, H·D about a random step, with variance
        H²(v + f(1 − f)) where f is the share of steps with the value: at most H²(v + ¼), and H²v if it never occurs.
        """
        H, v = self.layout.spec.horizon, self.encoder.randomiser.variance(width, holds=holds)
        if self.layout.stationary:
            return H * H * (v + holds / 4)
        return H * (v + holds) - holds

    @property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of one user's error in a count that they do not contribute to."""
        return {name: math.sqrt(self._variance(width, holds=False)) for name, width in self._widths.items()}

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count is ever further from the truth than this.

        Users' data depends on earlier reads, so a count's error is a martingale in the users, with increments of at
        most b and conditional variances of at most v: Freedman's inequality bounds all reads at once by
        2·exp(−x²/(2(Kv + bx/3))), and a union covers the counts.
        """
        H, cells, S = self.layout.spec.horizon, self.layout.cells, self.layout.spec.states
        p, q = self.encoder.randomiser.probabilities
        numbers = {"visits": cells, "transitions": cells * S, "rewards": cells}
        total = sum(numbers.values())
        worst = 0.0
        for width in self._widths.values():
            v = self.capacity * max(self._variance(width, holds=holds) for holds in (False, True))
            largest = min(width, self._most(width))
            b = H * (max(largest * (1 - q), width * q) / (p - q) + 1)
            log = math.log(2 * total / self.failure)
            worst = max(worst, b * log / 3 + math.sqrt((b * log / 3) ** 2 + 2 * v * log))  # solves the equality
        return worst

    def _most(self, width: int) -> int:
        """How many of ``width`` values a report can contain."""
        chosen = getattr(self.encoder.randomiser, "chosen", width)
        return int(min(width, chosen))

    def collect(self, batch: SampledBatch) -> None:
        """Counts the answers; nothing changes if an error is raised."""
        self._admit(batch, SampledBatch)
        size = self._supports.shape[1]
        whole = batch.steps.dtype.kind in "iu" and batch.support.dtype == np.bool_
        known = whole and np.isin(batch.steps, np.arange(self.layout.steps)).all()
        if batch.support.shape != (batch.users, size) or not known:
            raise InvalidInput(f"reports must have {size} bits about one of {self.layout.steps} steps")
        np.add.at(self._supports, batch.steps, batch.support)
        self._users += np.bincount(batch.steps, minlength=self.layout.steps)
        self.count += batch.users

    def counts(self) -> PrivateCounts:
        """Returns the debiased counts: transitions, and visits and rewards as their marginals."""
        p, q = self.encoder.randomiser.probabilities
        spec = self.layout.spec
        joint: NDArray[np.float64] = spec.horizon * (self._supports - self._users[:, None] * q) / (p - q)
        joint = joint.reshape(self.layout.steps, spec.states, spec.actions, spec.states, 2)
        transitions = joint.sum(axis=4)
        return PrivateCounts(transitions.sum(axis=3), transitions, joint[..., 1].sum(axis=3), self.error)


def _least(layout: Layout, privacy: Local) -> str:
    """Returns the local sum with the least noise a user in a transition count, among those proven for the budget."""
    sensitivity = tabular(layout.spec.horizon, layout.families, stationary=layout.stationary)
    H, variances = layout.spec.horizon, {"laplace": 2 * (sensitivity.l1 / privacy.epsilon) ** 2}
    if privacy.epsilon <= MOST:
        randomiser: Randomiser = choose(privacy.randomiser, privacy.epsilon, SampledEncoder.values(layout.spec))
        variances["sampled"] = (H * H if layout.stationary else H) * randomiser.variance(2, holds=False)
    if privacy.delta > 0:
        variances["gaussian"] = (sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta)) ** 2
    return min(variances, key=lambda name: variances[name])


def make_local(
    spec: Spec, privacy: Local, *, capacity: int, stationary: bool, failure: float
) -> NoisyLocal | SampledLocal:
    """Returns the local privatizer that ``privacy`` asks for."""
    layout = Layout(spec, stationary)
    name = privacy.sum
    if name == "auto":
        name = "laplace" if privacy.calibration == "paper" else _least(layout, privacy)
    if name not in LOCAL:
        raise UnknownName("sum", name, (*LOCAL, "auto"))
    if name == "questions":
        raise InvalidInput(
            "sum='questions' is for discreet-vi: answers about first visits are no visit counts, which other agents "
            "plan from; try laplace, sampled or auto"
        )
    if name == "gaussian" and privacy.delta == 0:
        raise InvalidInput("sum='gaussian' needs delta > 0, got delta=0.0; try laplace, sampled")
    if name == "sampled":
        return SampledLocal(layout, privacy, capacity, failure)
    return NoisyLocal(layout, privacy, capacity, failure, "laplace" if name == "laplace" else "gaussian")

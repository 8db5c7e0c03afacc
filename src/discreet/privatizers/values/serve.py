"""The server of RLSVI: holds raw data, and releases perturbed tables of values and nothing else."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, InvalidPersonalData
from discreet.privacy import RawBatch, RawReport
from discreet.privacy.rlsvi import beta
from discreet.privatizers.base import Encoder, Kind, Mechanism, Released
from discreet.privatizers.counts.encode import RawEncoder
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.shufflers import Collector
from discreet.sums.secure import FINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Source
    from discreet.privacy import Guarantee, Report

    Arrays = tuple[NDArray[Any], ...]

__all__ = ["Held", "PerturbedTables", "PerturbedValues", "Revealed"]

_MOST_UNITS = 2**49  # a float tells integers of this size apart, with room for rounding


@dataclass(frozen=True, eq=False)
class PerturbedValues(Released):
    """All that RLSVI's planner may see. The perturbation is the exploration, and nothing bounds it.

    Attributes:
        values: Q̃_h(s,a), (H, S, A).
    """

    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Revealed:
    """What the filter knows of every user so far. It *reveals states*: for simulation only, never to be released.

    Attributes:
        mu2: Realised loss of each user, μ², (users,).
        dropped: Who has been dropped, (users,).
    """

    mu2: NDArray[np.float64]
    dropped: NDArray[np.bool_]


class Held(NamedTuple):
    """What the server keeps: raw personal data, in the arrays that ``_kernels`` describes. Never changed in place.

    Attributes:
        total: Raw counts of the users that are still active, (size,).
        people: What the filter keeps of everybody.
        clocks: What everybody has lost.
    """

    total: NDArray[np.float64]
    people: Arrays
    clocks: Arrays

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.clocks[-1][0])

    def copy(self) -> Held:
        """Returns one that kernels may write into."""
        return Held(self.total.copy(), tuple(x.copy() for x in self.people), tuple(x.copy() for x in self.clocks))


class PerturbedTables(Mechanism[RawBatch, Held, PerturbedValues]):
    """Collects raw reports; a release is a table Q̃ of Algorithm 1, with a fresh perturbation.

    Args:
        spec: The environment's public sizes.
        capacity: Number of users at most.
        releases: Number of releases at most, the first policy not counted.
        stationary: Whether counts are pooled over the steps.
        scale: Multiplies β_k.
        promise: Says what is proven for all releases with a noise scale and a filter's budget.
        budget: The largest μ² that anybody may lose, if a filter drops those who would lose more.
        sigma: If given, what is released are integers with discrete Gaussian noise of this standard deviation.

    Guarantee:
        `promise`: joint DP of the rewards; states and actions are not protected. With a filter, whoever would lose
        more than ``budget`` in a release is left out of it and of all that follow. Who that is depends on states,
        actions and earlier releases only, which neighbours share: everybody's losses, chosen adaptively, add up to at
        most ``budget``, and Gaussian mechanisms compose fully adaptively to √budget-GDP.

    References:
        Smith and Thakurta (2022), Fully adaptive composition for Gaussian differential privacy; Koskela, Tobaben and
        Honkela (2023), Individual privacy accounting with Gaussian differential privacy.
    """

    name, noise = "values", "gaussian"

    def __init__(
        self,
        spec: Spec,
        *,
        capacity: int,
        releases: int,
        stationary: bool,
        scale: float,
        promise: Callable[[float, float | None], Guarantee],
        budget: float | None = None,
        sigma: int | None = None,
    ) -> None:
        H = spec.horizon
        self._promise, self.sigma = promise, sigma
        self.layout = Layout(spec, stationary)
        self.encoder = RawEncoder(self.layout, None if sigma is None else min(FINE, 51 - (capacity * H).bit_length()))
        self.capacity, self.budget = capacity, budget
        units = min(_MOST_UNITS, 2**58 // ((H + 2) ** 2 * (releases + 1)))  # no sum of losses overflows
        grid = 2.0 ** (52 - math.ceil(math.log2(capacity * H + 1)))  # sums of rewards on this grid are exact
        if sigma is not None:
            least = float(beta(spec.states, spec.actions, H, 1)) * scale / (capacity * H + 1.0)
            if not sigma / math.sqrt(least) < 2.0**45:  # what is rounded down must keep its last bits
                raise InvalidInput(
                    f"noise='secure' has no grid for so little noise and so many users, got noise_scale={scale!r}; "
                    "take a smaller epsilon"
                )
        rounding = 0.0 if sigma is None else 1.01 / sigma * (1 + 1e-9)
        self.parameters = np.array([scale, grid, units / budget if budget else 0.0, float(units), rounding])

    @property
    def exact(self) -> bool:
        """Whether what is released are integers with discrete noise."""
        return self.sigma is not None

    @property
    def scale(self) -> float:
        """Multiplies β_k: the noise that is really added."""
        return float(self.parameters[0])

    def promise(self, kind: Kind) -> Guarantee:
        """Returns what is proven for the noise that is added and the filter that is kept."""
        found = self._promise(self.scale, self.budget)
        return found if found.noise == "none" else dataclasses.replace(found, noise=kind)

    def encoder_of(self, version: int) -> RawEncoder:
        """The same for all."""
        return self.encoder

    def shuffler(self) -> Collector[RawReport, RawBatch]:
        """Collects raw reports, in order: the server is trusted."""
        return Collector(RawReport, RawBatch)

    def start(self) -> Held:
        """Nobody."""
        from discreet.privatizers.values import _kernels

        H, kept = self.layout.spec.horizon, 0 if self.budget is None else self.capacity
        people: Arrays = (
            *(np.zeros((kept, H), dtype=np.int32) for _ in range(3)),
            np.zeros((kept, H)),
            np.zeros(kept, dtype=np.bool_),
            np.zeros(kept, dtype=np.int64),
        )
        cells, blocks = self.layout.cells, -(-kept // _kernels.BLOCK)
        clocks = tuple(np.zeros(size, dtype=np.int64) for size in (cells, cells, kept, blocks, 3))
        return Held(np.zeros(self.layout.size), people, clocks)

    def first(self, kept: Held, source: Source) -> tuple[Held, PerturbedValues]:
        """The first policy explores too: a perturbation of nobody's data."""
        return self.released(kept, source)

    def folded(self, kept: Held, batch: RawBatch, encoder: Encoder[Report]) -> Held:
        """Adds a batch."""
        from discreet.privatizers.values import _kernels

        if not isinstance(batch, RawBatch):
            raise TypeError(f"expected a RawBatch, got {type(batch).__name__}")
        if kept.users + batch.users > self.capacity:
            raise CapacityExceeded(
                f"this server holds {self.capacity} users: {kept.users} are in it, got {batch.users} more"
            )
        cells, nexts, rewards = self._checked(batch)
        total, people, clocks = kept = kept.copy()
        for row in range(batch.users):
            counts = self.layout.split(total)
            _kernels.enter(self.parameters, counts, people, clocks, cells[row], nexts[row], rewards[row])
        return kept

    def check(self, report: Report, encoder: Encoder[Report]) -> None:
        """Raises unless one report may be folded in; without the arrays for everybody."""
        self._checked(self.shuffler().alone(report))  # type: ignore[arg-type]

    def _checked(self, batch: RawBatch) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Returns cells, next states and rewards, (users, H) each, if every row is what the encoder makes."""
        H, S, A = self.layout.spec.horizon, self.layout.spec.states, self.layout.spec.actions
        m, r = self.layout.starts
        indices, values = np.asarray(batch.indices, dtype=np.int64), np.asarray(batch.values, dtype=np.float64)
        if indices.ndim != 2 or indices.shape != values.shape or indices.shape[1] != 3 * H:
            raise InvalidPersonalData(f"indices and values must be two arrays of one shape (users, {3 * H})")
        cells, moves, gains = (indices[:, i * H : (i + 1) * H] for i in range(3))
        step = np.zeros(H, dtype=np.int64) if self.layout.stationary else np.arange(H)
        ours = (cells // (S * A) == step).all() and ((moves - m) // S == cells).all() and (gains - r == cells).all()
        if not ours:
            raise InvalidPersonalData("indices must be one visit, one transition and one reward of each step")
        if not (values[:, : 2 * H] == 1).all():
            raise InvalidPersonalData("values of visits and transitions must be 1")
        rewards = np.ascontiguousarray(values[:, 2 * H :])
        if not ((rewards >= 0) & (rewards <= 1)).all():
            raise InvalidPersonalData("rewards must lie in [0, 1]")
        fine = self.encoder.fine
        if fine is not None and (np.ldexp(rewards, fine) % 1).any():
            raise InvalidPersonalData(f"rewards must be multiples of 2^-{fine}")
        return np.ascontiguousarray(cells), np.ascontiguousarray((moves - m) % S), rewards

    def released(self, kept: Held, source: Source) -> tuple[Held, PerturbedValues]:
        """Draws a perturbation and returns Q̃."""
        from discreet.privatizers.values import _kernels

        spec = self.layout.spec
        S, A, H = spec.states, spec.actions, spec.horizon
        z: NDArray[Any] = np.empty((1, H * S * A))
        if self.sigma is None:
            source.fill("gaussian", 1.0, z)
        else:
            z = source.integers("gaussian", self.sigma**2, (1, H * S * A))
        total, people, clocks = kept = kept.copy()
        counts = self.layout.split(total)
        if self.budget is not None:
            _kernels.settle(self.parameters, counts, people, clocks, H)
        planned, b = self.blank(), _kernels.beta(S, A, H, float(kept.users + 1), self.scale)
        if self.sigma is None:
            _kernels.perturb(counts, b, z[0], planned)
        else:
            _kernels.perturb_exactly(counts, b, z[0], float(self.sigma), planned)
        return kept, PerturbedValues(planned[0])

    def blank(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Returns arrays for Q̃, V and the policy."""
        spec = self.layout.spec
        S, A, H = spec.states, spec.actions, spec.horizon
        return np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)

    def reveal(self, kept: Held) -> Revealed:
        """Returns the realised loss of every user; it reveals states."""
        n, units = kept.users, self.parameters[2]
        where, _, weights, _, active, entry = (array[:n] for array in kept.people)
        lost = (weights * kept.clocks[0][where]).sum(axis=1) - entry
        return Revealed(np.where(active, lost, entry) / units, active == 0)

    def calibration(self) -> dict[str, Any]:
        """Returns the noise scale."""
        return {"scale": self.scale}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes the noise scale of another machine."""
        self.parameters[0] = found["scale"]

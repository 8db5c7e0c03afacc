"""The server of RLSVI: holds raw data, and releases perturbed tables of values and nothing else."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import CapacityExceeded, InvalidPersonalData
from discreet.noise import fast
from discreet.privacy import RawBatch
from discreet.privatizers import Collector
from discreet.privatizers.encoders import RawEncoder
from discreet.privatizers.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privacy import Guarantee

__all__ = ["PerturbedValues", "Revealed", "ValueServer"]

_MOST_UNITS = 2**49  # a float tells integers of this size apart, with room for rounding


@dataclass(frozen=True, eq=False)
class PerturbedValues:
    """All that RLSVI's planner may see.

    Attributes:
        values: Q̃_h(s,a), (H, S, A).
        error: 0: the perturbation is the exploration, and nothing bounds it.
    """

    values: NDArray[np.float64]
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class Revealed:
    """What the filter knows of every user so far. It *reveals states*: for simulation only, never to be released.

    Attributes:
        mu2: Realised loss of each user, μ², (users,).
        dropped: Who has been dropped, (users,).
    """

    mu2: NDArray[np.float64]
    dropped: NDArray[np.bool_]


class ValueServer:
    """Collects raw reports; a release is a table Q̃ of Algorithm 1, with a fresh perturbation.

    Args:
        spec: The environment's public sizes.
        capacity: Number of users at most.
        releases: Number of releases at most, the first policy not counted.
        stationary: Whether counts are pooled over the steps.
        scale: Multiplies β_k.
        promise: Says what is proven for all releases with a noise scale and a filter's budget.
        rng: Where the perturbation comes from.
        budget: The largest μ² that anybody may lose, if a filter drops those who would lose more.

    Guarantee:
        ``guarantee``: joint DP of the rewards; states and actions are not protected. With a filter, whoever would lose
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
        rng: np.random.Generator,
        budget: float | None = None,
    ) -> None:
        from discreet.agents._kernels import rlsvi

        S, A, H = spec.states, spec.actions, spec.horizon
        self._promise, self.error = promise, 0.0
        self.layout = Layout(spec, stationary)
        self.encoder = RawEncoder(self.layout)
        self.shuffler = Collector()
        self.capacity, self.budget, self._rng = capacity, budget, rng
        kept = 0 if budget is None else capacity
        units = min(_MOST_UNITS, 2**58 // ((H + 2) ** 2 * (releases + 1)))  # no sum of losses overflows
        grid = 2.0 ** (52 - math.ceil(math.log2(capacity * H + 1)))  # sums of rewards on this grid are exact
        self.parameters = np.array([scale, grid, units / budget if budget else 0.0, float(units)])
        self.total = np.zeros(self.layout.size)
        self.people: tuple[NDArray[Any], ...] = (
            *(np.zeros((kept, H), dtype=np.int32) for _ in range(3)),
            np.zeros((kept, H)),
            np.zeros(kept, dtype=np.bool_),
            np.zeros(kept, dtype=np.int64),
        )
        cells, blocks = self.layout.cells, -(-kept // rlsvi.BLOCK)
        self.clocks = tuple(np.zeros(size, dtype=np.int64) for size in (cells, cells, kept, blocks, 3))
        self.planned = (np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64))
        self._open = True

    @property
    def scale(self) -> float:
        """Multiplies β_k: the noise that is really added."""
        return float(self.parameters[0])

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for the noise that is added and the filter that is kept."""
        return self._promise(self.scale, self.budget)

    @property
    def count(self) -> int:
        """Number of users collected."""
        return int(self.clocks[-1][0])

    @property
    def _counts(self) -> tuple[NDArray[np.float64], ...]:
        return self.layout.split(self.total)

    def collect(self, batch: RawBatch) -> None:
        """Adds a batch; nothing changes if an error is raised."""
        from discreet.agents._kernels import rlsvi

        if not isinstance(batch, RawBatch):
            raise TypeError(f"expected a RawBatch, got {type(batch).__name__}")
        if self.count + batch.users > self.capacity:
            raise CapacityExceeded(
                f"this server holds {self.capacity} users: {self.count} are in it, got {batch.users} more"
            )
        cells, nexts, rewards = self._checked(batch)
        for row in range(batch.users):
            rlsvi.enter(self.parameters, self._counts, self.people, self.clocks, cells[row], nexts[row], rewards[row])
        self._open = True

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
        return np.ascontiguousarray(cells), np.ascontiguousarray((moves - m) % S), rewards

    def counts(self) -> PerturbedValues:
        """Ends the batch and returns what is released; the last release again if nobody came since."""
        from discreet.agents._kernels import rlsvi

        if self._open:
            spec = self.layout.spec
            S, A, H = spec.states, spec.actions, spec.horizon
            z = np.empty((1, H * S * A))
            fast.fill(self._rng, "gaussian", 1.0, z)
            if self.budget is not None:
                rlsvi.settle(self.parameters, self._counts, self.people, self.clocks, H)
            rlsvi.perturb(self._counts, rlsvi.beta(S, A, H, float(self.count + 1), self.scale), z[0], self.planned)
            self._open = False
        return PerturbedValues(self.planned[0].copy())

    def play(
        self, tables: Any, draws: NDArray[np.float64], replan: NDArray[np.bool_], releases: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """In simulation: what `collect` and `counts` do, in one compiled call; see `TabularAgent.play`."""
        from discreet.agents._kernels import rlsvi
        from discreet.mdp import _kernels

        marks, H, Q = int(replan.sum()), self.layout.spec.horizon, self.planned[0]
        z = np.empty((marks, Q.size))
        fast.fill(self._rng, "gaussian", 1.0, z)
        policies = np.empty((marks + 1, *self.planned[2].shape), dtype=np.int64)
        rlsvi.play(
            _kernels.sample,
            tuple(tables),
            self.parameters,
            self._counts,
            self.people,
            self.clocks,
            self.planned,
            draws,
            replan,
            z,
            policies,
            releases,
            (np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty(H)),
        )
        self._open = not replan[-1] if len(replan) else self._open
        return policies

    def reveal(self) -> Revealed:
        """Returns the realised loss of every user; it reveals states."""
        n, units = self.count, self.parameters[2]
        where, _, weights, _, active, entry = (array[:n] for array in self.people)
        lost = (weights * self.clocks[0][where]).sum(axis=1) - entry
        return Revealed(np.where(active, lost, entry) / units, active == 0)

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes: personal data and noise, by name."""
        n = self.count
        spent, price, due, least, state = self.clocks
        return copy.deepcopy(
            {
                "scale": self.scale,
                "total": self.total,
                "people": [array[:n] for array in self.people],
                "clocks": [spent, price, due[:n], least, state],
                "planned": list(self.planned),
                "open": self._open,
                "rng": self._rng.bit_generator.state,
            }
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`, which is used up."""
        self.parameters[0] = state["scale"]
        self.total[...] = state["total"]
        for own, saved in (
            (self.people, state["people"]),
            (self.clocks, state["clocks"]),
            (self.planned, state["planned"]),
        ):
            _put(own, saved)
        self._open = state["open"]
        self._rng.bit_generator.state = state["rng"]


def _put(own: Sequence[NDArray[Any]], saved: Sequence[NDArray[Any]]) -> None:
    """Writes saved arrays into the beginnings of their own; the rest is not in use."""
    for array, kept in zip(own, saved, strict=True):
        array[: len(kept)] = kept

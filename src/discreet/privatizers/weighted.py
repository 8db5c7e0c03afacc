"""Weighted counts: every user spends a bounded norm on what they saw, so that a sum needs far less noise.

A user's vector holds, for every cell c = (s,a), of all steps together (the *pooled* block), of each step (the *steps*
block) or both,

    x(c,s') = Σw,      k_n·ν(c) = k_n·Σw,      k_r·ρ(c) = k_r·Σw·(R − z)

over the visits of the cell, where z is the middle of the rewards. The weight w of a step is *predictable*: it may
depend on the user's earlier steps and on (s,a), not on s' or R. So x/ν and z + ρ/ν are unbiased, whatever the weights.

**The weight.** Let a = 1 + k_r²·y² + k_n² with y = max(z, 1 − z), and ‖·‖² ≤ L be the limit of a block. At step h in c the
user spends the share g(c)/(g(c) + max(F_h(s) − g(c), 0)) of what is left, b, where g is how much the server still wants
a cell and F_h(s) how much it expects to want from step h on, both public:

    β = max_{s'} x(c,s') + k_r²·y·|ρ(c)| + k_n²·ν(c),      w = (−β + √(β² + a·b))/a,

and at most 1 if weights are capped. Then for all s' and R

    ‖new‖² − ‖old‖² = w² + 2w·x(c,s') + k_r²(d² + 2d·ρ) + k_n²(w² + 2w·ν) ≤ a·w² + 2β·w = b,   d = w(R − z), |d| ≤ y·w.

So ‖x‖² ≤ L on every trajectory.

**Sensitivity.** For two users' vectors all products x·x' and ν·ν' are ≥ 0, and k_r²ρρ' ≥ −k_r²y²νν' if z lies inside,
so k_n ≥ k_r·y makes the inner product of a block ≥ 0 (for z = 0 there is nothing negative). Then ‖x − x'‖² ≤ ‖x‖² + ‖x'‖² ≤
2L: replacing a user moves the whole vector by at most √(2ΣL) over the blocks. Two users who never share a cell attain it.

Weights and d lie on a grid, rounded towards 0, which keeps all of this and makes sums exact in any order.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData, check_flag, check_integer, check_number
from discreet.mdp.spec import Spec
from discreet.privacy import Central, NonPrivate, RawBatch, RawReport, RawTotals, Sensitivity
from discreet.privatizers.base import Collector, RawServer
from discreet.privatizers.central import CentralServer
from discreet.sums import CENTRAL, ExactSum, PrivateSum, calibrated, worst_std

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.privacy import Guarantee, TrustModel

__all__ = ["Block", "WeightedCounts", "WeightedEncoder", "WeightedLayout", "make_weighted"]

_GRID = 2.0**-22


@dataclass(frozen=True)
class WeightedLayout:
    """Where each weighted count lives in the one vector that users sum up, and how long a user's vector may be.

    Attributes:
        spec: The environment's public sizes.
        pooled: The pooled block's share of the norm; 0 is no such block.
        steps: The steps block's share.
        reward: k_r.
        visit: k_n.
        centre: z, what is subtracted from rewards.
        clipped: Whether users clip: L = a·H·share²; else every weight is the share, and L = a·H²·share² if pooled.
    """

    spec: Spec
    pooled: float = 1.0
    steps: float = 0.0
    reward: float = 1.0
    visit: float = 0.5
    centre: float = 0.5
    clipped: bool = True

    def __post_init__(self) -> None:
        for name in ("pooled", "steps", "reward", "visit", "centre"):
            check_number(name, getattr(self, name))
        check_flag("clipped", self.clipped)
        if not self.blocks:
            raise InvalidInput("there must be a pooled block or a steps block")
        if not 0 <= self.centre <= 1:
            raise InvalidInput(f"centre must lie in [0, 1], got centre={self.centre!r}")
        if self.reward <= 0 or self.visit <= 0 or (self.centre not in (0, 1) and self.visit < self.reward * self.spread):
            raise InvalidInput(
                "the inner product of two users' vectors must not be negative: visit must be at least reward times "
                f"{self.spread:g}, got reward={self.reward!r}, visit={self.visit!r}"
            )

    @property
    def spread(self) -> float:
        """Y: how far a reward is from the centre at most."""
        return max(self.centre, 1 - self.centre)

    @property
    def unit(self) -> float:
        """A: the squared length of one visit of weight 1 at most."""
        return 1 + (self.reward * self.spread) ** 2 + self.visit**2

    @property
    def blocks(self) -> tuple[tuple[int, float], ...]:
        """(sets of counters, share) of each block: 1 set if pooled, else H."""
        found = ((1, self.pooled), (self.spec.horizon, self.steps))
        return tuple((sets, share) for sets, share in found if share > 0)

    def limit(self, sets: int, share: float) -> float:
        """Returns L of a block."""
        H = self.spec.horizon
        return self.unit * share**2 * (H if self.clipped or sets > 1 else H * H)

    @property
    def sensitivity(self) -> Sensitivity:
        """Of a user's vector, replace-one."""
        l2 = math.sqrt(2 * sum(self.limit(*block) for block in self.blocks))
        return Sensitivity(l1=l2 * math.sqrt(self.size), l2=l2)

    @property
    def cells(self) -> int:
        """Number of (s,a)."""
        return self.spec.states * self.spec.actions

    @property
    def sets(self) -> int:
        """How many sets of counters there are in all blocks."""
        return sum(sets for sets, _ in self.blocks)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.sets * self.cells * (self.spec.states + 2)

    def split(self, vector: NDArray[np.float64]) -> list[Block]:
        """Returns the counts of each block, measured in weights."""
        S, found, start = self.spec.states, [], 0
        for sets, _ in self.blocks:
            cells = sets * self.cells
            parts = []
            for width in (S, 1, 1):
                parts.append(vector[start : start + cells * width].reshape(sets, self.cells, width))
                start += cells * width
            m, n, r = parts
            found.append(Block(m.copy(), n[..., 0] / self.visit, r[..., 0] / self.reward))
        return found


class Block(NamedTuple):
    """The weighted counts of one block.

    Attributes:
        transitions: Σw, (sets, S·A, S).
        visits: ν, (sets, S·A).
        rewards: ρ, sums of w(R − z), (sets, S·A).
    """

    transitions: NDArray[np.float64]
    visits: NDArray[np.float64]
    rewards: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedCounts:
    """All that the planner of weighted counts may see.

    Attributes:
        blocks: The released counts, with noise.
        error: Standard deviation of the noise in a transition count; in a visit count it is 1/k_n times as large, in a
            reward sum 1/k_r times.
    """

    blocks: list[Block]
    error: float


@dataclass(frozen=True, eq=False)
class WeightedEncoder:
    """Sends the user's weighted counts to a server that is trusted with them.

    Attributes:
        layout: Of the vector.
        want: g of every set of counters and cell, (sets, S·A), positive; public, from earlier releases.
        ahead: F of every block, step and state, (blocks, H, S).

    Guarantee:
        None by itself: the report is raw. Its length is bounded whatever ``want`` and ``ahead`` are.
    """

    layout: WeightedLayout
    want: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    ahead: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0, 0)))

    kind: ClassVar[str] = "weighted"

    def __post_init__(self) -> None:
        spec, layout = self.layout.spec, self.layout
        shapes = (layout.sets, layout.cells), (len(layout.blocks), spec.horizon, spec.states)
        if np.size(self.want) == 0:  # everything is wanted alike
            left = np.arange(spec.horizon, 0, -1.0)[:, None]
            object.__setattr__(self, "want", np.ones(shapes[0]))
            object.__setattr__(self, "ahead", np.broadcast_to(left, shapes[1]).copy())
        if (np.shape(self.want), np.shape(self.ahead)) != shapes:
            raise InvalidInput(f"want must have shape {shapes[0]} and ahead {shapes[1]}")
        if not ((self.want > 0) & (self.want < 1e6)).all() or not (np.abs(self.ahead) < 1e9).all():
            raise InvalidInput("want must be positive, and both finite")

    def document(self) -> dict[str, Any]:
        """Returns the public parameters, as JSON can hold them."""
        spec, layout = self.layout.spec, self.layout
        sizes = {"states": spec.states, "actions": spec.actions, "horizon": spec.horizon}
        names = ("pooled", "steps", "reward", "visit", "centre", "clipped")
        shape = {name: getattr(layout, name) for name in names}
        parameters = {"want": self.want.tolist(), "ahead": self.ahead.tolist()}
        where = {**sizes, "initial": spec.initial.tolist(), **shape}
        return {"kind": self.kind, "layout": where, "parameters": parameters}

    def to_json(self) -> str:
        """Returns the public parameters, from which `encoders.from_json` makes the same encoder."""
        import json

        return json.dumps(self.document())

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> WeightedEncoder:
        """Returns the encoder that `document` describes."""
        layout, parameters = dict(document["layout"]), document["parameters"]
        sizes = [layout.pop(name) for name in ("states", "actions", "horizon")]
        where = WeightedLayout(Spec(*sizes, np.array(layout.pop("initial"))), **layout)
        want, ahead = (np.array(parameters[name], dtype=np.float64) for name in ("want", "ahead"))
        if want.size == 0:
            raise InvalidInput("want must not be empty")
        return cls(where, want, ahead)

    def encode(self, trajectory: Trajectory, rng: np.random.Generator | None = None) -> RawReport:
        """Returns the weighted counts: coordinates and values."""
        trajectory.check(self.layout.spec)
        weights, gains = self._weigh(trajectory)
        indices, values = self._coordinates(
            np.asarray(trajectory.states, dtype=np.int64)[None],
            np.asarray(trajectory.actions, dtype=np.int64)[None],
            weights[:, None],
            gains[:, None],
        )
        return RawReport(indices[0], values[0])

    def _weigh(self, trajectory: Trajectory) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns w and d of every block and step, (blocks, H) each: what the compiled `_kernels.weigh` does."""
        layout, A, start = self.layout, self.layout.spec.actions, 0
        H, y, a = layout.spec.horizon, layout.spread, layout.unit
        r2, n2 = layout.reward * layout.reward, layout.visit * layout.visit
        found = np.zeros((2, len(layout.blocks), H))
        for i, (sets, share) in enumerate(layout.blocks):
            x: dict[tuple[int, int, int], float] = {}
            most: dict[tuple[int, int], float] = {}
            rho: dict[tuple[int, int], float] = {}
            nu: dict[tuple[int, int], float] = {}
            limit, cap, length = layout.limit(sets, share), math.inf if layout.clipped else share, 0.0
            for h in range(H):
                s, after = int(trajectory.states[h]), int(trajectory.states[h + 1])
                t = h if sets > 1 else 0
                c = (t, s * A + int(trajectory.actions[h]))
                g = float(self.want[start + t, c[1]])
                b = max(limit - length, 0.0) * (g / (g + max(float(self.ahead[i, h, s]) - g, 0.0)))
                p, v = rho.get(c, 0.0), nu.get(c, 0.0)
                beta = most.get(c, 0.0) + r2 * y * abs(p) + n2 * v
                w = min((math.sqrt(beta * beta + a * b) - beta) / a, cap)
                w = math.floor(w / _GRID) * _GRID
                d = math.trunc(w * (float(trajectory.rewards[h]) - layout.centre) / _GRID) * _GRID
                seen = x.get((*c, after), 0.0)
                length += w * w + 2.0 * w * seen + r2 * (d * d + 2.0 * d * p) + n2 * (w * w + 2.0 * w * v)
                x[(*c, after)], rho[c], nu[c] = seen + w, p + d, v + w
                most[c] = max(most.get(c, 0.0), seen + w)
                found[0, i, h], found[1, i, h] = w, d
            start += sets
        return found[0], found[1]

    def weigh_many(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns w and d of many users, (blocks, users, H) each, compiled."""
        from discreet.privatizers import _kernels

        layout, start = self.layout, 0
        w, d = np.empty((2, len(layout.blocks), *actions.shape))
        scratch = np.zeros((layout.spec.horizon * layout.cells, layout.spec.states + 3))
        for i, (sets, share) in enumerate(layout.blocks):
            constants = np.array(
                [
                    layout.limit(sets, share),
                    math.inf if layout.clipped else share,
                    layout.unit,
                    layout.spread,
                    layout.reward * layout.reward,
                    layout.visit * layout.visit,
                    layout.centre,
                    _GRID,
                ]
            )
            want = np.ascontiguousarray(self.want[start : start + sets])
            _kernels.weigh(states, actions, rewards, want, self.ahead[i], constants, scratch, w[i], d[i])
            start += sets
        return w, d

    def contributions(
        self, states: NDArray[np.int64], actions: NDArray[np.int64], rewards: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the coordinates and values of many users, a row each; in simulation."""
        return self._coordinates(states, actions, *self.weigh_many(states, actions, rewards))

    def _coordinates(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        weights: NDArray[np.float64],
        gains: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        layout, S, start = self.layout, self.layout.spec.states, 0
        indices, values = [], []
        for i, (sets, _) in enumerate(layout.blocks):
            h = np.arange(layout.spec.horizon) if sets > 1 else np.zeros(1, dtype=np.int64)
            cell = h * layout.cells + states[:, :-1] * layout.spec.actions + actions
            n = start + sets * layout.cells * S
            r = n + sets * layout.cells
            indices += [start + cell * S + states[:, 1:], n + cell, r + cell]
            values += [weights[i], layout.visit * weights[i], layout.reward * gains[i]]
            start = r + sets * layout.cells
        return np.concatenate(indices, axis=1), np.concatenate(values, axis=1)


class _WeightedServer(RawServer):
    """The server's side where it is trusted with raw vectors: it checks their lengths and signs, and adds them up."""

    layout: WeightedLayout
    encoder: WeightedEncoder

    def _begin(self, layout: WeightedLayout) -> None:
        self.layout = layout
        self.encoder = WeightedEncoder(layout)
        self.shuffler = Collector()

    @property
    def simulated(self) -> bool:
        """Whether `tally` does what encoder and shuffler do."""
        return type(self.encoder) is WeightedEncoder and type(self.shuffler) is Collector

    def tally(self) -> WeightedTally:
        """In simulation only: returns what stands for the users and the shuffler of the current batch."""
        return WeightedTally(self.encoder)

    def collect(self, batch: RawBatch | RawTotals) -> None:
        """Adds a batch to the sums; nothing changes if an error is raised.

        Raises:
            InvalidPersonalData: If a user's vector is longer than the sensitivity rests on, or has a wrong sign.
        """
        if isinstance(batch, RawTotals):  # of our own encoder, in simulation
            total, *_ = self.sum.stretch(batch.users, 0)
            total += batch.total
            self.sum.resume(waiting=True)
            return
        if not isinstance(batch, RawBatch):
            raise TypeError(f"expected a RawBatch, got {type(batch).__name__}")
        self._check(batch)
        self.sum.add(batch.indices, batch.values)

    def _check(self, batch: RawBatch) -> None:
        """Holds every user's vector to what the proof of the sensitivity asks for, block by block."""
        from discreet.sums.base import check_users

        layout = self.layout
        indices, values = check_users(batch.indices, batch.values, layout.size)
        most = layout.reward * layout.spread / layout.visit
        for row, entries in zip(indices, values, strict=True):
            vector = np.zeros(layout.size)
            np.add.at(vector, row, entries)
            start = 0
            for sets, share in layout.blocks:
                cells, S = sets * layout.cells, layout.spec.states
                part = vector[start : start + cells * (S + 2)]
                start += len(part)
                n, r = part[cells * S : cells * (S + 1)], part[cells * (S + 1) :]
                wrong = part[: cells * (S + 1)].min() < 0 or (np.abs(r) > most * n + 1e-9).any()
                if layout.centre == 0:
                    wrong = wrong or r.min() < 0
                limit = layout.limit(sets, share)
                if wrong or float(part @ part) > limit * (1 + 1e-9):
                    raise InvalidPersonalData(
                        f"a user's weighted counts must have squared length at most {limit:.6g}, visits that are not "
                        "negative, and reward sums within what the visits allow"
                    )

    def _counts(self, vector: NDArray[np.float64], std: float) -> WeightedCounts:
        return WeightedCounts(self.layout.split(vector), std)


class WeightedCentral(_WeightedServer, CentralServer):
    """Sums weighted counts and releases the sums with Gaussian noise.

    Guarantee:
        ``guarantee``: joint DP for one user's whole trajectory, replace-one, computed from the sum's event. The lengths of
        users' vectors are bounded for every ``want`` and ``ahead``, which are functions of earlier reads: all reads are
        one adaptive Gaussian mechanism, and the billboard lemma gives joint DP.
    """

    def __init__(
        self, layout: WeightedLayout, privacy: Central, *, capacity: int, horizon: int, rng: np.random.Generator
    ) -> None:
        self._begin(layout)
        self.privacy = privacy
        name = privacy.sum
        if name == "auto":
            name = self._least(horizon)
        self.sum = calibrated(
            name,
            layout.size,
            capacity=capacity,
            horizon=check_integer("horizon", horizon),
            sensitivity=layout.sensitivity,
            budget=privacy.budget,
            rng=rng,
        )

    def _least(self, horizon: int) -> str:
        """Returns the sum with the least noise in its worst read."""
        found: list[tuple[float, str]] = []
        for name in CENTRAL:
            try:
                found.append((worst_std(name, horizon, self.layout.sensitivity, self.privacy.budget), name))
            except InvalidInput:
                continue  # not for so many reads
        return min(found)[1]

    @cached_property
    def error(self) -> float:
        """Standard deviation of the noise in a transition count, at the noisiest read."""
        return self.sum.worst_std

    def counts(self) -> WeightedCounts:
        """Ends the batch and returns what is released."""
        vector = self.sum.read()
        return self._counts(vector, self.sum.std)


class WeightedNonPrivate(_WeightedServer):
    """Sums weighted counts exactly.

    Guarantee:
        None.
    """

    sum: ExactSum
    name, noise = "exact", "none"
    error = 0.0

    def __init__(self, layout: WeightedLayout, *, capacity: int, guarantee: Guarantee) -> None:
        self._begin(layout)
        self.guarantee = guarantee
        self.sum = ExactSum(layout.size, capacity=capacity)

    def counts(self) -> WeightedCounts:
        """Returns the exact sums."""
        return self._counts(self.sum.total.copy(), 0.0)


class WeightedTally:
    """In simulation only: the total of a batch while its users play, bit for bit what their reports add up to."""

    def __init__(self, encoder: WeightedEncoder) -> None:
        self._encoder = encoder
        self._total = np.zeros(encoder.layout.size)
        self.users = 0

    def add(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        rng: np.random.Generator | None = None,
    ) -> None:
        """Adds users, a row each."""
        indices, values = self._encoder.contributions(states, actions, rewards)
        self._total += np.bincount(indices.ravel(), weights=values.ravel(), minlength=len(self._total))
        self.users += len(states)

    def batch(self, rng: np.random.Generator | None = None) -> RawTotals:
        """Returns what the collector hands on."""
        return RawTotals(self._total, self.users)


def make_weighted(
    layout: WeightedLayout, privacy: TrustModel, *, capacity: int, horizon: int, rng: np.random.Generator
) -> WeightedCentral | WeightedNonPrivate:
    """Returns the privatizer of weighted counts under a trust model.

    Args:
        layout: Of the counts.
        privacy: `Central` with δ > 0, or `NonPrivate`.
        capacity: Number of users at most.
        horizon: Number of reads at most.
        rng: Where the noise comes from.
    """
    if isinstance(privacy, NonPrivate):
        return WeightedNonPrivate(layout, capacity=capacity, guarantee=privacy.guarantee)
    if not isinstance(privacy, Central):
        raise InvalidInput(f"weighted counts are for a trusted server, got {type(privacy).__name__}")
    if privacy.delta == 0:
        raise InvalidInput("weighted counts have Gaussian noise and need delta > 0, got delta=0.0; try dp-ucbvi")
    if privacy.calibration == "paper":
        raise InvalidInput("calibration='paper' is printed for the central Laplace sum='tree', not for weighted counts")
    return WeightedCentral(layout, privacy, capacity=capacity, horizon=horizon, rng=rng)


_ = (copy, cast, PrivateSum)

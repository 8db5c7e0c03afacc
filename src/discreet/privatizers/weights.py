"""Weighted counts: every user spends a bounded norm on what they saw, so that a sum needs far less noise.

A user's vector holds, for every cell c = (s,a), of all steps together (the *pooled* block), of each step (the *steps*
block) or both,

    x(c,s') = Σw,      k_n·ν(c) = k_n·Σw,      k_r·ρ(c) = k_r·Σw·(R − z)

over the visits of the cell, where z is the middle of the rewards. The weight w of a step is *predictable*: it may
depend on the user's earlier steps and on (s,a), not on s' or R. So x/ν and z + ρ/ν are unbiased, whatever the weights.

**The weight.** Let a = 1 + k_r²·y² + k_n² with y = max(z, 1 − z), and let a block's limit be ‖·‖² ≤ L. At step h in c
the user spends b, the share g(c)/(g(c) + max(F_h(s) − g(c), 0)) of what is left, where g is how much the server still
wants a cell and F_h(s) how much it expects to want from step h on, both public:

    β = max_{s'} x(c,s') + k_r²·y·|ρ(c)| + k_n²·ν(c),      w = (−β + √(β² + a·b))/a,

and at most 1 if weights are capped. Then for all s' and R

    ‖new‖² − ‖old‖² = w² + 2w·x(c,s') + k_r²(d² + 2d·ρ) + k_n²(w² + 2w·ν) ≤ a·w² + 2β·w = b,   d = w(R − z), |d| ≤ y·w.

So ‖x‖² ≤ L on every trajectory.

**Sensitivity.** For two users' vectors all products x·x' and ν·ν' are ≥ 0, and k_r²ρρ' ≥ −k_r²y²νν' if z lies inside,
so k_n ≥ k_r·y makes the inner product of a block ≥ 0 (for z = 0 there is nothing negative). Then ‖x − x'‖² ≤
‖x‖² + ‖x'‖² ≤ 2L: replacing a user moves the whole vector by at most √(2ΣL) over the blocks. Two users who never share
a cell, and spend all, attain it.

Weights and d lie on a grid, rounded towards 0, which keeps all of this and makes sums exact in any order if k_n and
k_r are small powers of 2. What floating point adds to a norm, and what the server lets pass because of it, `SLACK`, is
in the sensitivity.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from discreet.errors import InvalidInput, check_flag, check_number
from discreet.mdp.spec import Spec
from discreet.privacy.messages import RawReport
from discreet.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory

__all__ = ["SLACK", "Block", "WeightedEncoder", "WeightedLayout"]

_GRID = 2.0**-22
#: By how much a squared length may exceed its limit, and a reward sum what the visits allow, relatively: rounding.
SLACK = 1e-9


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
        if (
            self.reward <= 0
            or self.visit <= 0
            or (self.centre not in (0, 1) and self.visit < self.reward * self.spread)
        ):
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
        """Of a user's vector, replace-one.

        ‖x − x'‖² ≤ 2L(1 + slack) − 2⟨x, x'⟩, and ⟨x, x'⟩ ≥ (1 − (1 + slack)²)·L: 2L(1 + 4·slack) covers both.
        """
        l2 = math.sqrt(2 * sum(self.limit(*block) for block in self.blocks) * (1 + 4 * SLACK))
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
        return json.dumps(self.document())

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> WeightedEncoder:
        """Returns the encoder that `document` describes."""
        layout, parameters = dict(document["layout"]), document["parameters"]
        states, actions, horizon = (layout.pop(name) for name in ("states", "actions", "horizon"))
        where = WeightedLayout(Spec(states, actions, horizon, np.array(layout.pop("initial"))), **layout)
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

"""Weighted counts, at the user: what they saw, with weights that bound the length of the whole. NumPy only.

What the weights are, and why the length is bounded, is in `discreet.privatizers.weighted.layout`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy.messages import RawReport
from discreet.privatizers.counts.encode import sizes, spec_of
from discreet.privatizers.weighted.layout import GRID, WeightedLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Source

__all__ = ["WeightedEncoder"]


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
        layout = self.layout
        names = ("pooled", "steps", "reward", "visit", "centre", "clipped")
        shape = {name: getattr(layout, name) for name in names}
        parameters = {"want": self.want.tolist(), "ahead": self.ahead.tolist()}
        where = {**sizes(layout.spec), **shape}
        return {"kind": self.kind, "layout": where, "parameters": parameters}

    def to_json(self) -> str:
        """Returns the public parameters, from which `discreet.privatizers.codec.from_json` makes the same encoder."""
        return json.dumps(self.document())

    def hides(self, epsilon: float, delta: float) -> bool:
        """A report by itself hides nothing."""
        return False

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> WeightedEncoder:
        """Returns the encoder that `document` describes."""
        layout, parameters = dict(document["layout"]), document["parameters"]
        spec = spec_of(layout)
        for name in ("states", "actions", "horizon", "initial"):
            del layout[name]
        where = WeightedLayout(spec, **layout)
        want, ahead = (np.array(parameters[name], dtype=np.float64) for name in ("want", "ahead"))
        if want.size == 0:
            raise InvalidInput("want must not be empty")
        return cls(where, want, ahead)

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> RawReport:
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

    def absent(self, rng: Source | np.random.Generator | None = None) -> RawReport:
        """Returns zeros, at coordinates that somebody could have."""
        H = self.layout.spec.horizon
        nowhere, nothing = np.zeros((1, H + 1), dtype=np.int64), np.zeros((len(self.layout.blocks), 1, H))
        indices, values = self._coordinates(nowhere, nowhere[:, 1:], nothing, nothing)
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
                w = math.floor(w / GRID) * GRID
                d = math.trunc(w * (float(trajectory.rewards[h]) - layout.centre) / GRID) * GRID
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
        from discreet.privatizers.weighted import _kernels

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
                    GRID,
                ]
            )
            want, ahead = self.want[start : start + sets].copy(), self.ahead[i].copy()  # a plan's are read-only
            _kernels.weigh(states, actions, rewards, want, ahead, constants, scratch, w[i], d[i])
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

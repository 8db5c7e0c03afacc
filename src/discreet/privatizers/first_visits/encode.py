"""What users send who are asked about first visits: one-bit messages. NumPy only.

A question is a cell: (s, a), or (h, s, a) if steps are told apart. Of each cell that is asked about, a user says
whether they were in it, where they went from their *first* visit, and whether they were rewarded there: one bit in
each of S + 2 counters, most of them 0. Cells that are not asked about send nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput, check_flag, check_integer
from discreet.noise import as_source
from discreet.privacy.messages import BitsReport
from discreet.privatizers.counts.encode import sizes, spec_of
from discreet.privatizers.device import threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec, Trajectory
    from discreet.noise import Source

__all__ = ["FirstVisitEncoder"]

#: One line of a table of noise: most cells it is enough for, pairs of noise bits, probability.
Line = tuple[int, int, float]


@dataclass(frozen=True)
class FirstVisitEncoder:
    """Sends one-bit messages about the first visits to public cells: every data and every noise bit is one.

    Every counter has one data bit and ``noise_bits`` pairs of noise bits, one of ``probability`` p and one of 1 − p,
    touched or not. Counters are v, m(·), r of the first cell, then of the second, and so on. A real reward becomes a
    bit at random, with the reward as its mean.

    Attributes:
        spec: The environment's public sizes.
        stationary: Whether a cell is (s, a); else (h, s, a).
        cells: The numbers of the cells that are asked about, each once, (J,).
        noise: How much noise a batch with at most so many cells needs, in order of the number of cells.

    Guarantee:
        None by itself: a report must reach the server only through a shuffler that takes it apart.
    """

    spec: Spec
    stationary: bool
    cells: tuple[int, ...]
    noise: tuple[Line, ...]

    kind: ClassVar[str] = "first-visits"
    data_bits: ClassVar[int] = 1  # a counter

    def __post_init__(self) -> None:
        check_flag("stationary", self.stationary)
        cells = tuple(check_integer("cells", cell, least=0) for cell in np.asarray(self.cells).tolist())
        object.__setattr__(self, "cells", cells)
        object.__setattr__(self, "noise", tuple((int(J), int(m), float(p)) for J, m, p in self.noise))
        most = [line[0] for line in self.noise]
        if not most or most[0] < 1 or most != sorted(set(most)):
            raise InvalidInput("noise must be a table by growing numbers of cells")
        if not 1 <= len(cells) <= most[-1]:
            raise InvalidInput(f"between 1 and {most[-1]} cells are asked about, got {len(cells)}")
        if len(set(cells)) < len(cells) or max(cells) >= self.questions:
            raise InvalidInput(f"cells must be different numbers below {self.questions}")
        for _, m, p in self.noise:
            check_integer("noise_bits", m)
            if not 0 < p <= 0.5:
                raise InvalidInput(f"probability must lie in (0, 1/2], got probability={p!r}")

    def to_json(self) -> str:
        """Returns the public parameters, from which `discreet.privatizers.codec.from_json` makes the same encoder."""
        layout = {**sizes(self.spec), "stationary": self.stationary}
        parameters = {"cells": list(self.cells), "noise": [list(line) for line in self.noise]}
        return json.dumps({"kind": self.kind, "layout": layout, "parameters": parameters})

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> FirstVisitEncoder:
        """Returns the encoder that `to_json` wrote."""
        layout, parameters = document["layout"], document["parameters"]
        noise = tuple((check_integer("cells", J), m, p) for J, m, p in parameters["noise"])
        return cls(spec_of(layout), layout["stationary"], tuple(parameters["cells"]), noise)

    def for_device(self) -> dict[str, Any]:
        """Returns what a device without Python needs; draws are those of `encode` and of `absent`."""
        p, noise = self.probability, 2 * self.size * self.noise_bits
        found = {"cells": list(self.cells), "noise_bits": self.noise_bits, "p": threshold(p), "q": threshold(1 - p)}
        return {**found, "draws": [len(self.cells) + noise, noise]}

    def hides(self, epsilon: float, delta: float) -> bool:
        """A report by itself hides nothing."""
        return False

    def shuffled_epsilon(self, users: int, delta: float) -> float:
        """Returns the ε of a shuffled batch in which ``users`` users add their noise; needs more than NumPy."""
        from discreet.privacy import accounting, binomial

        event = binomial.SymmetricEvent(users * self.noise_bits, self.probability, 3 * len(self.cells))
        return accounting.epsilon(event, delta)

    @property
    def questions(self) -> int:
        """How many cells there are."""
        return self.spec.states * self.spec.actions * (1 if self.stationary else self.spec.horizon)

    @property
    def size(self) -> int:
        """How many counters there are: S + 2 a cell."""
        return len(self.cells) * (self.spec.states + 2)

    @property
    def _line(self) -> Line:
        return next(line for line in self.noise if line[0] >= len(self.cells))

    @property
    def noise_bits(self) -> int:
        """Pairs of noise bits a counter."""
        return self._line[1]

    @property
    def probability(self) -> float:
        """With which the first of each pair is 1; the second is 0 with it."""
        return self._line[2]

    @property
    def messages(self) -> int:
        """Messages a counter and user."""
        return self.data_bits + 2 * self.noise_bits

    def contributions(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        draws: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the counters that many users may touch, a row each, and whether they do: (users, 3J) both.

        Args:
            states: (users, H+1); of a simulator, or of one user at that user's side.
            actions: (users, H).
            rewards: (users, H).
            draws: What rounds the rewards, uniform, (users, J).
        """
        S, A, H, J = self.spec.states, self.spec.actions, self.spec.horizon, len(self.cells)
        place = np.full(self.questions, -1)
        place[list(self.cells)] = np.arange(J)
        step = np.zeros(1, dtype=np.int64) if self.stationary else np.arange(H)
        asked = place[(step * S + states[:, :-1]) * A + actions]
        first = np.full((len(states), J), H)
        for h in range(H - 1, -1, -1):  # what comes first stays
            user = np.flatnonzero(asked[:, h] >= 0)
            first[user, asked[user, h]] = h
        seen, user = first < H, np.arange(len(states))[:, None]
        then = np.minimum(first, H - 1)
        start = np.arange(J) * (S + 2)
        following = np.where(seen, states[user, then + 1], 0)
        counters = np.broadcast_to(start, seen.shape), start + 1 + following, np.broadcast_to(start + S + 1, seen.shape)
        rewarded = seen & (draws < rewards[user, then])
        return np.concatenate(counters, axis=1), np.concatenate([seen, seen, rewarded], axis=1)

    def touched(self, trajectory: Trajectory, source: Source) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns counters, and whether the user's data bit for each is 1: raw data."""
        trajectory.check(self.spec)
        rewards = np.asarray(trajectory.rewards, dtype=np.float64)[None]
        draws = source.random(len(self.cells))[None]
        indices, ones = self.contributions(trajectory.states[None], trajectory.actions[None], rewards, draws)
        return indices[0], ones[0].astype(np.int64)

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> BitsReport:
        """Returns all messages, (counters, messages)."""
        source = as_source(rng)
        indices, ones = self.touched(trajectory, source)
        return self._messages(indices[ones > 0], source)

    def absent(self, rng: Source | np.random.Generator | None = None) -> BitsReport:
        """Returns data bits that are all 0, and noise bits."""
        return self._messages(np.zeros(0, dtype=np.int64), as_source(rng))

    def _messages(self, indices: NDArray[np.int64], source: Source) -> BitsReport:
        data = np.zeros((self.size, 1), dtype=np.bool_)
        data[indices] = True
        noise = source.random((self.size, self.noise_bits, 2)) < (self.probability, 1 - self.probability)
        return BitsReport(np.concatenate([data, noise.reshape(self.size, -1)], axis=1))

"""Shuffle privacy of first visits: each batch is asked about a public list of cells, and of each only the first visit.

*The worst neighbour.* Let u and u' be what two users say about one cell: (v, m(·), r), with v = Σ m = 1 and r a bit
if the cell was visited, and all 0 if it was not. If neither visited it, nothing moves. If one did, v, one m and
perhaps r move, all the same way: 3 counters at most. If both did, v stays, m moves in at most two counters, one up
and one down, and r in at most one: 3 again. So replacing a user moves at most 3J counters, by one each, for J cells:
many fewer than H visits in each of two cells, and this is attained by two users who visit all J cells with other
successors and other reward bits. Real rewards are rounded to bits by the user: then the laws are mixtures over the
bits, and δ(ε) is convex in the pair of laws.

The noise is symmetric, so that it does not matter which counters go up (`discreet.privacy.binomial.SymmetricEvent`).
Given the data, counters are independent; a counter that does not move loses nothing; so the loss is that of 3J
counters that move by one, composed exactly. That v is released beside m costs nothing: it moves only where less of m
does.

*All batches.* Each user is in exactly one batch. What is asked there depends on earlier releases, which a replaced
user of this batch does not change; later ones are post-processing or other users' batches. So all releases together
are as private as the weakest batch (parallel composition, adaptively): the guarantee is the maximum over all sizes of
batches and all numbers of cells that can be asked about.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction
from discreet.privacy import Guarantee, ShuffledBatch, SimulatedReport, accounting, binomial
from discreet.privatizers.base import Shuffler, check_reports
from discreet.privatizers.first_visit_bits import FirstVisitEncoder, SimulatedFirstVisitEncoder
from discreet.privatizers.shuffle import BitShuffler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privacy import Report, Shuffle

__all__ = ["FirstVisitPrivatizer", "FirstVisitTally", "FirstVisits", "SimulatedFirstVisitShuffler", "cell_counts"]

_MOST_CELLS = 32


def cell_counts(questions: int) -> list[int]:
    """Returns how many cells a batch may ask about: powers of two, as few as noise is calibrated for, and all."""
    most = min(questions, _MOST_CELLS)
    return sorted({1 << i for i in range(most.bit_length()) if 1 << i <= most} | {most})


@dataclass(frozen=True, eq=False)
class FirstVisits:
    """What one batch released: debiased counts of first visits.

    Attributes:
        cells: What was asked about, (J,).
        visits: Users who visited each cell, (J,).
        transitions: Where they went from their first visit, (J, S).
        rewards: How many of them were rewarded there, (J,).
        std: Standard deviation of the noise in each count.
        error: A bound on the noise of any count of any batch, at the failure probability it was asked for.
    """

    cells: NDArray[np.int64]
    visits: NDArray[np.float64]
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    std: float
    error: float


class SimulatedFirstVisitShuffler(Shuffler[SimulatedReport, ShuffledBatch]):
    """The fast path in simulation: adds the totals of all users' noise bits to the data bits of each counter."""

    def __init__(self, privatizer: FirstVisitPrivatizer) -> None:
        super().__init__()
        self._privatizer = privatizer

    def __call__(self, reports: Sequence[SimulatedReport], rng: np.random.Generator) -> ShuffledBatch:
        """Returns the multisets."""
        check_reports(reports, SimulatedReport)
        encoder = self._privatizer.encoder
        data = np.zeros(encoder.size, dtype=np.int64)
        np.add.at(data, np.concatenate([r.indices for r in reports]), np.concatenate([r.ones for r in reports]))
        return _noisy(data, len(reports), encoder, rng)


def _noisy(
    data: NDArray[np.int64],
    users: int,
    encoder: FirstVisitEncoder | SimulatedFirstVisitEncoder,
    rng: np.random.Generator,
) -> ShuffledBatch:
    """Returns a batch with the law of all messages, from the data bits that are 1."""
    bits, p = users * encoder.noise_bits, encoder.probability
    ones = data + rng.binomial(bits, p, size=encoder.size) + rng.binomial(bits, 1 - p, size=encoder.size)
    return ShuffledBatch(ones, users * encoder.messages, users)


class FirstVisitPrivatizer:
    """Asks every batch about cells of its own, counts the ones and debiases; keeps the last batch's release only.

    Which cells: ``encoder`` is replaced by one with other ``cells`` before a batch begins. They must depend on
    releases and public numbers alone.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        batches: How many users each batch has, in order: public. Noise is calibrated for each size.
        stationary: Whether a cell is (s, a); else (h, s, a).
        failure: Probability with which any ``counts().error`` may fail.
        messages: Whether every bit is drawn and mixed; else simulated totals with the same law are.

    Guarantee:
        ``guarantee``: shuffle DP for one user's whole trajectory, that of the weakest batch that there can be.
    """

    name = noise = "binomial"

    def __init__(
        self,
        spec: Spec,
        privacy: Shuffle,
        *,
        batches: Sequence[int],
        stationary: bool,
        failure: float = 0.05,
        messages: bool = False,
    ) -> None:
        if len(batches) == 0 or min(batches) < 1:
            raise InvalidInput("batches must be one or more positive numbers of users")
        if privacy.release not in ("auto", "first-visits"):
            raise InvalidInput(f"this is for release='first-visits', got release={privacy.release!r}")
        if privacy.calibration == "paper":
            raise InvalidInput("calibration='paper' is printed for release='nmr', got release='first-visits'")
        self.spec, self.privacy, self.stationary = spec, privacy, stationary
        self.batches = [int(users) for users in batches]
        self.failure = check_fraction("failure", failure)
        questions = spec.states * spec.actions * (1 if stationary else spec.horizon)
        self.cell_counts = cell_counts(questions)
        kind = FirstVisitEncoder if messages else SimulatedFirstVisitEncoder
        self._tables = {
            users: kind(spec, stationary, (0,), tuple(self._line(users, J) for J in self.cell_counts))
            for users in sorted(set(self.batches))
        }
        self.shuffler = cast(
            "Shuffler[Report, ShuffledBatch]", BitShuffler() if messages else SimulatedFirstVisitShuffler(self)
        )
        self.batch = 0
        self.encoder = self._tables[self.batch_size]
        self._released: FirstVisits | None = None

    def honest(self, users: int) -> int:
        """Returns how many users of a batch of ``users`` are taken to add their noise."""
        return math.floor(self.privacy.honest_fraction * users + 1e-9)

    def _line(self, users: int, cells: int) -> tuple[int, int, float]:
        """Returns the noise of a batch of ``users`` that is asked about ``cells`` cells."""
        privacy, honest = self.privacy, self.honest(users)
        if honest < 1:
            raise InvalidInput(
                f"a batch of {users} users with honest_fraction={privacy.honest_fraction} has no honest user: "
                f"the smallest batch is {math.ceil((1 - 1e-9) / privacy.honest_fraction)}"
            )
        return cells, *binomial.calibrate_symmetric(honest, 3 * cells, privacy.epsilon, privacy.delta)

    @property
    def batch_size(self) -> int:
        """Users in the current batch; after the last batch, in that."""
        return self.batches[min(self.batch, len(self.batches) - 1)]

    @property
    def count(self) -> int:
        """Number of users collected."""
        return sum(self.batches[: self.batch])

    @cached_property
    def guarantee(self) -> Guarantee:
        """Shuffle DP of the weakest batch, from the noise bits that honest users really add."""
        found: list[tuple[float, binomial.SymmetricEvent]] = []
        for users, encoder in self._tables.items():
            for cells, m, p in encoder.noise:
                event = binomial.SymmetricEvent(self.honest(users) * m, p, 3 * cells)
                found.append((accounting.epsilon(event, self.privacy.delta), event))
        epsilon, event = max(found, key=lambda pair: pair[0])
        assumptions = (
            f"at least {100 * self.privacy.honest_fraction:g}% of the users of every batch add their noise bits",
            "the shuffler takes reports apart and mixes each counter's messages",
        )
        return Guarantee("shuffle", epsilon, self.privacy.delta, noise="fast", assumptions=assumptions, events=event)

    def std(self, users: int, cells: int) -> float:
        """Returns the standard deviation of the noise in a count of such a batch: public."""
        _, m, p = next(line for line in self._tables[users].noise if line[0] >= cells)
        return math.sqrt(2 * users * m * p * (1 - p))

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the noise in a count of the current batch."""
        return self.std(self.batch_size, len(self.encoder.cells))

    @property
    def worst_std(self) -> float:
        """The largest standard deviation of the noise in any count."""
        return max(self.std(users, self.cell_counts[-1]) for users in self._tables)

    def messages_per_user(self, users: int, cells: int) -> int:
        """Returns how many one-bit messages a user of such a batch sends."""
        m = next(line[1] for line in self._tables[users].noise if line[0] >= cells)
        return cells * (self.spec.states + 2) * (1 + 2 * m)

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count of any batch is further than this from the users' bits.

        A union over counts and batches of the exact tails of the noise.
        """
        share = self.failure / (len(self.batches) * self.cell_counts[-1] * (self.spec.states + 2))
        lines = ((users, m, p) for users, encoder in self._tables.items() for _, m, p in encoder.noise)
        return max(binomial.symmetric_reach(users * m, p, share) for users, m, p in lines)

    def collect(self, batch: ShuffledBatch) -> None:
        """Releases the current batch and goes on to the next; nothing changes if an error is raised."""
        if not isinstance(batch, ShuffledBatch):
            raise TypeError(f"expected a ShuffledBatch, got {type(batch).__name__}")
        if self.batch == len(self.batches):
            raise CapacityExceeded(f"this privatizer holds {self.count} users: all are in it, got {batch.users} more")
        if batch.users != self.batch_size:
            raise InvalidInput(f"the noise of this batch was calibrated for {self.batch_size} users, got {batch.users}")
        encoder = self.encoder
        messages = batch.users * encoder.messages
        shape = batch.ones.shape == (encoder.size,) and batch.ones.dtype.kind in "iu"
        if not shape or batch.messages != messages or batch.ones.min() < 0 or batch.ones.max() > messages:
            raise InvalidInput(f"a batch has {encoder.size} counters with {messages} messages each")
        counts = (batch.ones - batch.users * encoder.noise_bits).astype(np.float64)
        table = counts.reshape(len(encoder.cells), self.spec.states + 2)
        self._released = FirstVisits(
            np.array(encoder.cells, dtype=np.int64),
            table[:, 0].copy(),
            table[:, 1:-1].copy(),
            table[:, -1].copy(),
            self.fresh_std,
            self.error,
        )
        self.batch += 1
        self.encoder = replace(self._tables[self.batch_size], cells=encoder.cells)

    def counts(self) -> FirstVisits:
        """Returns what the last batch released."""
        if self._released is None:
            raise InvalidInput("nothing has been released yet")
        return self._released

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes, by name."""
        last = self._released
        released = None if last is None else [last.cells, last.visits, last.transitions, last.rewards, last.std]
        return copy.deepcopy({"batch": self.batch, "cells": list(self.encoder.cells), "released": released})

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`, which is used up."""
        self.batch = state["batch"]
        self.encoder = replace(self._tables[self.batch_size], cells=tuple(state["cells"]))
        self._released = None
        if state["released"] is not None:
            cells, visits, transitions, rewards, std = state["released"]
            self._released = FirstVisits(cells, visits, transitions, rewards, std, self.error)

    @property
    def encoders(self) -> list[FirstVisitEncoder | SimulatedFirstVisitEncoder]:
        """One of each size of batch: what was calibrated."""
        return list(self._tables.values())

    def recalibrate(self, encoders: Sequence[FirstVisitEncoder | SimulatedFirstVisitEncoder]) -> None:
        """Takes the noise of ``encoders`` (see `encoders`) instead of what was calibrated."""
        self._tables = dict(zip(self._tables, encoders, strict=True))
        for derived in ("guarantee", "error"):  # those of other noise, if they were asked for before
            self.__dict__.pop(derived, None)
        self.encoder = replace(self._tables[self.batch_size], cells=self.encoder.cells)

    @property
    def simulated(self) -> bool:
        """Whether `tally` does what encoder and shuffler of the current batch do."""
        parts = type(self.encoder), type(self.shuffler)
        return parts == (SimulatedFirstVisitEncoder, SimulatedFirstVisitShuffler)

    def tally(self) -> FirstVisitTally:
        """In simulation only: returns what stands for the users and the shuffler of the current batch."""
        return FirstVisitTally(self.encoder)


class FirstVisitTally:
    """In simulation only: the total of a batch while its users play, bit for bit what their reports add up to."""

    def __init__(self, encoder: FirstVisitEncoder | SimulatedFirstVisitEncoder) -> None:
        self._encoder = encoder
        self._total = np.zeros(encoder.size, dtype=np.int64)
        self.users = 0

    def add(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Adds users, a row each; ``rng`` is that of their encoders."""
        draws = rng.random((len(states), len(self._encoder.cells)))
        indices, ones = self._encoder.contributions(states, actions, rewards, draws)
        self._total += np.bincount(indices[ones], minlength=len(self._total))
        self.users += len(states)

    def batch(self, rng: np.random.Generator) -> ShuffledBatch:
        """Returns what the shuffler hands on; ``rng`` is the shuffler's."""
        return _noisy(self._total, self.users, self._encoder, rng)

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

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction
from discreet.noise import Role
from discreet.privacy import Guarantee, ShuffledBatch, binomial
from discreet.privatizers.base import Encoder, Kind, Mechanism, Released
from discreet.privatizers.counts.shuffle import check_messages, check_ones, drawable, honest_users, weakest
from discreet.privatizers.first_visits.encode import FirstVisitEncoder
from discreet.privatizers.shufflers import BitShuffler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Source
    from discreet.privacy import Report, Shuffle

__all__ = ["FirstVisitCounts", "FirstVisits", "cell_counts"]

_MOST_CELLS = 32


def cell_counts(questions: int) -> list[int]:
    """Returns how many cells a batch may ask about: powers of two, as few as noise is calibrated for, and all."""
    most = min(questions, _MOST_CELLS)
    return sorted({1 << i for i in range(most.bit_length()) if 1 << i <= most} | {most})


@dataclass(frozen=True, eq=False)
class FirstVisits(Released):
    """What one batch released: debiased counts of first visits.

    Attributes:
        cells: What was asked about, (J,).
        visits: Users who visited each cell, (J,).
        transitions: Where they went from their first visit, (J, S).
        rewards: How many of them were rewarded there, (J,).
        error: A bound on the noise of any count of any batch, at the failure probability it was asked for.
    """

    cells: NDArray[np.int64]
    visits: NDArray[np.float64]
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    error: float


class Answered(NamedTuple):
    """What the server keeps: the number of batches, and what the one that is not released yet was asked and said."""

    batch: int
    asked: FirstVisitEncoder | None
    ones: NDArray[np.int64] | None


class FirstVisitCounts(Mechanism[ShuffledBatch, Answered, FirstVisits]):
    """Asks every batch about cells of its own, counts the ones and debiases; keeps nothing of a batch but its release.

    Which cells: a plan gives the encoder other ``cells``. They must depend on releases and public numbers alone.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for.
        batches: How many users each batch has, in order: public. Noise is calibrated for each size.
        stationary: Whether a cell is (s, a); else (h, s, a).
        failure: Probability with which any release's ``error`` may fail.

    Guarantee:
        `promise`: shuffle DP for one user's whole trajectory, that of the weakest batch that there can be.
    """

    name = noise = "binomial"
    draws = (Role.ENCODER, Role.SHUFFLER)

    def __init__(
        self,
        spec: Spec,
        privacy: Shuffle,
        *,
        batches: Sequence[int],
        stationary: bool,
        failure: float = 0.05,
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
        self.tables = {
            users: FirstVisitEncoder(spec, stationary, (0,), tuple(self._line(users, J) for J in self.cell_counts))
            for users in sorted(set(self.batches))
        }

    def _line(self, users: int, cells: int) -> tuple[int, int, float]:
        """Returns the noise of a batch of ``users`` that is asked about ``cells`` cells."""
        privacy, honest = self.privacy, honest_users(self.privacy, users)
        m, p = binomial.calibrate_symmetric(honest, 3 * cells, privacy.epsilon, privacy.delta)
        if privacy.noise == "secure":
            p = drawable(p)
            check_messages(users, cells * (self.spec.states + 2) * (1 + 2 * m))
        return cells, m, p

    @property
    def exact(self) -> bool:
        """Bits are drawn with the very probability that is accounted for."""
        return self.privacy.noise == "secure"

    def users_of(self, version: int) -> int:
        """Returns how many users a batch has, by its number from 0; after the last one, those of that."""
        return self.batches[min(version, len(self.batches) - 1)]

    def encoder_of(self, version: int) -> FirstVisitEncoder:
        """Returns what runs at the users of a batch, if no plan says which cells."""
        return self.tables[self.users_of(version)]

    def shuffler(self) -> BitShuffler:
        """Mixes a batch."""
        encoder = self.encoder_of(0)
        return BitShuffler(self.users_of(0), (encoder.size, encoder.messages))

    def promise(self, kind: Kind) -> Guarantee:
        """Returns the shuffle DP of the weakest batch, from the noise bits that honest users really add."""
        events = [
            binomial.SymmetricEvent(honest_users(self.privacy, users) * m, p, 3 * cells)
            for users, encoder in self.tables.items()
            for cells, m, p in encoder.noise
        ]
        return weakest(events, self.privacy, kind)

    def std(self, users: int, cells: int) -> float:
        """Returns the standard deviation of the noise in a count of such a batch: public."""
        _, m, p = next(line for line in self.tables[users].noise if line[0] >= cells)
        return math.sqrt(2 * users * m * p * (1 - p))

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the noise in a count of the first batch, if it is asked about one cell."""
        return self.std(self.users_of(0), 1)

    @property
    def worst_std(self) -> float:
        """The largest standard deviation of the noise in any count."""
        return max(self.std(users, self.cell_counts[-1]) for users in self.tables)

    def messages_per_user(self, users: int, cells: int) -> int:
        """Returns how many one-bit messages a user of such a batch sends."""
        m = next(line[1] for line in self.tables[users].noise if line[0] >= cells)
        return cells * (self.spec.states + 2) * (1 + 2 * m)

    @cached_property
    def error(self) -> float:
        """With probability 1 − failure no count of any batch is further than this from the users' bits.

        A union over counts and batches of the exact tails of the noise.
        """
        share = self.failure / (len(self.batches) * self.cell_counts[-1] * (self.spec.states + 2))
        lines = ((users, m, p) for users, encoder in self.tables.items() for _, m, p in encoder.noise)
        return max(binomial.symmetric_reach(users * m, p, share) for users, m, p in lines)

    def start(self) -> Answered:
        """Nobody."""
        return Answered(0, None, None)

    def folded(self, kept: Answered, batch: ShuffledBatch, encoder: Encoder[Report]) -> Answered:
        """Puts the current batch in."""
        if kept.batch == len(self.batches):
            held = sum(self.batches)
            raise CapacityExceeded(f"this privatizer holds {held} users: all are in it, got {batch.users} more")
        if not isinstance(encoder, FirstVisitEncoder) or encoder.noise != self.encoder_of(kept.batch).noise:
            raise InvalidInput("users of this batch must run its own encoder")
        check_ones(batch, self.users_of(kept.batch), encoder.size, encoder.messages)
        return Answered(kept.batch, encoder, np.array(batch.ones, dtype=np.int64))

    def released(self, kept: Answered, source: Source) -> tuple[Answered, FirstVisits]:
        """Releases the current batch, debiased, and forgets it. Users drew the noise already."""
        encoder, users = kept.asked, self.users_of(kept.batch)
        if encoder is None or kept.ones is None:
            raise InvalidInput("nobody is in the current batch: there is nothing to release")
        counts = (kept.ones - users * encoder.noise_bits).astype(np.float64)
        table = counts.reshape(len(encoder.cells), self.spec.states + 2)
        found = FirstVisits(
            np.array(encoder.cells, dtype=np.int64),
            table[:, 0].copy(),
            table[:, 1:-1].copy(),
            table[:, -1].copy(),
            self.error,
            std=self.std(users, len(encoder.cells)),
        )
        return Answered(kept.batch + 1, None, None), found

    def calibration(self) -> dict[str, Any]:
        """Returns what users run, by size of batch."""
        return {"tables": {str(users): encoder.to_json() for users, encoder in self.tables.items()}}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes the encoders of another machine."""
        from discreet.privatizers.codec import from_json

        self.tables = {int(users): from_json(text) for users, text in found["tables"].items()}  # type: ignore[misc]
        self.__dict__.pop("error", None)

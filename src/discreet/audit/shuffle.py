"""Shuffle privacy under attack: all messages of a batch in which one person is one of two."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from discreet.audit.world import corners, drawn_from, kind_of, tiny
from discreet.errors import InvalidInput, check_integer
from discreet.noise import as_source
from discreet.privacy import Budget, Guarantee
from discreet.privatizers import BitShuffler
from discreet.privatizers.counts.shuffle import ShuffledCounts, honest_users, paper_bits
from discreet.privatizers.first_visits.encode import FirstVisitEncoder
from discreet.privatizers.first_visits.serve import FirstVisitCounts
from discreet.runtime.fast import simulated_report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.privacy import Shuffle
    from discreet.privatizers.counts.encode import BinomialEncoder

__all__ = ["PrintedTarget", "ShuffleTarget", "printed", "shuffle"]


@dataclass(frozen=True)
class ShuffleTarget:
    """A batch under attack: the attacker sees every message that the shuffler hands on, in its order.

    They know everybody's data but one person's; some users may add no noise, which the attacker knows too. They
    compute the exact likelihood ratio of the sums, and they look for messages that stayed together: a report that was
    handed on whole.

    Attributes:
        name: What it is called.
        claim: What is claimed.
        encoder: At the users.
        shuffler: Between the users and the server; ours by default.
        people: The two neighbours. All other users are like the first.
        users: In the batch.
        silent: How many of them add no noise.
        runs: How many it takes to attack it well.
    """

    name: str
    claim: Guarantee
    encoder: BinomialEncoder | FirstVisitEncoder
    people: tuple[Trajectory, Trajectory]
    users: int
    silent: int = 0
    shuffler: BitShuffler | None = None
    runs: int = 20_000

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Sends, mixes and looks at ``runs`` batches, message by message."""
        encoder, users, source = self.encoder, self.users, drawn_from(self.claim, rng)
        shuffler = self.shuffler or BitShuffler(users, (encoder.size, encoder.messages))
        still = [simulated_report(encoder, person, as_source(source)) for person in self.people]
        data = np.zeros((2, encoder.size), dtype=np.int64)
        for row, report in zip(data, still, strict=True):
            np.add.at(row, report.indices, report.ones)
        zero, one = (np.flatnonzero(mine > other) for mine, other in (data, data[::-1]))
        honest = users - self.silent
        logs, own = self._log_noise(honest), self._log_noise(1)  # of all users' noise in a counter, and of one user's
        names = ("likelihood ratio", "linear", "linked, columns", "linked, first messages", "linked, reports")
        found = {name: np.empty(runs) for name in names}
        for i in range(runs):
            reports = [encoder.encode(self.people[world if user == users - 1 else 0], source) for user in range(users)]
            for sent in reports[: self.silent]:
                sent.bits[:, encoder.data_bits :] = False
            mixed = shuffler.mix(reports, source)
            noise = mixed.sum(axis=1) - (users - 1) * data[0]  # as if the last one had no data
            found["likelihood ratio"][i] = round(_ratio(logs, noise[:, None], data).item(), 9)
            found["linear"][i] = noise[one].sum() - noise[zero].sum()
            columns = mixed[one].sum(axis=0, dtype=np.int64) - mixed[zero].sum(axis=0, dtype=np.int64)
            found["linked, columns"][i] = columns.max()  # messages that were mixed alike in all counters
            whole = mixed.reshape(len(mixed), users, -1).sum(axis=2, dtype=np.int64)  # as if reports had stayed whole
            found["linked, first messages"][i] = columns.reshape(users, -1)[:, 0].max()
            found["linked, reports"][i] = round(float(np.logaddexp.reduce(_ratio(own, whole, data))), 9)
        return found

    def _log_noise(self, users: int) -> tuple[NDArray[np.float64], int]:
        """Returns ln P(the noise bits of ``users`` users in a counter = k), and the place of k = 0."""
        from scipy.stats import binom

        encoder, place = self.encoder, 2 * self.encoder.data_bits
        k = np.arange(-place, self.users * encoder.messages + place + 1)
        bits, p = users * encoder.noise_bits, encoder.probability
        if isinstance(encoder, FirstVisitEncoder):  # pairs of bits, of p and of 1 − p
            one = np.asarray(binom.pmf(np.arange(bits + 1), bits, p), dtype=np.float64)
            law = np.zeros(len(k))
            law[place : place + 2 * bits + 1] = np.convolve(one, one[::-1])
            logs = np.log(np.maximum(law, 1e-300))
        else:
            logs = np.asarray(binom.logpmf(k, bits, p), dtype=np.float64)
        logs[~np.isfinite(logs) | (logs < -690)] = -1e3  # impossible
        return logs, place


def _ratio(
    logs: tuple[NDArray[np.float64], int], seen: NDArray[np.int64], data: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Returns ln P(seen | the one) − ln P(seen | the other), added up over the counters (counters, n)."""
    table, place = logs
    ratio: NDArray[np.float64] = table[place + seen - data[1][:, None]] - table[place + seen - data[0][:, None]]
    return np.asarray(ratio.sum(axis=0), dtype=np.float64)


def shuffle(
    privacy: Shuffle, *, users: int = 4, steps: int = 1, stationary: bool = False, silent: int | None = None
) -> ShuffleTarget:
    """Returns a batch of the shuffle privatizers in a world of two states and two actions.

    Args:
        privacy: What is claimed.
        users: In the batch.
        steps: Of an episode.
        stationary: Whether counters are pooled over the steps.
        silent: How many users add no noise; by default as many as ``privacy.honest_fraction`` allows.
    """
    mechanism: ShuffledCounts | FirstVisitCounts
    encoder: BinomialEncoder | FirstVisitEncoder
    if privacy.release == "first-visits":  # of the cells of the two people, who move all 3J counters
        mechanism = FirstVisitCounts(tiny(steps), privacy, batches=[users], stationary=stationary)
        cells = (0, 3) if stationary else tuple(4 * h + corner for h in range(steps) for corner in (0, 3))
        encoder = replace(mechanism.encoder_of(0), cells=cells)
    else:
        mechanism = ShuffledCounts(tiny(steps), privacy, batches=[users], stationary=stationary)
        encoder = mechanism.encoder_of(0)
    if silent is None:
        silent = users - honest_users(privacy, users)
    if not 0 <= silent < users:
        raise InvalidInput(f"silent must lie in [0, {users}), the users but one, got silent={silent}")
    return ShuffleTarget("shuffle", mechanism.promise(kind_of(privacy)), encoder, corners(steps), users, silent)


@dataclass(frozen=True)
class PrintedTarget:
    """Algorithm 4 of SDP-PE as printed: every user sends one number a counter, its data bit plus its noise bits.

    What the shuffler hands on is the multiset of these numbers. The attacker counts how often the largest number
    occurs that only a user with a data bit can send: the others have none in the counters of the two people.

    Attributes:
        name: What it is called.
        claim: As printed; it is not proven.
        noise_bits: A user and counter.
        probability: With which each is 1.
        counters: That the two people do not share.
        users: In the batch.
        runs: How many it takes to attack it well.
    """

    name: str
    claim: Guarantee
    noise_bits: int
    probability: float
    counters: int
    users: int
    runs: int = 2000

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Counts the largest number in the one's counters, less the same in the other's."""
        largest = np.empty(runs)
        for i in range(runs):
            z = rng.binomial(self.noise_bits, self.probability, size=(2, self.counters, self.users))
            z[world, :, 0] += 1
            often = (z == self.noise_bits + 1).sum(axis=(1, 2))
            largest[i] = often[1] - often[0]
        return {"largest message": largest}


def printed(budget: Budget, *, users: int | None = None, steps: int = 1) -> PrintedTarget:
    """Returns the printed protocol; by default for the smallest batch in which a user sends one noise bit."""
    if budget.delta == 0:
        raise InvalidInput("algorithm-4 needs delta > 0, got delta=0.0")
    if users is None:
        users = math.ceil(96 * math.log(2 / budget.delta) / (budget.epsilon / (3 * steps)) ** 2)
    m, p = paper_bits(budget.epsilon, budget.delta, steps, check_integer("users", users))
    claim = Guarantee("shuffle", budget.epsilon, budget.delta, assumptions=("as printed, not proven",))
    return PrintedTarget("algorithm-4", claim, m, p, 3 * steps, users)

"""Central sums and the central privatizer under attack, on their worst neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.audit.world import EXACT, corners, digits_of, kind_of, source_of, tiny
from discreet.noise.secure import SecureSource
from discreet.privacy import Budget, Central, Guarantee, Sensitivity, accounting
from discreet.privatizers import Privatizer
from discreet.privatizers.counts.serve import CentralCounts
from discreet.sums import Grid, NoisySum, PrivateSum, SecurePrivateSum, SecureSum, proven

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.sums.private import InMemory

__all__ = ["SumTarget", "central", "single", "stream"]

_READS_EACH = 3  # a release is read again and again: noise that is drawn anew would average out
_COPIES = 5000  # runs that are done at once


@dataclass(frozen=True)
class SumTarget:
    """A private sum under attack: one user a batch, one of whom is replaced: the first, one in the middle, or the last.

    The attacker sees every read, several times over, and whether the sum could be read. They know everything but
    whose data it was. They compute the exact likelihood ratio that the claimed mechanism would have, and they learn
    the best linear combination of the reads from a pilot sample, which needs no belief about the mechanism.

    Attributes:
        name: What it is called.
        claim: What is claimed.
        make: Called with a number of copies and a generator; returns a sum of that many independent copies.
        zero: The replaced user's contribution in world 0, (size,).
        one: The same in world 1.
        digits: To how many decimals scores are rounded. The last bits of a sum of floating-point numbers betray its
            terms: with 17 decimals the attack breaks fast noise, which is for simulation only, whatever its scale.
        end_to_end: If given, called with a world and a generator; runs the whole mechanism once, as users meet it, and
            returns all that it released, flat.
        runs: How many it takes to attack it well.
        watched: How many of them, at most, are watched one by one: their timing, and from end to end. A sure leak in n
            of them proves about ln n − 2.3.
    """

    name: str
    claim: Guarantee
    make: Callable[[int, np.random.Generator], InMemory]
    zero: NDArray[np.float64]
    one: NDArray[np.float64]
    digits: int = 9
    end_to_end: Callable[[int, np.random.Generator], NDArray[np.float64]] | None = None
    runs: int = 200_000
    watched: int = 2000

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Attacks ``runs`` copies at once, and some one by one by their timing and from end to end."""
        found: dict[str, NDArray[np.float64]] = {}
        horizon = self.make(1, rng).horizon
        for position in sorted({0, horizon // 2, horizon - 1}):
            ratio, reads = self._copies(world, position, runs, rng)
            found[f"likelihood ratio, user {position + 1}"] = ratio
            found[f"linear, user {position + 1}"] = reads
        few = min(runs, self.watched)
        found["timing"] = np.array([self._observe(self.make(1, rng), world, 0, times=1)[1] for _ in range(few)])
        if self.end_to_end is not None:
            found["end to end"] = np.array([self.end_to_end(world, rng) for _ in range(few)])
        return found

    def _observe(
        self, sum_: InMemory, world: int, position: int, times: int = _READS_EACH
    ) -> tuple[NDArray[np.float64], float]:
        """Feeds one user a batch; returns the reads, (reads, size), and how often the sum could not be read."""
        vector = np.tile(self.one if world else self.zero, sum_.size // len(self.zero))
        coordinates, nothing = np.arange(sum_.size)[None], np.zeros((1, sum_.size))
        reads, refused = np.zeros((sum_.horizon, sum_.size)), 0.0
        for t in range(sum_.horizon):
            sum_.add(coordinates, vector[None] if t == position else nothing)
            if sum_.readable:
                reads[t] = sum_.read() if times == 1 else np.mean([sum_.read() for _ in range(times)], axis=0)
            else:
                refused += 1.0
        return reads, refused

    def _copies(
        self, world: int, position: int, runs: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns ln f₁ − ln f₀ of each run, for the noise that the sum says it has, and each run's reads projected.

        The reads, (runs, reads), are projected on the difference of the two contributions.
        """
        ratios: list[NDArray[np.float64]] = []
        projected: list[NDArray[np.float64]] = []
        width, apart = len(self.zero), self.one - self.zero
        for start in range(0, runs, _COPIES):
            copies = min(_COPIES, runs - start)
            sum_ = self.make(copies, rng)
            reads, _ = self._observe(sum_, world, position)
            solve = np.linalg.inv(sum_.factorisation.matrix())  # the reads are prefix sums plus B z
            logs = []
            for vector in (self.zero, self.one):
                prefix = np.zeros((sum_.horizon, 1))
                prefix[position:] = 1.0
                z = solve @ (reads - prefix * np.tile(vector, copies)) / sum_.scale
                logs.append(-np.abs(z) if sum_.distribution == "laplace" else -(z**2) / 2)
            ratios.append((logs[1] - logs[0]).sum(axis=0).reshape(copies, width).sum(axis=1))
            projected.append((reads.reshape(sum_.horizon, copies, width) @ apart).T)
        ratio, projection = np.concatenate(ratios), np.concatenate(projected)
        np.round(ratio, self.digits, out=ratio)
        np.round(projection, self.digits, out=projection)
        return ratio, projection


def stream(name: str, budget: Budget, reads: int = 15, noise: str = "fast") -> SumTarget:
    """Returns a stream of counts kept by a central sum, sensitivity 1, read after every user."""
    unit = Sensitivity(1.0, 1.0)

    if noise == "secure":
        given: dict[str, Any] = {"capacity": reads, "horizon": reads, "sensitivity": unit, "budget": budget}
        made = side_by_side(proven(name, 1, **given, grid=Grid(1)))
        claim = replace(_claim(made, budget.delta), noise="secure")
        return SumTarget(name, claim, made, np.zeros(1), np.ones(1), digits=EXACT)

    make = side_by_side(proven(name, 1, capacity=reads, horizon=reads, sensitivity=unit, budget=budget))
    return SumTarget(name, _claim(make, budget.delta), make, np.zeros(1), np.ones(1))


def single(budget: Budget, noise: str = "fast") -> SumTarget:
    """Returns one release of one number: Laplace noise for δ = 0, else Gaussian."""
    target = stream("batch", budget, reads=1, noise=noise)
    return replace(target, name="gaussian" if budget.delta > 0 else "laplace", runs=4_000_000)


def central(privacy: Central, *, steps: int = 1, reads: int = 2, stationary: bool = False) -> SumTarget:
    """Returns the central privatizer in a world of two states and two actions.

    The replaced user stays in one state with one action and gets every reward, before and after, but never in the
    same cell: this attains the sensitivities.
    """
    spec, trajectories = tiny(steps), corners(steps)
    mechanism = CentralCounts(spec, privacy, capacity=reads, horizon=reads, stationary=stationary)
    vectors = []
    for trajectory in trajectories:
        report = mechanism.encoder.encode(trajectory)
        vector = np.zeros(mechanism.layout.size)
        np.add.at(vector, report.indices, report.values)
        vectors.append(vector)

    def end_to_end(world: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """A privatizer of its own; the first user is replaced, the others are all alike."""
        whole, shuffler, released = Privatizer(mechanism, source_of(privacy, rng)), mechanism.shuffler(), []
        for t in range(reads):
            trajectory = trajectories[world if t == 0 else 0]
            counts = whole.observe(shuffler([mechanism.encoder.encode(trajectory, rng)], rng))  # nothing is drawn there
            released += [counts.visits, counts.transitions, counts.rewards]
        return np.concatenate([array.ravel() for array in released])

    make = side_by_side(mechanism.sum)
    claim, digits = mechanism.promise(kind_of(privacy)), digits_of(privacy)
    return SumTarget("central", claim, make, vectors[0], vectors[1], digits, end_to_end)


def side_by_side(built: NoisySum) -> Callable[[int, np.random.Generator], InMemory]:
    """Returns what makes many independent copies of a sum at once, as one longer sum with noise of its own."""

    def make(copies: int, rng: np.random.Generator) -> InMemory:
        if isinstance(built, SecureSum):
            return SecurePrivateSum(built, SecureSource(), copies=copies)
        return PrivateSum(
            built.factorisation,
            built.size * copies,
            capacity=built.capacity,
            scale=built.scale,
            sensitivity=built.sensitivity,
            rng=rng,
        )

    return make


def _claim(make: Callable[[int, np.random.Generator], InMemory], delta: float) -> Guarantee:
    event = make(1, np.random.default_rng(0)).event
    return Guarantee("joint", accounting.epsilon(event, delta), delta, events=event)

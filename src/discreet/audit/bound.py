"""From an attacker's scores to a lower bound on ε that holds with 99.9 % confidence.

A mechanism is (ε, δ)-DP only if P₁(score ≥ τ) ≤ e^ε·P₀(score ≥ τ) + δ for every threshold τ and for both orders of
the two neighbours. So ε ≥ ln((P₁ − δ)/P₀). Both probabilities are estimated from independent runs; Clopper and
Pearson's exact confidence limits, one below P₁ and one above P₀, make a bound of it.

An attack may give several numbers a run instead of a score; a pilot sample then finds the linear combination that
separates the neighbours best. It also picks the thresholds that look best; they are then tried on fresh runs, with
the confidence shared among all that are tried (Bonferroni).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import check_fraction, check_integer
from discreet.noise import seed_sequence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.audit.targets import Target
    from discreet.noise import Seed
    from discreet.privacy import Guarantee

__all__ = ["Finding", "audit", "lower_bound"]

#: For each attack what it saw in independent runs of neighbour 0 and of neighbour 1: (runs,) or (runs, numbers)
Scores = dict[str, "tuple[NDArray[np.float64], NDArray[np.float64]]"]

_PILOT_THRESHOLDS = 60
_TRIED = 2  # thresholds an attack
_TINY = 1e-300


@dataclass(frozen=True)
class Finding:
    """What an attack found.

    Attributes:
        target: What was attacked.
        claim: What is claimed for it.
        lower_bound: With ``confidence``, the true ε at the claimed δ is at least this.
        attack: The attack that proved it.
        runs: Independent runs of each of the two neighbours that the attack had.
        confidence: Of the bound.
    """

    target: str
    claim: Guarantee
    lower_bound: float
    attack: str
    runs: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the claim is false, with ``confidence``."""
        return self.lower_bound > self.claim.epsilon


def _bounds(
    hits: NDArray[np.int64], false: NDArray[np.int64], n: int, delta: float, alpha: float
) -> NDArray[np.float64]:
    """Returns the ε that each of ``hits`` of n against each of ``false`` of n proves, failing with probability alpha.

    Clopper and Pearson's limits: P₁ lies below one, and P₀ above the other, with probability alpha/2 each.
    """
    from scipy.special import betaincinv

    p1 = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, alpha / 2), 0.0)
    p0 = np.where(false < n, betaincinv(false + 1, np.maximum(n - false, 1), 1 - alpha / 2), 1.0)
    proven: NDArray[np.float64] = np.log(np.maximum(p1 - delta, _TINY) / p0)
    return np.where(p1 > delta, proven, 0.0)


def _sides(
    scores: tuple[NDArray[np.float64], NDArray[np.float64]], sign: int, order: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns (alternative, null): large scores, or small ones, may speak for either neighbour."""
    return sign * scores[order], sign * scores[1 - order]


def _learn(pilot: Scores, fresh: Scores) -> tuple[Scores, Scores]:
    """Turns attacks with several numbers a run into scores, by Fisher's linear discriminant.

    Half of the pilot sample finds the direction; the other half is left to choose thresholds.
    """
    kept: tuple[Scores, Scores] = {}, {}
    for attack, worlds in pilot.items():
        if worlds[0].ndim == 1:
            kept[0][attack], kept[1][attack] = worlds, fresh[attack]
            continue
        half = len(worlds[0]) // 2
        zero, one = worlds[0][:half], worlds[1][:half]
        scatter = np.atleast_2d(np.cov(zero.T) + np.cov(one.T))
        ridge = 1e-9 * max(float(np.trace(scatter)) / len(scatter), 1e-300)  # a noiseless direction must not be lost
        direction = np.linalg.solve(scatter + ridge * np.eye(len(scatter)), one.mean(axis=0) - zero.mean(axis=0))
        direction /= max(float(np.abs(direction).max()), 1e-300)
        kept[0][attack] = (worlds[0][half:] @ direction, worlds[1][half:] @ direction)
        kept[1][attack] = (fresh[attack][0] @ direction, fresh[attack][1] @ direction)
    return kept


def _hits(
    scores: tuple[NDArray[np.float64], NDArray[np.float64]], sign: int, order: int, thresholds: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Returns how often the alternative and the null reach each threshold, and the number of runs."""
    one, zero = (np.sort(side) for side in _sides(scores, sign, order))
    return len(one) - np.searchsorted(one, thresholds), len(zero) - np.searchsorted(zero, thresholds), len(one)


def lower_bound(pilot: Scores, fresh: Scores, delta: float, confidence: float = 0.999) -> tuple[float, str]:
    """Returns the best proven lower bound on ε (at least 0), and the attack that gave it.

    Args:
        pilot: What each attack saw on independent runs of neighbour 0 and of neighbour 1, to choose thresholds by.
        fresh: The same attacks on fresh runs, to prove the bound by.
        delta: The claimed δ.
        confidence: Of the bound.
    """
    alpha = 1 - confidence
    pilot, fresh = _learn(pilot, fresh)
    quantiles = np.concatenate([1 - np.geomspace(1e-4, 0.5, _PILOT_THRESHOLDS), [0.1, 0.25, 0.4]])
    tried: list[tuple[str, int, int, float]] = []
    for attack, scores in pilot.items():
        candidates = []
        for sign, order in itertools.product((1, -1), (0, 1)):
            thresholds = np.unique(np.quantile(sign * np.concatenate(scores), quantiles, method="higher"))
            values = _bounds(*_hits(scores, sign, order, thresholds), delta, alpha / 10)
            candidates += [(value, sign, order, threshold) for value, threshold in zip(values, thresholds, strict=True)]
        candidates.sort(key=lambda candidate: -candidate[0])
        tried += [(attack, sign, order, threshold) for _, sign, order, threshold in candidates[:_TRIED]]
    best, best_attack = 0.0, "none"
    for attack, sign, order, threshold in tried:
        one, zero = _sides(fresh[attack], sign, order)
        hits, false = np.array([(one >= threshold).sum()]), np.array([(zero >= threshold).sum()])
        found = float(_bounds(hits, false, len(one), delta, alpha / len(tried))[0])
        if found > best:
            best, best_attack = found, attack
    return best, best_attack


def audit(target: Target, *, runs: int = 200_000, seed: Seed = None, confidence: float = 0.999) -> Finding:
    """Attacks a target and returns what was found.

    Args:
        target: What to attack.
        runs: Fresh runs of each neighbour; a quarter as many more choose the thresholds.
        seed: Of the runs.
        confidence: Of the lower bound.
    """
    n = check_integer("runs", runs, least=100)
    check_fraction("confidence", confidence)
    streams = [np.random.default_rng(child) for child in seed_sequence(seed).spawn(4)]
    samples = []
    for size, rngs in ((max(n // 4, 50), streams[:2]), (n, streams[2:])):
        worlds = [target.scores(world, size, rng) for world, rng in enumerate(rngs)]
        samples.append({attack: (worlds[0][attack], worlds[1][attack]) for attack in worlds[0]})
    bound, attack = lower_bound(samples[0], samples[1], target.claim.delta, confidence)
    had = len(samples[1][attack][0]) if attack in samples[1] else n
    return Finding(target.name, target.claim, bound, attack, had, confidence)

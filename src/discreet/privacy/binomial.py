"""Binomial noise: what a sum of many users' noise bits hides, by numerical composition.

A counter that carries x data bits and Bernoulli(p) noise bits of honest users shows x + Bin(N, p). Replacing a user
moves ``pairs`` counters up by ``shift`` and as many others down by as much. The privacy loss of all of them together
is the convolution of the losses of the single counters, computed with privacy-loss distributions (dp-accounting),
rounded towards more loss.

References:
    Koskela, Jälkö and Honkela (2020) and dp-accounting's report on privacy-loss distributions; SDP-PE (Bai et al.
    2025), Appendix, Algorithm 4 for the mechanism.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet.privacy import accounting

__all__ = ["BinomialEvent", "calibrate", "epsilon"]

_INTERVAL = 1e-5  # discretisation of the privacy loss
_DEVIATIONS = 14  # how far out the binomial is followed; what lies beyond has a probability below 1e-40
_VERSION = 1


@dataclass(frozen=True)
class BinomialEvent:
    """Counters with Bin(trials, probability) noise, of which ``pairs`` go up and as many down by ``shift``."""

    trials: int
    probability: float
    shift: int
    pairs: int

    @property
    def variance(self) -> float:
        """Of a counter's noise."""
        return self.trials * self.probability * (1 - self.probability)


def epsilon(event: BinomialEvent, delta: float) -> float:
    """Returns a proven ε of ``event`` at ``delta``; infinite if there is none."""
    import numpy as np
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import binom

    N, p, shift = event.trials, event.probability, event.shift
    if delta <= 0 or N < 1 or not 0 < p < 1:
        return math.inf
    reach = _DEVIATIONS * math.sqrt(event.variance) + _DEVIATIONS
    k = np.arange(max(0, math.floor(N * p - reach)), min(N, math.ceil(N * p + reach)) + 1)
    logs = binom.logpmf(k, N, p)
    missing = max(0.0, 1.0 - math.fsum(np.exp(logs))) if len(k) < N + 1 else 0.0
    still = {int(x): float(value) for x, value in zip(k, logs, strict=True)}
    moved = {x + shift: value for x, value in still.items()}
    total = None
    for lower, upper in ((still, moved), (moved, still)):  # up, and down
        one = pld.from_two_probability_mass_functions(
            lower, upper, pessimistic_estimate=True, value_discretization_interval=_INTERVAL, symmetric=False
        )
        many = one.self_compose(event.pairs) if event.pairs > 1 else one
        total = many if total is None else total.compose(many)
    left = delta - 4 * event.pairs * max(missing, 1e-40)
    return float(total.get_epsilon_for_delta(left)) if left > 0 and total is not None else math.inf


def calibrate(honest: int, shift: int, pairs: int, eps: float, delta: float) -> tuple[int, float]:
    """Returns (m, p): noise bits a user and their probability, whose proven ε is within [0.99, 1] of ``eps``.

    m is the smallest number that can meet the budget with p = ½; p is then solved for. Results are kept on disk; what
    is found there is proven anew before it is used.

    Args:
        honest: Users of a batch that add their noise.
        shift: By how much a counter changes.
        pairs: How many counters go up, and how many down.
        eps: The budget's ε.
        delta: The budget's δ.
    """
    if delta <= 0:
        raise InvalidInput(f"binomial noise needs delta > 0, got delta={delta!r}")
    if honest < 1:
        raise InvalidInput(f"at least one user of a batch must add their noise, got {honest}")

    def proven(m: int, p: float) -> float:
        return epsilon(BinomialEvent(honest * m, p, shift, pairs), delta)

    key = {"honest": honest, "shift": shift, "pairs": pairs, "epsilon": eps, "delta": delta}
    known = _recall(key)
    if known is not None and 0.99 * eps <= proven(*known) <= eps:
        return known
    found = _solve(honest, shift, pairs, eps, delta, proven)
    _remember(key, found)
    return found


def _solve(honest: int, shift: int, pairs: int, eps: float, delta: float, proven: Any) -> tuple[int, float]:
    mu = accounting.gaussian_mu(eps, delta)
    variance = 2 * pairs * shift**2 / mu**2  # what Gaussian noise would need
    too_few, enough, m = 0, 0, max(1, math.ceil(4 * variance / honest))
    while not enough or enough - too_few > 1:
        got = proven(m, 0.5)
        too_few, enough = (too_few, m) if got <= eps else (m, enough)
        m = math.ceil(m * (got / eps) ** 2)  # ε falls about like one over the deviation
        m = max(m, too_few + 1) if not enough else min(max(m, too_few + 1), enough - 1)
    m = enough
    low, high = 0.0, honest * m / 4  # variances that are too small, and enough
    guess = min(variance * 1.003, high)
    for _ in range(60):
        p = 0.5 * (1 - math.sqrt(max(0.0, 1 - 4 * guess / (honest * m))))
        got = proven(m, p) if p > 0 else math.inf
        if 0.99 * eps <= got <= eps:
            return m, p
        low, high = (guess, high) if got > eps else (low, min(high, guess))
        step = guess * (min(got, 100 * eps) / (0.996 * eps)) ** 2  # ε falls about like one over the deviation
        guess = step if low < step < high else (low + high) / 2
        if high - low < 1e-9 * high:
            break
    return m, 0.5


def _file(key: dict[str, Any]) -> Path | None:
    """Where a calibration is kept: by its parameters, this code's version and the accountant's precision."""
    root = os.environ.get("DISCREET_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root else Path.home() / ".cache"
    text = json.dumps({**key, "version": _VERSION, "interval": _INTERVAL}, sort_keys=True)
    return base / "discreet" / f"binomial-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _recall(key: dict[str, Any]) -> tuple[int, float] | None:
    try:
        path = _file(key)
        document = json.loads(path.read_text()) if path else None
        m, p = int(document["bits"]), float(document["probability"])  # type: ignore[index]
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return None  # nothing there, or nothing of ours: it is computed anew
    return (m, p) if m >= 1 and 0 < p <= 0.5 else None


def _remember(key: dict[str, Any], found: tuple[int, float]) -> None:
    try:
        path = _file(key)
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(json.dumps({**key, "bits": found[0], "probability": found[1]}))
        draft.replace(path)
    except (OSError, RuntimeError):
        return  # a cache that cannot be written is no obstacle

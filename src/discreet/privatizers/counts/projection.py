"""Noisy counts made consistent (DP-UCBVI, Section 5.1.1)."""

from __future__ import annotations

import numpy as np

from discreet.errors import InvalidInput
from discreet.privatizers.base import PrivateCounts

__all__ = ["project"]


def project(counts: PrivateCounts, E: float | None = None) -> PrivateCounts:
    """Returns counts whose transitions are positive and add up to the visits, which are never too small.

    With E = ``4·counts.error``, unless another one is given: if every noisy count is within E/4 of the truth, every
    projected one is within E of it, and no visit count is below the truth (Lemma 5.4). Rewards stay. Post-processing:
    privacy is not affected.

    The smallest largest change of the transitions subject to x ≥ 0 and |Σx − n̂⁺| ≤ E/4, then E/(2S) is added to each;
    n̂ is clamped at 0 first, because the paper's program (6) has no solution for n̂ < −E/4.
    """
    from discreet.privatizers.counts import _kernels

    if not 0 <= counts.error < np.inf:
        raise InvalidInput(f"error must be finite and not negative, got error={counts.error!r}")
    E = 4.0 * counts.error if E is None else float(E)
    S = counts.transitions.shape[-1]
    n_hat = np.ascontiguousarray(counts.visits, dtype=np.float64).ravel()
    m_hat = np.ascontiguousarray(counts.transitions, dtype=np.float64).reshape(-1, S)
    visits, transitions = np.empty_like(n_hat), np.empty_like(m_hat)
    _kernels.project(n_hat, m_hat, E, visits, transitions)
    return PrivateCounts(
        visits.reshape(counts.visits.shape), transitions.reshape(counts.transitions.shape), counts.rewards, E
    )

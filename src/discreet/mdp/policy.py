"""Policies are arrays: (H, S) of actions, or (H, S, A) of action probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from discreet.mdp.spec import Spec

__all__ = ["check_policy", "cumulate", "cumulate_rows"]


def check_policy(policy: ArrayLike, spec: Spec) -> NDArray[Any]:
    """Returns a copy of ``policy``: int64 (H, S) or float64 (H, S, A), C-contiguous; raises naming what is wrong."""
    H, S, A = spec.horizon, spec.states, spec.actions
    array = np.asarray(policy)
    if array.shape == (H, S):
        if array.dtype.kind not in "iu":
            raise InvalidInput(f"a policy of shape ({H}, {S}) holds actions (integers), got dtype {array.dtype}")
        if array.min() < 0 or array.max() >= A:
            h, s = np.argwhere((array < 0) | (array >= A))[0]
            raise InvalidInput(f"policy[h={h}, s={s}] must be an action in [0, {A}), got {array[h, s]}")
        return np.array(array, dtype=np.int64, order="C")
    if array.shape != (H, S, A):
        raise InvalidInput(f"a policy must have shape ({H}, {S}) or ({H}, {S}, {A}), got {array.shape}")
    array = np.array(array, dtype=np.float64, order="C")
    for h, s, a in np.argwhere(~(array >= 0)):  # catches NaN too
        raise InvalidInput(f"policy[h={h}, s={s}, a={a}] must be a probability, got {array[h, s, a]}")
    for h, s in np.argwhere(~(abs(array.sum(axis=2) - 1) <= 1e-8)):
        raise InvalidInput(f"policy[h={h}, s={s}] must sum to 1 within 1e-8, got {array[h, s].sum()}")
    return array


def cumulate(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns cumulative probabilities along the last axis that draws u in [0, 1) search for their outcome.

    The first entry that exceeds u is the outcome: never one of probability 0, and there always is one, whatever
    the rounding, because all entries from the last possible outcome on are exactly 1.
    """
    cumulative = np.cumsum(probabilities, axis=-1)
    last = probabilities.shape[-1] - 1 - np.argmax(probabilities[..., ::-1] > 0, axis=-1)
    cumulative[np.arange(probabilities.shape[-1]) >= last[..., None]] = 1.0
    return np.minimum(cumulative, 1.0)


def cumulate_rows(probabilities: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns `cumulate` of every stretch ``offsets[i]`` to ``offsets[i + 1]`` of positive ``probabilities``."""
    lengths = np.diff(offsets)
    row = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(probabilities)) - np.repeat(offsets[:-1], lengths)
    padded = np.zeros((len(lengths), lengths.max()))
    padded[row, position] = probabilities
    return cumulate(padded)[row, position]

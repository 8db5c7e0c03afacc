"""Compiled proposals of exact noise. Only secure noise is in this file: a block never mixes it with fast noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet._jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel()
def propose(
    words: NDArray[np.uint64],
    offsets: NDArray[np.uint64],
    shift: int,
    cut: NDArray[np.int64],
    alias: NDArray[np.int64],
    low: NDArray[np.int64],
    values: NDArray[np.int64],
    kept: NDArray[np.bool_],
    asked: NDArray[np.int64],
) -> int:
    """Does what `discrete.propose` does; all numbers are signed after their shift, because numba mixes to floats."""
    n = 0
    mask = (np.int64(1) << np.int64(shift)) - np.int64(1)
    away = np.uint64(64 - shift)
    wide = offsets.size > 0
    for i in range(words.size):
        word = words[i]
        cell = np.int64(word >> np.uint64(54))
        coin = np.int64(word >> np.uint64(40)) & np.int64(0x3FFF)
        column = cell if coin < cut[cell] else alias[cell]
        offset = np.int64(offsets[i] >> away) if wide else np.int64(word >> np.uint64(14)) & mask
        value = (column << np.int64(shift)) + offset
        sign = np.int64(word >> np.uint64(39)) & np.int64(1)
        values[i] = (value ^ -sign) + sign
        real = not (value == 0 and sign == 1)
        sure = np.int64(word & np.uint64(0x3FFF)) < low[column]
        kept[i] = real and sure
        if real and not sure:
            asked[n] = i
            n += 1
    return n

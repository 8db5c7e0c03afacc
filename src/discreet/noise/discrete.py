"""Exact discrete noise, many samples at once; `discreet.noise.tables` says why the law is exact.

A trial takes one word of 64 bits:

    63 … 54   cell of the alias table
    53 … 40   coin of the cell
         39   sign
    38 … 14   r, if it has at most 25 bits; else the first bits of a second word
    13 …  0   the first digits of u

About 98 of 100 trials are decided by that. The others are asked again with another word, all at once; the few that
floating-point numbers cannot decide, and the tail, are finished in exact integers, one by one.
"""

from __future__ import annotations

import os
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import NumericalError
from discreet.noise import exponential
from discreet.noise.entropy import words
from discreet.noise.tables import DIGITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise.tables import Table

__all__ = ["propose", "sample"]

#: r has at most so many bits in the first word.
NARROW = 25
_COMPILED = 1 << 16  # trials at once: words and results stay in a core's cache
_PLAIN = 1 << 14  # NumPy has more arrays at work
_DEGREE = 11
_LIMIT = 2**63 - 1
_SECOND = 62 - DIGITS  # digits of u from the second word
_FIRST = (1 << DIGITS) - 1
_NOBODY = np.zeros(1, dtype=np.int64)

Proposals = tuple["NDArray[np.int64]", "NDArray[np.bool_]", "NDArray[np.int64]"]


def sample(table: Table, count: int, *, numpy_only: bool) -> NDArray[np.int64]:
    """Returns ``count`` independent samples.

    Args:
        table: Of the law.
        count: How many.
        numpy_only: Needs no compiler; the law is the same.

    Guarantee:
        The samples are independent and follow the table's law exactly, if the operating system's bits are uniform. How
        many trials are made depends on how many were accepted, never on the values.
    """
    out = np.empty(count, dtype=np.int64)
    most = _PLAIN if numpy_only else _COMPILED
    done = 0
    while done < count:
        expected = (count - done) * table.cost
        accepted = attempt(table, min(most, int(expected + 4 * sqrt(expected)) + 4), numpy_only=numpy_only)
        accepted = accepted[: count - done]
        out[done : done + accepted.size] = accepted
        done += accepted.size
    return out


def attempt(table: Table, trials: int, *, numpy_only: bool) -> NDArray[np.int64]:
    """Returns what is accepted of so many trials, in their order.

    The order matters: trials that are decided later have other values, so they must not stand at the end, where samples
    that nobody needs are cut off.
    """
    wide = table.shift > NARROW
    drawn = words(2 * trials if wide else trials)
    first, offsets = drawn[:trials], drawn[trials:]
    values, kept, asked = (propose if numpy_only else _compiled)(table, first, offsets)
    again = asked if asked.size else _NOBODY  # always, or the time of a small release would tell whether anybody was
    digits = ((first[again] & _FIRST) << _SECOND | words(again.size) >> (64 - _SECOND)).view(np.int64)
    accepted, open_ = decide(table, values[again], digits)
    if asked.size:
        kept[asked] = accepted
        for place, revealed in zip(asked[open_].tolist(), digits[open_].tolist(), strict=True):
            found = finish(table, int(values[place]), revealed)
            if found is not None:
                values[place], kept[place] = found, True
    return values[kept]


def propose(table: Table, first: NDArray[np.uint64], offsets: NDArray[np.uint64]) -> Proposals:
    """Returns what words propose, with NumPy alone.

    Args:
        table: Of the law.
        first: (n,) A word for each trial.
        offsets: (n,) Second words, if r has too many bits for the first, else (0,).

    Returns:
        The values (n,), which of them are accepted already (n,), and the places of those that must be asked again.
    """
    cells = (first >> 54).view(np.int64)
    coins = (first >> 40 & _FIRST).view(np.int64)
    columns = np.where(coins < table.cut.take(cells), cells, table.alias.take(cells))
    sure = (first & _FIRST).view(np.int64) < table.low.take(columns)
    r = offsets >> (64 - table.shift) if offsets.size else first >> 14 & ((1 << table.shift) - 1)
    values = columns << table.shift
    values += r.view(np.int64)
    signs = (first >> 39 & 1).view(np.int64)
    real = (values | (signs ^ 1)) != 0  # never −0
    values ^= -signs
    values += signs
    kept = sure & real
    return values, kept, np.flatnonzero(kept ^ real)


def _compiled(table: Table, first: NDArray[np.uint64], offsets: NDArray[np.uint64]) -> Proposals:
    """Does what `propose` does, with one compiled loop."""
    from discreet.noise import _secure_kernels

    values, kept = np.empty(first.size, np.int64), np.empty(first.size, np.bool_)
    asked = np.empty(first.size, np.int64)
    n = _secure_kernels.propose(first, offsets, table.shift, table.cut, table.alias, table.low, values, kept, asked)
    return values, kept, asked[:n]


def decide(
    table: Table, values: NDArray[np.int64], digits: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Compares 62 digits of u with C·f(x)/w_j, in floating point.

    Args:
        table: Of the law.
        values: (n,) x, with its sign.
        digits: (n,) The first 62 digits of u, as an integer.

    Returns:
        Who is accepted (n,), and whom floating-point numbers cannot decide (n,); all others are rejected.
    """
    sizes = np.abs(values)
    columns = sizes >> table.shift
    near = estimate(table, columns, sizes & ((1 << table.shift) - 1)) - digits
    open_ = (np.abs(near) <= table.margin) & (columns < table.columns)
    return (near > table.margin) & ~open_, open_ | (columns == table.columns)


def estimate(table: Table, columns: NDArray[np.int64], r: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns C·f(x)/w_j·2^62 for x = jW + r, up to 2^12 + 1; 0 for the tail and what rejects."""
    x = r.astype(np.float64)
    d = x * (table.slope.take(columns) + table.curve * x)
    power = np.ones(d.size)
    for n in range(_DEGREE, 0, -1):  # exp(−d) = 1 − d(1 − d/2(1 − d/3(…)))
        power = 1.0 - d / n * power
    return (table.start.take(columns) * power * 2.0**62).astype(np.int64)


def finish(table: Table, value: int, revealed: int) -> int | None:
    """Finishes a trial in exact integers.

    Args:
        table: Of the law.
        value: What was proposed; for the tail, only its sign counts.
        revealed: The first 62 digits of u.

    Returns:
        The accepted value, or None if it is rejected.
    """
    law, size = table.law, abs(value)
    column = size >> table.shift
    if column < table.columns:
        accepted = exponential.happens(
            table.factor, table.weights[column], (law.exponent(size), law.over), revealed, 62
        )
        return value if accepted else None
    block = 0
    while os.urandom(1)[0] & 1:
        block += 1
    bits = table.shift + table.block
    offset = int.from_bytes(os.urandom(bits // 8 + 1), "little") & ((1 << bits) - 1)
    size = (table.columns << table.shift) + (block << bits) + offset
    chance = table.factor << (table.block + block + 1), table.weights[table.columns]
    if not exponential.happens(*chance, (law.exponent(size), law.over)):
        return None
    if size > _LIMIT:
        raise NumericalError("a sample does not fit into 64 bits, which has a probability below 2^-360")
    return -size if value < 0 else size

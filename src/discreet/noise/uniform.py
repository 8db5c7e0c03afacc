"""Exact bits, integers and orders from the operating system's words; NumPy only."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, check_integer
from discreet.noise.entropy import words

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from discreet.noise.source import Shape

__all__ = ["below", "bits", "orders", "random", "shape_of"]

_PIECE = 1 << 16  # words at once: they stay in a core's cache


def shape_of(size: object) -> tuple[int, ...]:
    """Returns ``size``, a number or a tuple of numbers, as a shape; raises `InvalidInput` naming it otherwise."""
    parts = size if isinstance(size, tuple) else (size,)
    return tuple(check_integer("size", part, least=0) for part in parts)


def _digits(count: int) -> NDArray[np.int64]:
    """Returns uniform integers below 2^53."""
    out = np.empty(count, dtype=np.int64)
    for start in range(0, count, _PIECE):
        piece = out[start : start + _PIECE]
        np.right_shift(words(piece.size), 11, out=piece.view(np.uint64))
    return out


def random(size: Shape) -> NDArray[np.float64]:
    """Returns uniform multiples of 2⁻⁵³ in [0, 1).

    Guarantee:
        ``random(size) < p`` is true with probability p exactly, for every p in [0, 1] that is a multiple of 2⁻⁵³.
    """
    shape = shape_of(size)
    return (_digits(prod(shape)).astype(np.float64) * 2.0**-53).reshape(shape)


def bits(numerator: ArrayLike, size: Shape) -> NDArray[np.bool_]:
    """Returns independent bits that are True with probability numerator/2^53.

    Args:
        numerator: Integers from 0 to 2^53: one, or an array that can be broadcast to ``size``.
        size: A number or a shape.

    Guarantee:
        The probabilities are exact.
    """
    shape, wanted = shape_of(size), np.asarray(numerator)
    if wanted.dtype.kind not in "iu":
        raise InvalidInput(f"numerator must be integers, got numerator={numerator!r}")
    if wanted.size and not (int(wanted.min()) >= 0 and int(wanted.max()) <= 2**53):
        raise InvalidInput(f"numerator must be between 0 and 2^53, got numerator={numerator!r}")
    try:
        wanted = np.broadcast_to(wanted.astype(np.int64), shape)
    except ValueError:
        raise InvalidInput(f"numerator has shape {wanted.shape}, which does not fit size={size!r}") from None
    return _digits(prod(shape)).reshape(shape) < wanted


def below(high: int, size: Shape) -> NDArray[np.int64]:
    """Returns independent, uniform integers from 0 to high − 1.

    Args:
        high: From 1 to 2^63.
        size: A number or a shape.

    Guarantee:
        Every integer has the same probability: words beyond the last whole multiple of ``high`` are drawn again.
    """
    high, shape = check_integer("high", high, most=2**63), shape_of(size)
    out = np.empty(prod(shape), dtype=np.uint64)
    last = np.uint64(2**64 - 2**64 % high - 1)
    for start in range(0, out.size, _PIECE):
        piece = out[start : start + _PIECE]
        piece[:] = words(piece.size)
        while (again := np.flatnonzero(piece > last)).size:
            piece[again] = words(again.size)
        piece %= np.uint64(high)
    return out.view(np.int64).reshape(shape)


def orders(rows: int, n: int) -> NDArray[np.int64]:
    """Returns an order of the numbers below ``n`` in each of ``rows`` rows (rows, n).

    Guarantee:
        All orders have the same probability, and rows are independent. The numbers are sorted by random keys. A row
        with equal keys is drawn again, so that no rule for ties takes part; given that the keys differ, every order of
        them is as likely as any other.
    """
    found = np.empty((rows, n), dtype=np.int64)
    left = np.arange(rows)
    while left.size:
        keys = words(left.size * n).reshape(left.size, n)
        order = np.argsort(keys, axis=1)
        ranked = np.take_along_axis(keys, order, axis=1)
        good = (ranked[:, 1:] != ranked[:, :-1]).all(axis=1)
        found[left[good]] = order[good]
        left = left[~good]
    return found

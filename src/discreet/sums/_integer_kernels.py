"""Compiled noise recursions in integers: read t has z_t and a rounded function of earlier draws."""

import numpy as np

from discreet._jit import kernel

_MOST = 1 << 61  # a mode beyond it would run over


@kernel()
def multiply_shift(a, c, shift):
    """Returns a·c/2^shift, rounded to a nearest integer, for abs(a) < 2^62, 0 ≤ c ≤ 2^62, 1 ≤ shift ≤ 62.

    ``c`` and ``shift`` are unsigned; the result must be below 2^63. ``a`` is split into halves of 32 bits, the upper
    one with its sign, so that there is no branch.
    """
    word = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    x0 = np.uint64(a) & mask
    x1 = a >> np.int64(32)
    c0 = c & mask
    c1 = c >> word
    low = x0 * c0
    middle = x1 * np.int64(c0) + np.int64(x0 * c1 + (low >> word))  # below 2^63: x1 < 2^30, c1 ≤ 2^30
    high = x1 * np.int64(c1) + (middle >> np.int64(32))
    low = (np.uint64(middle) << word) | (low & mask)
    rounded = low + (np.uint64(1) << (shift - np.uint64(1)))
    high += np.int64(rounded < low)
    return np.int64((np.uint64(high) << (np.uint64(64) - shift)) | (rounded >> shift))


@kernel()
def advance_modes(weights, decays, guard, z, before, after, noise):
    """Fills ``noise`` with z + Σ_{s≥1} b_s z_{t−s}, the sum rounded; returns whether all modes stayed in their range.

    b_s = Σ_j weights_j·(1 − decays_j)^s, all of them (d,) over 2^62; the first decay is 0. ``before`` and ``after`` are
    the state, (size, d): the plain sum of the draws, which mode 0 is a multiple of; then the other modes in units of
    2^-``guard``.
    """
    one = np.uint64(62)
    shift = one - guard
    half = np.int64(1) << (np.int64(guard) - 1)
    fits = True
    for i in range(z.size):
        total = multiply_shift(before[i, 0], weights[0], shift)
        after[i, 0] = before[i, 0] + z[i]
        for j in range(1, weights.size):
            left = before[i, j] - multiply_shift(before[i, j], decays[j], one)
            total += left
            left += multiply_shift(z[i], weights[j], shift)
            after[i, j] = left
            fits &= abs(left) < _MOST
        noise[i] = z[i] + ((total + half) >> np.int64(guard))
        fits &= abs(total) < _MOST and abs(after[i, 0]) < _MOST
    return fits


@kernel()
def accumulate(ratio, draws, total):
    """Adds ratio·draws to ``total`` (size,), in floating point."""
    for i in range(draws.size):
        total[i] += ratio * draws[i]


@kernel()
def largest_norms(indices, values, most):
    """Returns the largest L1 and the largest squared L2 norm of the rows (users, n) of integers in [0, ``most``].

    An index that occurs several times in a row is one coordinate. Where a row's L1 norm is above ``most``, the largest
    squared L2 norm is not computed: it might run over.
    """
    l1 = np.int64(0)
    l2 = np.int64(0)
    for k in range(indices.shape[0]):
        order = np.argsort(indices[k])
        total = np.int64(0)
        one = np.int64(0)
        two = np.int64(0)
        for j in range(order.size):
            total += values[k, order[j]]
            if one + total > most:
                return one + total, l2
            if j + 1 == order.size or indices[k, order[j + 1]] != indices[k, order[j]]:
                one += total
                two += total * total
                total = np.int64(0)
        l1 = max(l1, one)
        l2 = max(l2, two)
    return l1, l2


@kernel()
def add_users(total, indices, values):
    """Adds ``values`` (users, n) to the coordinates ``indices`` (users, n) of ``total``."""
    for k in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            total[indices[k, j]] += values[k, j]

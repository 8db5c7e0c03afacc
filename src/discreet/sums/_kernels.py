"""Compiled noise recursions: one new z a coordinate and read."""

import numpy as np
from numba import types

from discreet._jit import kernel

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
#: advance(coefficients, depth, z, state → noise): takes the fresh noise z (size,) of one read and fills its whole noise
ADVANCE = types.void(_f2, types.int64, _f1, _f2, _f1)


@kernel(ADVANCE)
def advance_tree(coefficients, depth, z, state, noise):
    """The last read of depth ``depth`` − 1 plus one new node; ``state`` (deepest + 1, size) is a row a depth."""
    for i in range(z.size):
        state[depth, i] = state[depth - 1, i] + z[i]
        noise[i] = state[depth, i]


@kernel(ADVANCE)
def advance_modes(coefficients, depth, z, state, noise):
    """Streams A C⁻¹ z: updates ``state`` (size, d) by ``z``; ``coefficients`` are decays κ̂ and weights g, (2, d).

    b_s = Σ_i g_i (1 − κ̂_i)^s: every mode is a scalar recursion v ← v + (g z − κ̂ v) that forgets its rounding
    errors, and κ̂ is used as it is, never as a rounded 1 − κ̂. The mode with κ̂ = 0 is a plain sum, scaled by g_0 ≈
    1/√n; alone, with g = 1, it is fresh noise for every batch.
    """
    decays = coefficients[0]
    weights = coefficients[1]
    for i in range(z.size):
        total = 0.0
        for j in range(decays.size):
            state[i, j] += weights[j] * z[i] - decays[j] * state[i, j]
            total += state[i, j]
        noise[i] = total


@kernel()
def step_modes(coefficients, z, state, after, noise):
    """`advance_modes` into another array: ``state`` stays as it is."""
    decays = coefficients[0]
    weights = coefficients[1]
    for i in range(z.size):
        total = 0.0
        for j in range(decays.size):
            after[i, j] = state[i, j] + (weights[j] * z[i] - decays[j] * state[i, j])
            total += after[i, j]
        noise[i] = total


@kernel(ADVANCE)
def advance_dense(coefficients, depth, z, state, noise):
    """Row ``depth`` of B, ``coefficients`` (reads, reads), times all draws so far; ``state`` keeps them, a row each."""
    state[depth] = z
    for i in range(z.size):
        noise[i] = 0.0
    for t in range(depth + 1):
        for i in range(z.size):
            noise[i] += coefficients[depth, t] * state[t, i]


@kernel()
def binary_depths(read, depths):
    """Fills ``depths`` (n,) with how many ones ``read`` + 1, ``read`` + 2 and so on have."""
    for i in range(depths.size):
        word = read + 1 + i
        depth = 0
        while word:
            word &= word - 1
            depth += 1
        depths[i] = depth


@kernel()
def smooth_depths(word, ones, depths):
    """Fills ``depths`` (n,) with those of the next words with as many ``ones``; returns the last word.

    A word's depth is its number of ones before its last zero.
    """
    for i in range(depths.size):
        low = word & -word
        high = word + low
        word = (((high ^ word) // low) >> 2) | high  # the next larger word with as many ones
        trailing = 0
        while (word >> trailing) & 1:
            trailing += 1
        depths[i] = ones - trailing
    return word


@kernel()
def add_users(total, indices, values):
    """Adds ``values`` (users, n) to the coordinates ``indices`` (users, n) of ``total``, one after the other."""
    for k in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            total[indices[k, j]] += values[k, j]


@kernel()
def sum_up(a, b):
    """Returns a + b, rounded up."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)  # what rounding to the nearest took away: exact (Knuth)
    return np.nextafter(total, np.inf) if error > 0 else total


@kernel()
def square_up(a):
    """Returns a², rounded up; for 0 ≤ a ≤ 1e150."""
    square = a * a
    if square < 1e-280:  # the parts of the error would be too small for a float
        return 1e-280 if a > 0 else 0.0
    part = 134217729.0 * a  # 2^27 + 1
    high = part - (part - a)
    low = a - high
    error = ((high * high - square) + 2 * high * low) + low * low  # exact (Dekker)
    return np.nextafter(square, np.inf) if error > 0 else square


@kernel()
def largest_norms(indices, values):
    """Returns the smallest value, the largest L1 and the largest squared L2 norm of the rows (users, n), rounded up.

    An index that occurs several times in a row is one coordinate: its values are added up first. The norms are those
    of rows without negative values. Rounded up, they are never below the true ones. Nor do they pass an integer that
    bounds the true ones term by term: whoever visits a coordinate c times with values in [0, 1] has a sum of at most c
    there, a square of at most c², and both stay so however they are rounded.
    """
    least = 0.0
    l1 = 0.0
    l2 = 0.0
    for k in range(indices.shape[0]):
        order = np.argsort(indices[k])
        total = 0.0
        one = 0.0
        two = 0.0
        for j in range(order.size):
            value = values[k, order[j]]
            least = min(least, value)
            total = sum_up(total, value)
            if j + 1 == order.size or indices[k, order[j + 1]] != indices[k, order[j]]:
                one = sum_up(one, total)
                two = sum_up(two, square_up(abs(total)))
                total = 0.0
        l1 = max(l1, one)
        l2 = max(l2, two)
    return least, l1, l2

"""Compiled noise recursions: one new z a coordinate and read."""

import numpy as np

from discreet._jit import kernel


@kernel()
def advance_blt(z, decays, weights, buffers, noise):
    """Streams A C⁻¹ z: updates ``buffers`` (size, d+1) by ``z`` (size,) and fills ``noise`` (size,).

    b_s = Σ_i g_i (1 − κ̂_i)^s: every mode is a scalar recursion v ← v + (g z − κ̂ v) that forgets its rounding
    errors, and κ̂ is used as it is, never as a rounded 1 − κ̂. The mode with κ̂ = 0 is a plain sum, scaled by g_0 ≈
    1/√n.
    """
    for i in range(z.size):
        total = 0.0
        for j in range(decays.size):
            buffers[i, j] += weights[j] * z[i] - decays[j] * buffers[i, j]
            total += buffers[i, j]
        noise[i] = total


@kernel()
def add_users(total, indices, values):
    """Adds ``values`` (users, n) to the coordinates ``indices`` (users, n) of ``total``, one after the other."""
    for k in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            total[indices[k, j]] += values[k, j]


@kernel()
def largest_norms(indices, values):
    """Returns the smallest entry, the largest L1 and the largest squared L2 norm of the rows (users, n).

    An index that occurs several times in a row is one coordinate: its values are added up first.
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
            total += values[k, order[j]]
            if j + 1 == order.size or indices[k, order[j + 1]] != indices[k, order[j]]:
                least = min(least, total)
                one += abs(total)
                two += total * total
                total = 0.0
        l1 = max(l1, one)
        l2 = max(l2, two)
    return least, l1, l2

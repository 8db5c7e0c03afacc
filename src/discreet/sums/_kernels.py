"""Compiled noise recursions: one new z a coordinate and read."""

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

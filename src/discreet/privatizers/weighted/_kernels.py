"""Compiled weights: what `encode.WeightedEncoder` does, for many users at once."""

import math

from discreet._jit import kernel


@kernel()
def weigh(states, actions, rewards, want, ahead, constants, scratch, w, d):
    """Fills ``w`` and ``d`` (users, H) with the weights of users' steps and of their rewards; see `weights`.

    ``want`` (sets, cells), ``ahead`` (H, S); ``scratch`` (≥ sets·cells, S + 3) is zero before and after: for every
    cell x(c,·), its largest entry, ρ and ν.
    """
    limit, cap, a, y, r2, n2, centre, grid = constants
    users, H = actions.shape
    sets, cells = want.shape
    S = ahead.shape[1]
    A = cells // S
    for k in range(users):
        length = 0.0
        for h in range(H):
            s = states[k, h]
            t = h if sets > 1 else 0
            cell = s * A + actions[k, h]
            c = scratch[t * cells + cell]
            g = want[t, cell]
            b = max(limit - length, 0.0) * (g / (g + max(ahead[h, s] - g, 0.0)))
            p = c[S + 1]
            v = c[S + 2]
            beta = c[S] + r2 * y * abs(p) + n2 * v
            weight = min((math.sqrt(beta * beta + a * b) - beta) / a, cap)
            weight = math.floor(weight / grid) * grid
            gain = math.trunc(weight * (rewards[k, h] - centre) / grid) * grid
            seen = c[states[k, h + 1]]
            length += (
                weight * weight
                + 2.0 * weight * seen
                + r2 * (gain * gain + 2.0 * gain * p)
                + n2 * (weight * weight + 2.0 * weight * v)
            )
            c[states[k, h + 1]] = seen + weight
            c[S] = max(c[S], seen + weight)
            c[S + 1] = p + gain
            c[S + 2] = v + weight
            w[k, h] = weight
            d[k, h] = gain
        for h in range(H):
            t = h if sets > 1 else 0
            c = scratch[t * cells + states[k, h] * A + actions[k, h]]
            c[states[k, h + 1]] = 0.0
            c[S] = 0.0
            c[S + 1] = 0.0
            c[S + 2] = 0.0

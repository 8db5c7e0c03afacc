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


@kernel()
def bounded(indices, values, blocks, most, side, cells, S, longest, vector):
    """Whether every user's vector keeps what the proof of the sensitivity asks for, block by block.

    ``blocks`` (blocks, 2): sets of counters, and the largest squared length; ``most``: of a reward sum, in units of its
    visits; ``side``: 1 if reward sums may not be negative, −1 if not positive, else 0; ``longest``: of a single term;
    ``vector`` (size,) is zero before, and after if the answer is yes.
    """
    for k in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            if not abs(values[k, j]) <= longest:
                return False
            vector[indices[k, j]] += values[k, j]
        start = 0
        for b in range(blocks.shape[0]):
            wide = int(blocks[b, 0]) * cells
            n = start + wide * S
            r = n + wide
            length = 0.0
            for i in range(start, r):
                if vector[i] < 0.0:
                    return False
                length += vector[i] * vector[i]
            for i in range(wide):
                reward = vector[r + i]
                if abs(reward) > most * vector[n + i] or side * reward < 0.0:
                    return False
                length += reward * reward
            if not length <= blocks[b, 1]:
                return False
            start = r + wide
        for j in range(indices.shape[1]):
            vector[indices[k, j]] = 0.0
    return True

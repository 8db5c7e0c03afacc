"""RLSVI: perturbed value iteration (Algorithm 1), and the filter that drops users before they lose too much.

*counts* are (N, M, R) as in `types.COUNTS`. *people* is what the filter keeps of everybody, (K, …) or empty without it:
cell, next state, weight (visits of the same cell in that episode) and reward of each step, whether active, and the
clocks at their entry. *clocks* are integers in units of a fraction of the budget, rounded up, so that sums are exact:

- ``spent`` (cells,): what anybody in a cell has lost so far; ``price`` (cells,): what they lose in the next release;
- ``due`` (K,): the general clock after which a user has to be looked at again; ``least``: the earliest in each block of
  `BLOCK` users;
- ``state``: users so far, the general clock, number of dropped users.

The general clock runs as fast as anybody could possibly lose: a user with r units left is safe for r ticks.
"""

import math

import numpy as np
from numba import types

from discreet._jit import kernel
from discreet.mdp._kernels import SAMPLE, TABLES
from discreet.privatizers._types import COUNTS, PLANNED

# positions in the vector of parameters; `discreet.privatizers.values.serve.PerturbedTables` writes them
SCALE, GRID, UNITS, BUDGET, ROUNDING = range(5)
# positions in ``state``
USERS, CLOCK, DROPPED = range(3)
BLOCK = 256
NEVER = 2**63 - 1

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_f3 = types.Array(types.float64, 3, "C")
_f4 = types.Array(types.float64, 4, "C")
_i1 = types.Array(types.int64, 1, "C")
_i2 = types.Array(types.int64, 2, "C")
_i3 = types.Array(types.int64, 3, "C")
_n2 = types.Array(types.int32, 2, "C")
_b1 = types.Array(types.boolean, 1, "C")

PEOPLE = types.Tuple((_n2, _n2, _n2, _f2, _b1, _i1))
CLOCKS = types.Tuple((_i1, _i1, _i1, _i1, _i1))


@kernel(types.float64(types.int64, types.int64, types.int64, types.float64, types.float64))
def beta(S, A, H, k, scale):
    """Returns β_k = ½·S·H³·ln(2HSAk), times the noise scale."""
    return scale * (0.5 * S * H**3 * math.log(2.0 * H * S * A * k))


@kernel(types.void(_f1, COUNTS, PEOPLE, CLOCKS, _i1, _i1, _f1))
def enter(parameters, counts, people, clocks, cells, nexts, rewards):
    """Adds one user: ``cells`` (t·S + s)·A + a, next states and rewards of each step."""
    N, M, R = counts
    S = M.shape[3]
    n, m, r = N.reshape(N.size), M.reshape(M.size), R.reshape(R.size)
    spent, _, due, least, state = clocks
    where, follow, weights, gains, active, entry = people
    i = state[USERS]
    state[USERS] += 1
    filtered = where.shape[0] > 0
    for h in range(cells.size):
        c = cells[h]
        gain = rewards[h]
        if filtered:
            gain = math.floor(gain * parameters[GRID] + 0.5) / parameters[GRID]  # sums are exact: nothing stays behind
            where[i, h] = c
            follow[i, h] = nexts[h]
            gains[i, h] = gain
        n[c] += 1.0
        m[c * S + nexts[h]] += 1.0
        r[c] += gain
    if filtered:
        active[i] = True
        total = 0
        for h in range(cells.size):
            weight = 0
            for g in range(cells.size):
                if cells[g] == cells[h]:
                    weight += 1
            weights[i, h] = weight
            total += weight * spent[cells[h]]
        entry[i] = total
        due[i] = state[CLOCK] + int(parameters[BUDGET])
        least[i // BLOCK] = due[i] if i % BLOCK == 0 else min(least[i // BLOCK], due[i])


@kernel()
def charge(parameters, n, steps, b):
    """Returns what a visit to a cell with N = n costs: μ² in units, rounded up; more than the budget is just that."""
    if n == 0.0:
        return 0
    loss = steps * (n + 1.0) / (b * n * n) * parameters[UNITS]
    if parameters[ROUNDING] > 0.0:  # of integers: an entry moves by one more
        loss = steps * (math.sqrt((n + 1.0) / b) / n + parameters[ROUNDING]) ** 2 * parameters[UNITS]
    return int(parameters[BUDGET]) + 1 if loss > parameters[BUDGET] else int(loss) + 2


@kernel()
def fastest(N, price, H):
    """Returns a bound on what anybody can lose in the next release."""
    n = N.reshape(N.size)
    total = 0
    cells = N.shape[1] * N.shape[2]
    for t in range(N.shape[0]):
        most = 0
        for c in range(t * cells, (t + 1) * cells):
            most = max(most, price[c] if N.shape[0] > 1 else price[c] * int(min(n[c], H)))
        total += most
    return total if N.shape[0] > 1 else total * H


@kernel()
def lose(people, clocks, i):
    """Returns what an active user has lost so far, and what they would lose in the next release."""
    spent, price, _, _, _ = clocks
    where, _, weights, _, _, entry = people
    lost, more = -entry[i], 0
    for h in range(where.shape[1]):
        c = where[i, h]
        lost += weights[i, h] * spent[c]
        more += weights[i, h] * price[c]
    return lost, more


@kernel()
def leave(counts, people, i):
    """Takes a user out of the counts; on the grid nothing of their rewards stays behind."""
    N, M, R = counts
    S = M.shape[3]
    n, m, r = N.reshape(N.size), M.reshape(M.size), R.reshape(R.size)
    where, follow, _, gains, active, _ = people
    active[i] = False
    for h in range(where.shape[1]):
        c = where[i, h]
        n[c] -= 1.0
        m[c * S + follow[i, h]] -= 1.0
        r[c] -= gains[i, h]


@kernel(types.void(_f1, COUNTS, PEOPLE, CLOCKS, types.int64))
def settle(parameters, counts, people, clocks, H):
    """Before a release: drops everybody whose loss would exceed the budget, until nobody's does; charges the others.

    Whoever is dropped leaves N, M and R, which raises the price of their cells for the others. Prices only rise, so the
    order does not matter.
    """
    N = counts[0]
    S, A = N.shape[1], N.shape[2]
    n = N.reshape(N.size)
    spent, price, due, least, state = clocks
    where, _, _, _, active, entry = people
    budget = int(parameters[BUDGET])
    steps = 1.0 if N.shape[0] > 1 else float(H)  # pooled: every h draws its own w
    b = beta(S, A, H, float(state[USERS] + 1), parameters[SCALE])
    for c in range(n.size):
        price[c] = charge(parameters, n[c], steps, b)
    blocks = (state[USERS] + BLOCK - 1) // BLOCK
    again = True
    while again:
        again = False
        tick = fastest(N, price, H)
        for block in range(blocks):
            if least[block] >= state[CLOCK] + tick:
                continue
            least[block] = NEVER
            for i in range(block * BLOCK, min((block + 1) * BLOCK, state[USERS])):
                if active[i] and due[i] < state[CLOCK] + tick:
                    lost, more = lose(people, clocks, i)
                    due[i] = state[CLOCK] + budget - lost
                    if lost + more > budget:
                        again = True
                        leave(counts, people, i)
                        entry[i] = lost  # from now on what they have lost in all
                        due[i] = NEVER
                        state[DROPPED] += 1
                        for h in range(H):
                            price[where[i, h]] = charge(parameters, n[where[i, h]], steps, b)
                least[block] = min(least[block], due[i])
    for c in range(n.size):
        spent[c] += price[c]
    state[CLOCK] += tick


@kernel(types.void(COUNTS, types.float64, _f1, PLANNED))
def perturb(counts, b, z, planned):
    """Fills ``Q`` (H, S, A), ``V`` (H+1, S) and ``policy`` (H, S) with β = b and standard normal ``z`` (H·S·A,)."""
    N, M, R = counts
    Q, V, policy = planned
    H, S, A = Q.shape
    i = H * S * A
    V[H] = 0.0  # line 5
    for h in range(H - 1, -1, -1):  # line 6
        t = h if N.shape[0] > 1 else 0
        i = h * S * A
        for s in range(S):
            best = -math.inf
            for a in range(A):
                n = N[t, s, a]
                q = 0.0  # P̂ = R̂ = 0 where N = 0
                if n > 0.0:
                    q = R[t, s, a]
                    for s_ in range(S):
                        q += M[t, s, a, s_] * V[h + 1, s_]
                    q /= n  # eq. (1)
                q += math.sqrt(b / (n + 1.0)) * z[i]  # line 10
                i += 1
                Q[h, s, a] = q
                if q > best:  # lines 14, 15; the first of equal actions
                    best = q
                    policy[h, s] = a
            V[h, s] = best


@kernel(types.void(COUNTS, types.float64, _i1, types.float64, PLANNED))
def perturb_exactly(counts, b, z, sigma, planned):
    """Like `perturb`, from integers ``z`` (H·S·A,) with discrete Gaussian noise of standard deviation ``sigma``.

    With s = √(β/(N+1)), what is released of a cell is the integer y = ⌊R̂·σ/s⌋ + z. Neighbours share N, so this grid
    too. Q̃ = y·s/σ + P̂Ṽ is computed from it.
    """
    N, M, R = counts
    Q, V, policy = planned
    H, S, A = Q.shape
    V[H] = 0.0  # line 5
    for h in range(H - 1, -1, -1):  # line 6
        t = h if N.shape[0] > 1 else 0
        i = h * S * A
        for s in range(S):
            best = -math.inf
            for a in range(A):
                n = N[t, s, a]
                unit = math.sqrt(b / (n + 1.0)) / sigma
                y = z[i]
                ahead = 0.0
                if n > 0.0:
                    y += np.int64(np.floor(R[t, s, a] / (n * unit)))
                    for s_ in range(S):
                        ahead += M[t, s, a, s_] * V[h + 1, s_]
                    ahead /= n  # eq. (1)
                q = y * unit + ahead  # line 10
                i += 1
                Q[h, s, a] = q
                if q > best:  # lines 14, 15; the first of equal actions
                    best = q
                    policy[h, s] = a
            V[h, s] = best


@kernel(
    types.void(
        types.FunctionType(SAMPLE),
        TABLES,
        _f1,
        COUNTS,
        PEOPLE,
        CLOCKS,
        PLANNED,
        _f2,
        _b1,
        _f2,
        _i3,
        _f2,
        types.Tuple((_i1, _i1, _f1)),
    )
)
def play(sample, tables, parameters, counts, people, clocks, planned, draws, replan, z, policies, releases, episode):
    """Plays one person a row of ``draws``; after each that ``replan`` (n,) marks, releases a table and plans anew.

    ``z`` (marks, H·S·A) are standard normal; ``policies`` (marks + 1, H, S) receives the policy in force at first and
    after each plan, ``releases`` (marks, H·S·A), if it has rows, the tables; ``episode`` is working space.
    """
    Q, _, policy = planned
    H, S, A = Q.shape
    states, actions, rewards = episode
    state = clocks[4]
    pooled = counts[0].shape[0] == 1
    row = 0
    policies[0] = policy
    for k in range(draws.shape[0]):
        sample(tables, policy, draws[k], states, actions, rewards)
        for h in range(H):
            actions[h] += ((0 if pooled else h) * S + states[h]) * A  # the cell
        enter(parameters, counts, people, clocks, actions, states[1:], rewards)
        if replan[k]:
            if people[0].shape[0] > 0:
                settle(parameters, counts, people, clocks, H)
            perturb(counts, beta(S, A, H, float(state[USERS] + 1), parameters[SCALE]), z[row], planned)
            if releases.shape[0] > 0:
                releases[row] = Q.reshape(Q.size)
            row += 1
            policies[row] = policy

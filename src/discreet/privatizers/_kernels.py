"""Noisy counts made consistent: the post-processing step of DP-UCBVI (Section 5.1.1), all cells at once."""

import math

import numpy as np
from numba import types

from discreet._jit import kernel

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
#: project(n̂, m̂, E → visits, transitions)
PROJECT = types.void(_f1, _f2, types.float64, _f1, _f2)


@kernel()
def _level(d, total):
    """The τ ≤ 0 with Σ max(0, d − τ) = total ≥ 0, for d ≤ 0 whose largest entry is 0.

    If A holds every s with d_s > τ, then τ_A = (Σ_A d − total)/|A| ≤ τ, because Σ_A (d − τ) ≤ total. So dropping from A
    what lies below τ_A drops nothing that counts, and when nothing lies below it, τ_A is τ: at most S + 1 passes, a
    handful as a rule, and no tolerance (Michelot's algorithm).
    """
    tau = -total  # a lower bound: the largest entry alone takes −τ ≤ total
    size = -1
    while True:
        k = 0
        mass = 0.0
        for s in range(d.size):
            if d[s] >= tau:  # the largest always stays, so k ≥ 1
                k += 1
                mass += d[s]
        if k == size:
            return tau
        size = k
        tau = max(tau, (mass - total) / k)  # it only rises, so the sets are nested in floating point as well


@kernel(PROJECT)
def project(n_hat, m_hat, E, visits, transitions):
    """Fills ``visits`` (cells,) and ``transitions`` (cells, S) from noisy ``n_hat`` (cells,) and ``m_hat`` (cells, S).

    Eq. (4) asks for a smallest largest change max|x − m̂| on {x ≥ 0, L ≤ Σx ≤ U}. It has many solutions; this is the
    Euclidean projection of m̂ on that set, x = max(0, m̂ − θ) with one θ for the whole cell, which is always one of them:

    For even convex φ, x also minimises Σφ(x_s − m̂_s). Where x_s > 0 the slope φ'(x_s − m̂_s) is μ = φ'(−θ), where
    x_s = 0 it is φ'(−m̂_s) ≥ μ as m̂_s ≤ θ, and μ has the sign of −θ, which is that of the bound that binds: these are
    the conditions of Kuhn and Tucker. So no feasible y has ‖y − m̂‖_p < ‖x − m̂‖_p for any p > 1; let p → ∞.

    ``transitions`` may be ``m_hat`` itself. Finite input with |values| < 1e300 / S gives finite output.

    References:
        Qiao and Wang 2023, eq. (4) to (6), with n̂ clamped at 0 because (6) is infeasible for n̂ < −E/4.
    """
    cells, S = m_hat.shape
    for c in range(cells):
        m = m_hat[c]
        x = transitions[c]
        n = max(n_hat[c], 0.0)
        L = max(n - E / 4.0, 0.0)  # |Σx − n⁺| ≤ E/4; Σx ≥ 0 anyway
        U = n + E / 4.0
        top = -math.inf
        positive = 0.0
        for s in range(S):
            top = max(top, m[s])
            positive += max(0.0, m[s])
        total = min(max(L, positive), U)  # Σx: θ > 0 lowers it to U, θ < 0 raises it to L
        if total == positive:  # θ = 0
            for s in range(S):
                x[s] = max(0.0, m[s])
        else:
            for s in range(S):  # relative to the largest count, so that rounding is relative to Σx and not to m̂
                x[s] = m[s] - top
            tau = _level(x, total)  # θ = max m̂ + τ
            for s in range(S):
                x[s] = max(0.0, x[s] - tau)
        size = 0.0
        for s in range(S):
            size += x[s]
            x[s] += E / (2.0 * S)  # eq. (5)
        visits[c] = size + E / 2.0  # eq. (5)


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
def answer(asked, pooled, hidden, draws, states, actions, rewards, questions, support):
    """What `discreet.privatizers.asking.QuestionEncoder.encode` does, for many users, a row each, bit for bit.

    ``asked`` is (cumulative probabilities, last question, cells, A); ``hidden`` is, for both kinds of questions, the
    number of answers, how many values a report contains (0: unary encoding) and the probabilities (p, q). Fills
    ``questions`` (users,) and ``support`` (users, width), which comes in as False.
    """
    cumulative, last, cells, A = asked
    sizes, chosen, chances = hidden
    users, H = actions.shape
    S = sizes[0] - 1
    for i in range(users):
        u = draws[i]
        question = min(np.searchsorted(cumulative, u[0] * cumulative[-1], side="right"), last)
        questions[i] = question
        about = question // cells
        cell = question % cells
        step = cell // (S * A)
        sa = cell % (S * A)
        k = sizes[about]
        value = k - 1
        for h in range(H):
            if (pooled or h == step) and states[i, h] * A + actions[i, h] == sa:
                value = int(u[1] < rewards[i, h]) if about == 1 else states[i, h + 1]
                break
        p, q = chances[about]
        if chosen[about] == 0:
            for j in range(k):
                support[i, j] = u[2 + j] < (p if j == value else q)
            continue
        support[i, value] = u[2] < p
        needed = chosen[about] - int(support[i, value])
        left = k - 1
        n = 3
        for j in range(k):
            if j != value:
                if u[n] * left < needed:
                    support[i, j] = True
                    needed -= 1
                left -= 1
                n += 1

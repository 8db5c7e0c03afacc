"""Policies that visit most and stay active, without listing them: dynamic programs and a walk over multipliers.

A model is P (H, S, A, S), whose rows may add up to less than 1: the rest goes to the absorbing state x†, which pays
nothing, so that it needs no place of its own. Constraints are rows of ``models`` (J, H, S, A, S), ``rewards``
(J, H, S, A) and ``floors`` (J,): V^π in model j must be at least floor j.
"""

from discreet._jit import kernel


@kernel()
def optimal(P, r, prefer, Q, V, policy):
    """Backward induction: fills Q (H, S, A), V (H+1, S) and a greedy ``policy`` (H, S); ties go to ``prefer``."""
    H, S, A, _ = P.shape
    V[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            for a in range(A):
                q = r[h, s, a]
                for t in range(S):
                    q += P[h, s, a, t] * V[h + 1, t]
                Q[h, s, a] = q
            best = prefer[h, s]
            for a in range(A):
                if Q[h, s, a] > Q[h, s, best]:
                    best = a
            policy[h, s] = best
            V[h, s] = Q[h, s, best]


@kernel()
def value(P, r, initial, policy, V):
    """Returns V^π over the initial distribution; V (2, S) is working space."""
    H, S = policy.shape
    for s in range(S):
        V[H % 2, s] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = policy[h, s]
            q = r[h, s, a]
            for t in range(S):
                q += P[h, s, a, t] * V[(h + 1) % 2, t]
            V[h % 2, s] = q
    total = 0.0
    for s in range(S):
        total += initial[s] * V[0, s]
    return total


@kernel()
def margins(models, rewards, floors, initial, policy, V, out):
    """Fills ``out`` (J,) with V^π − floor in every model; returns whether none is negative."""
    met = True
    for j in range(floors.size):
        out[j] = value(models[j], rewards[j], initial, policy, V) - floors[j]
        met = met and out[j] >= 0.0
    return met


@kernel()
def steer(P, initial, h, x, a, lost, cost, lam, witness, gain, price, policy):
    """The policy that maximises visits − λ·cost up to step ``h`` and follows the witness after it.

    Visits are those of (h, x, a); if ``lost``, the probability of reaching x† before step h instead. Ties go to the
    witness. ``gain`` and ``price`` (2, S) are working space. Returns visits and cost in the model P.
    """
    _, S, A, _ = P.shape
    H = policy.shape[0]
    for k in range(h + 1, H):
        for s in range(S):
            policy[k, s] = witness[k, s]
    for k in range(h, -1, -1):
        now, then = k % 2, (k + 1) % 2
        for s in range(S):
            best_value = 0.0
            for i in range(A + 1):  # the witness's action first
                b = witness[k, s] if i == 0 else i - 1
                u, c = 0.0, cost[k, s, b]
                if k == h:
                    if not lost and s == x and b == a:
                        u = 1.0
                else:
                    inside = 0.0
                    for t in range(S):
                        p = P[k, s, b, t]
                        inside += p
                        u += p * gain[then, t]
                        c += p * price[then, t]
                    if lost:
                        u += max(0.0, 1.0 - inside)
                if i == 0 or u - lam * c > best_value:
                    best_value = u - lam * c
                    policy[k, s] = b
                    gain[now, s] = u
                    price[now, s] = c
    visits, total = 0.0, 0.0
    for s in range(S):
        visits += initial[s] * gain[0, s]
        total += initial[s] * price[0, s]
    return visits, total


@kernel()
def follow(P, initial, h, x, a, lost, cost, policy, gain, price):
    """Returns visits and cost of a given ``policy``, as `steer` does of the one it finds."""
    S = P.shape[1]
    for k in range(h, -1, -1):
        now, then = k % 2, (k + 1) % 2
        for s in range(S):
            b = policy[k, s]
            u, c = 0.0, cost[k, s, b]
            if k == h:
                if not lost and s == x and b == a:
                    u = 1.0
            else:
                inside = 0.0
                for t in range(S):
                    p = P[k, s, b, t]
                    inside += p
                    u += p * gain[then, t]
                    c += p * price[then, t]
                if lost:
                    u += max(0.0, 1.0 - inside)
            gain[now, s] = u
            price[now, s] = c
    visits, total = 0.0, 0.0
    for s in range(S):
        visits += initial[s] * gain[0, s]
        total += initial[s] * price[0, s]
    return visits, total


@kernel()
def mix(scores, slack, corners, other, weights):
    """Fills ``weights`` (3,) with the mixture of three policies that scores most and meets all constraints.

    ``scores`` (3,) and the first rows of ``slack`` (…, J) are theirs; the last one meets all constraints. The triangle
    of mixtures is cut by one constraint after the other; what is left has the best mixture in one of its corners.
    ``corners`` and ``other`` (3 + J, 3) are working space. Returns the score.
    """
    J = slack.shape[1]
    n = 3
    for i in range(3):
        for k in range(3):
            corners[i, k] = 1.0 if i == k else 0.0
    for j in range(J):
        m = 0
        for i in range(n):
            e = (i + 1) % n
            f = corners[i, 0] * slack[0, j] + corners[i, 1] * slack[1, j] + corners[i, 2] * slack[2, j]
            g = corners[e, 0] * slack[0, j] + corners[e, 1] * slack[1, j] + corners[e, 2] * slack[2, j]
            if f >= 0.0:
                for k in range(3):
                    other[m, k] = corners[i, k]
                m += 1
            if (f > 0.0 and g < 0.0) or (f < 0.0 and g > 0.0):
                t = f / (f - g)
                for k in range(3):
                    other[m, k] = (1.0 - t) * corners[i, k] + t * corners[e, k]
                m += 1
        if m == 0:  # rounding: only the last policy is left
            m = 1
            other[0, 0], other[0, 1], other[0, 2] = 0.0, 0.0, 1.0
        n = m
        for i in range(n):
            for k in range(3):
                corners[i, k] = other[i, k]
    best, top = 0, -1.0
    for i in range(n):
        score = corners[i, 0] * scores[0] + corners[i, 1] * scores[1] + corners[i, 2] * scores[2]
        if score > top:
            best, top = i, score
    total = corners[best, 0] + corners[best, 1] + corners[best, 2]
    for k in range(3):
        weights[k] = corners[best, k] / total
    return top


@kernel()
def explore(P, initial, h, cost, constraints, witness, space, components, weights, visits, reach):
    """For every (x, a): the mixture of three policies that visits (h, x, a) most in P and meets all constraints.

    The walk: between a policy on the left (at first the witness) and one on the right (at first the one that visits
    most) the multiplier is the slope of visits over cost, and its policy replaces one of the two, until there is
    nothing above the line between them. A policy that meets the constraints, or visits no more than the witness, goes
    to the left, any other to the right. With one constraint in the model P itself the last two are the neighbours that
    the optimum mixes. In general the witness need not be the cheapest policy, nor those left of one that breaks
    a constraint the ones that do not, so the best mixture of the whole walk is kept. If nothing visits (h, x, a), the
    target is x†: what is not known leads there.

    ``constraints`` is (models, rewards, floors), all of which the witness meets; ``space`` is working space: three
    policies (3, H, S), three arrays (2, S), slack (4, J), two arrays (3 + J, 3) and one (3,). Fills ``components``
    (S, A, 3, H, S), whose last one is the witness, ``weights`` (S, A, 3), ``visits`` (S, A), which the mixture has in
    P, and ``reach`` (S, A), the most that any policy has.
    """
    models, rewards, floors = constraints
    policies, V, gain, price, slack, corners, other, w = space
    left, right, trial = policies[0], policies[1], policies[2]
    S, A = P.shape[1], P.shape[2]
    margins(models, rewards, floors, initial, witness, V, slack[2])
    for j in range(floors.size):
        slack[2, j] = max(slack[2, j], 0.0)  # but for rounding
    for x in range(S):
        for a in range(A):
            components[x, a, 0] = witness
            components[x, a, 2] = witness
            lost = False
            u_right, c_right = steer(P, initial, h, x, a, lost, cost, 0.0, witness, gain, price, right)
            reach[x, a] = u_right
            if u_right <= 0.0:
                lost = True
                u_right, c_right = steer(P, initial, h, x, a, lost, cost, 0.0, witness, gain, price, right)
            components[x, a, 1] = right
            weights[x, a, 0], weights[x, a, 1], weights[x, a, 2] = 0.0, 1.0, 0.0
            top = u_right
            if not margins(models, rewards, floors, initial, right, V, slack[1]):
                u_witness, c_left = follow(P, initial, h, x, a, lost, cost, witness, gain, price)
                left[:] = witness
                u_left = u_witness
                slack[0] = slack[2]
                top = mix((u_left, u_right, u_witness), slack, corners, other, weights[x, a])
                for _ in range(100):
                    if u_right <= u_left or c_right <= c_left:
                        break
                    lam = (u_right - u_left) / (c_right - c_left)
                    u, c = steer(P, initial, h, x, a, lost, cost, lam, witness, gain, price, trial)
                    if u - lam * c <= u_left - lam * c_left + 1e-12 * (1.0 + lam * c_right):
                        break
                    met = margins(models, rewards, floors, initial, trial, V, slack[3])
                    if met or u <= u_witness:
                        left[:] = trial
                        slack[0] = slack[3]
                        u_left, c_left = u, c
                    else:
                        right[:] = trial
                        slack[1] = slack[3]
                        u_right, c_right = u, c
                    score = mix((u_left, u_right, u_witness), slack, corners, other, w)
                    if score > top:
                        top = score
                        components[x, a, 0] = left
                        components[x, a, 1] = right
                        weights[x, a] = w
            visits[x, a] = 0.0 if lost else top


@kernel()
def occupancy(P, initial, policies, h, d):
    """Fills d (n, S) with the probabilities of every state at step ``h`` under each of ``policies`` (n, H, S)."""
    S = P.shape[1]
    now, then = initial.copy(), initial.copy()
    for i in range(policies.shape[0]):
        now[:] = initial
        for k in range(h):
            then[:] = 0.0
            for s in range(S):
                if now[s] > 0.0:
                    a = policies[i, k, s]
                    for t in range(S):
                        then[t] += now[s] * P[k, s, a, t]
            now[:] = then
        d[i] = now


@kernel()
def values(P, r, initial, policies, V, out):
    """Fills ``out`` (n,) with the values of ``policies`` (n, H, S); V (2, S) is working space."""
    for i in range(policies.shape[0]):
        out[i] = value(P, r, initial, policies[i], V)

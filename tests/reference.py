"""Readable transcriptions of the papers' pseudo-code and of textbook recursions: what compiled code must equal.

Nothing here is fast, and nothing here imports a kernel.
"""

from __future__ import annotations

import math

import numpy as np


def backward_induction(P, r):
    """Returns Q* (H, S, A) and V* (H+1, S) of P (H, S, A, S), r (H, S, A)."""
    H, S, _ = r.shape
    Q, V = np.zeros_like(r), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        Q[h] = r[h] + P[h] @ V[h + 1]
        V[h] = Q[h].max(axis=1)
    return Q, V


def policy_value(P, r, initial, policy):
    """Returns V^π_1 over the initial distribution, policy (H, S) or (H, S, A)."""
    H, S, A = r.shape
    if policy.ndim == 2:
        policy = np.eye(A)[policy]
    V = np.zeros(S)
    for h in reversed(range(H)):
        V = (policy[h] * (r[h] + P[h] @ V)).sum(axis=1)
    return initial @ V


def sample_episode(P, R, initial, policy, u, bernoulli=False):
    """Plays one episode by inverting cumulative distributions; R (H, S, A, S) are rewards on transitions."""
    H = len(P)
    invert = lambda p, x: int(np.flatnonzero(np.cumsum(p) > x)[0])  # noqa: E731
    states, actions, rewards = [invert(initial, u[0])], [], []
    for h in range(H):
        s = states[-1]
        a = int(policy[h, s]) if policy.ndim == 2 else invert(policy[h, s], u[1 + 3 * h])
        s_ = invert(P[h, s, a], u[2 + 3 * h])
        reward = R[h, s, a, s_]
        actions.append(a)
        rewards.append(float(u[3 + 3 * h] < reward) if bernoulli else reward)
        states.append(s_)
    return np.array(states), np.array(actions), np.array(rewards)


def dot(p, v):
    """Adds up in order, so that ties between actions are broken as in compiled code."""
    total = 0.0
    for x, y in zip(p, v, strict=True):
        total += x * y
    return total


def dp_ucbvi_bonus(h, N, P, V, N_next, *, H, S, A, K, beta, E):
    """Line 8 of DP-UCBVI's Algorithm 1 at one (h, s, a), h from 1; N_next is (S,), Σ_a of the next step's counts."""
    T = K * H
    iota = math.log(30 * H * S * A * T / beta)
    E = max(E, 1)
    variance = dot(P, (V - dot(P, V)) ** 2)
    last = 0.0
    if h < H:
        with np.errstate(divide="ignore"):
            inside = (
                1e6 * H**3 * S * A * iota**2 / N_next
                + 1e6 * H**4 * S**4 * A**2 * E**2 * iota**4 / N_next**2
                + 1e6 * H**6 * S**4 * A**2 * iota**4 / N_next**2
            )
        last = 4 * math.sqrt(iota) * math.sqrt(dot(P, np.minimum(inside, H**2)) / N)
    return 2 * math.sqrt(variance * iota / N) + math.sqrt(2 * iota / N) + 20 * H * S * E * iota / N + last


def practical_ucbvi_bonus(N, P, V, r, *, H, S, A, K, beta):
    """The practical preset's bonus, as documented in `discreet.agents.ucbvi`."""
    iota = math.log(30 * H * S * A * K * H / beta)
    variance = dot(P, (V - dot(P, V)) ** 2) + r * (1 - r)
    return 0.5 * math.sqrt(variance * iota / N) + 0.06 * (1 + V.max() - V.min()) * iota / N


def ucbvi_plan(N, M, R, Q_before, *, K, beta, preset="theory", E=0.0, scale=1.0):
    """Lines 4 to 15 of DP-UCBVI's Algorithm 1; N, R (H, S, A), M (H, S, A, S). Returns Q, V, policy."""
    H, S, A = N.shape
    Q, V, policy = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), dtype=int)
    for h in range(H, 0, -1):
        for s in range(S):
            for a in range(A):
                cap = H if preset == "theory" else H - h + 1
                n = N[h - 1, s, a]
                optimistic = cap
                if n > 0:
                    P = M[h - 1, s, a] / n
                    r = np.clip(R[h - 1, s, a] / n, 0, 1)
                    V_next = V[h]
                    if preset == "theory":
                        N_next = N[h].sum(axis=1) if h < H else None
                        b = dp_ucbvi_bonus(h, n, P, V_next, N_next, H=H, S=S, A=A, K=K, beta=beta, E=E)
                    else:
                        b = practical_ucbvi_bonus(n, P, V_next, r, H=H, S=S, A=A, K=K, beta=beta)
                    optimistic = r + dot(P, V_next) + scale * b
                Q[h - 1, s, a] = min(Q_before[h - 1, s, a], cap, optimistic)
            V[h - 1, s] = Q[h - 1, s].max()
            policy[h - 1, s] = Q[h - 1, s].argmax()
    return Q, V, policy


def privq(n, m, r, *, K, beta, preset="theory", E=0.0, scale=1.0):
    """PrivQ, Algorithm 3 of PUCB, with the correction for ñ < 2E; T counts episodes. Returns Q⁺, V, policy."""
    H, S, A = n.shape
    beta_ = beta / 4
    Q, V, policy = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), dtype=int)
    for h in range(H, 0, -1):
        cap = H if preset == "theory" else H - h + 1
        for s in range(S):
            for a in range(A):
                x = n[h - 1, s, a]
                if x <= 0 or x < 2 * E:
                    Q[h - 1, s, a] = cap
                    continue
                phi = math.sqrt(2 * math.log(K / beta_) / max(x - E, 1))
                psi = (1 + S * H) * (3 * E / x + 2 * E**2 / x**2)
                conf = ((H + 1) * phi + psi) * scale * (1 if preset == "theory" else 0.04)
                value = (r[h - 1, s, a] + dot(V[h], m[h - 1, s, a])) / x
                Q[h - 1, s, a] = min(cap, value + conf)
            V[h - 1, s] = Q[h - 1, s].max()
            policy[h - 1, s] = Q[h - 1, s].argmax()
    return Q, V, policy


def private_ucb(N, m, R, policy, *, K, beta, E1, E2, greedy=True, scale=1.0):
    """Private-UCB-VI, or one step of Private-UCB-PO from ``policy`` (H, S, A). Returns Q, V, policy."""
    H, S, A = N.shape
    T = K * H
    L = math.sqrt(2 * math.log(4 * S * A * T / beta))
    L_p = math.sqrt(4 * S * math.log(6 * S * A * T / beta))
    eta = math.sqrt(2 * math.log(A) / (H**2 * K))
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    after = np.zeros((H, S), dtype=int) if greedy else np.zeros((H, S, A))
    for h in range(H, 0, -1):
        for s in range(S):
            for a in range(A):
                n = max(N[h - 1, s, a] + E1, 1)
                b_r = L / math.sqrt(n) + 3 * E1 / n
                if greedy:
                    b_p = H * L / math.sqrt(n) + H * (S * E2 + 2 * E1) / n
                else:
                    b_p = H * (L_p / math.sqrt(n) + (S * E2 + 2 * E1) / n)
                r, P = R[h - 1, s, a] / n, m[h - 1, s, a] / n
                Q[h - 1, s, a] = np.clip(r + dot(P, V[h]) + scale * (b_r + b_p), 0, H - h + 1)
            if greedy:
                V[h - 1, s] = Q[h - 1, s].max()
                after[h - 1, s] = Q[h - 1, s].argmax()
            else:
                V[h - 1, s] = dot(Q[h - 1, s], policy[h - 1, s])
                weights = policy[h - 1, s] * np.exp(eta * Q[h - 1, s])
                after[h - 1, s] = weights / weights.sum()
    return Q, V, after


def printed_error(*, S, A, H, T, epsilon, beta):
    """PUCB, Section 4: E_ε of the Laplace tree; T counts episodes."""
    return (3 / epsilon) * H * math.log((2 * S * A * H + S**2 * A * H) / (beta / 4)) * math.log(T) ** (5 / 2)


def run(plan, mdp, draws, *, stationary, update_every):
    """A whole run by the letter: returns the policies played (K, H, S), and the last Q and V."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    N, M, R = np.zeros((H, S, A)), np.zeros((H, S, A, S)), np.zeros((H, S, A))
    pool = (lambda x: np.broadcast_to(x.sum(axis=0), x.shape)) if stationary else (lambda x: x)
    Q = np.full((H, S, A), float(H))
    Q, V, policy = plan(pool(N), pool(M), pool(R), Q)
    played = []
    for k, u in enumerate(draws):
        played.append(policy)
        states, actions, rewards = sample_episode(
            mdp.transitions, mdp.transition_rewards, mdp.initial, policy, u, mdp.reward_noise == "bernoulli"
        )
        for h in range(H):
            N[h, states[h], actions[h]] += 1
            M[h, states[h], actions[h], states[h + 1]] += 1
            R[h, states[h], actions[h]] += rewards[h]
        if (k + 1) % update_every == 0:
            Q, V, policy = plan(pool(N), pool(M), pool(R), Q)
    return np.array(played), Q, V


def rlsvi_plan(N, M, R, *, k, w):
    """Algorithm 1 of RLSVI, lines 5 to 15, cell by cell; w (H, S, A) standard normal. Returns Q, V, policy."""
    H, S, A = w.shape
    beta_k = 0.5 * S * H**3 * np.log(2 * H * S * A * k)
    Q, V, policy = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
    for h in range(H - 1, -1, -1):
        t = h if len(N) > 1 else 0
        for s in range(S):
            for a in range(A):
                n = N[t, s, a]
                R_hat = R[t, s, a] / n if n > 0 else 0.0
                P_hat = M[t, s, a] / n if n > 0 else np.zeros(S)
                Q[h, s, a] = R_hat + P_hat @ V[h + 1] + np.sqrt(beta_k / (n + 1)) * w[h, s, a]
        for s in range(S):
            V[h, s] = max(Q[h, s])
            policy[h, s] = int(np.argmax(Q[h, s]))
    return Q, V, policy


def rlsvi_noise(Q, N, M, R, *, k):
    """The w (H, S, A) with which `rlsvi_plan` gives Q."""
    H, S, A = Q.shape
    beta_k = 0.5 * S * H**3 * np.log(2 * H * S * A * k)
    V = np.concatenate([Q.max(axis=2), np.zeros((1, S))])
    n = np.broadcast_to(N, Q.shape)
    mean = np.broadcast_to(R, Q.shape) + np.einsum("hsat,ht->hsa", np.broadcast_to(M, (*Q.shape, S)), V[1:])
    mean = np.divide(mean, n, out=np.zeros(Q.shape), where=n > 0)
    return (Q - mean) * np.sqrt((n + 1) / beta_k)

"""Literal transcriptions of Zhou (2022), loop by loop, and a small world to try them in."""

from __future__ import annotations

import math

import numpy as np

import discreet as dc


def world(rng, d1=3, d2=2, states=4, actions=3, horizon=4, **kw):
    """A dense linear mixture MDP: d1 base kernels, rewards that mix d2 numbers."""
    psi = rng.dirichlet(np.ones(states), size=(states, actions, d1)).transpose(0, 1, 3, 2)
    phi = rng.dirichlet(np.ones(d2), size=(states, actions))
    spec = dc.mdp.LinearSpec.dense(psi, phi, horizon=horizon)
    return dc.LinearMDP(spec, rng.dirichlet(np.ones(d1), size=horizon), rng.random((horizon, d2)), **kw)


def dense(spec):
    """ψ(s,a,s'), (S, A, S, d₁)."""
    psi = np.zeros((spec.states, spec.actions, spec.states, spec.dimension))
    for s in range(spec.states):
        for a in range(spec.actions):
            row = s * spec.actions + a
            for e in range(spec.offsets[row], spec.offsets[row + 1]):
                psi[s, a, spec.successors[e], spec.coordinates[e]] += spec.weights[e]
    return psi


def widths(H, K, alpha, d1, d2, B, known):
    """β_p and β_r of Lemma 3.1, for the regulariser of every step."""
    beta_p = [
        H / 2 * math.sqrt(2 * math.log(H / alpha) + d1 * math.log(1 + K * B**2 / d1 / known.value_least[h]))
        + math.sqrt(d1 * known.value_largest[h])
        + known.value_nu[h]
        for h in range(H)
    ]
    beta_r = [
        1 / 2 * math.sqrt(2 * math.log(H / alpha) + d2 * math.log(1 + K / (d2 * known.reward_least[h])))
        + math.sqrt(d2 * known.reward_largest[h])
        + known.reward_nu[h]
        for h in range(H)
    ]
    return np.array(beta_p), np.array(beta_r)


def evaluate(spec, grams, beta_p, beta_r, policy=None):
    """Lines 3 to 12 of Algorithm 1; with a policy (H, S, A), lines 4 to 12 of Algorithm 2. Returns Q, V, policy."""
    H, S, A, psi, phi_r = spec.horizon, spec.states, spec.actions, dense(spec), spec.reward_features
    known = grams.regulariser
    Q, V, greedy = np.zeros((H, S, A)), np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
    for h in range(H - 1, -1, -1):
        Lp = np.linalg.inv(grams.value_gram[h] + known.value_shift[h] * np.eye(spec.dimension))
        Lr = np.linalg.inv(grams.reward_gram[h] + known.reward_shift[h] * np.eye(spec.reward_dimension))
        theta_p, theta_r = Lp @ grams.value_vector[h], Lr @ grams.reward_vector[h]
        for s in range(S):
            for a in range(A):
                phi = sum(psi[s, a, t] * V[h + 1, t] for t in range(S))
                bonus_p = beta_p[h] * math.sqrt(max(phi @ Lp @ phi, 0.0))
                bonus_r = beta_r[h] * math.sqrt(phi_r[s, a] @ Lr @ phi_r[s, a])
                estimate = phi_r[s, a] @ theta_r + phi @ theta_p + bonus_p + bonus_r
                Q[h, s, a] = max(0.0, min(H - h, estimate))
            V[h, s] = Q[h, s].max() if policy is None else Q[h, s] @ policy[h, s]
            greedy[h, s] = Q[h, s].argmax()
    return Q, V, greedy if policy is None else policy


def soften(policy, Q, eta):
    """Line 15 of Algorithm 2."""
    new = policy * np.exp(eta * Q)
    return new / new.sum(axis=2, keepdims=True)

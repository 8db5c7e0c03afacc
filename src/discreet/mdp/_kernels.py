"""Compiled planning, evaluation and sampling on a sparse tabular MDP.

The dynamics are rows of successors: row ``(h·per_step·S + s)·A + a`` holds the entries ``offsets[row]`` to
``offsets[row + 1]`` of ``successors``, ``probabilities``, ``cumulative`` and ``outcomes`` (the reward on that
transition). ``per_step`` is 1 if the dynamics depend on the step and 0 if one step serves all.

A *model* is (offsets, successors, probabilities, rewards, per_step), for planning and evaluation; *tables* are
(offsets, successors, cumulative, outcomes, initial, per_step, bernoulli), for sampling.
"""

from numba import types

from discreet._jit import kernel

_f1 = types.Array(types.float64, 1, "C")
_f3 = types.Array(types.float64, 3, "C")
_i1 = types.Array(types.int64, 1, "C")
_i2 = types.Array(types.int64, 2, "C")

TABLES = types.Tuple((_i1, _i1, _f1, _f1, _f1, types.int64, types.boolean))
#: sample(tables, policy, draws → states, actions, rewards)
SAMPLE = types.void(TABLES, _i2, _f1, _i1, _i1, _f1)
#: the same for a policy (H, S, A) of probabilities
SAMPLE_MIXED = types.void(TABLES, _f3, _f1, _i1, _i1, _f1)


@kernel()
def backup(model, h, s, a, S, values):
    """Returns r_h(s,a) + Σ P_h(s'|s,a)·V_{h+1}(s')."""
    offsets, successors, probabilities, rewards, per_step = model
    row = (h * per_step * S + s) * rewards.shape[2] + a
    q = rewards[h * per_step, s, a]
    for i in range(offsets[row], offsets[row + 1]):
        q += probabilities[i] * values[h + 1, successors[i]]
    return q


@kernel()
def optimal(model, values, policy):
    """Backward induction: fills ``values`` (H+1, S) with V* and ``policy`` (H, S) with its first greedy action."""
    H, S = policy.shape
    A = model[3].shape[2]
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best = -1.0
            for a in range(A):
                q = backup(model, h, s, a, S, values)
                if q > best:
                    best = q
                    policy[h, s] = a
            values[h, s] = best


@kernel()
def evaluate(model, policy, values):
    """Fills ``values`` (H+1, S) with V^π of a deterministic ``policy`` (H, S)."""
    H, S = policy.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            values[h, s] = backup(model, h, s, policy[h, s], S, values)


@kernel()
def evaluate_mixed(model, policy, values):
    """Fills ``values`` (H+1, S) with V^π of a stochastic ``policy`` (H, S, A)."""
    H, S, A = policy.shape
    values[H] = 0.0
    for h in range(H - 1, -1, -1):
        for s in range(S):
            total = 0.0
            for a in range(A):
                if policy[h, s, a] > 0.0:
                    total += policy[h, s, a] * backup(model, h, s, a, S, values)
            values[h, s] = total


@kernel()
def evaluate_many(model, initial, policies, values, results):
    """Fills ``results`` (n,) with the values of ``policies`` (n, H, S) over the initial distribution.

    ``values`` (H+1, S) is working space. Neighbouring policies are often equal and then evaluated once.
    """
    for k in range(policies.shape[0]):
        if k > 0 and (policies[k] == policies[k - 1]).all():
            results[k] = results[k - 1]
            continue
        evaluate(model, policies[k], values)
        total = 0.0
        for s in range(initial.shape[0]):
            total += initial[s] * values[0, s]
        results[k] = total


@kernel()
def evaluate_many_mixed(model, initial, policies, values, results):
    """Fills ``results`` (n,) with the values of stochastic ``policies`` (n, H, S, A), as `evaluate_many` does."""
    for k in range(policies.shape[0]):
        evaluate_mixed(model, policies[k], values)
        total = 0.0
        for s in range(initial.shape[0]):
            total += initial[s] * values[0, s]
        results[k] = total


@kernel()
def search(cumulative, start, stop, u):
    """Returns the first index in [start, stop) whose cumulative probability exceeds ``u``."""
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def step(tables, row, u_next, u_reward):
    """Returns the next state and the reward."""
    offsets, successors, cumulative, outcomes, _, _, bernoulli = tables
    i = search(cumulative, offsets[row], offsets[row + 1], u_next)
    reward = outcomes[i]
    if bernoulli:
        reward = 1.0 if u_reward < reward else 0.0
    return successors[i], reward


@kernel(SAMPLE)
def sample(tables, policy, draws, states, actions, rewards):
    """Plays one episode of a deterministic ``policy`` (H, S) with the person's own ``draws`` (1 + 3H,).

    draws[0] decides the first state; draws[1 + 3h : 4 + 3h] the action, the next state and the reward of step h.
    """
    offsets, _, _, _, initial, per_step, _ = tables
    H, S = policy.shape
    A = (offsets.shape[0] - 1) // (S * (H if per_step else 1))
    states[0] = search(initial, 0, S, draws[0])
    for h in range(H):
        s = states[h]
        a = policy[h, s]
        actions[h] = a
        row = (h * per_step * S + s) * A + a
        states[h + 1], rewards[h] = step(tables, row, draws[2 + 3 * h], draws[3 + 3 * h])


@kernel(SAMPLE_MIXED)
def sample_mixed(tables, policy, draws, states, actions, rewards):
    """Plays one episode of a stochastic ``policy`` (H, S, A), as `sample` does of a deterministic one."""
    _, _, _, _, initial, per_step, _ = tables
    H, S, A = policy.shape
    states[0] = search(initial, 0, S, draws[0])
    for h in range(H):
        s = states[h]
        a = 0
        cumulative = 0.0
        for b in range(A):
            if policy[h, s, b] > 0.0:  # an impossible action is never played, however the sum is rounded
                a = b
                cumulative += policy[h, s, b]
                if cumulative > draws[1 + 3 * h]:
                    break
        actions[h] = a
        row = (h * per_step * S + s) * A + a
        states[h + 1], rewards[h] = step(tables, row, draws[2 + 3 * h], draws[3 + 3 * h])


@kernel()
def sample_many(tables, policy, draws, states, actions, rewards):
    """Plays an episode a row of ``draws`` (n, 1 + 3H) under a deterministic ``policy`` (H, S)."""
    for k in range(draws.shape[0]):
        sample(tables, policy, draws[k], states[k], actions[k], rewards[k])


@kernel()
def sample_many_mixed(tables, policy, draws, states, actions, rewards):
    """Plays an episode a row of ``draws`` (n, 1 + 3H) under a stochastic ``policy`` (H, S, A)."""
    for k in range(draws.shape[0]):
        sample_mixed(tables, policy, draws[k], states[k], actions[k], rewards[k])

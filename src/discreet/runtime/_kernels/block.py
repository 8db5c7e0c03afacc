"""Whole stretches of a simulation without returning to Python: act, count, release, plan."""

from numba import types

from discreet._jit import kernel
from discreet.mdp._kernels import SAMPLE, SAMPLE_MIXED, TABLES
from discreet.privatizers._types import COUNTS, PLAN, PLAN_MIXED, PLANNED, PLANNED_MIXED
from discreet.privatizers.counts._kernels import PROJECT
from discreet.sums._kernels import ADVANCE

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_f4 = types.Array(types.float64, 4, "C")
_i1 = types.Array(types.int64, 1, "C")
_i3 = types.Array(types.int64, 3, "C")
_b1 = types.Array(types.boolean, 1, "C")
_EPISODE = types.Tuple((_i1, _i1, _f1))
_SUM = types.Tuple((_f1, _f1, _f2, _i1, _f2, _f2, _f1, types.boolean, _f2, _f1))


def _signature(sample, plan, planned, policies):
    return types.void(
        types.FunctionType(sample),
        TABLES,
        types.FunctionType(ADVANCE),
        _SUM,
        types.FunctionType(PROJECT),
        types.float64,
        types.FunctionType(plan),
        _f1,
        types.UniTuple(COUNTS, 3),
        planned,
        _f2,
        _b1,
        policies,
        _f2,
        _EPISODE,
    )


@kernel([_signature(SAMPLE, PLAN, PLANNED, _i3), _signature(SAMPLE_MIXED, PLAN_MIXED, PLANNED_MIXED, _f4)])
def play(
    sample,
    tables,
    advance,
    sums,
    project,
    E,
    plan,
    parameters,
    counts,
    planned,
    draws,
    replan,
    policies,
    releases,
    episode,
):
    """Plays one person a row of ``draws``; after each that ``replan`` (n,) marks, releases the counts and plans anew.

    ``sums`` is (total, released, coefficients, depths, z, state, noise, derived, hidden, batch) of a private sum;
    without noise z is empty and total and released are the same array. ``counts`` are views of total, of released, and
    what the planner gets: the projection of the released counts if E ≥ 0. ``derived`` says that visits are sums of
    transitions. If ``hidden`` has a row a person, all of them add it to their own vector, which ``total`` is then, and
    ``batch`` holds what those of the current batch sent.
    ``policies`` (marks + 1, …) receives the policy in force at first and after each plan, ``releases`` (marks, size),
    if it has rows, what was released; ``episode`` is working space for one trajectory.
    """
    raw, visible, prepared = counts
    total, released, coefficients, depths, z, state, noise, derived, hidden, batch = sums
    local = hidden.shape[0] > 0
    N, M, R = raw
    S = M.shape[3]
    policy = planned[2]
    states, actions, rewards = episode
    row = 0
    policies[0] = policy
    for k in range(draws.shape[0]):
        sample(tables, policy, draws[k], states, actions, rewards)
        for h in range(actions.shape[0]):
            t = h if N.shape[0] > 1 else 0
            s, a = states[h], actions[h]
            if not derived:
                N[t, s, a] += 1.0
            M[t, s, a, states[h + 1]] += 1.0
            R[t, s, a] += rewards[h]
        if local:
            for i in range(total.size):
                batch[i] += total[i] + hidden[k, i]
                total[i] = 0.0
        if replan[k]:
            if local:
                for i in range(total.size):
                    released[i] += batch[i]
                    batch[i] = 0.0
            elif z.shape[0] > 0:
                advance(coefficients, depths[row], z[row], state, noise)
                for i in range(total.size):
                    released[i] = total[i] + noise[i]
            if releases.shape[0] > 0:
                releases[row] = released
            n_hat = visible[0].reshape(visible[0].size)
            m_hat = visible[1].reshape((visible[0].size, S))
            if derived:
                for i in range(n_hat.size):
                    n_hat[i] = 0.0
                    for j in range(S):
                        n_hat[i] += m_hat[i, j]
            if E >= 0.0:
                project(n_hat, m_hat, E, prepared[0].reshape(n_hat.size), prepared[1].reshape((n_hat.size, S)))
            plan(parameters, prepared, planned)
            row += 1
            policies[row] = policy

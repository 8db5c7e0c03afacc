"""Whole stretches of a simulation without returning to Python: act, count, plan."""

from numba import types

from discreet._jit import kernel
from discreet.agents._kernels.types import COUNTS, PLAN, PLANNED
from discreet.mdp._kernels import SAMPLE, TABLES

_f1 = types.Array(types.float64, 1, "C")
_f2 = types.Array(types.float64, 2, "C")
_i1 = types.Array(types.int64, 1, "C")
_i3 = types.Array(types.int64, 3, "C")
_b1 = types.Array(types.boolean, 1, "C")
_EPISODE = types.Tuple((_i1, _i1, _f1))


@kernel(
    types.void(
        types.FunctionType(SAMPLE), TABLES, types.FunctionType(PLAN), _f1, COUNTS, PLANNED, _f2, _b1, _i3, _EPISODE
    )
)
def play(sample, tables, plan, parameters, counts, planned, draws, replan, policies, episode):
    """Plays one person a row of ``draws`` and plans anew after each one that ``replan`` (n,) marks.

    ``policies`` (marks + 1, H, S) receives the policy in force at first and after each plan; ``episode`` is working
    space for one trajectory (states, actions, rewards).
    """
    N, M, R = counts
    policy = planned[2]
    states, actions, rewards = episode
    row = 0
    policies[0] = policy
    for k in range(draws.shape[0]):
        sample(tables, policy, draws[k], states, actions, rewards)
        for h in range(actions.shape[0]):
            t = h if N.shape[0] > 1 else 0
            s, a = states[h], actions[h]
            N[t, s, a] += 1.0
            M[t, s, a, states[h + 1]] += 1.0
            R[t, s, a] += rewards[h]
        if replan[k]:
            plan(parameters, counts, planned)
            row += 1
            policies[row] = policy

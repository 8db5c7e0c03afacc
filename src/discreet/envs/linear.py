"""Linear mixture environments: known base kernels, unknown weights."""

from __future__ import annotations

import numpy as np

from discreet.errors import InvalidInput, check_flag, check_integer
from discreet.mdp import LinearMDP, LinearSpec, TabularMDP

__all__ = ["as_linear", "linear_mixture"]


def linear_mixture(
    d: int = 5,
    states: int = 50,
    actions: int = 4,
    horizon: int = 5,
    successors: int = 10,
    per_step: bool = False,
    reward_noise: str = "deterministic",
    seed: int = 0,
) -> LinearMDP:
    """A random mixture of ``d`` known base kernels with unknown weights, and rewards that mix ``d`` unknown numbers.

    Every (s,a) has a pool of ``successors`` random states; kernel i moves to its own share of the pool, with random
    probabilities. The weights of the kernels are Dirichlet(½). Rewards are averages ⟨φ(s,a), θ⟩ of the numbers from 0
    to 1 in θ, with mixing weights φ(s,a) from Dirichlet(0.2). Episodes start anywhere.

    Args:
        d: Number of kernels, and of reward features.
        states: Number of states.
        actions: Number of actions.
        horizon: Steps an episode.
        successors: Of each (s,a) at most.
        per_step: Whether every step has weights of its own.
        reward_noise: ``"deterministic"``, or ``"bernoulli"``: a bit with the reward as its mean.
        seed: Of the instance.
    """
    d, S, A = check_integer("d", d), check_integer("states", states), check_integer("actions", actions)
    H, n = check_integer("horizon", horizon), check_integer("successors", successors)
    steps = H if check_flag("per_step", per_step) else 1
    rng = np.random.default_rng(check_integer("seed", seed, least=0))
    share = max(1, n // d)
    pools = rng.integers(S, size=(S * A, n))
    places = (np.arange(d)[:, None] * share + np.arange(share)) % n  # of each kernel in the pool, (d, share)
    weights = rng.standard_exponential((S * A, d, share))
    weights /= weights.sum(axis=2, keepdims=True)
    spec = LinearSpec(
        S,
        A,
        H,
        np.full(S, 1 / S),
        rng.dirichlet(np.full(d, 0.2), size=(S, A)),
        np.arange(S * A + 1) * d * share,
        pools[:, places].ravel(),
        np.tile(np.repeat(np.arange(d), share), S * A),
        weights.ravel(),
        d,
    )
    theta_p = rng.dirichlet(np.full(d, 0.5), size=steps)
    levels = np.linspace(0, 1, d) if d > 1 else np.ones(1)
    theta_r = np.array([rng.permutation(levels) for _ in range(steps)])
    return LinearMDP(spec, theta_p, theta_r, reward_noise=reward_noise, name="linear_mixture")


def as_linear(mdp: TabularMDP) -> LinearMDP:
    """Returns a tabular MDP written as a linear one: one feature for each (s,a,s'), and one for each (s,a).

    The rewards are the means r_h(s,a), also where the table pays by transition. Every value feature has norm √S·H at
    most, far below the default bound √d₁·H of the linear agents: declare ``feature_bound=math.sqrt(S) * H`` there.
    """
    if not isinstance(mdp, TabularMDP):
        raise InvalidInput(f"as_linear takes a TabularMDP, got {type(mdp).__name__}")
    spec = LinearSpec.table(mdp.spec)
    theta_p = mdp.transitions.reshape(mdp.horizon, -1)
    theta_r = mdp.rewards.reshape(mdp.horizon, -1)
    return LinearMDP(spec, theta_p, theta_r, reward_noise=mdp.reward_noise, name=mdp.name)

"""What all exact MDPs with finitely many states and actions share: rows of successors, and what follows of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import check_integer
from discreet.mdp.policy import check_policy
from discreet.mdp.trajectory import Trajectory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from discreet.mdp.spec import Spec

__all__ = ["FiniteMDP", "SampleTables"]


class SampleTables(NamedTuple):
    """The arrays that `discreet.mdp._kernels.sample` reads, in its order."""

    offsets: NDArray[np.int64]
    successors: NDArray[np.int64]
    cumulative: NDArray[np.float64]
    outcomes: NDArray[np.float64]
    initial: NDArray[np.float64]
    per_step: int
    bernoulli: bool


class FiniteMDP(ABC):
    """An exact MDP: subclasses say how it is given, and hand out its rows (h, s, a) of successors.

    Attributes:
        name: A label for people.
        spec: What agents may know.
        reward_noise: ``"deterministic"`` pays the reward itself, ``"bernoulli"`` a bit with that mean.
    """

    name: str
    spec: Spec
    reward_noise: str
    _r: NDArray[np.float64]  # mean rewards, (steps, S, A); one step stands for all

    @property
    @abstractmethod
    def _sparse(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Offsets, successors and probabilities of the rows (h, s, a)."""

    @property
    @abstractmethod
    def sample_tables(self) -> SampleTables:
        """What the compiled sampler reads."""

    @property
    @abstractmethod
    def transitions(self) -> NDArray[np.float64]:
        """P_h(s'|s,a), (H, S, A, S), read-only."""

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} {self.name!r}: {self.states} states, {self.actions} actions, horizon {self.horizon}>"

    @property
    def states(self) -> int:
        """Number of states S."""
        return self.spec.states

    @property
    def actions(self) -> int:
        """Number of actions A."""
        return self.spec.actions

    @property
    def horizon(self) -> int:
        """Steps an episode H."""
        return self.spec.horizon

    @property
    def initial(self) -> NDArray[np.float64]:
        """Distribution of the first state, (S,)."""
        return self.spec.initial

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Mean rewards r_h(s,a), (H, S, A), read-only."""
        return np.broadcast_to(self._r, (self.horizon, *self._r.shape[1:]))

    @property
    def _model(self) -> tuple[Any, ...]:
        return (*self._sparse, self._r, int(len(self._r) > 1))

    @cached_property
    def _optimum(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        from discreet.mdp import _kernels

        values = np.empty((self.horizon + 1, self.states))
        policy = np.empty((self.horizon, self.states), dtype=np.int64)
        _kernels.optimal(self._model, values, policy)
        values.flags.writeable = policy.flags.writeable = False
        return values, policy

    @property
    def optimal_values(self) -> NDArray[np.float64]:
        """V*_h(s), (H+1, S); the last row is 0."""
        return self._optimum[0]

    @property
    def optimal_policy(self) -> NDArray[np.int64]:
        """A deterministic optimal policy, (H, S)."""
        return self._optimum[1]

    @property
    def optimal_value(self) -> float:
        """V*_1 over the initial distribution."""
        return float(self.initial @ self.optimal_values[0])

    def values(self, policy: ArrayLike) -> NDArray[np.float64]:
        """Returns V^π_h(s), (H+1, S), of a policy (H, S) or (H, S, A)."""
        from discreet.mdp import _kernels

        policy = check_policy(policy, self.spec)
        values = np.empty((self.horizon + 1, self.states))
        kernel = _kernels.evaluate if policy.ndim == 2 else _kernels.evaluate_mixed
        kernel(self._model, policy, values)
        return values

    def evaluate(self, policy: ArrayLike) -> float:
        """Returns V^π_1 over the initial distribution."""
        return float(self.initial @ self.values(policy)[0])

    def evaluate_many(self, policies: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the values, (n,), of ``policies`` (n, H, S) or (n, H, S, A), which are not checked."""
        from discreet.mdp import _kernels

        results = np.empty(len(policies))
        values = np.empty((self.horizon + 1, self.states))
        kernel = _kernels.evaluate_many if policies.ndim == 3 else _kernels.evaluate_many_mixed
        kernel(self._model, np.array(self.initial), policies, values, results)
        return results

    def draws(self, rng: np.random.Generator, episodes: int) -> NDArray[np.float64]:
        """Returns the randomness of ``episodes`` people, (episodes, 1 + 3H): the same amount for everybody."""
        return rng.random((episodes, self.draws_per_person))

    @property
    def draws_per_person(self) -> int:
        """One draw for the first state, and one each for action, next state and reward of every step."""
        return 1 + 3 * self.horizon

    def sample(self, policy: ArrayLike, rng: np.random.Generator) -> Trajectory:
        """Plays one episode."""
        states, actions, rewards = self.sample_many(policy, rng, 1)
        return Trajectory(states[0], actions[0], rewards[0])

    def sample_many(
        self, policy: ArrayLike, rng: np.random.Generator, episodes: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Plays ``episodes`` episodes; returns states (n, H+1), actions (n, H) and rewards (n, H)."""
        from discreet.mdp import _kernels

        policy = check_policy(policy, self.spec)
        n, H = check_integer("episodes", episodes), self.horizon
        states = np.empty((n, H + 1), dtype=np.int64)
        actions = np.empty((n, H), dtype=np.int64)
        rewards = np.empty((n, H))
        kernel = _kernels.sample_many if policy.ndim == 2 else _kernels.sample_many_mixed
        kernel(tuple(self.sample_tables), policy, self.draws(rng, n), states, actions, rewards)
        return states, actions, rewards

"""The active policies of SDP-PE: listed one by one, or described by the constraints that they meet.

Notation: P (H, S, A, S) is the transition function of an absorbing MDP without its absorbing state x† (a row adds up to
less than 1 where something leads there), r (H, S, A) its rewards, ξ the width of the confidence interval, d the
probability of being in a state at a step. The *witness* is the best active policy in the last refined model.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec

__all__ = ["KINDS", "Enumerated", "Exploration", "Implicit", "PolicySet"]

_Point = tuple["NDArray[np.int64]", float, float]
_Values = tuple["NDArray[np.float64]", "NDArray[np.float64]"]

#: Policies that can be listed at most.
MOST = 100_000


class Exploration(NamedTuple):
    """How to visit every (x, a) at one step.

    Attributes:
        components: Policies, (S, A, n, H, S).
        weights: Of an episode-level mixture of them, (S, A, n).
        visits: How often the mixture is in (h, x, a), in the model, (S, A).
        reach: How often any policy could be, active or not, (S, A).
    """

    components: NDArray[np.int64]
    weights: NDArray[np.float64]
    visits: NDArray[np.float64]
    reach: NDArray[np.float64]


class PolicySet(Protocol):
    """The active policies."""

    witness: NDArray[np.int64]

    def explore(self, P: NDArray[np.float64], h: int) -> Exploration:
        """Returns the active policies that visit each (h, x, a) most in the model P."""

    def eliminate(self, P: NDArray[np.float64], r: NDArray[np.float64], xi: float) -> float:
        """Leaves only policies whose value is within 2ξ of the best active one's; returns the best value."""

    def most(self, P: NDArray[np.float64], r: NDArray[np.float64]) -> float:
        """Returns the largest value that an active policy is found to have in a model."""

    @property
    def size(self) -> int | None:
        """Number of active policies; None if nobody counts them."""

    def copy(self) -> PolicySet:
        """Returns one that may be changed: nothing is changed in place, so the arrays are shared."""

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Returns all that changes."""

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Goes back to a `state`."""


class _Copied:
    """A set whose arrays are replaced and never changed."""

    def copy(self) -> Self:
        """Returns one that may be changed."""
        return copy.copy(self)


class Enumerated(_Copied):
    """The paper's explicit set of deterministic policies.

    Raises:
        InvalidInput: If there are more than can be listed.
    """

    def __init__(self, spec: Spec) -> None:
        H, S, A = spec.horizon, spec.states, spec.actions
        number = A ** (H * S)
        if number > MOST:
            shown = f"{number:,}" if number < 10**15 else f"{A}^{H * S}"
            raise InvalidInput(
                f"policies='enumerate' lists {MOST:,} deterministic policies at most; there are {shown} of them: "
                "take policies='implicit'"
            )
        digits = A ** np.arange(H * S)[::-1]
        self.policies = (np.arange(number)[:, None] // digits % A).reshape(number, H, S)
        self.initial = spec.initial
        self.active = np.ones(number, dtype=np.bool_)
        self.witness = self.policies[0].copy()

    @property
    def size(self) -> int:
        """Number of active policies."""
        return int(self.active.sum())

    def explore(self, P: NDArray[np.float64], h: int) -> Exploration:
        """Algorithms 2 and 3: π_{h,x,a} = argmax over active π of V^π(1_{h,x,a}, P), the first one of several."""
        from discreet.agents._kernels import sdp_pe as kernels

        _, S, A, _ = P.shape
        d = np.empty((len(self.policies), S))
        kernels.occupancy(P, self.initial, self.policies, h, d)
        visits = d[:, :, None] * (self.policies[:, h, :, None] == np.arange(A))
        first = np.argmax(np.where(self.active[:, None, None], visits, -1.0), axis=0)
        found = np.take_along_axis(visits, first[None], axis=0)[0]
        return Exploration(self.policies[first][:, :, None], np.ones((S, A, 1)), found, visits.max(axis=0))

    def eliminate(self, P: NDArray[np.float64], r: NDArray[np.float64], xi: float) -> float:
        """Algorithm 1, lines 7 to 13."""
        from discreet.agents._kernels import sdp_pe as kernels

        values = np.empty(len(self.policies))
        kernels.values(P, r, self.initial, self.policies, np.empty((2, P.shape[1])), values)
        values[~self.active] = -np.inf
        best = float(values.max())
        self.witness = self.policies[int(values.argmax())].copy()
        self.active = self.active & ~(best - values > 2 * xi)  # line 9
        return best

    def most(self, P: NDArray[np.float64], r: NDArray[np.float64]) -> float:
        """Returns the largest value of an active policy in a model."""
        from discreet.agents._kernels import sdp_pe as kernels

        values = np.empty(len(self.policies))
        kernels.values(P, r, self.initial, self.policies, np.empty((2, P.shape[1])), values)
        return float(values[self.active].max())

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Returns all that changes."""
        return {"active": self.active.copy(), "witness": self.witness.copy()}

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Goes back to a `state`."""
        self.active, self.witness = state["active"].copy(), state["witness"].copy()


class Implicit(_Copied):
    """All policies, mixed ones included, that are good enough in every refined model so far.

    A stage adds a constraint: V^π in its refined model must be at least v − 2ξ, v being the witness's value there. The
    cost g = V* − Q* of an action in a refined model adds up, over an episode there, to what a policy falls short of
    the optimum; a constraint that every policy meets has no cost. Exploration is a dynamic program in the crude model,
    with visits for rewards and a multiplier on the cost; constraints are checked in their own models. This is the exact
    constrained optimum if the models coincide and one constraint binds, and a heuristic otherwise.
    """

    def __init__(self, spec: Spec) -> None:
        H, S, A = spec.horizon, spec.states, spec.actions
        self.initial = np.array(spec.initial)
        self.witness = np.zeros((H, S), dtype=np.int64)
        self.models = np.empty((0, H, S, A, S))
        self.rewards = np.empty((0, H, S, A))
        self.floors = np.empty(0)
        self.cost = np.zeros((H, S, A))

    @property
    def size(self) -> None:
        """Nobody counts them."""

    def margins(self, policy: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns by how much a policy meets every constraint, in its own model, (J,)."""
        from discreet.agents._kernels import sdp_pe as kernels

        out = np.empty(len(self.floors))
        space = np.empty((2, policy.shape[1]))
        kernels.margins(self.models, self.rewards, self.floors, self.initial, policy, space, out)
        return out

    def explore(self, P: NDArray[np.float64], h: int) -> Exploration:
        """Returns mixtures of neighbouring policies and the witness that visit each (h, x, a) most in P."""
        from discreet.agents._kernels import sdp_pe as kernels

        H, S, A, _ = P.shape
        J = len(self.floors)
        found = Exploration(
            np.empty((S, A, 3, H, S), dtype=np.int64), np.empty((S, A, 3)), np.empty((S, A)), np.empty((S, A))
        )
        space = (
            np.empty((3, H, S), dtype=np.int64),
            *(np.empty((2, S)) for _ in range(3)),
            np.empty((4, J)),
            *(np.empty((3 + J, 3)) for _ in range(2)),
            np.empty(3),
        )
        constraints = (self.models, self.rewards, self.floors)
        kernels.explore(P, self.initial, h, self.cost, constraints, self.witness, space, *found)
        return found

    def eliminate(self, P: NDArray[np.float64], r: NDArray[np.float64], xi: float) -> float:
        """Finds the new witness, and adds the constraint of this stage; it has a cost if any policy can break it."""
        (self.witness, v, _), _, (Q, V) = self._walk(P, r)
        floor = v - 2 * xi
        self.models = np.concatenate([self.models, P[None]])
        self.rewards = np.concatenate([self.rewards, r[None]])
        self.floors = np.append(self.floors, floor)
        if self._least(P, r) < floor:
            self.cost = self.cost + np.maximum(V[:-1, :, None] - Q, 0.0)
        return v

    def most(self, P: NDArray[np.float64], r: NDArray[np.float64]) -> float:
        """Returns the largest value that an active policy is found to have in a model."""
        return self._walk(P, r)[1]

    def _least(self, P: NDArray[np.float64], r: NDArray[np.float64]) -> float:
        """Returns the least value that any policy has in a model."""
        from discreet.agents._kernels import sdp_pe as kernels

        H, S, A = r.shape
        V, policy = np.empty((H + 1, S)), np.empty((H, S), dtype=np.int64)
        kernels.optimal(P, -r, self.witness, np.empty((H, S, A)), V, policy)
        return -float(self.initial @ V[0])

    def _measure(
        self, P: NDArray[np.float64], r: NDArray[np.float64], policy: NDArray[np.int64]
    ) -> tuple[float, float]:
        """Returns the value and the cost of a policy in a model."""
        from discreet.agents._kernels import sdp_pe as kernels

        space = np.empty((2, P.shape[1]))
        found = [kernels.value(P, x, self.initial, policy, space) for x in (r, self.cost)]
        return found[0], found[1]

    def _walk(self, P: NDArray[np.float64], r: NDArray[np.float64]) -> tuple[_Point, float, _Values]:
        """The walk of `discreet.agents._kernels.sdp_pe.explore` with values for visits: to the optimum of a model.

        Returns:
            The best active policy on the way, with its value and cost; the value of the best mixture on the way that
            meets all constraints; and Q* and V* of the model.
        """
        from discreet.agents._kernels import sdp_pe as kernels

        H, S, A, _ = P.shape
        corners = [np.empty((3 + len(self.floors), 3)) for _ in range(2)]

        def optimum(reward: NDArray[np.float64]) -> tuple[_Point, _Values]:
            Q, V, policy = np.empty((H, S, A)), np.empty((H + 1, S)), np.empty((H, S), dtype=np.int64)
            kernels.optimal(P, reward, self.witness, Q, V, policy)
            return (policy, *self._measure(P, r, policy)), (Q, V)

        def mixed() -> float:
            slack = np.array([left_slack, right_slack, own])
            return float(kernels.mix((left[1], right[1], witness[1]), slack, *corners, np.empty(3)))

        witness = best = left = (self.witness.copy(), *self._measure(P, r, self.witness))
        own = left_slack = np.maximum(self.margins(self.witness), 0.0)  # but for rounding
        right, optimal = optimum(r)
        right_slack = self.margins(right[0])
        if (right_slack >= 0).all():
            return right, right[1], optimal
        top = mixed()
        for _ in range(100):
            if right[1] <= left[1] or right[2] <= left[2]:
                break
            lam = (right[1] - left[1]) / (right[2] - left[2])
            trial, _ = optimum(r - lam * self.cost)
            if trial[1] - lam * trial[2] <= left[1] - lam * left[2] + 1e-12 * (1 + lam * right[2]):
                break
            slack = self.margins(trial[0])
            met = bool((slack >= 0).all())
            if met:
                best = max(best, trial, key=lambda point: point[1])
            if met or trial[1] <= witness[1]:
                left, left_slack = trial, slack
            else:
                right, right_slack = trial, slack
            top = max(top, mixed())
        return best, top, optimal

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Returns all that changes."""
        names = ("witness", "models", "rewards", "floors", "cost")
        return {name: getattr(self, name).copy() for name in names}

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        """Goes back to a `state`."""
        for name, array in state.items():
            setattr(self, name, array.copy())


#: By the names of the option ``policies``.
KINDS: dict[str, type[Enumerated] | type[Implicit]] = {"enumerate": Enumerated, "implicit": Implicit}

"""Finite-horizon MDPs with finitely many states and actions, known exactly."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_integer
from discreet.mdp.finite import FiniteMDP, SampleTables
from discreet.mdp.policy import cumulate, cumulate_rows
from discreet.mdp.spec import Spec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["SampleTables", "TabularMDP"]


class TabularMDP(FiniteMDP):
    """A validated tabular MDP with exact values and compiled sampling.

    Dynamics that do not depend on the step are stored once, whatever the horizon.

    Args:
        transitions: P_h(s'|s,a), (H, S, A, S); or (S, A, S) for all steps alike.
        rewards: Mean rewards r_h(s,a) in [0, 1], (H, S, A) or (S, A).
        transition_rewards: Instead of ``rewards``: the reward on each transition, (H, S, A, S) or (S, A, S).
        initial: Distribution of the first state, (S,), or one state; state 0 by default.
        horizon: Steps an episode; needed only if neither array has a step axis.
        reward_noise: ``"deterministic"`` pays the reward itself, ``"bernoulli"`` a bit with that mean.
        outcomes: What sampling draws from, where one transition may pay different rewards: for all rows (h, s, a) in
            order, the arrays (row, next state, probability, reward). It must have the means of the other arguments.
        reward_range: The interval of the original rewards that [0, 1] stands for.
        name: A label for people.

    Raises:
        ValueError: Naming the offending index, if shapes do not agree, a distribution does not sum to one within
            1e-8, or a reward is NaN or outside [0, 1].
    """

    def __init__(
        self,
        transitions: ArrayLike,
        rewards: ArrayLike | None = None,
        *,
        transition_rewards: ArrayLike | None = None,
        initial: ArrayLike | int = 0,
        horizon: int | None = None,
        reward_noise: str = "deterministic",
        outcomes: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        name: str = "",
    ) -> None:
        if (rewards is None) == (transition_rewards is None):
            raise InvalidInput("give either rewards or transition_rewards")
        if reward_noise not in ("deterministic", "bernoulli"):
            raise UnknownName("reward_noise", reward_noise, ["deterministic", "bernoulli"])
        P = _with_step_axis("transitions", transitions, 4)
        on_transitions = transition_rewards is not None
        R = (
            _with_step_axis("transition_rewards", transition_rewards, 4)
            if on_transitions
            else _with_step_axis("rewards", rewards, 3)[..., None]
        )
        S, A = P.shape[1:3]
        if P.shape[3] != S:
            raise InvalidInput(f"transitions must end in (S, A, S), got {P.shape[1:]}")
        if R.shape[1:3] != (S, A) or R.shape[3] not in (1, S) or (on_transitions and R.shape[3] != S):
            raise InvalidInput(f"rewards {R.shape[1:]} do not fit transitions {P.shape[1:]}")
        if horizon is None and np.ndim(transitions) == 3 and max(P.shape[0], R.shape[0]) == 1:
            raise InvalidInput("give horizon=: neither array has a step axis")
        H = _common_horizon(horizon, P.shape[0], R.shape[0])
        if isinstance(initial, (int, np.integer)):
            first = check_integer("initial", initial, least=0)
            if first >= S:
                raise InvalidInput(f"initial must be a state in [0, {S}), got initial={first}")
            initial = np.eye(S)[first]
        _check_rows("transitions", P)
        _check_rewards("transition_rewards" if on_transitions else "rewards", R)

        self.name = name
        self.reward_noise = reward_noise
        self.reward_range = reward_range
        self.spec = Spec(S, A, H, np.asarray(initial, dtype=np.float64))
        steps = H if max(P.shape[0], R.shape[0]) > 1 else 1
        self._P = np.array(np.broadcast_to(P, (steps, S, A, S)), order="C")
        self._R = R
        self._outcomes = outcomes
        r = (self._P * R).sum(axis=3) if on_transitions else R[..., 0]
        r = np.clip(r, 0.0, 1.0)  # a mean of rewards in [0, 1], but for rounding
        self._r = np.array(np.broadcast_to(r, (steps, S, A)), order="C")

    @property
    def transitions(self) -> NDArray[np.float64]:
        """P_h(s'|s,a), (H, S, A, S), read-only."""
        return np.broadcast_to(self._P, (self.horizon, *self._P.shape[1:]))

    @property
    def transition_rewards(self) -> NDArray[np.float64]:
        """Mean reward on each transition, (H, S, A, S), read-only."""
        return np.broadcast_to(self._R, (self.horizon, *self._P.shape[1:]))

    @cached_property
    def _sparse(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Offsets, successors and probabilities of the rows (h, s, a)."""
        rows = self._P.reshape(-1, self.states)
        row, successors = np.nonzero(rows)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(rows)))])
        return offsets, np.ascontiguousarray(successors), rows[row, successors]

    @cached_property
    def sample_tables(self) -> SampleTables:
        """What the compiled sampler reads."""
        rows = self._P.shape[0] * self.states * self.actions
        if self._outcomes is None:
            offsets, successors, probabilities = self._sparse
            row = np.repeat(np.arange(rows), np.diff(offsets))
            R = np.broadcast_to(self._R, self._P.shape).reshape(rows, self.states)
            rewards = R[row, successors]
        else:
            row, successors = (np.asarray(part, dtype=np.int64) for part in self._outcomes[:2])
            probabilities, rewards = (np.asarray(part, dtype=np.float64) for part in self._outcomes[2:])
            offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])
        return SampleTables(
            offsets,
            np.ascontiguousarray(successors),
            cumulate_rows(probabilities, offsets),
            np.ascontiguousarray(rewards),
            cumulate(self.initial),
            int(len(self._P) > 1),
            self.reward_noise == "bernoulli",
        )


def _with_step_axis(name: str, values: Any, dimensions: int) -> NDArray[np.float64]:
    """Returns a float copy of ``values`` with ``dimensions`` axes, the first being the step (of length 1 if absent)."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be an array of numbers") from None
    if array.ndim == dimensions - 1:
        array = array[None]
    if array.ndim != dimensions or 0 in array.shape:
        raise InvalidInput(
            f"{name} must have {dimensions - 1} or {dimensions} axes, none empty, got shape {array.shape}"
        )
    return array


def _common_horizon(horizon: int | None, *lengths: int) -> int:
    """Returns H, given the lengths of the step axes (1 stands for all steps)."""
    H = max(lengths) if horizon is None else check_integer("horizon", horizon)
    if any(length not in (1, H) for length in lengths):
        raise InvalidInput(f"arrays with step axes of length {lengths} do not fit horizon={H}")
    return H


def _index(position: NDArray[np.intp], *letters: str) -> str:
    return ", ".join(f"{letter}={i}" for letter, i in zip(letters, position, strict=False))


def _check_rows(name: str, P: NDArray[np.float64]) -> None:
    """Raises naming the first entry that is no probability, or the first row that does not sum to one."""
    for at in np.argwhere(~(P >= 0)):  # catches NaN too
        raise InvalidInput(f"{name}[{_index(at, 'h', 's', 'a', 'next')}] must be a probability, got {P[tuple(at)]}")
    sums = P.sum(axis=3)
    for at in np.argwhere(~(abs(sums - 1) <= 1e-8)):
        raise InvalidInput(f"{name}[{_index(at, 'h', 's', 'a')}] must sum to 1 within 1e-8, got {sums[tuple(at)]:.10g}")


def _check_rewards(name: str, R: NDArray[np.float64]) -> None:
    """Raises naming the first reward that is NaN or outside [0, 1]."""
    letters = ("h", "s", "a", "next") if R.shape[3] > 1 else ("h", "s", "a")
    for at in np.argwhere(~((R >= 0) & (R <= 1))):
        raise InvalidInput(f"{name}[{_index(at, *letters)}] must lie in [0, 1], got {R[tuple(at)]}")

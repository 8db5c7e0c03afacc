"""What all tabular agents share: planning on private counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from discreet.agents.base import LearningAgent
from discreet.agents.rounds import Policy, Proposal
from discreet.privatizers import PrivateCounts, project
from discreet.privatizers.make import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import TrustModel
    from discreet.privatizers import AnyMechanism

__all__ = ["Planned", "TabularAgent"]


class Planned(NamedTuple):
    """What a planner on counts keeps from one plan to the next.

    Attributes:
        Q: (H, S, A).
        V: (H+1, S).
        policy: (H, S), or (H, S, A) of probabilities.
    """

    Q: NDArray[np.float64]
    V: NDArray[np.float64]
    policy: Policy

    def copy(self) -> Planned:
        """Returns one that kernels may write into."""
        return Planned(self.Q.copy(), self.V.copy(), self.policy.copy())

    def proposal(self, size: int, **carried: NDArray[np.float64]) -> Proposal:
        """Returns the policy for everybody."""
        return Proposal(self.policy[None], np.array([size]), self.policy, carried)


class TabularAgent(LearningAgent):
    """A planner on private counts; subclasses say which.

    Subclasses give ``name``, the compiled ``kernel``, the ``error_bound`` that it uses and its ``parameters``.

    Attributes:
        projects: Whether it plans on projected counts.
        share: Which share of ``failure`` the error bound of the counts gets.
    """

    projects: ClassVar[bool] = False
    share: ClassVar[float] = 1.0

    def __init__(
        self,
        spec: Spec,
        *,
        episodes: int,
        privacy: TrustModel | None = None,
        preset: str = "practical",
        stationary: bool = False,
        update_every: int | str | None = None,
        failure: float = 0.05,
        bonus_scale: float = 1.0,
        seed: Seed = None,
    ) -> None:
        self._constants: dict[float, tuple[float, NDArray[np.float64]]] = {}
        super().__init__(
            spec,
            episodes=episodes,
            privacy=privacy,
            preset=preset,
            stationary=stationary,
            update_every=update_every,
            failure=failure,
            bonus_scale=bonus_scale,
            seed=seed,
        )

    def _build(self) -> AnyMechanism:
        return make(
            "counts",
            self.spec,
            self.privacy,
            capacity=self.episodes,
            batches=self.batches or [self.schedule.batch_size(0)],
            stationary=self.stationary,
            failure=self.failure * self.share,
        )

    @property
    def Q(self) -> NDArray[np.float64]:  # noqa: N802
        """Of the last plan, (H, S, A)."""
        found: NDArray[np.float64] = self.learned.Q
        return found

    @property
    def V(self) -> NDArray[np.float64]:  # noqa: N802
        """Of the last plan, (H+1, S)."""
        found: NDArray[np.float64] = self.learned.V
        return found

    @property
    def kernel(self) -> Callable[..., None]:
        """The compiled planner."""
        raise NotImplementedError

    def error_bound(self, error: float) -> float:
        """Returns the paper's E for counts with the bound ``error`` on their noise."""
        raise NotImplementedError

    def parameters(self, E: float) -> NDArray[np.float64]:
        """Returns the constants that the kernel reads."""
        raise NotImplementedError

    def constants(self, error: float) -> tuple[float, NDArray[np.float64]]:
        """Returns E and the kernel's parameters for counts with the bound ``error``."""
        if error not in self._constants:
            E = self.error_bound(error)
            self._constants = {error: (E, self.parameters(E))}
        return self._constants[error]

    def _blank(self) -> Planned:
        """Returns what a planner begins with."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        policy: Policy = np.full((H, S, A), 1 / A) if self.mixed else np.zeros((H, S), dtype=np.int64)
        return Planned(np.full((H, S, A), float(H)), np.zeros((H + 1, S)), policy)

    def _start(self, first: PrivateCounts, size: int, rng: np.random.Generator) -> tuple[Planned, Proposal]:
        """Plans on empty counts; policy optimisation begins with the uniform policy instead."""
        planned = self._blank() if self.mixed else self.planned(self._blank(), first)
        return planned, planned.proposal(size)

    def _learn(
        self, state: Planned, released: PrivateCounts, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Planned, Proposal]:
        planned = self.planned(state, released)
        return planned, planned.proposal(size)

    def planned(self, before: Planned, counts: PrivateCounts) -> Planned:
        """Returns Q, V and the policy for ``counts`` (and what was planned before, where the paper uses it)."""
        E, parameters = self.constants(counts.error)
        if self.projects:
            counts = project(counts, E)
        arrays = (counts.visits, counts.transitions, counts.rewards)
        found = before.copy()
        self.kernel(parameters, tuple(np.ascontiguousarray(x, dtype=np.float64) for x in arrays), tuple(found))
        return found

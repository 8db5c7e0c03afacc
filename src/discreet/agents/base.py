"""What all tabular agents share: planning on private counts, and compiled blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet import privatizers
from discreet.agents.learning import Agent, LearningAgent, default_update
from discreet.noise import Role
from discreet.privatizers import CentralPrivatizer, Collector, NonPrivatePrivatizer, PrivateCounts, project
from discreet.privatizers.encoders import RawEncoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.mdp.finite import SampleTables
    from discreet.noise import Seed
    from discreet.privacy import TrustModel
    from discreet.privatizers import Privatizer

__all__ = ["Agent", "LearningAgent", "TabularAgent", "default_update"]


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
        if not self.mixed:
            self.plan(self.privatizer.counts())

    def _build(self) -> Privatizer[Any, Any]:
        assert self.privacy is not None
        return privatizers.make(
            self.spec,
            self.privacy,
            capacity=self.episodes,
            batches=self.batches or [self.schedule.batch_size(0)],
            stationary=self.stationary,
            failure=self.failure * self.share,
            rng=self.streams[Role.NOISE],
        )

    @property
    def kernel(self) -> Any:
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

    def plan(self, counts: PrivateCounts) -> None:
        """Computes Q, V and the policy from ``counts`` (and from what was planned before, where the paper does)."""
        E, parameters = self.constants(counts.error)
        if self.projects:
            counts = project(counts, E)
        arrays = (counts.visits, counts.transitions, counts.rewards)
        self.kernel(parameters, tuple(np.ascontiguousarray(x, dtype=np.float64) for x in arrays), self._planned)

    @property
    def compiled(self) -> bool:
        """Whether `play` does what the protocol does: nobody has put other parts into this agent."""
        known = type(self.privatizer) in (NonPrivatePrivatizer, CentralPrivatizer)
        return known and self._own("plan", TabularAgent) and self._unaltered

    def _own(self, name: str, kind: type) -> bool:
        """Whether a method of this agent is the one of a class."""
        return getattr(getattr(self, name), "__func__", None) is getattr(kind, name)

    @property
    def _unaltered(self) -> bool:
        """Whether what all agents share is as it was built."""
        inherited = ("batch_size", "policy", "constants")
        own = all(getattr(type(self), name) is getattr(TabularAgent, name) for name in inherited)
        parts = type(self.encoder) is RawEncoder and type(self.shuffler) is Collector
        return own and parts and self._own("observe", TabularAgent)

    @property
    def release_size(self) -> int:
        """How many numbers a release has, visits, transitions and rewards; asking releases nothing."""
        S, A, steps = self.spec.states, self.spec.actions, 1 if self.stationary else self.spec.horizon
        return steps * S * A * (S + 2)

    def play(self, tables: SampleTables, draws: NDArray[np.float64], replan: NDArray[np.bool_]) -> NDArray[Any]:
        """As `LearningAgent.play` says, in one compiled call."""
        from discreet.agents._kernels import block
        from discreet.mdp import _kernels
        from discreet.privatizers._kernels import project as project_kernel

        self._check_here()
        private = self.privatizer
        assert isinstance(private, NonPrivatePrivatizer | CentralPrivatizer)
        self._check_room(len(draws))
        marks, H, layout, before = int(replan.sum()), self.spec.horizon, private.layout, self.count
        total, released, advance, *noise = private.sum.stretch(len(draws), marks)
        E, parameters = self.constants(private.error)
        visible = layout.split(released)
        prepared = (*(np.empty_like(x) for x in visible[:2]), visible[2]) if self.projects else visible
        policies = np.empty((marks + 1, *self._policy.shape), dtype=self._policy.dtype)
        releases = np.empty((marks if self.on_release else 0, layout.size))
        block.play(
            _kernels.sample_mixed if self.mixed else _kernels.sample,
            tuple(tables),
            advance,
            (total, released, *noise, np.empty(layout.size), not layout.visits),
            project_kernel,
            E if self.projects else -1.0,
            self.kernel,
            parameters,
            (layout.split(total), visible, prepared),
            self._planned,
            draws,
            replan,
            policies,
            releases,
            (np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty(H)),
        )
        private.sum.resume(waiting=not replan[-1] if len(replan) else False)
        for row, policy, last in zip(releases, policies[1:], np.flatnonzero(replan), strict=False):
            released_counts = PrivateCounts(*layout.split(row), private.error)
            self._untold.append((released_counts, policy.copy(), before + int(last) + 1))
        return policies

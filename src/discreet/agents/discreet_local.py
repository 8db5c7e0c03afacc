"""discreet-vi under local privacy: every user answers one question about one cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.agents.learner import Learner, Plan
from discreet.agents.schedule import Listed, Schedule
from discreet.privatizers.questions import Answers, QuestionLocal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.discreet_vi import DiscreetVI

__all__ = ["LocalLearner", "Settings", "batches"]


@dataclass(frozen=True)
class Settings:
    trust_t: float = 15.0
    trust_r: float = 8.0
    spread_bonus: float = 0.08
    reward_bonus: float = 0.2
    least: float = 0.02
    weighted: bool = True
    sticky: bool = True
    directed: bool = True
    spike: float = 0.0
    grow: float = 0.05
    small: int = 150
    large: int = 2000


def batches(episodes: int, s: Settings) -> tuple[int, ...]:
    sizes, count = [], 0
    while True:
        size = min(s.large, max(min(s.small, max(1, episodes // 20)), int(s.grow * count)))
        if count + size > episodes:
            return tuple(sizes)
        sizes.append(size)
        count += size


class LocalLearner(Learner):
    settings: ClassVar[Settings] = Settings()

    def __init__(self, agent: DiscreetVI, update_every: int | str | None) -> None:
        spec = self.spec = agent.spec
        if update_every is None:
            self.schedule = Listed(batches(agent.episodes, self.settings), agent.episodes)
        else:
            self.schedule = Schedule(update_every)
        self.privatizer = QuestionLocal(
            spec, agent.privacy, capacity=agent.episodes, stationary=agent.stationary, failure=agent.failure
        )
        self.scale = agent.bonus_scale
        hidden = self.privatizer.encoder.randomisers
        self.variances = [h.variance(1, holds=False) for h in hidden]
        T, S, A = self.privatizer.layout.steps, spec.states, spec.actions
        self._m = np.zeros((T, S, A, S))
        self._R = np.zeros((T, S, A, 2))
        self._v = np.zeros((2, T, S, A))
        self._known = np.zeros((T, S, A), dtype=np.bool_)
        self._weights = np.zeros((T, S, A))
        self._order = np.zeros((S, A), dtype=np.int64)

    def _learn(self, new: Answers) -> None:
        x = self._weights if self.settings.weighted else np.ones_like(self._weights)
        self._m += x[..., None] * new.transitions
        self._R += x[..., None] * new.rewards
        self._v += x * x * new.asked * np.array(self.variances)[:, None, None, None]

    def plan(self, released: Answers | None, count: int, size: int, rng: np.random.Generator) -> Plan:
        from discreet.agents._kernels import discreet_local as kernels

        s, spec = self.settings, self.spec
        H, S, A = spec.horizon, spec.states, spec.actions
        if released is None:
            self._order = rng.permuted(np.tile(np.arange(A), (S, 1)), axis=1)
        else:
            self._learn(released)
        N, Nr = self._m.sum(axis=-1), self._R.sum(axis=-1)
        std = np.sqrt(self._v)
        known = (N > s.trust_t * std[0]) & (Nr > s.trust_r * std[1]) & (N > 0) & (Nr > 0)
        if s.sticky:
            known |= self._known
        self._known = known
        ratio_t = std[0] / np.maximum(N, std[0] + 1e-9)
        ratio_r = std[1] / np.maximum(Nr, std[1] + 1e-9)
        P = np.maximum(self._m, 0)
        if s.spike > 0:
            P = np.where(self._m > s.spike * std[0][..., None], P, 0)
            P = np.where(P.sum(-1, keepdims=True) > 0, P, np.maximum(self._m, 0))
        P = P / np.maximum(P.sum(-1, keepdims=True), 1e-300)
        r = np.clip(self._R[..., 1] / np.where(Nr > 0, Nr, 1), 0, 1)
        V, policy, exploit = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64), np.zeros((H, S), dtype=np.int64)
        zero = np.zeros_like(N)
        kernels.optimise(P, r, known, zero, zero, 0.0, self._order, V, exploit)
        kernels.optimise(
            P, r, known, self.scale * s.spread_bonus * ratio_t, self.scale * s.reward_bonus * ratio_r, 1.0, self._order, V, policy
        )
        work, visits, worth, chance = np.zeros((2, S)), zero.copy(), zero.copy(), zero.copy()
        initial = np.array(spec.initial)
        kernels.visit(P, known, initial, policy, V, work, visits, worth)
        kernels.first(P, known, initial, policy, visits, work, chance)
        self._weights = np.maximum(chance, s.least)
        if s.directed:
            ask_t = np.where(known, worth * ratio_t, H * chance)
            ask_r = np.where(known, visits * ratio_r, H * chance)
            asked = np.stack([ask_t, ask_r])
            asked = asked / asked.sum()
        else:
            asked = np.full((2, *N.shape), 0.5 / N.size)
        return Plan(policy[None], np.array([size]), exploit, {"probabilities": asked})

    def state(self) -> dict[str, Any]:
        return {k: getattr(self, k).copy() for k in ("_m", "_R", "_v", "_known", "_weights", "_order")}

    def restore(self, state: dict[str, Any]) -> None:
        for k, v in state.items():
            setattr(self, k, v.copy())

"""discreet-vi under local privacy: every user answers one question about one cell.

A question is a cell and a kind: the next state, or the reward bit, at the first visit to the cell, or "none"
(`discreet.privatizers.questions`). All cells are those of (s,a) if ``stationary``, else of (h,s,a). For each cell the
learner keeps, with σ² the variance that one user adds to a count:

    x   the probability of a first visit under the batch's policy, as the model has it, and at least 0.02
    m   Σ x·(users who went on to s'),  N = Σ_{s'} m,  v = Σ x²·σ²·(users asked)
    R   Σ x·(users with reward bit 0 or 1),  N_R = Σ R,  v_R alike

Batches in which more users visit a cell say more about it: x is the weight of least variance. A cell becomes known when
N > 8·√v and N_R > 5·√v_R, and stays so. P̂ and r̂ are m/N and R/N_R, after each count is replaced by its posterior
mean under noise of variance v and a prior that most counts are 0.

    plan    Q = H−h+1 for an unknown cell, else r̂ + P̂V + 0.05·((√v/N)·‖V − P̂V‖₂ + √v_R/N_R), at most H−h+1;
            ties by an order of the actions that is drawn once for each state
    ask     unknown cells in proportion to 2·H·x, divided between the kinds by how many answers each still misses;
            known ones to E[Σ_visits ‖V − P̂V‖₂]·√v/N and E[visits]·√v_R/N_R
    batches of 150 users, then of a twentieth of all so far, and at most 2,000: public

What comes after an unknown cell is not known: there the model ends. ``docs/agents/discreet-vi-local.md`` has the proof
of privacy, and what each part is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from discreet.agents.discreet.learner import Learner
from discreet.agents.rounds import Listed, Proposal, Schedule
from discreet.privacy import Local
from discreet.privatizers.make import make

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.discreet import DiscreetVI
    from discreet.privatizers.questions.serve import Answers, Questions

__all__ = ["LocalLearner", "Settings", "sizes"]

_SHARE, _SMALL, _LARGE = 20, 150, 2000  # batches: one part in 20, at least 150, at most 2,000
_CHANCE = 0.25  # a bound on the variance of a bit: what users' own chance adds to the noise


@dataclass(frozen=True)
class Settings:
    """One configuration for all environments; pairs are for next states and for rewards.

    Attributes:
        trust: How many standard deviations the visits of a known cell are.
        bonus: How many standard deviations are added to the value of a known cell.
        absent: A priori probability that a next state never follows, and that a reward is never paid; 0 with both
            estimates as they come.
        least: The least weight of a batch.
        weighted: Whether batches are weighted by first-visit probabilities.
        sticky: Whether known cells stay so.
        directed: Whether questions go where they are worth most; else to all cells alike.
        balanced: Whether unknown cells are asked about in the kind that misses more answers; else in both alike.
    """

    trust: tuple[float, float] = (8.0, 5.0)
    bonus: tuple[float, float] = (0.05, 0.05)
    absent: tuple[float, float] = (0.95, 0.9)
    least: float = 0.02
    weighted: bool = True
    sticky: bool = True
    directed: bool = True
    balanced: bool = True


@dataclass
class Known:
    """What the answers so far add up to, and what the last batch was asked.

    Attributes:
        m: (T, S, A, S).
        R: (T, S, A, 2).
        v: v and v_R, (2, T, S, A).
        known: Which cells are known, (T, S, A).
        weights: x of the current batch, (T, S, A).
        order: By which ties between actions are broken, (S, A).
    """

    m: NDArray[np.float64]
    R: NDArray[np.float64]
    v: NDArray[np.float64]
    known: NDArray[np.bool_]
    weights: NDArray[np.float64]
    order: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Model:
    """What the answers say; the cells have T steps, 1 or H.

    Attributes:
        P: P̂, (T, S, A, S).
        r: r̂, (T, S, A).
        enough: Whether next state and reward of a cell are known well enough, (2, T, S, A).
        ratio: Their noise √v/N, (2, T, S, A).
    """

    P: NDArray[np.float64]
    r: NDArray[np.float64]
    enough: NDArray[np.bool_]
    ratio: NDArray[np.float64]


def sizes(episodes: int) -> tuple[int, ...]:
    """Returns how many users each batch has: a public rule."""
    found: list[int] = []
    count, small = 0, min(_SMALL, max(1, episodes // _SHARE))
    while True:
        size = min(_LARGE, max(small, count // _SHARE))
        if count + size > episodes:
            return tuple(found)
        found.append(size)
        count += size


class LocalLearner(Learner[Known]):
    """Asks every user about one cell, and plans optimistically from the answers.

    Guarantee:
        Pure local DP of every report (`Questions.promise`). Questions and policies depend on earlier reports,
        public sizes and the agent's own randomness: post-processing.

    Attributes:
        settings: Of all learners: what ablations change.
        enough: Answers that make a cell known if every one of them is about a visit, for both kinds.
    """

    settings: ClassVar[Settings] = Settings()
    mechanism: Questions

    def __init__(self, agent: DiscreetVI, update_every: int | str | None) -> None:
        assert isinstance(agent.privacy, Local)
        spec = self._spec = agent.spec
        if update_every is None:
            self.schedule = Listed(sizes(agent.episodes), agent.episodes)
        else:
            self.schedule = Schedule(update_every)
        self.mechanism = make(  # type: ignore[assignment]
            "questions",
            spec,
            agent.privacy,
            capacity=agent.episodes,
            stationary=agent.stationary,
            failure=agent.failure,
        )
        hidden = self.mechanism.encoder.randomisers
        self._variance = np.array([found.variance(1, holds=False) + _CHANCE for found in hidden])
        self.enough = np.array(self.settings.trust) ** 2 * self._variance
        self._bonus = agent.bonus_scale * np.array(self.settings.bonus)

    def start(self) -> Known:
        """Nothing is known."""
        spec = self._spec
        shape = (self.mechanism.layout.steps, spec.states, spec.actions)
        return Known(
            np.zeros((*shape, spec.states)),
            np.zeros((*shape, 2)),
            np.zeros((2, *shape)),
            np.zeros(shape, dtype=np.bool_),
            np.zeros(shape),
            np.zeros((spec.states, spec.actions), dtype=np.int64),
        )

    def plan(
        self, known: Known, released: Answers | None, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Known, Proposal]:
        """Adds the answers of the last batch, plans, and decides what to ask the next one."""
        from discreet.agents._kernels import discreet_local as kernels

        H, S, A = self._spec.horizon, self._spec.states, self._spec.actions
        if released is None:
            known = replace(known, order=rng.permuted(np.tile(np.arange(A), (S, 1)), axis=1))
        else:
            known = self._add(known, released)
        model = self._model(known)
        enough = model.enough[0] & model.enough[1]
        known = replace(known, known=enough | known.known if self.settings.sticky else enough)
        V, policies = np.zeros((H + 1, S)), np.zeros((2, H, S), dtype=np.int64)
        bonus = self._bonus[:, None, None, None] * model.ratio
        none = np.zeros_like(bonus)
        for (spread, reward), unknown, policy in ((none, 0.0, policies[1]), (bonus, 1.0, policies[0])):
            kernels.optimise(model.P, model.r, known.known, spread, reward, unknown, known.order, V, policy)
        weights, questions = self._questions(known, model, V, policies[0])
        carried = {"probabilities": questions}
        return replace(known, weights=weights), Proposal(policies[:1], np.array([size]), policies[1], carried)

    def _add(self, known: Known, new: Answers) -> Known:
        """Adds the answers of a batch, whose policy visits cells with the probabilities ``weights``."""
        x = known.weights if self.settings.weighted else np.ones_like(known.weights)
        return replace(
            known,
            m=known.m + x[..., None] * new.transitions,
            R=known.R + x[..., None] * new.rewards,
            v=known.v + x * x * new.asked * self._variance[:, None, None, None],
        )

    def _model(self, known: Known) -> _Model:
        """Returns what the answers say so far."""
        from discreet.agents._kernels.sparse import shrink

        N = np.stack([known.m.sum(axis=-1), known.R.sum(axis=-1)])
        std = np.sqrt(known.v)
        enough = (np.array(self.settings.trust)[:, None, None, None] * std < N) & (N > 0)
        ratio = std / np.maximum(N, std + 1e-9)
        shrunk = []
        for counts, total, noise, absent in zip((known.m, known.R), N, std, self.settings.absent, strict=True):
            out = np.zeros((total.size, counts.shape[-1]))
            shrink(counts.reshape(total.size, -1), total.ravel(), noise.ravel(), absent, out)
            shrunk.append(out.reshape(counts.shape))
        P = shrunk[0] / np.maximum(shrunk[0].sum(axis=-1, keepdims=True), 1e-300)
        r = np.clip(shrunk[1][..., 1] / np.where(N[1] > 0, N[1], 1.0), 0.0, 1.0)
        return _Model(P, r, enough, ratio)

    def _questions(
        self, so_far: Known, model: _Model, V: NDArray[np.float64], policy: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns what answers will weigh, (T, S, A), and the probabilities of the questions, (2, T, S, A)."""
        from discreet.agents._kernels import discreet_local as kernels

        H, S, known, initial = self._spec.horizon, self._spec.states, so_far.known, np.array(self._spec.initial)
        work = np.empty((2, S))
        visits, worth, chances = (np.empty(known.shape) for _ in range(3))
        kernels.visit(model.P, known, initial, policy, V, work, visits, worth)
        kernels.first(model.P, known, initial, policy, visits, work, chances)
        weights = np.maximum(chances, self.settings.least)
        if not self.settings.directed:
            return weights, np.full(model.ratio.shape, 1 / model.ratio.size)
        enough = self.enough[:, None, None, None]
        had = so_far.v / self._variance[:, None, None, None]
        missing = np.where(model.enough, 0.0, np.maximum(enough - had, enough / 10))  # noise may want more than enough
        if not self.settings.balanced:
            missing = np.ones_like(missing)
        share = missing / np.maximum(missing.sum(axis=0), 1e-300)
        asked = np.where(known, np.stack([worth, visits]) * model.ratio, 2 * H * chances * share)
        probabilities: NDArray[np.float64] = asked / asked.sum()
        return weights, probabilities

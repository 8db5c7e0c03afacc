"""discreet-vi under shuffle privacy: few questions at a time, about first visits, from the start state outwards.

Letters: S states, A actions, H steps; a cell c is (s, a), or (h, s, a) if steps are told apart; n users of a batch,
J cells that it is asked about, σ the standard deviation of the noise in a count, x the predicted share of users that
visit a cell.

*Estimates.* A batch says y = n·x·(1, P, r) + noise about a cell. Batches are added up with the weights w = n·x/σ²,
the best there are if x is right: the noise of Σ w·y has the variance I = Σ (n·x/σ)², which is also what Σ w·v is on
average, so √I is the signal over the noise. P and r are posterior means with a spike at 0: what is only noise is
shrunk to nothing.

*Plans.* A cell is known, for good, once Σ w·v > κ√I. Explorers take unknown cells for the best that there can be and
walk there; of known ones they think a little better than the estimates. Exploiters take unknown cells for worthless.

*Questions.* What a batch should be asked is a trade: each cell adds to the noise of all others. The cells are chosen
that reduce Σ worth/√(I + I₀) most: worth is H times the chance to get there for unknown cells, and what an error in
the estimate costs over an episode for known ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.learner import Learner, Plan
from discreet.agents.schedule import Listed, Schedule
from discreet.errors import InvalidInput
from discreet.privacy import accounting
from discreet.privatizers.first_visits import FirstVisitPrivatizer, cell_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.discreet_vi import DiscreetVI
    from discreet.privacy import Shuffle
    from discreet.privatizers import FirstVisits

__all__ = ["SETTINGS", "Settings", "ShuffleLearner", "batch_sizes"]


@dataclass(frozen=True)
class Settings:
    """The ingredients, all of them public; benchmarks take one away at a time."""

    first: float = 20.0
    growth: float = 0.1
    ratio: float = 2**0.5
    known: float = 8.0
    spike: float = 0.9
    reward_spike: float = 0.9
    bonus: float = 0.2
    explorers: int = 4
    floor: float = 0.02
    all_until: float = 1.0
    decay: float = 1.0
    refine: float = 0.3
    prior: float = 16.0
    weighted: bool = True
    exploit: bool = True
    ask_all: bool = False


SETTINGS = Settings()


def batch_sizes(episodes: int, std: float, settings: Settings) -> tuple[int, ...]:
    """Returns the sizes of all batches."""
    first = max(1, min(math.ceil(settings.first * std), episodes // 10))
    sizes: list[int] = []
    count = 0
    while True:
        level = max(0, math.floor(math.log(max(settings.growth * count / first, 1e-9), settings.ratio)))
        size = math.ceil(first * settings.ratio**level)
        if count + size > episodes:
            return tuple(sizes)
        sizes.append(size)
        count += size


class ShuffleLearner(Learner):
    """Asks shuffled batches about first visits.

    Args:
        agent: What it learns for.
        update_every: Users of a batch; by default batches grow.
    """

    def __init__(self, agent: DiscreetVI, update_every: int | str | None) -> None:
        privacy: Any = agent.privacy
        if privacy.release not in ("auto", "first-visits"):
            raise InvalidInput(
                "under Shuffle discreet-vi plans on first visits, which need far less noise than visit counts: release "
                f"must be 'auto' or 'first-visits', got release={privacy.release!r}"
            )
        spec = agent.spec
        self.spec, self.settings, self.scale = spec, SETTINGS, agent.bonus_scale
        self.steps = 1 if agent.stationary else spec.horizon
        self.unit = _unit(privacy)
        if update_every is None:
            sizes = batch_sizes(agent.episodes, self.unit, self.settings)
            self.schedule: Schedule | Listed = Listed(sizes, agent.episodes)
        else:
            self.schedule = Schedule(update_every)
            sizes = tuple(np.diff(self.schedule.ends(0, agent.episodes), prepend=0).tolist())
        self.privatizer = FirstVisitPrivatizer(
            spec,
            privacy,
            batches=sizes or [self.schedule.batch_size(0)],
            stationary=agent.stationary,
            failure=agent.failure,
        )
        cells, S = self.steps * spec.states * spec.actions, spec.states
        self.cell_counts = cell_counts(cells)
        self.visits, self.rewards, self.information, self.sampling = (np.zeros(cells) for _ in range(4))
        self.transitions = np.zeros((cells, S))
        self.known = np.zeros(cells, dtype=np.bool_)
        self.asked = np.zeros(cells)
        self.P, self.r = np.zeros((cells, S)), np.zeros(cells)

    def state(self) -> dict[str, Any]:
        """Returns copies of all that planning changes, by name."""
        names = ("visits", "transitions", "rewards", "information", "sampling", "known", "asked")
        return {name: getattr(self, name).copy() for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`."""
        for name, value in state.items():
            setattr(self, name, value)

    def plan(self, released: FirstVisits | None, count: int, size: int, rng: np.random.Generator) -> Plan:
        """Adds what was released, estimates, and plans the next batch: policies and questions."""
        if released is not None:
            self._add(released)
        self._estimate()
        exploit = self._policy(0.0, 0.0, rng)[1]
        if not size:
            return Plan(exploit[None][:0], np.zeros(0, dtype=np.int64), exploit, {})
        policies, users = self._assign(exploit, count, size, rng)
        cells, x = self._questions(policies, users, size)
        self.asked[:] = 0.0
        self.asked[cells] = x
        return Plan(policies, users, exploit, {"cells": cells})

    def _add(self, released: FirstVisits) -> None:
        """Adds a batch with the weight that its predicted visits give it."""
        cells = released.cells
        w = self.asked[cells] / released.std**2 if self.settings.weighted else np.full(len(cells), 1.0)
        S = self.spec.states
        v = (released.visits + released.transitions.sum(axis=1) / S) / (1 + 1 / S)
        self.visits[cells] += w * v
        self.transitions[cells] += w[:, None] * released.transitions
        self.rewards[cells] += w * released.rewards
        self.information[cells] += (w * released.std) ** 2
        self.sampling[cells] += w**2 * np.maximum(v, 0.0)
        self.known |= self.visits > self.settings.known * np.sqrt(self.information)
        self.known &= self.visits > 0

    def _estimate(self) -> None:
        from discreet.agents._kernels.discreet_shuffle import estimate

        spikes = np.array([self.settings.spike, self.settings.reward_spike])
        estimate(
            self.visits,
            self.transitions,
            self.rewards,
            self.information,
            self.sampling,
            self.known,
            spikes,
            self.P,
            self.r,
        )

    def _shaped(self, flat: NDArray[Any]) -> NDArray[Any]:
        return flat.reshape(self.steps, self.spec.states, self.spec.actions, *flat.shape[1:])

    def _width(self) -> NDArray[np.float64]:
        """How uncertain each entry of P and r is: noise over signal."""
        width: NDArray[np.float64] = np.sqrt(self.information) / np.maximum(self.visits, 1e-9)
        return np.where(self.known, width, 0.0)

    def _policy(
        self, bonus: float, hope: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        from discreet.agents._kernels.discreet_shuffle import plan

        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        V, policy = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
        known, width = self._shaped(self.known), self._shaped(self._width())
        keys = rng.random((H, S, A))
        plan(self._shaped(self.P), self._shaped(self.r), known, width, bonus, hope, keys, V, policy)
        return V, policy

    def _assign(
        self, exploit: NDArray[np.int64], count: int, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the policies of a batch and how many users play each: explorers first, then exploiters."""
        chosen = self.settings
        until = chosen.all_until * chosen.first * self.unit * len(self.known)
        share = 1.0 if count < until or not chosen.exploit else (until / count) ** chosen.decay
        exploring = min(size, math.ceil(share * size))
        each = np.diff(np.linspace(0, exploring, min(chosen.explorers, exploring) + 1).astype(np.int64))
        policies = []
        for _ in each:
            bonus = self.scale * chosen.bonus * math.exp(0.5 * rng.normal())
            policies.append(self._policy(bonus, 1.0, rng)[1])
        users = [*each.tolist(), size - exploring]
        return np.array([*policies, exploit]), np.array(users, dtype=np.int64)

    def _questions(
        self, policies: NDArray[np.int64], users: NDArray[np.int64], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the cells to ask about, and how many users are predicted to visit each."""
        from discreet.agents._kernels.discreet_shuffle import visited

        P, known = self._shaped(self.P), self._shaped(self.known)
        expected, chance = np.zeros(known.shape), np.zeros(known.shape)
        for policy, n in zip(policies, users, strict=True):
            if n:
                a, b = np.zeros(known.shape), np.zeros(known.shape)
                visited(P, known, self.spec.initial, policy, a, b)
                expected += n * a
                chance += n * b
        reach, often = chance.ravel(), expected.ravel() / size
        H = self.spec.horizon
        V = self._policy(0.0, 1.0, np.random.default_rng(0))[0]
        spread = self._spread(V)
        worth = np.where(self.known, self.settings.refine * often * (1.0 + spread), self.settings.known * H * reach / size)
        prior = self.settings.prior
        signal = np.where(self.known, self.visits**2 / np.maximum(self.information, 1e-300), 0.0)
        best: tuple[float, NDArray[np.int64]] = (-1.0, np.zeros(1, dtype=np.int64))
        for J in self.cell_counts:
            gained = reach**2 / (self.unit**2 * J)
            gain = worth * (1 / np.sqrt(signal + prior) - 1 / np.sqrt(signal + gained + prior))
            cells = np.argsort(-gain, kind="stable")[:J]
            total = float(gain[cells].sum())
            if total > best[0] * (1 + 1e-9):
                best = total, cells
        cells = np.sort(best[1])
        return cells, np.maximum(reach[cells], self.settings.floor * size)

    def _spread(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """‖V − PV‖ of each cell, at the middle of an episode if steps are not told apart."""
        H = self.spec.horizon
        if self.steps == 1:
            after = V[H // 2]
            return np.sqrt(((after[None, :] - (self.P @ after)[:, None]) ** 2).sum(axis=1))
        P = self._shaped(self.P)
        after = V[1:]
        mean = np.einsum("hsat,ht->hsa", P, after)
        spread: NDArray[np.float64] = np.sqrt(((after[:, None, None, :] - mean[..., None]) ** 2).sum(axis=-1)).ravel()
        return spread


def _unit(privacy: Shuffle) -> float:
    """Returns about the standard deviation of the noise in a count if one cell is asked about."""
    return math.sqrt(3 / privacy.honest_fraction) / accounting.gaussian_mu(privacy.epsilon, privacy.delta)

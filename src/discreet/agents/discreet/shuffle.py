"""discreet-vi under shuffle privacy: few questions at a time, about first visits, from the start states outwards.

Letters: S states, A actions, H steps; a cell c is (s, a), or (h, s, a) if steps are told apart; n users of a batch,
J cells that it is asked about, σ the standard deviation of the noise in a count, x the predicted number of users that
visit a cell.

*Estimates.* A batch says y = x·(1, P, r) + noise about a cell. Batches are added up with the weights w = x/σ², the
best there are if x is right. The noise of Σ w·y then has the variance I = Σ (x/σ)², which is also what Σ w·v is on
average: √I is the signal over the noise. P and r are posterior means with a spike at 0, which shrinks to nothing what
is only noise.

*Plans.* A cell is known, for good, once Σ w·v > κ√I. Explorers take unknown cells for the best that there can be and
walk there; of known ones they think a little better than the estimates say. Exploiters take unknown cells for
worthless. All explore until as many users have come as there are cells, times the users of a first batch; later fewer
do.

*Questions.* Each cell that is asked about adds to the noise of all others: σ² is in proportion to J. Asked are the
cells, and as many, that reduce Σ worth/√(I + I₀) most. Worth is what an error in the estimate costs over an episode
if a cell is known; if it is not, κ·H times the share of users that get there.

docs/agents/discreet-vi-shuffle.md has the proof of privacy, measurements and what did not help.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.discreet.learner import Learner
from discreet.agents.rounds import Listed, Proposal, Schedule
from discreet.errors import InvalidInput
from discreet.privacy import accounting
from discreet.privatizers.first_visits.serve import cell_counts
from discreet.privatizers.make import make

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.discreet import DiscreetVI
    from discreet.privacy import Shuffle
    from discreet.privatizers.first_visits.serve import FirstVisits

__all__ = ["SETTINGS", "Settings", "ShuffleLearner", "batch_sizes", "unit"]


@dataclass(frozen=True)
class Settings:
    """One configuration for all environments; benchmarks/frontier_shuffle.py takes one ingredient away at a time.

    Attributes:
        first: Users of the first batches, in units of the noise if one cell is asked about.
        growth: Users of a batch, as a share of the users so far.
        ratio: Sizes of batches are the first one's, times powers of this: noise is calibrated for each.
        known: κ: how far above its noise a cell must be seen to be known.
        spike: Prior probability that P(s'|s,a) is 0.
        reward_spike: Prior probability that r(s,a) is 0.
        bonus: How much explorers hope for, in standard deviations; each policy draws its own around it.
        explorers: Policies of a batch beside the exploiters'.
        alone: Explorers are alone for this many first batches a cell.
        decay: Their share falls with this power of the number of users afterwards.
        gate: What the exploiters' policy must be worth by the estimates, or else all explore.
        prior: I₀.
        refine: How much errors in known cells count, against cells that are not known.
        floor: The least share of a batch that is predicted to visit a cell.
        credit: Whether predictions that did not come true are trusted less.
        weighted: Whether batches are weighted by predicted visits.
        exploit: Whether there are exploiters.
        chosen: Whether the cells are chosen; else all, or the most promising if there are too many.
    """

    first: float = 20.0
    growth: float = 0.07
    ratio: float = 2**0.5
    known: float = 6.0
    spike: float = 0.95
    reward_spike: float = 0.95
    bonus: float = 0.1
    explorers: int = 8
    alone: float = 1.0
    decay: float = 1.0
    gate: float = 0.1
    prior: float = 8.0
    refine: float = 0.5
    floor: float = 0.02
    credit: bool = True
    weighted: bool = True
    exploit: bool = True
    chosen: bool = True


SETTINGS = Settings()


def unit(privacy: Shuffle) -> float:
    """Returns the standard deviation of Gaussian noise that would do for one cell: √3/μ, more with dishonest users."""
    return math.sqrt(3 / privacy.honest_fraction) / accounting.gaussian_mu(privacy.epsilon, privacy.delta)


def batch_sizes(episodes: int, std: float, settings: Settings) -> tuple[int, ...]:
    """Returns the sizes of all batches, from public numbers: the first is ``settings.first`` times ``std``."""
    first = max(1, min(math.ceil(settings.first * std), episodes // 10))
    sizes: list[int] = []
    count = 0
    while True:
        grown = max(settings.growth * count / first, 1.0)
        size = math.ceil(first * settings.ratio ** math.floor(math.log(grown, settings.ratio)))
        if count + size > episodes:
            return tuple(sizes)
        sizes.append(size)
        count += size


@dataclass
class Known:
    """What the releases so far add up to, a row a cell, and what the current batch is predicted to visit.

    Attributes:
        visits: Σ w·v.
        rewards: Σ w·r.
        information: I.
        sampling: Σ w²·v: what the users' own chance adds to the noise.
        transitions: Σ w·m, (cells, S).
        known: Which cells are known.
        predicted: x of the cells that the current batch is asked about.
        P: Posterior means, (cells, S).
        r: And of the rewards.
    """

    visits: NDArray[np.float64]
    rewards: NDArray[np.float64]
    information: NDArray[np.float64]
    sampling: NDArray[np.float64]
    transitions: NDArray[np.float64]
    known: NDArray[np.bool_]
    predicted: NDArray[np.float64]
    P: NDArray[np.float64]
    r: NDArray[np.float64]

    def copy(self) -> Known:
        """Returns one that may be changed."""
        return Known(**{name: array.copy() for name, array in vars(self).items()})


class ShuffleLearner(Learner[Known]):
    """Asks shuffled batches about first visits, and plans on what they say.

    Args:
        agent: What it learns for.
        update_every: Users of a batch; by default batches grow (`batch_sizes`).
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
        self.unit = unit(privacy)
        if update_every is None:
            sizes = batch_sizes(agent.episodes, self.unit, self.settings)
            self.schedule: Schedule | Listed = Listed(sizes, agent.episodes)
        else:
            self.schedule = Schedule(update_every)
            sizes = tuple(np.diff(self.schedule.ends(0, agent.episodes), prepend=0).tolist())
        self.mechanism = make(
            "first_visits",
            spec,
            privacy,
            batches=sizes or [self.schedule.batch_size(0)],
            stationary=agent.stationary,
            failure=agent.failure,
        )
        self.cell_counts = cell_counts(self.steps * spec.states * spec.actions)

    def start(self) -> Known:
        """Nothing is known."""
        S, cells = self.spec.states, self.steps * self.spec.states * self.spec.actions
        visits, rewards, information, sampling, predicted, r = (np.zeros(cells) for _ in range(6))
        transitions, P = np.zeros((cells, S)), np.zeros((cells, S))
        known = np.zeros(cells, dtype=np.bool_)
        return Known(visits, rewards, information, sampling, transitions, known, predicted, P, r)

    def plan(
        self, known: Known, released: FirstVisits | None, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Known, Proposal]:
        """Adds what was released, estimates, and plans the next batch: policies and questions."""
        known = known.copy()
        if released is not None:
            self._add(known, released)
        self._estimate(known)
        V, exploit = self._policy(known, 0.0, 0.0, rng)
        if not size:
            return known, Proposal(exploit[None][:0], np.zeros(0, dtype=np.int64), exploit, {})
        exploring = self._exploring(float(self.spec.initial @ V[0]), count, size)
        policies, users = self._assign(known, exploit, exploring, size, rng)
        cells = self._questions(known, policies, users, size)
        return known, Proposal(policies, users, exploit, {"cells": cells})

    def _add(self, known: Known, released: FirstVisits) -> None:
        """Adds a batch with the weight that its predicted visits give it; visits are also sums of transitions."""
        cells, std, S = released.cells, released.std, self.spec.states
        w = known.predicted[cells] / std**2 if self.settings.weighted else np.ones(len(cells))
        v = (released.visits + released.transitions.sum(axis=1) / S) / (1 + 1 / S)
        known.visits[cells] += w * v
        known.transitions[cells] += w[:, None] * released.transitions
        known.rewards[cells] += w * released.rewards
        known.information[cells] += (w * std) ** 2
        known.sampling[cells] += w**2 * np.maximum(v, 0.0)
        known.known |= known.visits > self.settings.known * np.sqrt(known.information)
        known.known &= known.visits > 0

    def _estimate(self, known: Known) -> None:
        """Computes the posterior means of P and r."""
        from discreet.agents._kernels.discreet_shuffle import estimate
        from discreet.agents._kernels.sparse import posterior_mean

        sums = (known.visits, known.transitions, known.rewards, known.information, known.sampling)
        spikes = np.array([self.settings.spike, self.settings.reward_spike])
        estimate(posterior_mean, *sums, known.known, spikes, known.P, known.r)

    def _shaped(self, flat: NDArray[Any]) -> NDArray[Any]:
        return flat.reshape(self.steps, self.spec.states, self.spec.actions, *flat.shape[1:])

    def _policy(
        self, known: Known, bonus: float, hope: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns V (H+1, S) and a policy; see the kernel for ``bonus`` and ``hope``."""
        from discreet.agents._kernels.discreet_shuffle import plan

        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        V, policy = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
        width = np.where(known.known, np.sqrt(known.information) / np.maximum(known.visits, 1e-300), 0.0)
        model = [self._shaped(flat) for flat in (known.P, known.r, known.known, width)]
        plan(*model, bonus, hope, rng.random((H, S, A)), V, policy)
        return V, policy

    def _exploring(self, value: float, count: int, size: int) -> int:
        """Returns how many users of a batch explore; ``value`` is what the exploiters' policy is worth, estimated."""
        chosen = self.settings
        alone = chosen.alone * chosen.first * self.unit * self.steps * self.spec.states * self.spec.actions
        if value < chosen.gate or count <= alone or not chosen.exploit:
            return size
        return min(size, math.ceil(size * math.pow(alone / count, chosen.decay)))

    def _assign(
        self, known: Known, exploit: NDArray[np.int64], exploring: int, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the policies of a batch and how many users play each: explorers first, then exploiters."""
        chosen = self.settings
        ends = np.linspace(0, exploring, min(chosen.explorers, exploring) + 1).astype(np.int64)
        bonuses = self.scale * chosen.bonus * np.exp(0.5 * rng.normal(size=len(ends) - 1))
        policies = [self._policy(known, bonus, 1.0, rng)[1] for bonus in bonuses]
        return np.array([*policies, exploit]), np.append(np.diff(ends), size - exploring)

    def _questions(
        self, known: Known, policies: NDArray[np.int64], users: NDArray[np.int64], size: int
    ) -> NDArray[np.int64]:
        """Returns the cells to ask about, and keeps how many users are predicted to visit each."""
        from discreet.agents._kernels.discreet_shuffle import visited

        chosen, P, shaped = self.settings, self._shaped(known.P), self._shaped(known.known)
        expected, chance = np.zeros(shaped.shape), np.zeros(shaped.shape)
        for policy, n in zip(policies, users, strict=True):
            if n:
                visited(P, shaped, self.spec.initial, policy, float(n), expected, chance)
        x, often = chance.ravel() * self._credit(known), expected.ravel() / size
        unknown = chosen.known * self.spec.horizon * x / size
        worth = np.where(known.known, chosen.refine * often * (1.0 + self._spread(known)), unknown)
        seen = known.visits**2 / np.maximum(known.information, 1e-300)
        held = np.where(known.known, seen, known.information if chosen.weighted else 0.0) + chosen.prior
        best, cells = -1.0, np.zeros(1, dtype=np.int64)
        for J in self.cell_counts if chosen.chosen else self.cell_counts[-1:]:
            gain = worth * (held**-0.5 - (held + x**2 / (self.unit**2 * J)) ** -0.5)
            top = np.argsort(-gain, kind="stable")[:J]
            if (total := float(gain[top].sum())) > best * (1 + 1e-9):
                best, cells = total, np.sort(top)
        known.predicted[:] = 0.0
        known.predicted[cells] = np.maximum(x[cells], chosen.floor * size)
        return cells

    def _credit(self, known: Known) -> NDArray[np.float64]:
        """Returns how far predictions about each unknown cell have come true, in (0, 1]; 1 where none was made.

        A phantom, noise taken for a way to somewhere, would else be followed for very long.
        """
        if not (self.settings.credit and self.settings.weighted):  # else information is no prediction
            return np.ones(len(known.known))
        prior = self.settings.prior
        true = (np.maximum(known.visits, 0.0) + prior) / (known.information + prior)
        return np.where(known.known, 1.0, np.minimum(true, 1.0))

    def _spread(self, known: Known) -> NDArray[np.float64]:
        """Returns ‖V − PV‖ of each cell, V the explorers'; that in mid-episode if steps are not told apart."""
        V = self._policy(known, 0.0, 1.0, np.random.default_rng(0))[0]
        after = V[1:] if self.steps > 1 else V[self.spec.horizon // 2 : self.spec.horizon // 2 + 1]
        mean = np.einsum("hsat,ht->hsa", self._shaped(known.P), after)
        square: NDArray[np.float64] = ((after[:, None, None, :] - mean[..., None]) ** 2).sum(axis=-1)
        return np.sqrt(square).ravel()

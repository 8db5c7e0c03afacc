"""discreet-vi with a trusted server: weighted counts, sparse estimates, explorers and an exploiter.

Letters: S states, A actions, H steps; c = (s,a) a cell; m̃, ν̃, ρ̃ the released sums of weights w over transitions,
visits and rewards (`discreet.privatizers.weights`), k_n and k_r their scales, z = ½ the middle of the rewards; σ the
noise in m̃.

    estimates  n̂ = (Σ_{s'} m̃/S + k_n²ν̃)/(1/S + k_n²), then again with Σ f·m̃ and 1/Σf for Σ m̃ and 1/S, where f is
               the posterior probability that a transition is more than noise; R̃ = ρ̃ + z·n̂;
               P̂ and r̂: posterior means of m̃ and R̃ under "0 with a large probability, else uniform on [0, n̂]"
    explorers  eight policies a batch, of several kinds (ξ, κ): a cell with n̂ ≤ κσ_n̂ is worth H−h+1; another one
               r̂ + P̂V + ξ(σ‖V − mean V‖ + σ_r)/n̂ + 0.3√(Var V/n̂), at most H−h+1
    exploiter  unknown cells are worth nothing, and there is no bonus
    who        all explore up to user 20·s₁·q, s₁ = √(2L)/μ, q = max(1, cells/H), and while the exploiter's value is
               below half of an explorer's; then a share (20·s₁·q/k)² does
    focus      g(c) = min(1, 2σ_n̂/n̂)² for known cells, else 1; F is what the batch's policies are expected to want
    reads      the first after 6·s₁·√q users, then after 15 % more users, later 30 %: public

Steps that may differ have a second block of counts, a set for each step. Where they change is found from it: the split
of the steps with the largest Σ max(z² − 9, 0) over all transitions and rewards, if any |z| > 4.5, and so on within the
parts. What does not differ between the parts stays pooled.

docs/agents/discreet-vi.md has the proof of privacy, measurements, and what each part is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from discreet.agents.discreet.learner import Learner
from discreet.agents.rounds import Listed, Proposal, Schedule
from discreet.errors import InvalidInput
from discreet.privacy import Central, accounting
from discreet.privatizers.make import make
from discreet.privatizers.weighted.layout import Block, WeightedLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.discreet import DiscreetVI
    from discreet.privatizers.weighted.serve import WeightedCounts

__all__ = ["CentralLearner", "Settings"]


@dataclass(frozen=True)
class Settings:
    """The constants, for all environments alike; what an ablation takes away.

    Attributes:
        clipped: Whether users bound the length of their vectors by weights; else they count.
        centred: Whether rewards are measured from ½.
        transition_spike: Prior probability that a transition never happens.
        reward_spike: Prior probability that a reward is 0.
        focus: Whether users spend their weights on what is not known yet.
        kinds: Of the explorers, in turn: the width of the bonus, and n̂ above which a cell is known, in its standard
            deviations.
        explorers: Policies a batch.
        exploit: Whether an exploiter plays at all.
        first: Users before the first read, over s₁ (and √ of the cells a step of an episode).
        growth: Of the users between reads, early.
        late: And later on.
        least: s₁, the noise that the schedule is made for, is at least this.
        explore: Users before the exploiter begins, over s₁ and the cells a step of an episode.
        decay: Exponent with which the explorers' share falls after that.
        extend: Exploration goes on while the exploiter's value is below this share of an explorer's.
        steps: The steps block's share of the norm, if steps share a pooled block.
        split: z above which steps are taken apart.
        alike: z below which a cell's transitions, or rewards, are pooled all the same.
        majority: Share of the cells that must differ for the others to be taken to differ.
        sure: n̂ above which a cell is compared between segments, in its standard deviations.
    """

    clipped: bool = True
    centred: bool = True
    transition_spike: float = 0.98
    reward_spike: float = 0.9
    focus: bool = True
    kinds: tuple[tuple[float, float], ...] = ((0.2, 0.6), (0.2, 0.6), (0.5, 0.6), (0.2, 2.5))
    explorers: int = 8
    exploit: bool = True
    first: float = 6.0
    growth: float = 0.15
    late: float = 0.3
    least: float = 8.0
    explore: float = 20.0
    decay: float = 2.0
    extend: float = 0.5
    steps: float = 0.7
    split: float = 4.5
    alike: float = 3.0
    sure: float = 3.0
    majority: float = 0.4


class _Model(NamedTuple):
    """What is believed of each segment of steps.

    Attributes:
        n: n̂, (G, C).
        P: (G, C, S).
        r: (G, C).
        segment: Which segment a step is in, (H,).
        sigma: Noise of transition counts, (G,).
    """

    n: NDArray[np.float64]
    P: NDArray[np.float64]
    r: NDArray[np.float64]
    segment: NDArray[np.int64]
    sigma: NDArray[np.float64]


class CentralLearner(Learner[float]):
    """Weighted counts at the user, sparse estimates and diverse explorers at the server.

    What it knows beside the last release is one number: until how many users exploration was extended.
    """

    settings: ClassVar[Settings] = Settings()

    def __init__(self, agent: DiscreetVI, update_every: int | str | None) -> None:
        privacy, self.spec, self.episodes = agent.privacy, agent.spec, agent.episodes
        assert privacy is not None
        if isinstance(privacy, Central) and privacy.release not in ("auto", "weighted"):
            raise InvalidInput(f"discreet-vi releases weighted counts, got release={privacy.release!r}")
        self.scale = agent.bonus_scale
        own = self.own = self.settings
        shared = not agent.stationary and agent.share_steps
        self.layout = WeightedLayout(
            self.spec,
            pooled=1.0 if agent.stationary or shared else 0.0,
            steps=0.0 if agent.stationary else own.steps if shared else 1.0,
            visit=0.5 if own.centred else 0.25,
            reward=1.0 if own.centred else 0.5,
            centre=0.5 if own.centred else 0.0,
            clipped=own.clipped,
        )
        many = max(1.0, self.layout.blocks[0][0] * self.layout.cells / self.spec.horizon)  # cells a step of an episode
        s1 = own.least
        if isinstance(privacy, Central) and privacy.delta > 0:
            s1 = max(own.least, self.layout.sensitivity.l2 / accounting.gaussian_mu(privacy.epsilon, privacy.delta))
        self.explore = own.explore * s1 * many
        first = max(20, math.ceil(own.first * s1 * math.sqrt(many)))
        self.schedule = Schedule(update_every) if update_every is not None else self._own_schedule(first)
        reads = max(1, len(self.schedule.ends(0, self.episodes)))
        self.mechanism = make("weighted", self.layout, privacy, capacity=self.episodes, horizon=reads)

    def start(self) -> float:
        """Exploration is not extended."""
        return 0.0

    def _own_schedule(self, first: int) -> Listed:
        """First when a cell can be told from noise, then intervals that grow; nothing is read from the last users."""
        own, ends = self.own, [first]
        while ends[-1] < self.episodes:
            growth = own.growth if ends[-1] < 3 * self.explore else own.late
            ends.append(max(ends[-1] + 1, math.ceil(ends[-1] * (1 + growth))))
        return Listed(tuple(np.diff(ends[:-1], prepend=0).tolist()), self.episodes)

    def plan(
        self, known: float, released: WeightedCounts | None, count: int, size: int, rng: np.random.Generator
    ) -> tuple[float, Proposal]:
        """Returns who plays what in the next batch, and what its users should look at."""
        model = self._believe(released)
        exploit, worth = self._policy(model, 0.0, self.own.kinds[0][1], False, self._ties(rng))
        known, explorers, users = self._explorers(known, model, worth, count, size, rng)
        policies = np.array([*explorers, exploit])
        left = size - sum(users)
        users.append(left)
        played = np.array(users, dtype=np.int64)
        focused = released is not None and self.own.focus and size
        carried = self._carried(model, policies, played) if focused else {}
        return known, Proposal(policies[played > 0], played[played > 0], exploit, carried)

    def _ties(self, rng: np.random.Generator) -> NDArray[np.float64]:
        return rng.random((self.spec.horizon, self.spec.states, self.spec.actions))

    def _explorers(
        self, known: float, model: _Model, worth: float, count: int, size: int, rng: np.random.Generator
    ) -> tuple[float, list[NDArray[np.int64]], list[int]]:
        """Returns until when exploration is extended, the explorers' policies, and how many users play each."""
        own = self.own
        _, promise = self._policy(model, own.kinds[0][0], own.kinds[0][1], True, np.zeros_like(self._ties(rng)))
        if worth < own.extend * promise and count < self.episodes / 4:
            known = float(count)
        until = max(self.explore, known)
        share = 1.0 if count < until or not own.exploit else (until / count) ** own.decay
        number = round(size * share)
        users = [number * (i + 1) // own.explorers - number * i // own.explorers for i in range(own.explorers)]
        policies = []
        for i in range(own.explorers):
            width, least = own.kinds[i % len(own.kinds)]
            width *= math.exp(0.5 * rng.normal())
            policies.append(self._policy(model, width, least, True, self._ties(rng))[0])
        return known, policies, users

    def _least(self, model: _Model, least: float) -> NDArray[np.float64]:
        """Returns n̂ above which a cell is known, (G,)."""
        precision = 1 / self.spec.states + self.layout.visit**2
        return np.maximum(least * model.sigma / math.sqrt(precision), 1.0)

    def _policy(
        self, model: _Model, width: float, least: float, optimistic: bool, ties: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], float]:
        """Returns a policy and its value in the model."""
        from discreet.agents._kernels import discreet_central as kernels

        S, H, layout = self.spec.states, self.spec.horizon, self.layout
        V, policy = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
        precision = 1 / S + layout.visit**2
        noise = model.sigma * math.sqrt(1 / layout.reward**2 + layout.centre**2 / precision)
        kernels.plan(
            model.n,
            model.P,
            model.r,
            model.segment,
            model.sigma,
            noise,
            self._least(model, least),
            self.scale * width,
            self.scale * 0.3,
            optimistic,
            ties,
            V,
            policy,
        )
        return policy, float(V[0] @ self.spec.initial)

    def _carried(
        self, model: _Model, policies: NDArray[np.int64], users: NDArray[np.int64]
    ) -> dict[str, NDArray[np.float64]]:
        """Returns g and F: cells that are known well are wanted less."""
        from discreet.agents._kernels import discreet_central as kernels

        least = self._least(model, self.own.kinds[0][1])
        known = model.n > least[:, None]
        precision = 1 / self.spec.states + self.layout.visit**2
        certain = 2 * model.sigma[:, None] / math.sqrt(precision) / np.maximum(model.n, 1e-9)
        want = np.where(known, np.clip(np.minimum(certain, 1.0) ** 2, 0.01, 1.0), 1.0)
        steps = want[model.segment]  # (H, C)
        sets = [steps.mean(axis=0, keepdims=True) if n == 1 else steps for n, _ in self.layout.blocks]
        ahead = np.zeros((len(sets), self.spec.horizon, self.spec.states))
        for policy, number in zip(policies, users, strict=True):
            if number:
                for i, block in enumerate(sets):
                    share = number / users.sum()
                    kernels.demand(policy, model.n, model.P, model.segment, least, block, 0.5, share, ahead[i])
        return {"want": np.concatenate(sets), "ahead": ahead}

    def _believe(self, released: WeightedCounts | None) -> _Model:
        """Returns the model: one for all steps, one for each, or one for each stretch of steps that are alike."""
        S, H, C = self.spec.states, self.spec.horizon, self.layout.cells
        if released is None:
            none = np.zeros((1, C))
            return _Model(none, np.full((1, C, S), 1 / S), none, np.zeros(H, dtype=np.int64), np.zeros(1))
        block, std = released.blocks[0], max(released.std, 1.0)  # as uncertain as one visit at least
        if len(block.visits) == 1:
            model = self._estimate(block, np.zeros(H, dtype=np.int64), np.full(1, std))
        else:
            model = self._estimate(block, np.arange(H), np.full(H, std))
        if len(released.blocks) == 1:
            return model
        bounds = self._segments(released.blocks[1], std)
        if len(bounds) == 2:
            return model
        return self._segmented(model, released.blocks[1], std, bounds)

    def _estimate(self, block: Block, segment: NDArray[np.int64], sigma: NDArray[np.float64]) -> _Model:
        from discreet.agents._kernels import discreet_central as kernels
        from discreet.agents._kernels.sparse import posterior_mean

        n, P, r = np.zeros_like(block.visits), np.zeros_like(block.transitions), np.zeros_like(block.visits)
        layout, spikes = self.layout, np.array([self.own.transition_spike, self.own.reward_spike])
        kernels.estimate(
            posterior_mean,
            np.ascontiguousarray(block.transitions),
            block.visits,
            block.rewards,
            sigma,
            layout.reward,
            layout.visit,
            layout.centre,
            spikes,
            n,
            P,
            r,
        )
        return _Model(n, P, r, segment, sigma)

    def _segments(self, steps: Block, std: float) -> list[int]:
        """Returns 0, where the steps change, and H."""
        from discreet.agents._kernels import discreet_central as kernels

        H, layout = self.spec.horizon, self.layout
        sums = [np.concatenate([np.zeros((1, *x.shape[1:])), np.cumsum(x, axis=0)]) for x in steps]
        found, waiting = [0, H], [(0, H)]
        while waiting:
            low, high = waiting.pop()
            place, z = kernels.best_split(
                *sums, std, layout.reward, layout.visit, layout.centre, 2 * layout.steps, self.own.sure, low, high
            )
            if z > self.own.split:
                found.append(place)
                waiting += [(low, place), (place, high)]
        return sorted(found)

    def _segmented(self, pooled: _Model, steps: Block, std: float, bounds: list[int]) -> _Model:
        """Returns the model of the segments between ``bounds``, from the steps' own counts.

        Transitions, or rewards, of a cell that are alike in all segments are those of the pooled counts; what was not
        seen in two segments goes with the majority. Its n̂ is then measured in the segment's noise, so that what is
        compared with n̂ means the same.
        """
        from discreet.agents._kernels import discreet_central as kernels

        lengths, layout = np.diff(bounds), self.layout
        block = Block(*(np.ascontiguousarray(np.add.reduceat(x, bounds[:-1], axis=0)) for x in steps))
        segment = np.repeat(np.arange(len(lengths)), lengths)
        own = self._estimate(block, segment, std * np.sqrt(lengths))
        z = np.zeros((2, layout.cells))
        kernels.differences(
            *block, own.sigma, layout.reward, layout.visit, layout.centre, 2 * layout.steps, self.own.sure, z
        )
        tested, differ = (z >= 0).sum(axis=1), (z >= self.own.alike).sum(axis=1)
        most = differ > self.own.majority * tested
        alike = np.where(most[:, None], (z >= 0) & (z < 1), z < self.own.alike)
        n = np.where(alike[0], np.maximum(pooled.n * np.sqrt(lengths)[:, None], own.n), own.n)
        P = np.where(alike[0][:, None], pooled.P, own.P)
        r = np.where(alike[1], pooled.r, own.r)
        return _Model(n, P, r, segment, own.sigma)

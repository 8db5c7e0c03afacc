"""SDP-PE: policy elimination in stages, on counts of one batch at a time.

Notation: L_b is the length of stage b, L₀ = ⌊L_b/(HSA)⌋ the users a policy; n, m, R the private counts N_h(x,a),
N_h(x,a,x') and reward sums of one batch; E is that of Assumption 4; ι = ln(2·H·A·K/δ) with δ = ``failure``; W holds the
infrequent tuples, φ the active policies; x† is the absorbing state (P rows that add up to less than 1 lead there).

A stage (Algorithm 1) has H + 1 batches; each user is in one, and nothing but its release is kept:

    crude (Algorithm 2)  for h = 1…H: for every (x,a) L₀ users play argmax_{π∈φ} V^π(1_{h,x,a}, P^cru);
                         the layer's n and m are released;
                         W ∪= {(h,x,a,x'): m < C₁·E·H²·ι}, C₁ = 6; P^cru_h = m/n outside W
    fine (Algorithm 3)   for every (h,x,a) L₀ users play argmax_{π∈φ} V^π(1_{h,x,a}, P^cru); all n, m, R are;
                         P^ref = m/n outside W, r̂ = clip(R/n, 0, 1)
    elimination          φ keeps π with max_φ V(r̂, P^ref) − V^π(r̂, P^ref) ≤ 2ξ,
                         ξ = C·(√(H⁵S²Aι/L_b) + S³A²H⁵Eι/L_b), C = ``bonus_scale``

Counts pass the projection of DP-UCBVI with E = 4·(the bound on the noise); W and ξ have max(E, 1). A reward that is no
bit becomes one at the user, with the reward as its mean: the paper's setting. ``stationary=True`` has one model for
all steps: crude counts of the layers so far are added up, fine counts are pooled at the user.

The preset ``practical`` takes E = 0 for the projection and constants that know the noise (σ is its standard deviation
in a count); no theorem is claimed for it:

    W: m < σ/2 in the crude counts
    2ξ = 2.5·√(max_{π∈φ} Σ_{h,x,a} d^π_h(x,a)·u_h(x,a)·w_h(x,a)) + max_{π∈φ} Σ_{h,x,a} d^π_h(x,a)·b_h(x,a),
    w = min{(σ²·(1 + ‖V_{h+1} − mean‖²)/n + Var_P(V_{h+1}) + r̂(1 − r̂))/n, (H−h+1)²}
    b = (H−h)·max{0, Σ_{x'∈W} m − |{x' ∈ W}|·σ/2}/n,   H−h+1 where all x' are in W

with max(σ, 1) for σ. d is the probability of being in (x,a), u the largest d that exploration aimed at (1 if pooled), V
the optimal value in the refined model. The first part is 2½ standard errors of a value: the errors of cells are
independent, so their variances add up with weights d² ≤ d·u. The second is the paper's model bias, which is one-sided:
what may follow after what was too rare to be known.

References:
    Bai, Talebi, Zhao, Cheng and Chen (2025), Algorithms 1 to 3, Assumption 4, Section V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from discreet.agents.base import LearningAgent
from discreet.agents.policy_sets import KINDS, PolicySet
from discreet.agents.rounds import Proposal, Stages
from discreet.errors import InvalidInput, UnknownName
from discreet.privacy import Local
from discreet.privatizers import PrivateCounts, project
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.make import make

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import TrustModel
    from discreet.privatizers.counts.staged import StagedCounts

__all__ = ["SDPPE", "StageReport"]

_C1 = 6.0  # Lemma 15


@dataclass(frozen=True)
class StageReport:
    """What a stage came to: all of it computed from releases.

    Attributes:
        length: L_b.
        infrequent: How many tuples are in W.
        coverage: Of what any policy could visit in the crude model, the share that exploration visits: the mean over
            all (h, x, a) that can be visited.
        worst_coverage: The least of these shares.
        width: ξ.
        best: The value of the best active policy in the refined model.
        active: Number of active policies; None if they are not listed.
    """

    length: int
    infrequent: int
    coverage: float
    worst_coverage: float
    width: float
    best: float
    active: int | None


@dataclass
class Learned:
    """What is known after a batch: all of it computed from releases.

    Attributes:
        active: The active policies.
        refined: P^ref, (H, S, A, S), and r̂, (H, S, A), of the last stage that is over.
        batch: How many batches there were.
        stages: A `StageReport` for every stage that is over.
        crude: P^cru of the current stage, (H, S, A, S).
        infrequent: W of the current stage, (H, S, A, S), or (1, S, A, S) if pooled; all before a layer is explored.
        sums: Crude visits and transitions of the layers so far, if pooled.
        E: The largest E of the current stage.
        coverage: Mean and least share of what could be visited that exploration visits.
        visits: How often exploration is in (h, x, a), in the crude model, (H, S, A).
    """

    active: PolicySet
    refined: tuple[NDArray[np.float64], NDArray[np.float64]]
    batch: int = 0
    stages: list[StageReport] = field(default_factory=list)
    crude: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    infrequent: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    sums: list[NDArray[np.float64]] = field(default_factory=list)
    E: float = 0.0
    coverage: tuple[float, float] = (1.0, 1.0)
    visits: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def copy(self) -> Learned:
        """Returns one that may be changed; what is never changed in place is shared."""
        return replace(
            self,
            active=self.active.copy(),
            stages=list(self.stages),
            crude=self.crude.copy(),
            infrequent=self.infrequent.copy(),
        )


class SDPPE(LearningAgent):
    """SDP-PE (Bai et al. 2025): policy elimination in stages, with a batch for every layer.

    Args:
        policies: ``"implicit"`` describes the active policies by constraints, in polynomial time; ``"enumerate"`` lists
            them, as the paper does, up to 100,000.

    Guarantee:
        That of the weakest batch: each user is in exactly one. Batches are public in number and size; what users play
        depends on earlier releases and the agent's own randomness.
    """

    name = "sdp-pe"
    fast = True
    schedule: Stages

    def __init__(
        self,
        spec: Spec,
        *,
        episodes: int,
        privacy: TrustModel | None = None,
        policies: str = "implicit",
        preset: str = "practical",
        stationary: bool = False,
        update_every: None = None,
        failure: float = 0.05,
        bonus_scale: float = 1.0,
        seed: Seed = None,
    ) -> None:
        if policies not in KINDS:
            raise UnknownName("policies", policies, KINDS)
        self.policies = policies
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

    def _schedule(self, update_every: int | str | None) -> Stages:
        if update_every is not None:
            raise InvalidInput(f"the stages of sdp-pe say when it updates: got update_every={update_every!r}")
        if isinstance(self.privacy, Local):
            raise InvalidInput("sdp-pe takes Shuffle(…), Central(…) or NonPrivate(), got Local")
        return Stages(self.episodes, self.spec.horizon, self.spec.states, self.spec.actions)

    def _build(self) -> StagedCounts:
        visits = getattr(self.privacy, "release", "auto") != "mr"
        fine = Layout(self.spec, self.stationary, visits)
        crude = [Layout(self.spec, False, visits, rewards=False, layer=h) for h in range(self.spec.horizon)]
        found: StagedCounts = make(  # type: ignore[assignment]
            "staged",
            self.spec,
            self.privacy,
            batches=[phase.users for phase in self.schedule.phases],
            layouts=[fine if phase.layer is None else crude[phase.layer] for phase in self.schedule.phases],
            failure=self.failure,
        )
        return found

    @property
    def mechanism(self) -> StagedCounts:
        """What counts, one thing a batch."""
        found: StagedCounts = self.privatizer.mechanism  # type: ignore[assignment]
        return found

    @property
    def iota(self) -> float:
        """ι."""
        return math.log(2 * self.spec.horizon * self.spec.actions * self.episodes / self.failure)

    @property
    def stages(self) -> list[StageReport]:
        """A `StageReport` for every stage that is over."""
        found: list[StageReport] = self.learned.stages
        return found

    def _start(self, first: None, size: int, rng: np.random.Generator) -> tuple[Learned, Proposal]:
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        refined = (np.zeros((H, S, A, S)), np.zeros((H, S, A)))
        known = self._next_stage(Learned(KINDS[self.policies](self.spec), refined))
        return known, self._send_out(known, rng)

    def _learn(
        self, state: Learned, released: PrivateCounts, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Learned, Proposal]:
        """Goes on from the release of one batch to the policies of the next."""
        known = state.copy()
        phase = self.schedule.phases[known.batch]
        if phase.layer is None:
            self._refine(known, released)
            known = self._next_stage(known)
        else:
            self._learn_layer(known, released, phase.layer)
        known.batch += 1
        return known, self._send_out(known, rng)

    def pack_learned(self, state: Learned) -> Learned:
        """The active policies become what changes of them."""
        return replace(state, active=state.active.state())  # type: ignore[arg-type]

    def unpack_learned(self, packed: Learned) -> Learned:
        """The inverse of `pack_learned`."""
        active = KINDS[self.policies](self.spec)
        active.restore(packed.active)  # type: ignore[arg-type]
        return replace(packed, active=active)

    def _next_stage(self, known: Learned) -> Learned:
        """Forgets everything but the active policies."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        return replace(
            known,
            crude=np.zeros((H, S, A, S)),
            infrequent=np.ones((1 if self.stationary else H, S, A, S), dtype=np.bool_),
            sums=[np.zeros((1, S, A)), np.zeros((1, S, A, S))] if self.stationary else [],
            E=0.0,
            coverage=(1.0, 1.0),
            visits=np.zeros((H, S, A)),
        )

    def _send_out(self, known: Learned, rng: np.random.Generator) -> Proposal:
        """Decides what the users of the next batch play: the agent draws each one's part of a mixture."""
        H, S, witness = self.spec.horizon, self.spec.states, known.active.witness
        if known.batch == len(self.schedule.phases):
            return Proposal(witness[None][:0], np.zeros(0, dtype=np.int64), witness, {})
        phase = self.schedule.phases[known.batch]
        each = self.schedule.each[phase.stage]
        layers = range(H) if phase.layer is None else [phase.layer]
        found = [known.active.explore(known.crude, h) for h in layers]
        policies, users = [], []
        for exploration in found:
            weights = exploration.weights.reshape(-1, exploration.weights.shape[-1])
            drawn = rng.multinomial(each, weights)
            policies.append(exploration.components.reshape(-1, H, S)[drawn.ravel() > 0])
            users.append(drawn[drawn > 0])
        if phase.layer is None:
            known.visits = np.array([exploration.visits for exploration in found])
            known.coverage = _coverage(known.visits, np.array([exploration.reach for exploration in found]))
        return Proposal(np.concatenate(policies), np.concatenate(users), witness, {})

    def _consistent(self, counts: PrivateCounts) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Returns projected n and m, and the E of Assumption 4."""
        E = 4 * counts.error
        projected = project(counts, E if self.preset == "theory" else 0.0)
        return projected.visits, projected.transitions, max(E, 1.0)

    def _learn_layer(self, known: Learned, counts: PrivateCounts, h: int) -> None:
        """Algorithm 2, lines 8 to 10."""
        layers = 1
        if self.stationary:
            layers = h + 1
            known.sums = [known.sums[0] + counts.visits, known.sums[1] + counts.transitions]
            counts = PrivateCounts(known.sums[0], known.sums[1], counts.rewards, layers * counts.error)
        n, m, E = self._consistent(counts)
        known.E = max(known.E, E)
        H = self.spec.horizon
        if self.preset == "theory":
            threshold = _C1 * E * H**2 * self.iota
        else:
            threshold = max(self.mechanism.std(known.batch) * math.sqrt(layers), 1.0) / 2
        W = m < threshold
        P = _transitions(n, m, W)
        if self.stationary:
            known.infrequent[:], known.crude[:] = W, P
        else:
            known.infrequent[h], known.crude[h] = W[0], P[0]

    def _refine(self, known: Learned, counts: PrivateCounts) -> None:
        """Algorithm 3, lines 6 to 11, and the elimination of Algorithm 1."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        stage = self.schedule.phases[known.batch].stage
        L = self.schedule.lengths[stage]
        n, m, E = self._consistent(counts)
        W = known.infrequent
        P = _transitions(n, m, W)
        r = np.divide(np.clip(counts.rewards, 0.0, n), n, out=np.zeros_like(n), where=n > 0)
        P, r, n = (np.ascontiguousarray(np.broadcast_to(x, (H, *x.shape[1:]))) for x in (P, r, n))
        if self.preset == "theory":
            E = max(E, known.E)
            xi = math.sqrt(H**5 * S**2 * A * self.iota / L) + S**3 * A**2 * H**5 * E * self.iota / L  # line 9
        else:
            sigma = max(self.mechanism.std(known.batch), 1.0)
            lost = np.maximum((m * W).sum(axis=3) - sigma * W.sum(axis=3) / 2, 0.0)  # what is more than noise
            xi = self._width(known, P, r, n, np.broadcast_to(lost, n.shape), sigma)
        known.refined = (P, r)
        best = known.active.eliminate(P, r, self.bonus_scale * xi)
        report = StageReport(L, int(W.sum()), *known.coverage, self.bonus_scale * xi, best, known.active.size)
        known.stages.append(report)

    def _width(
        self,
        known: Learned,
        P: NDArray[np.float64],
        r: NDArray[np.float64],
        n: NDArray[np.float64],
        lost: NDArray[np.float64],
        sigma: float,
    ) -> float:
        """Returns the practical ξ: 1¼ standard errors of a value, and half of what the unknown may be worth."""
        from discreet.agents._kernels import sdp_pe as kernels

        H, S, A = r.shape
        Q, V, policy = np.empty((H, S, A)), np.empty((H + 1, S)), np.zeros((H, S), dtype=np.int64)
        kernels.optimal(P, r, np.zeros_like(policy), Q, V, policy)
        after = V[1:, None, None, :]
        spread = ((V[1:] - V[1:].mean(axis=1, keepdims=True)) ** 2).sum(axis=1)[:, None, None]
        variance = np.maximum((P * after**2).sum(axis=3) - (P * after).sum(axis=3) ** 2, 0.0) + r * (1 - r)
        seen = P.sum(axis=3) > 0
        left = np.broadcast_to(np.arange(H, 0, -1.0)[:, None, None], n.shape)
        noise = np.divide(sigma**2 * (1 + spread), n, out=np.zeros_like(n), where=seen)
        w = np.minimum(np.divide(noise + variance, n, out=np.zeros_like(n), where=seen), left**2)
        if not self.stationary:
            w *= known.visits
        bias = np.divide(lost * (left - 1), n, out=left.copy(), where=seen)
        return 1.25 * math.sqrt(known.active.most(P, w)) + known.active.most(P, bias) / 2


def _transitions(n: NDArray[np.float64], m: NDArray[np.float64], W: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns P = m/n outside W; what is left of a row leads to x†."""
    visits = np.broadcast_to(n[..., None], m.shape)
    return np.divide(m, visits, out=np.zeros_like(m), where=(visits > 0) & ~W)


def _coverage(visits: NDArray[np.float64], reach: NDArray[np.float64]) -> tuple[float, float]:
    """Returns the mean and the least share of what could be visited that is visited."""
    shares = visits[reach > 0] / reach[reach > 0]
    return (float(shares.mean()), float(shares.min())) if shares.size else (1.0, 1.0)

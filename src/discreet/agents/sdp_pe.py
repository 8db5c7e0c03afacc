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
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.assigned import AssignedAgent
from discreet.agents.policy_sets import KINDS, PolicySet
from discreet.agents.schedule import Stages
from discreet.errors import InvalidInput, UnknownName
from discreet.noise import Role
from discreet.privacy import Local
from discreet.privatizers import PrivateCounts, StagedPrivatizer, project
from discreet.privatizers.layout import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import TrustModel

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


class SDPPE(AssignedAgent):
    """SDP-PE (Bai et al. 2025): policy elimination in stages, with a batch for every layer.

    Args:
        policies: ``"implicit"`` describes the active policies by constraints, in polynomial time; ``"enumerate"`` lists
            them, as the paper does, up to 100,000.

    Attributes:
        stages: A `StageReport` for every stage that is over.
        active: The active policies.
        infrequent: W of the current stage, (H, S, A, S), or (1, S, A, S) if pooled; all before a layer is explored.
        crude: P^cru of the current stage, (H, S, A, S).
        refined: P^ref, (H, S, A, S), and r̂, (H, S, A), of the last stage that is over.

    Guarantee:
        That of the weakest batch: each user is in exactly one. Batches are public in number and size; what users play
        depends on earlier releases and the agent's own randomness.
    """

    name = "sdp-pe"

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
        self._set(spec, episodes, privacy, preset, stationary, failure, bonus_scale, seed)
        if policies not in KINDS:
            raise UnknownName("policies", policies, KINDS)
        if update_every is not None:
            raise InvalidInput(f"the stages of sdp-pe say when it updates: got update_every={update_every!r}")
        if isinstance(self.privacy, Local):
            raise InvalidInput("sdp-pe takes Shuffle(…), Central(…) or NonPrivate(), got Local")
        assert self.privacy is not None
        self.policies = policies
        H, S, A = spec.horizon, spec.states, spec.actions
        self.schedule: Stages = Stages(self.episodes, H, S, A)
        self.active: PolicySet = KINDS[policies](spec)
        visits = getattr(self.privacy, "release", "auto") != "mr"
        fine = Layout(spec, self.stationary, visits)
        crude = [Layout(spec, False, visits, rewards=False, layer=h) for h in range(H)]
        self.privatizer: StagedPrivatizer = StagedPrivatizer(
            spec,
            self.privacy,
            batches=[phase.users for phase in self.schedule.phases],
            layouts=[fine if phase.layer is None else crude[phase.layer] for phase in self.schedule.phases],
            failure=self.failure,
            rng=self.streams[Role.NOISE],
        )
        self.mechanism = (self.privatizer.name, self.privatizer.noise)
        self._std = [self.privatizer.std(i) for i in range(len(self.schedule.phases))]
        self.iota = math.log(2 * H * A * self.episodes / self.failure)
        self.batch = 0
        self.stages: list[StageReport] = []
        self.refined = (np.zeros((H, S, A, S)), np.zeros((H, S, A)))
        self._begin_stage()
        self._send_out()

    @property
    def leftover(self) -> NDArray[np.int64]:
        """The witness."""
        return self.active.witness

    def plan(self, counts: PrivateCounts) -> None:
        """Goes on from the release of one batch to the policies of the next."""
        phase = self.schedule.phases[self.batch]
        if phase.layer is None:
            self._refine(counts)
            self._begin_stage()
        else:
            self._learn_layer(counts, phase.layer)
        self.batch += 1
        self._send_out()

    def _begin_stage(self) -> None:
        """Forgets everything but the active policies."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        self.crude = np.zeros((H, S, A, S))
        self.infrequent = np.ones((1 if self.stationary else H, S, A, S), dtype=np.bool_)
        self._sums = [np.zeros((1, S, A)), np.zeros((1, S, A, S))] if self.stationary else []
        self._E = 0.0
        self._coverage = (1.0, 1.0)
        self._visits = np.zeros((H, S, A))

    def _send_out(self) -> None:
        """Decides what the users of the next batch play: the agent draws each one's part of a mixture."""
        if self.batch == len(self.schedule.phases):
            self._assign(self._policies[:0], self._ends[:0])
            return
        phase = self.schedule.phases[self.batch]
        each = self.schedule.each[phase.stage]
        layers = range(self.spec.horizon) if phase.layer is None else [phase.layer]
        found = [self.active.explore(self.crude, h) for h in layers]
        policies, users = [], []
        for exploration in found:
            weights = exploration.weights.reshape(-1, exploration.weights.shape[-1])
            drawn = self.streams[Role.AGENT].multinomial(each, weights)
            H, S = self.spec.horizon, self.spec.states
            policies.append(exploration.components.reshape(-1, H, S)[drawn.ravel() > 0])
            users.append(drawn[drawn > 0])
        self._assign(np.concatenate(policies), np.concatenate(users))
        if phase.layer is None:
            self._visits = np.array([exploration.visits for exploration in found])
            self._coverage = _coverage(self._visits, np.array([exploration.reach for exploration in found]))

    def _consistent(self, counts: PrivateCounts) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Returns projected n and m, and the E of Assumption 4."""
        E = 4 * counts.error
        projected = project(counts, E if self.preset == "theory" else 0.0)
        return projected.visits, projected.transitions, max(E, 1.0)

    def _learn_layer(self, counts: PrivateCounts, h: int) -> None:
        """Algorithm 2, lines 8 to 10."""
        layers = 1
        if self.stationary:
            layers = h + 1
            self._sums = [self._sums[0] + counts.visits, self._sums[1] + counts.transitions]
            counts = PrivateCounts(self._sums[0], self._sums[1], counts.rewards, layers * counts.error)
        n, m, E = self._consistent(counts)
        self._E = max(self._E, E)
        H = self.spec.horizon
        if self.preset == "theory":
            threshold = _C1 * E * H**2 * self.iota
        else:
            threshold = max(self._std[self.batch] * math.sqrt(layers), 1.0) / 2
        W = m < threshold
        P = _transitions(n, m, W)
        if self.stationary:
            self.infrequent[:], self.crude[:] = W, P
        else:
            self.infrequent[h], self.crude[h] = W[0], P[0]

    def _refine(self, counts: PrivateCounts) -> None:
        """Algorithm 3, lines 6 to 11, and the elimination of Algorithm 1."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        stage = self.schedule.phases[self.batch].stage
        L = self.schedule.lengths[stage]
        n, m, E = self._consistent(counts)
        W = self.infrequent
        P = _transitions(n, m, W)
        r = np.divide(np.clip(counts.rewards, 0.0, n), n, out=np.zeros_like(n), where=n > 0)
        P, r, n = (np.ascontiguousarray(np.broadcast_to(x, (H, *x.shape[1:]))) for x in (P, r, n))
        if self.preset == "theory":
            E = max(E, self._E)
            xi = math.sqrt(H**5 * S**2 * A * self.iota / L) + S**3 * A**2 * H**5 * E * self.iota / L  # line 9
        else:
            sigma = max(self._std[self.batch], 1.0)
            lost = np.maximum((m * W).sum(axis=3) - sigma * W.sum(axis=3) / 2, 0.0)  # what is more than noise
            xi = self._width(P, r, n, np.broadcast_to(lost, n.shape), sigma)
        self.refined = (P, r)
        best = self.active.eliminate(P, r, self.bonus_scale * xi)
        report = StageReport(L, int(W.sum()), *self._coverage, self.bonus_scale * xi, best, self.active.size)
        self.stages.append(report)

    def _width(
        self,
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
        known = P.sum(axis=3) > 0
        left = np.broadcast_to(np.arange(H, 0, -1.0)[:, None, None], n.shape)
        noise = np.divide(sigma**2 * (1 + spread), n, out=np.zeros_like(n), where=known)
        w = np.minimum(np.divide(noise + variance, n, out=np.zeros_like(n), where=known), left**2)
        if not self.stationary:
            w *= self._visits
        bias = np.divide(lost * (left - 1), n, out=left.copy(), where=known)
        return 1.25 * math.sqrt(self.active.most(P, w)) + self.active.most(P, bias) / 2

    def snapshot(self) -> tuple[dict[str, Any], Any]:
        """Returns copies of all that changes: personal data and noise, and what was planned."""
        planned = {
            "active": self.active.state(),
            "batch": self.batch,
            "played": self.played,
            "policies": self._policies.copy(),
            "ends": self._ends.copy(),
            "crude": self.crude.copy(),
            "infrequent": self.infrequent.copy(),
            "refined": [array.copy() for array in self.refined],
            "sums": [array.copy() for array in self._sums],
            "E": self._E,
            "std": list(self._std),
            "coverage": list(self._coverage),
            "visits": self._visits.copy(),
            "stages": [asdict(report) for report in self.stages],
        }
        return self.privatizer.state(), planned

    def restore(self, snapshot: tuple[dict[str, Any], Any]) -> None:
        """Goes back to a `snapshot`, which is used up."""
        sums, planned = snapshot
        self.privatizer.restore(sums)
        self.active.restore(planned["active"])
        self.batch, self.played, self._E = planned["batch"], planned["played"], planned["E"]
        self._std = list(planned["std"])
        self._policies, self._ends = planned["policies"].copy(), planned["ends"].copy()
        self.crude, self.infrequent = planned["crude"].copy(), planned["infrequent"].copy()
        self.refined = (planned["refined"][0].copy(), planned["refined"][1].copy())
        self._sums = [array.copy() for array in planned["sums"]]
        self._coverage, self._visits = (planned["coverage"][0], planned["coverage"][1]), planned["visits"].copy()
        self.stages = [StageReport(**report) for report in planned["stages"]]


def _transitions(n: NDArray[np.float64], m: NDArray[np.float64], W: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns P = m/n outside W; what is left of a row leads to x†."""
    visits = np.broadcast_to(n[..., None], m.shape)
    return np.divide(m, visits, out=np.zeros_like(m), where=(visits > 0) & ~W)


def _coverage(visits: NDArray[np.float64], reach: NDArray[np.float64]) -> tuple[float, float]:
    """Returns the mean and the least share of what could be visited that is visited."""
    shares = visits[reach > 0] / reach[reach > 0]
    return (float(shares.mean()), float(shares.min())) if shares.size else (1.0, 1.0)

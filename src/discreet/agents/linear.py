"""What LinOpt-VI and LinOpt-PO share: regressions on private sums of feature products, and their confidence bounds.

Notation: φ(s,a) are the reward features, ψ(s,a,s') the transition features, φ_h = Σ_{s'} ψ(·,·,s')V_{h+1}(s') the
value features; Λ = G + Z and u = g + z are the released sums with their regulariser, θ̂ = Λ⁻¹u; α = ``failure``;
B is ``feature_bound``. The theory's widths (Lemma 3.1, for every step's own λ and ν, where KB²/d₁ is the printed
KH² at the default B = √d₁·H):

    β_p = (H/2)·√(2 ln(H/α) + d₁ ln(1 + KB²/(d₁λ_min))) + √(d₁λ_max) + ν,
    β_r =    ½ ·√(2 ln(H/α) + d₂ ln(1 + K/(d₂λ_min)))   + √(d₂λ_max) + ν.

They hold for all steps and episodes with probability 1 − 3α. The preset ``practical`` keeps their first terms
only, times 0.3 with noise and 0.1 without; the regulariser is that of the theory. No theorem is claimed for it.

References:
    Zhou (2022), Differentially private reinforcement learning with linear function approximation: Lemma 3.1,
    Algorithms 1 and 2, Theorem 6.5, Remarks 6.6 and 6.9.
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet.agents.base import LearningAgent
from discreet.agents.tabular import Planned
from discreet.errors import InvalidInput, NumericalError, check_flag, check_number
from discreet.mdp import LinearSpec
from discreet.privatizers.make import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.agents.rounds import Policy, Proposal
    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import TrustModel
    from discreet.privatizers import AnyMechanism
    from discreet.privatizers.features.serve import PrivateGrams, Regulariser

__all__ = ["LinearAgent"]


class LinearAgent(LearningAgent):
    """A planner on private sums of feature products; subclasses say which.

    A spec without features is a table: its features are then the unit vectors (`LinearSpec.table`).

    Args:
        feature_bound: B: no value feature is longer than B for any V in [0, H]; √d₁·H by default. It is checked for all
            (s,a) whenever a policy is planned, from public features and released values. Users clip theirs to it.
        stationary: Must be false: every step has sums of its own.
    """

    linear = True

    def __init__(
        self,
        spec: Spec,
        *,
        episodes: int,
        privacy: TrustModel | None = None,
        preset: str = "practical",
        update_every: int | str | None = None,
        failure: float = 0.05,
        bonus_scale: float = 1.0,
        feature_bound: float | None = None,
        stationary: bool = False,
        seed: Seed = None,
    ) -> None:
        self.features = spec if isinstance(spec, LinearSpec) else LinearSpec.table(spec)
        default = math.sqrt(self.features.dimension) * spec.horizon
        self.feature_bound = (
            default if feature_bound is None else check_number("feature_bound", feature_bound, above=True)
        )
        if check_flag("stationary", stationary):
            raise InvalidInput(f"{self.name} keeps sums for every step: stationary must be false, got stationary=True")
        super().__init__(
            spec,
            episodes=episodes,
            privacy=privacy,
            preset=preset,
            stationary=False,
            update_every=update_every,
            failure=failure,
            bonus_scale=bonus_scale,
            seed=seed,
        )

    def _build(self) -> AnyMechanism:
        return make(
            "features",
            self.features,
            self.privacy,
            feature_bound=self.feature_bound,
            capacity=self.episodes,
            batches=self.batches or [self.schedule.batch_size(0)],
            failure=self.failure,
        )

    @property
    def _identity(self) -> str:
        """With other features, the noise is another agent's too."""
        if not isinstance(self.spec, LinearSpec):
            return super()._identity
        spec, digest = self.spec, hashlib.sha256()
        for array in (spec.reward_features, spec.offsets, spec.successors, spec.coordinates, spec.weights):
            digest.update(np.ascontiguousarray(array).tobytes())
        return f"{super()._identity}, features {digest.hexdigest()}"

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

    @cached_property
    def _bounds(self) -> NDArray[np.float64]:
        """How long value features may be at each step, (H,)."""
        bounds, own = np.zeros(self.spec.horizon), self.mechanism.layout.feature_bounds  # type: ignore[attr-defined]
        bounds[: len(own)] = own
        return bounds

    @property
    def kernel(self) -> Callable[..., tuple[int, int]]:
        """The compiled planner."""
        raise NotImplementedError

    def widths(self, known: Regulariser) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns β_r and β_p of every step, (H,) each."""
        H, K, alpha = self.spec.horizon, self.episodes, self.failure
        d1, d2, B = self.features.dimension, self.features.reward_dimension, self.feature_bound
        log = 2 * math.log(H / alpha)
        p = H / 2 * np.sqrt(log + d1 * np.log1p(K * B * B / (d1 * known.value_least)))
        r = 1 / 2 * np.sqrt(log + d2 * np.log1p(K / (d2 * known.reward_least)))
        if self.preset == "practical":  # a large shift makes bonuses small by itself
            scale = self.bonus_scale * (0.3 if known.reward_nu.any() else 0.1)
            return scale * r, scale * p
        r = r + np.sqrt(d2 * known.reward_largest) + known.reward_nu  # Lemma 3.1
        p = p + np.sqrt(d1 * known.value_largest) + known.value_nu
        return self.bonus_scale * r, self.bonus_scale * p

    def regularised(self, released: PrivateGrams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns Λ_r (H, d₂, d₂) and Λ_p (H, d₁, d₁)."""
        known = released.regulariser
        eye_r, eye_p = np.eye(self.features.reward_dimension), np.eye(self.features.dimension)
        return (
            released.reward_gram + known.reward_shift[:, None, None] * eye_r,  # Z = N + 2Σ·I, Theorem 6.5
            released.value_gram + known.value_shift[:, None, None] * eye_p,
        )

    def _start(self, first: PrivateGrams, size: int, rng: np.random.Generator) -> tuple[Planned, Proposal]:
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        policy: Policy = np.full((H, S, A), 1 / A) if self.mixed else np.zeros((H, S), dtype=np.int64)
        return self._learn(Planned(np.zeros((H, S, A)), np.zeros((H + 1, S)), policy), first, 0, size, rng)

    def _learn(
        self, state: Planned, released: PrivateGrams, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Planned, Proposal]:
        """Plans; the encoder of the next batch carries V."""
        planned = self.planned(state, released)
        return planned, planned.proposal(size, values=planned.V.copy())

    def planned(self, before: Planned, released: PrivateGrams) -> Planned:
        """Returns Q, V and the policy for the released sums.

        Raises:
            NumericalError: If a regularised Gram matrix is not positive definite.
            InvalidInput: If a value feature is longer than ``feature_bound`` allows.
        """
        (r, p), (beta_r, beta_p) = self.regularised(released), self.widths(released.regulariser)
        spec, d1, d2 = self.features, self.features.dimension, self.features.reward_dimension
        planned = self._next(before)
        why, step = self.kernel(
            (spec.reward_features, spec.offsets, spec.successors, spec.coordinates, spec.weights),
            (
                r,
                np.ascontiguousarray(released.reward_vector),
                beta_r,
                p,
                np.ascontiguousarray(released.value_vector),
                beta_p,
            ),
            self._bounds,
            tuple(planned),
            (np.zeros(d2), np.zeros(d1), np.zeros(d1), np.zeros(d2), np.zeros(d1)),
        )
        if why in (1, 2):
            which = "reward" if why == 1 else "value"
            raise NumericalError(
                f"the regularised Gram matrix of the {which} features at step {step} is not positive definite: "
                "the noise exceeds what the shift allows for"
            )
        if why:
            raise InvalidInput(
                f"a value feature at step {step} is longer than feature_bound={self.feature_bound:g} allows "
                f"({self._bounds[step - 1]:g} at this step): declare a larger one"
            )
        return planned

    def _next(self, before: Planned) -> Planned:
        """Returns arrays for the next Q, V and policy."""
        return before.copy()

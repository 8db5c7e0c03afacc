"""discreet-vi: our own learner, which makes a proven ε useful.

What people are asked, and what is planned from the answers, is different under each trust model:

    Central  weighted counts of bounded length          `discreet.agents.discreet.central`
    Local    one question about one cell a user         `discreet.agents.discreet.local`
    Shuffle  first visits to few public cells a batch   `discreet.agents.discreet.shuffle`

They have in common: estimates that know that most counts are 0 (`_kernels/sparse.py`), cells that are known or not,
explorers who go where something is unknown, and a public schedule of who plays what within a batch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from discreet.agents.base import LearningAgent
from discreet.errors import InvalidInput, check_flag
from discreet.privacy import Central, Local, NonPrivate, Shuffle

if TYPE_CHECKING:
    import numpy as np

    from discreet.agents.discreet.learner import Learner
    from discreet.agents.rounds import Listed, Proposal, Schedule
    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import TrustModel
    from discreet.privatizers import AnyMechanism

__all__ = ["LEARNERS", "DiscreetVI"]

#: What learns under each trust model; other packages may add theirs.
LEARNERS: dict[type[TrustModel], str] = {
    NonPrivate: "discreet.agents.discreet.central:CentralLearner",
    Central: "discreet.agents.discreet.central:CentralLearner",
    Local: "discreet.agents.discreet.local:LocalLearner",
    Shuffle: "discreet.agents.discreet.shuffle:ShuffleLearner",
}


class DiscreetVI(LearningAgent):
    """Our own learner: asks people for what helps most under each trust model, explores and exploits side by side.

    Args:
        share_steps: With a trusted server and ``stationary=False``: whether steps share what they have in common.
        preset: ``"practical"``; no theorem is claimed.
        update_every: Users a batch; a schedule of its own by default.

    Guarantee:
        That of its private sums. What is asked, played and planned depends on earlier releases, public sizes and the
        agent's own randomness.
    """

    name = "discreet-vi"
    fast = True

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
        share_steps: bool = True,
        seed: Seed = None,
    ) -> None:
        self.share_steps = check_flag("share_steps", share_steps)
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

    def _schedule(self, update_every: int | str | None) -> Schedule | Listed:
        if self.preset != "practical":
            raise InvalidInput(f"discreet-vi claims no theorem: preset must be 'practical', got preset={self.preset!r}")
        module, name = LEARNERS[type(cast("TrustModel", self.privacy))].split(":")
        self.learner: Learner[Any] = getattr(importlib.import_module(module), name)(self, update_every)
        found: Schedule | Listed = self.learner.schedule
        return found

    def _build(self) -> AnyMechanism:
        return self.learner.mechanism

    def _start(self, first: None, size: int, rng: np.random.Generator) -> tuple[Any, Proposal]:
        return self.learner.plan(self.learner.start(), None, 0, size, rng)

    def _learn(
        self, state: Any, released: Any, count: int, size: int, rng: np.random.Generator
    ) -> tuple[Any, Proposal]:
        return self.learner.plan(state, released, count, size, rng)

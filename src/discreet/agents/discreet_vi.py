"""discreet-vi: our own learner, which makes a proven ε useful.

What people are asked, and what is planned from the answers, is different under each trust model:

    Central  weighted counts of bounded length          `discreet.agents.discreet_central`
    Local    one question about one cell a user         `discreet.agents.discreet_local`
    Shuffle  first visits to few public cells a batch   `discreet.agents.discreet_shuffle`

They have in common: estimates that know that most counts are 0 (`_kernels/sparse.py`), cells that are known or not,
explorers who go where something is unknown, and a public schedule of who plays what within a batch.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.assigned import AssignedAgent
from discreet.errors import InvalidInput, check_flag
from discreet.noise import Role
from discreet.privacy import Local, Shuffle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.learner import Learner, Plan
    from discreet.mdp import Spec
    from discreet.noise import Seed
    from discreet.privacy import TrustModel

__all__ = ["DiscreetVI"]


class DiscreetVI(AssignedAgent):
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
    _unplanned: Any = None  # a release from which nothing is planned yet

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
        self._set(spec, episodes, privacy, preset, stationary, failure, bonus_scale, seed)
        if preset != "practical":
            raise InvalidInput(f"discreet-vi claims no theorem: preset must be 'practical', got preset={preset!r}")
        self.share_steps = check_flag("share_steps", share_steps)
        self.learner: Learner = self._learner()(self, update_every)
        self.schedule = self.learner.schedule
        self.privatizer = self.learner.privatizer
        self.mechanism = (self.privatizer.name, self.privatizer.noise)
        self._put(self.learner.plan(None, 0, self._next_size, self.streams[Role.AGENT]))

    def _learner(self) -> type[Any]:
        """Returns what learns under the trust model."""
        if isinstance(self.privacy, Local):
            from discreet.agents.discreet_local import LocalLearner

            return LocalLearner
        if isinstance(self.privacy, Shuffle):
            from discreet.agents.discreet_shuffle import ShuffleLearner

            return ShuffleLearner
        from discreet.agents.discreet_central import CentralLearner

        return CentralLearner

    @property
    def _next_size(self) -> int:
        """Users of the batch that begins now; 0 if it can never be completed."""
        size = self.schedule.batch_size(self.count)
        return size if self.count + size <= self.episodes else 0

    @property
    def leftover(self) -> NDArray[np.int64]:
        """The best policy known."""
        return self._exploit

    @property
    def asked(self) -> dict[str, Any]:
        """What the encoder of the current batch was given by the plan, as it has it: as public as the policies."""
        self._ready()
        return {name: getattr(self.privatizer.encoder, name) for name in self._carried}

    def _put(self, plan: Plan) -> None:
        """Begins a batch with a plan."""
        self._exploit = plan.exploit
        self._assign(plan.policies, plan.users)
        self._carried = plan.carried
        self._arm()

    def _arm(self) -> None:
        """Gives the encoder what it carries in this batch."""
        if self._carried:
            private: Any = self.privatizer
            private.encoder = dataclasses.replace(private.encoder, **self._carried)

    def plan(self, released: Any) -> None:
        """Goes on from the release of one batch to the policies, and questions, of the next."""
        self._unplanned = released
        self._ready()

    def _ready(self) -> None:
        """Plans from the last release if that is to be done: if it is interrupted, it is done anew when it is needed.

        The release is out and its users are counted, so the batch that follows must have its own policies.
        """
        if self._unplanned is None:
            return
        rng = self.streams[Role.AGENT]
        before, drawn = self.learner.state(), rng.bit_generator.state
        try:
            self._put(self.learner.plan(self._unplanned, self.count, self._next_size, rng))
        except BaseException:
            self.learner.restore(before)
            rng.bit_generator.state = drawn
            raise
        self._unplanned = None

    def snapshot(self) -> tuple[dict[str, Any], Any]:
        """Returns copies of all that changes: personal data and noise, and what was planned."""
        self._ready()
        planned = {
            "learner": self.learner.state(),
            "played": self.played,
            "policies": self._policies.copy(),
            "ends": self._ends.copy(),
            "exploit": self._exploit.copy(),
            "carried": {key: np.array(value) for key, value in sorted(self._carried.items())},
        }
        return self.privatizer.state(), planned

    def restore(self, snapshot: tuple[dict[str, Any], Any]) -> None:
        """Goes back to a `snapshot`, which is used up."""
        sums, planned = snapshot
        self._unplanned = None
        self.privatizer.restore(sums)
        self.learner.restore(planned["learner"])
        self._policies, self._ends, self.played = planned["policies"], planned["ends"], planned["played"]
        self._exploit, self._carried = planned["exploit"], dict(planned["carried"])
        self._arm()

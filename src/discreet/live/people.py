"""Simulated people, played against a deployment: they start, play, report late, twice, wrongly or never.

Nothing here sleeps. Time is a number that is handed to the deployment, so a year of arrivals takes as long as its
commits. All that person g does is a function of the seed and of g, their place in the order of slots. So a simulation
that was killed goes on where it stopped: who is next, and who is still on the way, is in the deployment's database.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import envs
from discreet.errors import InvalidInput
from discreet.live.crowd import Crowd, Habits
from discreet.mdp import FiniteMDP, LinearSpec
from discreet.runtime.simulate import recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.live.deployment import Deployment
    from discreet.live.shuffler import Shuffler
    from discreet.noise import Seed
    from discreet.privacy import Guarantee
    from discreet.runtime.simulate import RecordedSeed

__all__ = ["Habits", "Simulated", "simulate"]


@dataclass(frozen=True, eq=False)
class Simulated:
    """What happened to simulated people. Regret is exact, by the environment that they lived in.

    Attributes:
        gaps: V*_1 − V^{π}_1 of everybody who started, in that order, collected or not, (n,).
        first: The place of the first of them in the order of slots: how many slots were given out before.
        collected: How many of them had a slot.
        reported: Reports that were acknowledged, also of people who were on their way at the beginning.
        late: Reports that came too late, and were refused.
        dropped: People who never reported.
        refused: Damaged reports and forged tokens, all of which were refused.
        repeated: Starts and reports that were sent again.
        releases: Versions that were released.
        guarantee: What is promised to people.
        seed: The people's seed, as `discreet.simulate` records it.
        clock: What time it is now for the simulated people, in seconds since 1970.
    """

    gaps: NDArray[np.float64]
    first: int
    collected: int
    reported: int
    late: int
    dropped: int
    refused: int
    repeated: int
    releases: tuple[int, ...]
    guarantee: Guarantee
    seed: RecordedSeed
    clock: float

    def __repr__(self) -> str:
        return f"<Simulated: {self.starts} people, regret {self.gaps.sum():.6g}, {self.guarantee}>"

    @property
    def starts(self) -> int:
        """How many people started."""
        return len(self.gaps)

    @cached_property
    def regret(self) -> NDArray[np.float64]:
        """Cumulative regret after each start, (n,)."""
        return np.cumsum(self.gaps)


def simulate(
    deployment: Deployment,
    mdp: FiniteMDP | None = None,
    people: int | None = None,
    seed: Seed = None,
    *,
    habits: Habits | None = None,
    shuffler: Shuffler | str = "memory:",
    progress: Callable[[int], None] | None = None,
) -> Simulated:
    """Lets people of an environment meet a deployment, from where it is now.

    Person g, the one with the g-th slot, is the same person under every deployment, and the same as in
    `discreet.simulate` with that seed. If everybody waits for a slot and reports in time, a deployment with fast noise
    does the same as an agent there.

    Args:
        deployment: Open. It should be a deployment for simulated people: they use up its slots.
        mdp: The environment. By default the one that the configuration names. If the configuration has a state
            ``gone``, the environment may have one state fewer: `discreet.envs.leaving` adds it.
        people: How many start; by default as many as there are free slots.
        seed: Of the people. Give the same one to go on.
        habits: How they behave; by default they wait for a slot and report at once.
        shuffler: Under `Shuffle`: who takes the reports; or the URL of a database, for one that is made here.
        progress: Is called with the number of people after each start.

    Raises:
        InvalidInput: If the environment is not that of the deployment.
    """
    habits = Habits() if habits is None else habits
    crowd = Crowd(deployment, _world(deployment, mdp, habits), seed, habits, shuffler)
    try:
        crowd.play(people, progress)
    finally:
        crowd.leave()
    return Simulated(
        np.array(crowd.gaps),
        crowd.first,
        **crowd.counts,
        releases=tuple(crowd.releases),
        guarantee=deployment.guarantee,
        seed=recorded(crowd.seed),
        clock=crowd.now,
    )


def _world(deployment: Deployment, mdp: FiniteMDP | None, habits: Habits) -> FiniteMDP:
    """Returns the environment in which people live, with the state ``gone`` if there is one."""
    found = deployment.environment() if mdp is None else mdp
    if not isinstance(found, FiniteMDP):
        raise InvalidInput(f"mdp must be a TabularMDP or a LinearMDP, got {type(found).__name__}")
    spec, gone = deployment.agent.spec, deployment.config.gone
    if gone == found.states == spec.states - 1:
        found = envs.leaving(found, habits.leave)
    elif habits.leave > 0:
        raise InvalidInput(
            "people who leave need a state gone in [world], the last one, which their environment does not have"
        )
    own = found.spec
    same = own == spec if isinstance(spec, LinearSpec) else _sizes(own) == _sizes(spec)
    if not same:
        raise InvalidInput(
            f"the deployment has (states, actions, horizon) = {_sizes(spec)}, the environment {_sizes(own)}"
            + (", or other features" if _sizes(own) == _sizes(spec) else "")
        )
    return found


def _sizes(spec: Any) -> tuple[int, int, int]:
    return spec.states, spec.actions, spec.horizon

"""What can be attacked, by name."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from discreet import agents
from discreet.audit.agents import agent
from discreet.audit.linear import linear
from discreet.audit.local import local
from discreet.audit.rlsvi import rlsvi
from discreet.audit.shuffle import printed, shuffle
from discreet.audit.sums import central, single, stream
from discreet.audit.weighted import weighted
from discreet.errors import InvalidInput, UnknownName, check_integer
from discreet.privacy import Budget, Central, Guarantee, Local, Shuffle
from discreet.registry.options import table
from discreet.sums import CENTRAL

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TARGETS", "Target", "named", "takes"]

# Those that release after every user: a batch of sdp-pe is what the targets central and shuffle are.
_APART = ("auto", "rlsvi", "sdp-pe")
_AGENTS = tuple(name for name in agents.NAMES if agents.is_private(name) and name not in _APART)
#: What `discreet audit` knows: a number, a stream of counts, the privatizers of the trust models, a printed protocol,
#: the linear privatizer and agents under central privacy.
TARGETS: tuple[str, ...] = (
    "laplace",
    "gaussian",
    *CENTRAL,
    "central",
    "weighted",
    "local",
    "shuffle",
    "algorithm-4",
    "linear",
    *_AGENTS,
    "rlsvi",
)

#: The trust model and the maker of each target that has one, and what of the trust model it does not take.
_PRIVATIZERS: dict[str, tuple[Any, Callable[..., Target], tuple[str, ...]]] = {
    "central": (Central, central, ()),
    "weighted": (Central, weighted, ("calibration", "release")),
    "local": (Local, local, ()),
    "shuffle": (Shuffle, shuffle, ("sum",)),
    "rlsvi": (Central, rlsvi, ("sum", "calibration", "release")),
    "linear": (Central, linear, ("release",)),
}
#: What no target takes from a trust model: the budget is what is attacked.
_FIXED = ("epsilon", "delta")


def takes(name: str) -> tuple[str, ...]:
    """Returns which options of `named` a target takes: those of its trust model, and those of its maker."""
    model, make, without = _PRIVATIZERS.get(name, (Central, agent, ()))
    if name in CENTRAL:
        return _keywords(stream)
    if name == "algorithm-4":
        return _keywords(printed)
    if name not in (*_PRIVATIZERS, *_AGENTS):
        return _keywords(single)
    return (*(key for key in table(model) if key not in (*_FIXED, *without)), *_keywords(make))


def _keywords(make: Callable[..., object]) -> tuple[str, ...]:
    """Returns what the maker of a target takes by name, but for where an attacker sits."""
    found = inspect.signature(make).parameters.values()
    return tuple(each.name for each in found if each.default is not each.empty and each.name != "position")


class Target(Protocol):
    """Something with a claim, that can be run on either of two neighbouring inputs."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def claim(self) -> Guarantee:
        """What is claimed for it."""

    @property
    def runs(self) -> int:
        """How many it takes to attack it well."""

    def scores(self, world: int, runs: int, rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
        """Runs the mechanism independently on neighbour 0 or 1; returns each attack's scores."""


def named(name: str, *, epsilon: float, delta: float = 0.0, **options: Any) -> Target:
    """Returns one of `TARGETS` by name.

    Args:
        name: One of `TARGETS`.
        epsilon: The budget's ε.
        delta: The budget's δ.
        **options: What else the target takes (``None`` is the default): ``sum``, ``calibration``, ``release``,
            ``randomiser`` and ``honest_fraction`` of its trust model; ``stationary``; ``steps`` an episode; ``reads``
            of a stream; ``users`` in a batch and how many of them are ``silent``; ``accounting`` and ``noise_scale``.
    """
    if name not in TARGETS:
        raise UnknownName("target", name, TARGETS)
    options = _taken(name, options)
    if name in (*_PRIVATIZERS, *_AGENTS):
        model, make, _ = _PRIVATIZERS.get(name, (Central, partial(agent, name), ()))
        trust = {key: options.pop(key) for key in table(model) if key in options}
        return make(model(epsilon, delta, **trust), **options)
    budget = Budget(epsilon, delta)
    if name == "algorithm-4":
        return printed(budget, **options)
    if name in CENTRAL:
        return stream(name, budget, **options)
    if (name == "gaussian") != (delta > 0):
        raise InvalidInput(f"the target laplace is for delta=0, gaussian for delta > 0; got {name} with delta={delta}")
    return single(budget, **options)


def _taken(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that were given; raises if the target takes one of them not."""
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    for key in given:
        if key not in takes(name):
            option = key.replace("_", "-")
            others = [target for target in TARGETS if key in takes(target)]
            raise InvalidInput(f"--{option} is for {', '.join(others) or 'no target'}, got target {name}")
    for key in ("steps", "reads", "users"):
        if key in given:
            check_integer(key, given[key])
    return given

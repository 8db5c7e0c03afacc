"""Environments: `make` one by name, call its function, or bring any finite Gymnasium environment.

Ours are registered with Gymnasium as ``discreet/RiverSwim-v0`` and so on.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from discreet.envs.classic import chain, gridworld, hard, random, riverswim
from discreet.envs.leaving import leaving
from discreet.envs.linear import as_linear, linear_mixture
from discreet.envs.tables import cliffwalking, from_gymnasium, frozenlake, taxi
from discreet.envs.text import environment
from discreet.errors import InvalidInput, UnknownName
from discreet.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.mdp import FiniteMDP

    #: Every name that `make` knows.
    NAMES: tuple[str, ...]

__all__ = [
    "ENVIRONMENTS",
    "NAMES",
    "as_linear",
    "chain",
    "cliffwalking",
    "from_gymnasium",
    "frozenlake",
    "gridworld",
    "hard",
    "leaving",
    "linear_mixture",
    "make",
    "parameters",
    "random",
    "read",
    "riverswim",
    "taxi",
]

#: All environments: the function that makes each.
ENVIRONMENTS: Registry[Callable[..., FiniteMDP]] = Registry("environment")
ENVIRONMENTS.add("riverswim", riverswim)
ENVIRONMENTS.add("chain", chain)
ENVIRONMENTS.add("hard", hard)
ENVIRONMENTS.add("random", random)
ENVIRONMENTS.add("gridworld", gridworld)
ENVIRONMENTS.add("frozenlake", frozenlake)
ENVIRONMENTS.add("taxi", taxi)
ENVIRONMENTS.add("cliffwalking", cliffwalking)
ENVIRONMENTS.add("linear_mixture", linear_mixture)


def make(name: str, **parameters: Any) -> FiniteMDP:
    """Returns the environment called ``name``, for example ``make("riverswim", states=6, horizon=20)``."""
    maker = ENVIRONMENTS[name]
    accepted = _signature(maker)
    for key in parameters:
        if key not in accepted:
            raise UnknownName(f"parameter of {name}", key, accepted)
    try:
        return maker(**parameters)
    except TypeError as error:
        raise InvalidInput(f"{name}: {error}") from error


def read(text: str) -> FiniteMDP:
    """Returns the environment that ``name[:key=value,…]`` stands for, as on the command line."""
    name, given = environment(text)
    return make(name, **given)


def parameters(name: str) -> dict[str, Any]:
    """Returns the parameters of an environment with their defaults."""
    return _signature(ENVIRONMENTS[name])


def _signature(maker: Callable[..., FiniteMDP]) -> dict[str, Any]:
    return {key: value.default for key, value in inspect.signature(maker).parameters.items()}


def __getattr__(name: str) -> Any:
    if name == "NAMES":  # others may have added theirs
        return ENVIRONMENTS.names
    raise AttributeError(f"module 'discreet.envs' has no attribute {name!r}")

"""Environments: `make` one by name, call its function, or bring any finite Gymnasium environment.

Ours are registered with Gymnasium as ``discreet/RiverSwim-v0`` and so on.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from discreet.envs.classic import chain, gridworld, hard, random, riverswim
from discreet.envs.linear import as_linear, linear_mixture
from discreet.envs.tables import cliffwalking, from_gymnasium, frozenlake, taxi
from discreet.envs.text import environment
from discreet.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.mdp import FiniteMDP

__all__ = [
    "NAMES",
    "as_linear",
    "chain",
    "cliffwalking",
    "from_gymnasium",
    "frozenlake",
    "gridworld",
    "hard",
    "linear_mixture",
    "make",
    "parameters",
    "random",
    "read",
    "riverswim",
    "taxi",
]

_MAKERS: dict[str, Callable[..., FiniteMDP]] = {
    "riverswim": riverswim,
    "chain": chain,
    "hard": hard,
    "random": random,
    "gridworld": gridworld,
    "frozenlake": frozenlake,
    "taxi": taxi,
    "cliffwalking": cliffwalking,
    "linear_mixture": linear_mixture,
}

#: Every name that `make` knows.
NAMES: tuple[str, ...] = tuple(_MAKERS)


def make(name: str, **parameters: Any) -> FiniteMDP:
    """Returns the environment called ``name``, for example ``make("riverswim", states=6, horizon=20)``."""
    if name not in _MAKERS:
        raise UnknownName("environment", name, NAMES)
    accepted = _signature(name)
    for key in parameters:
        if key not in accepted:
            raise UnknownName(f"parameter of {name}", key, accepted)
    try:
        return _MAKERS[name](**parameters)
    except TypeError as error:
        raise InvalidInput(f"{name}: {error}") from error


def read(text: str) -> FiniteMDP:
    """Returns the environment that ``name[:key=value,…]`` stands for, as on the command line."""
    name, given = environment(text)
    return make(name, **given)


def parameters(name: str) -> dict[str, Any]:
    """Returns the parameters of an environment with their defaults."""
    if name not in _MAKERS:
        raise UnknownName("environment", name, NAMES)
    return _signature(name)


def _signature(name: str) -> dict[str, Any]:
    return {key: value.default for key, value in inspect.signature(_MAKERS[name]).parameters.items()}

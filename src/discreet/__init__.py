"""Discreet: differentially private reinforcement learning.

An agent learns from many people, one episode each, without betraying any of them. Every agent carries a `Guarantee`
that was computed from what was built.

    import discreet as dc

    mdp = dc.envs.riverswim(states=6, horizon=20)
    agent = dc.agents.make("ucbvi", mdp.spec, episodes=5_000, stationary=True, seed=0)
    result = dc.simulate(agent, mdp, seed=0)
    print(result.regret[-1], agent.guarantee)

Names are imported on first use: importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from discreet._gymnasium import register_when_imported

__version__ = "0.1.0"

_MODULES = (
    "agents",
    "audit",
    "envs",
    "errors",
    "experiments",
    "live",
    "mdp",
    "noise",
    "privacy",
    "privatizers",
    "runtime",
    "sums",
    "testing",
    "theory",
)
_NAMES = {
    "Budget": "privacy",
    "Central": "privacy",
    "Guarantee": "privacy",
    "Local": "privacy",
    "NonPrivate": "privacy",
    "Shuffle": "privacy",
    "LinearMDP": "mdp",
    "TabularMDP": "mdp",
    "Trajectory": "mdp",
    "simulate": "runtime",
}

__all__ = [
    "Budget",
    "Central",
    "Guarantee",
    "LinearMDP",
    "Local",
    "NonPrivate",
    "Shuffle",
    "TabularMDP",
    "Trajectory",
    "__version__",
    "agents",
    "audit",
    "envs",
    "errors",
    "experiments",
    "live",
    "mdp",
    "noise",
    "privacy",
    "privatizers",
    "results",
    "runtime",
    "simulate",
    "sums",
    "testing",
    "theory",
]

if TYPE_CHECKING:
    from discreet import (
        agents,
        audit,
        envs,
        errors,
        experiments,
        live,
        mdp,
        noise,
        privacy,
        privatizers,
        runtime,
        sums,
        testing,
        theory,
    )
    from discreet.experiments import results
    from discreet.mdp import LinearMDP, TabularMDP, Trajectory
    from discreet.privacy import Budget, Central, Guarantee, Local, NonPrivate, Shuffle
    from discreet.runtime import simulate


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"discreet.{name}")
    if name == "results":  # a module of a room, known by its own name
        return importlib.import_module("discreet.experiments.results")
    if name in _NAMES:
        return getattr(importlib.import_module(f"discreet.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


register_when_imported()

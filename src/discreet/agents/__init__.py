"""Learning agents: `make` one by name; one file per algorithm, to be read beside the paper."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from discreet.agents.options import Discreet, Linear, Staged, Tabular, Values
from discreet.errors import InvalidInput, UnknownName, check_integer
from discreet.registry import Registry, imported
from discreet.registry.options import Option
from discreet.registry.options import table as _read
from discreet.registry.options import union as _union

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from discreet.agents.base import LearningAgent
    from discreet.mdp import Spec
    from discreet.noise import Seed

    #: Every name that `make` knows.
    NAMES: tuple[str, ...]

__all__ = [
    "AGENTS",
    "NAMES",
    "PRESETS",
    "defaults",
    "epsilon_follows",
    "family",
    "is_linear",
    "is_private",
    "load",
    "make",
    "protects",
    "summary",
    "table",
]

#: What the bonuses are scaled for: the theorems, or use.
PRESETS: tuple[str, ...] = ("theory", "practical")

#: All agents: where each is, and what it takes. This table imports none of them.
AGENTS: Registry[type[LearningAgent]] = Registry("agent")
AGENTS.add("ucbvi", "discreet.agents.ucbvi:UCBVI", options=Tabular)
AGENTS.add("ubev", "discreet.agents.ubev:UBEV", options=Tabular)
AGENTS.add("pucb", "discreet.agents.pucb:PUCB", options=Tabular)
AGENTS.add("dp-ucbvi", "discreet.agents.dp_ucbvi:DPUCBVI", options=Tabular)
AGENTS.add("private-ucb-vi", "discreet.agents.private_ucb_vi:PrivateUCBVI", options=Tabular)
AGENTS.add("private-ucb-po", "discreet.agents.private_ucb_po:PrivateUCBPO", options=Tabular)
AGENTS.add("rlsvi", "discreet.agents.rlsvi:RLSVI", options=Values)
AGENTS.add("sdp-pe", "discreet.agents.sdp_pe:SDPPE", options=Staged)
AGENTS.add("linopt-vi", "discreet.agents.linopt_vi:LinOptVI", options=Linear)
AGENTS.add("linopt-po", "discreet.agents.linopt_po:LinOptPO", options=Linear)
AGENTS.add("discreet-vi", "discreet.agents.discreet:DiscreetVI", options=Discreet)
# `make` chooses one of these; until then it is what it falls back to.
AGENTS.add("auto", "discreet.agents.dp_ucbvi:DPUCBVI", options=Tabular)


def make(name: str, spec: Spec, *, episodes: int, seed: Seed = None, **options: Any) -> LearningAgent:
    """Returns a new agent.

    Args:
        name: One of `NAMES`; ``"auto"`` is the best one for the trust model.
        spec: The environment's public facts, ``mdp.spec``.
        episodes: Number of users at most: a hard capacity, because noise is calibrated for it.
        seed: Of the agent and its privacy noise; the operating system's entropy by default.
        **options: What else the agent takes; all tabular ones know

            - ``privacy``: the trust model, such as ``Central(epsilon=1.0)``; agents that offer no privacy need none;
            - ``preset``: ``"practical"`` (default) or ``"theory"``, the printed constants;
            - ``stationary``: whether counts are pooled over the steps of an episode (default False);
            - ``update_every``: users between two updates of the policy, or ``"geometric"`` (default 1; under `Shuffle`
              a hundredth of the episodes, at most 500);
            - ``failure``: the papers' failure probability β (default 0.05), not a privacy parameter;
            - ``bonus_scale``: multiplies every bonus (default 1);

            and ``sdp-pe``, whose stages say when it updates (it takes no ``update_every``), also

            - ``policies``: ``"implicit"`` (default) or ``"enumerate"``, how active policies are kept.

            ``"rlsvi"`` has no bonuses, and takes ``accounting``, ``noise_scale`` and ``delta`` instead: see
            `discreet.agents.rlsvi.RLSVI`.

    Guarantee:
        ``agent.guarantee``, computed for what was built. Preset and bonus scale never change it.
    """
    from discreet.agents.auto import choose
    from discreet.agents.trusting import no_trust
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

    kind = AGENTS[name]
    if name == "auto":
        if not isinstance(privacy := options.get("privacy"), TrustModel):
            raise no_trust(name, privacy)
        given = {key: value for key, value in options.items() if value is not None}
        asked = {"preset": given["preset"]} if "preset" in given else {}
        name, defaults = choose(privacy, check_integer("episodes", episodes), spec, **asked)
        kind = AGENTS[name]
        options = {**defaults, **given}
    if not isinstance(spec, Spec):
        raise InvalidInput(f"spec must be a Spec such as mdp.spec, got {type(spec).__name__}")
    known = table(name)
    for key in options:
        if key not in known and key != "privacy":
            raise UnknownName(f"option of {name}", key, ("privacy", *known))
    return kind(spec, episodes=episodes, seed=seed, **options)


def family(name: str) -> type | None:
    """Returns the dataclass of an agent's options; None if it has none, and its constructor tells them."""
    found = AGENTS.entry(name).facts.get("options")
    found = imported(found) if isinstance(found, str) else found
    if found is not None and not isinstance(found, type):
        raise InvalidInput(f"the options of the agent {name!r} must be a dataclass, got {found!r}")
    return found


def table(name: str | None = None) -> Mapping[str, Option]:
    """Returns the options of an agent by name, ``privacy`` not among them; all that are declared by default."""
    if name is None:
        return _union(_read(found) for found in map(family, AGENTS) if found is not None)
    declared = family(name)
    if declared is not None:
        return _read(declared)
    parameters = inspect.signature(AGENTS[name]).parameters
    taken = {key: found.default for key, found in parameters.items() if key not in _NO_OPTIONS}
    return {key: Option(key, default, ()) for key, default in taken.items()}


#: What the constructor of an agent takes beside its options.
_NO_OPTIONS = ("spec", "episodes", "seed", "privacy")


def defaults(name: str) -> dict[str, Any]:
    """Returns the options of an agent and their defaults."""
    return {key: option.default for key, option in table(name).items()}


def epsilon_follows(options: dict[str, Any]) -> bool:
    """Returns whether ε follows from a noise scale among the options of an agent, so that there is no budget."""
    return options.get("noise_scale") is not None and options.get("accounting") != "individual"


def is_private(name: str) -> bool:
    """Returns whether an agent takes a private trust model."""
    return AGENTS[name].private


def protects(name: str) -> str:
    """Returns what of a person an agent's guarantee protects: ``"trajectory"`` or ``"rewards"``."""
    return AGENTS[name].protects


def is_linear(name: str) -> bool:
    """Returns whether an agent learns from sums of feature products instead of counts."""
    return AGENTS[name].linear


def load(path: str | os.PathLike[str]) -> LearningAgent:
    """Takes a saved agent out of its file: it goes on exactly, bit for bit, where ``agent.save(path)`` left it.

    The file holds personal data and is used up: a second agent that went on from it would use the same noise twice.
    If anything goes wrong before the agent is there, the file stays where it was.

    Guarantee:
        That of the agent that was saved: what was calibrated then is taken from the file, and the guarantee is
        computed from it.

    Raises:
        InvalidInput: If there is no file (it may have been loaded), or if it is damaged or not a saved agent.
        OSError: If it cannot be read or removed.
    """
    found: LearningAgent = importlib.import_module("discreet.runtime.handover").load(path)  # a room below
    return found


def summary(name: str) -> str:
    """Returns one line that says what an agent is."""
    if name == "auto":
        return "The best of these for the trust model and the budget, chosen from public numbers alone."
    return (AGENTS[name].__doc__ or "").strip().split("\n", maxsplit=1)[0]


def __getattr__(name: str) -> Any:
    if name == "NAMES":  # others may have added theirs
        return AGENTS.names
    if name in ("Agent", "LearningAgent"):
        return getattr(importlib.import_module("discreet.agents.base"), name)
    if name == "Plan":
        return importlib.import_module("discreet.agents.rounds").Plan
    if name == "TabularAgent":
        return importlib.import_module("discreet.agents.tabular").TabularAgent
    raise AttributeError(f"module 'discreet.agents' has no attribute {name!r}")

"""Learning agents: `make` one by name; one file per algorithm, to be read beside the paper."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput, UnknownName, check_integer

if TYPE_CHECKING:
    import os

    from discreet.agents.base import LearningAgent
    from discreet.mdp import Spec
    from discreet.noise import Seed

__all__ = [
    "NAMES",
    "PRESETS",
    "defaults",
    "epsilon_follows",
    "is_linear",
    "is_private",
    "load",
    "make",
    "protects",
    "summary",
]

_AGENTS = {
    "ucbvi": ("discreet.agents.ucbvi", "UCBVI"),
    "ubev": ("discreet.agents.ubev", "UBEV"),
    "pucb": ("discreet.agents.pucb", "PUCB"),
    "dp-ucbvi": ("discreet.agents.dp_ucbvi", "DPUCBVI"),
    "private-ucb-vi": ("discreet.agents.private_ucb_vi", "PrivateUCBVI"),
    "private-ucb-po": ("discreet.agents.private_ucb_po", "PrivateUCBPO"),
    "rlsvi": ("discreet.agents.rlsvi", "RLSVI"),
    "sdp-pe": ("discreet.agents.sdp_pe", "SDPPE"),
    "linopt-vi": ("discreet.agents.linopt_vi", "LinOptVI"),
    "linopt-po": ("discreet.agents.linopt_po", "LinOptPO"),
    "discreet-vi": ("discreet.agents.discreet", "DiscreetVI"),
}

#: Every name that `make` knows.
NAMES: tuple[str, ...] = (*_AGENTS, "auto")
#: What the bonuses are scaled for: the theorems, or use.
PRESETS: tuple[str, ...] = ("theory", "practical")


def _class(name: str) -> type[LearningAgent]:
    if name not in NAMES:
        raise UnknownName("agent", name, NAMES)
    module, attribute = _AGENTS["dp-ucbvi" if name == "auto" else name]
    found: type[LearningAgent] = getattr(importlib.import_module(module), attribute)
    return found


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
    from discreet.agents.base import no_trust
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

    kind = _class(name)
    if name == "auto":
        if not isinstance(privacy := options.get("privacy"), TrustModel):
            raise no_trust(name, privacy)
        given = {key: value for key, value in options.items() if value is not None}
        asked = {"preset": given["preset"]} if "preset" in given else {}
        name, defaults = choose(privacy, check_integer("episodes", episodes), spec, **asked)
        kind = _class(name)
        options = {**defaults, **given}
    if not isinstance(spec, Spec):
        raise InvalidInput(f"spec must be a Spec such as mdp.spec, got {type(spec).__name__}")
    known = _options(kind)
    for key in options:
        if key not in known:
            raise UnknownName(f"option of {name}", key, known)
    return kind(spec, episodes=episodes, seed=seed, **options)


def _options(kind: type[LearningAgent]) -> dict[str, Any]:
    """Returns what an agent takes beside the sizes and the seed, and the defaults."""
    parameters = inspect.signature(kind).parameters
    return {key: found.default for key, found in parameters.items() if key not in ("spec", "episodes", "seed")}


def defaults(name: str) -> dict[str, Any]:
    """Returns the options of an agent and their defaults."""
    return _options(_class(name))


def epsilon_follows(options: dict[str, Any]) -> bool:
    """Returns whether ε follows from a noise scale among the options of an agent, so that there is no budget."""
    return options.get("noise_scale") is not None and options.get("accounting") != "individual"


def is_private(name: str) -> bool:
    """Returns whether an agent takes a private trust model."""
    return _class(name).private


def protects(name: str) -> str:
    """Returns what of a person an agent's guarantee protects: ``"trajectory"`` or ``"rewards"``."""
    return _class(name).protects


def is_linear(name: str) -> bool:
    """Returns whether an agent learns from sums of feature products instead of counts."""
    return _class(name).linear


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
    return (_class(name).__doc__ or "").strip().split("\n", maxsplit=1)[0]


def __getattr__(name: str) -> Any:
    if name in ("Agent", "LearningAgent"):
        return getattr(importlib.import_module("discreet.agents.base"), name)
    if name == "Plan":
        return importlib.import_module("discreet.agents.rounds").Plan
    if name == "TabularAgent":
        return importlib.import_module("discreet.agents.tabular").TabularAgent
    raise AttributeError(f"module 'discreet.agents' has no attribute {name!r}")

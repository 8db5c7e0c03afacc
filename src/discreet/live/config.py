"""The configuration of a deployment: a dict or a TOML file, checked before anything is made of it."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet import agents, envs
from discreet.errors import InvalidInput, UnknownName, check_flag, check_integer, check_number
from discreet.mdp import Spec
from discreet.privacy import Budget
from discreet.privacy.trust import TRUST_MODELS, NonPrivate, options, trust

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from discreet.mdp import FiniteMDP
    from discreet.privacy import TrustModel

__all__ = ["TIMINGS", "Config", "duration", "read"]

TIMINGS = ("private", "public")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_LABEL = 40  # characters
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_WORDS = {
    **dict.fromkeys(("s", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}


@dataclass(frozen=True)
class Config:
    """What a deployment is. All of it is public.

    Attributes:
        name: Of the deployment: small letters, digits, ``-`` and ``_``.
        world: States, actions, horizon and initial distribution (or an environment's name, for simulations), and labels
            for people to read.
        agent: Its name, ``episodes`` (the capacity, in slots) and its options.
        privacy: The trust model's name, under ``trust``, and its options. Noise is secure by default.
        timing: ``"private"``: batches close by starts and the clock alone. ``"public"``: also when all have reported.
        report_within: Seconds after a start in which a report is taken.
        window: Seconds in which a batch takes people; None is until all slots are given out.
        episodes_per_person: How many slots a person may have, k, one a batch; the guarantee is that of groups of k.
        anonymous: Whether people may start without a pseudonym; then the app vouches for k.
        gone: An absorbing state for what comes after a person has left; None if there is none.
        population: Whose ledger is charged: deployments on the same people share one.
        population_budget: The ledger's budget, (ε, δ), if it is made with this deployment.
        simulation: Whether fast noise, no privacy and agents that real people must not meet are allowed.
        seed: In simulation: of the agent and its noise.
    """

    name: str
    world: dict[str, Any]
    agent: dict[str, Any]
    privacy: dict[str, Any]
    timing: str = "private"
    report_within: float = 86400.0
    window: float | None = None
    episodes_per_person: int = 1
    anonymous: bool = False
    gone: int | None = None
    population: str = ""
    population_budget: tuple[float, float] | None = None
    simulation: bool = False
    seed: Any = None
    spec: Spec = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    @property
    def episodes(self) -> int:
        """Slots in all."""
        found: int = self.agent["episodes"]
        return found

    def trust(self) -> TrustModel:
        """Returns the trust model."""
        given = {key: value for key, value in self.privacy.items() if key != "trust"}
        return trust(self.privacy["trust"], **given)

    def make(self, seed: Any) -> Any:
        """Returns the agent."""
        given = {key: value for key, value in self.agent.items() if key not in ("name", "episodes")}
        model = self.trust()
        if agents.is_private(self.agent["name"]) or not isinstance(model, NonPrivate):
            given["privacy"] = model
        return agents.make(self.agent["name"], self.spec, episodes=self.episodes, seed=seed, **given)

    def to_document(self) -> dict[str, Any]:
        """Returns all of it as JSON can hold it: `read` takes it again."""
        found = {
            "name": self.name,
            "world": self.world,
            "agent": self.agent,
            "privacy": self.privacy,
            "timing": self.timing,
            "report_within": self.report_within,
            "window": self.window,
            "episodes_per_person": self.episodes_per_person,
            "anonymous": self.anonymous,
            "population": {"name": self.population},
            "simulation": self.simulation,
            "seed": self.seed,
        }
        if self.population_budget is not None:
            found["population"] |= dict(zip(("epsilon", "delta"), self.population_budget, strict=True))
        return {key: value for key, value in found.items() if value is not None}


def read(given: Mapping[str, Any] | str | os.PathLike[str]) -> Config:
    """Returns a configuration.

    Args:
        given: A dict, or the path of a TOML file.

    Raises:
        InvalidInput: If a key is not known (it suggests one) or a value is out of bounds (it names it).
    """
    if isinstance(given, (str, os.PathLike)):
        return read(_toml(given))
    document = dict(given)
    _known("key", document, _TOP)
    for key in ("name", "world", "agent", "privacy"):
        if key not in document:
            raise InvalidInput(f"a deployment needs {key!r}")
    name = document["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(f"name must be small letters, digits, - and _, 63 at most, got name={name!r}")
    world, spec, gone = _world(document["world"])
    simulation = check_flag("simulation", document.get("simulation", False))
    population, budget = _population(document.get("population"), name)
    timing = document.get("timing", "private")
    if timing not in TIMINGS:
        raise UnknownName("timing", timing, TIMINGS)
    window = document.get("window")
    if "seed" in document and not simulation:
        raise InvalidInput("seed is for simulation = true: nobody may be able to draw a deployment's noise again")
    config = Config(
        name=name,
        world=world,
        agent=_agent(document["agent"]),
        privacy=_privacy(document["privacy"]),
        timing=timing,
        report_within=duration("report_within", document.get("report_within", "1 day")),
        window=None if window is None else duration("window", window),
        episodes_per_person=check_integer("episodes_per_person", document.get("episodes_per_person", 1)),
        anonymous=check_flag("anonymous", document.get("anonymous", False)),
        gone=gone,
        population=population,
        population_budget=budget,
        simulation=simulation,
        seed=document.get("seed"),
        spec=spec,
    )
    _check_people(config)
    return config


_TOP = (
    *("name", "world", "agent", "privacy", "timing", "report_within", "window", "episodes_per_person", "anonymous"),
    *("population", "simulation", "seed"),
)


def duration(name: str, value: object) -> float:
    """Returns seconds: a number of them, or a text such as ``"90 min"`` or ``"2 days"``."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]+)\s*", value)
        if found is None or found[2] not in _WORDS:
            raise InvalidInput(f"{name} must be a time such as '30 s', '90 min', '8 h' or '2 days', got {value!r}")
        return check_number(name, float(found[1]) * _UNITS[_WORDS[found[2]]], above=True)
    return check_number(name, value, above=True)


def _toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{str(path)!r} is no TOML: {error}") from None


def _known(kind: str, found: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in found:
        if key not in (known := tuple(known)):
            raise UnknownName(kind, key, known)


def _table(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"[{name}] must be a table, got {value!r}")
    return dict(value)


def _world(given: object) -> tuple[dict[str, Any], Spec, int | None]:
    """Returns the table, the sizes and the state ``gone``."""
    world: dict[str, Any] = {"env": given} if isinstance(given, str) else _table("world", given)
    if "env" in world:
        _known("key of [world]", world, ("env", "labels"))
        found = environment(world).spec
        _check_labels(world, found)
        return world, found, None
    _known("key of [world]", world, ("states", "actions", "horizon", "initial", "gone", "labels"))
    for key in ("states", "actions", "horizon"):
        if key not in world:
            raise InvalidInput(f"[world] needs {key!r}")
    spec = Spec(world["states"], world["actions"], world["horizon"], world.get("initial"))  # type: ignore[arg-type]
    _check_labels(world, spec)
    gone = world.get("gone")
    if gone is not None:
        check_integer("gone", gone, least=0, most=spec.states - 1)
    return world, spec, gone


def _check_labels(world: Mapping[str, Any], spec: Spec) -> None:
    """Checks what people are shown for states and actions: a short text for each, or nothing."""
    labels = _table("world.labels", world.get("labels", {}))
    _known("key of [world.labels]", labels, ("states", "actions"))
    for key, given in labels.items():
        size = getattr(spec, key)
        texts = isinstance(given, list) and all(isinstance(each, str) and 1 <= len(each) <= _LABEL for each in given)
        if not texts or len(given) != size:
            raise InvalidInput(f"[world.labels] {key} must be {size} texts of 1 to {_LABEL} characters, got {given!r}")


def environment(world: Mapping[str, Any]) -> FiniteMDP:
    """Returns the environment that a configuration names."""
    return envs.read(str(world["env"]))


def _agent(given: object) -> dict[str, Any]:
    agent = {"name": "auto", **_table("agent", given)}
    if not isinstance(agent["name"], str):
        raise InvalidInput(f"[agent] has a name that is no text: {agent['name']!r}")
    if "episodes" not in agent:
        raise InvalidInput("[agent] needs 'episodes': how many slots there are in all")
    check_integer("episodes", agent["episodes"])
    known = agents.table() if agent["name"] == "auto" else agents.table(agent["name"])
    _known(f"option of {agent['name']}", agent, ("name", "episodes", *known))
    return agent


def _privacy(given: object) -> dict[str, Any]:
    privacy = _table("privacy", given)
    if "trust" not in privacy:
        raise InvalidInput(f"[privacy] needs 'trust': one of {', '.join(TRUST_MODELS)}")
    name = privacy["trust"]
    if not isinstance(name, str) or name not in TRUST_MODELS:
        raise UnknownName("trust model", name, TRUST_MODELS)
    known = options(name)
    _known(f"key of [privacy] with trust = {name!r}", privacy, ("trust", *known))
    if "epsilon" in known and "epsilon" not in privacy:
        raise InvalidInput(f"[privacy] with trust = {name!r} needs 'epsilon': the budget of one episode")
    if "noise" in known:
        privacy = {"noise": "secure", **privacy}
    return privacy


def _population(given: object, name: str) -> tuple[str, tuple[float, float] | None]:
    table: dict[str, Any] = (
        {"name": given} if isinstance(given, str) else _table("population", {} if given is None else given)
    )
    _known("key of [population]", table, ("name", "epsilon", "delta"))
    found = table.get("name", name)
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise InvalidInput(f"a population's name must be small letters, digits, - and _, got {found!r}")
    if "epsilon" not in table:
        if "delta" in table:
            raise InvalidInput("[population] has a delta but no epsilon")
        return found, None
    budget = Budget(table["epsilon"], table.get("delta", 0.0))
    return found, (budget.epsilon, budget.delta)


def _check_people(config: Config) -> None:
    """Refuses what real people must not meet."""
    if config.simulation:
        return
    privacy, name = config.privacy, config.agent["name"]
    if privacy["trust"] == "none" or not agents.is_private(name):
        raise InvalidInput(
            "a deployment protects its people: trust='none' and agents without privacy need simulation = true"
        )
    if privacy.get("noise") != "secure":
        raise InvalidInput(f"noise={privacy.get('noise')!r} is for simulation = true: real people need noise='secure'")
    if agents.protects(name) != "trajectory":
        raise InvalidInput(
            f"{name} protects rewards only, and its proof takes neighbours to visit the same states: somebody who "
            "stays away is none of them; it needs simulation = true"
        )

"""A sweep: which runs there are, all checked before the first one begins.

It is a table of keys. A key with a list of values is a grid; ``[[setting]]`` tables are alternatives that share the
keys above them:

    env = "riverswim"
    episodes = 50_000
    runs = 5
    stationary = true

    [[setting]]
    agent = "ucbvi"

    [[setting]]
    agent = ["dp-ucbvi", "pucb"]
    epsilon = [0.3, 1, 3]
    delta = 1e-6
"""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import tomllib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet import agents, envs
from discreet.errors import DiscreetError, InvalidInput, UnknownName, check_integer
from discreet.privacy import trust

if TYPE_CHECKING:
    from discreet.agents.base import LearningAgent
    from discreet.mdp import FiniteMDP

__all__ = ["KEYS", "Setting", "Sweep", "build"]


class Kind(NamedTuple):
    """What values a key takes."""

    types: tuple[type, ...]
    words: str

    def fits(self, value: Any) -> bool:
        """Whether a value is of this kind; a bool is no number."""
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))


_NUMBER, _WHOLE = Kind((int, float), "a number"), Kind((int,), "a whole number")
_TEXT, _FLAG = Kind((str,), "a text"), Kind((bool,), "true or false")
#: The keys of a setting, and which values they take; every one may be a list, which is a grid.
KEYS: dict[str, Kind] = {
    "env": _TEXT,
    "agent": _TEXT,
    "trust": _TEXT,
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "sum": _TEXT,
    "calibration": _TEXT,
    "release": _TEXT,
    "noise": _TEXT,
    "randomiser": _TEXT,
    "honest_fraction": _NUMBER,
    "preset": _TEXT,
    "stationary": _FLAG,
    "share_steps": _FLAG,
    "update_every": Kind((int, str), "a whole number or a text"),
    "policies": _TEXT,
    "failure": _NUMBER,
    "bonus_scale": _NUMBER,
    "accounting": _TEXT,
    "noise_scale": _NUMBER,
    "feature_bound": _NUMBER,
    "episodes": _WHOLE,
}
_TRUST = ("epsilon", "delta", "sum", "calibration", "release", "noise", "randomiser", "honest_fraction")
_OPTIONS = (
    *("preset", "stationary", "update_every", "failure", "bonus_scale"),
    *("share_steps", "policies", "accounting", "noise_scale", "feature_bound"),
)
#: The keys of the whole sweep.
_WHOLE_SWEEP = ("name", "runs", "seed", "alpha", "keep", "setting")


@dataclass(frozen=True)
class Setting:
    """One cell of a sweep: what its runs have in common.

    Attributes:
        env: The environment, as it is written.
        agent: The agent's name.
        trust: The trust model's name.
        privacy: What the trust model is asked for.
        options: What else the agent gets.
        episodes: People a run.
        resolved: What became of all that was left open: the agent, its options, the sum and its noise.
    """

    env: str
    agent: str
    trust: str
    privacy: dict[str, Any]
    options: dict[str, Any]
    episodes: int
    resolved: dict[str, Any]

    def config(self, seed: list[int], alpha: list[float]) -> dict[str, Any]:
        """Returns the whole configuration of one run: all that its numbers depend on."""
        return {
            "env": self.env,
            "agent": self.agent,
            "trust": self.trust,
            "privacy": self.privacy,
            "options": self.options,
            "episodes": self.episodes,
            "resolved": self.resolved,
            "seed": seed,
            "alpha": alpha,
        }


@dataclass(frozen=True)
class Sweep:
    """Settings, and how often each is run.

    Attributes:
        name: What it is called.
        settings: Without repetitions.
        runs: Of each setting; run i has the seed ``[seed, i]`` for the agent and for the people.
        seed: The seed.
        alpha: Which gaps count as suboptimal.
        keep: How many episodes of a curve are kept.
    """

    name: str
    settings: tuple[Setting, ...]
    runs: int = 1
    seed: int = 0
    alpha: tuple[float, ...] = (0.1, 1.0)
    keep: int = 1000

    @classmethod
    def read(cls, path: Path) -> Sweep:
        """Returns the sweep that a TOML file declares.

        Raises:
            InvalidInput: In one line that names the file and what is wrong in it.
        """
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} is no TOML: {error}") from None
        try:
            return cls.make({"name": path.stem, **document})
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    @classmethod
    def make(cls, document: dict[str, Any]) -> Sweep:
        """Returns the sweep that a table declares, with everything checked: an agent is built for each setting."""
        known = [*KEYS, *_WHOLE_SWEEP]
        for key in document:
            if key not in known:
                raise UnknownName("key", key, known)
        tables = document.get("setting", [{}])
        if not (isinstance(tables, list) and tables and all(isinstance(table, dict) for table in tables)):
            raise InvalidInput("setting must be tables, each headed [[setting]]")
        shared = {key: value for key, value in document.items() if key in KEYS}
        settings: dict[str, Setting] = {}
        for i, table in enumerate(tables):
            where = f"setting {i + 1}" if "setting" in document else "the sweep"
            _check_keys(table, where)
            for identity, setting in _expand({**shared, **table}, where):
                if identity in settings:
                    again, first = (text(found.config([0, 0], [])) for found in (setting, settings[identity]))
                    why = "" if again == first else f" comes to the same as {first}"
                    raise InvalidInput(f"{where} repeats a setting: {again}{why}")
                settings[identity] = setting
        alpha = document.get("alpha", [0.1, 1.0])
        if not isinstance(alpha, list) or not all(_NUMBER.fits(value) and 0 <= value < float("inf") for value in alpha):
            raise InvalidInput(f"alpha must be a list of gaps, got alpha={alpha!r}")
        return cls(
            name=_checked_name(document.get("name", "sweep")),
            settings=tuple(settings.values()),
            runs=check_integer("runs", document.get("runs", 1)),
            seed=check_integer("seed", document.get("seed", 0), least=0, most=2**128),
            alpha=tuple(float(value) for value in alpha),
            keep=check_integer("keep", document.get("keep", 1000), least=2),
        )

    @cached_property
    def configs(self) -> list[dict[str, Any]]:
        """The configuration of every run: run 0 of all settings, then run 1, and so on."""
        return [
            setting.config([self.seed, i], list(self.alpha))
            for i, setting in itertools.product(range(self.runs), self.settings)
        ]


def _check_keys(table: dict[str, Any], where: str) -> None:
    """Raises unless all keys are those of a setting."""
    for key in table:
        if key in _WHOLE_SWEEP:
            raise InvalidInput(f"{key} of {where} is a key of the whole sweep: it goes above the settings")
        if key not in KEYS:
            raise UnknownName(f"key of {where}", key, KEYS)


def _checked_name(name: Any) -> str:
    """Returns the name of a sweep, which names a directory here and nowhere else."""
    if not isinstance(name, str) or not name or name != Path(name).name or not name.isprintable():
        raise InvalidInput(f"name must be a text that can name a directory, got name={name!r}")
    return name


def _expand(table: dict[str, Any], where: str) -> list[tuple[str, Setting]]:
    """Returns the settings of one table, the product of its lists, and what tells whether two are the same."""
    for key in ("env", "agent"):
        if key not in table:
            raise InvalidInput(f"{where} needs the key {key}")
    grid = {}
    for key, value in table.items():
        values = value if isinstance(value, list) else [value]
        if not values or not all(KEYS[key].fits(entry) for entry in values):
            raise InvalidInput(f"{key} of {where} must be {KEYS[key].words}, or a list of such, got {value!r}")
        grid[key] = values
    settings = []
    for cell in itertools.product(*grid.values()):
        given = dict(zip(grid, cell, strict=True))
        try:
            settings.append(_setting(given))
        except DiscreetError as error:
            raise InvalidInput(f"{where}: {error}") from None
    return settings


def _setting(given: dict[str, Any]) -> tuple[str, Setting]:
    """Returns a setting and its identity; builds its agent once, so that whatever is wrong with it is said now.

    However they are written, settings are the same if environment, agent and trust model are.
    """
    asked = {key: given[key] for key in _TRUST if key in given}
    name = given.get("trust", "central" if agents.is_private(given["agent"]) else "none")
    options = {key: given[key] for key in _OPTIONS if key in given}
    if name == "central" and "epsilon" not in given and agents.epsilon_follows(given):
        options |= asked  # no budget, and δ goes with the noise scale
        asked = {}
    elif name != "none":
        asked.setdefault("epsilon", 1.0)
    setting = Setting(
        given["env"],
        given["agent"],
        name,
        asked,
        options,
        check_integer("episodes", given.get("episodes", 5000)),
        {},
    )
    mdp, agent = build(setting.config([0, 0], []))
    setting = replace(setting, resolved=agent.resolved)
    model = hashlib.sha256(pickle.dumps(mdp))
    return f"{model.hexdigest()} {setting.resolved} {agent.options.get('privacy')} {setting.episodes}", setting


def build(config: dict[str, Any]) -> tuple[FiniteMDP, LearningAgent]:
    """Returns the environment and a new agent of one run."""
    mdp = envs.read(config["env"])
    budgeted = config["privacy"] or config["trust"] == "none"  # else ε follows from the options
    privacy = trust(config["trust"], **config["privacy"]) if budgeted else None
    return mdp, agents.make(
        config["agent"],
        mdp.spec,
        episodes=config["episodes"],
        privacy=privacy,
        seed=config["seed"],
        **config["options"],
    )


def text(config: dict[str, Any]) -> str:
    """Returns a configuration in one line, for people: what it is, and what is not left to its default."""
    parts = [config["agent"], config["env"]]
    parts += [config["trust"]] + [f"{key} {value}" for key, value in config["privacy"].items()]
    parts += [f"{key.replace('_', ' ')} {json.dumps(value)}" for key, value in config["options"].items()]
    return ", ".join(parts)

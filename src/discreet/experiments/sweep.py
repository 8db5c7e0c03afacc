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

import itertools
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import DiscreetError, InvalidInput, UnknownName, check_integer
from discreet.experiments.setting import Setting, keys
from discreet.registry.options import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.experiments.configs import RunConfig

__all__ = ["Sweep"]

#: The keys of the whole sweep.
_WHOLE_SWEEP = ("name", "runs", "seed", "alpha", "keep", "setting")


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

    def __post_init__(self) -> None:
        if (
            not isinstance(self.name, str)
            or not self.name
            or self.name != Path(self.name).name
            or not self.name.isprintable()
        ):
            raise InvalidInput(f"name must be a text that can name a directory, got name={self.name!r}")
        for name, least, most in (("runs", 1, 2**53), ("seed", 0, 2**128), ("keep", 2, 2**53)):
            check_integer(name, getattr(self, name), least=least, most=most)
        for value in self.alpha:
            if not 0 <= value < float("inf"):
                raise InvalidInput(f"alpha must be a finite gap, got alpha={value!r}")

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
    def make(cls, document: Mapping[str, Any]) -> Sweep:
        """Returns the sweep that a table declares, with everything checked: an agent is built for each setting."""
        known = keys()
        for key in document:
            if key not in (*known, *_WHOLE_SWEEP):
                raise UnknownName("key", key, [*known, *_WHOLE_SWEEP])
        tables = document.get("setting", [{}])
        if not (isinstance(tables, list) and tables and all(isinstance(table, dict) for table in tables)):
            raise InvalidInput("setting must be tables, each headed [[setting]]")
        shared = {key: value for key, value in document.items() if key in known}
        settings: dict[str, Setting] = {}
        for i, table in enumerate(tables):
            where = f"setting {i + 1}" if "setting" in document else "the sweep"
            for setting in _expand({**shared, **table}, where):
                first = settings.setdefault(setting.identity, setting)
                if first is not setting:
                    why = "" if setting.text == first.text else f" comes to the same as {first.text}"
                    raise InvalidInput(f"{where} repeats a setting: {setting.text}{why}")
        alpha = document.get("alpha", [0.1, 1.0])
        if not isinstance(alpha, list) or any(isinstance(a, bool) or not isinstance(a, int | float) for a in alpha):
            raise InvalidInput(f"alpha must be a list of gaps, got alpha={alpha!r}")
        return cls(
            document.get("name", "sweep"),
            tuple(settings.values()),
            alpha=tuple(map(float, alpha)),
            **{key: document[key] for key in ("runs", "seed", "keep") if key in document},
        )

    @cached_property
    def configs(self) -> list[RunConfig]:
        """The configuration of every run: run 0 of all settings, then run 1, and so on."""
        return [
            setting.config([self.seed, i], list(self.alpha))
            for i, setting in itertools.product(range(self.runs), self.settings)
        ]


def _expand(table: Mapping[str, Value | list[Value]], where: str) -> list[Setting]:
    """Returns the settings of one table: the product of its lists."""
    known, grid = keys(), dict[str, list[Value]]()
    for key, value in table.items():
        if key in _WHOLE_SWEEP:
            raise InvalidInput(f"{key} of {where} is a key of the whole sweep: it goes above the settings")
        if key not in known:
            raise UnknownName(f"key of {where}", key, known)
        values = value if isinstance(value, list) else [value]
        if not values or not all(known[key].fits(entry) for entry in values):
            raise InvalidInput(f"{key} of {where} must be {known[key].expects}, or a list of such, got {value!r}")
        grid[key] = values
    for key in ("env", "agent"):
        if key not in table:
            raise InvalidInput(f"{where} needs the key {key}")
    try:
        return [Setting.make(dict(zip(grid, cell, strict=True))) for cell in itertools.product(*grid.values())]
    except DiscreetError as error:
        raise InvalidInput(f"{where}: {error}") from None

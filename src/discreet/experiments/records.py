"""What is kept of a finished run: a row that says all about it, and its curve, thinned.

All of it is computed by the simulator: from public settings, from its exact model and from the policies that were
played, which learn from simulated people only.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import math
import os
import platform
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__
from discreet.errors import InvalidInput, check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from discreet.experiments.configs import Host, Labels, Promised, RunConfig, Value

__all__ = [
    "Curve",
    "RunRow",
    "canonical",
    "columns",
    "host_facts",
    "plain",
    "run_key",
    "source_commit",
    "summarise",
    "thin",
]


def run_key(config: Mapping[str, object]) -> str:
    """Returns the identity of a run: 16 hex digits of the SHA-256 of its configuration.

    Equal configurations have equal keys: the order of entries does not matter, nor whether it says 1 or 1.0.
    """
    return hashlib.sha256(canonical(plain(config, whole=True)).encode()).hexdigest()[:16]


def plain(value: object, *, whole: bool = False, where: str = "config") -> Any:
    """Returns a copy as JSON would give it back; with ``whole``, 1.0 becomes 1. Refuses what JSON cannot hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"a stored number must be finite, got {where}={value!r}")
        return int(value) if whole and value.is_integer() and abs(value) < 2**53 else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(part, whole=whole, where=f"{where}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(part, whole=whole, where=f"{where}.{key}") for key, part in value.items()}
    raise InvalidInput(f"JSON cannot hold {where}={value!r}")


def canonical(value: object) -> str:
    """Returns the canonical text: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, eq=False)
class Curve:
    """Regret at some of the episodes, exact there.

    Attributes:
        episodes: The kept episodes, from 1 on, increasing; the first and the last are among them, (n,).
        regret: Cumulative regret after each of them, (n,).
        gaps: The gap of each of them, (n,). Mean gaps in between are differences of ``regret``.
        total: How many episodes there were.
    """

    episodes: NDArray[np.int64]
    regret: NDArray[np.float64]
    gaps: NDArray[np.float64]
    total: int

    @property
    def thinning(self) -> str:
        """How it was thinned, in words."""
        n = len(self.episodes)
        kept = "all" if n == self.total else f"{n:,} of"
        return f"{kept} {self.total:,} episodes, values exact at those kept"

    def mean_gap(self, after: int) -> float:
        """Returns the mean gap of all episodes after one, interpolated where that was not kept."""
        before = float(np.interp(after, np.append(0, self.episodes), np.append(0.0, self.regret)))
        return (float(self.regret[-1]) - before) / (self.total - after)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Curve)
            and self.total == other.total
            and np.array_equal(self.episodes, other.episodes)
            and np.array_equal(self.regret, other.regret)
            and np.array_equal(self.gaps, other.gaps)
        )

    __hash__ = None  # type: ignore[assignment]


def thin(regret: NDArray[np.float64], gaps: NDArray[np.float64], keep: int = 1000) -> Curve:
    """Keeps at most ``keep`` episodes: half of them on a geometric grid, the rest on a linear one.

    The first and the last episode are among them; all are, if there are no more than ``keep``. Which ones depends on
    the number of episodes and ``keep`` alone, so that curves can be averaged point by point.
    """
    regret, gaps = np.asarray(regret, dtype=np.float64), np.asarray(gaps, dtype=np.float64)
    if gaps.ndim != 1 or regret.shape != gaps.shape or not len(gaps):
        raise InvalidInput(f"regret and gaps must be of one length, got shapes {regret.shape} and {gaps.shape}")
    if not (np.isfinite(gaps).all() and np.isfinite(regret).all()):
        raise InvalidInput("regret and gaps must be finite")
    n = len(gaps)
    check_integer("keep", keep, least=2)
    if n <= keep:
        kept = np.arange(1, n + 1)
    else:
        geometric = np.unique(np.rint(np.geomspace(1, n, max(2, keep // 2))).astype(np.int64))
        linear = np.rint(np.linspace(1, n, keep - len(geometric) + 2)).astype(np.int64)  # both ends are there twice
        kept = np.union1d(geometric, linear)
    kept = kept.astype(np.int64)
    return Curve(kept, regret[kept - 1], gaps[kept - 1], n)


@dataclass(frozen=True)
class RunRow:
    """What the index knows of a run.

    Attributes:
        key: Its identity, `run_key` of ``config``.
        config: All that is needed to run it again: env (and env_parameters, if they are not in it), agent, options,
            trust, privacy, episodes, seed ``[S, i]``, alpha.
        guarantee: What was proven, as `Guarantee.to_dict` says it.
        regret: Regret after the last episode.
        suboptimal: For every α, how many episodes have a larger gap.
        episodes: Number of people.
        thinning: How the curve was thinned.
        version: Of this library.
        commit: Of its source, if it is a git checkout; ``-dirty`` if that was changed.
        wall_seconds: How long it took.
        cpu_seconds: How much processor time it took.
        host: Where it ran; see `host_facts`.
        created: When it was done, UTC.
    """

    key: str
    config: RunConfig
    guarantee: Promised
    regret: float
    suboptimal: dict[str, int]
    episodes: int
    thinning: str
    version: str
    commit: str | None
    wall_seconds: float
    cpu_seconds: float
    host: Host
    created: str

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.guarantee["notion"] != "none"

    @property
    def epsilon(self) -> float:
        """The ε that was proven; infinite if nothing is promised."""
        proven = self.guarantee["epsilon"]
        return math.inf if proven is None else float(proven)

    @property
    def asked(self) -> float | None:
        """The ε that was asked for; None if none was."""
        return _number((self.config.get("privacy") or {}).get("epsilon"))

    @property
    def labels(self) -> Labels:
        """What tells it from other runs, one plain value each; ``setting`` is shared by all seeds."""
        config, guarantee = self.config, self.guarantee
        parameters, privacy = config.get("env_parameters") or {}, config.get("privacy") or {}
        given = ",".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        seed, run = config["seed"]
        return {
            "key": self.key,
            "setting": run_key({name: value for name, value in config.items() if name != "seed"}),
            "env": config["env"] + (":" if given else "") + given,
            "agent": config["agent"],
            "options": canonical(plain(config.get("options") or {}, whole=True)),
            "trust": config["trust"],
            "privacy": canonical(plain(privacy, whole=True)),
            "epsilon_requested": self.asked,
            "delta_requested": _number(privacy.get("delta")),
            "epsilon_proven": _number(guarantee["epsilon"]),
            "delta_proven": _number(guarantee["delta"]),
            "seed": str(seed),  # may have 128 bits
            "run": run,
        }


def summarise(
    config: Mapping[str, object],
    gaps: NDArray[np.float64],
    guarantee: Mapping[str, object],
    *,
    wall_seconds: float,
    cpu_seconds: float,
    keep: int = 1000,
) -> tuple[RunRow, Curve]:
    """Returns what `Store.put` takes. Call it where the run was done: it looks at this host.

    Args:
        config: What was run; see `RunRow`.
        gaps: Of every episode, (K,).
        guarantee: What was proven, as `Guarantee.to_dict` says it.
        wall_seconds: How long it took.
        cpu_seconds: How much processor time it took.
        keep: How many episodes of the curve to keep.

    Raises:
        InvalidInput: If the configuration lacks something, or the gaps are not as many as it says.
    """
    for name in ("env", "agent", "trust", "episodes", "seed"):
        if name not in config:
            raise InvalidInput(f"a configuration must say {name}, got {', '.join(sorted(config))}")
    kept: RunConfig = plain(config)
    promised: Promised = plain(guarantee, where="guarantee")
    gaps = np.asarray(gaps, dtype=np.float64)
    if not (isinstance(kept["seed"], list) and len(kept["seed"]) == 2):
        raise InvalidInput(f"the seed of a run is [S, i], got seed={kept['seed']!r}")
    check_integer("run", kept["seed"][1], least=0)
    if kept["episodes"] != len(gaps):
        raise InvalidInput(f"the configuration says episodes={kept['episodes']}, got {len(gaps)} gaps")
    curve = thin(np.cumsum(gaps), gaps, keep)
    row = RunRow(
        key=run_key(kept),
        config=kept,
        guarantee=promised,
        regret=float(curve.regret[-1]),
        suboptimal={str(float(alpha)): int((gaps > alpha).sum()) for alpha in kept.get("alpha") or ()},
        episodes=curve.total,
        thinning=curve.thinning,
        version=__version__,
        commit=source_commit(),
        wall_seconds=check_number("wall_seconds", wall_seconds),
        cpu_seconds=check_number("cpu_seconds", cpu_seconds),
        host=host_facts(),
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    return row, curve


def host_facts() -> Host:
    """Returns where this runs, and on what: nothing about who runs it."""
    return {
        "node": platform.node(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("numba", "numpy", "scipy")},
    }


_version = functools.cache(metadata.version)


@functools.cache
def source_commit() -> str | None:
    """Returns the git commit of this library's source, ``-dirty`` if it was changed; None if git does not track it."""
    git = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent.parent)]
    ours = ["ls-files", "--error-unmatch", "__init__.py"]  # somebody's repository may have us in it, in a venv
    described = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    commit = ""
    try:
        for command in (ours, described):
            commit = subprocess.run([*git, *command], capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return None
    return commit.strip() or None


def _number(value: Value) -> float | None:
    return None if value is None else float(value)


def columns(row: RunRow, curve: Curve) -> dict[str, object]:
    """Returns the curve as a table, by column: a plain value stands for a column of that value."""
    return {**row.labels, "episode": curve.episodes, "regret": curve.regret, "gap": curve.gaps}

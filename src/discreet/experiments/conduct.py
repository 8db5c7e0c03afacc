"""Conducts a sweep: does the runs that are missing, and stores each as it finishes."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput, StoreError, UnknownName, check_integer
from discreet.experiments import engine as engines
from discreet.experiments.records import run_key
from discreet.experiments.setting import build, text
from discreet.experiments.store import Store
from discreet.runtime.progress import Board
from discreet.runtime.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from discreet.experiments.configs import RunConfig
    from discreet.experiments.sweep import Sweep

__all__ = ["Outcome", "check", "conduct", "expected_seconds", "missing", "opened"]

_PROBE = 200  # episodes that tell how long all will take


@dataclass
class Outcome:
    """How far a sweep came.

    Attributes:
        total: Runs of the sweep.
        before: How many were there already.
        done: How many were done now.
        failed: What went wrong, one line a run.
        interrupted: Whether somebody stopped it; what is done is stored.
    """

    total: int
    before: int = 0
    done: int = 0
    failed: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether every run is in the store."""
        return self.before + self.done == self.total


def missing(sweep: Sweep, directory: Path) -> list[RunConfig]:
    """Returns the runs of a sweep that a directory does not hold; all of them if it holds no sound store."""
    known = _known(directory)
    return [config for config in sweep.configs if run_key(config) not in known]


def _known(directory: Path) -> set[str]:
    try:
        return Store.open(directory).keys()
    except (StoreError, OSError):  # nothing yet, or what `conduct` will mend or refuse
        return set()


def expected_seconds(configs: Sequence[RunConfig], workers: int) -> float:
    """Returns about how long runs take: a run of every setting plays a few people, and all are taken to be like it."""
    seconds, rates = 0.0, dict[str, float]()
    for config in configs:
        setting = run_key({**config, "seed": [0, 0]})
        if setting not in rates:
            mdp, agent = build(config)
            few = min(_PROBE, config["episodes"] // 2)
            start = time.perf_counter()
            if few:
                simulate(agent, mdp, few, seed=0)  # compiles, and loads what is slow to load
                start = time.perf_counter()
                simulate(agent, mdp, few, seed=0)
            rates[setting] = (time.perf_counter() - start) / max(1, few)
        seconds += rates[setting] * config["episodes"]
    return seconds / workers


def check(directory: Path, *, engine: str, workers: int | None, address: str | None, resume: bool) -> None:
    """Raises if `conduct` would not begin."""
    if engine not in engines.ENGINES:
        raise UnknownName("engine", engine, engines.ENGINES)
    if address is not None and engine != "dask":
        raise InvalidInput(f"an address is for the engine dask, got engine={engine!r}")
    if workers is not None:
        check_integer("workers", workers)
    known = _known(directory)
    if known and not resume:
        raise InvalidInput(f"{directory} holds {len(known)} runs already: --resume goes on with them")


@contextlib.contextmanager
def opened(directory: Path, *, mend: bool, say: Callable[[str], None]) -> Iterator[Store]:
    """Opens a store to write to, made if it is not there; ``mend`` first sets aside what is damaged, and says so."""
    if mend and Store.begun(directory):
        for damage in Store.repair(directory):
            say(f"mended: {damage.reason}")
    with Store.create(directory) as store, store.lock():
        yield store


def conduct(
    sweep: Sweep,
    directory: Path,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
    say: Callable[[str], None] = lambda _: None,
    show: bool = False,
) -> Outcome:
    """Does all runs of a sweep that are not in the directory yet.

    Args:
        sweep: The runs.
        directory: Where the store is, or will be.
        engine: ``"local"`` or ``"dask"``.
        workers: Processes; as many as there are cores by default.
        address: Of a Dask scheduler.
        resume: Whether the directory may hold runs already; damaged ones are then set aside and done again.
        say: Told, line by line, what is worth knowing.
        show: Whether to show progress on stderr, if that is a terminal.

    Returns:
        How far it came, also if Ctrl-C stopped it.
    """
    check(directory, engine=engine, workers=workers, address=address, resume=resume)
    workers = workers or os.cpu_count() or 1
    with opened(directory, mend=resume, say=say) as store:
        known = store.keys()
        todo = [config for config in sweep.configs if run_key(config) not in known]
        outcome = Outcome(len(sweep.configs), len(sweep.configs) - len(todo))
        workers = max(1, min(workers, len(todo)))
        with Board([f"{text(config)}, run {config['seed'][1]}" for config in todo], show=show) as board:
            totals = [config["episodes"] for config in todo]
            results: Generator[tuple[int, engines.Outcome], None, None]
            if engine == "dask":
                results = engines.dask(todo, sweep.keep, workers, address)
            else:
                results = engines.local(
                    todo, sweep.keep, workers, lambda i, done, regret: board.update(i, done, totals[i], regret)
                )
            try:
                with contextlib.closing(results):
                    for i, (run, error) in results:
                        if run is None:
                            outcome.failed.append(f"{text(todo[i])}: {error}")
                        else:
                            store.put(*run)
                            outcome.done += 1
                        board.finish(i)
            except KeyboardInterrupt:
                outcome.interrupted = True
                outcome.done = len({run_key(config) for config in todo} & store.keys())  # the last may be uncounted
    return outcome

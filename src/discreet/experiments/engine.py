"""Where runs are done: in this process, in several, or on a Dask cluster. The numbers are the same.

A run depends on its configuration alone (`discreet.experiments.sweep`), so nothing here can change a result: engines
decide only where and when.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import DiscreetError, MissingExtra
from discreet.experiments.simulate import simulate
from discreet.experiments.sweep import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["ENGINES", "Outcome", "dask", "execute", "local"]

#: What ``--engine`` knows.
ENGINES = ("local", "dask")

_POLL = 0.2  # seconds between two looks at the workers


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes:
        gaps: Of every episode; empty if it failed.
        guarantee: What was proven for the agent, as JSON can hold it.
        suboptimal: How many episodes have a gap above each α.
        wall: Seconds.
        cpu: Seconds of processor time.
        error: What went wrong, in one line; None if nothing did.
    """

    gaps: NDArray[np.float64]
    guarantee: dict[str, Any]
    suboptimal: dict[str, int]
    wall: float
    cpu: float
    error: str | None = None


def execute(config: dict[str, Any], watch: Callable[[int, float], None] | None = None) -> Outcome:
    """Does one run. ``watch`` is told now and then how many episodes are done, and the regret so far."""
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        mdp, agent = build(config)
        result = simulate(agent, mdp, config["episodes"], seed=config["seed"], progress=watch or False)
    except (DiscreetError, MemoryError, ArithmeticError) as error:
        return Outcome(np.zeros(0), {}, {}, 0.0, 0.0, f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])
    return Outcome(
        result.gaps,
        result.guarantee.to_dict(),
        {str(alpha): int(result.suboptimal(alpha)) for alpha in config["alpha"]},
        time.perf_counter() - wall,
        time.process_time() - cpu,
    )


def local(
    configs: Sequence[dict[str, Any]], workers: int, watch: Callable[[int, int, float], None]
) -> Iterator[tuple[int, Outcome]]:
    """Yields the number of each run and its outcome, as they finish.

    Args:
        configs: The runs.
        workers: Processes; 1 is this one.
        watch: Told the number of a run in flight, its episodes done and its regret so far.
    """
    if workers == 1:
        for i, config in enumerate(configs):
            yield i, execute(config, partial(watch, i))
        return
    context = multiprocessing.get_context("spawn")
    news = context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(), news))
    futures = {pool.submit(_work, i, config): i for i, config in enumerate(configs)}
    waiting = set(futures)
    try:
        while waiting:
            done, waiting = wait(waiting, timeout=_POLL, return_when=FIRST_COMPLETED)
            while not news.empty():
                watch(*news.get())
            for future in done:
                yield futures[future], future.result()
    except BrokenProcessPool:
        raise OSError("a worker process died: perhaps it ran out of memory") from None
    finally:
        if waiting:  # stopped early: what is in flight is lost, what was yielded is not
            for process in list((pool._processes or {}).values()):
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


_news: Any = None


def _begin(parent: int, news: Any) -> None:
    """In a worker: leaves Ctrl-C to the parent, and does not outlive it."""
    global _news  # noqa: PLW0603
    _news = news
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


def _work(i: int, config: dict[str, Any]) -> Outcome:
    """In a worker: does one run and says how far it is."""
    return execute(config, lambda done, regret: _news.put((i, done, regret)))


def dask(configs: Sequence[dict[str, Any]], workers: int, address: str | None) -> Iterator[tuple[int, Outcome]]:
    """Yields the number of each run and its outcome, as they finish on a Dask cluster.

    Args:
        configs: The runs.
        workers: Processes of a cluster on this machine, if there is no address.
        address: Of a scheduler that is running.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MissingExtra("distributed", "dask") from None
    if address is None:
        cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        client = distributed.Client(cluster)
    else:
        cluster = None
        try:
            client = distributed.Client(address, timeout=10)
        except (OSError, ValueError, TimeoutError) as error:
            raise OSError(f"no Dask scheduler answers at {address}: {type(error).__name__}") from None
    try:
        futures = {client.submit(execute, config, pure=False): i for i, config in enumerate(configs)}
        for future in distributed.as_completed(list(futures)):
            yield futures[future], future.result()
    finally:
        client.close()
        if cluster is not None:
            cluster.close()

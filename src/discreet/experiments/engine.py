"""Where runs are done: in this process, in several, or on a Dask cluster. The numbers are the same.

A run depends on its configuration alone (`discreet.experiments.sweep`), so nothing here can change a result: engines
decide only where and when.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet.errors import DiscreetError, MissingExtra
from discreet.experiments.records import summarise
from discreet.experiments.setting import build
from discreet.runtime.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from multiprocessing.queues import SimpleQueue

    from discreet.agents.base import LearningAgent
    from discreet.experiments.configs import RunConfig
    from discreet.experiments.records import Curve, RunRow
    from discreet.runtime.simulate import Result

__all__ = ["ENGINES", "Outcome", "dask", "execute", "local", "perform"]

#: What ``--engine`` knows.
ENGINES = ("local", "dask")

_POLL = 0.2  # seconds between two looks at the workers
_PATIENCE = 10  # seconds that a scheduler has to answer


class Outcome(NamedTuple):
    """What became of a run.

    Attributes:
        run: What `discreet.experiments.store.Store.put` takes; None if it failed.
        error: What went wrong, in one line; None if nothing did.
    """

    run: tuple[RunRow, Curve] | None
    error: str | None = None


def perform(
    config: RunConfig,
    keep: int = 1000,
    progress: bool | Callable[[int, float], None] = False,
    look: Callable[[LearningAgent, Result], None] | None = None,
) -> tuple[RunRow, Curve]:
    """Does one run, and thins its curve to ``keep`` episodes.

    Args:
        config: The run.
        keep: How many episodes of the curve are kept.
        progress: As `simulate` takes it.
        look: Is shown the agent and all gaps once everybody has played.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    mdp, agent = build(config)
    result = simulate(agent, mdp, config["episodes"], seed=config["seed"], progress=progress)
    times = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    if look is not None:
        look(agent, result)
    return summarise(config, result.gaps, result.guarantee.to_dict(), keep=keep, **times)


def execute(config: RunConfig, keep: int = 1000, watch: Callable[[int, float], None] | None = None) -> Outcome:
    """Does one run as `perform` does, and says what went wrong instead of raising it."""
    try:
        return Outcome(perform(config, keep, watch or False))
    except (DiscreetError, MemoryError, ArithmeticError) as error:
        return Outcome(None, f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0])


def local(
    configs: Sequence[RunConfig], keep: int, workers: int, watch: Callable[[int, int, float], None]
) -> Generator[tuple[int, Outcome], None, None]:
    """Yields the number of each run and its outcome, as they finish.

    Args:
        configs: The runs.
        keep: How many episodes of each curve are kept.
        workers: Processes; 1 is this one.
        watch: Told the number of a run in flight, its episodes done and its regret so far.
    """
    if workers == 1:
        for i, config in enumerate(configs):
            yield i, execute(config, keep, partial(watch, i))
        return
    import multiprocessing  # one run needs no pool, and should not wait for it
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    news: SimpleQueue[tuple[int, int, float]] = context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(), news))
    futures = {pool.submit(_work, i, config, keep): i for i, config in enumerate(configs)}
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


_news: SimpleQueue[tuple[int, int, float]] | None = None


def _begin(parent: int, news: SimpleQueue[tuple[int, int, float]]) -> None:
    """In a worker: leaves Ctrl-C to the parent, and does not outlive it."""
    global _news  # noqa: PLW0603
    _news = news
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


def _work(i: int, config: RunConfig, keep: int) -> Outcome:
    """In a worker: does one run and says how far it is."""
    assert _news is not None  # `_begin` has set it
    put = _news.put
    return execute(config, keep, lambda done, regret: put((i, done, regret)))


def dask(
    configs: Sequence[RunConfig], keep: int, workers: int, address: str | None
) -> Generator[tuple[int, Outcome], None, None]:
    """Yields the number of each run and its outcome, as they finish on a Dask cluster.

    Args:
        configs: The runs.
        keep: How many episodes of each curve are kept.
        workers: Processes of a cluster on this machine, if there is no address.
        address: Of a scheduler that is running.
    """
    import asyncio
    import concurrent.futures

    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MissingExtra("distributed", "dask") from None
    for name in list(logging.root.manager.loggerDict):  # what goes wrong is said once, by us
        if name.partition(".")[0] == "distributed":  # several of its loggers have levels of their own
            logging.getLogger(name).setLevel(logging.CRITICAL)
    place = f"at {address}" if address else "on this machine"
    with contextlib.ExitStack() as stack:
        try:
            if address is None:
                with _undisturbed():
                    cluster = distributed.LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                    )
                stack.callback(_quietly, cluster.close)
            client = distributed.Client(address or cluster, timeout=_PATIENCE)
        except (OSError, ValueError, TimeoutError, RuntimeError) as error:
            raise OSError(f"no Dask scheduler answers {place}: {type(error).__name__}") from None
        stack.callback(_quietly, client.close)
        futures = {client.submit(execute, config, keep, pure=False): i for i, config in enumerate(configs)}
        lost = (OSError, RuntimeError, concurrent.futures.CancelledError, asyncio.CancelledError)
        try:
            for future in distributed.as_completed(list(futures)):
                yield futures[future], future.result()
        except lost as error:
            raise OSError(f"the Dask cluster {place} was lost: {type(error).__name__}") from None


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps Ctrl-C from the processes that are begun meanwhile, for good; and from us, meanwhile."""
    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if ours else None
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _quietly(close: Callable[[], object]) -> None:
    """Ends a part of a cluster; there is nothing to do if that fails, for instance because it is gone."""
    with contextlib.suppress(Exception):
        close()

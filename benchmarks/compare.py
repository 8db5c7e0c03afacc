"""Processor time of two source trees: how long the old one takes for every second of the new one.

    python benchmarks/compare.py OLD/src NEW/src [--turns 5] [--runs 3] [--share 1] [--only linopt] [--bench]

Every turn runs both trees, each in a process of its own, and every other turn the new one goes first. A process runs a
row once to load its kernels, then with the seeds of the turn; what counts is the least processor time of a run, agents
built before. A ratio is the median over the turns. Above 1 the new tree is faster.

With --bench the rows are those of `make bench`: simulations, sums, privatizers and how long a start takes. What sums
and privatizers measure is in the benchmarks of each tree, which know its names.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Rows = dict[str, Callable[[int], float]]

#: Sums for any number of reads.
STREAMS = ("tree", "smooth-tree", "factored", "batch")


def runs() -> int:
    """Returns how many runs count in a turn."""
    return int(os.environ["RUNS"])


def part(people: int) -> int:
    """Returns how many of so many people come."""
    return max(500, int(people * float(os.environ["SHARE"])))


def simulated(mdp: Any, episodes: int, agent: str, turn: int, **options: Any) -> float:
    """Returns the least processor time of a few simulations."""
    import discreet as dc

    found, people = [], part(episodes)
    for seed in range(runs() + 1):
        made = dc.agents.make(agent, mdp.spec, episodes=people, seed=[turn, seed], **options)
        start = time.process_time()
        dc.simulate(made, mdp, seed=[turn, seed])
        found.append(time.process_time() - start)
    return min(found[1:])  # the first one loads the kernels


def named() -> Rows:
    """Returns an agent of each kind."""
    import discreet as dc

    river, large = dc.envs.riverswim(states=6, horizon=20), dc.envs.random(states=100, actions=5, horizon=10)
    linear, private = dc.envs.linear_mixture(5, 50, 4, 5), dc.Central(1.0, 1e-6)
    tree, local, shuffle = dc.Central(1.0, sum="tree"), dc.Local(1.0), dc.Shuffle(1.0, 1e-6)
    laplace = dc.Local(1.0, sum="laplace")
    rows: dict[str, tuple[Any, int, str, dict[str, Any]]] = {
        "ucbvi": (river, 50_000, "ucbvi", {}),
        "dp-ucbvi tree": (river, 20_000, "dp-ucbvi", {"privacy": tree}),
        "rlsvi": (river, 50_000, "rlsvi", {"privacy": private}),
        "ucbvi S=100": (large, 20_000, "ucbvi", {"update_every": 100}),
        "dp-ucbvi S=100": (large, 20_000, "dp-ucbvi", {"privacy": dc.Central(1.0), "update_every": 100}),
        "discreet-vi central": (river, 50_000, "discreet-vi", {"privacy": private}),
        "discreet-vi local": (river, 50_000, "discreet-vi", {"privacy": local}),
        "discreet-vi shuffle": (river, 50_000, "discreet-vi", {"privacy": shuffle}),
        "dp-ucbvi local laplace": (river, 5_000, "dp-ucbvi", {"privacy": laplace}),
        "dp-ucbvi local sampled": (river, 5_000, "dp-ucbvi", {"privacy": dc.Local(1.0, sum="sampled")}),
        "dp-ucbvi local, 100 a batch": (river, 2_000, "dp-ucbvi", {"privacy": laplace, "update_every": 100}),
        "dp-ucbvi shuffle": (river, 5_000, "dp-ucbvi", {"privacy": shuffle}),
        "sdp-pe shuffle": (river, 50_000, "sdp-pe", {"privacy": shuffle, "stationary": True}),
        "sdp-pe central": (river, 50_000, "sdp-pe", {"privacy": private, "stationary": True}),
        "linopt-vi": (linear, 5_000, "linopt-vi", {"privacy": private, "update_every": 10}),
        "linopt-po": (linear, 5_000, "linopt-po", {"privacy": private, "update_every": 10}),
        "linopt-vi local": (linear, 2_000, "linopt-vi", {"privacy": dc.Local(1.0, 1e-6), "update_every": 10}),
    }
    return {name: functools.partial(simulated, *row[:3], **row[3]) for name, row in rows.items()}


def bench(tree: Path) -> Rows:
    """Returns what `make bench` measures."""
    time.perf_counter = time.process_time  # what the benchmarks of a tree look at
    sys.path.insert(0, str(tree.parent / "benchmarks"))
    command = [sys.executable, "-m", "discreet"]
    run = [*command, "run", "riverswim", "--episodes", "5000", "--stationary"]
    return {
        **_episodes(),
        **_sums(),
        **_privatizers(),
        "start --help": functools.partial(started, [*command, "--help"]),
        "start run, cold": functools.partial(started, run, cold=True),
        "start run, warm": functools.partial(started, run),
    }


def _episodes() -> Rows:
    import discreet as dc

    river, large = dc.envs.riverswim(states=6, horizon=20), dc.envs.random(states=100, actions=5, horizon=10)
    private: dict[str, Any] = {"privacy": dc.Central(1.0, 1e-6)}
    rows: Rows = {}
    for stationary, pooled in ((False, "per step"), (True, "pooled")):
        for agent, preset in itertools.product(("ucbvi", "ubev"), dc.agents.PRESETS):
            options: dict[str, Any] = {"preset": preset, "stationary": stationary}
            rows[f"{agent} {preset} {pooled}"] = functools.partial(simulated, river, 50_000, agent, **options)
        for accounting in ("tight", "individual"):
            options = {"accounting": accounting, "stationary": stationary, **private}
            rows[f"rlsvi {accounting} {pooled}"] = functools.partial(simulated, river, 50_000, "rlsvi", **options)
    trees = dc.Central(1.0, sum="tree"), dc.Central(1.0, sum="smooth-tree"), dc.Central(1.0, 1e-6, sum="factored")
    for agent, privacy in itertools.product(("dp-ucbvi", "pucb", "private-ucb-vi", "private-ucb-po"), trees):
        rows[f"{agent} {privacy.sum}"] = functools.partial(simulated, river, 20_000, agent, privacy=privacy)
    large_rows = {"ucbvi": {}, "dp-ucbvi": {"privacy": dc.Central(1.0)}, "dp-ucbvi, δ > 0,": private}
    for label, given in large_rows.items():
        agent, every = label.split(",")[0], {"update_every": 100}
        rows[f"{label} S=100"] = functools.partial(simulated, large, 20_000, agent, **given, **every)
    return rows


def _sums() -> Rows:
    import numpy as np
    import sums

    rows: Rows = {}
    for name, delta, reads in itertools.product(STREAMS, (0.0, 1e-6), (2**10, 2**20)):
        if name != "factored" or delta > 0:
            row = f"{name} sum, δ = {delta:g}, {reads:,} reads"
            rows[row] = functools.partial(_read, sums.seconds_a_read, name, 20_000, reads, delta)
    rng, out = np.random.default_rng(0), np.empty(1920)
    for distribution in ("laplace", "gaussian"):
        fill = functools.partial(sums.fast.fill, rng, distribution, 2.0, out)
        rows[f"{distribution} noise, 1,920 × 300"] = functools.partial(_repeated, sums, fill)
    cells = (rng.normal(0, 50, 240), rng.normal(0, 20, (240, 6)), 100.0, np.empty(240), np.empty((240, 6)))
    rows["projection × 300"] = functools.partial(_repeated, sums, functools.partial(sums.project, *cells))
    return rows


def _privatizers() -> Rows:
    import privatizers

    import discreet as dc

    trust = {
        "subset": dc.Local(1.0, sum="sampled"),
        "unary": dc.Local(1.0, sum="sampled", randomiser="unary"),
        "response": dc.Local(1.0, sum="sampled", randomiser="response"),
        "binomial": dc.Shuffle(1.0, 1e-6),
    }
    found, privatizers.USERS = privatizers.throughput, part(privatizers.USERS)
    return {f"{name}, 1,000 people": functools.partial(_people, found, privacy) for name, privacy in trust.items()}


def _read(seconds: Callable[..., float], *given: Any) -> float:
    """Returns what a tree's own benchmark measures, whatever the turn."""
    return seconds(*given[:-1])


def _repeated(sums: Any, call: Callable[[], object], _turn: int) -> float:
    """Returns the least processor time of three hundred calls."""
    call()
    found: float = sums.best(lambda: [call() for _ in range(300)])
    return found


def _people(throughput: Callable[..., float], privacy: Any, _turn: int) -> float:
    """Returns the seconds of a thousand people; noise bits are drawn as totals, which one of the trees must be told."""
    told = "totals" in (throughput.__kwdefaults__ or {}) and type(privacy).__name__ == "Shuffle"
    return 1000 / (throughput(privacy, totals=True) if told else throughput(privacy))


def started(command: list[str], _turn: int, *, cold: bool = False) -> float:
    """Returns the processor time of a whole process, compiled before unless it is to be cold."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cold else {})}
        found = []
        for _ in range(1 if cold else runs() + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, env=environment, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)


def asked(tree: Path, *given: str) -> Any:
    """Returns what a process on a tree prints."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(tree), str(tree), *given]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    """Prints a line a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a folder that has discreet/ in it")
    parser.add_argument("new", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3, help="a turn")
    parser.add_argument("--share", type=float, default=1.0, help="of the people of every row, for a shorter look")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--bench", action="store_true", help="the rows of `make bench`")
    parser.add_argument("--turn", type=int, help=argparse.SUPPRESS)  # in the processes
    given = parser.parse_args()
    if given.turn is not None:
        rows = bench(given.old) if given.bench else named()
        print(json.dumps({name: row(given.turn) for name, row in rows.items() if given.only in name}))
        return
    os.environ |= {"RUNS": str(given.runs), "SHARE": str(given.share)}
    trees = {"old": given.old.resolve(), "new": given.new.resolve()}
    took: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    which = ["--only", given.only, *(["--bench"] if given.bench else [])]
    for turn in range(given.turns):
        for tree in ("old", "new") if turn % 2 == 0 else ("new", "old"):
            took[tree].append(asked(trees[tree], *which, "--turn", str(turn)))
    print(f"{'processor seconds, and old/new':38} {'old':>9} {'new':>9} {'ratio':>7} {'from':>7} {'to':>7}")
    for name in took["new"][0]:
        old, new = ([turn[name] for turn in took[tree]] for tree in ("old", "new"))
        ratios = [one / other for one, other in zip(old, new, strict=True)]
        seconds = f"{median(old):9.5f} {median(new):9.5f}"
        print(f"{name:38} {seconds} {median(ratios):7.2f} {min(ratios):7.2f} {max(ratios):7.2f}", flush=True)


if __name__ == "__main__":
    main()

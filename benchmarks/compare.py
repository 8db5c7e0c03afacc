"""Processor time of two source trees: how long the old one takes for every second of the new one.

    python benchmarks/compare.py OLD/src NEW/src [--turns 5] [--only linopt]

Every turn runs both trees, each in a process of its own, and every other turn the new one goes first. A process runs a
row once to load its kernels, then with the seeds of the turn; what counts is the least processor time of a run, agents
built before. A ratio is the median over the turns. Above 1 the new tree is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 3


def rows() -> dict[str, tuple[Any, int, str, dict[str, Any]]]:
    """Returns environment, episodes, agent and options of every row."""
    import discreet as dc

    river, large = dc.envs.riverswim(states=6, horizon=20), dc.envs.random(states=100, actions=5, horizon=10)
    linear, private = dc.envs.linear_mixture(5, 50, 4, 5), dc.Central(1.0, 1e-6)
    tree, local, shuffle = dc.Central(1.0, sum="tree"), dc.Local(1.0), dc.Shuffle(1.0, 1e-6)
    return {
        "ucbvi": (river, 50_000, "ucbvi", {}),
        "dp-ucbvi tree": (river, 20_000, "dp-ucbvi", {"privacy": tree}),
        "rlsvi": (river, 50_000, "rlsvi", {"privacy": private}),
        "ucbvi S=100": (large, 20_000, "ucbvi", {"update_every": 100}),
        "dp-ucbvi S=100": (large, 20_000, "dp-ucbvi", {"privacy": dc.Central(1.0), "update_every": 100}),
        "discreet-vi central": (river, 50_000, "discreet-vi", {"privacy": private}),
        "discreet-vi local": (river, 50_000, "discreet-vi", {"privacy": local}),
        "discreet-vi shuffle": (river, 50_000, "discreet-vi", {"privacy": shuffle}),
        "dp-ucbvi local laplace": (river, 5_000, "dp-ucbvi", {"privacy": dc.Local(1.0, sum="laplace")}),
        "dp-ucbvi local, each": (
            river,
            2_000,
            "dp-ucbvi",
            {"privacy": dc.Local(1.0, sum="laplace"), "update_every": 1},
        ),
        "sdp-pe shuffle": (river, 50_000, "sdp-pe", {"privacy": shuffle, "stationary": True}),
        "linopt-vi": (linear, 5_000, "linopt-vi", {"privacy": private, "update_every": 10}),
        "linopt-po": (linear, 5_000, "linopt-po", {"privacy": private, "update_every": 10}),
        "linopt-vi local": (linear, 2_000, "linopt-vi", {"privacy": dc.Local(1.0, 1e-6), "update_every": 10}),
    }


def least(name: str, turn: int) -> float:
    """Returns the least processor time of a few runs of a row."""
    import discreet as dc

    mdp, episodes, agent, options = rows()[name]
    found = []
    for seed in range(RUNS + 1):
        made = dc.agents.make(agent, mdp.spec, episodes=episodes, seed=[turn, seed], **options)
        start = time.process_time()
        dc.simulate(made, mdp, seed=[turn, seed])
        found.append(time.process_time() - start)
    return min(found[1:])  # the first one loads the kernels


def asked(tree: Path, *given: str) -> Any:
    """Returns what a process on a tree prints."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(tree), str(tree), *given]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Prints a line a row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a folder that has discreet/ in it")
    parser.add_argument("new", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--row", help=argparse.SUPPRESS)  # in the processes
    parser.add_argument("--turn", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--names", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.names:
        print(json.dumps(list(rows())))
        return
    if given.row is not None:
        print(json.dumps(least(given.row, given.turn)))
        return
    trees = {"old": given.old.resolve(), "new": given.new.resolve()}
    print(f"{'processor seconds, and old/new':30} {'old':>8} {'new':>8} {'ratio':>8} {'from':>8} {'to':>8}")
    for name in asked(trees["new"], "--names"):
        if given.only not in name:
            continue
        took: dict[str, list[float]] = {"old": [], "new": []}
        for turn in range(given.turns):
            for which in ("old", "new") if turn % 2 == 0 else ("new", "old"):
                took[which].append(asked(trees[which], "--row", name, "--turn", str(turn)))
        ratios = [old / new for old, new in zip(took["old"], took["new"], strict=True)]
        seconds = f"{median(took['old']):8.3f} {median(took['new']):8.3f}"
        print(f"{name:30} {seconds} {median(ratios):8.2f} {min(ratios):8.2f} {max(ratios):8.2f}", flush=True)


if __name__ == "__main__":
    main()

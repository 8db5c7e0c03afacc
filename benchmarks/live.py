"""How many people a second go through the live core, from start to report, each acknowledged after its commit.

    python benchmarks/live.py [--database sqlite:///live.db] [--people 3000]

One client waits for every commit; 32 clients share commits (group commit). Memory is looked at before and after.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import discreet as dc
from discreet import live
from discreet.privatizers.codec import to_wire

MDP = dc.envs.riverswim(states=6, horizon=20)
CONFIG = {
    "name": "bench",
    "world": {"states": 6, "actions": 2, "horizon": 20, "initial": [1, 0, 0, 0, 0, 0]},
    "agent": {"name": "discreet-vi", "episodes": 1_000_000, "stationary": True, "update_every": 100_000},
    "privacy": {"trust": "central", "epsilon": 1.0, "delta": 1e-6},
}


def memory() -> float:
    """Returns the process's memory now, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(deployment: live.Deployment, texts: list[str], clients: int, people: int, first: int) -> None:
    """Lets people start and report, and prints how fast it went."""

    def client(i: int) -> None:
        for k in range(first + i, first + people, clients):
            ticket = deployment.start(person=f"person {k}")
            assert ticket.token is not None
            deployment.report(ticket.token, texts[k % len(texts)])

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    before, wall, processor = memory(), time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(
        f"{clients:3} clients: {people / wall:7,.0f} people/s, {processor / people * 1e6:5.0f} µs of processor time, "
        f"memory {before:.0f} -> {memory():.0f} MB"
    )


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database")
    parser.add_argument("--people", type=int, default=3000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.database or f"sqlite:///{folder}/live.db"
        deployment = live.create(url, CONFIG)
        ticket, rng = deployment.start(person="first"), np.random.default_rng(0)
        assert ticket.encoder is not None
        texts = [to_wire(ticket.encoder.encode(MDP.sample(ticket.policy, rng))) for _ in range(200)]
        first = 0
        for clients, people in ((1, asked.people // 3), (32, asked.people), (32, asked.people)):
            measure(deployment, texts, clients, people, first)
            first += people
        deployment.close()


if __name__ == "__main__":
    main()

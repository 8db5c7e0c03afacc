"""Local and shuffle privacy: users encoded and analysed a second, RiverSwim-6 per-step counters, one core.

python benchmarks/privatizers.py
"""

from __future__ import annotations

import time

import numpy as np

import discreet as dc
from discreet.noise.fast import FastSource
from discreet.privatizers import Privatizer
from discreet.privatizers.make import make
from discreet.runtime.fast import simulated_batch, simulated_report

USERS, BATCH = 20_000, 500


def throughput(privacy: dc.Local | dc.Shuffle, *, totals: bool = False) -> float:
    """Returns users a second: encode each, shuffle and collect batch by batch, and read the counts.

    Args:
        privacy: The trust model.
        totals: Whether noise bits are drawn as totals, as a simulation does.
    """
    mdp = dc.envs.riverswim()
    source = FastSource(np.random.default_rng(0))
    policy = np.full((mdp.horizon, mdp.states, mdp.actions), 0.5)
    people = [mdp.sample(policy, np.random.default_rng(i)) for i in range(2000)]
    batches = [BATCH] * (USERS // BATCH)
    mechanism = make("counts", mdp.spec, privacy, capacity=USERS, batches=batches, stationary=False)
    best = 0.0
    for _ in range(3):
        privatizer, shuffler = Privatizer(mechanism, source), mechanism.shuffler()
        start = time.perf_counter()
        for t in range(len(batches)):
            encoder, own = mechanism.encoder_of(t), (people[(t * BATCH + i) % len(people)] for i in range(BATCH))
            if totals:
                reports = [simulated_report(encoder, person, source) for person in own]
                privatizer.observe(simulated_batch(encoder, reports, source, None))
            else:
                privatizer.observe(shuffler([encoder.encode(person, source) for person in own], source))
        best = max(best, USERS / (time.perf_counter() - start))
    return best


def main() -> None:
    """Prints a table."""
    for name, privacy in {
        "sampled, auto (subset)": dc.Local(1.0, sum="sampled"),
        "sampled, unary": dc.Local(1.0, sum="sampled", randomiser="unary"),
        "sampled, response": dc.Local(1.0, sum="sampled", randomiser="response"),
    }.items():
        print(f"{name:24} {throughput(privacy):10,.0f} users/s")
    print(f"{'binomial, totals':24} {throughput(dc.Shuffle(1.0, 1e-6), totals=True):10,.0f} users/s")


if __name__ == "__main__":
    main()

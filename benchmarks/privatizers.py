"""Local and shuffle privacy: users encoded and analysed a second, RiverSwim-6 per-step counters, one core.

python benchmarks/privatizers.py
"""

from __future__ import annotations

import time

import numpy as np

import discreet as dc

USERS, BATCH = 20_000, 500


def throughput(privacy: dc.Local | dc.Shuffle) -> float:
    """Returns users a second: encode each, shuffle and collect batch by batch, and read the counts."""
    mdp = dc.envs.riverswim()
    rng = np.random.default_rng(0)
    policy = np.full((mdp.horizon, mdp.states, mdp.actions), 0.5)
    people = [mdp.sample(policy, rng) for _ in range(2000)]
    best = 0.0
    for _ in range(3):
        batches = [BATCH] * (USERS // BATCH)
        privatizer = dc.privatizers.make(
            mdp.spec, privacy, capacity=USERS, batches=batches, stationary=False, rng=np.random.default_rng(0)
        )
        privatizer.counts()  # the error bound is computed once
        start = time.perf_counter()
        for t in range(len(batches)):
            reports = [privatizer.encoder.encode(people[(t * BATCH + i) % len(people)], rng) for i in range(BATCH)]
            privatizer.collect(privatizer.shuffler(reports, rng))  # type: ignore[arg-type]
            privatizer.counts()
        best = max(best, USERS / (time.perf_counter() - start))
    return best


def main() -> None:
    """Prints a table."""
    for name, privacy in {
        "sampled, auto (subset)": dc.Local(1.0, sum="sampled"),
        "sampled, unary": dc.Local(1.0, sum="sampled", randomiser="unary"),
        "sampled, response": dc.Local(1.0, sum="sampled", randomiser="response"),
        "binomial, fast path": dc.Shuffle(1.0, 1e-6),
    }.items():
        print(f"{name:24} {throughput(privacy):10,.0f} users/s")


if __name__ == "__main__":
    main()

"""SDP-PE on RiverSwim-6, H = 20, Shuffle(1, 1e-6): the mean gap over the last quarter of episodes, seed by seed.

Acting at random has a gap of 3.35. Pooled counts with 200,000 episodes, and counts by step with 200,000 and 1,000,000.

    python benchmarks/sdp_pe.py [--seeds 10] [--first 0]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import discreet as dc


def last_quarter(episodes: int, stationary: bool, seed: int) -> tuple[float, float, float, dc.Guarantee]:
    """Returns the gap over the last quarter, the final policy's gap, seconds, and what is proven."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    start = time.perf_counter()
    agent = dc.agents.make(
        "sdp-pe", mdp.spec, episodes=episodes, privacy=dc.Shuffle(1.0, 1e-6), stationary=stationary, seed=[0, seed]
    )
    gaps = dc.simulate(agent, mdp, seed=[0, seed]).gaps
    seconds = time.perf_counter() - start
    return (
        float(gaps[-episodes // 4 :].mean()),
        mdp.optimal_value - mdp.evaluate(agent.policy),
        seconds,
        agent.guarantee,
    )


def main() -> None:
    """Prints a line a run, and the mean of each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    for episodes, stationary in ((200_000, True), (1_000_000, False), (200_000, False)):
        found = []
        for seed in seeds:
            gap, final, seconds, guarantee = last_quarter(episodes, stationary, seed)
            found.append(gap)
            kind = "pooled" if stationary else "by step"
            print(
                f"{kind:8} K={episodes:9,} seed [0, {seed}]: last quarter {gap:.3f}, final policy {final:.3f}, "
                f"{seconds:.0f} s, {guarantee}",
                flush=True,
            )
        spread = np.std(found, ddof=1) if len(found) > 1 else 0.0
        print(f"{kind:8} K={episodes:9,}: mean {np.mean(found):.3f} ± {spread:.3f}, worst {max(found):.3f}", flush=True)


if __name__ == "__main__":
    main()

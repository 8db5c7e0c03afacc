"""Linear agents: who beats whom at ε = 10, and how fast a large mixture is.

python benchmarks/linear.py            # both
python benchmarks/linear.py --only orderings --agent linopt-vi --seeds 10
python benchmarks/linear.py --only speed
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import discreet as dc

SETTINGS = {
    "factored": dc.Central(10.0, 1e-6, sum="factored"),
    "tree": dc.Central(10.0, 1e-6, sum="tree"),
    "local": dc.Local(10.0, 1e-6),
}


def orderings(agent: str, seeds: int, episodes: int, update_every: int, stream: int) -> None:
    """Regret of paired seeds (run i has the same people and the same world everywhere), and paired differences."""
    mdp = dc.envs.linear_mixture(5, 50, 4, 5)
    found: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for i in range(seeds):
        for name, privacy in SETTINGS.items():
            made = dc.agents.make(
                agent, mdp.spec, episodes=episodes, privacy=privacy, update_every=update_every, seed=[stream, i]
            )
            found[name].append(float(dc.simulate(made, mdp, seed=[stream, i]).regret[-1]))
    random = episodes * (mdp.optimal_value - mdp.evaluate(np.full((5, 50, 4), 1 / 4)))
    print(f"{agent}, {episodes:,} episodes, an update every {update_every}, {seeds} seeds; at random {random:,.0f}")
    for name, regrets in found.items():
        print(f"  {name:10} {np.mean(regrets):10,.0f} ± {np.std(regrets, ddof=1) / np.sqrt(seeds):,.0f}")
    for better, worse in (("factored", "local"), ("tree", "local"), ("factored", "tree")):
        apart = np.array(found[worse]) - np.array(found[better])
        error = apart.std(ddof=1) / np.sqrt(seeds)
        verdict = "holds" if apart.mean() > 2 * error else "does not hold"
        print(f"  {better} < {worse}: {apart.mean():+,.0f} ± {error:,.0f}, {verdict} by two standard errors")


def speed(episodes: int = 200) -> None:
    """Episodes a second with d=20, S=2,000, A=10, H=10, 50 successors, an update every 10; compilation not counted."""
    mdp = dc.envs.linear_mixture(20, 2000, 10, 10, 50)
    for agent in ("linopt-vi", "linopt-po"):
        for privacy in (dc.NonPrivate(), dc.Central(1.0, 1e-6), dc.Local(1.0, 1e-6)):
            made = dc.agents.make(agent, mdp.spec, episodes=episodes + 10, privacy=privacy, update_every=10, seed=0)
            dc.simulate(made, mdp, 10, seed=0)
            wall, cpu = time.perf_counter(), time.process_time()
            dc.simulate(made, mdp, episodes, seed=0)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            rate = f"{episodes / wall:6.1f} episodes/s ({episodes / cpu:.1f} a second of processor time)"
            print(f"{agent} {type(privacy).__name__:10} {rate}, {memory:.2f} GiB")


def main() -> None:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["orderings", "speed"])
    parser.add_argument("--agent", choices=["linopt-vi", "linopt-po"], action="append")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--update-every", type=int, default=10)
    parser.add_argument("--stream", type=int, default=0, help="run i has seed [stream, i]")
    given = parser.parse_args()
    if given.only != "orderings":
        speed()
    if given.only != "speed":
        for agent in given.agent or ("linopt-vi", "linopt-po"):
            orderings(agent, given.seeds, given.episodes, given.update_every, given.stream)


if __name__ == "__main__":
    main()

"""discreet-vi's episodes a second with a trusted server, on its own schedule, exact evaluation included.

    python benchmarks/discreet_vi.py

One core: it pins itself to one where the system allows that. On a busy machine the rate by the process's own CPU time
is the one to compare; both are printed, the best of three runs.
"""

from __future__ import annotations

import contextlib
import os
import time

import discreet as dc

ONE = dc.Central(1.0, 1e-6)


def rates(mdp: dc.TabularMDP, episodes: int, **options: object) -> tuple[float, float, float]:
    """Returns the best rates of three simulations, by the clock and by CPU time, and seconds to build an agent."""
    clock, cpu, built = 0.0, 0.0, 0.0
    for seed in range(3):
        start = time.perf_counter()
        agent = dc.agents.make("discreet-vi", mdp.spec, episodes=episodes, privacy=ONE, seed=seed, **options)
        built = max(built, time.perf_counter() - start)  # the first one calibrates
        start, begun = time.perf_counter(), time.process_time()
        dc.simulate(agent, mdp, seed=seed)
        clock = max(clock, episodes / (time.perf_counter() - start))
        cpu = max(cpu, episodes / (time.process_time() - begun))
    return clock, cpu, built


def main() -> None:
    """Prints everything."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    riverswim, large = dc.envs.riverswim(), dc.envs.random(states=100, actions=5, horizon=10)
    for options in ({"stationary": True}, {}, {"share_steps": False}):
        rates(dc.envs.riverswim(states=3, horizon=4), 3000, **options)  # compile
    print(f"{'episodes/s':52} {'clock':>10} {'CPU':>10} {'seconds to build':>18}")
    for name, mdp, episodes, options in (
        ("RiverSwim-6, H = 20, pooled", riverswim, 50_000, {"stationary": True}),
        ("RiverSwim-6, H = 20, steps shared", riverswim, 50_000, {}),
        ("RiverSwim-6, H = 20, per step", riverswim, 50_000, {"share_steps": False}),
        ("S = 100, A = 5, H = 10, pooled", large, 50_000, {"stationary": True}),
        ("S = 100, A = 5, H = 10, pooled", large, 200_000, {"stationary": True}),
        ("S = 100, A = 5, H = 10, steps shared", large, 50_000, {}),
    ):
        clock, cpu, built = rates(mdp, episodes, **options)
        print(f"{f'{name}, K = {episodes:,}':52} {clock:10,.0f} {cpu:10,.0f} {built:18.3f}", flush=True)


if __name__ == "__main__":
    main()

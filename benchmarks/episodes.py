"""Episodes a second, against plain NumPy in the same run; and how long a cold and a warm start take.

    python benchmarks/episodes.py

One core: numba's kernels are single-threaded and NumPy's arrays here are far too small for a threaded BLAS.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import discreet as dc

ROOT = Path(__file__).parent.parent


def numpy_ucbvi(mdp: dc.TabularMDP, episodes: int, seed: int) -> float:
    """UCBVI as one would write it in NumPy, vectorised over (s, a); returns episodes a second."""
    H, S, A = mdp.horizon, mdp.states, mdp.actions
    iota = np.log(30 * H * S * A * episodes * H / 0.05)
    N, M, R = np.zeros((H, S, A)), np.zeros((H, S, A, S)), np.zeros((H, S, A))
    Q = np.full((H, S, A), float(H))
    cumulative, first = mdp.transitions.cumsum(axis=3), mdp.initial.cumsum()
    rng = np.random.default_rng(seed)
    start = time.perf_counter()
    for _ in range(episodes):
        V = np.zeros(S)
        for h in reversed(range(H)):
            n = np.maximum(N[h], 1)
            P, r = M[h] / n[..., None], R[h] / n
            mean = P @ V
            variance = np.maximum(P @ V**2 - mean**2, 0) + r * (1 - r)
            bonus = 0.5 * np.sqrt(variance * iota / n) + 0.06 * (1 + V.max() - V.min()) * iota / n
            Q[h] = np.minimum(Q[h], np.where(N[h] > 0, np.minimum(r + mean + bonus, H - h), H - h))
            V = Q[h].max(axis=1)
        policy, u = Q.argmax(axis=2), rng.random((H, 2))
        s = int(np.searchsorted(first, rng.random(), side="right"))
        for h in range(H):
            a = policy[h, s]
            s_ = min(int(np.searchsorted(cumulative[h, s, a], u[h, 0], side="right")), S - 1)
            N[h, s, a] += 1
            M[h, s, a, s_] += 1
            R[h, s, a] += mdp.rewards[h, s, a]
            s = s_
    return episodes / (time.perf_counter() - start)


def rate(mdp: dc.TabularMDP, episodes: int, name: str, **options: object) -> float:
    """Returns the best rate of three simulations, exact evaluation of every policy included."""
    best = 0.0
    for seed in range(3):
        agent = dc.agents.make(name, mdp.spec, episodes=episodes, seed=seed, **options)
        start = time.perf_counter()
        dc.simulate(agent, mdp, seed=seed)
        best = max(best, episodes / (time.perf_counter() - start))
    return best


def started(*command: str, **environment: str) -> float:
    """Returns how many seconds a command takes."""
    start = time.perf_counter()
    subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Prints everything."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    start = time.perf_counter()
    for name in dc.agents.NAMES:
        dc.simulate(dc.agents.make(name, mdp.spec, episodes=2, seed=0), mdp, seed=0)
    print(f"compiling or loading kernels: {time.perf_counter() - start:.1f} s (not in the rates below)")
    plain = numpy_ucbvi(mdp, 300, seed=0)
    print(f"\nRiverSwim-6, H = 20, replanning every episode: episodes/s, and times plain NumPy ({plain:,.0f}/s)")
    for name in dc.agents.NAMES:
        for preset in dc.agents.PRESETS:
            for stationary in (False, True):
                got = rate(mdp, 50_000, name, preset=preset, stationary=stationary)
                pooled = "pooled" if stationary else "per step"
                print(f"  {name:6} {preset:10} {pooled:9} {got:12,.0f} {got / plain:8,.0f} ×")
    large = dc.envs.random(states=100, actions=5, horizon=10)
    got = rate(large, 20_000, "ucbvi", update_every=100)
    print(f"\nS = 100, A = 5, H = 10, update every 100 episodes: {got:,.0f} episodes/s")

    print("\nseconds of a whole process")
    command = [sys.executable, "-m", "discreet"]
    started(*command, "--help")
    print(f"  discreet --help            {min(started(*command, '--help') for _ in range(5)):6.2f}")
    run = [*command, "run", "riverswim", "--episodes", "5000", "--stationary"]
    with tempfile.TemporaryDirectory() as cache:
        cold = started(*run, NUMBA_CACHE_DIR=cache)
        print(f"  discreet run, cold cache   {cold:6.2f}")
        print(f"  discreet run, warm cache   {started(*run, NUMBA_CACHE_DIR=cache):6.2f}")


if __name__ == "__main__":
    main()

"""Episodes a second, against plain NumPy in the same run; and how long a cold and a warm start take.

    python benchmarks/episodes.py

One core: numba's kernels are single-threaded and NumPy's arrays here are far too small for a threaded BLAS.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import numpy as np

import discreet as dc
from discreet.noise import fast

if TYPE_CHECKING:
    from collections.abc import Callable

PRIVATE = ("dp-ucbvi", "pucb", "private-ucb-vi", "private-ucb-po")


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


def bare_fill(numbers: int) -> float:
    """Returns how often a second one can draw so many Laplace samples, and do nothing else."""
    rng, out = np.random.default_rng(0), np.empty((200, numbers))
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        fast.fill(rng, "laplace", 1.0, out)
        best = max(best, len(out) / (time.perf_counter() - start))
    return best


def peak(call: Callable[[], object]) -> tuple[object, float]:
    """Returns what a call returns, and the process's peak memory in GiB after it."""
    found = call()
    return found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Prints everything."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    start = time.perf_counter()
    for name in ("ucbvi", "ubev", *PRIVATE):
        dc.simulate(dc.agents.make(name, mdp.spec, episodes=2, privacy=dc.NonPrivate(), seed=0), mdp, seed=0)
    print(f"compiling or loading kernels: {time.perf_counter() - start:.1f} s (not in the rates below)")
    plain = numpy_ucbvi(mdp, 300, seed=0)
    print(f"\nRiverSwim-6, H = 20, replanning every episode: episodes/s, and times plain NumPy ({plain:,.0f}/s)")
    for name in ("ucbvi", "ubev"):
        for preset in dc.agents.PRESETS:
            for stationary in (False, True):
                got = rate(mdp, 50_000, name, preset=preset, stationary=stationary)
                pooled = "pooled" if stationary else "per step"
                print(f"  {name:6} {preset:10} {pooled:9} {got:12,.0f} {got / plain:8,.0f} ×")
    counters = 20 * 6 * 2 * (1 + 6 + 1)
    print(f"\nthe same, private: per step, {counters:,} counters, a release and a plan every episode")
    fill = bare_fill(counters)
    print(f"  filling {counters:,} Laplace draws and nothing else: {fill:,.0f}/s")
    for name in PRIVATE:
        for label, privacy in {
            "tree, Laplace": dc.Central(1.0, sum="tree"),
            "smooth-tree, Laplace": dc.Central(1.0, sum="smooth-tree"),
            "factored, Gaussian": dc.Central(1.0, 1e-6, sum="factored"),
        }.items():
            got = rate(mdp, 20_000, name, privacy=privacy)
            print(f"  {name:15} {label:21} {got:10,.0f} {got / fill:6.2f} of the bare fill")
    print("\nRLSVI, a release and a plan every episode (protects rewards only): episodes/s")
    for accounting in ("tight", "individual"):
        for stationary in (False, True):
            options = {"accounting": accounting, "stationary": stationary, "privacy": dc.Central(1.0, 1e-6)}
            pooled = "pooled" if stationary else "per step"
            print(f"  {accounting:11} {pooled:9} {rate(mdp, 50_000, 'rlsvi', **options):12,.0f}")
    large = dc.envs.random(states=100, actions=5, horizon=10)
    print("\nS = 100, A = 5, H = 10, update every 100 episodes: episodes/s, and the process's peak memory so far")
    for name, privacy in (
        ("ucbvi", dc.NonPrivate()),
        ("dp-ucbvi", dc.Central(1.0)),
        ("dp-ucbvi", dc.Central(1.0, 1e-6)),
    ):
        got, gib = peak(lambda name=name, privacy=privacy: rate(large, 20_000, name, privacy=privacy, update_every=100))
        print(f"  {name:10} {type(privacy).__name__:10} {got:10,.0f} {gib:8.2f} GiB")

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

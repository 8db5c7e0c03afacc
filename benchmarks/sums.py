"""Private sums and noise: samples a second, memory, and the cost of a read as the stream grows.

python benchmarks/sums.py
"""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np

from discreet.noise import fast
from discreet.privacy import Budget, Sensitivity
from discreet.privatizers.counts._kernels import project
from discreet.sums import PrivateSum, calibrated

if TYPE_CHECKING:
    from collections.abc import Callable

#: Sums for any number of reads; ``optimal`` is for few.
STREAMS = ("tree", "smooth-tree", "factored", "batch")


def best(call: Callable[[], object], repeats: int = 7) -> float:
    """Returns the shortest of several times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def make(name: str, size: int, horizon: int, delta: float) -> PrivateSum:
    """Returns a sum of unit sensitivity at ε = 1."""
    return calibrated(
        name,
        size,
        capacity=horizon,
        horizon=horizon,
        sensitivity=Sensitivity(1.0, 1.0),
        budget=Budget(1.0, delta),
        rng=np.random.default_rng(0),
    )


def seconds_a_read(name: str, size: int, horizon: int, delta: float, reads: int = 64) -> float:
    """Returns the mean time of adding one user and reading."""
    sum_ = make(name, size, horizon, delta)
    user = np.zeros((1, 60), dtype=np.int64), np.ones((1, 60))

    def some() -> None:
        for _ in range(reads):
            sum_.add(*user)
            sum_.read()

    some()
    return best(some, 5) / reads


def main() -> None:
    """Prints everything."""
    rng, out = np.random.default_rng(0), np.empty(1920)
    for distribution in ("laplace", "gaussian"):
        fast.fill(rng, distribution, 2.0, out)
    print("nanoseconds a sample, 1,920 at a time (NumPy's Generator in the same run)")
    rounds = range(300)
    for distribution, numpys in (
        ("laplace", lambda: [rng.laplace(scale=2.0, size=1920) for _ in rounds]),
        ("gaussian", lambda: [rng.normal(scale=2.0, size=1920) for _ in rounds]),
    ):
        ours = best(lambda kind=distribution: [fast.fill(rng, kind, 2.0, out) for _ in rounds])
        theirs = best(numpys)
        unit = 1e9 / len(rounds) / out.size
        print(f"  {distribution:10} {ours * unit:6.1f} ({theirs * unit:5.1f}): {ours / theirs:.2f} of NumPy's time")

    print("\nmemory of a sum of 500,000 coordinates for 50,000 reads; time of a read of 20,000 coordinates in a stream")
    print("of 2^10 reads, and how many times as long it is in one of 2^20")
    for name in STREAMS:
        for delta in (0.0, 1e-6) if name != "factored" else (1e-6,):
            tracemalloc.start()
            sum_ = make(name, 500_000, 50_000, delta)
            sum_.add(np.zeros((1, 1), dtype=np.int64), np.ones((1, 1)))
            sum_.read()
            size = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            del sum_
            short, long = (seconds_a_read(name, 20_000, horizon, delta) for horizon in (2**10, 2**20))
            noise = "gaussian" if delta else "laplace"
            print(f"  {name:12} {noise:9} {size:7,.0f} MiB   {1e6 * short:8.1f} µs   ratio {long / short:.2f}")

    cells = rng.normal(0, 50, 240), rng.normal(0, 20, (240, 6))
    visits, transitions = np.empty(240), np.empty((240, 6))
    project(*cells, 100.0, visits, transitions)
    kernel = best(lambda: [project(*cells, 100.0, visits, transitions) for _ in range(100)]) / 100
    program = linear_programs(*cells, 100.0)
    print(f"\nprojection of 240 cells of 6: {1e6 * kernel:.1f} µs; {program / kernel:,.0f} times as fast as linprog")


def linear_programs(n_hat: np.ndarray, m_hat: np.ndarray, E: float) -> float:
    """Returns the seconds that scipy's HiGHS takes for the same cells, one program each."""
    from scipy.optimize import linprog

    S = m_hat.shape[1]
    start = time.perf_counter()
    for n, m in zip(np.maximum(n_hat, 0), m_hat, strict=True):
        above = np.column_stack([np.eye(S), -np.ones(S)])
        below = np.column_stack([-np.eye(S), -np.ones(S)])
        total = np.r_[np.ones(S), 0.0]
        linprog(
            np.r_[np.zeros(S), 1.0],
            A_ub=np.vstack([above, below, total, -total]),
            b_ub=np.r_[m, -m, n + E / 4, E / 4 - n],
            method="highs",
        )
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

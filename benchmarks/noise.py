"""Exact noise: millions of samples a second of processor time, entropy included; OpenDP beside it in the same run.

    python benchmarks/noise.py

The bars are 15 M/s compiled and 8 M/s with NumPy alone.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.noise import secure
from discreet.noise.secure import SecureSource
from discreet.privacy import Budget
from discreet.privacy.sensitivity import tabular, tabular_user
from discreet.sums import Grid, proven

if TYPE_CHECKING:
    from collections.abc import Callable

VARIANCES = (10, 10**4, 10**6, 2**60)
SCALES = (3, 100, 10**3, 2**30)
COUNTERS = 500_000


def rate(draw: Callable[[int], object], n: int, turns: int) -> float:
    """Returns millions of samples a second of processor time, of the best of several turns."""
    draw(1000)
    best = np.inf
    for _ in range(turns):
        start = time.process_time()
        draw(n)
        best = min(best, time.process_time() - start)
    return n / best / 1e6


def opendp(kind: str, scale: float) -> Callable[[int], object] | None:
    """Returns OpenDP's exact sampler of one law, if it is installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space: Any = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    if kind == "gaussian":
        measurement = dp.m.make_gaussian(*space, scale=scale)
    else:
        measurement = dp.m.make_laplace(space[0], dp.l1_distance(T="i64"), scale=scale)
    return lambda n: measurement([0] * n)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10**7)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    print(f"{'law':>24} {'compiled':>9} {'NumPy':>9} {'OpenDP':>9}   M samples/s of processor time")
    for kind, parameters in (("gaussian", VARIANCES), ("laplace", SCALES)):
        draw = getattr(secure, kind)
        for parameter in parameters:

            def compiled(n: int, parameter: int = parameter, draw: Any = draw) -> object:
                return draw(parameter, n)

            def plain(n: int, parameter: int = parameter, draw: Any = draw) -> object:
                return draw(parameter, n, numpy_only=True)

            other = opendp(kind, parameter**0.5 if kind == "gaussian" else float(parameter))
            found = [rate(compiled, given.samples, given.turns), rate(plain, given.samples // 4, given.turns)]
            beside = f"{rate(other, 20_000, 1):9.2f}" if other else f"{'-':>9}"
            print(f"{kind + ' ' + str(parameter):>24} {found[0]:9.1f} {found[1]:9.1f} {beside}")
    print(f"\n{'sum':>24} {'ms a read':>9}   of {COUNTERS:,} counters, processor time")
    source = SecureSource()
    for name, reads in (
        ("tree", 50_000),
        ("smooth-tree", 50_000),
        ("factored", 50_000),
        ("optimal", 30),
        ("batch", 30),
    ):
        built = proven(
            name,
            COUNTERS,
            capacity=100_000,
            horizon=reads,
            sensitivity=tabular(10, 3),
            budget=Budget(1.0, 1e-6),
            bound=tabular_user(10, 3),
            grid=Grid(30),
        )
        state, times = built.start(), []
        for _ in range(12):
            start = time.process_time()
            state, _ = built.released(state, source)
            times.append(time.process_time() - start)
        print(f"{name:>24} {1000 * float(np.median(times[2:])):9.1f}")


if __name__ == "__main__":
    main()

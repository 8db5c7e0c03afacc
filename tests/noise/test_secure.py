"""Exact draws from the operating system: uniform ones, orders, bad input, forks, and a device without a compiler."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidInput
from discreet.noise import as_source, secure
from discreet.noise.secure import SecureSource

LEVEL = 1e-7  # nothing here is seeded


@pytest.mark.parametrize("draw", [secure.gaussian, secure.laplace])
@pytest.mark.parametrize("bad", [0, -1, Fraction(-1, 3), 1.5, float("nan"), float("inf"), True, "3", None, 2**200])
def test_bad_parameters_are_named(draw, bad) -> None:
    """Would catch a float that is taken for a number it is not, and a law that leaves 64 bits."""
    with pytest.raises(InvalidInput, match=r"variance|scale"):
        draw(bad, 3)


@pytest.mark.parametrize("size", [-1, 1.5, (2, -1), "3", None])
def test_bad_sizes_are_named(size) -> None:
    """Would catch a shape that fails somewhere inside."""
    with pytest.raises((InvalidInput, TypeError)):
        secure.gaussian(3, size)


def test_shapes() -> None:
    """Would catch a shape that is lost, and another type than int64."""
    for size, shape in ((0, (0,)), (5, (5,)), ((2, 3), (2, 3)), ((0, 4), (0, 4)), (np.int64(4), (4,))):
        for found in (secure.gaussian(np.int64(10), size), secure.laplace(Fraction(1, 2), size, numpy_only=True)):
            assert found.shape == shape
            assert found.dtype == np.int64


def test_numbers_below_n_are_uniform() -> None:
    """Would catch the bias of a remainder: 3·2⁶² values, of which some would come twice as often."""
    for n in (1, 2, 3, 10):
        assert stats.chisquare(np.bincount(secure.below(n, 100_000), minlength=n)).pvalue > LEVEL or n == 1
    wide = 3 * 2**61
    large = secure.below(wide, 100_000)
    assert stats.chisquare(np.bincount((large // 2**61).astype(int), minlength=3)).pvalue > LEVEL


def test_orders_are_uniform() -> None:
    """Would catch an order that comes more often: all 24 of 4, one row at a time and many at once."""
    names = {order: i for i, order in enumerate(itertools.permutations(range(4)))}
    one = [names[tuple(secure.permutation(4).tolist())] for _ in range(5000)]
    rows = np.tile(np.array([True, False, False, False]), (50_000, 1))
    assert stats.chisquare(np.bincount(one, minlength=24)).pvalue > LEVEL
    assert stats.chisquare(secure.permuted(rows).sum(axis=0)).pvalue > LEVEL
    assert sorted(secure.permutation(1000).tolist()) == list(range(1000))


def test_uniform_draws_are_multiples_of_two_to_the_minus_53() -> None:
    """Would catch draws that are rounded: randomisers account for exactly these probabilities."""
    draws = SecureSource().random(200_000)
    whole = draws * 2.0**53
    assert (whole == np.rint(whole)).all()
    assert draws.min() >= 0
    assert draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > LEVEL
    assert ((whole.astype(np.int64) & 1).mean() - 0.5) ** 2 < 30 / (4 * 200_000)


def test_a_source_has_nothing_to_keep() -> None:
    """Would catch a seed, a buffer or a place to go back to."""
    source = SecureSource()
    assert as_source(source) is source
    assert not hasattr(source, "__dict__")
    assert not hasattr(source, "mark")
    assert not hasattr(source, "rewind")
    assert len(pickle.dumps(source)) < 100
    assert not (source.integers("gaussian", 2**60, 100) == source.integers("gaussian", 2**60, 100)).all()
    for call in (source.noise, source.fill):
        with pytest.raises(InvalidInput, match="made of integers"):
            call("laplace", 1.0, np.zeros(3))
    with pytest.raises(InvalidInput, match="distribution"):
        source.integers("cauchy", 3, 3)  # type: ignore[arg-type]


def test_two_processes_after_a_fork_never_repeat_a_draw() -> None:
    """Would catch a buffer that a fork copies: 400 draws of 60 bits in each of four processes are all different."""
    secure.gaussian(2**100, 10)  # whatever is kept is kept now
    pipes = []
    for _ in range(3):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            os.write(writer, secure.gaussian(2**100, 400, numpy_only=True).tobytes())
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    drawn = [secure.gaussian(2**100, 400, numpy_only=True)]
    for reader in pipes:
        with os.fdopen(reader, "rb") as file:
            drawn.append(np.frombuffer(file.read(), dtype=np.int64))
    for _ in pipes:
        os.wait()
    whole = np.concatenate(drawn)
    assert whole.size == 1600
    assert np.unique(whole).size == 1600


def test_a_device_needs_numpy_only() -> None:
    """Would catch an import of the compiler or of SciPy on the way of a user's draw."""
    code = """
import sys
for name in ("numba", "scipy", "dp_accounting", "gymnasium"):
    sys.modules[name] = None
from discreet.noise import secure
print(secure.gaussian(10, 3, numpy_only=True).shape, secure.laplace(3, 2, numpy_only=True).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(3,)", "(2,)"]


def test_no_generator_in_the_files_of_secure_noise() -> None:
    """Would catch a pseudo-random number among exact ones."""
    from pathlib import Path

    folder = Path(secure.__file__).parent
    for name in ("secure", "discrete", "uniform", "entropy", "exponential", "tables", "_secure_kernels"):
        text = (folder / f"{name}.py").read_text()
        assert not any(word in text for word in ("Generator", "default_rng", "np.random", "import random", "secrets"))

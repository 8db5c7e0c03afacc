"""Discrete noise has its law: on both codes, on every path, and the test would see it if it had not."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.errors import NumericalError
from discreet.noise import discrete, entropy, exponential, secure
from discreet.noise.discrete import sample
from discreet.noise.tables import MARGIN, TOTAL, build, table
from tests.conftest import every_other
from tests.noise.laws import LAWS, Noise, suspicion

LEVEL = 1e-6  # draws cannot be repeated, so nothing here is seeded: one false alarm in a million runs of a test
CODES = pytest.mark.parametrize("numpy_only", [False, True], ids=["compiled", "numpy"])
GAUSSIAN, LAPLACE = Noise("gaussian", Fraction(10)), Noise("laplace", Fraction(3))
WIDE = [Noise("gaussian", Fraction(10**6)), Noise("laplace", Fraction(1000)), Noise("gaussian", Fraction(2**110))]
#: The two codes differ in the first digits only; what comes after is one code. So by day each law has one of them.
LATE = pytest.mark.parametrize(("noise", "numpy_only"), every_other([GAUSSIAN, LAPLACE, *WIDE], [True, False]), ids=str)


@CODES
@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("n", [10**6, pytest.param(10**7, marks=pytest.mark.slow)])
def test_samples_have_their_law(noise, numpy_only, n):
    """Would catch what the near misses below have, and any other law that 10^7 samples can tell from the right one."""
    draw = secure.gaussian if noise.kind == "gaussian" else secure.laplace
    assert suspicion(draw(noise.parameter, n, numpy_only=numpy_only), noise) > LEVEL


# --- near misses

N = 4 * 10**6
FEWER = 10**6  # show what is grossly wrong


def off(noise, factor):
    """The samples of a scale that is slightly another."""
    power = 2 if noise.kind == "gaussian" else 1
    return sample(table(Noise(noise.kind, noise.parameter * Fraction(factor) ** power).law), N, numpy_only=False)


def zeros_kept(noise, monkeypatch):
    """−0 is accepted as 0."""
    right = discrete.propose

    def wrong(table, first, offsets):
        values, kept, asked = right(table, first, offsets)
        kept[values == 0] = True
        return values, kept, asked

    monkeypatch.setattr(discrete, "propose", wrong)
    return sample(table(noise.law), FEWER, numpy_only=True)


def words_twice(noise, monkeypatch):
    """Every word is used for two trials."""
    monkeypatch.setattr(discrete, "words", lambda n: np.repeat(entropy.words((n + 1) // 2), 2)[:n])
    return sample(table(noise.law), FEWER, numpy_only=True)


def cut_off(noise, sizes):
    """No sample beyond so many scales."""
    x = sample(table(noise.law), N, numpy_only=False)
    return x[np.abs(x) < sizes * noise.scale]


MISSES = {
    "a rounded normal": lambda _: np.rint(np.random.default_rng(0).normal(0, 10**0.5, N)).astype(np.int64),
    "a rounded Laplace": lambda _: np.rint(np.random.default_rng(0).laplace(0, 3, FEWER)).astype(np.int64),
    "σ 0.3 % too large": lambda _: off(GAUSSIAN, "1.003"),
    "σ 0.3 % too small": lambda _: off(GAUSSIAN, "0.997"),
    "a Laplace scale 0.4 % too large": lambda _: off(LAPLACE, "1.004"),
    "−0 kept": lambda monkeypatch: zeros_kept(GAUSSIAN, monkeypatch),
    "a Laplace −0 kept": lambda monkeypatch: zeros_kept(LAPLACE, monkeypatch),
    "the tail cut at 4.5 σ": lambda _: cut_off(GAUSSIAN, 4.5),
    "a Laplace tail cut at 11 scales": lambda _: cut_off(LAPLACE, 11.0),
    "words used twice": lambda monkeypatch: words_twice(GAUSSIAN, monkeypatch),
    "one side only": lambda _: np.abs(sample(table(GAUSSIAN.law), FEWER, numpy_only=False)),
    "a mean of 0.01": lambda _: (
        sample(table(GAUSSIAN.law), N, numpy_only=False) + (np.random.default_rng(0).random(N) < 0.01)
    ),
}


@pytest.mark.parametrize("miss", MISSES)
def test_near_misses_are_caught(miss, monkeypatch):
    """The test above has power."""
    x = MISSES[miss](monkeypatch)
    assert suspicion(x, LAPLACE if "Laplace" in miss else GAUSSIAN) < LEVEL


def test_odd_last_digits_are_caught():
    """Would catch random bits that are used for two purposes: here the lowest of r is a sign."""
    noise = WIDE[0]
    x = sample(table(noise.law), 10**6, numpy_only=False)
    assert suspicion(x, noise) > LEVEL
    assert suspicion(np.where(x & 1, -np.abs(x), np.abs(x)), noise) < LEVEL
    assert suspicion(x & ~np.int64(1), noise) < LEVEL


def repeated(x, shift):
    """Whether two samples of a very wide law have the same offset."""
    return np.unique(np.abs(x) & ((1 << shift) - 1)).size < x.size


def test_no_word_is_used_twice(monkeypatch):
    """Would catch a single word that comes back. Offsets have 48 bits: 10^4 of them repeat with probability 2e-7."""
    t = table(WIDE[2].law)
    for numpy_only in (False, True):
        assert not repeated(sample(t, 10**4, numpy_only=numpy_only), t.shift)

    def one_again(n):
        drawn = entropy.words(n).copy()
        if n > 10_000:
            drawn[-50] = drawn[-100]
        return drawn

    monkeypatch.setattr(discrete, "words", one_again)
    monkeypatch.setattr(discrete, "_PLAIN", 10**4)
    assert repeated(discrete.attempt(t, 10**4, numpy_only=True), t.shift)


# --- the paths that are seldom taken


@LATE
def test_floating_point_decides_as_it_should(noise, numpy_only):
    """Nothing is decided by the first digits. Would catch an error in what 62 digits are compared with."""
    t = table(noise.law)
    always = dataclasses.replace(t, low=np.zeros_like(t.low))
    assert suspicion(sample(always, 10**6, numpy_only=numpy_only), noise) > LEVEL


@LATE
def test_exact_integers_decide_as_they_should(noise, numpy_only, monkeypatch):
    """Half the columns leave everything to exact integers. Would catch digits that are lost or revealed twice."""
    t = table(noise.law)
    low = t.low.copy()
    low[1::2] = 0
    always = dataclasses.replace(t, low=low, margin=1 << 62)
    called = []
    right = exponential.happens
    monkeypatch.setattr(exponential, "happens", lambda *a: called.append(1) or right(*a))
    assert suspicion(sample(always, 40_000, numpy_only=numpy_only), noise) > LEVEL
    assert len(called) > 10_000


@LATE
def test_the_tail_has_its_law(noise, numpy_only):
    """The tail begins at E = 1/2 or 1. Would catch a block, a sign or a normaliser of the tail that is wrong."""
    t = build(noise.law, reach=1)
    assert t.weights[t.columns] > TOTAL // 50
    assert suspicion(sample(t, 50_000, numpy_only=numpy_only), noise) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE, *WIDE], ids=str)
def test_seldom_paths_with_many_samples(noise):
    """The same with 10^6."""
    assert suspicion(sample(build(noise.law, reach=1), 10**6, numpy_only=False), noise) > LEVEL
    always = dataclasses.replace(table(noise.law), low=np.zeros(1024, np.int64), margin=1 << 62)
    assert suspicion(sample(always, 400_000, numpy_only=False), noise) > LEVEL


@pytest.mark.parametrize("flaw", ["weight", "sign", "block"])
def test_flawed_tails_are_caught(flaw, monkeypatch):
    """The test of the tail has power: 3 % too seldom, one side only, blocks of half the size."""
    t = build(GAUSSIAN.law, reach=1)
    if flaw == "weight":
        weights = list(t.weights)
        weights[t.columns] = weights[t.columns] * 115 // 100
        t = dataclasses.replace(t, weights=tuple(weights))
    elif flaw == "block":
        t = dataclasses.replace(build(LAPLACE.law, reach=1), block=0)
    else:
        right = discrete.finish
        monkeypatch.setattr(discrete, "finish", lambda table, value, digits: right(table, abs(value), digits))
    noise = LAPLACE if flaw == "block" else GAUSSIAN
    assert suspicion(sample(t, 50_000, numpy_only=True), noise) < LEVEL


@pytest.mark.parametrize(
    ("numpy_only", "n"), [(True, 5000), *(pytest.param(code, 20_000, marks=pytest.mark.slow) for code in (True, False))]
)
def test_a_sample_does_not_depend_on_where_it_stands(numpy_only, n):
    """Samples one by one have the law too.

    Would catch trials that are put last because they were decided late: the surplus is cut off at the end.
    """
    noise = LAPLACE
    t = table(noise.law)
    low = t.low.copy()
    low[::2] = 0
    late = dataclasses.replace(t, low=low)
    x = np.concatenate([sample(late, 1, numpy_only=numpy_only) for _ in range(n)])
    assert suspicion(x, noise) > LEVEL


def test_late_decisions_at_the_end_would_be_caught(monkeypatch):
    """The test above has power."""
    t = table(LAPLACE.law)
    low = t.low.copy()
    low[::2] = 0
    late = dataclasses.replace(t, low=low)

    def wrong(table, trials, *, numpy_only):
        x = right(table, trials, numpy_only=numpy_only)
        return x[np.argsort(np.abs(x) % 2 == 0, kind="stable")]

    right = discrete.attempt
    monkeypatch.setattr(discrete, "attempt", wrong)
    assert suspicion(np.concatenate([sample(late, 1, numpy_only=True) for _ in range(5000)]), LAPLACE) < LEVEL


# --- two codes


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_both_codes_propose_the_same(noise):
    """Bit for bit from the same words. Would catch a shift, a mask or a sign that differs; numba's mixed integers."""
    t = table(noise.law)
    first = entropy.words(200_000)
    offsets = entropy.words(200_000) if t.shift > discrete.NARROW else entropy.words(0)
    for one, two in zip(discrete.propose(t, first, offsets), discrete._compiled(t, first, offsets), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


@CODES
@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE, WIDE[2]], ids=str)
def test_words_of_all_zeros_and_all_ones(noise, numpy_only):
    """Would catch a cell, a coin or an offset at the very end that is out of its table."""
    t = table(noise.law)
    ends = np.array([0, 2**64 - 1, 2**39, 2**63, 2**54 - 1], dtype=np.uint64)
    offsets = ends[::-1].copy() if t.shift > discrete.NARROW else ends[:0]
    values, kept, asked = (discrete.propose if numpy_only else discrete._compiled)(t, ends, offsets)
    assert values.dtype == np.int64
    assert not kept[asked].any()
    if not offsets.size:
        assert values[0] == values[2] == 0
        assert kept.tolist()[2] is False  # −0
        assert 2 not in asked


def test_the_number_of_trials_tells_nothing_of_the_values(monkeypatch):
    """Trials are asked for by counts alone. Would catch a loop that goes on because of what was drawn."""
    asked = []
    right = discrete.attempt
    monkeypatch.setattr(discrete, "attempt", lambda t, trials, **how: asked.append(trials) or right(t, trials, **how))
    t = table(WIDE[0].law)
    sizes = []
    for _ in range(2000):
        asked.clear()
        x = sample(t, 20, numpy_only=True)
        sizes.append((sum(asked), np.abs(x).mean()))
    trials, means = np.array(sizes).T
    if len(set(trials.tolist())) > 1:
        assert stats.spearmanr(trials, means).pvalue > LEVEL


def test_a_sample_that_does_not_fit_is_refused(monkeypatch):
    """Would catch a sample that wraps around to the other sign."""
    t = build(Noise("laplace", Fraction(2**55)).law)
    coins = iter([b"\x01"] * 400 + [b"\x00"])
    monkeypatch.setattr(discrete.os, "urandom", lambda n: next(coins) if n == 1 else bytes(n))
    monkeypatch.setattr(exponential, "happens", lambda *_: True)
    with pytest.raises(NumericalError, match="does not fit into 64 bits"):
        discrete.finish(t, t.columns << t.shift, 0)


def test_the_margin_is_that_of_the_proof():
    assert table(GAUSSIAN.law).margin == MARGIN
    assert table(GAUSSIAN.law) is table(Noise("gaussian", Fraction(20, 2)).law)  # kept


@CODES
def test_a_second_look_is_always_taken(numpy_only, monkeypatch):
    """Catches a small release whose time tells whether one of its trials was asked again, and so something of it."""
    calls = {"attempt": 0, "decide": 0}
    for name in calls:
        right = getattr(discrete, name)

        def counted(*args, right=right, name=name, **options):
            calls[name] += 1
            return right(*args, **options)

        monkeypatch.setattr(discrete, name, counted)
    for _ in range(200):
        sample(table(GAUSSIAN.law), 1, numpy_only=numpy_only)
    assert calls["decide"] == calls["attempt"] >= 200

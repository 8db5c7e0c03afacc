"""Every table is proved in integers and intervals, by arithmetic that is not the library's."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import NumericalError
from discreet.noise import discrete, exponential, tables
from discreet.noise.tables import CELLS, COIN, DIGITS, MARGIN, TOTAL, Law, build, table
from tests.noise.laws import LAWS

iv = mpmath.iv
iv.prec = 400


def height(law, x):
    """An interval that contains f(x)."""
    return iv.exp(-iv.mpf(law.exponent(x)) / law.over)


def prove(t):
    """Raises unless all that `discreet.noise.tables` claims of a table holds."""
    law, width, n = t.law, 1 << t.shift, t.columns
    assert sum(t.weights) == TOTAL == 2**24
    assert len(t.weights) == n + 2 <= CELLS
    assert min(t.weights) >= 0
    assert t.factor >= 1
    last = law.exponent(n * width)
    for j in range(n):
        top, bottom = t.factor * height(law, j * width), t.factor * height(law, j * width + width - 1)
        assert (t.weights[j] - top).a >= 0
        assert (bottom * 2**DIGITS - int(t.low[j]) * t.weights[j]).a >= 0
        assert abs(top / t.weights[j] - iv.mpf(float(t.start[j]))).b <= 2.0**-53
        if t.shift:
            slope = Fraction(2 * law.square * j * width + law.linear, law.over)
            assert abs(Fraction(float(t.slope[j])) - slope) <= slope * Fraction(1, 2**53)
    assert not t.low[n:].any()
    assert not t.start[n:].any()
    # The tail: blocks over which f falls by more than half, and a weight that covers their first.
    assert law.exponent(n * width + (width << t.block)) - last >= law.over
    assert (t.weights[n] - t.factor * height(law, n * width) * 2 ** (t.block + 1)).a >= 0
    # Pairs of a cell and a coin, each of which has probability 2^−24.
    pairs = [0] * CELLS
    for cell, (cut, other) in enumerate(zip(t.cut.tolist(), t.alias.tolist(), strict=True)):
        assert 0 <= cut <= 1 << COIN
        pairs[cell] += cut
        pairs[other] += (1 << COIN) - cut
    assert pairs == [*t.weights, *[0] * (CELLS - n - 2)]
    # What the error bound of the floating-point numbers needs.
    assert t.shift <= 52
    if t.shift:
        assert 8 * (last - law.exponent((n - 1) * width)) <= law.over
        curve = Fraction(law.square, law.over)
        assert abs(Fraction(t.curve) - curve) <= curve * Fraction(1, 2**53)
    assert t.margin >= MARGIN > 2**12 + 1
    assert (n + 2) << t.shift < 2**62  # no proposal leaves 64 bits


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_tables_are_proved(noise):
    """Would catch a weight below C·f, an alias table that moves a single unit, a squeeze that is too wide."""
    prove(table(noise.law))
    prove(build(noise.law, reach=1))


fractions = st.builds(
    lambda n, d, e: Fraction(n, d) * Fraction(2) ** e,
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(-30, 30),
)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(["gaussian", "laplace"]), fractions)
def test_tables_of_any_fraction_are_proved(kind, parameter):
    """Would catch laws between those that were tried: scales far below 1, odd denominators."""
    prove(build(getattr(Law, kind)(parameter)))


def test_tables_of_extreme_laws_are_proved():
    """Would catch exponents that overflow a float."""
    for law in (Law.gaussian(Fraction(1, 10**400)), Law.laplace(Fraction(1, 10**400)), Law.gaussian(Fraction(2**110))):
        prove(build(law))


def flaws(t):
    """Tables that are wrong by as little as possible."""
    weights = list(t.weights)
    weights[3], weights[-1] = weights[3] - 1, weights[-1] + 1
    yield "a weight", dataclasses.replace(t, weights=tuple(weights))
    yield "the factor", dataclasses.replace(t, factor=t.factor + 1)
    for name, at in (("cut", 5), ("alias", 5), ("low", 7)):
        array = getattr(t, name).copy()
        array[at] += 1
        yield name, dataclasses.replace(t, **{name: array})
    for name, at in (("start", 2), ("slope", 2)):
        array = getattr(t, name).copy()
        array[at] *= 1 + 2.0**-50
        yield name, dataclasses.replace(t, **{name: array})
    yield "block", dataclasses.replace(t, block=t.block - 1)
    yield "margin", dataclasses.replace(t, margin=2**10)


@pytest.mark.parametrize("which", range(9))
def test_planted_flaws_are_found(which):
    """The proof has power: one unit anywhere breaks it."""
    name, flawed = list(flaws(table(Law.gaussian(Fraction(2**60)))))[which]
    try:
        prove(flawed)
    except AssertionError:
        return
    pytest.fail(name, pytrace=False)


def test_columns_that_are_too_wide_are_refused(monkeypatch):
    """Would catch a law whose floating-point numbers are not covered by the proof."""
    monkeypatch.setattr(tables, "_STEEPEST", Fraction(1, 100))
    with pytest.raises(NumericalError, match="wider than is proven"):
        build(Law.gaussian(Fraction(2**60)))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**12), st.integers(1, 10**9), st.integers(0, 300))
def test_bounds_contain_the_exponential(numerator, denominator, bits):
    """Would catch a rounding in the wrong direction; and bounds that are useless."""
    low, high = exponential.bounds(numerator, denominator, bits)
    exact = iv.exp(-iv.mpf(numerator) / denominator) * iv.mpf(2) ** bits
    assert 0 <= low <= exact.b
    assert high >= exact.a
    assert high - low <= 2


@pytest.mark.parametrize("noise", [noise for noise in LAWS if noise.scale > 100], ids=str)
def test_floating_point_numbers_are_as_near_as_is_proven(noise, rng):
    """Would catch a term of the polynomial too few, or a column's start that is rounded twice."""
    t = table(noise.law)
    columns = rng.integers(t.columns, size=400)
    r = rng.integers(1 << t.shift, size=400)
    r[:100] = (1 << t.shift) - 1
    columns[50:150] = t.columns - 1
    for j, offset, found in zip(columns.tolist(), r.tolist(), discrete.estimate(t, columns, r).tolist(), strict=True):
        exact = t.factor * height(t.law, (j << t.shift) + offset) / t.weights[j] * 2**62
        assert abs(exact - found).b <= 2**12 + 1


@pytest.mark.parametrize("exponent", [(0, 1), (1, 3), (7, 2), (40, 1)])
def test_a_lazy_number_decides_as_its_digits_do(monkeypatch, exponent):
    """All first digits are tried. Would catch a comparison that is off by one digit, or one that decides too early."""
    asked = []
    monkeypatch.setattr(exponential.os, "urandom", lambda n: asked.append(n) or b"\x80" + bytes(n - 1))
    exact = 3 * iv.exp(-iv.mpf(exponent[0]) / exponent[1]) / 4 * 1024
    for revealed in range(1024):
        accepted = exponential.happens(3, 4, exponent, revealed, 10)
        if asked:  # the cell in which p lies
            assert revealed <= exact.b
            assert revealed + 1 >= exact.a
            asked.clear()
        else:
            assert accepted is bool(revealed + 1 <= exact.a)

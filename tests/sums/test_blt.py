"""The BLT's closed forms against dense matrices."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from discreet.sums import blt, factorise

TABLE = json.loads((resources.files("discreet.sums") / "blt_coefficients.json").read_text())


def dense(theta, omega, n):
    """C and A C⁻¹, entry by entry."""
    c = np.r_[1.0, np.array([(np.array(omega) * np.array(theta) ** (t - 1)).sum() for t in range(1, n)])]
    C = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    return C, np.tril(np.ones((n, n))) @ np.linalg.inv(C)


@pytest.mark.parametrize(
    "row", [row if i % 4 == 0 else pytest.param(row, marks=pytest.mark.slow) for i, row in enumerate(TABLE)]
)
def test_closed_forms_equal_dense_matrices(row):
    theta, omega = tuple(TABLE[row]["theta"]), tuple(TABLE[row]["omega"])
    C, B = dense(theta, omega, 200)
    assert blt.column_norm(theta, omega, 200) == pytest.approx(np.linalg.norm(C[:, 0]), rel=1e-10)
    decays, weights = blt.prefix_modes(theta, omega)
    np.testing.assert_allclose(blt.read_variance(decays, weights, np.arange(1, 201)), (B**2).sum(axis=1), rtol=1e-9)
    b = (weights[None] * (1 - decays[None]) ** np.arange(200)[:, None]).sum(axis=1)
    np.testing.assert_allclose(b, B[:, 0], atol=1e-10)
    assert (weights > 0).all()
    assert ((decays >= 0) & (decays < 1)).all()


@pytest.mark.parametrize("row", TABLE)
def test_the_table_says_its_own_error(row):
    theta, omega = tuple(TABLE[row]["theta"]), tuple(TABLE[row]["omega"])
    variance = blt.read_variance(*blt.prefix_modes(theta, omega), np.array([int(row)]))[0]
    assert blt.column_norm(theta, omega, int(row)) * np.sqrt(variance) == pytest.approx(TABLE[row]["error"], rel=1e-9)


def test_streaming_equals_the_dense_product(rng):
    shape = factorise("factored", 300, 1e-6)
    theta, omega = blt.coefficients(300)
    _, B = dense(theta, omega, 300)
    z = rng.standard_normal((300, 4))
    state = shape.start(4)
    got = np.array([shape.advance(state, row) for row in z])
    np.testing.assert_allclose(got, B @ z, atol=1e-10)


@pytest.mark.slow
def test_a_stream_of_a_million_reads_stays_exact(rng):
    """Rounding errors must not add up: compared with a convolution in extended precision at the end of the stream."""
    n = 2**20
    shape = factorise("factored", n, 1e-6)
    theta, omega = blt.coefficients(n)
    decays, weights = blt.prefix_modes(theta, omega)
    z = rng.standard_normal(n)
    state = shape.start(1)
    for value in z:
        last = shape.advance(state, np.array([value]))[0]
    s = np.arange(n - 1, -1, -1, dtype=np.longdouble)
    b = sum(np.longdouble(w) * np.exp(s * np.log1p(-np.longdouble(k))) for k, w in zip(decays, weights, strict=True))
    assert last == pytest.approx(float((b * z).sum()), abs=1e-9)

"""The factorisations: B and C are what the calibration assumes, by listing them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from discreet.errors import CapacityExceeded
from discreet.privacy import Sensitivity
from discreet.privacy.budget import Budget
from discreet.privacy.sensitivity import tabular
from discreet.sums import CENTRAL, factorise, optimal, worst_std

GAUSSIAN = ("factored", "optimal")
SHAPES = [(name, delta) for name in CENTRAL for delta in (0.0, 1e-6) if delta > 0 or name not in GAUSSIAN]
LONG = [(name, delta) for name, delta in SHAPES if name != "optimal"]  # which is for few reads


@pytest.mark.parametrize(("name", "delta"), SHAPES)
@pytest.mark.parametrize("T", [1, 2, 3, 7, 8, 30, pytest.param(64, marks=pytest.mark.slow), 100])
def test_columns_and_rows(name, delta, T):
    """The largest column of C = B⁻¹A is exactly what is accounted; the rows of B are the reads' noise."""
    if name == "optimal" and T > optimal.MOST:
        return
    shape = factorise(name, T, delta)
    B = shape.matrix()
    assert np.array_equal(B, np.tril(B))
    if name != "optimal":  # no Toeplitz matrix
        np.testing.assert_array_equal(np.diag(B), np.diag(B)[0] * np.ones(T))
    C = np.linalg.inv(B) @ np.tril(np.ones((T, T)))
    weight, entries = shape.entries
    assert np.sqrt((C**2).sum(axis=0)).max() == pytest.approx(weight * math.sqrt(entries), rel=1e-9)
    if delta == 0:
        assert np.abs(C).sum(axis=0).max() == pytest.approx(weight * entries, rel=1e-9)
    variances = (B**2).sum(axis=1)
    np.testing.assert_allclose([shape.variance(t + 1) for t in range(T)], variances, rtol=1e-9)
    values, counts = shape.spectrum()
    if name == "batch" and T > 2:  # Lévy's inequality: twice the last read
        assert (values.tolist(), counts.tolist()) == ([T], [2.0])
    else:
        assert counts.sum() == T
        np.testing.assert_allclose(np.sort(np.repeat(values, counts.astype(int))), np.sort(variances), rtol=1e-9)
    assert shape.worst_variance == pytest.approx(variances.max())


@pytest.mark.parametrize(("name", "delta"), LONG)
@pytest.mark.parametrize("T", [1000, 50_000, 2**20])
def test_spectra_of_long_streams_bound_every_read(rng, name, delta, T):
    shape = factorise(name, T, delta)
    values, counts = shape.spectrum()
    assert (counts > 0).all()
    reads = np.sort(rng.integers(1, T + 1, size=200))  # in order: variances are computed in stretches
    assert max(shape.variance(int(t)) for t in reads) <= values.max() * (1 + 1e-12)
    if name == "batch":
        return
    assert counts.sum() == T
    sampled = np.mean([shape.variance(int(t)) for t in np.sort(rng.integers(1, T + 1, size=3000))])
    assert sampled <= (values * counts).sum() / T * 1.05


def test_worst_noise_over_50_000_reads():
    """Must show: a single count of sensitivity 1."""
    one, T = Sensitivity(1.0, 1.0), 50_000
    assert worst_std("tree", T, one, Budget(1.0)) == pytest.approx(87.636, abs=0.01)
    assert worst_std("smooth-tree", T, one, Budget(1.0)) <= 32
    sigma = worst_std("batch", 1, one, Budget(1.0, 1e-6))
    assert worst_std("tree", T, one, Budget(1.0, 1e-6)) / sigma == pytest.approx(15.492, abs=0.01)
    assert worst_std("factored", T, one, Budget(1.0, 1e-6)) / sigma <= 4.6


def test_worst_noise_on_riverswim():
    """Must show: RiverSwim-6, H = 20, ε = 1, per step, n, m and r."""
    sensitivity, T = tabular(20, 3), 50_000
    assert worst_std("factored", T, sensitivity, Budget(1.0, 1e-6)) <= 214
    assert worst_std("tree", T, sensitivity, Budget(1.0, 1e-6)) == pytest.approx(717, abs=1)
    assert worst_std("tree", T, sensitivity, Budget(1.0)) == pytest.approx(10_520, rel=1e-3)
    assert worst_std("smooth-tree", T, sensitivity, Budget(1.0)) <= 3_840


def test_smooth_trees_are_tuned_to_their_noise():
    laplace, gaussian = factorise("smooth-tree", 50_000, 0.0), factorise("smooth-tree", 50_000, 1e-6)
    assert (laplace.zeros, laplace.ones) == (4, 31)
    for shape, cost in ((laplace, lambda z, w: z * z * w), (gaussian, lambda z, w: z * w)):
        best = min(
            cost(z, w) for z in range(1, 30) for w in range(1, 60) if math.comb(z + w, z) >= 50_001 and z + w <= 63
        )
        assert cost(shape.zeros, shape.ones) == best


def test_factored_sums_end_where_their_table_ends():
    with pytest.raises(CapacityExceeded, match="16777216 reads, got horizon=16777217"):
        factorise("factored", 2**24 + 1, 1e-6)


def least(T):
    """The least ‖A C⁻¹‖_F² over all C with columns of norm at most 1, by a solver that knows nothing of its form.

    Any upper triangle L gives a positive X = CᵀC = LᵀL, whose columns are scaled to 1; ‖A C⁻¹‖² = tr A X⁻¹ Aᵀ.
    """
    A, upper = np.tril(np.ones((T, T))), np.triu_indices(T)

    def total(entries):
        L = np.zeros((T, T))
        L[upper] = entries
        L /= np.linalg.norm(L, axis=0)
        return float(np.trace(A @ np.linalg.solve(L.T @ L, A.T)))

    return min(
        minimize(total, np.eye(T)[upper] + 0.3 * np.random.default_rng(seed).random(len(upper[0]))).fun
        for seed in range(3)
    )


@pytest.mark.parametrize("T", [2, 3, 4, 6])
def test_optimal_is_optimal(T):
    """Must show: an independent solution has the same total variance."""
    B = factorise("optimal", T, 1e-6).matrix()
    norm, _ = factorise("optimal", T, 1e-6).entries
    assert (B**2).sum() * norm**2 == pytest.approx(least(T), rel=3e-5)  # B's rounding is the larger part of it


@pytest.mark.parametrize("T", [1, 2, 5, 20, *(pytest.param(T, marks=pytest.mark.slow) for T in (41, 64))])
def test_optimal_beats_every_other_sum_in_total(T):
    """Columns of norm 1, and no sum has less noise in all reads together at the same sensitivity."""
    A, totals = np.tril(np.ones((T, T))), {}
    for name in CENTRAL:
        B = factorise(name, T, 1e-6).matrix()
        norms = np.linalg.norm(np.linalg.solve(B, A), axis=0)
        totals[name] = (B**2).sum() * norms.max() ** 2
        if name == "optimal":
            np.testing.assert_allclose(norms, 1.0, rtol=3e-5)
    assert totals["optimal"] <= min(totals.values()) * (1 + 3e-5)
    if T >= 20:
        assert totals["optimal"] < 0.99 * totals["factored"]


def exact_squares(B):
    """The squared norms of the columns of B⁻¹A, as fractions."""
    rows, T = [[Fraction(entry) for entry in row] for row in B.tolist()], len(B)
    C = []
    for i, row in enumerate(rows):
        rests = [int(j <= i) - sum(row[k] * C[k][j] for k in range(i)) for j in range(T)]
        C.append([rest / row[i] for rest in rests])
    return [sum(row[j] ** 2 for row in C) for j in range(T)]


@pytest.mark.parametrize("T", [1, 2, 3, 5, 13, 20, *(pytest.param(T, marks=pytest.mark.slow) for T in (41, 64))])
def test_the_norm_that_is_accounted_is_never_below_that_of_the_noise(T):
    """Must show: at least the norm of C = B⁻¹A for the B that is used, in exact arithmetic, and within 1e-9 of it."""
    shape = factorise("optimal", T, 1e-6)
    norm, entries = shape.entries
    largest = max(exact_squares(shape.matrix()))
    assert entries == 1
    assert Fraction(norm) ** 2 >= largest
    assert Fraction(norm) ** 2 <= largest * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize(
    "sizes", [(1, 2, 3, 7, 10, 20), pytest.param((33, 41, 50, 64), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_every_machine_has_the_same_optimal_factorisation(monkeypatch, sizes):
    """LAPACK's drivers stand in for other machines, and random errors that are larger than theirs."""
    import scipy.linalg

    real, rng = np.linalg.eigh, np.random.default_rng(0)

    def rough(M):
        values, vectors = real(M)
        return values, vectors + 1e-13 * rng.standard_normal(M.shape)

    def driven(driver):
        return lambda M: scipy.linalg.eigh(M, driver=driver)

    for T in sizes:
        B, norm = optimal.prefix(T)
        np.testing.assert_array_equal(B * 2**16, np.round(B * 2**16))
        for solver in (rough, driven("ev"), driven("evd"), driven("evr")):
            with monkeypatch.context() as patch:
                patch.setattr(np.linalg, "eigh", solver)
                again, as_much = optimal.prefix.__wrapped__(T)
            np.testing.assert_array_equal(again, B)
            assert as_much == norm


@pytest.mark.parametrize("most", [24, pytest.param(optimal.MOST, marks=pytest.mark.slow)])
def test_no_entry_is_near_the_middle_between_two_multiples(most):
    """Would catch a grid on which another machine rounds an entry the other way."""
    for T in range(1, most + 1):
        units = np.ldexp(optimal._unrounded(T), 16)
        assert np.abs(units % 1 - 0.5).min() > 3e-10 * 2**16


def test_optimal_is_for_few_reads():
    assert optimal.MOST == 64
    with pytest.raises(ValueError, match="up to 64 reads, got 65; try factored"):
        factorise("optimal", 65, 1e-6)
    with pytest.raises(ValueError, match="needs delta > 0, got delta=0"):
        factorise("optimal", 5, 0.0)


def test_what_is_cached_cannot_be_changed():
    """Two agents with as many reads share B: one that wrote into it would change the other's noise."""
    B, _ = optimal.prefix(5)
    with pytest.raises(ValueError, match="read-only"):
        B[0, 0] = 0.0
    one, two = factorise("optimal", 5, 1e-6), factorise("optimal", 5, 1e-6)
    one.coefficients[0, 0] = 7.0
    assert two.coefficients[0, 0] != 7.0


def test_unknown_and_unproven_sums_are_named():
    with pytest.raises(ValueError, match="did you mean 'factored'"):
        factorise("fctored", 5, 1e-6)
    with pytest.raises(ValueError, match="needs delta > 0, got delta=0"):
        factorise("factored", 5, 0.0)
    with pytest.raises(ValueError, match="horizon=0"):
        factorise("tree", 0, 0.0)

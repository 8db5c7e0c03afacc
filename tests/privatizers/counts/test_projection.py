"""The count projection against its linear program, its optimality conditions and exact arithmetic."""

import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.privatizers import PrivateCounts
from discreet.privatizers import project as project_counts
from discreet.privatizers.counts._kernels import project
from tests.privatizers.counts import projection_reference as reference

LP_CELLS = 10_000
EXAMPLES = 200  # hypothesis looks for odd numbers; the shapes of cells are tried 10,000 times, at random


def sizes(few, many):
    """A few now, and all of them with the slow tests."""
    return pytest.mark.parametrize("number", [few, pytest.param(many, marks=pytest.mark.slow)])


def run(n_hat, m_hat, E):
    n_hat, m_hat = np.atleast_1d(np.asarray(n_hat, float)), np.atleast_2d(np.asarray(m_hat, float))
    visits, transitions = np.full(n_hat.shape, np.nan), np.full(m_hat.shape, np.nan)
    project(n_hat, m_hat, float(E), visits, transitions)
    return visits, transitions


def solve(n_hat, m_hat, E):
    """Σx and x (S,) of one cell: what the kernel returns, with eq. (5) undone."""
    visits, transitions = run(n_hat, m_hat, E)
    S = transitions.shape[1]
    return visits[0] - E / 2, transitions[0] - E / (2 * S)


def scale_of(n_hat, m_hat, E):
    return max(1.0, abs(n_hat), E, float(np.abs(m_hat).max()))


def random_cell(rng):
    """(n̂, m̂, E) of every kind: consistent or not, negative totals, ties, zeros, E = 0, tiny to huge."""
    S = int(rng.integers(1, 9))
    size = 10.0 ** rng.integers(-1, 4) if rng.random() < 0.9 else 1e12
    E = 0.0 if rng.random() < 0.2 else size * rng.choice([1e-3, 0.1, 1.0, 10.0]) * rng.random()
    kind = rng.integers(7)
    if kind == 0:  # true counts with noise of the assumed size
        m = rng.integers(0, 50, S).astype(float)
        n_hat, m_hat = m.sum() + rng.uniform(-E, E) / 4, m + rng.uniform(-E, E, S) / 4
    elif kind == 1:  # true counts with heavy noise
        m = rng.poisson(3.0, S).astype(float)
        n_hat, m_hat = m.sum() + rng.laplace(0.0, size), m + rng.laplace(0.0, size, S)
    elif kind == 2:  # integers: ties everywhere
        n_hat, m_hat = float(rng.integers(-5, 12)), rng.integers(-3, 4, S).astype(float)
        E = float(rng.integers(0, 9))
    elif kind == 3:  # all equal
        n_hat, m_hat = rng.normal() * size, np.full(S, rng.normal() * size)
    elif kind == 4:  # all negative
        n_hat, m_hat = rng.normal() * size, -rng.random(S) * size
    elif kind == 5:  # n̂ far above Σm̂, some entries far below zero
        n_hat, m_hat = rng.random() * 5 * size, rng.normal(-1.0, 2.0, S) * size
    else:  # zeros among anything
        n_hat, m_hat = rng.choice([0.0, 1.0, -1.0]) * size, rng.normal(0.0, 1.0, S) * size * (rng.random(S) < 0.5)
    return float(n_hat), m_hat, float(E)


@functools.cache
def random_cells():
    """Made once, and not by those who only collect."""
    return [random_cell(np.random.default_rng([7, i])) for i in range(LP_CELLS)]


@pytest.mark.parametrize("cells", [400, pytest.param(LP_CELLS, marks=pytest.mark.slow)])
def test_largest_change_is_the_linear_programs_optimum(cells):
    regimes = {"down": 0, "free": 0, "up": 0, "up, and some stay at zero": 0, "U = 0": 0}
    for n_hat, m_hat, E in random_cells()[:cells]:
        _, x = solve(n_hat, m_hat, E)
        scale = scale_of(n_hat, m_hat, E)
        objective = np.abs(x - m_hat).max()
        assert objective == pytest.approx(reference.linear_program(n_hat, m_hat, E), abs=1e-9 * scale)
        assert objective == pytest.approx(reference.largest_change(n_hat, m_hat, E), abs=1e-12 * scale)
        L, U = reference.bounds(n_hat, E)
        positive = np.maximum(m_hat, 0.0).sum()
        regimes["down"] += positive > U
        regimes["free"] += L <= positive <= U
        regimes["up"] += positive < L
        regimes["up, and some stay at zero"] += positive < L and bool((reference.closest(n_hat, m_hat, E) == 0).any())
        regimes["U = 0"] += U == 0
    assert min(regimes.values()) > cells / 100, regimes


@sizes(2_000, 10_000)
def test_conditions_of_kuhn_and_tucker(number):
    """x = max(0, m̂ − θ) with one θ; θ > 0 only where Σx = U, θ < 0 only where Σx = L: necessary and sufficient."""
    for n_hat, m_hat, E in random_cells():
        total, x = solve(n_hat, m_hat, E)
        L, U = reference.bounds(n_hat, E)
        near = 1e-12 * scale_of(n_hat, m_hat, E)
        assert (x >= -near).all()
        assert L - near <= total <= U + near
        assert total == pytest.approx(x.sum(), abs=near)
        active = x > near
        theta = m_hat[active] - x[active]  # stationarity
        if not active.any():
            assert total <= near * x.size
            assert near * x.size >= L
            continue
        assert np.ptp(theta) <= 4 * near
        assert (m_hat[~active] <= theta.max() + 4 * near).all()  # the multipliers of x ≥ 0 are not negative
        if theta.min() > 4 * near:
            assert total == pytest.approx(U, abs=near)
        if theta.max() < -4 * near:
            assert total == pytest.approx(L, abs=near)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, 16.0, np.inf])
def test_no_feasible_point_is_closer_in_any_norm(p):
    rng = np.random.default_rng(3)
    for n_hat, m_hat, E in random_cells()[:1_500]:
        L, U = reference.bounds(n_hat, E)
        scale = scale_of(n_hat, m_hat, E)
        _, x = solve(n_hat, m_hat, E)
        y = np.concatenate(  # feasible points all over the set, and near x
            [rng.dirichlet(np.full(x.size, 0.5), 20), (np.abs(x / scale + rng.normal(0.0, 0.01, (20, x.size))))]
        )
        y *= rng.uniform(L, U, (40, 1)) / np.maximum(y.sum(axis=1, keepdims=True), 1e-300)
        away = np.linalg.norm((y - m_hat) / scale, p, axis=1)
        assert np.linalg.norm((x - m_hat) / scale, p) <= away.min() + 1e-12


@pytest.mark.parametrize("edge", [False, True])
@sizes(3_000, 10_000)
def test_lemma_5_4(edge, number):
    """The four properties of Assumption 3.1, with noise inside ±E/4 and exactly at its ends."""
    rng = np.random.default_rng(54)
    for _ in range(number):
        S = int(rng.integers(1, 9))
        E = float(rng.choice([0.0, 1e-3, 1.0, 37.3, 1e4]) * rng.random())
        m = rng.poisson(rng.choice([0.0, 0.3, 5.0, 1e3, 1e9]), S).astype(float)
        n = m.sum()
        noise = rng.choice([-1.0, 1.0], S + 1) if edge else rng.uniform(-1.0, 1.0, S + 1)
        visits, transitions = run(n + noise[0] * E / 4, m + noise[1:] * E / 4, E)
        near = 1e-14 * max(1.0, n, E)
        assert (np.abs(transitions[0] - m) <= E + near).all()
        assert abs(visits[0] - n) <= E + near
        assert visits[0] >= n - near
        assert visits[0] == pytest.approx(transitions[0].sum(), abs=near * S)
        assert E == 0.0 or (transitions[0] > 0.0).all()


def test_kernel_equals_reference():
    for n_hat, m_hat, E in random_cells():
        visits, transitions = run(n_hat, m_hat, E)
        expected_visits, expected = reference.project(n_hat, m_hat, E)
        near = 1e-12 * scale_of(n_hat, m_hat, E)
        np.testing.assert_allclose(transitions[0], expected, rtol=0, atol=near)
        assert visits[0] == pytest.approx(expected_visits, abs=near)


def test_kernel_equals_rational_arithmetic():
    for n_hat, m_hat, E in random_cells()[:3_000]:
        visits, transitions = run(n_hat, m_hat, E)
        exact = reference.closest_exactly(n_hat, m_hat, E)
        near = Fraction(2e-15 * scale_of(n_hat, m_hat, E))
        for value, x in zip(transitions[0], exact, strict=True):
            assert abs(Fraction(float(value)) - x - Fraction(E) / (2 * len(exact))) <= near
        assert abs(Fraction(float(visits[0])) - sum(exact) - Fraction(E) / 2) <= near * len(exact)


def test_small_total_of_huge_counts_is_kept():
    """Rounding is relative to Σx where m̂ is lowered to it, not to m̂: θ = 1e12 − 5e-7 is not a float."""
    visits, transitions = run(1e-6, [1e12, 1e12, 5.0], 0.0)
    np.testing.assert_allclose(transitions[0], [5e-7, 5e-7, 0.0], rtol=1e-15)
    assert visits[0] == pytest.approx(1e-6, rel=1e-15)


def test_many_cells_are_each_done_alone_and_in_place():
    rng = np.random.default_rng(0)
    n_hat, m_hat = rng.laplace(20.0, 30.0, 500), rng.laplace(3.0, 15.0, (500, 6))
    visits, transitions = run(n_hat, m_hat, 12.0)
    for c in range(500):
        one_visits, one = run(n_hat[c], m_hat[c], 12.0)
        assert visits[c] == one_visits[0]
        np.testing.assert_array_equal(transitions[c], one[0])
    project(n_hat, m_hat, 12.0, n_hat, m_hat)
    np.testing.assert_array_equal(n_hat, visits)
    np.testing.assert_array_equal(m_hat, transitions)


@pytest.mark.parametrize(
    ("n_hat", "m_hat", "E", "visits", "transitions"),
    [
        (-3.0, [5.0, 7.0], 0.0, 0.0, [0.0, 0.0]),  # U = 0
        (0.0, [-5.0, -7.0], 0.0, 0.0, [0.0, 0.0]),
        (-9.0, [5.0, -7.0], 8.0, 6.0, [4.0, 2.0]),  # n̂ < −E/4: eq. (6) as printed is infeasible
        (4.0, [-2.0], 4.0, 5.0, [5.0]),  # S = 1, raised to L
        (4.0, [9.0], 4.0, 7.0, [7.0]),  # S = 1, lowered to U
        (6.0, [1.0, 1.0, -9.0], 0.0, 6.0, [3.0, 3.0, 0.0]),  # Σm̂⁺ < L with a negative entry that stays at zero
        (6.0, [1.0, 1.0, -1.0], 0.0, 6.0, [2.0 + 2 / 3, 2.0 + 2 / 3, 2 / 3]),  # … and one that is raised above it
        (6.0, [-4.0, -4.0, -4.0], 0.0, 6.0, [2.0, 2.0, 2.0]),
    ],
)
def test_by_hand(n_hat, m_hat, E, visits, transitions):
    got_visits, got = run(n_hat, m_hat, E)
    np.testing.assert_allclose(got[0], transitions, rtol=1e-15)
    assert got_visits[0] == pytest.approx(visits, rel=1e-15)


def test_clamping_changes_the_printed_program_only_where_the_noisy_count_is_negative():
    m_hat = np.array([5.0, 1.0])
    assert np.isnan(reference.linear_program(-2.5, m_hat, 8.0, clamp=False))  # n̂ < −E/4: no solution
    # feasible as printed, with U = 1; clamped, U = 2
    assert reference.linear_program(-1.0, m_hat, 8.0, clamp=False) == pytest.approx(4.0)
    assert reference.linear_program(-1.0, m_hat, 8.0) == pytest.approx(3.0)
    assert reference.linear_program(3.0, m_hat, 8.0, clamp=False) == reference.linear_program(3.0, m_hat, 8.0)


@sizes(6_000, 20_000)
def test_finite_input_never_gives_nan(number):
    values = [0.0, -0.0, 5e-324, -5e-324, 1.0, -1.0, 1e12, -1e12, 1e154, 1.7e308, -1.7e308]
    rng = np.random.default_rng(1)
    for _ in range(number):
        S = int(rng.integers(1, 9))
        visits, transitions = run(rng.choice(values), rng.choice(values, S), abs(rng.choice(values)))
        assert not np.isnan(visits).any()
        assert not np.isnan(transitions).any()
        assert (transitions >= 0.0).all()


def test_threshold_that_drops_one_entry_a_pass():
    """Two counts share a total of 1 (τ = −1/2); the others lie below τ by gaps that hide all but the farthest one."""
    gaps = 1e-15 * np.cumprod(1.5 * np.arange(3.0, 18.0))
    m_hat = np.concatenate([[0.0, 0.0], -0.5 - gaps[gaps < 0.5]])
    _, transitions = run(1.0, m_hat, 0.0)
    exact = [float(v) for v in reference.closest_exactly(1.0, m_hat, 0.0)]
    np.testing.assert_allclose(transitions[0], exact, rtol=0, atol=1e-15)


number = st.floats(-1e12, 1e12, allow_subnormal=False) | st.integers(-20, 20).map(float)
cells = st.tuples(number, st.lists(number, min_size=1, max_size=8).map(np.array), number.map(abs))


@given(cells)
@settings(max_examples=EXAMPLES, deadline=None)
def test_feasible_input_is_kept(cell):
    n_hat, m_hat, E = cell
    x = np.abs(m_hat)
    n_hat = x.sum() + E / 4 * np.tanh(n_hat)
    L, U = reference.bounds(n_hat, E)
    assume(L <= np.add.reduce(x) <= U)  # not pushed out by rounding
    visits, transitions = run(n_hat, x, E)
    scale = scale_of(n_hat, x, E)
    np.testing.assert_allclose(transitions[0], x + E / (2 * x.size), rtol=0, atol=1e-15 * scale * x.size)
    assert visits[0] == pytest.approx(x.sum() + E / 2, abs=1e-15 * scale * x.size)


@given(cells)
@settings(max_examples=EXAMPLES, deadline=None)
def test_projecting_twice_is_projecting_once(cell):
    n_hat, m_hat, E = cell
    x = reference.closest(n_hat, m_hat, E)
    _, once = run(n_hat, m_hat, E)
    _, twice = run(n_hat, x, E)
    np.testing.assert_allclose(twice, once, rtol=0, atol=1e-14 * scale_of(n_hat, m_hat, E))


@given(cells)
@settings(max_examples=EXAMPLES, deadline=None)
def test_order_is_preserved(cell):
    n_hat, m_hat, E = cell
    _, transitions = run(n_hat, m_hat, E)
    order = np.argsort(m_hat)
    assert (np.diff(transitions[0][order]) >= 0.0).all()  # exactly, also in floating point
    for value in m_hat:
        assert len(set(transitions[0][m_hat == value])) == 1  # equal counts stay equal


@given(cells, st.randoms(use_true_random=False))
@settings(max_examples=EXAMPLES, deadline=None)
def test_states_may_be_renamed(cell, random):
    n_hat, m_hat, E = cell
    order = np.array(random.sample(range(m_hat.size), m_hat.size))
    visits, transitions = run(n_hat, m_hat, E)
    visits_, transitions_ = run(n_hat, m_hat[order], E)
    near = 1e-14 * scale_of(n_hat, m_hat, E)
    np.testing.assert_allclose(transitions_[0], transitions[0][order], rtol=0, atol=near)
    assert visits_[0] == pytest.approx(visits[0], abs=near * m_hat.size)


@given(cells, st.lists(number, min_size=8, max_size=8))
@settings(max_examples=EXAMPLES, deadline=None)
def test_noise_is_never_amplified(cell, other):
    """A projection on a convex set is 1-Lipschitz: ‖x(m̂) − x(m̂')‖₂ ≤ ‖m̂ − m̂'‖₂."""
    n_hat, m_hat, E = cell
    m_other = np.array(other[: m_hat.size])
    _, x = run(n_hat, m_hat, E)
    _, y = run(n_hat, m_other, E)
    scale = scale_of(n_hat, np.concatenate([m_hat, m_other]), E)
    assert np.linalg.norm((x - y)[0]) <= np.linalg.norm(m_hat - m_other) + 1e-14 * scale


@pytest.mark.parametrize("error", [0.0, 3.0])
def test_counts_are_projected_cell_by_cell(error):
    """What agents call: E is four times the counts' error, rewards stay."""
    rng = np.random.default_rng(0)
    n, m = 20 * rng.standard_normal((4, 3, 2)), 10 * rng.standard_normal((4, 3, 2, 3))
    r = rng.standard_normal((4, 3, 2))
    got = project_counts(PrivateCounts(n, m, r, error))
    assert got.error == 4 * error
    np.testing.assert_array_equal(got.rewards, r)
    for at in np.ndindex(4, 3, 2):
        visits, transitions = reference.project(n[at], m[at], 4 * error)
        assert got.visits[at] == pytest.approx(visits, abs=1e-12)
        np.testing.assert_allclose(got.transitions[at], transitions, atol=1e-12)
    with pytest.raises(ValueError, match="error=-1"):
        project_counts(PrivateCounts(n, m, r, -1.0))

"""Sums of integers with discrete noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput, InvalidPersonalData, NotReadable
from discreet.noise.secure import SecureSource
from discreet.privacy import Budget, accounting
from discreet.privacy.sensitivity import Sensitivity, UserBound, tabular, tabular_user
from discreet.sums import Grid, SecureSum, proven
from discreet.sums._integer_kernels import multiply_shift
from discreet.sums.integers import integer_noise

SUMS = [("tree", 0.0), ("tree", 1e-6), ("smooth-tree", 0.0), ("smooth-tree", 1e-6), ("batch", 0.0), ("batch", 1e-6)]
SUMS += [("factored", 1e-6), ("optimal", 1e-6)]


def built(
    name: str,
    delta: float = 1e-6,
    *,
    reads: int = 12,
    size: int = 40,
    stationary: bool = False,
    epsilon: float = 1.0,
    fine: int | None = None,
) -> SecureSum:
    """Returns a sum of counts with H = 5."""
    found = proven(
        name,
        size,
        capacity=1000,
        horizon=reads,
        sensitivity=tabular(5, 3, stationary=stationary),
        budget=Budget(epsilon, delta),
        bound=tabular_user(5, 3, stationary=stationary),
        grid=Grid(15, entry=5.0 if stationary else 1.0, fine=fine),
    )
    assert isinstance(found, SecureSum)
    return found


class Given(SecureSource):
    """Hands out draws that a test prepared."""

    __slots__ = ("draws",)

    def __init__(self, draws: list[np.ndarray]) -> None:
        self.draws = list(draws)

    def integers(self, *_: Any, **__: Any) -> np.ndarray:
        return self.draws.pop(0)


def walk(sum_: SecureSum, batches: list[np.ndarray], draws: list[np.ndarray]) -> list[np.ndarray]:
    """Returns all reads, in grid units, for totals of batches in units of the users' grid."""
    state, reads = sum_.start(), []
    for total, z in zip(batches, draws, strict=True):
        state = state._replace(total=state.total + (total << (sum_.bits - sum_.fine)))
        state, read = sum_.released(state, Given([z]))
        whole = np.ldexp(read, sum_.bits)
        assert (whole == np.rint(whole)).all()  # integers in grid units
        reads.append(whole.astype(np.int64))
    return reads


@settings(deadline=None)  # it compiles at first
@given(st.integers(-(2**62) + 1, 2**62 - 1), st.integers(0, 2**62), st.integers(20, 62))
def test_multiply_shift_rounds_to_the_nearest(a: int, c: int, shift: int) -> None:
    """Catches a carry that is lost between the halves of a product."""
    exact = Fraction(a * c, 1 << shift)
    if abs(exact) < 2**62:
        assert abs(multiply_shift(a, np.uint64(c), np.uint64(shift)) - exact) <= Fraction(1, 2)


@pytest.mark.parametrize("stationary", [False, True, None])
@pytest.mark.parametrize(("name", "delta"), SUMS)
def test_the_shift_between_neighbours_is_what_is_accounted_for(
    name: str, delta: float, stationary: bool | None
) -> None:
    """Inverts the reads of two neighbours: which draws would make them equal?

    Catches a rounding that depends on later draws, a sensitivity without the rounding, a norm of C that is too small:
    the implied shift of the draws is an integer, 0 before the user's batch, and no longer than the account says.
    """
    rng, sum_ = np.random.default_rng(5), built(name, delta, stationary=bool(stationary))
    if stationary is None:  # so much noise on the users' own grid that its draws are very large
        sum_ = built(name, delta, epsilon=1e-3, fine=25)
        assert (sum_.wide > 0) == (name == "optimal")
    T, noise = sum_.horizon, sum_.recursion
    size, one = 30 if stationary else 15, 1 << sum_.fine
    worst = 1.0 if delta == 0 else 0.0
    for trial in range(6):
        when = [0, T - 1, T // 2][trial % 3]
        batches = [rng.integers(0, 50 * one, sum_.size) for _ in range(T)]
        other = [batch.copy() for batch in batches]
        if stationary:  # all visits of an episode in one cell of each family, and in others
            other[when][[0, 1, 2]] += 5 * one
            other[when][[3, 4, 5]] -= 5 * one
        else:
            other[when][:size] += one
            other[when][size : 2 * size] -= one
        scales = [noise.variance(t + 1, sum_.parameter) for t in range(T)]
        spread = [math.sqrt(v) if delta else float(sum_.parameter) for v in scales]
        z = [np.rint(rng.normal(size=sum_.size) * scale).astype(np.int64) for scale in spread]
        reads, zero = walk(sum_, batches, z), np.zeros(sum_.size, dtype=np.int64)
        found: list[np.ndarray] = []
        for t in range(T):  # the draw that the same read means in the other world
            predicted = walk(sum_, other[: t + 1], [*found, zero])[-1]
            found.append(reads[t] - predicted)
        shifts = np.array(found) - np.array(z)
        assert not shifts[:when].any()
        assert shifts[when].any()
        if delta == 0:
            weight, entries = noise.norm
            assert np.abs(shifts).sum() <= weight * entries * math.ldexp(sum_.sensitivity.l1, sum_.bits)
            continue
        units = np.sqrt(np.array([v / sum_.parameter for v in scales]))[:, None]  # each in units of its own draw
        length = float(np.linalg.norm(shifts / units))
        event = sum_.event.event
        multiplier = getattr(event, "noise_multiplier", None) or event.event.noise_multiplier
        count = getattr(event, "count", 1)
        accounted = math.sqrt(count * sum_.parameter) / multiplier
        assert length <= accounted
        worst = max(worst, length / accounted)
    assert worst > 0.75  # somebody comes near it: the account is not idle


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["factored", "optimal"])
def test_rounding_stays_within_its_bound(name: str, wide: bool) -> None:
    """Catches guard bits that are too few: reads against the exact linear map, in fractions."""
    sum_, rng = built(name, reads=60, size=3), np.random.default_rng(1)
    if wide:
        sum_ = built(name, reads=60, size=3, epsilon=1e-3 if name == "optimal" else 1e-5, fine=25)
        assert sum_.wide > 0
    noise, shape = sum_.recursion, sum_.factorisation
    z = [
        np.rint(rng.normal(size=3) * math.sqrt(noise.variance(t + 1, sum_.parameter))).astype(np.int64)
        for t in range(60)
    ]
    reads = walk(sum_, [np.zeros(3, dtype=np.int64)] * 60, z)
    B: Any = shape.coefficients
    for t in range(60):
        if name == "optimal":
            row = [Fraction(B[t, s]) / Fraction(B[s, s]) for s in range(t + 1)]
        else:
            decays, weights = noise._decays.tolist(), noise._weights.tolist()  # type: ignore[attr-defined]
            one = Fraction(1, 1 << 62)
            b = [sum(g * one * (1 - k * one) ** s for g, k in zip(weights, decays, strict=True)) for s in range(t + 1)]
            row = [*b[:0:-1], Fraction(1)]
        exact = [sum(c * int(z[s][i]) for s, c in enumerate(row)) for i in range(3)]
        assert all(abs(int(reads[t][i]) - exact[i]) <= noise.rounding / 2 for i in range(3))


@pytest.mark.parametrize("reads", [3, 200, 3000])
def test_the_norm_of_a_factored_sum_holds_for_its_integers(reads: int) -> None:
    """Catches a sensitivity of other coefficients than those that are used: C's first column from the integers."""
    noise: Any = integer_noise(built("factored", reads=reads).factorisation)
    s = np.arange(reads)[:, None]
    b = (noise._weights / 2.0**62 * (1 - noise._decays / 2.0**62) ** s).sum(axis=1)
    b[0] = 1.0
    assert (np.diff(np.log(b), 2) >= -1e-12).all()  # log-convex: ‖B⁻¹‖ ≤ 2
    c = np.zeros(reads)
    for t in range(reads):
        c[t] = 1.0 - b[1 : t + 1] @ c[t - 1 :: -1][:t] if t else 1.0
    norm = float(np.linalg.norm(c))
    assert norm <= noise.norm[0] <= norm * (1 + 1e-6)


@pytest.mark.parametrize(("name", "delta"), SUMS)
def test_noise_has_the_covariance_of_the_factorisation(name: str, delta: float) -> None:
    """Rejects 0.8 and 1.25 times the noise, and reads that are not correlated as they should be."""
    sum_ = built(name, delta, reads=6, size=20_000)
    source, state, reads = SecureSource(), sum_.start(), []
    for _ in range(6):
        state, read = sum_.released(state, source)
        reads.append(read)
    B = sum_.factorisation.matrix()
    expected = sum_.fresh_std**2 * B @ B.T
    found = np.cov(np.array(reads))
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert (np.abs(found - expected) / scale).max() < 0.1  # six standard errors, with Laplace's heavier tails
    assert np.abs(np.mean(reads, axis=1)).max() < 6 * np.sqrt(np.diag(expected)).max() / math.sqrt(20_000)


@pytest.mark.parametrize(("name", "delta"), SUMS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_what_is_proven_is_the_budget(name: str, delta: float, epsilon: float) -> None:
    """Catches noise that is too small for the budget, or much too large."""
    sum_ = built(name, delta, epsilon=epsilon)
    assert 0.999 * epsilon <= accounting.epsilon(sum_.event, delta) <= epsilon


@pytest.mark.parametrize(("name", "delta"), SUMS)
def test_the_error_bound_covers_discrete_noise(name: str, delta: float) -> None:
    """Catches a bound below what is drawn: of 300 runs at a failure of 0.05, far fewer than 40 may exceed it."""
    sum_, source, failures = built(name, delta, reads=4, size=10), SecureSource(), 0
    bound = sum_.error_bound(0.05)
    for _ in range(300):
        state, worst = sum_.start(), 0.0
        for _ in range(4):
            state, read = sum_.released(state, source)
            worst = max(worst, float(np.abs(read).max()))
        failures += worst > bound
    assert failures < 40


@pytest.mark.parametrize("reads", [60, 2**14, 2**24])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 50.0])
def test_large_noise_on_a_users_grid_is_no_reason_to_refuse(reads: int, epsilon: float) -> None:
    """Catches guard bits that leave no room for the noise: people's grid cannot be coarser than it is."""
    for name in ("factored", "tree", "optimal"):
        if name == "optimal" and reads > 64:
            continue
        budget, grid = Budget(epsilon, 1e-12), Grid(600, entry=12.0, fine=23)
        given: dict[str, Any] = {"capacity": reads, "horizon": reads, "sensitivity": Sensitivity(500.0, 17.0)}
        sum_ = proven(name, 900, budget=budget, grid=grid, **given)
        assert isinstance(sum_, SecureSum)
        assert sum_.bits >= sum_.fine == 23
        assert 0.999 * epsilon <= accounting.epsilon(sum_.event, 1e-12) <= epsilon
        fast = proven(name, 900, budget=budget, **given)
        assert fast.scale * (1 - 1e-9) <= sum_.scale <= fast.scale * (1.01 if reads < 2**24 else 1.15)


@pytest.mark.parametrize(("name", "delta"), SUMS)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 20.0])  # for less, the users' own grid makes them larger
def test_a_draw_takes_one_random_word(name: str, delta: float, epsilon: float) -> None:
    """Catches a grid so fine that every draw takes two words: half of a read's time is entropy."""
    from discreet.noise.discrete import NARROW
    from discreet.noise.tables import Law, table

    sum_ = built(name, delta, epsilon=epsilon)
    for read in range(1, sum_.horizon + 1):
        variance = Fraction(sum_.recursion.variance(read, sum_.parameter))
        law = Law.gaussian(variance) if delta else Law.laplace(variance)
        assert table(law).shift <= NARROW


@pytest.mark.parametrize("name", ["factored", "optimal"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_draw_that_would_run_over_releases_nothing(name: str, sign: int) -> None:
    """Catches a mode that wraps around: draws beyond 64 standard deviations are refused, and the state stays."""
    sum_ = built(name, size=3)
    spread = math.isqrt(sum_.parameter)
    state, _ = sum_.released(sum_.start(), SecureSource())
    kept, largest = repr(state), np.array([0, sign * 64 * spread, 0])
    sum_.released(state, Given([largest]))  # still within
    with pytest.raises(OverflowError, match="nothing was released"):
        sum_.released(state, Given([largest << 22]))
    assert repr(state) == kept


def test_a_sum_goes_on_elsewhere_as_it_was_built() -> None:
    """Catches a hand-over after which modes are read in other units."""
    sum_, other = built("factored", epsilon=1e-5, fine=25, reads=60), built("factored", reads=60)
    assert sum_.recursion.guard != other.recursion.guard  # type: ignore[attr-defined]
    other.recalibrate(sum_.calibration())
    assert other.recursion.guard == sum_.recursion.guard  # type: ignore[attr-defined]
    assert other.calibration() == sum_.calibration()


def test_a_state_is_never_changed_in_place() -> None:
    """Catches a release or a fold that writes into the state it was given: a retry would use noise twice."""
    for name, delta in SUMS:
        sum_, source = built(name, delta, size=4), SecureSource()
        state, _ = sum_.released(sum_.start(), source)
        kept = repr(state)
        sum_.added(state, np.array([[0, 1]]), np.array([[1.0, 0.5]]))
        sum_.released(state, source)
        assert repr(state) == kept


def test_what_lies_off_the_grid_or_beyond_a_bound_is_refused() -> None:
    """Catches values that are rounded at the server, bounds that are not enforced, messages that hold a value."""
    sum_ = built("tree", size=40)
    state = sum_.start()
    off = math.ldexp(1.0, -sum_.fine - 1)
    cases = [[[0.7]], [[off]], [[-1.0]], [[16.0]], [[math.nan]], [[math.inf]], [[1e300]]]
    cases += [[[1.0] * 16], [[4.0, 4.0]]]  # too many coordinates; too long
    for values in cases:
        rows = np.array(values)
        with pytest.raises(InvalidPersonalData) as error:
            sum_.added(state, np.arange(rows.size).reshape(1, -1), rows)
        assert "0.7" not in str(error.value)
        assert not state.total.any()
    assert sum_.added(state, np.array([[0]]), np.array([[0.75]])).total[0] == 3 << (sum_.bits - 2)


def test_the_last_read_is_the_last() -> None:
    """Catches a read beyond what was accounted for."""
    sum_, source = built("batch", reads=1), SecureSource()
    state, _ = sum_.released(sum_.start(), source)
    with pytest.raises(NotReadable):
        sum_.released(state, source)


def test_fast_sources_are_refused() -> None:
    """Catches a fall-back to fast noise."""
    from discreet.noise import as_source

    source = as_source(np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="SecureSource"):
        built("tree").released(built("tree").start(), source)


def test_sums_without_a_grid_are_refused() -> None:
    """Catches a grid on which the sums of so many users would run over."""
    with pytest.raises(InvalidInput, match="no grid"):
        proven(
            "batch",
            4,
            capacity=2**60,
            horizon=2,
            sensitivity=Sensitivity(2.0, 2.0),
            budget=Budget(1.0, 1e-6),
            bound=UserBound(1, 1),
            grid=Grid(1),
        )

"""What every private sum keeps: its noise, its privacy event, its capacity, its state."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import CapacityExceeded, DiscreetError, InvalidPersonalData, NotReadable
from discreet.privacy import Budget, Sensitivity, accounting
from discreet.privacy.sensitivity import UserBound, tabular_user
from discreet.sums import CENTRAL, PrivateSum, calibrated

GAUSSIAN = ("factored", "optimal")
SHAPES = [(name, delta) for name in CENTRAL for delta in (0.0, 1e-6) if delta > 0 or name not in GAUSSIAN]
T = 13
UNIT = Sensitivity(1.0, 1.0)


def build(name, delta, *, size=1, horizon=T, capacity=None, epsilon=1.0, seed=0, sensitivity=UNIT):
    return calibrated(
        name,
        size,
        capacity=capacity or horizon,
        horizon=horizon,
        sensitivity=sensitivity,
        budget=Budget(epsilon, delta),
        rng=np.random.default_rng(seed),
    )


def noise(sum_):
    """The noise of all reads, (reads, size): nobody contributes anything."""
    nothing = np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1))
    found = []
    for _ in range(sum_.horizon):
        sum_.add(*nothing)
        found.append(sum_.read())
    return np.array(found)


@pytest.mark.parametrize(("name", "delta"), SHAPES)
def test_reads_are_the_sum_plus_noise(rng, name, delta):
    """The same seed without users gives the noise; the rest is the exact prefix sum."""
    users = rng.integers(0, 5, size=(T, 1)), rng.random((T, 1))
    sum_, total = build(name, delta, size=5, seed=3), np.zeros(5)
    expected = noise(build(name, delta, size=5, seed=3))
    for t in range(T):
        sum_.add(users[0][t : t + 1], users[1][t : t + 1])
        total[users[0][t, 0]] += users[1][t, 0]
        np.testing.assert_allclose(sum_.read(), total + expected[t], atol=1e-9)


@pytest.mark.parametrize(("name", "delta"), SHAPES)
def test_noise_has_its_formulas_variance_and_covariance(name, delta):
    """With power: the same test rejects 0.8 and 1.25 times the scale."""
    n = 60_000
    sum_ = build(name, delta, size=n)
    got = noise(sum_)
    B = sum_.factorisation.matrix() * sum_.fresh_std
    expected = B @ B.T
    kurtosis = 6.0 if delta == 0 else 3.0

    def worst(scale):
        """The largest deviation of any variance or covariance, in its standard errors."""
        claimed = expected * scale**2
        error = np.sqrt((kurtosis * np.outer(np.diag(claimed), np.diag(claimed)) + claimed**2) / n)
        return np.abs((got @ got.T / n - claimed) / error).max()

    assert worst(1.0) < 5.5
    assert worst(0.8) > 5.5
    assert worst(1.25) > 5.5
    stds = got.std(axis=1)
    assert sum_.std == pytest.approx(math.sqrt(expected[-1, -1]))
    assert stds[-1] == pytest.approx(sum_.std, rel=0.05)
    assert sum_.worst_std == pytest.approx(math.sqrt(np.diag(expected).max()))
    assert abs(got.mean(axis=1) / stds).max() < 5.5 / math.sqrt(n)


@pytest.mark.parametrize(("name", "delta"), SHAPES)
def test_every_noise_is_drawn_exactly_once(name, delta, monkeypatch):
    """One fresh draw a read, none for reading again; and B⁻¹ takes the reads apart into just those draws."""
    from discreet.noise import fast

    drawn, real = [], fast.fill

    def fill(rng, distribution, scale, out):
        real(rng, distribution, scale, out)
        drawn.extend(out.reshape(-1, 3).copy())

    monkeypatch.setattr(fast, "fill", fill)
    sum_ = build(name, delta, size=3)
    reads = []
    for _ in range(T):
        sum_.add(np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1)))
        first = sum_.read()
        for _ in range(3):
            np.testing.assert_array_equal(sum_.read(), first)
        reads.append(first)
    assert len(drawn) == T
    np.testing.assert_allclose(np.linalg.solve(sum_.factorisation.matrix(), reads), drawn, atol=1e-8)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_error_bound_of_a_long_batch_stream_is_not_loose(delta):
    """A union over 1,000 reads of a random walk would be: Lévy's inequality is not."""
    bound = build("batch", delta, horizon=1000).error_bound(0.05)
    largest = np.abs(noise(build("batch", delta, size=4000, horizon=1000))).max(axis=0)
    assert (largest > bound).mean() <= 0.05 + 4 * math.sqrt(0.05 / 4000)
    assert bound <= 1.5 * np.quantile(largest, 0.95)


@pytest.mark.parametrize(("name", "delta"), SHAPES)
@pytest.mark.parametrize("streams", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_error_bound_holds_and_is_not_loose(name, delta, streams):
    """Streams of 20 counts, 30 reads: it fails no more often than it may, and is within 1.5 of the quantile."""
    beta, size = 0.05, 20
    bound = build(name, delta, size=size, horizon=30).error_bound(beta)
    largest = np.abs(noise(build(name, delta, size=size * streams, horizon=30))).max(axis=0)
    largest = largest.reshape(streams, size).max(axis=1)
    assert (largest > bound).mean() <= beta + 4 * math.sqrt(beta / streams)
    assert bound <= 1.5 * np.quantile(largest, 1 - beta)


def test_error_bound_of_sums_of_coordinates():
    """Derived visits: bounds for sums of 6 counts are about √6 larger, and hold."""
    single = build("tree", 1e-6, size=60)
    wide = single.error_bound(0.05, groups=((10, 6),))
    assert wide == pytest.approx(math.sqrt(6) * single.error_bound(0.05, groups=((10, 1),)), rel=1e-6)
    for delta in (0.0, 1e-6):
        bound = build("tree", delta, size=60).error_bound(0.05, groups=((10, 6),))
        got = noise(build("tree", delta, size=60 * 4000)).reshape(T, 4000, 10, 6).sum(axis=3)
        assert (np.abs(got).max(axis=(0, 2)) > bound).mean() <= 0.05 + 4 * math.sqrt(0.05 / 4000)


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("horizon", [1, 100, 50_000])
@pytest.mark.parametrize("name", CENTRAL)
def test_the_proven_epsilon_is_the_budgets(name, horizon, epsilon, delta):
    """Must show: at most the budget, at least 0.99 of it."""
    if name in GAUSSIAN and delta == 0:
        with pytest.raises(ValueError, match="delta=0"):
            build(name, delta, horizon=horizon)
        return
    if name == "optimal":
        horizon = min(horizon, 64)
    for H in (1, 5, 20):
        for stationary in (False, True):
            from discreet.privacy.sensitivity import tabular

            sensitivity = tabular(H, 3, stationary=stationary)
            sum_ = build(name, delta, horizon=horizon, epsilon=epsilon, sensitivity=sensitivity)
            assert 0.99 * epsilon <= accounting.epsilon(sum_.event, delta) <= epsilon


@pytest.mark.parametrize(("name", "delta"), SHAPES)
def test_state_goes_on_exactly(rng, name, delta):
    one, other = (build(name, delta, size=4) for _ in range(2))
    for t in range(5):
        users = rng.integers(0, 4, size=(1, 2)), rng.random((1, 2))
        for either in (one, other):
            either.add(*users)
            if t < 4:
                either.read()  # the fifth user waits in an open batch
    state = other.state()
    for use in (lambda: other.count, other.read, other.state, lambda: other.add(*users)):
        with pytest.raises(ValueError, match="given its state away"):  # the same noise for other users
            use()
    two = PrivateSum.from_state(state)
    with pytest.raises(ValueError, match="only once"):  # the same noise for other users would give them away
        PrivateSum.from_state(state)
    assert two.event == one.event
    for _ in range(T - 4):
        np.testing.assert_array_equal(one.read(), two.read())
        assert (one.count, one.reads, one.std) == (two.count, two.reads, two.std)
        if one.reads < T:
            users = rng.integers(0, 4, size=(1, 2)), rng.random((1, 2))
            one.add(*users)
            two.add(*users)


@pytest.mark.parametrize(("name", "delta"), SHAPES)
def test_several_users_a_batch_and_none(name, delta):
    sum_ = build(name, delta, size=2, horizon=3, capacity=10)
    assert not sum_.readable
    with pytest.raises(NotReadable, match="nobody"):
        sum_.read()
    sum_.add(np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1)))
    assert not sum_.readable
    sum_.add(np.array([[0], [1], [1]]), np.ones((3, 1)))
    assert sum_.readable
    sum_.read()
    assert (sum_.count, sum_.reads) == (3, 1)
    for _ in range(2):
        sum_.add(np.array([[0]]), np.ones((1, 1)))
        sum_.read()
    with pytest.raises(CapacityExceeded, match="all 3 reads"):
        sum_.add(np.array([[0]]), np.ones((1, 1)))


BAD = [
    (np.array([[77]]), np.array([[1.0]])),
    (np.array([[-77]]), np.array([[1.0]])),
    (np.array([[0]]), np.array([[np.nan]])),
    (np.array([[0]]), np.array([[np.inf]])),
    (np.array([[0]]), np.array([[1.0, 77.0]])),
    (np.array([0]), np.array([1.0])),
    (np.array([[0.5]]), np.array([[1.0]])),
    (np.array([[0]]), np.array([["77"]])),
    (np.zeros((40, 1), dtype=np.int64), np.ones((40, 1))),
    (np.array([[0]]), np.array([[np.longdouble("1e4000")]])),
    (np.array([[0]]), np.array([[1e300]])),
]


def contents(sum_):
    """Every byte of a sum: users, total, noise, what was read last, and where its generator is."""
    kept = sum_._kept
    noise = {key: part.tobytes() if isinstance(part, np.ndarray) else part for key, part in kept.noise.items()}
    drawn = sum_._source.mark()
    return kept.users, kept.total.tobytes(), noise, sum_._last.tobytes(), sum_._open, copy.deepcopy(drawn)


def test_a_sum_is_neither_copied_nor_pickled():
    """Would catch the same noise over two different sums, whose difference is exact."""
    sum_ = build("tree", 0.0)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="behind the same noise"):
            take(sum_)


@given(
    st.sampled_from(SHAPES),
    st.lists(st.one_of(st.just("add"), st.just("read"), st.sampled_from(range(len(BAD)))), max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_an_error_leaves_everything_as_it_was(shape, actions):
    """Property: whatever is refused changes nothing, and the message names no index or value of a person."""
    sum_ = build(*shape, size=3, horizon=6, capacity=9)
    for action in actions:
        before, refused = contents(sum_), None
        try:
            if action == "add":
                sum_.add(np.array([[1]]), np.array([[0.5]]))
            elif action == "read":
                sum_.read()
            else:
                sum_.add(*BAD[action])
        except DiscreetError as error:
            refused = str(error)
        if refused is not None:
            assert contents(sum_) == before
            assert not any(secret in refused for secret in ("77", "nan", "inf"))
        else:
            assert action in ("add", "read"), "bad data was accepted"


def test_a_scale_must_be_a_scale():
    shape = build("tree", 0.0).factorisation
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="scale"):
            PrivateSum(shape, 1, capacity=5, scale=bad, sensitivity=Sensitivity(1, 1), rng=np.random.default_rng(0))


def bounded(bound, size):
    """A sum that holds every user to ``bound``."""
    shape = build("batch", 0.0).factorisation
    return PrivateSum(shape, size, capacity=9, scale=1.0, sensitivity=UNIT, rng=np.random.default_rng(0), bound=bound)


def exact_norms(indices, values):
    """The L1 and the squared L2 norm of one user's vector, as fractions."""
    totals = dict.fromkeys(indices, Fraction(0))
    for i, value in zip(indices, values, strict=True):
        totals[i] += Fraction(value)
    return sum(abs(total) for total in totals.values()), sum(total**2 for total in totals.values())


#: Rewards at both ends, and those whose sums have to be rounded.
REWARDS = st.one_of(st.sampled_from([0.0, 1.0, 5e-324, 1e-160, 0.1, 1 - 2**-53]), st.floats(0.0, 1.0))


@given(st.data(), st.integers(1, 12), st.integers(1, 3), st.booleans())
@settings(max_examples=300, deadline=None)
def test_honest_users_always_pass(data, H, families, stationary):
    """Property: counts of ones, and one family of rewards, in any cells. Would catch a norm that rounds above it."""
    cells = 3 if stationary else 3 * H
    visits = np.array(data.draw(st.lists(st.integers(0, 2), min_size=H, max_size=H)))
    cell = visits if stationary else visits + 3 * np.arange(H)
    rewards = np.array(data.draw(st.lists(REWARDS, min_size=H, max_size=H)))
    indices = np.concatenate([cell + f * cells for f in range(families)])
    values = np.concatenate([np.ones(H * (families - 1)), rewards])
    sum_ = bounded(tabular_user(H, families, stationary=stationary), families * cells)
    sum_.add(indices[None], values[None])
    sum_.add(indices[None], np.ones((1, H * families)))  # attains the L1 bound


@given(st.data(), st.integers(1, 12), st.booleans())
@settings(max_examples=300, deadline=None)
def test_nobody_passes_a_bound_by_the_last_bit(data, H, stationary):
    """Property: what passes is exactly within its bounds, in fractions. Would catch slack, and sums rounded down."""
    bound = tabular_user(H, stationary=stationary)
    near = st.sampled_from([1.0, math.nextafter(1.0, 2), math.nextafter(1.0, 0), 0.1, 0.3, 2**-60, 1e-200, 2.0])
    n = data.draw(st.integers(1, H + 2))
    indices = data.draw(st.lists(st.integers(0, H + 2), min_size=n, max_size=n))
    values = data.draw(st.lists(near, min_size=n, max_size=n))
    sum_ = bounded(bound, H + 3)
    try:
        sum_.add(np.array([indices]), np.array([values]))
    except InvalidPersonalData:
        return
    l1, squares = exact_norms(indices, values)
    assert l1 <= bound.l1
    assert squares <= bound.l2_squared


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("H", [1, 2, 4, 20, 1000])
def test_a_hair_above_is_refused(H, stationary):
    """One value of the worst user grows by its last bit; to the nearest, the sum of all would round to the bound."""
    indices = (np.zeros(H, dtype=np.int64) if stationary else np.arange(H))[None]
    ones = np.ones((1, H))
    sum_ = bounded(tabular_user(H, stationary=stationary), H)
    sum_.add(indices, ones)
    above = ones.copy()
    above[0, 0] = np.nextafter(1.0, 2.0)
    with pytest.raises(InvalidPersonalData, match="L1 norm at most"):
        sum_.add(indices, above)
    with pytest.raises(InvalidPersonalData, match="L1 norm at most"):  # one tiny value more
        sum_.add(np.append(indices, [[0]], axis=1), np.append(ones, [[5e-324]], axis=1))
    loose = bounded(UserBound(10 * H, H * H if stationary else H), H)  # L2 alone decides
    loose.add(indices, ones)
    for more in (above, ones * (1 + 4e-10)):
        with pytest.raises(InvalidPersonalData, match="L2 norm at most"):
            loose.add(indices, more)
    assert (sum_.count, loose.count) == (1, 1)


def test_values_that_cancel_are_refused():
    """Their sum would keep every bound, and drown everybody else's in rounding errors."""
    sum_ = bounded(UserBound(4, 4), 3)
    for values in ([1e15, -1e15, 1.0], [1.0, -1.0, 1.0], [1.0, -5e-324, 1.0]):
        with pytest.raises(InvalidPersonalData, match="must not be negative") as caught:
            sum_.add(np.array([[0, 0, 1]]), np.array([values]))
        assert "e+15" not in str(caught.value)
    assert sum_.count == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 1e15)), min_size=1, max_size=12))
@settings(max_examples=300, deadline=None)
def test_norms_are_rounded_up_and_hardly(pairs):
    """Against fractions: never below, and above by no more than a few last bits."""
    from discreet.sums import _kernels

    indices, values = [i for i, _ in pairs], [value for _, value in pairs]
    least, l1, squares = _kernels.largest_norms(np.array([indices]), np.array([values]))
    exact_l1, exact_squares = exact_norms(indices, values)
    assert least == 0
    assert exact_l1 <= Fraction(l1) <= exact_l1 * (1 + Fraction(1, 2**48)) + Fraction(1, 10**300)
    assert exact_squares <= Fraction(squares) <= exact_squares * (1 + Fraction(1, 2**46)) + Fraction(1, 10**270)


def test_a_users_bounds_are_integers():
    for bad in (0, 1.5, -1):
        with pytest.raises(ValueError, match="l2_squared"):
            UserBound(1, bad)

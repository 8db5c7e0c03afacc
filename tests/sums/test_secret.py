"""What only a server may hold: not shown, not copied, released from once; and a failure leaves it as it was."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest

from discreet.errors import InvalidPersonalData
from discreet.noise import as_source
from discreet.noise.fast import FastSource
from discreet.privacy import Budget, Sensitivity
from discreet.privacy.sensitivity import tabular, tabular_user
from discreet.sums import CENTRAL, RawSum, Secret, calibrated, proven


def test_a_secret_is_neither_shown_nor_copied_nor_pickled():
    """Would catch raw totals in a log or a traceback, and noise that is used for two different sums."""
    secret = Secret({"total": 7654321.0})
    for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}"):
        assert "7654" not in shown
        assert "not shown" in shown
    assert not hasattr(secret, "__dict__")
    for take in (copy.copy, copy.deepcopy, pickle.dumps, lambda one: copy.deepcopy({"inside": [one]})):
        with pytest.raises(TypeError, match="behind the same noise"):
            take(secret)


def test_one_turn_releases_once():
    """Would catch two releases with the same earlier noise and other people: their difference is exact."""
    secret = Secret(0)
    one, two = secret.folded(1), secret.folded(2)  # a retry: the first was thrown away
    after = two.released(3)
    for spent in (secret, one, two):
        for use in (spent.open, partial(spent.folded, 4), partial(spent.released, 4)):
            with pytest.raises(ValueError, match="only once"):
                use()
    assert after.open() == 3
    assert after.folded(4).released(5).open() == 5


def test_folding_twice_and_releasing_once_is_a_retry():
    secret = Secret((0, ()))
    failed = secret.folded((1, ("a",)))
    again = secret.folded((1, ("a",)))
    assert failed.open() == again.open() == (1, ("a",))
    assert again.released((1, ())).open() == (1, ())


class Failing(FastSource):
    """Fails at a draw: before it, or after it."""

    when = None

    def fill(self, distribution, scale, out):
        if self.when == "before":
            raise OSError("no entropy")
        super().fill(distribution, scale, out)
        if self.when == "after":
            raise OSError("interrupted")


@pytest.mark.parametrize("name", CENTRAL)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_release_that_fails_leaves_the_state_as_it_was(name, when):
    """Would catch noise or totals that are changed in place: the next release would hold a batch or a draw twice."""
    source = Failing(np.random.default_rng(0))
    sum_ = proven(
        name, 3, capacity=9, horizon=4, sensitivity=Sensitivity(1.0, 1.0), budget=Budget(1.0, 1e-6), bound=None
    )
    state, total = sum_.start(), np.zeros(3)
    for t in range(4):
        state = sum_.added(state, np.array([[t % 3]]), np.array([[1.0]]))
        total[t % 3] += 1
        kept = state.total.copy(), {key: np.copy(part) for key, part in state.noise.items()}
        source.when = when
        with pytest.raises(OSError, match=r"entropy|interrupted"):
            sum_.released(state, source)
        source.when = None
        np.testing.assert_array_equal(state.total, kept[0])
        for key, part in state.noise.items():
            np.testing.assert_array_equal(part, kept[1][key])
        before, (state, _) = state, sum_.released(state, source)
        np.testing.assert_array_equal(before.total, kept[0])  # nor does a release that is fine
        np.testing.assert_array_equal(state.total, total)
        assert (state.users, state.reads, before.reads) == (t + 1, t + 1, t)


@pytest.mark.parametrize("name", CENTRAL)
def test_a_state_without_memory_gives_the_reads_of_a_sum_with_it(name, rng):
    """Would catch a stateless sum whose noise is not that of the stateful one."""
    given = {"capacity": 9, "horizon": 5, "sensitivity": Sensitivity(1.0, 1.0), "budget": Budget(1.0, 1e-6)}
    sum_, kept = proven(name, 3, **given), calibrated(name, 3, rng=np.random.default_rng(1), **given)
    state, source = sum_.start(), as_source(np.random.default_rng(1))
    for _ in range(5):
        users = rng.integers(0, 3, size=(1, 2)), rng.random((1, 2))
        kept.add(*users)
        state, read = sum_.released(sum_.added(state, *users), source)
        np.testing.assert_array_equal(read, kept.read())
    assert sum_.std_after(state.reads) == kept.std


@pytest.mark.parametrize("stationary", [False, True])
def test_totals_are_held_to_the_bounds(stationary):
    """Would catch the short cut of a simulation that puts in what no users within the bounds can have."""
    H, size = 4, 8
    given = {"sensitivity": tabular(H, stationary=stationary), "bound": tabular_user(H, stationary=stationary)}
    sum_ = proven("tree", size, capacity=9, horizon=3, budget=Budget(1.0), **given)
    longest = H if stationary else np.sqrt(H)
    total, state = np.zeros(size), sum_.start()
    total[0] = 3 * longest
    assert sum_.added_total(state, total, 3).users == 3
    for wrong, users, why in (
        (total * (1 + 1e-6), 3, "longer than"),
        (total, 2, "longer than"),
        (total[:-1], 3, "8 finite numbers"),
        (total.astype(np.float32), 3, "8 finite numbers"),
        (total + np.nan, 3, "8 finite numbers"),
        (total + np.inf, 3, "8 finite numbers"),
        (total, 0, "of users"),
        (np.where(total > 0, -1.0, 0.0), 3, "not be negative"),
        (np.full(size, 3 * H / size * (1 + 1e-6)), 3, "L1 norm at most 4 a user"),
    ):
        with pytest.raises(InvalidPersonalData, match=why):
            sum_.added_total(state, wrong, users)
    with pytest.raises(ValueError, match="holds 9 users"):
        sum_.added_total(state, total, 10)
    assert not state.total.any()
    exact = RawSum(size, capacity=9)  # without noise nothing has to be bounded, but it must be a total
    assert exact.added_total(exact.start(), total * 7, 3).users == 3
    with pytest.raises(InvalidPersonalData, match="8 finite numbers"):
        exact.added_total(exact.start(), total + np.nan, 3)

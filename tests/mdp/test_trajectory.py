"""A person's data is checked at the door and never shown."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InvalidPersonalData
from discreet.mdp import Spec, Trajectory

SPEC = Spec(3, 2, 2)


def test_nothing_prints_the_contents():
    trajectory = Trajectory(np.array([2, 1, 2]), np.array([1, 1]), np.array([0.123, 0.456]))
    for text in (repr(trajectory), str(trajectory), f"{trajectory}"):
        assert not any(digit in text for digit in "0123456789")


@pytest.mark.parametrize(
    ("states", "actions", "rewards", "message"),
    [
        ([0, 1], [0, 0], [0, 0], r"states must have shape \(3,\)"),
        ([0, 1, 2], [0], [0, 0], r"actions must have shape \(2,\)"),
        ([0, 1, 2], [0, 0], [0, 0, 0], r"rewards must have shape \(2,\)"),
        ([0, 1, 77], [0, 0], [0, 0], r"states must lie in \[0, 3\)"),
        ([0, -77, 1], [0, 0], [0, 0], r"states must lie in \[0, 3\)"),
        ([0, 1, 1], [0, 77], [0, 0], r"actions must lie in \[0, 2\)"),
        ([0, 1, 1], [0, 0], [0, 0.77e9], r"rewards must lie in \[0, 1\]"),
        ([0, 1, 1], [0, 0], [0, np.nan], r"rewards must lie in \[0, 1\]"),
        ([0.77, 1, 1], [0, 0], [0, 0], "states must be integers"),
        ([0, 1, 1], [0, 0], ["77", "x"], "rewards must be numbers"),
    ],
)
def test_errors_name_field_and_bound_but_not_the_value(states, actions, rewards, message):
    with pytest.raises(InvalidPersonalData, match=message) as caught:
        Trajectory(states, actions, rewards).check(SPEC)
    assert "77" not in str(caught.value)
    assert "nan" not in str(caught.value)


NEITHER = {
    "complex numbers": np.array([0.5 + 0.77j, 0.1]),
    "complex numbers without an imaginary part": np.array([0.5 + 0j, 0.1]),
    "truth values": [True, False],
    "text": ["0.77", "0.1"],
    "bytes": [b"0.77", b"0.1"],
    "nothing": None,
    "a list with None": [None, 0.77],
    "objects": [object(), 0.77],
    "fractions": [Fraction(77, 100), Fraction(1, 2)],
    "durations": np.array([77, 1], dtype="timedelta64[s]"),
    "lists of different lengths": [[0.77], [0.1, 0.2]],
    "a dictionary": {0: 0.77},
}


@pytest.mark.parametrize("values", NEITHER.values(), ids=NEITHER.keys())
@pytest.mark.parametrize(("field", "what"), [("states", "integers"), ("actions", "integers"), ("rewards", "numbers")])
@pytest.mark.filterwarnings("error")
def test_what_is_no_number_is_refused_at_once(field, what, values):
    """Would catch NumPy's conversions: it drops imaginary parts with a warning, reads text, and makes None NaN."""
    given = {"states": [0, 1, 2], "actions": [0, 0], "rewards": [0.0, 0.0], field: values}
    with pytest.raises(InvalidPersonalData, match=f"^{field} must be {what}$"):
        Trajectory(**given)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[0.77], [0.1]], r"rewards must have shape \(2,\)"),
        ([], r"rewards must have shape \(2,\)"),
        (0.77, r"rewards must have shape \(2,\)"),
        ([0, np.longdouble("77e4000")], r"rewards must lie in \[0, 1\]"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_numbers_of_a_wrong_shape_or_size_are_refused_by_the_check(rewards, message):
    with pytest.raises(InvalidPersonalData, match=message) as caught:
        Trajectory([0, 1, 2], [0, 0], rewards).check(SPEC)
    assert "77" not in str(caught.value)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.float64, np.longdouble])
def test_real_numbers_of_every_width_are_taken(dtype):
    trajectory = Trajectory([0, 1, 2], [0, 0], np.array([0, 1], dtype=dtype))
    trajectory.check(SPEC)
    assert trajectory.rewards.dtype == np.float64
    assert trajectory.rewards.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("states", "actions", "expected"),
    [
        ([], [], [7, 7, 7, 7]),
        ([2], [], [7, 7, 7, 7]),  # seen, but did nothing: no action led anywhere
        ([2], [1], [2, 7, 7, 7]),
        ([2, 3], [1], [2, 7, 7, 7]),
        ([2, 3, 1], [1, 0, 1], [2, 3, 1, 7]),
        ([2, 3, 1, 4], [1, 0, 1], [2, 3, 1, 4]),  # all of it happened
    ],
)
def test_whoever_left_is_gone_after_their_last_action(states, actions, expected):
    """Would catch a transition that is censored, or an action that is held against a state where nobody acted."""
    whole = Trajectory(np.array(states, dtype=int), np.array(actions, dtype=int), np.full(len(actions), 0.5)).completed(
        3, gone=7
    )
    assert whole.states.tolist() == expected
    assert whole.actions.tolist() == [*actions, *[0] * (3 - len(actions))]
    assert whole.rewards.tolist() == [*[0.5] * len(actions), *[0.0] * (3 - len(actions))]
    whole.check(Spec(8, 2, 3))


@pytest.mark.parametrize(
    ("states", "actions", "rewards"),
    [
        ([1, 1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]),
        ([1, 1, 1], [1], [0]),
        ([1], [1], []),
        ([1], [[1]], [0]),
        ([[1]], [1], [0]),
    ],
)
def test_what_is_no_beginning_of_an_episode_is_refused_without_its_values(states, actions, rewards):
    with pytest.raises(InvalidPersonalData, match="n ≤ 3 actions"):
        Trajectory(states, actions, np.array(rewards, dtype=float)).completed(3, gone=0)

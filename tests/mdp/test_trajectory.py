"""A person's data is checked at the door and never shown."""

from __future__ import annotations

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


@pytest.mark.parametrize("horizon", [1, 32, 33, 200])
@pytest.mark.parametrize(
    ("field", "values"),
    [("states", (-1, 3)), ("actions", (-1, 2)), ("rewards", (-1e-9, 1 + 1e-9, np.nan, np.inf))],
)
def test_one_bad_value_is_found_wherever_it_is(horizon, field, values):
    """Short and long episodes are checked in different ways."""
    spec = Spec(3, 2, horizon)
    for bad in values:
        for place in {0, horizon // 2, horizon - 1}:
            data = {"states": np.zeros(horizon + 1, int), "actions": np.ones(horizon, int), "rewards": np.ones(horizon)}
            Trajectory(**data).check(spec)
            data[field][place] = bad
            with pytest.raises(InvalidPersonalData, match=f"{field} must lie"):
                Trajectory(**data).check(spec)

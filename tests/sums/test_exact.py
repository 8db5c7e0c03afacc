from __future__ import annotations

import numpy as np
import pytest

from discreet.sums import ExactSum


def test_adds_up():
    total = ExactSum(4, capacity=3)
    total.add(np.array([[0, 1, 1], [3, 3, 3]]), np.array([[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]]))
    np.testing.assert_array_equal(total.read(), [1, 5, 0, 1.5])
    assert total.count == 2


def test_what_was_read_does_not_change_later():
    total = ExactSum(1, capacity=2)
    total.add(np.array([[0]]), np.array([[1.0]]))
    read = total.read()
    total.add(np.array([[0]]), np.array([[1.0]]))
    assert read[0] == 1


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([[0], [1], [2]], [[1.0], [1.0], [1.0]], "2 users"),
        ([[77]], [[1.0]], r"indices must lie in \[0, 4\)"),
        ([[-77]], [[1.0]], r"indices must lie in \[0, 4\)"),
        ([[0]], [[np.nan]], "finite"),
        ([[0]], [[1.0, 2.0]], "one shape"),
    ],
)
def test_refuses_and_changes_nothing(indices, values, message):
    total = ExactSum(4, capacity=2)
    with pytest.raises(ValueError, match=message) as caught:
        total.add(np.array(indices), np.array(values))
    assert "77" not in str(caught.value)
    assert total.count == 0
    assert not total.total.any()
    assert not total.readable

"""What can be asked for, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.errors import Unproven
from discreet.privacy import accounting


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": -1}, "epsilon=-1"),
        ({"epsilon": math.inf}, "epsilon=inf"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"epsilon": "one"}, "epsilon='one'"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": 1, "delta": 1}, "delta=1"),
        ({"epsilon": 1, "delta": -1e-9}, "delta=-1e-09"),
        ({"epsilon": 1, "calibration": "papr"}, "did you mean 'paper'"),
        ({"epsilon": 1, "release": "nm"}, "did you mean"),
        ({"epsilon": 1, "noise": "fats"}, "did you mean 'fast'"),
        ({"epsilon": 1, "noise": "secure"}, "not built yet"),
    ],
)
def test_impossible_wishes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        dc.Central(**options)


def test_a_group_loses_more():
    pure = dc.Guarantee("joint", 0.5, 0.0, events=accounting.laplace(2.0))
    assert pure.group(1) is pure
    assert pure.group(3).epsilon == pytest.approx(1.5)
    assert pure.group(3).unit == "group of 3 users"
    event = accounting.gaussian(4.0)
    gaussian = dc.Guarantee("joint", accounting.epsilon(event, 1e-6), 1e-6, events=event)
    assert gaussian.group(2).epsilon == pytest.approx(accounting.gaussian_epsilon(0.5, 1e-6))
    assert dc.NonPrivate().guarantee.group(5).epsilon == math.inf
    with pytest.raises(Unproven):
        dc.Guarantee("joint", 1.0, 0.0).group(2)
    with pytest.raises(ValueError, match="size=0"):
        pure.group(0)


def test_a_groups_loss_is_that_of_shifted_noise():
    """k users of one person: the neighbours differ k times as far, so the noise multiplier is k times smaller."""
    for k in np.arange(2, 5):
        event = accounting.gaussian(4.0)
        shifted = accounting.epsilon(accounting.gaussian(4.0 / k), 1e-6)
        group = dc.Guarantee("joint", 1.0, 1e-6, events=event).group(int(k))
        assert group.epsilon == pytest.approx(shifted, rel=1e-12)

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.mdp import Spec


def test_specs_are_equal_by_value():
    assert Spec(3, 2, 5) == Spec(3, 2, 5, np.full(3, 1 / 3))
    assert hash(Spec(3, 2, 5)) == hash(Spec(3, 2, 5, np.full(3, 1 / 3)))
    assert Spec(3, 2, 5) != Spec(3, 2, 5, np.array([1.0, 0, 0]))
    assert Spec(3, 2, 5) != "spec"


def test_a_spec_holds_nothing_but_public_facts():
    """Would catch dynamics or rewards that slip into what agents are built from."""
    spec = dc.envs.riverswim().spec
    assert set(vars(spec)) == {"states", "actions", "horizon", "initial"}
    with pytest.raises(ValueError, match="read-only"):
        spec.initial[0] = 0.0


@pytest.mark.parametrize("bad", [0, -1, 2.5, "x", True, None])
def test_sizes_are_positive_integers(bad):
    with pytest.raises(ValueError, match="horizon"):
        Spec(3, 2, bad)

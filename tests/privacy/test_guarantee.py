from __future__ import annotations

import json
import math

import discreet as dc


def test_no_privacy_says_so():
    guarantee = dc.NonPrivate().guarantee
    assert guarantee.notion == "none"
    assert math.isinf(guarantee.epsilon)
    assert "no privacy" in str(guarantee)
    assert json.loads(json.dumps(guarantee.to_dict()))["epsilon"] is None


def test_fast_noise_is_called_simulation_only():
    guarantee = dc.Guarantee("joint", 1.0, 1e-6)
    assert "simulation only" in str(guarantee)
    assert "simulation only" not in str(dc.Guarantee("joint", 1.0, 1e-6, noise="secure"))

"""Plain records as JSON: the same values come back, and nothing else can be put in."""

from __future__ import annotations

import json

import numpy as np
import pytest

import discreet as dc
from discreet.errors import InvalidInput
from discreet.runtime import handover, records

LINEAR = dc.envs.linear_mixture(d=2, states=3, actions=2, horizon=2, successors=2)


@pytest.mark.parametrize(
    ("agent", "spec", "privacy"),
    [
        ("dp-ucbvi", dc.envs.riverswim(states=3, horizon=2).spec, dc.Central(1.0, noise="secure")),
        ("discreet-vi", dc.envs.riverswim(states=3, horizon=2).spec, dc.Local(1.0)),
        ("linopt-vi", LINEAR.spec, dc.Central(1.0, 1e-5)),
    ],
)
def test_what_an_agent_is_survives_json_to_the_last_bit(agent, spec, privacy):
    """A float that is rounded on the way would give another ε."""
    built = handover.blueprint(dc.agents.make(agent, spec, episodes=20, privacy=privacy, seed=1))
    text = json.dumps(records.to_plain(built), allow_nan=False)
    assert records.pack(records.from_plain(json.loads(text))) == records.pack(built)


def test_numbers_of_every_kind_survive():
    given = {"a": np.array([[0.1, -0.0], [1e-300, 2.0**60]]), "b": np.array([True]), "c": np.arange(3, dtype=np.uint8)}
    found = records.from_plain(json.loads(json.dumps(records.to_plain(given))))
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", ["O", "U5", "V8", "M8[s]"])
def test_arrays_of_anything_but_numbers_are_refused(kind):
    kept = {"arrays": {"x": {"dtype": kind, "shape": [1], "values": ["1"]}}, "document": {"$array": "x"}}
    with pytest.raises(InvalidInput, match="none of numbers"):
        records.from_plain(kept)

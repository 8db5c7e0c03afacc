"""Linear mixture MDPs: exact, sparse, and validated."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.mdp import LinearMDP, LinearSpec
from tests import linear


def test_values_are_those_of_the_table(rng):
    """Planning, evaluation and sampling agree with the same dynamics given as an array."""
    mdp = linear.world(rng, reward_noise="bernoulli")
    P = np.einsum("satd,hd->hsat", linear.dense(mdp.spec), mdp.theta_p)
    table = dc.TabularMDP(P, mdp.rewards, initial=mdp.initial, reward_noise="bernoulli")
    np.testing.assert_allclose(mdp.transitions, P, atol=1e-12)
    np.testing.assert_allclose(mdp.optimal_values, table.optimal_values, atol=1e-12)
    mixed = rng.dirichlet(np.ones(3), size=(4, 4))
    for policy in (rng.integers(3, size=(4, 4)), mixed):
        np.testing.assert_allclose(mdp.values(policy), table.values(policy), atol=1e-12)
    pairs = zip(
        mdp.sample_many(mixed, np.random.default_rng(0), 50),
        table.sample_many(mixed, np.random.default_rng(0), 50),
        strict=True,
    )
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "options", [{}, {"per_step": True}, {"reward_noise": "bernoulli"}, {"d": 1}, {"successors": 2}]
)
def test_random_mixtures_are_what_they_say(options):
    mdp = dc.envs.make(
        "linear_mixture", **{"d": 4, "states": 8, "actions": 3, "horizon": 3, "successors": 6, **options}
    )
    testing.check_env(mdp, episodes=5000)
    assert (
        mdp.optimal_value
        == dc.envs.make(
            "linear_mixture", **{"d": 4, "states": 8, "actions": 3, "horizon": 3, "successors": 6, **options}
        ).optimal_value
    )
    rows = np.diff(mdp._sparse[0])
    assert rows.max() <= max(options.get("successors", 6), 1)
    assert mdp.spec.feature_norm <= np.sqrt(mdp.spec.dimension) * (1 + 1e-12)


def test_a_table_as_a_linear_mdp():
    table = dc.envs.riverswim(states=4, horizon=6)
    mdp = dc.envs.as_linear(table)
    assert (mdp.spec.dimension, mdp.spec.reward_dimension) == (32, 8)
    assert mdp.spec.feature_norm == pytest.approx(2.0)  # √S
    np.testing.assert_array_equal(mdp.transitions, table.transitions)
    np.testing.assert_array_equal(mdp.optimal_values, table.optimal_values)
    with pytest.raises(ValueError, match="as_linear takes a TabularMDP"):
        dc.envs.as_linear(mdp)


def test_no_array_has_one_number_for_each_pair_of_states():
    """Must show: nothing as large as S·A·S anywhere; the array that would be is refused."""
    mdp = dc.envs.linear_mixture(4, 4000, 10, 2, 8)
    _ = mdp.optimal_value, mdp.sample_tables
    spec = mdp.spec
    sizes = [np.size(array) for array in (*vars(spec).values(), *mdp._sparse, *mdp.sample_tables, mdp._r)]
    assert max(sizes) < 4000 * 10 * 4000 / 100
    with pytest.raises(ValueError, match="too many for an array"):
        _ = mdp.transitions


def test_specs_are_equal_if_their_features_are(rng):
    first = linear.world(rng).spec
    again = LinearSpec.dense(linear.dense(first), first.reward_features, horizon=4)
    other = LinearSpec.dense(linear.dense(first) * 0.5, first.reward_features, horizon=4)
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != dc.mdp.Spec(4, 3, 4)
    assert "0." not in repr(first)


def good(rng):
    psi = rng.dirichlet(np.ones(3), size=(3, 2, 2)).transpose(0, 1, 3, 2)
    return {
        "psi": psi,
        "phi": rng.dirichlet(np.ones(2), size=(3, 2)),
        "p": np.array([0.3, 0.7]),
        "r": np.array([0.2, 0.9]),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.3, 0.8]}, r"P\[h=0, s=0, a=0\] must sum to 1"),
        ({"p": [1.8, -0.8]}, "norm at most|must be a probability"),
        ({"p": [1.2, -0.2]}, "must be a probability"),
        ({"r": [-0.5, 1.2]}, r"reward\[h=0.* must lie in \[0, 1\]"),
        ({"r": [3.0, 0.0]}, "norm at most √2"),
        ({"p": [0.3, 0.7, 0.0]}, r"theta_p must have shape \(2,\) or \(4, 2\)"),
        ({"phi": np.full((3, 2, 2), 0.9)}, "norm at most 1"),
        ({"phi": np.full((3, 2, 2), np.nan)}, "norm at most 1"),
        ({"phi": np.zeros((3, 2))}, "reward_features must have shape"),
        ({"psi": np.zeros((3, 2, 4, 2))}, "psi must have shape"),
    ],
)
def test_what_is_no_mixture_is_named(rng, change, message):
    parts = {**good(rng), **change}
    with pytest.raises(ValueError, match=message):
        LinearMDP(LinearSpec.dense(parts["psi"], parts["phi"], horizon=4), parts["p"], parts["r"])


def test_bad_entries_are_named(rng):
    spec = linear.world(rng).spec
    fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    for change, message in (
        ({"offsets": fields["offsets"][:-1]}, "offsets must rise"),
        ({"successors": fields["successors"] + 1}, r"successors must be .* in \[0, 4\)"),
        ({"coordinates": fields["coordinates"] - 1}, r"coordinates must be .* in \[0, 3\)"),
        ({"weights": fields["weights"] * np.nan}, "weights must be finite"),
        ({"successors": fields["weights"]}, "successors must be integers"),
        ({"dimension": 0}, "dimension=0"),
    ):
        with pytest.raises(ValueError, match=message):
            LinearSpec(**{**fields, **change})
    with pytest.raises(ValueError, match="spec must be a LinearSpec"):
        LinearMDP(dc.mdp.Spec(4, 3, 4), np.ones(3) / 3, np.zeros(2))

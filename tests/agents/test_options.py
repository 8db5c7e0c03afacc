"""The tables of options are what the constructors take."""

from __future__ import annotations

import inspect

import pytest

import discreet as dc
from discreet.privacy.trust import TRUST_MODELS
from discreet.registry.options import table

BESIDE = ("self", "spec", "episodes", "seed", "privacy")


@pytest.mark.parametrize("name", dc.agents.NAMES)
def test_table_and_constructor_agree_in_names_and_defaults(name):
    """Would catch an option that only one of them has: it would be refused, or could not be said in a sweep."""
    parameters = inspect.signature(dc.agents.AGENTS[name]).parameters
    taken = {key: found.default for key, found in parameters.items() if key not in BESIDE}
    assert dc.agents.defaults(name) == taken


@pytest.mark.parametrize("kind", [*(dc.agents.family(name) for name in dc.agents.NAMES), *TRUST_MODELS.values()])
def test_every_option_says_what_it_is(kind):
    for option in table(kind).values():
        assert option.help.endswith(".")
        assert option.types
        assert option.default is None or option.fits(option.default)


def test_an_option_of_one_name_is_one_thing_in_every_family():
    """The command line and sweeps have one key for it; rlsvi's δ goes by that of the budget."""
    kinds = {dc.agents.family(name) for name in dc.agents.NAMES}
    for kind in kinds:
        for name, option in table(kind).items():
            assert option == dc.agents.table()[name]

"""What there is by name: built in, registered by others, or found by its path."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import discreet as dc
from discreet.agents.options import Tabular
from discreet.agents.ucbvi import UCBVI
from discreet.errors import InvalidInput, UnknownName
from discreet.experiments.reproduce import EXPERIMENTS
from discreet.experiments.sweep import Sweep
from discreet.privacy.trust import SUMS, TRUST_MODELS, NonPrivate
from discreet.registry import KINDS, Registry, register
from discreet.registry.options import about, table

REGISTRIES = (dc.agents.AGENTS, dc.envs.ENVIRONMENTS, TRUST_MODELS, SUMS, EXPERIMENTS)


@dataclass(frozen=True)
class EagerOptions(Tabular):
    eagerness: float = field(default=1.0, metadata=about("How eager it is."))


class Eager(UCBVI):
    """An agent of somebody else."""

    def __init__(
        self, spec, *, episodes, privacy=None, preset="practical", stationary=False, update_every=None, failure=0.05,
        bonus_scale=1.0, eagerness=1.0, seed=None,
    ):  # fmt: skip
        self.eagerness = eagerness
        super().__init__(
            spec, episodes=episodes, privacy=privacy, preset=preset, stationary=stationary, update_every=update_every,
            failure=failure, bonus_scale=bonus_scale, seed=seed,
        )  # fmt: skip


def bandit(horizon=2):
    """An environment of somebody else."""
    return dc.envs.chain(states=2, horizon=horizon)


@pytest.fixture
def others(monkeypatch):
    """Everything can be added to, and is as before afterwards."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "entries", dict(registry.entries))


def test_every_kind_has_its_registry_and_every_entry_is_there():
    """Would catch an agent, a sum or an experiment that was moved without its entry."""
    assert {registry.kind for registry in REGISTRIES} == set(KINDS)
    for registry in REGISTRIES:
        assert all(registry[name] is not None or registry is SUMS for name in registry)


@pytest.mark.usefixtures("others")
def test_what_others_register_is_known_everywhere(discreet_):
    """An agent with an option of its own, and an environment: nothing in src/ is edited for it."""
    register("agent", "eager", f"{__name__}:Eager", options=f"{__name__}:EagerOptions")
    register("environment", "bandit", bandit)
    assert "eager" in dc.agents.NAMES
    assert "bandit" in dc.envs.NAMES
    code, out, _ = discreet_("list")
    assert code == 0
    assert "An agent of somebody else." in out
    assert "horizon=2" in out
    agent = dc.agents.make("eager", dc.envs.make("bandit").spec, episodes=5, eagerness=2.0)
    assert agent.eagerness == 2.0
    with pytest.raises(UnknownName, match="did you mean 'eagerness'"):
        dc.agents.make("eager", agent.spec, episodes=5, eagernes=2.0)
    code, out, err = discreet_("run", "bandit", "--agent", "eager", "--eagerness", "2", "--episodes", "5")
    assert code == 0, err
    assert "eagerness: 2" in out
    sweep = Sweep.make({"env": "bandit", "agent": "eager", "eagerness": [1, 2.5], "episodes": 5})
    assert [config["options"] for config in sweep.configs] == [{"eagerness": 1}, {"eagerness": 2.5}]


@pytest.mark.usefixtures("others")
def test_a_sum_of_others_is_asked_for_by_name():
    with pytest.raises(UnknownName, match="unknown sum 'mine'"):
        dc.Central(1.0, sum="mine")
    register("sum", "mine", "my.sums:Mine", trust="central")
    assert dc.Central(1.0, sum="mine").sum == "mine"
    assert "mine" in dc.Central.sums
    with pytest.raises(UnknownName, match="unknown sum 'mine'"):
        dc.Local(1.0, sum="mine")


@pytest.mark.usefixtures("others")
def test_a_name_that_is_taken_is_refused():
    with pytest.raises(InvalidInput, match="already"):
        register("agent", "ucbvi", Eager)
    with pytest.raises(UnknownName, match="did you mean 'agent'"):
        register("agents", "eager", Eager)


@pytest.mark.parametrize("path", [f"{__name__}:Eager", f"{__name__}.Eager"])
def test_a_path_needs_no_registration(path):
    agent = dc.agents.make(path, bandit().spec, episodes=5, eagerness=3.0)
    assert agent.eagerness == 3.0
    assert dc.envs.read(f"{__name__}.bandit:horizon=3").horizon == 3


def test_a_path_that_leads_nowhere_is_said():
    for path, message in (("no.such:Agent", "no.such"), (f"{__name__}:Missing", "Missing"), ("ucbv", "ucbvi")):
        with pytest.raises(InvalidInput, match=message):
            dc.agents.make(path, bandit().spec, episodes=5)


def test_a_list_of_names_imports_nothing():
    made: Registry[type] = Registry("toy")
    made.add("a", "no.such.module:A")
    assert made.names == ("a",)
    assert "a" in made
    with pytest.raises(InvalidInput, match="cannot be imported"):
        made["a"]


def test_a_table_says_of_a_field_what_everybody_needs():
    option = table(EagerOptions)["eagerness"]
    assert (option.flag, option.default, option.expects) == ("--eagerness", 1.0, "a number")
    assert option.fits(2)
    assert not option.fits(True)
    assert option.label(0.5) == "eagerness 0.5"
    assert table(NonPrivate) == {}
    assert table(Tabular)["update_every"].expects == "a whole number or a text"
    assert table(Tabular)["stationary"].label(True) == "pooled"

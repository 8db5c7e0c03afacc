"""What every agent keeps: the protocol, its capacity, its names."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.agents.rounds import Schedule
from discreet.agents.trusting import default_update
from discreet.errors import CapacityExceeded
from discreet.privacy import Report, ShuffledBatch
from discreet.privatizers import PrivateCounts
from tests.conftest import PRIVATE, TRUST, UPDATED, every_other, make_agent, met

RIVERSWIM = dc.envs.riverswim()


@pytest.mark.parametrize("name", UPDATED)
@pytest.mark.parametrize(("update_every", "stationary"), every_other([1, 7, "geometric", 60], [False, True]))
def test_agents_keep_the_protocol(name, stationary, update_every):
    make = functools.partial(make_agent, name, stationary=stationary, update_every=update_every)
    testing.check_agent(lambda spec, episodes, seed: make(spec, episodes=episodes, seed=seed))


@pytest.mark.parametrize(("name", "trust"), [met(name, trust) for name in PRIVATE for trust in TRUST])
def test_agents_keep_the_protocol_under_every_trust_model(name, trust):
    """No agent has a line of code for a trust model."""
    make = functools.partial(make_agent, name, trust=trust, stationary=True, update_every=10)
    testing.check_agent(lambda spec, episodes, seed: make(spec, episodes=episodes, seed=seed))


@pytest.mark.parametrize("name", dc.agents.NAMES)
def test_agents_promise_nothing_they_do_not_keep(name):
    agent = dc.agents.make(name, dc.envs.riverswim().spec, episodes=500, privacy=dc.NonPrivate())
    assert agent.guarantee == dc.NonPrivate().guarantee
    assert "no privacy" in repr(agent)


@pytest.mark.parametrize(("private", "base"), [("pucb", "ubev"), ("dp-ucbvi", "ucbvi")])
@pytest.mark.parametrize("preset", dc.agents.PRESETS)
@pytest.mark.parametrize("stationary", [True, False])
def test_without_noise_the_private_agents_are_their_bases_bit_for_bit(private, base, preset, stationary):
    """Must show. Both paths."""
    mdp = dc.envs.riverswim()
    for block in (True, False):
        agents = [
            dc.agents.make(
                name, mdp.spec, episodes=300, privacy=dc.NonPrivate(), preset=preset, stationary=stationary, seed=0
            )
            for name in (private, base)
        ]
        gaps = [dc.simulate(agent, mdp, seed=1, block=block).gaps for agent in agents]
        np.testing.assert_array_equal(*gaps)
        for field in ("Q", "V", "policy"):
            np.testing.assert_array_equal(*(getattr(agent, field) for agent in agents))


GUARANTEED = [*(key for key in TRUST if key != "none")]


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("trust", GUARANTEED)
@pytest.mark.parametrize("name", PRIVATE)
def test_the_proven_epsilon_is_the_budgets(name, trust, stationary):
    """Must show: between 0.99 of the budget and the budget, whatever the preset and the bonus scale."""
    found = []
    for options in ({}, {"preset": "theory"}, {"bonus_scale": 7.0}):
        agent = make_agent(
            name, RIVERSWIM.spec, trust=trust, episodes=2000, update_every=50, stationary=stationary, seed=0, **options
        )
        assert 0.99 <= agent.guarantee.epsilon <= 1.0
        assert agent.guarantee.notion == {"C": "joint", "L": "local", "S": "shuffle"}[type(TRUST[trust]).__name__[0]]
        found.append((agent.guarantee, agent.mechanism.fresh_std, agent.mechanism.error))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", PRIVATE)
def test_printed_noise_shows_its_real_epsilon(name):
    """Must show: where calibration="paper" exists, the guarantee is what it really gives."""
    for trust, real in (
        (dc.Central(1.0, calibration="paper"), 2.05),
        (dc.Local(1.0, calibration="paper"), 2.0),
        (dc.Shuffle(1.0, 1e-6, calibration="paper"), 0.033),
    ):
        agent = dc.agents.make(name, RIVERSWIM.spec, episodes=50_000, privacy=trust, update_every=None)
        assert agent.guarantee.epsilon == pytest.approx(real, rel=0.1 if real < 1 else 1e-3)


@pytest.mark.parametrize("trust", ["local laplace", "local gaussian", "local sampled", "shuffle"])
@pytest.mark.parametrize("name", PRIVATE)
def test_the_server_never_sees_a_trajectory(name, trust):
    """Must show: a spy in the place of what the server runs sees no trajectory, under shuffle no report.

    That is `observe` of the agent and of its privatizer, `folded` of the mechanism and `planned`. With short cuts too:
    then nothing but `observe`, `absorb` or `settle` brings anything to the server.
    """
    for block in (True, False):
        agent = make_agent(name, RIVERSWIM.spec, trust=trust, episodes=40, update_every=10, seed=0)
        seen = []
        for owner, attribute in (
            (agent, "observe"),
            (agent, "absorb"),
            (agent, "settle"),
            (agent, "planned"),
            (agent.privatizer, "observe"),
            (agent.mechanism, "folded"),
        ):
            spy(owner, attribute, seen)
        dc.simulate(agent, RIVERSWIM, seed=0, block=block)
        assert agent.count == 40
        check_seen(seen, trust)


def spy(owner, attribute, seen):
    """Puts what a method is given, and what that holds, on a list."""
    real = getattr(owner, attribute)

    def watched(*arguments):
        for argument in arguments:
            seen.append(argument)
            seen.extend(vars(argument).values() if hasattr(argument, "__dict__") else ())
        return real(*arguments)

    setattr(owner, attribute, watched)


def check_seen(seen, trust):
    kinds = {type(thing) for thing in seen}
    assert not any(issubclass(kind, dc.Trajectory) or kind.__name__.startswith("Raw") for kind in kinds)
    assert PrivateCounts in kinds
    if trust == "shuffle":
        assert ShuffledBatch in kinds
        assert not any(issubclass(kind, Report) for kind in kinds)


@pytest.mark.parametrize("update_every", [1, 3, 10, "geometric"])
def test_schedules_agree_with_themselves(update_every):
    """The block path asks for the ends of many batches, the protocol for one size at a time."""
    schedule = Schedule(update_every)
    count, ends = 0, []
    while count + schedule.batch_size(count) <= 500:
        count += schedule.batch_size(count)
        ends.append(count)
    np.testing.assert_array_equal(schedule.ends(0, 500), ends)
    later = ends[2]
    np.testing.assert_array_equal(schedule.ends(later, 500 - later), np.array(ends[3:]) - later)


def test_a_batch_of_the_wrong_size_is_refused(rng):
    mdp = dc.envs.riverswim()
    agent = dc.agents.make("ucbvi", mdp.spec, episodes=10, update_every=2)
    report = agent.encoder.encode(mdp.sample(agent.policy, rng), rng)
    with pytest.raises(ValueError, match="2 users, got 1"):
        agent.observe(agent.shuffler([report], rng))
    assert agent.count == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "ucbv"}, "did you mean 'ucbvi'"),
        ({"episodes": 0}, "episodes=0"),
        ({"episodes": 1.5}, "episodes=1.5"),
        ({"preset": "theori"}, "did you mean 'theory'"),
        ({"update_every": 0}, "update_every=0"),
        ({"update_every": "geometrical"}, "did you mean 'geometric'"),
        ({"failure": 0}, "failure=0"),
        ({"failure": 1}, "failure=1"),
        ({"bonus_scale": -1}, "bonus_scale=-1"),
        ({"bonus_scale": "x"}, "bonus_scale='x'"),
        ({"bonus_scale": float("nan")}, "bonus_scale=nan"),
        ({"seed": -3}, "seed=-3"),
        ({"stationary": "yes"}, "stationary='yes'"),
        ({"privacy": "central"}, "needs a trust model.*got str"),
        ({"spec": (6, 2, 20)}, "tuple"),
        ({"stationry": True}, "did you mean 'stationary'"),
    ],
)
def test_bad_options_are_named(options, message):
    spec = dc.envs.riverswim().spec
    with pytest.raises(ValueError, match=message):
        dc.agents.make(**{"name": "ucbvi", "spec": spec, "episodes": 5, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"privacy": None}, "dp-ucbvi needs a trust model"),
        ({"privacy": "central"}, "needs a trust model.*got str"),
        ({"privacy": dc.Central(1.0), "update_every": 0}, "update_every=0"),
        ({"privacy": dc.Central(1.0, sum="factored")}, "delta"),
        ({"privacy": dc.Local(1.0, sum="gaussian")}, "needs delta > 0"),
        ({"privacy": dc.Central(1.0, sum="factored", delta=1e-6, calibration="paper")}, "printed for"),
        ({"privacy": dc.Shuffle(1.0, 1e-6, honest_fraction=0.001), "update_every": 5}, "smallest batch is 1000"),
    ],
)
def test_impossible_wishes_are_named(options, message):
    """Must show: one line that names the value and the alternatives."""
    with pytest.raises(ValueError, match=message) as caught:
        dc.agents.make("dp-ucbvi", RIVERSWIM.spec, episodes=5, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("trust", "name"), [(dc.Central(1.0), "ucbvi"), (dc.Local(1.0), "ubev")])
def test_agents_without_privacy_refuse_private_trust_models(trust, name):
    with pytest.raises(ValueError, match="offers no privacy"):
        dc.agents.make(name, RIVERSWIM.spec, episodes=5, privacy=trust)


LAPLACE = {"sum": "tree", "calibration": "paper"}
AUTO = [
    (dc.NonPrivate(), {}, "ucbvi", 1),
    (dc.Central(1.0, 1e-6), {}, "discreet-vi", None),
    (dc.Central(1.0, 1e-6), {"stationary": True}, "discreet-vi", None),
    (dc.Central(1.0, 1e-6), {"update_every": 7}, "discreet-vi", 7),
    (dc.Central(1.0, 1e-6, sum="optimal", release="weighted"), {}, "discreet-vi", None),
    (dc.Local(1.0), {}, "discreet-vi", None),
    (dc.Shuffle(1.0, 1e-6), {}, "discreet-vi", None),
    (dc.Shuffle(1.0, 1e-6, sum="binomial"), {}, "discreet-vi", None),
    (dc.Central(1.0), {}, "dp-ucbvi", 50),
    (dc.Central(1.0), {"update_every": 7}, "dp-ucbvi", 7),
    (dc.Central(1.0, **LAPLACE), {}, "dp-ucbvi", 50),
    (dc.Central(1.0, 1e-6, sum="tree"), {}, "dp-ucbvi", 50),
    (dc.Central(1.0, 1e-6, release="nmr"), {}, "dp-ucbvi", 50),
    (dc.Central(1.0, 1e-6), {"preset": "theory"}, "dp-ucbvi", 50),
    (dc.Local(1.0, sum="laplace"), {}, "dp-ucbvi", 50),
    (dc.Local(1.0, calibration="paper"), {}, "dp-ucbvi", 50),
    (dc.Local(50.0), {}, "dp-ucbvi", 50),
    (dc.Shuffle(1.0, 1e-6, release="mr"), {}, "dp-ucbvi", 50),
    (dc.Shuffle(1.0, 1e-6, calibration="paper"), {}, "dp-ucbvi", 50),
]


@pytest.mark.parametrize(("trust", "options", "name", "update_every"), AUTO)
def test_auto_is_the_best_of_what_there_is(trust, options, name, update_every):
    """It decides from the trust model and public sizes; what is given is kept, by whoever can keep it."""
    agent = dc.agents.make("auto", RIVERSWIM.spec, episodes=5000, privacy=trust, **{"update_every": None, **options})
    assert (agent.name, agent.schedule.update_every) == (name, update_every)
    if name == "discreet-vi" and not agent.stationary:
        assert agent.share_steps


def test_auto_needs_a_trust_model():
    """By the name that was given, not by that of an agent it might have become."""
    with pytest.raises(ValueError, match=r"^auto needs a trust model"):
        dc.agents.make("auto", RIVERSWIM.spec, episodes=5000)
    with pytest.raises(ValueError, match=r"^auto needs a trust model.*got str"):
        dc.agents.make("auto", RIVERSWIM.spec, episodes=5000, privacy="central")


def test_batches_under_shuffle_have_a_documented_default():
    sizes = {100: 1, 5_000: 50, 50_000: 500, 1_000_000: 500}
    for episodes, size in sizes.items():
        assert default_update(dc.Shuffle(1.0, 1e-6), episodes) == size
        assert default_update(dc.Central(1.0), episodes) == 1


def test_capacity_is_hard():
    mdp = dc.envs.riverswim()
    agent = dc.agents.make("ucbvi", mdp.spec, episodes=10, seed=0)
    dc.simulate(agent, mdp, 8, seed=0)
    with pytest.raises(CapacityExceeded, match="episodes=3"):
        dc.simulate(agent, mdp, 3, seed=0)
    assert agent.count == 8
    dc.simulate(agent, mdp, 2, seed=0)
    with pytest.raises(CapacityExceeded):
        dc.simulate(agent, mdp, seed=0)

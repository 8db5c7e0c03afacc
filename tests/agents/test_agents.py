"""What every agent keeps: the protocol, its capacity, its names."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.agents.schedule import Schedule
from discreet.errors import CapacityExceeded


@pytest.mark.parametrize("name", dc.agents.NAMES)
@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("update_every", [1, 7, "geometric", 60])
def test_agents_keep_the_protocol(name, stationary, update_every):
    make = functools.partial(dc.agents.make, name, stationary=stationary, update_every=update_every)
    testing.check_agent(lambda spec, episodes, seed: make(spec, episodes=episodes, seed=seed))


@pytest.mark.parametrize("name", dc.agents.NAMES)
def test_agents_promise_nothing_they_do_not_keep(name):
    agent = dc.agents.make(name, dc.envs.riverswim().spec, episodes=5)
    assert agent.guarantee == dc.NonPrivate().guarantee
    assert "no privacy" in repr(agent)


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
        ({"privacy": "central"}, "offers no privacy"),
        ({"spec": (6, 2, 20)}, "tuple"),
        ({"stationry": True}, "did you mean 'stationary'"),
    ],
)
def test_bad_options_are_named(options, message):
    spec = dc.envs.riverswim().spec
    with pytest.raises(ValueError, match=message):
        dc.agents.make(**{"name": "ucbvi", "spec": spec, "episodes": 5, **options})


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

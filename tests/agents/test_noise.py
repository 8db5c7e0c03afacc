"""Whose noise it is: every agent and budget has its own under one seed, and a guarantee says where it comes from."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import discreet as dc
from discreet.mdp import Spec
from discreet.noise import Role, stream
from discreet.noise.fast import FastSource
from tests.conftest import random_mdp
from tests.linear import world
from tests.rounds import CASES, LINEAR, SWIM, TINY, Hand, build

ROLES = (Role.ENCODER, Role.SHUFFLER, Role.NOISE)


def first(agent):
    """The next draws of every party that draws noise."""
    return {role: tuple(agent.sources[role].random(3)) for role in ROLES}


def make(name, spec=SWIM.spec, **options):
    given = {"episodes": 60, "seed": 7, "privacy": dc.Central(1.0, 1e-6)}
    return dc.agents.make(name, spec, **{**given, **options})


#: What every option can be beside its default, and with what it must be given.
OTHER = {
    "preset": {"preset": "theory"},
    "stationary": {"stationary": True},
    "update_every": {"update_every": 3},
    "failure": {"failure": 0.1},
    "bonus_scale": {"bonus_scale": 2.0},
    "policies": {"policies": "enumerate"},
    "share_steps": {"share_steps": False},
    "feature_bound": {"feature_bound": 30.0},
    "accounting": {"accounting": "individual"},
    "noise_scale": {"noise_scale": 1.0, "delta": 1e-6, "privacy": None},
    "delta": {"noise_scale": 1.0, "delta": 1e-5, "privacy": None},
}
#: Options that an agent takes at one value only.
FIXED = {
    ("sdp-pe", "update_every"),
    ("discreet-vi", "preset"),
    ("linopt-vi", "stationary"),
    ("linopt-po", "stationary"),
}
PRIVATE = [name for name in dc.agents.NAMES if name != "auto" and dc.agents.is_private(name)]


@pytest.mark.parametrize("name", PRIVATE)
def test_no_two_agents_share_their_noise(name):
    """Any option, budget, size or name makes it another agent's; the same agent draws the same.

    Would catch a new option that is left out of an agent's identity.
    """
    mdp = {"sdp-pe": TINY, "linopt-vi": LINEAR, "linopt-po": LINEAR}.get(name, SWIM)
    spec = mdp.spec
    options = [option for option in dc.agents.defaults(name) if (name, option) not in FIXED]
    others = [make(name, spec, **OTHER[option]) for option in options]
    others += [make(name, spec, privacy=dc.Central(*budget)) for budget in ((2.0, 1e-6), (1.0, 1e-5))]
    others += [make(name, spec, episodes=61), make(name, spec, seed=8), make(name, spec, seed=[7, 1])]
    if name not in ("rlsvi", "sdp-pe"):
        others.append(make(name, spec, privacy=dc.Central(1.0, 1e-6, sum="tree")))
    if name != "rlsvi":
        others.append(make(name, spec, privacy=dc.NonPrivate()))
    if not name.startswith("linopt"):
        others += [make(name, Spec(*sizes)) for sizes in ((2, 2, 3), (3, 2, 2), (2, 3, 2))]
        others.append(make(name, dataclasses.replace(spec, initial=np.full(spec.states, 1 / spec.states))))
    draws = [first(make(name, spec)), *map(first, others)]
    for role in ROLES:
        assert len({found[role] for found in draws}) == len(draws)
    assert first(make(name, spec)) == draws[0]


def test_different_names_have_different_noise():
    agents = [make(name, TINY.spec) for name in PRIVATE]
    draws = [draw for agent in agents for draw in first(agent).values()]
    assert len(set(draws)) == len(draws) == 3 * len(agents)


def test_agents_on_other_features_have_other_noise():
    """Would catch an identity that knows the sizes of a linear world and not its features."""
    rng = np.random.default_rng(0)
    draws = [first(make("linopt-vi", world(rng).spec)) for _ in range(2)]
    assert not any(draws[0][role] == draws[1][role] for role in ROLES)


def test_the_people_and_the_agent_are_the_same_under_another_budget():
    """Only noise is an agent's own: person k lives the same life, and an agent flips the same coins."""
    one, two = (make("discreet-vi", privacy=dc.Central(epsilon, 1e-6)) for epsilon in (1.0, 2.0))
    assert one.rng.bit_generator.state == two.rng.bit_generator.state


def shared(agent):
    """Planted: the old behaviour, one stream of noise for all agents of a seed."""
    for role in ROLES:
        agent.sources[role] = FastSource(stream(agent.seed, role))
    agent.privatizer.source = agent.sources[Role.NOISE]
    return agent


def attack(kind, plant):
    """Two budgets under one seed release the counts of the same people; returns the error of the best guess at them.

    With the same noise z, T + s·z and T + t·z give T.
    """
    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, 3, 2, 4)
    people = [mdp.sample(np.zeros((4, 3), dtype=np.int64), rng) for _ in range(50)]
    releases, scales, raw = [], [], None
    for epsilon in (1.0, 2.0):
        agent = make("dp-ucbvi", mdp.spec, episodes=50, update_every=50, privacy=kind(epsilon))
        plant(agent)
        reports = [agent.encoder.encode(person, agent.sources[Role.ENCODER]) for person in people]
        agent.observe(agent.shuffler(reports, agent.sources[Role.SHUFFLER]))
        releases.append(agent.privatizer.last.transitions)
        scales.append(agent.mechanism.fresh_std)
        exact = make("ucbvi", mdp.spec, episodes=50, update_every=50, privacy=dc.NonPrivate())
        exact.observe(exact.shuffler([exact.encoder.encode(person, rng) for person in people], rng))
        raw = exact.privatizer.last.transitions
    guess = (scales[0] * releases[1] - scales[1] * releases[0]) / (scales[0] - scales[1])
    return np.abs(guess - raw).mean() / min(scales)


@pytest.mark.parametrize(
    "kind",
    [
        lambda epsilon: dc.Central(epsilon, sum="tree"),
        lambda epsilon: dc.Central(epsilon, 1e-6, sum="factored"),
        lambda epsilon: dc.Local(epsilon, sum="laplace"),
    ],
    ids=["central laplace", "central gaussian", "local laplace"],
)
def test_the_difference_of_two_budgets_is_not_raw(kind):
    """Must show: the old attack reads every count; planted, it does again, and without that it learns nothing."""
    assert attack(kind, shared) < 1e-9
    assert attack(kind, lambda agent: agent) > 0.5


# where noise comes from


class Watched(FastSource):
    """Notes that it was drawn from."""

    used = False

    def __getattribute__(self, name):
        if name in ("random", "chance", "integer", "permutation", "permuted", "noise", "fill", "binomial"):
            self.used = True
        return super().__getattribute__(name)


class Secure(FastSource):
    """As if it could be released."""

    kind = "secure"


def with_sources(agent, kinds):
    """Gives every role a source of its kind."""
    for role in (Role.ENCODER, Role.SHUFFLER):
        agent.sources[role] = kinds[role](np.random.default_rng(1))
    agent.anew(kinds[Role.NOISE](np.random.default_rng(1)))
    return agent


def drawn_from(case):
    """Returns which roles draw while a batch goes through a case's protocol."""
    agent = with_sources(build(case), dict.fromkeys(ROLES, Watched))
    hand = Hand(case, agent)
    people = [hand.mdp.sample(agent.plan.policy(slot), hand.people) for slot in range(agent.plan.size)]
    reports = [agent.encoder.encode(person, agent.sources[Role.ENCODER]) for person in people]
    agent.observe(agent.shuffler(reports, agent.sources[Role.SHUFFLER]))
    return {role for role in ROLES if agent.sources[role].used}


@pytest.mark.parametrize("case", CASES)
def test_noise_is_secure_only_if_every_source_that_is_drawn_from_is(case):
    """Would catch a mechanism that forgets one of those who draw, and a guarantee that is a literal."""
    drawn, agent = drawn_from(case), build(case)
    for chosen in itertools.product((True, False), repeat=3):
        secure = {role for role, is_secure in zip(ROLES, chosen, strict=True) if is_secure}
        with_sources(agent, {role: Secure if role in secure else FastSource for role in ROLES})
        found = agent.guarantee.noise
        if agent.guarantee.notion == "none":
            assert found == "none"
        else:
            assert drawn
            assert found == ("secure" if drawn <= secure else "fast")
            assert ("simulation only" in str(agent.guarantee)) == (found == "fast")


@pytest.mark.parametrize("case", ["dp-ucbvi central", "rlsvi tight", "discreet-vi central"])
def test_a_source_that_nobody_draws_from_makes_nothing_secure(case):
    """Would catch a guarantee that looks at a source beside the one that the server really draws from."""
    agent = build(case)
    agent.sources[Role.NOISE] = Secure(np.random.default_rng(0))
    assert agent.guarantee.noise == "fast"
    agent.privatizer.source = agent.sources[Role.NOISE]
    assert agent.guarantee.noise == "secure"

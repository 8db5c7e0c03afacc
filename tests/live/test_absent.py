"""Somebody who did nothing is within the bound that every sensitivity rests on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import discreet as dc
from discreet.mdp import Trajectory
from discreet.privatizers.codec import from_wire, to_wire
from tests.live.people import KINDS, MDP, config

SMALL = dc.envs.riverswim(states=2, horizon=2)
ALL = [
    Trajectory(states, actions, rewards)
    for states in itertools.product(range(2), repeat=3)
    for actions in itertools.product(range(2), repeat=2)
    for rewards in itertools.product((0.0, 0.4, 1.0), repeat=2)
]
CENTRAL = {
    "counts": ("dp-ucbvi", dc.Central(1.0, 1e-5, noise="secure"), {}),
    "pooled": ("dp-ucbvi", dc.Central(1.0, 1e-5, noise="secure"), {"stationary": True}),
    "mr": ("dp-ucbvi", dc.Central(1.0, noise="secure", release="mr"), {}),
    "weighted": ("discreet-vi", dc.Central(1.0, 1e-5, noise="secure"), {"stationary": True}),
    "weighted per step": ("discreet-vi", dc.Central(1.0, 1e-5, noise="secure"), {}),
    "features": ("linopt-vi", dc.Central(1.0, 1e-5, noise="secure"), {}),
}


def vector(mechanism, report, size):
    """Returns what a report adds to the sum."""
    if hasattr(report, "features"):
        return mechanism.contributions(report.features[None], report.targets[None])[0]
    found = np.zeros(size)
    np.add.at(found, report.indices, report.values)
    return found


@pytest.mark.parametrize("case", CENTRAL)
def test_replacing_anybody_by_an_absent_person_is_covered(case):
    """All pairs in a tiny world: would catch a zero vector that is further from somebody than two people can be."""
    name, privacy, options = CENTRAL[case]
    agent = dc.agents.make(name, SMALL.spec, episodes=100, privacy=privacy, update_every=50, **options)
    mechanism, encoder = agent.mechanism, agent.plan.encoder
    absent = encoder.absent()
    mechanism.check(absent, encoder)
    size, bound = mechanism.sum.size, mechanism.sum.sensitivity
    nothing = vector(mechanism, absent, size)
    assert not nothing.any()
    for person in ALL:
        moved = vector(mechanism, encoder.encode(person), size) - nothing
        assert np.linalg.norm(moved) <= bound.l2 * (1 + 1e-9)
        assert np.abs(moved).sum() <= bound.l1 * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_an_absent_report_travels(kind):
    """Would catch one that the server refuses, or that is not as long as any other."""
    agent = dc.live.read(config(kind)).make(None)
    encoder = agent.plan.encoder
    text = to_wire(encoder.absent())
    somebody = encoder.encode(MDP.sample(agent.plan.policy(0), np.random.default_rng(0)))
    assert len(text) == len(to_wire(somebody))
    parsed = from_wire(text, encoder)
    if "shuffle" not in kind and kind != "binomial":
        agent.mechanism.check(parsed, encoder)


def test_absent_bits_are_noise_alone():
    """Would catch a data bit, or noise bits that are missing: power against 0.9 and 1.1 of the noise."""
    for kind in ("binomial", "discreet-vi shuffle"):
        encoder = dc.live.read(config(kind)).make(None).plan.encoder
        ones = sum(int(encoder.absent().bits.sum()) for _ in range(300))
        bits = 300 * encoder.size * encoder.noise_bits
        p = encoder.probability
        mean, std = (
            (bits * p, np.sqrt(bits * p * (1 - p))) if kind == "binomial" else (bits, np.sqrt(2 * bits * p * (1 - p)))
        )
        assert abs(ones - mean) < 6 * std
        data = encoder.size * 300
        assert std * 12 < data  # a data bit that is 1 would be seen


def test_an_absent_answer_says_none():
    encoder = dc.live.read(config("discreet-vi local", privacy={"epsilon": 20.0})).make(None).plan.encoder
    for _ in range(50):
        report = encoder.absent()
        hidden = encoder.randomisers[report.question // encoder.layout.cells]
        assert np.flatnonzero(report.support).tolist() == [hidden.size - 1]

"""Users, shuffler and server of one mechanism, for tests."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from discreet.noise import Role, as_source
from discreet.privatizers import Privatizer


def at_work(mechanism, seed=0):
    """The mechanism with a secret of its own."""
    return Privatizer(mechanism, as_source(np.random.default_rng(seed)))


def batch_of(private, people, rng, encoder=None):
    """What the server receives of these people: each encodes, and a shuffler of the server's plan hands on."""
    encoder = private.encoder if encoder is None else encoder
    shuffler = private.mechanism.shuffler()
    shuffler.begin(private.version, len(people), encoder)
    return shuffler([encoder.encode(person, rng) for person in people], rng)


def tallied(tally, private, encoder, pieces, users, shuffler=None):
    """What a simulation's short cut shows to the server of people in pieces, or None if it folds by itself.

    Args:
        tally: The class of the short cut.
        private: The server.
        encoder: What the people run.
        pieces: Of (states, actions, rewards), a row a person.
        users: The generator that they draw from.
        shuffler: The shuffler's.
    """
    shown = []
    drawn = dict.fromkeys(Role, as_source(users))
    drawn[Role.SHUFFLER] = as_source(users if shuffler is None else shuffler)
    agent = SimpleNamespace(
        mechanism=private.mechanism, privatizer=private, sources=drawn, observe=shown.append, absorb=private.absorb
    )
    found = tally(agent, SimpleNamespace(encoder=encoder, version=private.version))
    for piece in pieces:
        found.meet(*piece)
    found.observe()
    return shown[0] if shown else None

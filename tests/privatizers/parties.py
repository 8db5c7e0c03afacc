"""Users, shuffler and server of one mechanism, for tests."""

from __future__ import annotations

import numpy as np

from discreet.noise import as_source
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

"""One seed, several independent streams.

Every party of a run draws from a stream of its own, so that the same seed replays the same people under another
agent, another ε or another trust model. The noise of every agent and every budget is its own all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from discreet.errors import InvalidInput, check_integer

__all__ = ["Role", "Seed", "seed_sequence", "stream"]

Seed = int | Sequence[int] | np.random.SeedSequence | None


class Role(IntEnum):
    """Who draws. The numbers are part of every recorded result: never reuse one."""

    PEOPLE = 0
    AGENT = 1
    ENCODER = 2
    SHUFFLER = 3
    NOISE = 4


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """Returns the `SeedSequence` of ``seed``; None takes the operating system's entropy.

    Run i of seed S is ``[S, i]``, and S alone is its run 0.
    """
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if seed is None:
        return np.random.SeedSequence()
    if isinstance(seed, (str, bytes)):
        raise InvalidInput(f"seed must be an integer, a sequence of integers or None, got seed={seed!r}")
    if isinstance(seed, (Sequence, np.ndarray)):
        if len(seed) == 0:
            raise InvalidInput("seed must not be empty")
        return np.random.SeedSequence([check_integer("seed", part, least=0, most=2**128) for part in seed])
    return np.random.SeedSequence(check_integer("seed", seed, least=0, most=2**128))


def stream(seed: np.random.SeedSequence, role: Role, owner: str = "") -> np.random.Generator:
    """Returns the generator of one role, at its beginning.

    Args:
        seed: Of the run.
        role: Who draws.
        owner: For noise: whose it is, as a text of all public parameters. Two owners never share a stream: if they
            did, the difference of what they release would have no noise in it.
    """
    key = (*seed.spawn_key, int(role))
    if owner:
        key += tuple(np.frombuffer(hashlib.sha256(owner.encode()).digest()[:16], dtype="<u4").tolist())
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed.entropy, spawn_key=key)))

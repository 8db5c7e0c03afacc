"""The short cuts of a simulation: what the protocol does, for many people at once.

They use raw data of simulated people, and so they are reached from `discreet.simulate` only. What they leave behind is
what the protocol would have left, bit for bit; under `Shuffle` the noise bits of a batch are drawn as totals, which
have the same law as all the messages.

A short cut works on copies. Whatever interrupts it, the agent is at the end of a batch, and the noise that was drawn
for nothing is drawn again: nobody has seen it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.base import LearningAgent
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.noise.secure import SecureSource
from discreet.privacy import Report, ShuffledBatch
from discreet.privatizers.counts.encode import BinomialEncoder
from discreet.privatizers.first_visits.encode import FirstVisitEncoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Source
    from discreet.runtime.blocks import Blocks
    from discreet.runtime.tallies import Batches

__all__ = ["Bits", "SimulatedReport", "short_cut", "simulated_batch", "simulated_report"]

#: Encoders whose messages a simulation need not draw one by one.
Bits = BinomialEncoder | FirstVisitEncoder


def short_cut(agent: Any) -> Blocks | Batches | None:
    """Returns the short cut for an agent, if there is one: the one place that decides.

    There is one for exactly the agents that say so themselves (`LearningAgent.fast`), and exactly the mechanisms that
    it was written for: another class of either goes through the protocol. With secure sources there are those of
    `tallies.SECURE`: what is released is drawn by the server's own mechanism, as always.
    """
    if not isinstance(agent, LearningAgent) or not agent.fast:
        return None
    from discreet.runtime.blocks import BLOCKS
    from discreet.runtime.tallies import SECURE, TALLIES, Batches

    mechanism: type[Any] = type(agent.privatizer.mechanism)
    drawn = {type(source) for source in (*agent.sources.values(), agent.privatizer.source)}
    if agent.mechanism.exact != (drawn == {SecureSource}):
        return None  # whoever replaced a source: the mechanism itself refuses it
    if agent.mechanism.exact:  # bits of a batch are never drawn as totals
        return Batches(agent, SECURE[mechanism]) if mechanism in SECURE and not messages(agent) else None
    if drawn != {FastSource}:
        return None
    if mechanism in BLOCKS:
        return BLOCKS[mechanism](agent)
    return Batches(agent, TALLIES[mechanism]) if mechanism in TALLIES else None


def messages(agent: LearningAgent) -> bool:
    """Returns whether people send one-bit messages."""
    return isinstance(agent.plan.encoder, Bits)


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedReport(Report):
    """In simulation only: a user's data bits, to which the noise of the whole batch is added at once.

    Attributes:
        indices: Counters that the user touches, (n,).
        ones: How many of the user's data bits for each are 1, (n,).
    """

    indices: NDArray[np.int64]
    ones: NDArray[np.int64]


def simulated_report(encoder: Bits, trajectory: Trajectory, source: Source) -> SimulatedReport:
    """Returns the data bits of a simulated person."""
    return SimulatedReport(*encoder.touched(trajectory, source))


def simulated_batch(
    encoder: Bits, reports: Sequence[SimulatedReport], source: FastSource, version: int | None
) -> ShuffledBatch:
    """Returns what a shuffler would hand on of all the messages, in law."""
    data = np.zeros(encoder.size, dtype=np.int64)
    np.add.at(data, np.concatenate([r.indices for r in reports]), np.concatenate([r.ones for r in reports]))
    return with_noise(encoder, data, len(reports), source, version)


def with_noise(
    encoder: Bits, data: NDArray[np.int64], users: int, source: FastSource, version: int | None
) -> ShuffledBatch:
    """Returns a batch with the law of all messages, from the data bits that are 1."""
    bits, p = users * encoder.noise_bits, encoder.probability
    noise = source.binomial(bits, p, encoder.size)
    if isinstance(encoder, FirstVisitEncoder):  # bits come in pairs
        noise = noise + source.binomial(bits, 1 - p, encoder.size)
    return ShuffledBatch(data + noise, users * encoder.messages, users, version=version)


def sources(agent: LearningAgent) -> tuple[FastSource, FastSource, FastSource]:
    """Returns the sources of the users, the shuffler and the server."""
    users, shuffler, server = (fast_source(agent.sources[role]) for role in (Role.ENCODER, Role.SHUFFLER, Role.NOISE))
    return users, shuffler, server


def fast_source(source: Source) -> FastSource:
    """Returns a source that can be rewound; raises if it is another one."""
    if not isinstance(source, FastSource):
        raise TypeError(f"a simulation's short cuts need a FastSource, got {type(source).__name__}")
    return source

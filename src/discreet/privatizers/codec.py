"""What travels: the one registry of encoders and reports, and how they are written down. NumPy only.

An encoder travels to the device as JSON, a report back as a short text (`to_wire`, `from_wire`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from discreet.errors import InvalidInput, check_integer
from discreet.privatizers.counts.encode import BinomialEncoder, NoisyEncoder, RawEncoder
from discreet.privatizers.features.encode import NoisyFeatureEncoder, RawFeatureEncoder
from discreet.privatizers.first_visits.encode import FirstVisitEncoder
from discreet.privatizers.questions.encode import QuestionEncoder
from discreet.privatizers.sampled.encode import SampledEncoder
from discreet.privatizers.weighted.encode import WeightedEncoder
from discreet.privatizers.wire import CODECS, Codec, add, from_wire, to_wire, wire_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from discreet.mdp import Trajectory
    from discreet.noise import Source
    from discreet.privacy.messages import Report

__all__ = [
    "ENCODERS",
    "KINDS",
    "REPORTS",
    "AnyEncoder",
    "Codec",
    "from_json",
    "from_wire",
    "register",
    "to_wire",
    "wire_limit",
]


class AnyEncoder(Protocol):
    """What every encoder can do."""

    @property
    def kind(self) -> str:
        """Its name in JSON."""

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> Report:
        """At the user: returns the report."""

    def absent(self, rng: Source | np.random.Generator | None = None) -> Report:
        """Returns the report of somebody who did nothing."""

    def to_json(self) -> str:
        """Returns the public parameters."""

    def hides(self, epsilon: float, delta: float) -> bool:
        """Returns whether a report by itself is (ε, δ)-private."""


#: Every encoder, by its kind.
ENCODERS: dict[str, Any] = {
    kind.kind: kind
    for kind in (
        RawEncoder,
        NoisyEncoder,
        SampledEncoder,
        QuestionEncoder,
        BinomialEncoder,
        FirstVisitEncoder,
        RawFeatureEncoder,
        NoisyFeatureEncoder,
        WeightedEncoder,
    )
}
#: Every report that travels, by its class's name.
REPORTS: dict[str, type[Report]] = {codec.report.__name__: codec.report for codec in CODECS}
#: How many numbers a device handles for one report at most.
LARGEST = 2**24
#: The kinds of encoders.
KINDS: tuple[str, ...] = tuple(ENCODERS)


def register(encoder: type[Any], codec: Codec | None = None) -> None:
    """Adds another package's encoder, and how its reports travel: both then do as ours.

    Args:
        encoder: A class with a ``kind``, ``from_document``, ``to_json``, ``encode`` and ``hides``.
        codec: How its reports are read, and how they are written if they are of a kind of their own; without it they
            have no wire format.

    Raises:
        InvalidInput: If a kind is taken; nothing is added then.
    """
    if ENCODERS.get(encoder.kind, encoder) is not encoder:
        raise InvalidInput(f"there is an encoder of the kind {encoder.kind!r} already")
    if codec is not None:
        if encoder.kind not in codec.encoders:
            raise InvalidInput(f"this codec does not read reports of encoders of the kind {encoder.kind!r}")
        if REPORTS.get(codec.report.__name__, codec.report) is not codec.report:
            raise InvalidInput(f"there is a report {codec.report.__name__!r} already")
        add(codec)
        REPORTS[codec.report.__name__] = codec.report
    ENCODERS[encoder.kind] = encoder


def from_json(
    text: str,
    kinds: Sequence[str] | None = None,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    users: int | None = None,
) -> AnyEncoder:
    """Returns the encoder that ``to_json`` wrote.

    Args:
        text: The JSON.
        kinds: Which kinds are accepted; all by default. A user who trusts nobody takes
            ``("noisy", "sampled", "questions", "noisy-features")`` and nothing raw.
        epsilon: The largest ε that the device's owner accepts, with ``delta``: a weaker encoder is refused. An encoder
            that hides nothing by itself, because a server or a shuffler is trusted, is refused too, unless ``users``
            is given; so is one whose reports are too large for a device.
        delta: The largest δ.
        users: For one-bit messages: how many users of a batch add their noise, as the owner trusts the shuffler to see
            to. What a batch of so many then gives is held against ε and δ.

    Raises:
        ValueError: If the text is no encoder, is none of these kinds, or hides less than is asked for.
    """
    known = tuple(ENCODERS) if kinds is None else tuple(kinds)
    try:
        document = json.loads(text)
        kind = document["kind"]
        if kind not in known or kind not in ENCODERS:
            raise InvalidInput(f"this encoder is of the kind {kind!r}, not {', '.join(known)}")
        found: AnyEncoder = ENCODERS[kind].from_document(document)
    except InvalidInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"this is not an encoder: {type(error).__name__}") from None
    if epsilon is not None:
        try:
            _check_size(found)
            _check_pin(found, epsilon, delta, users)
        except (ArithmeticError, MemoryError):
            raise InvalidInput("this encoder is too large for a device") from None
    return found


def _check_size(encoder: Any) -> None:
    """Raises if a report would take more memory than a device has: who sent the encoder may wish it harm."""
    layout = getattr(encoder, "layout", encoder)
    spec = getattr(layout, "spec", None)
    if spec is None:  # of another package, which knows its own sizes
        return
    cells = spec.states * spec.actions * spec.horizon
    counters = getattr(layout, "size", 0) if cells <= LARGEST else 0
    if max(cells, counters * getattr(encoder, "messages", 1)) > LARGEST:
        raise InvalidInput(f"this encoder is too large for a device: more than {LARGEST} numbers a report")


def _check_pin(encoder: AnyEncoder, epsilon: float, delta: float, users: int | None) -> None:
    """Raises unless an encoder hides as much as its owner asks for."""
    asked = f"epsilon={epsilon!r}, delta={delta!r}"
    shuffled = getattr(encoder, "shuffled_epsilon", None)
    if shuffled is None:
        if not encoder.hides(epsilon, delta):
            raise InvalidInput(f"this encoder hides less than its owner asks for: {encoder.kind!r}, not {asked}")
    elif users is None:
        raise InvalidInput(
            f"messages of the kind {encoder.kind!r} hide nothing by themselves: say with users= how many users of a "
            "batch are trusted to add their noise"
        )
    elif not shuffled(check_integer("users", users), delta) <= epsilon:
        raise InvalidInput(f"a batch of {users} users hides less than its owner asks for: not {asked}")

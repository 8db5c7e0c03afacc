"""The party between devices and server under `Shuffle`, with a database of its own.

It adds the bits of a report to its batch's counters and notes that the slot is used, in one transaction, and keeps no
report. A multiset of bits is its number of ones and its size, so counters are all that mixing leaves. It knows from the
plan how many slots there are and how many messages each sends, takes nothing else, and fills the slots of people who
stayed away with reports of noise alone: the noise of a batch is what was calibrated, whoever came.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import Closed, InvalidInput, InvalidPersonalData, InvalidToken, check_fraction
from discreet.live import points
from discreet.live.keys import read_token
from discreet.live.stores import connect, sql
from discreet.noise import as_source
from discreet.privacy import ShuffledBatch
from discreet.privacy.messages import BitsReport
from discreet.privatizers.codec import from_json, from_wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.live.stores.base import Connection, Store
    from discreet.noise import Source

__all__ = ["Shuffler", "Terms"]


class Terms(NamedTuple):
    """What a shuffler must know of a batch: public, but for the key.

    Attributes:
        deployment: Its name.
        version: Number of the batch.
        size: Slots.
        encoder: What people run, as JSON.
        key: What tokens are checked with.
    """

    deployment: str
    version: int
    size: int
    encoder: str
    key: bytes

    def __repr__(self) -> str:
        return f"<Terms of batch {self.version} of {self.deployment!r}: {self.size} slots>"


class Shuffler:
    """Mixes the reports of one deployment.

    Args:
        url: Of its own database: never the server's, and never restored from a backup, because a batch that is closed
            twice would be hidden by two draws of noise.
        terms: Returns the terms of a batch by its version: asks the server.
        source: Of the noise for slots of absent people; the operating system by default.
        epsilon: The largest ε that it mixes for, with ``delta``: terms whose batch hides less, because it has too few
            slots or too little noise, are refused. Devices hold the noise against the number of people that the
            shuffler sees to, and cannot see that number: without this it is what the server says.
        delta: The largest δ.
        honest_fraction: The share of a batch that is taken to add its noise, for ``epsilon``.

    Guarantee:
        What it hands on of a batch is the sum of exactly ``size`` reports, each with its noise bits.
    """

    def __init__(
        self,
        url: str | Store,
        terms: Callable[[int], Terms],
        source: Source | None = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        honest_fraction: float = 1.0,
    ) -> None:
        self._epsilon, self._delta, self._honest = (
            epsilon,
            delta,
            check_fraction("honest_fraction", honest_fraction, closed=True),
        )
        self.store = connect(url) if isinstance(url, str) else url
        self._ask, self._source = terms, as_source(source)
        self._known: dict[int, tuple[Terms, Any]] = {}

    def _terms(self, version: int) -> tuple[Terms, Any]:
        """Returns terms and encoder of a batch, and remembers the newest."""
        if version not in self._known:
            terms = self._ask(version)
            honest = None if self._epsilon is None else math.floor(self._honest * terms.size + 1e-9)
            kinds = ("binomial", "first-visits")
            encoder: Any = from_json(terms.encoder, kinds, epsilon=self._epsilon, delta=self._delta, users=honest)
            zeros = np.zeros(encoder.size, dtype=np.int64).tobytes()
            agreed = f"{hashlib.sha256(terms.key).hexdigest()} {terms.encoder}"  # another key is another deployment
            given = {"name": terms.deployment, "version": version, "size": terms.size, "encoder": agreed}
            self.store.do(lambda db: db.run(sql.NEW_MIXED, **given, ones=zeros))
            row = self.store.do(lambda db: db.row(sql.MIXED, name=terms.deployment, version=version))
            if row is None or row[:2] != (terms.size, agreed):
                raise InvalidInput(
                    f"the terms of batch {version} have changed since its first report, or they are those of another "
                    "deployment of the same name, which needs a shuffler with a database of its own"
                )
            newer = {number: found for number, found in self._known.items() if number >= version - 1}
            self._known = {**newer, version: (terms, encoder)}
        return self._known[version]

    def newest(self, deployment: str) -> int:
        """Returns the number of the last batch of a deployment that has begun here; -1 if none has."""
        found = self.store.do(lambda db: db.row(sql.NEWEST_MIXED, name=deployment))
        return -1 if found is None or found[0] is None else int(found[0])

    def knows(self, version: int) -> bool:
        """Whether the terms of a batch are known, so that nobody is asked."""
        return version in self._known

    def report(self, token: str, report: BitsReport | str | bytes, *, version: int | None = None) -> str:
        """Adds a report's bits to the counters of its batch; it is durable when this returns, and again is fine.

        Args:
            token: The ticket's.
            report: What the encoder made, or its text.
            version: Of the ticket; by default what the token says.

        Raises:
            InvalidToken: If the token is none of the deployment's.
            InvalidPersonalData: If the report is not what the encoder makes.
            Closed: If the batch has been handed on.
        """
        self.store.do(self.adding(token, report, version))
        points.reached("shuffler: committed, not answered")
        return "recorded"

    def adding(
        self, token: str, report: BitsReport | str | bytes, version: int | None = None
    ) -> Callable[[Connection], bool]:
        """Checks a report, and returns what `report` does in its transaction, for whoever has it done elsewhere."""
        terms, encoder, slot = self._place(token, version)
        parsed = report if isinstance(report, BitsReport) else from_wire(report, encoder)
        shape = (encoder.size, encoder.messages)
        if not isinstance(parsed, BitsReport) or parsed.bits.shape != shape or parsed.bits.dtype != np.bool_:
            raise InvalidPersonalData(f"a report must have {shape[1]} bits for each of {shape[0]} counters")
        ones = parsed.bits.sum(axis=1, dtype=np.int64)
        return lambda db: _add(db, terms, slot, ones)

    def _place(self, token: str, version: int | None = None) -> tuple[Terms, Any, int]:
        """Returns terms, encoder and slot of a token; raises `InvalidToken` if it is none of the deployment's."""
        terms, encoder = self._terms(version if version is not None else _claimed(token))
        own, slot = read_token(terms.key, terms.deployment, token)
        if own != terms.version or slot >= terms.size:
            raise InvalidToken("this token is none of this batch's")
        return terms, encoder, slot

    def erase(self, token: str) -> str:
        """Fills a slot with noise alone, as that of somebody absent, if no report is in it yet.

        Returns:
            ``"erased"``, ``"mixed"`` if the slot was filled before (nobody can take it out of the sum) or ``"closed"``.
        """
        terms, encoder, slot = self._place(token)
        ones = encoder.absent(self._source).bits.sum(axis=1, dtype=np.int64)
        try:
            return "erased" if self.store.do(lambda db: _add(db, terms, slot, ones)) else "mixed"
        except Closed:
            return "closed"

    def close(self, version: int) -> ShuffledBatch:
        """Fills the slots of absent people, closes the batch and returns its counters; the same ones however often."""
        terms, encoder = self._terms(version)
        ones = self.store.do(lambda db: self._closed(db, terms, encoder), alone=True)
        points.reached("shuffler: batch closed")
        self.store.tidy()
        return ShuffledBatch(ones, terms.size * encoder.messages, terms.size, version)

    def _closed(self, db: Connection, terms: Terms, encoder: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        given = {"name": terms.deployment, "version": terms.version}
        row = db.row(sql.MIXED_HELD, **given)
        assert row is not None
        ones = np.frombuffer(bytes(row[2]), dtype=np.int64).copy()
        if row[3]:
            return ones
        (used,) = db.rows(sql.USED, **given)[0]
        for _ in range(terms.size - used):
            ones += encoder.absent(self._source).bits.sum(axis=1, dtype=np.int64)
        points.reached("shuffler: absent slots filled")
        db.run(sql.CLOSE_MIXED, **given, ones=ones.tobytes())
        db.run(sql.FORGET_USED, **given)
        return ones

    def shut(self) -> None:
        """Leaves the database."""
        self.store.close()


def _claimed(token: str) -> int:
    """Returns the version that a token says it is of; whether that is true is checked later."""
    first = token.split(".", 1)[0] if isinstance(token, str) else ""
    if not (first.isascii() and first.isdigit() and len(first) < 16):
        raise InvalidToken("this token is none of this deployment's")
    return int(first)


def _add(db: Connection, terms: Terms, slot: int, ones: np.ndarray[Any, np.dtype[np.int64]]) -> bool:
    """Adds to the counters what fills a slot, and returns whether it was empty."""
    given = {"name": terms.deployment, "version": terms.version}
    row = db.row(sql.MIXED_HELD, **given)
    assert row is not None
    if row[3]:
        raise Closed("the batch of this report is closed: it is not moved to a later one")
    if db.run(sql.USE, **given, slot=slot) == 0:
        return False
    total = np.frombuffer(bytes(row[2]), dtype=np.int64) + ones
    db.run(sql.SET_MIXED, **given, ones=total.tobytes())
    points.reached("shuffler: before the commit")
    return True

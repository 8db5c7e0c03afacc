"""The ten invariants of a deployment, each a function of what people remember and what the databases hold."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from discreet.live.public import chained
from discreet.runtime import records
from tests.live.faults.worlds import SLOTS, WITHIN, noise_of, total_of, units

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live.faults.book import Book, Snapshot

__all__ = ["INVARIANTS", "Broken", "charged_before_released", "check"]

_MOST = 1 << 16  # ways in which reports that nobody was answered for may have arrived


class Broken(AssertionError):
    """Invariants do not hold; their names say which."""

    def __init__(self, *found: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{invariant}: {what}" for invariant, what in found))
        self.found = found
        self.invariants = {invariant for invariant, _ in found}


def _broken(what: str, invariant: str) -> NoReturn:
    raise Broken((invariant, what))


def acknowledged_are_counted_once(book: Book, now: Snapshot) -> None:
    """1. Whoever was answered is counted, once, with what they sent first: raw totals equal the sum."""
    me = "acknowledged_are_counted_once"
    version = now.row.version
    if book.trust == "shuffle":
        _shuffled(book, now)
        return
    for place, text in now.reports.items():
        known = book.acknowledged.get(place) or book.sent.get(place, set()) | {book.held.get(place, text)}
        if text not in known:
            _broken("a report is not what was acknowledged, or nobody sent it", me)
        if book.held.setdefault(place, text) != text:
            _broken("a report changed", me)
    lost = [place for place in book.acknowledged if place[0] == version and place not in now.reports]
    if lost:
        _broken(f"{len(lost)} acknowledged reports are lost", me)
    _settle(book, now, me)
    book.sent = {place: set() for place in book.sent}  # nothing is on its way: what has not arrived never will


def _settle(book: Book, now: Snapshot, me: str) -> None:
    """Compares the totals of all released versions."""
    version = now.row.version
    if now.secret[0] != version:
        _broken("the state is not that of the version", me)
    kept = total_of(book.trust, book.mechanism, records.unpack(now.secret[1])["kept"])
    before = np.zeros_like(kept) if book.total is None else book.total
    certain, open_ = before.copy(), []
    for place in sorted({place for place in (*book.sent, *book.acknowledged) if book.settled <= place[0] < version}):
        known = [book.held[place]] if place in book.held else book.acknowledged.get(place, book.sent.get(place, set()))
        vectors = [(text, units(book.trust, book.mechanism, book.encoders[place[0]], text)) for text in sorted(known)]
        if place not in book.acknowledged and place not in book.held:
            vectors.append(("", np.zeros_like(kept)))
        open_.append((place, vectors))
    ways = int(np.prod([len(vectors) for _, vectors in open_])) if open_ else 1
    assert ways <= _MOST, f"too many open reports: {ways} ways"
    for choice in itertools.product(*(vectors for _, vectors in open_)):
        if (certain + sum(vector for _, vector in choice) == kept).all():
            for (place, _), (text, _) in zip(open_, choice, strict=True):
                if text:
                    book.counted[place] = text
            break
    else:
        _broken("the raw totals are not the sum of what was acknowledged", me)
    book.total, book.settled = kept, version


def _shuffled(book: Book, now: Snapshot) -> None:
    """Under Shuffle: counters hold the bits of acknowledged reports, and totals are the sum of the counters."""
    me = "acknowledged_are_counted_once"
    whole = np.zeros_like(total_of("shuffle", book.mechanism, records.unpack(now.secret[1])["kept"]))
    for version, (size, body, closed) in now.mixed.items():
        ones = np.frombuffer(body, dtype=np.int64)
        if version < now.row.version:
            whole = whole + ones
        encoder = book.encoders.get(version)
        if encoder is None:
            continue
        places = {place for place in (*book.sent, *book.acknowledged, *now.used) if place[0] == version}
        certain = {place for place in places if place in book.acknowledged or place in now.used}
        if not closed and {place for place in certain if place not in now.used}:
            _broken("acknowledged reports are not in the counters", me)
        if version in book.matched:
            continue
        open_ = sorted(places - certain) if closed else []
        _match(book, encoder, ones, sorted(certain), open_, size if closed else None)
        if closed:
            book.matched.add(version)
            book.counted |= dict.fromkeys(certain, "in the counters")
    kept = total_of("shuffle", book.mechanism, records.unpack(now.secret[1])["kept"])
    if (kept != whole).any():
        _broken("the server's totals are not the sum of the shuffler's counters", me)


def _match(book: Book, encoder: str, ones: Any, certain: list[Any], open_: list[Any], size: int | None) -> None:
    """Finds who is in the counters: all that are certain, some of the others, and in closed batches noise alone."""
    me = "acknowledged_are_counted_once"
    options = []
    for place in (*certain, *open_):
        texts = sorted(book.acknowledged.get(place) or book.sent.get(place, set()))
        vectors = [(1, units("shuffle", book.mechanism, encoder, text)) for text in texts]
        options.append(vectors if place in certain else [*vectors, (0, np.zeros_like(ones))])
    from discreet.privatizers.codec import from_json

    known: Any = from_json(encoder)
    for choice in itertools.product(*options):
        rest = ones - sum((vector for _, vector in choice), np.zeros_like(ones))
        absent = 0 if size is None else size - sum(number for number, _ in choice)
        # a report of noise alone has at most all its noise bits in each counter
        if (rest >= 0).all() and (rest <= absent * known.messages).all():
            return
    _broken("the counters are not the sum of what was acknowledged", me)


def slots_per_person(book: Book, now: Snapshot) -> None:
    """2. A person has at most k slots, and a slot one person."""
    me = "slots_per_person"
    most = max(Counter(person for _, _, person, _ in now.slots if person is not None).values(), default=0)
    if most > book.per_person:
        _broken(f"a person has {most} slots", me)
    if any(len(person.tickets) > book.per_person for person in book.people.values()):
        _broken("a person was given more slots than they may have", me)
    current = [slot for version, slot, _, _ in now.slots if version == now.row.version]
    if now.row.planned and sorted(current) != list(range(now.row.issued)):
        _broken("slots are not given out one after the other", me)
    there = {(version, slot) for version, slot, _, _ in now.slots}
    if not all(place in there for person in book.people.values() for place in person.tickets):
        _broken("a slot that was given out is lost", me)


def _ones(body: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(body, dtype=np.int64).tolist())


def one_value_a_version(book: Book, now: Snapshot) -> None:
    """3. Whoever saw a release or a plan of a version saw the one that is there now, and always will be."""
    me = "one_value_a_version"
    chain = json.loads(now.document)["chain"]
    for expected, (version, _, body, digest, link) in enumerate(now.releases, 1):
        chain = chained(chain, digest)
        if (version, hashlib.sha256(body).hexdigest(), chain) != (expected, digest, link):
            _broken(f"the release of version {version} is not in the chain", me)
        book.sees("the release", book.releases, version, digest)
    for version, text, digest in now.plans:
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            _broken(f"the plan of version {version} is not its hash", me)
        book.sees("the plan", book.plans, version, digest)
    for version, (_, body, closed) in now.mixed.items():
        if (closed or version in book.mixed) and book.mixed.setdefault(version, _ones(body)) != _ones(body):
            _broken(f"the shuffler's batch of version {version} was handed out and changed", me)
    if len(now.releases) != now.row.version or max(book.releases, default=0) > now.row.version:
        _broken("somebody saw a release that is not there", me)
    if not {version for version, *_ in now.plans} >= set(book.plans):
        _broken("somebody saw a plan that is not there", me)


def noise_is_kept(book: Book, now: Snapshot) -> None:
    """4. The noise in the newest release, recovered from the totals, is the noise that the server keeps."""
    if now.releases:
        kept = records.unpack(now.secret[1])["kept"]
        recovered, stored = noise_of(book.trust, book.mechanism, kept, records.unpack(now.releases[-1][2]))
        if (np.asarray(recovered) != np.asarray(stored)).any():
            _broken("the noise of the newest release is not what is stored", "noise_is_kept")


def plans_replay(book: Book, now: Snapshot) -> None:
    """5. From the first state and the releases alone, the same plans and the same learner come out."""
    me = "plans_replay"
    plans = {version: (text, digest) for version, text, digest in now.plans}
    learner = book.replayed[-1][2] if book.replayed else book.first
    for version, users, body, digest, _ in now.releases[len(book.replayed) : now.learner[0]]:
        learner, plan = book.planned(learner, version, users, records.unpack(body))
        if version not in plans or plan.to_json() != plans[version][0]:
            _broken(f"the plan of version {version} does not follow from the releases", me)
        book.replayed.append((digest, plans[version][1], learner))
    if learner != now.learner[1]:
        _broken("what is learned does not follow from the releases", me)


def closing_by_starts_and_clock(book: Book, now: Snapshot) -> None:
    """6. Batches have the size of the schedule, and none closes before its last start's time is over."""
    me = "closing_by_starts_and_clock"
    if any(users != version * SLOTS for version, users, *_ in now.releases):
        _broken("a batch has not the size of the schedule", me)
    if now.row.issued > SLOTS or (now.row.planned and now.row.size not in (SLOTS, 0)):
        _broken("a batch has not the size of the schedule", me)
    for version in range(now.row.version + bool(now.row.closing)):
        if book.asked <= book.starts.get(version, 0.0):
            _broken(f"batch {version} closed before the time of its last slot was over ({WITHIN:g} s)", me)


def no_raw_rows(book: Book, now: Snapshot) -> None:
    """7. What was released leaves no raw row, and in SQLite no trace in the file once it was opened again."""
    me = "no_raw_rows"
    if any(version < now.row.version for version, _ in now.reports):
        _broken("raw reports outlive their release", me)
    if any(version < now.row.version for version in now.batches):
        _broken("a shuffled batch outlives its release", me)
    if any(now.mixed[version][2] for version, _ in now.used):
        _broken("the shuffler remembers who reported in a closed batch", me)
    if book.clean and book.trust != "shuffle":
        recent = (
            text for (version, _), text in book.counted.items() if now.row.version - 3 < version < now.row.version
        )
        if any(text.encode() in now.bytes_ for text in recent):
            _broken("a deleted report is still in a page of the file", me)


def charged_before_released(book: Book, now: Snapshot) -> None:
    """8. A deployment that released anything has a charge in its population's ledger."""
    if now.releases:
        config = json.loads(now.document)["config"]
        ledger = json.loads(now.ledgers.get(config["population"]["name"], "{}"))
        if config["name"] not in [charge["deployment"] for charge in ledger.get("charges", [])]:
            _broken("there are releases, and the ledger has no charge for them", "charged_before_released")


def canaries_nowhere(book: Book, now: Snapshot) -> None:
    """9. Pseudonyms, rewards and reports are in no message, no log, no release, no plan, no document."""
    me = "canaries_nowhere"
    public = [*book.messages, now.document, *now.ledgers.values(), *(text for _, text, _ in now.plans[-2:])]
    said = "\n".join(public)
    if any(canary in said for canary in book.canaries):
        _broken("a message, a plan or a document shows a person's data", me)
    book.messages.clear()
    if b"canary-" in now.bytes_:
        _broken("a pseudonym is in the database", me)
    shown = b"".join(body for _, _, body, *_ in now.releases[-2:])
    if any(canary.encode() in shown for canary in book.canaries):
        _broken("a release shows a person's data", me)
    del book.canaries[: -40 * SLOTS]


def safe_to_repeat(book: Book, now: Snapshot) -> None:
    """10. Whoever repeats what failed gets the answer that was lost: see `Book.given`, and the sums above."""
    for invariant, what in book.contradictions:
        _broken(what, invariant)


INVARIANTS: tuple[Callable[[Book, Snapshot], None], ...] = (
    acknowledged_are_counted_once,
    slots_per_person,
    one_value_a_version,
    noise_is_kept,
    plans_replay,
    closing_by_starts_and_clock,
    no_raw_rows,
    charged_before_released,
    canaries_nowhere,
    safe_to_repeat,
)


def check(book: Book, now: Snapshot) -> None:
    """Checks all ten; raises `Broken` with the names of those that do not hold."""
    found: list[tuple[str, str]] = []
    for invariant in INVARIANTS:
        try:
            invariant(book, now)
        except Broken as error:
            found.extend(error.found)
    if found:
        raise Broken(*found)

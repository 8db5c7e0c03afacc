"""A crowd of simulated people: a queue of what happens when, on a clock that is a number."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet.errors import (
    Closed,
    InvalidInput,
    InvalidToken,
    LiveError,
    check_flag,
    check_fraction,
    check_integer,
    check_number,
)
from discreet.live import rows
from discreet.live.shuffler import Shuffler
from discreet.live.stores import sql
from discreet.mdp import Trajectory
from discreet.noise import Role, SecureSource, seed_sequence, stream
from discreet.noise.fast import FastSource
from discreet.privacy import Shuffle
from discreet.privatizers.codec import to_wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.agents.rounds import Policy
    from discreet.live.deployment import Deployment
    from discreet.live.public import Ticket
    from discreet.live.stores.base import Connection
    from discreet.mdp import FiniteMDP
    from discreet.noise import Seed, Source

__all__ = ["Crowd", "Habits", "Score"]


@dataclass(frozen=True)
class Habits:
    """How simulated people behave.

    Attributes:
        every: Mean number of seconds between two starts.
        steady: Whether that is the time between any two starts; else it is random (exponential).
        wait: Whether somebody who finds no free slot waits for the next batch. Else they play the best policy so far,
            and are not collected.
        delay: Mean number of seconds between a start and its report (exponential). Reports then come in another order
            than starts, and some come too late.
        drop_outs: The share of people who start and never report.
        duplicates: The share of people whose app asks for its slot twice and sends its report twice.
        malformed: The share of people whose app sends a damaged report, or a forged token, before the right one.
        returning: The share of starts by somebody who has been here before.
        leave: With which chance somebody leaves after each step; needs the state ``gone`` of the configuration.
    """

    every: float = 60.0
    steady: bool = False
    wait: bool = True
    delay: float = 0.0
    drop_outs: float = 0.0
    duplicates: float = 0.0
    malformed: float = 0.0
    returning: float = 0.0
    leave: float = 0.0

    def __post_init__(self) -> None:
        check_number("every", self.every, above=True)
        check_number("delay", self.delay)
        for name in ("steady", "wait"):
            check_flag(name, getattr(self, name))
        for name in ("drop_outs", "duplicates", "malformed", "returning", "leave"):
            check_fraction(name, getattr(self, name), closed=True)
        if self.returning == 1:
            raise InvalidInput("somebody must come for the first time: returning must be less than 1")


class Score:
    """The exact gaps of policies; the last ones are remembered."""

    _MOST = 256

    def __init__(self, mdp: FiniteMDP) -> None:
        self._mdp = mdp
        self._optimum = float(mdp.evaluate_many(mdp.optimal_policy[None].copy())[0])
        self._known: dict[bytes, float] = {}

    def __call__(self, policy: Policy) -> float:
        """Returns by how much a policy falls short of the optimum."""
        key = policy.tobytes()
        if key not in self._known:
            if len(self._known) >= self._MOST:
                self._known.clear()
            value = float(self._mdp.evaluate_many(np.array(policy)[None])[0])
            self._known[key] = max(self._optimum - value, 0.0)  # but for rounding
        return self._known[key]


class _Life(NamedTuple):
    """What somebody will do after they have started."""

    drops: bool
    twice: bool
    damaged: bool
    delay: float
    later: float
    rng: np.random.Generator


@dataclass(order=True)
class _Event:
    """Something that happens; of two at one time, what was planned first."""

    when: float
    place: int
    what: Callable[[], None] = field(compare=False)


class Crowd:
    """People who meet a deployment.

    Attributes:
        first: How many slots were given out before them.
        now: What time it is.
        gaps: Of all that were played, in the order of starts.
        releases: Versions that were released.
        counts: What happened, by name.
    """

    def __init__(
        self, deployment: Deployment, mdp: FiniteMDP, seed: Seed, habits: Habits, shuffler: Shuffler | str
    ) -> None:
        self.deployment, self.mdp, self.habits = deployment, mdp, habits
        self.seed = seed_sequence(seed)
        self._exact = deployment.agent.mechanism.exact
        self._shuffled = isinstance(deployment.agent.privacy, Shuffle)
        self._own: Shuffler | None = None
        if self._shuffled and isinstance(shuffler, str):  # later noise is not the earlier noise again
            generator = stream(self.seed, Role.SHUFFLER, f"batch {deployment.version}")
            source = None if self._exact else FastSource(generator)
            shuffler = self._own = Shuffler(shuffler, deployment.terms, source)
        if self._shuffled:
            deployment.shuffler = shuffler  # type: ignore[assignment]
        self._people, self._place = stream(self.seed, Role.PEOPLE), 0  # the stream of people, and who is next in it
        self._score = Score(mdp)
        self.events: list[_Event] = []
        self._planned = 0
        self.gaps: list[float] = []
        self.releases: list[int] = []
        self.counts = dict.fromkeys(("collected", "reported", "late", "dropped", "refused", "repeated"), 0)

    def play(self, people: int | None, progress: Callable[[int], None] | None) -> None:
        """Lets everybody start, and then the clock run until the last batch is closed, if it is full."""
        deployment = self.deployment
        self.now = deployment._row().latest
        self.releases += deployment.close_due(self.now)  # whatever an earlier process left half done
        row, plan = deployment._row(), deployment.plan()
        self.first = self._next = plan.start + row.issued
        room = max(deployment.config.episodes - self.first, 0)
        self.wanted = room if people is None else check_integer("people", people, least=0)
        self._told = progress
        self.now = max(self.now, row.latest)
        self._on_their_way(row)
        if self.wanted:
            self._soon(self.now + self._gap(0), lambda: self._arrive(0))
        while self.events:
            self._step(heapq.heappop(self.events))
        row = deployment._row()
        if row.size and row.issued >= row.size:
            self.now = max(self.now, self._due(row))
            self.releases += deployment.close_due(self.now)

    def leave(self) -> None:
        """Ends the shuffler, if nobody else did bring one."""
        if self._own is not None:
            self.deployment.shuffler = None
            self._own.shut()

    def _soon(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, _Event(when, self._planned, what))
        self._planned += 1

    def _step(self, event: _Event) -> None:
        self.now = event.when
        self.releases += self.deployment.close_due(self.now)  # as a server does now and then
        event.what()

    def _rng(self, *key: int) -> np.random.Generator:
        """Returns the randomness of a person, or of one of their starts: a function of the seed and the key."""
        place = (*self.seed.spawn_key, int(Role.PEOPLE), *key)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed.entropy, spawn_key=place)))

    def _gap(self, attempt: int) -> float:
        """Returns after how many seconds the next one starts."""
        habits = self.habits
        return habits.every if habits.steady else float(self._rng(self._next, attempt).exponential(habits.every))

    def _life(self, g: int) -> _Life:
        habits, rng = self.habits, self._rng(g)
        drops, twice, damaged = (rng.random(3) < (habits.drop_outs, habits.duplicates, habits.malformed)).tolist()
        delay, later = rng.exponential(size=2).tolist()
        return _Life(drops, twice, damaged, delay * habits.delay, later * max(habits.delay, 1.0), rng)

    def _due(self, row: rows.Deployed) -> float:
        """Returns the first moment at which the batch is closed by the clock."""
        config = self.deployment.config
        over = row.opened + config.window if config.window is not None and row.issued < row.size else row.latest
        return math.nextafter(max(row.latest, over) + config.report_within, math.inf)

    def _arrive(self, attempt: int) -> None:
        """Somebody starts: the next one, or somebody who has been here before."""
        deployment, name, back = self.deployment, f"person-{self._next}", False
        if self.habits.returning:
            chance, who = self._rng(self._next, attempt, 1).random(2)
            back = bool(chance < self.habits.returning and self._next > 0)
            name = f"person-{int(who * self._next)}" if back else name
        ticket = deployment.start(name, self.now)
        if not ticket.collected and self.habits.wait and not back and deployment.state == "open":
            self._wait(attempt)
            return
        g = None if ticket.slot is None else deployment.plan(ticket.version).start + ticket.slot
        if g is not None and g < self._next:  # the same slot again, which they play once
            self.counts["repeated"] += 1
            attempt += 1
        else:
            self.gaps.append(self._score(ticket.policy))
            attempt += 1
            if g is not None:
                self.counts["collected"] += 1
                self._next, attempt = g + 1, 0
                self._play(ticket, g, name, self.now)
            if self._told is not None:
                self._told(len(self.gaps))
        if len(self.gaps) < self.wanted:
            self._soon(self.now + self._gap(attempt), lambda: self._arrive(attempt))

    def _wait(self, attempt: int) -> None:
        """Somebody comes again when something has happened, at the latest when the batch is closed by the clock."""
        due = self._due(self.deployment._row())
        if self.events:
            due = min(due, self.events[0].when)
        elif due <= self.now:
            raise LiveError("the batch is due and does not close: is its shuffler elsewhere?")
        self._soon(max(due, self.now), lambda: self._arrive(attempt))

    def _play(self, ticket: Ticket, g: int, name: str | None, started: float) -> None:
        """Somebody with a slot plays, and will report."""
        life = self._life(g)
        if life.twice and name is not None:  # the first answer got lost
            ticket = self.deployment.start(name, started)
            self.counts["repeated"] += 1
        step = self.mdp.draws_per_person
        self._people.bit_generator.advance((g - self._place) * step)  # type: ignore[attr-defined]
        self._place = g + 1
        trajectory = self.mdp.sample(ticket.policy, self._people)
        if self.deployment.config.gone is not None:
            trajectory = _seen(trajectory, self.deployment.config.gone)
        if life.drops:
            self.counts["dropped"] += name is not None  # else they were counted before
            return
        source: Source = SecureSource() if self._exact else FastSource(life.rng)
        assert ticket.encoder is not None
        text = to_wire(ticket.encoder.encode(trajectory, source))  # on the person's device
        self._soon(started + life.delay, lambda: self._report(ticket, text, life))

    def _report(self, ticket: Ticket, text: str, life: _Life) -> None:
        assert ticket.token is not None
        if life.damaged:
            self._damaged(ticket.token, text, life.rng)
        try:
            self._send(ticket, ticket.token, text)
        except Closed:
            self.counts["late"] += 1
            return
        self.counts["reported"] += 1
        if life.twice:
            self._soon(self.now + life.later, lambda: self._again(ticket, text))

    def _again(self, ticket: Ticket, text: str) -> None:
        """An app that did not get its answer sends its report once more."""
        assert ticket.token is not None
        self.counts["repeated"] += 1
        try:
            self._send(ticket, ticket.token, text)
        except Closed:
            return  # it was counted the first time

    def _send(self, ticket: Ticket, token: str, text: str | bytes) -> None:
        if self._shuffled:
            assert self.deployment.shuffler is not None
            if ticket.report_by is not None and self.now > ticket.report_by:
                raise Closed("a device sends nothing after its time")
            self.deployment.shuffler.report(token, text)
        else:
            self.deployment.report(token, text, self.now)

    def _damaged(self, token: str, text: str, rng: np.random.Generator) -> None:
        """An app with a fault, or somebody who tries: all of it is refused, and changes nothing."""
        forged = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
        tried: list[tuple[str, str | bytes]] = [
            (token, text[:-1]),
            (token, text + "AAAA"),
            (token, ""),
            (token, b"\xff" * len(text)),
            (token, "9" + text[1:]),
            (forged, text),
        ]
        sent = tried[int(rng.integers(len(tried)))]
        try:
            if self._shuffled:
                assert self.deployment.shuffler is not None
                self.deployment.shuffler.report(*sent)
            else:
                self.deployment.report(*sent, self.now)
        except (InvalidInput, InvalidToken):
            self.counts["refused"] += 1
        except Closed:
            return

    def _on_their_way(self, row: rows.Deployed) -> None:
        """People of the open batch who have not reported: their apps kept their tickets, and go on."""
        deployment = self.deployment
        if row.state != "open" or not row.planned or row.closing:
            return
        start = deployment.plan(row.version).start
        given = {"name": deployment.name, "version": row.version}
        for slot in range(row.issued):
            place = {**given, "slot": slot}
            started = deployment.store.do(partial(_unreported, place=place))
            if started is not None:
                ticket = deployment._ticket(rows.Place(row.version, slot, started))
                self._play(ticket, start + slot, None, started)


def _unreported(db: Connection, place: dict[str, Any]) -> float | None:
    """Returns when a slot was given out; None if its report is there, or was erased."""
    slot, report = db.row(sql.SLOT, **place), db.row(sql.REPORTED, **place)
    return None if slot is None or slot[1] or report is not None else float(slot[0])


def _seen(trajectory: Trajectory, gone: int) -> Trajectory:
    """Returns what the device of somebody who may have left knows, completed."""
    left = np.flatnonzero(trajectory.states == gone)
    n = min(int(left[0]), len(trajectory.actions)) if len(left) else len(trajectory.actions)
    if n == len(trajectory.actions) and not len(left):
        return trajectory
    seen = Trajectory(trajectory.states[:n], trajectory.actions[:n], trajectory.rewards[:n])
    return seen.completed(len(trajectory.actions), gone)

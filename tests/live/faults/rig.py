"""A deployment under fire: processes are killed, messages get lost, and the books are compared."""

from __future__ import annotations

import select
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import live
from discreet.live.stores import sql
from discreet.runtime import records
from tests.live.faults import invariants
from tests.live.faults.book import Book, Person, read
from tests.live.faults.messages import EXPECTED, Request, Tally
from tests.live.faults.worlds import SLOTS, WITHIN, config, people_in, report_of

if TYPE_CHECKING:
    from tests.live.faults.forks import Forks, Process
    from tests.live.faults.messages import Heard

__all__ = ["ALL", "RANDOM", "Rig"]

RANDOM = "at random"
ALL = "all at once, at random"
_DAY = 86_400.0
_WAVES = 60  # after which a process that should have died has not come by


class Rig:
    """One deployment.

    Args:
        forks: Where processes come from.
        url: Of the server's database.
        trust: Trust model.
        servers: How many processes serve it.
        shuffler: URL of the shuffler's database, under Shuffle.
        bug: Planted in every process.
        jumps: Whether clocks jump, a day forward or back.
        seed: Of the people, and of what happens to them.
    """

    def __init__(
        self,
        forks: Forks,
        url: str,
        trust: str,
        *,
        servers: int = 1,
        shuffler: str | None = None,
        bug: str | None = None,
        jumps: bool = False,
        seed: int = 0,
    ) -> None:
        self.forks, self.url, self.trust, self.bug = forks, url, trust, bug
        self.shuffler_url, self.jumps = shuffler, jumps
        self.rng = np.random.default_rng([seed, *trust.encode()])
        self.clock = 1_000_000.0
        self.tally = Tally()
        made = config(trust)
        with live.create(url, made, now=self.clock) as deployment:
            (_, first) = deployment.store.do(lambda db: db.row(sql.LEARNER, name="steps"))  # type: ignore[misc]
            agent = deployment.agent
        self.book = Book(trust, agent.mechanism, bytes(first), deployment.planned, made["episodes_per_person"])
        self.processes: dict[str, Process | None] = {f"server {i}": None for i in range(servers)}
        if trust == "shuffle":
            self.processes["shuffler"] = None
        self.terms: dict[int, dict[str, Any]] = {}
        self.handed: dict[int, tuple[int, int]] = {}
        self.version, self.closing, self.planned, self.waves = 0, False, True, 0
        self._people = 0
        self._late: list[Person] = []
        self._whole = False
        self.revive()

    # Processes

    def revive(self) -> None:
        """Starts every process that is dead."""
        for role, process in self.processes.items():
            if process is None or process.dead:
                kind = "shuffler" if role == "shuffler" else "server"
                url = self.shuffler_url if kind == "shuffler" else self.url
                self.processes[role] = self.forks.fork(role=kind, url=url, name="steps", bug=self.bug)
                assert self.processes[role] is not None, f"a {kind} did not start: see {self.forks.log}"

    def servers(self) -> list[Process]:
        """Returns the servers that live."""
        return [p for role, p in self.processes.items() if role != "shuffler" and p is not None and not p.dead]

    def server(self) -> Process | None:
        """Returns one of them."""
        living = self.servers()
        return living[self.rng.integers(len(living))] if living else None

    @property
    def shuffler(self) -> Process | None:
        """The shuffler, if it lives."""
        process = self.processes.get("shuffler")
        return None if process is None or process.dead else process

    # Messages

    def exchange(self, requests: list[Request], victims: list[Process], after: float = 0.0) -> None:
        """Sends requests, in any order, and hears the answers; some of both get lost, some requests arrive twice.

        Args:
            requests: What is asked.
            victims: Who is killed.
            after: How many seconds after the first request.
        """
        waiting: dict[tuple[int, int], Request] = {}
        order = self.rng.permutation(len(requests))
        for i in order:
            request, luck = requests[i], self.rng.random()
            if request.to.dead or luck < 0.04:
                continue
            for _ in range(2 if luck > 0.88 else 1):
                waiting[request.to.pid, request.to.tell(request.do, **request.order)] = request
        deadline = time.monotonic() + after
        while waiting:
            living = {p.channel: p for p in self.processes.values() if p is not None and not p.dead}
            waiting = {key: request for key, request in waiting.items() if not request.to.dead}
            if not waiting:
                return
            left = max(deadline - time.monotonic(), 0.0) if victims else 60.0
            ready, _, _ = select.select(list(living), [], [], left)
            if victims and time.monotonic() >= deadline:
                for victim in victims:
                    victim.kill()
                victims = []
            assert ready or left < 60.0, f"nobody answers: {Counter(r.do for r in waiting.values())}"
            for channel in ready:
                self._hear(living[channel], waiting)

    def _hear(self, process: Process, waiting: dict[tuple[int, int], Request]) -> None:
        for answer in process.heard():
            if "shown" in answer:
                self.book.sees("the release", self.book.releases, *answer["shown"])
                continue
            request = waiting.pop((process.pid, answer["id"]))
            if "error" in answer:
                self.book.messages.append(answer["message"])
                self.tally.refused[answer["error"]] += 1
                if answer["error"] not in request.allowed:  # told with the other invariants, after the kill
                    what = f"{request.do} failed for no reason of ours: {answer['error']}: {answer['message']}"
                    self.book.contradictions.append(("safe_to_repeat", what))
            elif request.heard is not None and self.rng.random() > 0.08:
                request.heard(answer)

    # What people do

    def _somebody(self) -> Person:
        self._people += 1
        name = f"canary-{self._people:x}-{self.rng.integers(2**62):x}"
        self.book.canaries.append(name)
        person = Person(name, stays_away=not self._whole and self.rng.random() < 0.15)
        self.book.people[name] = person
        return person

    def _starting(self, person: Person) -> list[Request]:
        to = self.server()
        if to is None:
            return []
        return [Request(to, "start", {"person": person.name, "now": self.clock}, lambda a: self._started(person, a))]

    def _started(self, person: Person, answer: dict[str, Any]) -> None:
        self.book.given(person, answer)
        self.version = max(self.version, answer["version"])

    def _reporting(self, person: Person, place: tuple[int, int], *, other: bool = False) -> list[Request]:
        """Returns what a person sends for a slot: their report, or by a bug of their app another one."""
        ticket = person.tickets[place]
        text = person.texts.get(place)
        if text is None or other:
            made, rewards = report_of(ticket["encoder"], self.rng)
            self.book.canaries.extend([made, *(repr(reward) for reward in rewards if len(repr(reward)) > 12)])
            text = person.texts.setdefault(place, made) if not other else made
        return self._sending(place, ticket["token"], text, lambda _: self.book.hears(place))

    def _sending(self, place: tuple[int, int], token: str, text: str, heard: Heard) -> list[Request]:
        if self.trust == "shuffle":
            to, more = self.shuffler, {"terms": self.terms.get(place[0])}
            if more["terms"] is None:
                return self._asking_terms(place[0])
        else:
            to, more = self.server(), {"now": self.clock}
        if to is None:
            return []
        self.book.sends(place, text)
        return [Request(to, "report", {"token": token, "report": text, **more}, heard)]

    def _asking_terms(self, version: int) -> list[Request]:
        to = self.server()
        if to is None:
            return []
        return [Request(to, "terms", {"version": version}, lambda a: self.terms.update({version: a["terms"]}))]

    def _malformed(self, person: Person, place: tuple[int, int]) -> list[Request]:
        """Returns a report, or a token, that must be refused."""
        token, text = person.tickets[place]["token"], person.texts.get(place)
        if text is None:
            return []
        kind = self.rng.integers(4)
        if kind == 0:
            token = token[:-1] + ("A" if token[-1] != "A" else "B")
        elif kind == 1:
            text = text[:-4] + "canary-"
        elif kind == 2:
            text = f"1.raw.{person.name}"
        else:
            text = text[:10] + "\u00e9" + text[11:]
        if self.trust == "shuffle" and place[0] not in self.terms:
            return []
        to = self.shuffler if self.trust == "shuffle" else self.server()
        if to is None:
            return []
        more = {"terms": self.terms[place[0]]} if self.trust == "shuffle" else {"now": self.clock}
        order = {"token": token, "report": text, **more}
        return [
            Request(
                to, "report", order, self._must_not, {"InvalidPersonalData", "InvalidToken", "Unavailable", "Closed"}
            )
        ]

    def _must_not(self, answer: dict[str, Any]) -> None:
        self.book.contradictions.append(("acknowledged_are_counted_once", "something malformed was acknowledged"))

    def _watching(self) -> list[Request]:
        to = self.server()
        return [] if to is None else [Request(to, "releases", {}, self._watched)]

    def _watched(self, answer: dict[str, Any]) -> None:
        for version, digest, _ in answer["releases"]:
            self.book.sees("the release", self.book.releases, version, digest)

    def _closing(self) -> list[Request]:
        to = self.server()
        if to is None:
            return []
        self.book.asked = max(self.book.asked, self.clock)
        return [Request(to, "close", {"now": self.clock}, self._closed)]

    def _closed(self, answer: dict[str, Any]) -> None:
        self.version, self.closing, self.planned = answer["version"], answer["closing"], True

    def _mixing(self) -> list[Request]:
        """Under Shuffle: what is asked of the shuffler, or handed to the server, when a batch is closing."""
        version = self.version
        if version not in self.terms:
            return self._asking_terms(version)
        if version not in self.handed:
            if self.shuffler is None:
                return []
            return [Request(self.shuffler, "close", {"terms": self.terms[version]}, lambda a: self._mixed(version, a))]
        to = self.server()
        if to is None:
            return []
        users, messages = self.handed[version]
        order = {"version": version, "ones": self.book.mixed[version], "messages": messages, "users": users}
        return [Request(to, "receive", order, allowed=EXPECTED | {"LiveError"})]

    def _mixed(self, version: int, answer: dict[str, Any]) -> None:
        self.handed[version] = (answer["users"], answer["messages"])
        self.book.sees("the shuffler's batch", self.book.mixed, version, tuple(answer["ones"]))

    # Rounds

    def wave(self) -> list[Request]:
        """Returns what happens next: people start, report, repeat themselves; when all slots are out, time passes."""
        self.clock += 1.0
        if self.jumps and self.rng.random() < 0.2:
            came = self.trust != "local" or any(version == self.version for version, _ in self.book.acknowledged)
            self.clock += _DAY if came and self.rng.random() < 0.5 else -_DAY  # see `_passing` on batches of nobody
        book, found = self.book, []
        mine = [p for p in list(book.people.values())[-4 * SLOTS :] if any(v == self.version for v, _ in p.tickets)]
        places = [(p, place) for p in mine for place in p.tickets if place[0] == self.version]
        if len(places) < SLOTS and self.planned and not self.closing:
            if not places:
                self._whole = self.rng.random() < 0.5
            again = [p for p in list(book.people.values())[-SLOTS:] if not p.tickets or self.rng.random() < 0.3]
            for person in (*again, *(self._somebody() for _ in range(SLOTS - len(places)))):
                found += self._starting(person)
        for person, place in places:
            if place not in book.acknowledged and not person.stays_away:
                found += self._reporting(person, place)
            elif place in book.acknowledged and self.rng.random() < 0.2:
                found += self._reporting(person, place, other=bool(self.rng.random() < 0.5))
            if self.rng.random() < 0.1:
                found += self._malformed(person, place)
        return found + self._passing(places) + self._watching()

    def _passing(self, places: list[tuple[Person, tuple[int, int]]]) -> list[Request]:
        """Returns what clocks ask for; when all slots are out and most people reported, time passes."""
        book = self.book
        done = [place for person, place in places if place in book.acknowledged or person.stays_away]
        self.waves = 0 if self.closing or not places else self.waves + 1
        ripe = (len(places) >= SLOTS and len(done) >= SLOTS - 1) or self.waves > 8  # some answers never came
        if self.trust == "local":  # if nobody came at all, the server would count a report that we cannot know
            ripe = ripe and any(place in book.acknowledged for place in done)
        if ripe and not self.closing and self.rng.random() < 0.5:
            return self._closing()  # all have reported, and it is not time yet: nothing may close
        if ripe and not self.closing:  # clocks that jumped back are put right by then
            self.clock = max(self.clock, *(self.book.starts.values() if self.jumps else [0.0])) + 2 * WITHIN
        if not self.planned or self.closing or ripe:
            mixing = self._mixing() if self.closing and self.trust == "shuffle" else []
            return mixing + self._closing() * (1 + len(self.servers()))
        return self._closing() if self.rng.random() < 0.3 else []

    def round(self, role: str, point: str, nth: int = 1) -> bool:
        """Goes on until a process dies at a point, then compares the books; returns whether it came by.

        Args:
            role: Whose process.
            point: One of `discreet.live.points`; `RANDOM`; or `ALL`, then every process dies.
            nth: At which time that it comes by.
        """
        wanted = list(self.processes) if point == ALL else [role]
        victims = [process for name in wanted if (process := self.processes[name]) is not None]
        by_chance = point in (RANDOM, ALL)
        if not by_chance:
            victims[0].tell("arm", point=point, nth=nth)
        when = int(self.rng.integers(1, 8))
        for number in range(_WAVES):
            killing = victims if by_chance and number == when else []
            self.exchange(self.wave(), killing, float(self.rng.random()) * 0.03)
            for victim in killing:
                self._awaited(victim)
            if victims[0].dead:
                break
        else:
            victims[0].tell("arm", point="", nth=0)
            self.check()
            return False
        for victim in victims:
            assert self.forks.buried(victim) == signal.SIGKILL
            self.tally.kills[point] += 1
        if self.rng.random() < 0.5:  # the survivors alone, or nobody
            self.check()
        self.revive()
        self.check(clean=len(self.servers()) == 1)
        return True

    def _awaited(self, victim: Process) -> None:
        """Kills a process, if all is said and it still lives, and waits until it is gone."""
        if not victim.dead:
            victim.kill()
        while not victim.dead:
            victim.heard()

    def check(self, *, clean: bool = False) -> None:
        """Compares the books."""
        self.book.clean = clean
        invariants.check(self.book, now := read(self.url, "steps", self.shuffler_url))
        self.version, self.closing = now.row.version, bool(now.row.closing)
        self.planned = bool(now.row.planned)
        said = self.forks.log.read_text(errors="replace")
        if "canary-" in said:
            raise invariants.Broken(("canaries_nowhere", "a log shows a person's data"))
        assert "Traceback" not in said, said[-3000:]

    def finish(self) -> Tally:
        """Compares the books a last time and returns what was counted."""
        self.revive()
        self.check(clean=len(self.servers()) == 1)
        now, tally, book = read(self.url, "steps", self.shuffler_url), self.tally, self.book
        released = {place for place in book.acknowledged if place[0] < now.row.version}
        tally.acknowledged, tally.releases = len(book.acknowledged), len(book.releases)
        kept = set(now.reports) | set(now.used) | set(book.counted)
        tally.lost = len(released - set(book.counted)) + len(set(book.acknowledged) - released - kept)
        folded = len(book.counted) if self.trust == "local" else now.row.version * SLOTS
        tally.double = people_in(self.trust, records.unpack(now.secret[1])["kept"]) - folded
        self.end()
        return tally

    def end(self) -> None:
        """Ends all processes."""
        for process in self.processes.values():
            if process is not None and not process.buried:
                process.kill()
                self.forks.buried(process)

"""A deployment: an agent that meets real people, one at a time, and keeps all that counts in a database.

The order of things is the guarantee's: a person has a slot before they play; a report is durable before it is
acknowledged; a release is committed before anybody plans with it; a plan is a pure function of what is committed.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__
from discreet.agents.rounds import Plan
from discreet.errors import InvalidInput, LiveError, RolledBack, check_integer
from discreet.live import points, rows, steps
from discreet.live.config import Config, read
from discreet.live.keys import Keys, person_hash, read_token, token_of
from discreet.live.shuffler import Terms
from discreet.live.stores import sql
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.privacy import Central, Report, Shuffle, ShuffledBatch
from discreet.privatizers.codec import from_wire, to_wire
from discreet.runtime import handover, records

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.agents.rounds import Policy
    from discreet.live.rows import Deployed
    from discreet.live.shuffler import Shuffler
    from discreet.live.stores.base import Connection, Store
    from discreet.mdp import FiniteMDP
    from discreet.privacy import Batch, Guarantee
    from discreet.privatizers import Encoder, Released

__all__ = ["Deployment", "Release", "Ticket"]

_PLANS = 4  # kept in memory


@dataclasses.dataclass(frozen=True, eq=False)
class Ticket:
    """What somebody who starts an episode is given. Playing and encoding need nothing else of the server.

    Attributes:
        collected: Whether they have a slot: else they play the best policy so far, and nothing of theirs is kept.
        version: Of the plan.
        slot: Which one of its batch; None without one.
        policy: What they play, (H, S) or (H, S, A).
        encoder: What makes the report, on their device; None without a slot.
        token: What the report is sent with; None without a slot.
        report_by: Until when the report is taken, in seconds since 1970; None without a slot.
        report_to: ``"server"`` or ``"shuffler"``.
    """

    collected: bool
    version: int
    slot: int | None
    policy: Policy
    encoder: Encoder[Report] | None
    token: str | None
    report_by: float | None
    report_to: str

    def __repr__(self) -> str:
        return f"<Ticket of version {self.version}, {'collected' if self.collected else 'not collected'}>"


@dataclasses.dataclass(frozen=True, eq=False)
class Release:
    """What one batch let out: public.

    Attributes:
        version: Its number, from 1.
        users: Slots so far.
        released: All that the learner sees.
        hash: SHA-256 of its bytes.
        chain: SHA-256 of the chain before it and its hash.
    """

    version: int
    users: int
    released: Released
    hash: str
    chain: str

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        found = {field.name: _listed(getattr(self.released, field.name)) for field in dataclasses.fields(self.released)}
        links = {name: getattr(self, name) for name in ("version", "users", "hash", "chain")}
        return {**links, "kind": type(self.released).__name__, "released": found}


def _listed(value: Any) -> Any:
    """Returns arrays as lists, and records as tables."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if dataclasses.is_dataclass(value):
        return {field.name: _listed(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


class Deployment:
    """A deployment in a database: open it with `discreet.live.create` or `discreet.live.open`.

    Several threads, and several processes, may use one deployment.

    Attributes:
        name: Of the deployment.
        config: What it is.
        agent: The mechanism and the learner. It has nobody's data, and is not asked for its policy.
        shuffler: Under `Shuffle`: who is asked for batches that are due, if it runs in this process.

    Guarantee:
        `guarantee`.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name
        found = store.do(lambda db: (db.row(sql.BUILT, name=name), db.row(sql.KEYS, name=name)))
        if found[0] is None or found[1] is None:
            known = store.do(lambda db: [row[0] for row in db.rows(sql.NAMES)])
            raise InvalidInput(f"there is no deployment {name!r} in {store.url}; there is {', '.join(known) or 'none'}")
        document, built = found[0]
        self.document: dict[str, Any] = json.loads(document)
        self.config: Config = read(self.document["config"])
        self.agent: LearningAgent = handover.rebuilt(records.unpack(bytes(built)))
        self._keys = Keys(*(None if key is None else bytes(key) for key in found[1]))  # type: ignore[arg-type]
        self.shuffler: Shuffler | None = None
        self._plans: OrderedDict[int, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Deployment {self.name!r}: {self.guarantee}>"

    def _row(self) -> Deployed:
        return self.store.do(lambda db: rows.deployed(db, self.name))

    @property
    def version(self) -> int:
        """How many releases there were."""
        return self._row().version

    @property
    def state(self) -> str:
        """``"open"``, ``"complete"`` or ``"rolled-back"``."""
        return self._row().state

    @property
    def status(self) -> dict[str, Any]:
        """What is public of the current batch: its number, slots, how many are given out, and when it began."""
        row = self._row()
        return {
            "name": self.name,
            "state": row.state,
            "version": row.version,
            "planned": bool(row.planned),
            "slots": row.size,
            "issued": row.issued,
            "opened": row.opened,
            "closes": rows.closes(self.config, row),
            "closing": bool(row.closing),
        }

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for every person of this deployment, computed from what was built."""
        return promised(self.agent, self.config)

    def plan(self, version: int | None = None) -> Plan:
        """Returns a plan by its version; the newest by default.

        Raises:
            InvalidInput: If there is no such plan.
        """
        if version is None:
            row = self._row()
            version = row.version if row.planned else row.version - 1
        found = self._known_plan(check_integer("version", version, least=0))
        if found is None:
            raise InvalidInput(f"there is no plan of version {version}")
        return found

    def _known_plan(self, version: int) -> Plan | None:
        kept = self._plans.get(version)
        if kept is None:
            row = self.store.do(lambda db: db.row(sql.PLAN, name=self.name, version=version))
            if row is None:
                return None
            kept = Plan.from_json(row[0])
            if hashlib.sha256(row[0].encode()).hexdigest() != row[1]:
                raise LiveError(f"the plan of version {version} is damaged: its hash does not match")
            self._plans[version] = kept
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        return kept

    def releases(self) -> list[Release]:
        """Returns all that was released, in order."""
        found = self.store.do(lambda db: db.rows(sql.RELEASES, name=self.name))
        return [Release(v, users, records.unpack(bytes(body)), *links) for v, users, body, *links in found]

    def start(self, person: str | None = None, now: float | None = None) -> Ticket:
        """Begins an episode: gives out the next slot of the batch, durably.

        The same person gets the same slot again while its batch is open. Whoever comes when the batch is full, is being
        planned, or has had all their slots, gets the best policy so far and is not collected.

        Args:
            person: A pseudonym that the app keeps for a person; only a keyed hash of it is stored.
            now: The time, in seconds since 1970; the clock's by default.

        Raises:
            RolledBack: If the database is an old copy.
            Unavailable: If the database did not answer; to start again is safe.
        """
        return self._ticket(self.store.do(self.starting(person, now)))

    def starting(self, person: str | None, now: float | None) -> Callable[[Connection], rows.Place]:
        """Returns what `start` does in its transaction, for whoever has it done elsewhere."""
        moment = time.time() if now is None else now
        key = self._keys.person
        if person is None and not self.config.anonymous:
            raise InvalidInput("start needs a person: a pseudonym that the app keeps, or anonymous = true")
        hashed = None if person is None or key is None else person_hash(key, self.name, person)
        return lambda db: rows.start(db, self.config, hashed, moment)

    def _ticket(self, place: rows.Place) -> Ticket:
        points.reached("start: committed, not answered")
        plan, to = self.plan(place.version), "shuffler" if self._shuffled else "server"
        if place.slot is None:
            return Ticket(False, place.version, None, plan.rest.copy(), None, None, None, to)
        token = self.token(place.version, place.slot)
        by = place.started + self.config.report_within
        return Ticket(True, place.version, place.slot, plan.policy(place.slot), plan.encoder, token, by, to)

    def token(self, version: int, slot: int) -> str:
        """Returns the token of a slot that was given out."""
        return token_of(self._keys.token, self.name, version, slot)

    def place(self, token: str) -> tuple[int, int]:
        """Returns version and slot of a token; raises `InvalidToken` if it is none of this deployment's."""
        return read_token(self._keys.token, self.name, token)

    @property
    def _shuffled(self) -> bool:
        return isinstance(self.agent.privacy, Shuffle)

    def report(self, token: str, report: Report | str | bytes, now: float | None = None) -> str:
        """Takes a person's report; it is durable when this returns, and to report again is fine.

        Args:
            token: The ticket's.
            report: What the encoder made, or its text (`discreet.privatizers.codec.to_wire`).
            now: The time; the clock's by default.

        Returns:
            ``"recorded"``, also if it was recorded before: the first report of a slot counts.

        Raises:
            InvalidToken: If the token is none of this deployment's.
            InvalidPersonalData: If the report is not what the encoder makes; the message names the bound only.
            Closed: If it comes too late. It is never moved to a later batch.
            RolledBack: If the token proves that the database is an old copy.
            Unavailable: If the database did not answer; to report again is safe.
        """
        return self.answered(self.store.do(self.reporting(token, report, now)))

    def reporting(self, token: str, report: Report | str | bytes, now: float | None) -> Callable[[Connection], bool]:
        """Checks a report, and returns what `report` does in its transaction, for whoever has it done elsewhere."""
        version, slot = self.place(token)
        body = self._checked(version, report)
        moment = time.time() if now is None else now
        return lambda db: rows.report(db, self.config, version, slot, body, moment)

    def answered(self, recorded: bool) -> str:
        """Returns what `report` returns, by what its transaction found."""
        if not recorded:
            raise rolled_back()
        points.reached("report: committed, not answered")
        return "recorded"

    def step(
        self, token: str, number: int, state: int, reward: float | None = None, now: float | None = None
    ) -> int | None:
        """Plays a step at the server, which must be trusted (`Central`): the first write wins.

        Args:
            token: The ticket's.
            number: Of the step, from 1; after the last step, H + 1, the episode is over.
            state: The state that was reached.
            reward: Of the step before; None at the first.
            now: The time; the clock's by default.

        Returns:
            The action; None after the last step.

        Raises:
            InvalidPersonalData: If the step is none of this world; the message names the bound only.
            Closed: If it comes too late.
        """
        if not isinstance(self.agent.privacy, Central):
            raise InvalidInput("episodes are played at the server only where it is trusted: trust = 'central'")
        version, slot = self.place(token)
        parts, moment = steps.checked(self.config.spec, number, state, reward), time.time() if now is None else now
        plan = self._plan_of(version)
        known, action = self.store.do(lambda db: steps.step(db, self.config, plan, slot, parts, moment))
        self.answered(known)
        if action is None:
            self._encode(plan, slot, token, moment)
        return action

    def _encode(self, plan: Plan, slot: int, token: str, now: float) -> None:
        """Makes a report of a whole episode, and deletes its steps."""
        at = {"name": self.name, "version": plan.version, "slot": slot}
        found = self.store.do(lambda db: db.rows(sql.STEPS, **at))
        episode = steps.played([(s, a, r) for s, a, r in found], self.config.spec, None)
        if episode is not None:  # else it was encoded before
            self.report(token, plan.encoder.encode(episode, self.agent.sources[Role.ENCODER]), now)

    def _plan_of(self, version: int) -> Plan:
        """Returns the plan of a valid token; if it is not there, the database is an old copy."""
        plan = self._known_plan(version)
        if plan is None:
            self.store.do(lambda db: rows.roll_back(db, self.name), alone=True)
            raise rolled_back()
        return plan

    def _checked(self, version: int, report: Report | str | bytes) -> bytes:
        """Returns a report's text, if it may be folded in: alone, before it is acknowledged."""
        if self._shuffled:
            raise InvalidInput("under Shuffle reports go to the shuffler: the server never sees one")
        plan = self._plan_of(version)
        text = to_wire(report) if isinstance(report, Report) else report
        parsed = from_wire(text, plan.encoder)  # type: ignore[arg-type]
        self.agent.mechanism.check(parsed, plan.encoder)
        return text.encode() if isinstance(text, str) else text

    def erase(self, token: str | None = None, person: str | None = None) -> str:
        """Erases an episode, by its token or its person.

        Before the batch closes the report is deleted and the slot is absent. Afterwards there is nothing to delete: raw
        rows went with the release. That a person had a slot is kept, as a keyed hash, until the deployment ends.

        Returns:
            ``"erased"``, or ``"closed"`` if the batch was closed before, or ``"unknown"``.
        """
        if (token is None) == (person is None):
            raise InvalidInput("erase needs a token or a person")
        if token is not None:
            places = [read_token(self._keys.token, self.name, token)]
        else:
            assert person is not None
            if self._keys.person is None:
                return "unknown"
            hashed = person_hash(self._keys.person, self.name, person)
            found = self.store.do(lambda db: db.rows(sql.SLOTS_OF, name=self.name, person=hashed))
            places = [(version, slot) for version, slot, *_ in found]
        said = self.store.do(lambda db: [rows.erase(db, self.config, *place) for place in places])
        return "erased" if "erased" in said else "closed" if said else "unknown"

    def close_due(self, now: float | None = None) -> list[int]:
        """Releases and plans what is due.

        Returns:
            The versions that were released by this call.

        Raises:
            RolledBack: If the database is an old copy.
            Unavailable: If the database did not answer; to close again is safe.
        """
        released: list[int] = []
        with self._lock:
            while True:
                moment = time.time() if now is None else now
                row = self._closing(moment)
                if not row.planned:
                    self._plan_next(row.version, moment)
                elif not row.closing or not self._release(row.version):
                    return released
                else:
                    released.append(row.version + 1)

    def _closing(self, now: float) -> Deployed:
        return self.store.do(lambda db: rows.close_if_due(db, self.config, now), alone=True)

    def receive(self, version: int, ones: NDArray[np.int64], messages: int, users: int) -> str:
        """Under Shuffle: takes a whole batch from the shuffler; to hand it in again is fine.

        Raises:
            InvalidInput: If it is not a whole batch of the current version.
        """
        row = self._row()
        if version < row.version:
            return "recorded"
        if version > row.version:
            raise InvalidInput(f"the current batch is {row.version}, got {version}")
        counts = np.array(ones, dtype=np.int64)
        batch = ShuffledBatch(counts, check_integer("messages", messages), check_integer("users", users), version)
        kept, plan = self._kept(version), self.plan(version)
        self.agent.mechanism.folded(kept["kept"], batch, plan.encoder)  # raises if it is not what was asked for
        body = records.pack({"ones": counts, "messages": batch.messages, "users": batch.users})
        self.store.do(lambda db: db.run(sql.NEW_BATCH, name=self.name, version=version, body=body))
        return "recorded"

    def terms(self, version: int) -> Terms:
        """Returns what a shuffler must know of a batch: its size, what its people run, and the key of tokens."""
        plan = self.plan(version)
        return Terms(self.name, version, plan.size, plan.encoder.to_json(), self._keys.token)

    def _kept(self, version: int) -> dict[str, Any]:
        """Returns what the server keeps of people: raw totals, and noise that is in releases."""
        found = self.store.do(lambda db: db.row(sql.SECRET, name=self.name))
        if found is None or found[0] != version:
            raise LiveError("another server released this version first")
        kept: dict[str, Any] = records.unpack(bytes(found[1]))
        return kept

    def _batch(self, version: int, plan: Plan) -> Batch | None:
        """Returns what the server received of the batch that is closing; None if a shuffler has not handed it in."""
        mechanism = self.agent.mechanism
        if self._shuffled:
            found = self.store.do(lambda db: db.row(sql.BATCH, name=self.name, version=version))
            if found is None and self.shuffler is not None:
                mixed = self.shuffler.close(version)
                self.receive(version, mixed.ones, mixed.messages, mixed.users)
                return mixed
            return None if found is None else ShuffledBatch(**records.unpack(bytes(found[0])), version=version)
        sent = dict(self.store.do(lambda db: db.rows(sql.REPORTS, name=self.name, version=version)))
        points.reached("reports read")
        reports = {slot: from_wire(bytes(text), plan.encoder) for slot, text in sent.items()}  # type: ignore[arg-type]
        for slot, partial in self.store.do(lambda db: steps.broken_off(db, self.config, version)).items():
            episode = steps.played(partial, self.config.spec, self.config.gone)
            if slot not in reports and episode is not None:
                reports[slot] = plan.encoder.encode(episode, self.agent.sources[Role.ENCODER])
        absent = range(plan.size) if Role.NOISE in mechanism.draws else range(not reports)
        for slot in absent:  # under Local only if nobody came: what is not sent adds no noise
            if slot not in reports:
                reports[slot] = plan.encoder.absent(self.agent.sources[Role.ENCODER])
        shuffler = mechanism.shuffler()
        shuffler.begin(version, plan.size, plan.encoder)
        batch: Batch = shuffler([reports[slot] for slot in sorted(reports)], self.agent.sources[Role.SHUFFLER])
        return batch

    def _release(self, version: int) -> bool:
        """Makes the release of a batch that is closing; returns whether this server did.

        Noise is drawn once for a version that is committed. If anything fails before, what was drawn is shown to
        nobody, and nothing that can fail after the draw depends on it.
        """
        points.reached("batch closing")
        plan, mechanism = self.plan(version), self.agent.mechanism
        batch = self._batch(version, plan)
        if batch is None:
            return False
        try:
            before = self._kept(version)
        except LiveError:
            return True  # another server was faster: look again
        source = self.agent.sources[Role.NOISE]
        if isinstance(source, FastSource):
            source.rewind(before["stream"])
        folded = mechanism.folded(before["kept"], batch, plan.encoder)
        kept, drawn = mechanism.released(folded, source)
        points.reached("noise drawn")
        found = dataclasses.replace(drawn, version=version + 1)
        stream = source.mark() if isinstance(source, FastSource) else None
        secret, body = records.pack({"kept": kept, "stream": stream}), records.pack(found)
        digest, users = hashlib.sha256(body).hexdigest(), plan.start + plan.size
        done = self.store.do(lambda db: self._put_down(db, version, users, secret, body, digest), alone=True)
        points.reached("release: committed, not planned")
        if done:
            with contextlib.suppress(LiveError):  # the release stands; the next one tidies up
                self.store.tidy()
        return True

    def _put_down(self, db: Connection, version: int, users: int, secret: bytes, body: bytes, digest: str) -> bool:
        """The one transaction of a release: the release, the state after it, and no raw row any more."""
        db.lock(self.name, alone=True)
        if db.run(sql.ADVANCE, name=self.name, version=version) != 1:
            return False
        before = db.row(sql.RELEASE, name=self.name, version=version)
        chain = self.document["chain"] if before is None else before[3]
        found = {"name": self.name, "version": version + 1}
        db.run(sql.NEW_RELEASE, **found, users=users, body=body, hash=digest, chain=chained(chain, digest))
        db.run(sql.SET_SECRET, **found, body=secret)
        for statement in (
            sql.FORGET_REPORTS,
            sql.FORGET_STEPS,
            sql.FORGET_BATCH,
            sql.FORGET_STRANGERS,
            sql.FORGET_STARTS,
        ):
            db.run(statement, name=self.name, version=version)
        points.reached("release: before the commit")
        return True

    def _plan_next(self, version: int, now: float) -> None:
        """Makes the plan that follows from a release: the same one, however often."""
        found = self.store.do(
            lambda db: (db.row(sql.LEARNER, name=self.name), db.row(sql.RELEASE, name=self.name, version=version))
        )
        learner, release = found
        if learner is None or learner[0] != version - 1 or release is None:
            return  # another server was faster: look again
        state, plan = self.planned(bytes(learner[1]), version, release[0], records.unpack(bytes(release[1])))
        points.reached("plan made")
        text = plan.to_json()

        def put_down(db: Connection) -> None:
            db.lock(self.name, alone=True)
            if db.run(sql.PLANNED, name=self.name, version=version, size=plan.size, now=now) != 1:
                return
            digest = hashlib.sha256(text.encode()).hexdigest()
            db.run(sql.NEW_PLAN, name=self.name, version=version, body=text, hash=digest)
            db.run(sql.SET_LEARNER, name=self.name, version=version, body=state)
            if plan.size == 0:  # nobody is collected any more: whoever had a slot can be forgotten
                db.run(sql.SET_STATE, name=self.name, state="complete")
                db.run(sql.FORGET_PERSON_KEY, name=self.name)
                db.run(sql.FORGET_PEOPLE, name=self.name)
            points.reached("plan: before the commit")

        self.store.do(put_down, alone=True)
        points.reached("plan: committed")

    def planned(self, learner: bytes, version: int, users: int, released: Any) -> tuple[bytes, Plan]:
        """Returns what is learned with a release, and the plan of that version: a pure function.

        Args:
            learner: What was learned before, as bytes (`learner_of` is what it begins with).
            version: Of the release.
            users: Slots so far.
            released: The release.
        """
        agent, found = self.agent, records.unpack(learner)
        rng = copy.deepcopy(agent.rng)
        rng.bit_generator.state = found["rng"]
        state, plan = agent.next_round(agent.unpack_learned(found["learned"]), released, users, rng)
        if plan.version != version:
            raise LiveError(f"the release of version {version} gives a plan of version {plan.version}")
        return learner_of(agent, state, rng), plan

    def end(self) -> None:
        """Ends the deployment: nobody is collected any more, raw reports and the key of pseudonyms are destroyed."""

        def ended(db: Connection) -> None:
            db.lock(self.name, alone=True)
            row = rows.deployed(db, self.name, held=True)
            for statement in (sql.FORGET_PERSON_KEY, sql.FORGET_PEOPLE):
                db.run(statement, name=self.name)
            for statement in (sql.FORGET_REPORTS, sql.FORGET_STEPS, sql.FORGET_BATCH):
                db.run(statement, name=self.name, version=row.version)
            db.run(sql.SET_STATE, name=self.name, state="complete")

        self.store.do(ended, alone=True)
        self._keys = self._keys._replace(person=None)
        self.store.tidy()

    def environment(self) -> FiniteMDP:
        """Returns the environment that the configuration names, for simulations."""
        from discreet.live.config import environment

        if "env" not in self.config.world:
            raise InvalidInput("[world] names no environment: people are simulated in one, such as env = 'riverswim'")
        return environment(self.config.world)

    def close(self) -> None:
        """Leaves the database."""
        self.store.close()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rolled_back() -> RolledBack:
    """Returns what is raised when people have seen more than the database."""
    return RolledBack(
        "a valid token is newer than this database: a backup was restored, and what it would release was released "
        "before; nothing more is released from it"
    )


def promised(agent: LearningAgent, config: Config) -> Guarantee:
    """Returns what an agent promises to the people of a deployment."""
    found = agent.guarantee
    if found.notion == "none":
        return found
    k = config.episodes_per_person
    said = ["that and when somebody starts an episode is not protected: slots are given out in that order"]
    if config.timing == "public":
        said.append("whether and when people report is not protected")
    elif found.notion == "local":
        said.append("whether a device reports is not hidden, unless it sends the report of an absent person instead")
    if config.anonymous:
        said.append(f"the app sees to it that nobody without a pseudonym starts more than {k} episode{'s' * (k > 1)}")
    return dataclasses.replace(found.group(k), assumptions=(*found.assumptions, *said))


def learner_of(agent: LearningAgent, state: Any, rng: np.random.Generator) -> bytes:
    """Returns what was learned, and the agent's own randomness, as bytes."""
    return records.pack({"learned": agent.pack_learned(state), "rng": rng.bit_generator.state})


def chained(chain: str, digest: str) -> str:
    """Returns the next link of the hash chain."""
    return hashlib.sha256(f"{chain}\n{digest}".encode()).hexdigest()


def new_document(agent: LearningAgent, config: Config) -> dict[str, Any]:
    """Returns what is written down when a deployment is made."""
    found = {"discreet": __version__, "config": config.to_document(), "resolved": agent.name}
    genesis = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return {**found, "chain": genesis}

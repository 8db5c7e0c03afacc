"""How a batch becomes a release, and a release a plan: in this order, and each once."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.agents.rounds import Plan
from discreet.errors import InvalidInput, LiveError, RolledBack, check_integer
from discreet.live import points, rows, steps
from discreet.live.config import Config, read
from discreet.live.keys import Keys
from discreet.live.public import Release, chained
from discreet.live.shuffler import Terms
from discreet.live.stores import sql
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.privacy import Shuffle, ShuffledBatch
from discreet.privatizers.codec import from_wire
from discreet.runtime import handover, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.agents.base import LearningAgent
    from discreet.live.rows import Deployed
    from discreet.live.shuffler import Shuffler
    from discreet.live.stores.base import Connection, Store
    from discreet.privacy import Batch

__all__ = ["Releasing", "learner_of"]

_PLANS = 4  # kept in memory


class _OvertakenError(LiveError):
    """Another server was faster."""


class Releasing:
    """A deployment's releases and plans: what is committed when, and what may be done again.

    Attributes:
        name: Of the deployment.
        config: What it is.
        agent: The mechanism and the learner. It has nobody's data, and is not asked for its policy.
        shuffler: Under `Shuffle`: who is asked for batches that are due, if it runs in this process.
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

    @property
    def _shuffled(self) -> bool:
        return isinstance(self.agent.privacy, Shuffle)

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
                moment = rows.clock(now)
                row = self._closing(moment)
                if not row.planned:
                    self._plan_next(row.version, moment)
                elif row.state != "open" or not row.closing or (done := self._release(row.version)) is None:
                    return released
                elif done:
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
        try:
            kept, plan = self._kept(version), self.plan(version)
        except _OvertakenError:
            return "recorded"
        self.agent.mechanism.folded(kept["kept"], batch, plan.encoder)  # raises if it is not what was asked for
        body = records.pack({"ones": counts, "messages": batch.messages, "users": batch.users})

        def put_down(db: Connection) -> None:
            db.lock(self.name, alone=False)
            if rows.deployed(db, self.name).version == version:  # else it would outlive its release
                db.run(sql.NEW_BATCH, name=self.name, version=version, body=body)

        self.store.do(put_down)
        return "recorded"

    def terms(self, version: int) -> Terms:
        """Returns what a shuffler must know of a batch: its size, what its people run, and the key of tokens."""
        plan = self.plan(version)
        return Terms(self.name, version, plan.size, plan.encoder.to_json(), self._keys.token)

    def _kept(self, version: int) -> dict[str, Any]:
        """Returns what the server keeps of people: raw totals, and noise that is in releases."""
        found = self.store.do(lambda db: db.row(sql.SECRET, name=self.name))
        if found is None or found[0] != version:
            raise _OvertakenError("another server released this version first")
        kept: dict[str, Any] = records.unpack(bytes(found[1]))
        return kept

    def _batch(self, version: int, plan: Plan) -> Batch | None:
        """Returns what the server received of the batch that is closing; None if a shuffler has not handed it in."""
        mechanism = self.agent.mechanism
        if self._shuffled:
            found = self.store.do(lambda db: db.row(sql.BATCH, name=self.name, version=version))
            if found is None and self.shuffler is not None:
                self._check_age(self.shuffler, version)
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

    def _check_age(self, shuffler: Shuffler, version: int) -> None:
        """Raises if the shuffler has begun a later batch than this database: then a backup was restored."""
        if shuffler.newest(self.name) > version and self._row().version == version:
            self.store.do(lambda db: rows.roll_back(db, self.name), alone=True)
            raise RolledBack("the shuffler has later batches than this database: a backup was restored")

    def _release(self, version: int) -> bool | None:
        """Makes the release of a batch that is closing; returns whether this server did, None if it must wait.

        Noise is drawn once for a version that is committed. If anything fails before, what was drawn is shown to
        nobody, and nothing that can fail after the draw depends on it.
        """
        points.reached("batch closing")
        plan, mechanism = self.plan(version), self.agent.mechanism
        batch = self._batch(version, plan)
        if batch is None:
            return None  # for the shuffler
        try:
            before = self._kept(version)
        except _OvertakenError:
            return False  # look again
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
        return done

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
                for statement in (sql.FORGET_PERSON_KEY, sql.FORGET_PEOPLE, sql.FORGET_SECRET):
                    db.run(statement, name=self.name)
            points.reached("plan: before the commit")

        self.store.do(put_down, alone=True)
        points.reached("plan: committed")
        if plan.size == 0:
            self._keys = self._keys._replace(person=None)
            with contextlib.suppress(LiveError):  # hashes and key are deleted: no log of the database keeps them
                self.store.tidy()

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


def learner_of(agent: LearningAgent, state: Any, rng: np.random.Generator) -> bytes:
    """Returns what was learned, and the agent's own randomness, as bytes."""
    return records.pack({"learned": agent.pack_learned(state), "rng": rng.bit_generator.state})

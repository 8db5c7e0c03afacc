"""A deployment: an agent that meets real people, one at a time, and keeps all that counts in a database.

The order of things is the guarantee's: a person has a slot before they play; a report is durable before it is
acknowledged; a release is committed before anybody plans with it; a plan is a pure function of what is committed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput, LiveError, RolledBack
from discreet.live import points, rows, steps
from discreet.live.keys import person_hash, read_token, token_of
from discreet.live.public import Ticket, promised
from discreet.live.releasing import Releasing
from discreet.live.stores import sql
from discreet.noise import Role
from discreet.privacy import Central, Report
from discreet.privatizers.codec import from_wire, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.agents.rounds import Plan
    from discreet.live.statement import Statement
    from discreet.live.stores.base import Connection
    from discreet.mdp import FiniteMDP
    from discreet.privacy import Guarantee

__all__ = ["Deployment"]


class Deployment(Releasing):
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

    def __repr__(self) -> str:
        return f"<Deployment {self.name!r}: {self.guarantee}>"

    @property
    def status(self) -> dict[str, Any]:
        """What is public of the current batch: its number, slots, how many are given out, and when it began."""
        return self.look()

    def look(self) -> dict[str, Any]:
        """Returns `status`."""
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
        moment = rows.clock(now)
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
        moment = rows.clock(now)
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
        parts, moment = steps.checked(self.config.spec, number, state, reward), rows.clock(now)
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
        Under `Shuffle` nobody keeps a report: bits that the shuffler has added up cannot be taken out again.

        Returns:
            ``"erased"``, or ``"closed"`` if the batch was closed before, or ``"unknown"``. Under `Shuffle` also
            ``"mixed"``: the report may be in the sum of its batch already, where the noise hides it. ``"erased"`` is
            said there only by a shuffler in this process, which had no report yet, and takes none any more.

        Raises:
            RolledBack: If the token proves that the database is an old copy.
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
        said = self.store.do(lambda db: [rows.erase(db, self.config, *place) for place in places], alone=True)
        if "rolled-back" in said:
            raise rolled_back()
        if self._shuffled:
            answers = zip(places, said, strict=True)
            said = [self._unmixed(self.token(*place)) if each == "erased" else each for place, each in answers]
        with contextlib.suppress(LiveError):  # the row is deleted; the next release tidies up
            self.store.tidy()
        return next((each for each in ("mixed", "erased", "closed") if each in said), "unknown")

    def _unmixed(self, token: str) -> str:
        """Has a slot left empty by the shuffler, if it is in this process; says what became of it."""
        return "mixed" if self.shuffler is None else self.shuffler.erase(token)

    def statement(self, now: float | None = None) -> Statement:
        """Returns what is promised to whom, with all that is needed to compute it again, signed: public.

        Args:
            now: The time that it bears; the clock's by default.
        """
        from discreet.live.statement import state

        return state(self, now)

    def end(self) -> None:
        """Ends the deployment: nobody is collected any more; raw reports, totals and people's key are destroyed."""

        def ended(db: Connection) -> None:
            db.lock(self.name, alone=True)
            row = rows.deployed(db, self.name, held=True)
            for statement in (sql.FORGET_PERSON_KEY, sql.FORGET_PEOPLE, sql.FORGET_SECRET):
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

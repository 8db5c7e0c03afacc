"""Real people, one at a time: a deployment keeps slots, reports, releases and plans in a database.

::

    from discreet import live

    d = live.create("sqlite:///steps.db", "steps.toml")
    ticket = d.start(person="pseudonym")
    report = ticket.encoder.encode(trajectory)      # on the person's device
    d.report(ticket.token, report)                  # durable when it returns
    d.close_due()                                   # releases and plans what is due
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidInput, RolledBack
from discreet.live import population
from discreet.live.config import Config, read
from discreet.live.deployment import Deployment
from discreet.live.keys import Keys, new_key
from discreet.live.people import Habits, Simulated, simulate
from discreet.live.population import Population
from discreet.live.public import Release, Ticket, new_document, promised
from discreet.live.releasing import learner_of
from discreet.live.rows import clock
from discreet.live.shuffler import Shuffler, Terms
from discreet.live.signing import new_signing_key
from discreet.live.statement import Statement
from discreet.live.stores import connect, sql
from discreet.live.verdict import Verdict, verify
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.runtime import handover, records

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from discreet.live.stores.base import Connection, Store

__all__ = [
    "Config",
    "Deployment",
    "Habits",
    "Population",
    "Release",
    "Shuffler",
    "Simulated",
    "Statement",
    "Terms",
    "Ticket",
    "Verdict",
    "create",
    "ledger",
    "names",
    "open",
    "read",
    "simulate",
    "verify",
]


def create(
    url: str | Store, config: Mapping[str, Any] | str | os.PathLike[str] | Config, *, now: float | None = None
) -> Deployment:
    """Makes a new deployment: calibrates its noise, charges its population's ledger and plans the first batch.

    Args:
        url: ``"sqlite:///file.db"``, ``"postgresql://…"`` or ``"memory:"``; or a store that is open.
        config: A dict, or the path of a TOML file; see `discreet.live.config.Config`.
        now: The time; the clock's by default.

    Raises:
        InvalidInput: If the configuration is wrong, or the name is taken.
        BudgetExceeded: If the population's ledger has no room for it. Nothing is made then.
    """
    wanted = config if isinstance(config, Config) else read(config)
    agent = wanted.make(wanted.seed)
    document, plan = new_document(agent, wanted), agent.plan
    if plan.size == 0:  # it would be open for ever, charge its people's ledger and learn nothing
        raise InvalidInput(
            f"no batch fits into episodes={wanted.episodes}, so nobody could be collected: take more episodes, or set "
            "a smaller update_every"
        )
    source = agent.sources[Role.NOISE]
    stream = source.mark() if isinstance(source, FastSource) else None
    secret = records.pack({"kept": agent.privatizer.reveal(), "stream": stream})
    built, learner = records.pack(handover.blueprint(agent)), learner_of(agent, agent.learned, agent.rng)
    promise, keys = promised(agent, wanted), Keys(new_key(), new_key(), new_signing_key())
    moment = clock(now)
    store = connect(url) if isinstance(url, str) else url

    def made(db: Connection) -> None:
        if db.row(sql.BUILT, name=wanted.name) is not None:
            raise InvalidInput(f"there is a deployment {wanted.name!r} already: open it, or take another name")
        if promise.notion != "none":  # simulated people without privacy have no budget
            population.charge(db, wanted.population, wanted.name, promise, wanted.population_budget)
        text, name = json.dumps(document), wanted.name
        db.run(sql.NEW_DEPLOYMENT, name=name, document=text, built=built, size=plan.size, now=moment)
        db.run(sql.NEW_KEYS, name=name, **keys._asdict())
        db.run(sql.NEW_SECRET, name=name, version=0, body=secret)
        db.run(sql.NEW_LEARNER, name=name, version=0, body=learner)
        db.run(sql.NEW_PLAN, name=name, version=0, body=plan.to_json(), hash=plan.hash)

    try:
        store.do(made, alone=True)
    except BaseException:
        if isinstance(url, str):
            store.close()
        raise
    return Deployment(store, wanted.name)


def open(url: str | Store, name: str, *, at_least: int = 0) -> Deployment:  # noqa: A001
    """Opens a deployment that was made before: on this machine or another, after a crash or beside other processes.

    Args:
        url: As for `create`.
        name: Of the deployment.
        at_least: How many releases there were, if the caller knows: an older copy of the database is refused.

    Raises:
        InvalidInput: If there is none of that name.
        RolledBack: If the database is older than ``at_least``.
    """
    store = connect(url) if isinstance(url, str) else url
    try:
        found = Deployment(store, name)
        if found.version < at_least:
            raise RolledBack(f"this database has {found.version} releases, and {at_least} are known: it is an old copy")
        return found
    except BaseException:
        if isinstance(url, str):
            store.close()
        raise


def ledger(url: str | Store, name: str) -> Population:
    """Returns what was charged to a population, by its name: one ledger for all deployments on the same people.

    Raises:
        InvalidInput: If no deployment charged it.
    """
    store = connect(url) if isinstance(url, str) else url
    try:
        found = store.do(lambda db: population.find(db, name))
    finally:
        if isinstance(url, str):
            store.close()
    if found is None:
        raise InvalidInput(f"there is no population {name!r} in {store.url}: no deployment charged it")
    return found


def names(url: str | Store) -> list[str]:
    """Returns the names of the deployments in a database."""
    store = connect(url) if isinstance(url, str) else url
    try:
        return store.do(lambda db: [row[0] for row in db.rows(sql.NAMES)])
    finally:
        if isinstance(url, str):
            store.close()

"""A statement: what a deployment promises, with all that is needed to compute it again, signed.

It is public. It holds parameters, hashes and words: nobody's data, no seed and no key but the public one.
`discreet.live.verdict` computes everything in it anew.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from typing import TYPE_CHECKING, Any

from discreet import __version__
from discreet.live import population, signing, words
from discreet.live.stores import sql
from discreet.runtime import handover, records

if TYPE_CHECKING:
    from discreet.agents.base import LearningAgent
    from discreet.live.config import Config
    from discreet.live.deployment import Deployment
    from discreet.live.stores.base import Connection

__all__ = ["FORMAT", "Statement", "described", "event_of", "plain_config", "state"]

FORMAT = "discreet statement 1"


@dataclasses.dataclass(frozen=True, eq=False)
class Statement:
    """What a deployment promises; make one with `Deployment.statement`.

    Attributes:
        document: All of it, as JSON can hold it.
    """

    document: dict[str, Any]

    def __repr__(self) -> str:
        signed = "unsigned" if self.key is None else "signed"
        return f"<Statement of {self.document['deployment']!r}, {signed}, {self.document['made']}>"

    @property
    def key(self) -> str | None:
        """The public key that it is signed with; None if it is not signed."""
        signer = self.document["signer"]
        return None if signer is None else str(signer["key"])

    def to_dict(self) -> dict[str, Any]:
        """Returns all of it, as JSON can hold it."""
        return signing.read(self.to_json())

    def to_json(self) -> str:
        """Returns the one text of it, every byte of which `discreet verify` checks."""
        return signing.written(self.document)

    def page(self) -> str:
        """Returns it as one HTML page, to be read and printed. It loads nothing from anywhere."""
        from discreet.live.page import page

        return page(self.document)


def state(deployment: Deployment, now: float | None = None) -> Statement:
    """Returns the statement of a deployment as it is now; see `Deployment.statement`."""
    name, config = deployment.name, deployment.config

    def read(db: Connection) -> tuple[Any, ...]:
        row = db.row(sql.DEPLOYMENT, name=name)
        assert row is not None
        hashes, plans = db.rows(sql.HASHES, name=name), db.rows(sql.PLAN_HASHES, name=name)
        return row[0], hashes, plans, population.find(db, config.population)

    status, hashes, plans, people = deployment.store.do(read)
    moment = dt.datetime.fromtimestamp(int(time.time() if now is None else now), dt.UTC)
    key = deployment._keys.signing
    document = {
        "format": FORMAT,
        "discreet": deployment.document["discreet"],
        "written_by": __version__,
        "deployment": name,
        "made": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "state": status,
        "config": plain_config(deployment.document["config"]),
        "resolved": deployment.document["resolved"],
        **described(deployment.agent, config),
        "chain": deployment.document["chain"],
        "releases": [
            {"version": version, "users": users, "hash": own, "chain": chain} for version, users, own, chain in hashes
        ],
        "plans": [{"version": version, "hash": own} for version, own in plans],
        "population": None if people is None else people.to_dict(),
        "signer": None if key is None else {"algorithm": "Ed25519", "key": signing.public_key(key)},
    }
    document["digest"] = signing.digest(document)
    document["signature"] = None if key is None else signing.sign(document, key)
    return Statement(document)


def plain_config(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration without its seed, which simulations may have."""
    return {key: value for key, value in config.items() if key != "seed"}


def described(agent: LearningAgent, config: Config) -> dict[str, Any]:
    """Returns all of a statement that follows from what was built: `discreet.live.verdict` makes it again."""
    from discreet.live.public import promised

    found = promised(agent, config)
    once, asked = agent.guarantee, agent.privacy
    built = handover.blueprint(agent)
    del built["seed"]
    return {
        "simulation": config.simulation,
        "promise": {
            "words": words.promise(found, config),
            "guarantee": found.to_dict(),
            "one_episode": {"epsilon": once.to_dict()["epsilon"], "delta": once.delta},
            "asked": {"epsilon": getattr(asked, "epsilon", None), "delta": getattr(asked, "delta", None)},
        },
        "trust": {"model": type(asked).__name__, "words": words.trusted(found)},
        "not_covered": words.not_covered(found, config),
        "not_checked": words.not_checked(found),
        "mechanism": {
            "sum": agent.mechanism.name,
            "noise": agent.mechanism.noise,
            "events": event_of(found.events),
            "blueprint": records.to_plain(built),
        },
    }


def event_of(event: Any) -> Any:
    """Returns a privacy event as JSON can hold it: its name and its parameters."""
    if isinstance(event, list | tuple):
        return [event_of(part) for part in event]
    if dataclasses.is_dataclass(event):
        names = [field.name for field in dataclasses.fields(event)]
    else:
        names = [field.name for field in getattr(type(event), "__attrs_attrs__", ())]
    if not names:
        return event
    return {"kind": type(event).__name__, **{name: event_of(getattr(event, name)) for name in names}}

"""What a deployment shows: tickets, releases and their chain, and what is promised. All of it is public."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__

if TYPE_CHECKING:
    from discreet.agents.base import LearningAgent
    from discreet.agents.rounds import Policy
    from discreet.live.config import Config
    from discreet.privacy import Guarantee, Report
    from discreet.privatizers import Encoder, Released

__all__ = ["Release", "Ticket", "chained", "genesis", "new_document", "promised"]


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
        said.append(
            f"the app sees to it that nobody has more than {k} slot{'s' * (k > 1)}, with or without a pseudonym"
        )
    return dataclasses.replace(found.group(k), assumptions=(*found.assumptions, *said))


def chained(chain: str, digest: str) -> str:
    """Returns the next link of the hash chain."""
    return hashlib.sha256(f"{chain}\n{digest}".encode()).hexdigest()


def new_document(agent: LearningAgent, config: Config) -> dict[str, Any]:
    """Returns what is written down when a deployment is made."""
    found = {"discreet": __version__, "config": config.to_document(), "resolved": agent.name}
    return {**found, "chain": genesis(found)}


def genesis(document: dict[str, Any]) -> str:
    """Returns what the hash chain begins with: what the deployment is, but for the seed of a simulation."""
    config = {key: value for key, value in document["config"].items() if key != "seed"}
    found = {"discreet": document["discreet"], "config": config, "resolved": document["resolved"]}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()

"""What is asked and answered, as types: the OpenAPI document is made of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

if TYPE_CHECKING:
    from discreet.live import Population

__all__ = [
    "Deployed",
    "Erased",
    "Granted",
    "Handed",
    "Mixed",
    "Open",
    "Planned",
    "Problems",
    "Recorded",
    "Reported",
    "Shown",
    "Spent",
    "Started",
    "Step",
    "Stepped",
]

Name = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,62}$", description="A deployment's name.")]
Token = Annotated[str, Meta(min_length=1, max_length=128, description="What the start of the episode gave.")]


class Started(Struct, forbid_unknown_fields=True):
    """Somebody starts an episode."""

    deployment: Name
    person: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None


class Planned(Struct):
    """What a person plays, and what runs on their device."""

    version: int
    policy: msgspec.Raw
    encoder: msgspec.Raw | None


class Granted(Struct):
    """What a start gives."""

    id: str | None
    token: str | None
    collected: bool
    report_by: float | None
    report_to: str
    plan: Planned


class Reported(Struct, forbid_unknown_fields=True):
    """A person's report: text as the encoder wrote it."""

    token: Token
    report: Annotated[str, Meta(max_length=2**24)]


class Recorded(Struct):
    """It is on the disk."""

    status: str


class Step(Struct, forbid_unknown_fields=True):
    """One step, where the server plays: the state that was reached, and the reward of the step before."""

    token: Token
    state: Annotated[int, Meta(ge=0)]
    reward: Annotated[float, Meta(ge=0, le=1)] | None = None


class Stepped(Struct):
    """What to do next; None at the end."""

    action: int | None


class Erased(Struct):
    """What became of an erasure."""

    status: str


class Mixed(Struct, forbid_unknown_fields=True):
    """A whole batch, from the shuffler."""

    ones: list[Annotated[int, Meta(ge=0, le=2**53)]]
    messages: Annotated[int, Meta(ge=1, le=2**53)]
    users: Annotated[int, Meta(ge=1, le=2**53)]


class Handed(Struct):
    """What a shuffler must know of a batch."""

    deployment: str
    version: int
    size: int
    encoder: msgspec.Raw
    key: str
    closing: bool


class Open(Struct):
    """A batch that a shuffler mixes, and whether it is time to hand it in."""

    deployment: str
    version: int
    closing: bool


class Shown(Struct):
    """A deployment, as anybody with a viewer's key may see it."""

    name: str
    state: str
    version: int
    slots: int
    issued: int
    opened: float
    closes: float | None
    now: float
    guarantee: dict[str, Any]
    config: dict[str, Any]


class Deployed(Struct):
    """A new deployment."""

    name: str
    guarantee: dict[str, Any]
    batches: list[int]


class Spent(Struct):
    """What the deployments of a population have spent of its budget."""

    population: str
    epsilon: float
    delta: float
    spent: float
    charges: list[dict[str, Any]]

    @classmethod
    def of(cls, found: Population) -> Spent:
        """Returns what is shown of a population's ledger."""
        budget = found.budget
        return cls(found.name, budget.epsilon, budget.delta, found.spent, [dict(vars(each)) for each in found.charges])


class Problems(Struct):
    """What went wrong."""

    type: str
    title: str
    status: int
    detail: str

"""The parties between a trajectory and a planner, and the three kinds of things that they hold.

*Public*: a `Mechanism`, its encoders, what was `Released`, the guarantee. *Secret*: what the server keeps of people
(`discreet.sums.Secret`). *Pure*: what a mechanism does to a secret: `fold` puts people in, `release` draws noise and
lets something out, and neither changes what it was given. A `Privatizer` is a mechanism at work, with its secret in
memory.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from discreet.noise import Role
from discreet.privacy import Batch, Report
from discreet.privatizers.shufflers import Shuffler, check_reports
from discreet.sums import Secret

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from discreet.mdp import Trajectory
    from discreet.noise import Source
    from discreet.privacy import Guarantee

__all__ = [
    "AnyMechanism",
    "AnyPrivatizer",
    "Encoder",
    "Kind",
    "Mechanism",
    "PrivateCounts",
    "Privatizer",
    "Released",
    "Shuffler",
    "check_reports",
]

#: Where the noise of a guarantee comes from.
Kind = Literal["fast", "secure"]
B = TypeVar("B", bound=Batch)
T = TypeVar("T")
F = TypeVar("F", bound="Released")
R_co = TypeVar("R_co", bound=Report, covariant=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class Released:
    """What a mechanism let out: public, and all that a planner may see.

    Attributes:
        version: How many releases there were, this one included; 0 before anybody came.
        std: Standard deviation of the noise in a count (in a transition count, if counts differ).
    """

    version: int = 0
    std: float = 0.0


@dataclass(frozen=True, eq=False)
class PrivateCounts(Released):
    """Private counts.

    Attributes:
        visits: Ñ_h(s,a), (H, S, A); the first axis is 1 if pooled over the steps.
        transitions: Ñ_h(s,a,s'), (H, S, A, S) or (1, S, A, S).
        rewards: R̃_h(s,a), sums, (H, S, A) or (1, S, A).
        error: A bound on how far any count is from the truth, at the failure probability it was asked for.
    """

    visits: NDArray[np.float64]
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    error: float = 0.0


class Encoder(Protocol[R_co]):
    """At the user: public parameters, and what turns a trajectory into the report that leaves the device."""

    def encode(self, trajectory: Trajectory, rng: Source | np.random.Generator | None = None) -> R_co:
        """Returns the report; raises, naming a field and its bound, if the trajectory is none of this environment.

        Noise comes from ``rng``, by default from the operating system.
        """

    def absent(self, rng: Source | np.random.Generator | None = None) -> R_co:
        """Returns the report of somebody who did nothing: no visits, and all the noise that a report has.

        It is within the bound that the sensitivity rests on, so replacing a person by an absent one is covered.
        """

    def to_json(self) -> str:
        """Returns the public parameters, from which `discreet.privatizers.codec.from_json` makes the same encoder."""


class Mechanism(ABC, Generic[B, T, F]):
    """A way to ask people and to answer for it: public facts, and pure functions on what a server keeps.

    Subclasses say what a server keeps at first (`start`), with a batch in it (`folded`) and after a release
    (`released`): values that are never changed in place.

    Attributes:
        draws: Who draws its noise: the server, or the users and the shuffler.
    """

    draws: tuple[Role, ...] = (Role.NOISE,)

    @property
    def exact(self) -> bool:
        """Whether it was built for exact noise, all of it: only then it may be given secure sources."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the sum."""

    @property
    @abstractmethod
    def noise(self) -> str:
        """The distribution of its noise, or how it hides."""

    @abstractmethod
    def promise(self, kind: Kind) -> Guarantee:
        """Returns what is proven, for noise from sources of this kind."""

    @property
    def guarantee(self) -> Guarantee:
        """What is proven with noise of the kind that it was built for."""
        return self.promise("secure" if self.exact else "fast")

    @abstractmethod
    def encoder_of(self, version: int) -> Encoder[Report]:
        """Returns what runs at the users of a batch, by its number from 0, if no plan says more."""

    @abstractmethod
    def shuffler(self) -> Shuffler[Any, B]:
        """Returns a new party between users and server."""

    @abstractmethod
    def start(self) -> T:
        """Returns what the server keeps of nobody."""

    def first(self, kept: T, source: Source) -> tuple[T, F | None]:
        """Returns what is released before anybody came, if there is anything to plan from."""
        return kept, None

    @abstractmethod
    def folded(self, kept: T, batch: B, encoder: Encoder[Report]) -> T:
        """Returns what the server keeps with a batch in it; raises if the batch is not what the encoder makes."""

    @abstractmethod
    def released(self, kept: T, source: Source) -> tuple[T, F]:
        """Returns what the server keeps after a release, and the release. Only here noise is drawn."""

    def fold(self, secret: Secret[T], batch: B, encoder: Encoder[Report]) -> Secret[T]:
        """Puts a batch into a secret; the one that was given stays as it was.

        Raises:
            InvalidPersonalData: If somebody's report is out of bounds; the message names the bound only.
        """
        return secret.folded(self.folded(secret.open(), batch, encoder))

    def release(self, secret: Secret[T], source: Source) -> tuple[Secret[T], F]:
        """Draws noise and lets something out; the secret that was given can release no more."""
        kept, found = self.released(secret.open(), source)
        return secret.released(kept), found

    def check(self, report: Report, encoder: Encoder[Report]) -> None:
        """Raises unless one report, alone, may be folded in: before it is acknowledged.

        Raises:
            InvalidPersonalData: Naming the field and the bound.
        """
        self.folded(self.start(), self.shuffler().alone(report), encoder)

    def calibration(self) -> dict[str, Any]:
        """Returns what was calibrated, as plain values: a saved agent goes on with it on any machine."""
        return {}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes what `calibration` returned instead of what was computed here."""


class _Books(NamedTuple):
    """All that changes in a privatizer: replaced as a whole, or not at all."""

    secret: Secret[Any]
    users: int
    version: int
    released: Any


class Privatizer(Generic[B, T, F]):
    """A mechanism at work: its secret in memory, and what it released last.

    Args:
        mechanism: What is asked and answered.
        source: Where the server's noise comes from.
    """

    def __init__(self, mechanism: Mechanism[B, T, F], source: Source) -> None:
        self.mechanism, self.source = mechanism, source
        kept, found = mechanism.first(mechanism.start(), source)
        self._books = _Books(Secret(kept), 0, 0, found)

    def __repr__(self) -> str:
        return f"<privatizer of {self.mechanism.name} after {self.count} users and {self.version} releases>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a privatizer is not copied: two copies would hide different users behind the same noise")

    @property
    def guarantee(self) -> Guarantee:
        """What is proven."""
        return self.mechanism.promise(self.source.kind)

    @property
    def encoder(self) -> Encoder[Report]:
        """What runs at the users of the current batch, if no plan says more."""
        return self.mechanism.encoder_of(self.version)

    @property
    def count(self) -> int:
        """Number of users collected."""
        return self._books.users

    @property
    def version(self) -> int:
        """Number of releases."""
        return self._books.version

    @property
    def last(self) -> F | None:
        """What was released last."""
        found: F | None = self._books.released
        return found

    def collect(self, batch: B, encoder: Encoder[Report] | None = None) -> None:
        """Puts a batch in; nothing changes if an error is raised."""
        books = self._books
        secret = self.mechanism.fold(books.secret, batch, encoder or self.encoder)
        self._books = books._replace(secret=secret, users=books.users + batch.users)

    def release(self) -> F:
        """Draws noise and lets something out."""
        return self._let_out(self._books)

    def observe(self, batch: B, encoder: Encoder[Report] | None = None) -> F:
        """Puts a batch in and releases: both, or nothing changes.

        What can go wrong does so before noise is drawn, or without a look at it; then everything is put down at once.
        """
        books = self._books
        secret = self.mechanism.fold(books.secret, batch, encoder or self.encoder)
        return self._let_out(books._replace(secret=secret, users=books.users + batch.users))

    def _let_out(self, books: _Books) -> F:
        """Releases from ``books``. If it is interrupted, what was drawn is shown to nobody, and the books stay open."""
        kept, drawn = self.mechanism.released(books.secret.open(), self.source)
        version = books.version + 1
        found: F = dataclasses.replace(drawn, version=version)
        self._books = books._replace(secret=Secret(kept), version=version, released=found)
        books.secret.released(kept)  # spent at last: before, an interrupt would have left nothing to go on from
        return found

    def reveal(self) -> T:
        """In simulation: returns what the server keeps, raw personal data included."""
        found: T = self._books.secret.open()
        return found

    def absorb(self, kept: T, users: int) -> F:
        """In simulation: releases from what a short cut folded; see `observe`."""
        books = self._books
        return self._let_out(books._replace(secret=books.secret.folded(kept), users=books.users + users))

    def settle(self, kept: T, users: int, releases: int, last: F) -> None:
        """In simulation: takes what a compiled block did, ``releases`` releases of which ``last`` was the last."""
        books = self._books
        version = books.version + releases
        found = dataclasses.replace(last, version=version)
        self._books = _Books(Secret(kept), books.users + users, version, found)
        books.secret.released(kept)

    def resume(self, secret: Secret[T], count: int, version: int, last: F | None) -> None:
        """Goes on from what another machine handed over."""
        self._books = _Books(secret, count, version, last)


#: Of whatever is asked.
AnyMechanism: TypeAlias = Mechanism[Any, Any, Any]
AnyPrivatizer: TypeAlias = Privatizer[Any, Any, Any]

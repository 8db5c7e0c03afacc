"""What all local mechanisms share: every user hides their own data; the server only adds up and debiases."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, InvalidPersonalData, check_fraction, check_integer
from discreet.noise import Role
from discreet.privacy import Batch, Guarantee, NoisyBatch, NoisyReport, accounting
from discreet.privatizers.base import Encoder, Kind, Mechanism, Released
from discreet.privatizers.shufflers import Collector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.noise import Distribution, Source
    from discreet.privacy import Local, Report, Sensitivity

    Totals = tuple[int, NDArray[np.float64]]

__all__ = ["LOCAL", "LocalMechanism", "NoisyServer"]

#: Noise beyond so many scales never occurs: with probability e⁻¹⁰⁰⁰ if it is Laplace's, and less if Gaussian.
REACH = 1000.0
#: The local sums.
LOCAL: tuple[str, ...] = ("laplace", "gaussian", "sampled", "questions")
B = TypeVar("B", bound=Batch)
T = TypeVar("T")
F = TypeVar("F", bound=Released)


class LocalMechanism(Mechanism[B, T, F]):
    """A mechanism at whose server nothing is raw.

    Guarantee:
        `promise`: local DP of every report, computed from what the encoder really does. Whatever the server does
        with the reports is post-processing.
    """

    draws: tuple[Role, ...] = (Role.ENCODER,)
    batch: ClassVar[type[Batch]]
    encoder: Any

    def __init__(self, privacy: Local, capacity: int, failure: float) -> None:
        self.privacy = privacy
        self.capacity = check_integer("capacity", capacity)
        self.failure = check_fraction("failure", failure)

    @property
    def exact(self) -> bool:
        """Randomisers draw exactly what they account for; whole vectors do so in integers."""
        return self.privacy.noise == "secure"

    def encoder_of(self, version: int) -> Encoder[Report]:
        """The same for all, if no plan says more."""
        found: Encoder[Report] = self.encoder
        return found

    @property
    def user_std(self) -> dict[str, float]:
        """Standard deviation of what one user adds to the error of a count of each family."""
        raise NotImplementedError

    @property
    def fresh_std(self) -> float:
        """Standard deviation of what one user adds to the error of a transition count."""
        return self.user_std["transitions"]

    @property
    def worst_std(self) -> float:
        """Standard deviation of the noise in a transition count, after the last user."""
        return self.fresh_std * math.sqrt(self.capacity)

    def _local(self, event: accounting.DpEvent, delta: float, kind: Kind) -> Guarantee:
        return Guarantee("local", accounting.epsilon(event, delta), delta, noise=kind, events=event)

    def _admit(self, count: int, batch: Batch) -> None:
        """Refuses what is no batch of this kind, and more users than the capacity."""
        if not isinstance(batch, self.batch):
            raise TypeError(f"expected a {self.batch.__name__}, got {type(batch).__name__}")
        if count + batch.users > self.capacity:
            raise CapacityExceeded(
                f"this privatizer holds {self.capacity} users: {count} are in it, got {batch.users} more"
            )

    def calibration(self) -> dict[str, Any]:
        """Returns what users run and what is known of the noise."""
        return {"encoder": self.encoder.to_json(), "error": self.error}  # type: ignore[attr-defined]

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes the encoder of another machine."""
        from discreet.privatizers.codec import from_json

        self.encoder = from_json(found["encoder"])
        self.__dict__.pop("user_std", None)  # that of the old one, if it was asked for
        self.__dict__["error"] = found["error"]


class NoisyServer(LocalMechanism[NoisyBatch, "Totals", F]):
    """What all mechanisms share whose users add noise to their whole vector: the server adds the vectors up.

    It keeps the number of users and the total.
    """

    batch = NoisyBatch

    def __init__(self, privacy: Local, capacity: int, failure: float, sensitivity: Sensitivity, size: int) -> None:
        super().__init__(privacy, capacity, failure)
        self._sensitivity, self._size = sensitivity, size

    @property
    def name(self) -> str:
        """The sum's."""
        found: Distribution = self.encoder.distribution
        return found

    @property
    def noise(self) -> str:
        """Its distribution."""
        return self.name

    def promise(self, kind: Kind) -> Guarantee:
        """Returns local DP of a report."""
        delta = 0.0 if self.encoder.distribution == "laplace" else self.privacy.delta
        return self._local(self._event(), delta, kind)

    def _event(self) -> accounting.DpEvent:
        if self.encoder.distribution == "laplace":
            return accounting.laplace(self.encoder.scale / self._sensitivity.l1)
        return accounting.gaussian(self.encoder.scale / self._sensitivity.l2)

    def shuffler(self) -> Collector[NoisyReport, NoisyBatch]:
        """Collects reports, in order: each is private by itself."""
        return Collector(NoisyReport, NoisyBatch)

    def start(self) -> Totals:
        """Nobody."""
        return 0, np.zeros(self._size)

    @abstractmethod
    def _counts(self, kept: Totals) -> F:
        """Returns what the total says."""

    def first(self, kept: Totals, source: Source) -> tuple[Totals, F]:
        """Zeros."""
        return kept, self._counts(kept)

    def folded(self, kept: Totals, batch: NoisyBatch, encoder: Encoder[Report]) -> Totals:
        """Adds up the vectors, if each is one that the encoder can have made: nobody drowns the others."""
        self._admit(kept[0], batch)
        own = self.encoder
        if (getattr(encoder, "distribution", None), getattr(encoder, "scale", None)) != (own.distribution, own.scale):
            raise InvalidInput("users of this batch must run its own encoder")
        if batch.values.shape != (batch.users, self._size) or batch.values.dtype != np.float64:
            raise InvalidPersonalData(f"reports must have {self._size} finite values")
        most = self._sensitivity.l2 + REACH * own.scale  # no entry of a user's vector is larger than what it can change
        if not (np.abs(batch.values) <= most).all():  # not a number is neither
            raise InvalidPersonalData(f"reports must have {self._size} finite values of at most {most:.6g}")
        if own.exact is not None and (np.ldexp(batch.values, own.exact.bits) % 1).any():
            raise InvalidPersonalData(f"reports must be multiples of 2^-{own.exact.bits}")
        return kept[0] + batch.users, kept[1] + batch.values.sum(axis=0)

    def released(self, kept: Totals, source: Source) -> tuple[Totals, F]:
        """The total is private already: nothing is drawn."""
        return kept, self._counts(kept)

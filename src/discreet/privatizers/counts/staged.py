"""Batches that ask different questions: every user is in exactly one, and every batch is forgotten but for its release.

A batch counts what its layout says (one step of the episode, or all; with or without rewards) with noise of its own,
calibrated for just that. Neighbouring inputs differ in one user and so in one batch: whatever was released before it
is the same, the batch itself is private whatever its policies were, and the rest is post-processing. So all releases
together are as private as the weakest batch (parallel composition, adaptively), and the guarantee is the maximum.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction
from discreet.privacy import Batch, Central, NonPrivate, Shuffle
from discreet.privatizers.base import Encoder, Kind, Mechanism, PrivateCounts
from discreet.privatizers.counts.serve import CentralCounts, ExactCounts
from discreet.privatizers.counts.shuffle import ShuffledCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from discreet.mdp import Spec
    from discreet.noise import Source
    from discreet.privacy import Guarantee, Report, TrustModel
    from discreet.privatizers.base import Shuffler
    from discreet.privatizers.counts.layout import Layout

__all__ = ["Staged", "StagedCounts"]

_Part = ExactCounts | CentralCounts | ShuffledCounts
_Key = tuple[int, "Layout"]


def _exact(spec: Spec, privacy: NonPrivate, users: int, **given: Any) -> ExactCounts:
    return ExactCounts(spec, capacity=users, **given)


def _central(spec: Spec, privacy: Central, users: int, **given: Any) -> CentralCounts:
    if privacy.sum not in ("auto", "batch") or privacy.calibration == "paper":
        asked = f"sum={privacy.sum!r}, calibration={privacy.calibration!r}"
        raise InvalidInput(f"every batch has noise of its own: sum must be 'batch', calibration 'sound', got {asked}")
    return CentralCounts(spec, dataclasses.replace(privacy, sum="batch"), capacity=users, horizon=1, **given)


def _shuffled(spec: Spec, privacy: Shuffle, users: int, **given: Any) -> ShuffledCounts:
    return ShuffledCounts(spec, privacy, batches=[users], **given)


#: What counts one batch, by trust model.
_PARTS: dict[type[Any], Callable[..., _Part]] = {NonPrivate: _exact, Central: _central, Shuffle: _shuffled}


class Staged(NamedTuple):
    """What the server keeps: the number of batches, and what is kept of the one that is not released yet."""

    batch: int
    part: Any


class StagedCounts(Mechanism[Batch, Staged, PrivateCounts]):
    """One question a batch, each with fresh noise.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for: `NonPrivate`, `Central` or `Shuffle`.
        batches: How many users each batch has, in order: public.
        layouts: What each batch counts.
        failure: Probability with which any release's ``error`` may fail; rewards count as the bits that users send.

    Guarantee:
        `promise`: joint or shuffle DP for one user's whole trajectory, that of the weakest batch.
    """

    def __init__(
        self,
        spec: Spec,
        privacy: TrustModel,
        *,
        batches: Sequence[int],
        layouts: Sequence[Layout],
        failure: float = 0.05,
    ) -> None:
        if type(privacy) not in _PARTS:
            kind = type(privacy).__name__
            raise InvalidInput(f"staged batches are for NonPrivate, Central and Shuffle, got {kind}")
        self.spec, self.privacy = spec, privacy
        self.batches, self.layouts = [int(users) for users in batches], list(layouts)
        self.failure = check_fraction("failure", failure)
        self.parts: dict[_Key, _Part] = {}  # one of each kind
        for i, (users, layout) in enumerate(zip(self.batches, self.layouts, strict=True)):
            if self._key(i) not in self.parts:
                given = {"stationary": layout.stationary, "layout": layout}
                self.parts[self._key(i)] = _PARTS[type(privacy)](spec, privacy, users, **given)
        self.draws = self._any.draws

    def _key(self, i: int) -> _Key:
        """What decides the noise of batch ``i``: its users and its layout, whichever step it counts."""
        layout = self.layouts[i]
        return self.batches[i], layout if layout.layer is None else dataclasses.replace(layout, layer=0)

    def part_of(self, version: int) -> _Part:
        """Returns the mechanism of a batch, by its number from 0; after the last one, that of that."""
        i = min(version, len(self.batches) - 1)
        return self.parts[self._key(i)].of(self.layouts[i])

    @property
    def _any(self) -> _Part:
        return next(iter(self.parts.values()))

    @property
    def exact(self) -> bool:
        """Whether all parts are."""
        return all(part.exact for part in self.parts.values())

    @property
    def name(self) -> str:
        """Of the sum."""
        return self._any.name

    @property
    def noise(self) -> str:
        """Its distribution."""
        return self._any.noise

    def encoder_of(self, version: int) -> Encoder[Report]:
        """Returns what runs at the users of a batch."""
        return self.part_of(version).encoder_of(0)

    def shuffler(self) -> Shuffler[Any, Any]:
        """Mixes a batch."""
        return self.part_of(0).shuffler()

    def promise(self, kind: Kind) -> Guarantee:
        """Returns that of the weakest batch."""
        return max((part.promise(kind) for part in self.parts.values()), key=lambda found: found.epsilon)

    def std(self, batch: int) -> float:
        """Returns the standard deviation of the noise in a count of a batch: public."""
        return getattr(self.parts[self._key(batch)], "fresh_std", 0.0)  # exact counts have no noise to speak of

    def messages_per_user(self, batch: int) -> int:
        """Returns how many one-bit messages a user of a batch sends, under `Shuffle`; 0 elsewhere."""
        return self.parts[self._key(batch)].messages_per_user

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the noise in a count of the last batch."""
        return self.std(len(self.batches) - 1)

    @property
    def worst_std(self) -> float:
        """The largest standard deviation of the noise in any count."""
        return max(self.std(i) for i in range(len(self.batches)))

    @cached_property
    def errors(self) -> list[float]:
        """A bound on the noise of each batch's counts; all of them hold with probability 1 − ``failure``."""
        share = self.failure / len(self.batches)
        bounds = {key: part.noise_bound(share) for key, part in self.parts.items()}
        return [bounds[self._key(i)] for i in range(len(self.batches))]

    @property
    def error(self) -> float:
        """A bound on how far any count ever is from the users' bits."""
        return max(self.errors)

    def start(self) -> Staged:
        """Nobody."""
        return Staged(0, None)

    def folded(self, kept: Staged, batch: Batch, encoder: Encoder[Report]) -> Staged:
        """Adds the current batch."""
        part, mechanism = self.opened(kept, batch.users)
        return Staged(kept.batch, mechanism.folded(part, batch, encoder))  # type: ignore[arg-type]

    def check(self, report: Report, encoder: Encoder[Report]) -> None:
        """Raises unless one report may be folded into a batch that counts what the encoder does."""
        layout = getattr(encoder, "layout", None)
        i = next((i for i, own in enumerate(self.layouts) if own == layout), None)
        if i is None:
            raise InvalidInput("users of this batch must run its own encoder")
        self.part_of(i).check(report, encoder)

    def opened(self, kept: Staged, users: int) -> tuple[Any, _Part]:
        """Returns what is kept of the current batch, and its mechanism, if it has room for these users."""
        if kept.batch == len(self.batches):
            held = sum(self.batches)
            raise CapacityExceeded(f"this privatizer holds {held} users: all are in it, got {users} more")
        if users != self.batches[kept.batch]:
            expected = self.batches[kept.batch]
            raise InvalidInput(f"the noise of this batch was calibrated for {expected} users, got {users}")
        mechanism = self.part_of(kept.batch)
        return mechanism.start() if kept.part is None else kept.part, mechanism

    def released(self, kept: Staged, source: Source) -> tuple[Staged, PrivateCounts]:
        """Releases the counts of the current batch, and forgets it."""
        if kept.part is None:
            raise InvalidInput("nobody is in the current batch: there is nothing to release")
        _, found = self.part_of(kept.batch).released(kept.part, source)
        found = dataclasses.replace(found, error=self.errors[kept.batch], std=self.std(kept.batch))
        return Staged(kept.batch + 1, None), found

    def calibration(self) -> dict[str, Any]:
        """Returns what was calibrated for each kind of batch."""
        return {"parts": [part.calibration() for part in self.parts.values()], "errors": self.errors}

    def recalibrate(self, found: dict[str, Any]) -> None:
        """Takes the noise of another machine."""
        for part, own in zip(self.parts.values(), found["parts"], strict=True):
            part.recalibrate(own)
        self.errors = found["errors"]

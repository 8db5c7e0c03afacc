"""Batches that ask different questions: every user is in exactly one, and every batch is forgotten but for its release.

A batch counts what its layout says (one step of the episode, or all; with or without rewards) with noise of its own,
calibrated for just that. Neighbouring inputs differ in one user and so in one batch: whatever was released before it
is the same, the batch itself is private whatever its policies were, and the rest is post-processing. So all releases
together are as private as the weakest batch (parallel composition, adaptively), and the guarantee is the maximum.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet.errors import CapacityExceeded, InvalidInput, check_fraction
from discreet.privacy import Central, NonPrivate, RawTotals, Shuffle, ShuffledBatch
from discreet.privatizers.base import Collector, PrivateCounts
from discreet.privatizers.central import CentralPrivatizer
from discreet.privatizers.encoders import BinomialEncoder, RawEncoder, SimulatedBinomialEncoder
from discreet.privatizers.nonprivate import NonPrivatePrivatizer
from discreet.privatizers.shuffle import ShufflePrivatizer, SimulatedShuffler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.mdp import Spec
    from discreet.privacy import Batch, Guarantee, Report, TrustModel
    from discreet.privatizers.base import Encoder, Shuffler
    from discreet.privatizers.layout import Layout

__all__ = ["StagedPrivatizer", "Tally"]

_Part = NonPrivatePrivatizer | CentralPrivatizer | ShufflePrivatizer
_Key = tuple[int, "Layout"]


class StagedPrivatizer:
    """One question a batch, each with fresh noise.

    Args:
        spec: The environment's public sizes.
        privacy: What is asked for: `NonPrivate`, `Central` or `Shuffle`.
        batches: How many users each batch has, in order: public.
        layouts: What each batch counts.
        failure: Probability with which any `counts().error` may fail; rewards count as the bits that users send.
        rng: Where the server's noise comes from.
        messages: Under `Shuffle`: whether every bit is drawn and mixed; else simulated totals with the same law are.

    Guarantee:
        ``guarantee``: joint or shuffle DP for one user's whole trajectory, that of the weakest batch.
    """

    def __init__(
        self,
        spec: Spec,
        privacy: TrustModel,
        *,
        batches: Sequence[int],
        layouts: Sequence[Layout],
        failure: float = 0.05,
        rng: np.random.Generator,
        messages: bool = False,
    ) -> None:
        if not isinstance(privacy, NonPrivate | Central | Shuffle):
            kind = type(privacy).__name__
            raise InvalidInput(f"staged batches are for NonPrivate, Central and Shuffle, got {kind}")
        if isinstance(privacy, Central) and (privacy.sum not in ("auto", "batch") or privacy.calibration == "paper"):
            asked = f"sum={privacy.sum!r}, calibration={privacy.calibration!r}"
            raise InvalidInput(
                f"every batch has noise of its own: sum must be 'batch', calibration 'sound', got {asked}"
            )
        self.spec, self.privacy, self.messages = spec, privacy, messages
        self.batches, self.layouts = [int(users) for users in batches], list(layouts)
        self.failure = check_fraction("failure", failure)
        self.rng = rng
        self._models: dict[_Key, _Part] = {}  # one of each kind
        for i in range(len(self.batches)):
            if self._key(i) not in self._models:
                self._models[self._key(i)] = self._build(i)
        self.batch = 0
        self._part = self._fresh(0)
        self._released: PrivateCounts | None = None

    def _key(self, i: int) -> _Key:
        """What decides the noise of batch ``i``: its users and its layout, whichever step it counts."""
        layout = self.layouts[i]
        return self.batches[i], layout if layout.layer is None else dataclasses.replace(layout, layer=0)

    def _build(self, i: int) -> _Part:
        """Returns a new privatizer for batch ``i``, calibrated."""
        users, layout, privacy = self.batches[i], self.layouts[i], self.privacy
        given: dict[str, Any] = {"stationary": layout.stationary, "layout": layout}
        if isinstance(privacy, NonPrivate):
            return NonPrivatePrivatizer(self.spec, capacity=users, guarantee=privacy.guarantee, **given)
        if isinstance(privacy, Central):
            chosen = dataclasses.replace(privacy, sum="batch")
            return CentralPrivatizer(self.spec, chosen, capacity=users, horizon=1, rng=self.rng, **given)
        return ShufflePrivatizer(self.spec, privacy, batches=[users], messages=self.messages, **given)

    def _fresh(self, i: int) -> _Part:
        """Returns a privatizer for batch ``i`` that nobody is in, with the noise of its kind."""
        model = self._models[self._key(i)]
        return model.anew(self.layouts[i]) if isinstance(model, ShufflePrivatizer) else self._build(i)

    @property
    def encoder(self) -> Encoder[Any]:
        """What runs at the users of the current batch."""
        return self._part.encoder

    @property
    def shuffler(self) -> Shuffler[Any, Any]:
        """What mixes the current batch."""
        return cast("Shuffler[Report, Batch]", self._part.shuffler)

    @property
    def name(self) -> str:
        """Of the sum."""
        return self._part.name

    @property
    def noise(self) -> str:
        """Its distribution."""
        return self._part.noise

    @property
    def count(self) -> int:
        """Number of users collected."""
        return sum(self.batches[: self.batch])

    @cached_property
    def guarantee(self) -> Guarantee:
        """That of the weakest batch."""
        return max((model.guarantee for model in self._models.values()), key=lambda found: found.epsilon)

    def std(self, batch: int) -> float:
        """Returns the standard deviation of the noise in a count of a batch: public."""
        model = self._models[self._key(batch)]
        return 0.0 if isinstance(model, NonPrivatePrivatizer) else model.fresh_std

    def messages_per_user(self, batch: int) -> int:
        """Returns how many one-bit messages a user of a batch sends, under `Shuffle`; 0 elsewhere."""
        model = self._models[self._key(batch)]
        return model.messages_per_user if isinstance(model, ShufflePrivatizer) else 0

    @property
    def fresh_std(self) -> float:
        """Standard deviation of the noise in a count of the current batch."""
        return self.std(min(self.batch, len(self.batches) - 1))

    @property
    def worst_std(self) -> float:
        """The largest standard deviation of the noise in any count."""
        return max(self.std(i) for i in range(len(self.batches)))

    @cached_property
    def errors(self) -> list[float]:
        """A bound on the noise of each batch's counts; all of them hold with probability 1 − ``failure``."""
        share = self.failure / len(self.batches)
        bounds: dict[_Key, float] = {}
        for key, model in self._models.items():
            if isinstance(model, ShufflePrivatizer):
                bounds[key] = model.noise_bound(share)
            elif isinstance(model, CentralPrivatizer):
                bounds[key] = model.sum.error_bound(share, groups=model._groups)
            else:
                bounds[key] = 0.0
        return [bounds[self._key(i)] for i in range(len(self.batches))]

    @property
    def error(self) -> float:
        """A bound on how far any count ever is from the users' bits."""
        return max(self.errors)

    def collect(self, batch: Batch) -> None:
        """Adds the current batch, releases its counts, and goes on to the next; nothing changes if an error is raised.

        In simulation a trusted server may be given the batch's total instead of every user's row.
        """
        if self.batch == len(self.batches):
            raise CapacityExceeded(f"this privatizer holds {self.count} users: all are in it, got {batch.users} more")
        if batch.users != self.batches[self.batch]:
            expected = self.batches[self.batch]
            raise InvalidInput(f"the noise of this batch was calibrated for {expected} users, got {batch.users}")
        part = self._part
        if isinstance(batch, RawTotals):
            if isinstance(part, ShufflePrivatizer):
                raise TypeError(f"expected a ShuffledBatch, got {type(batch).__name__}")
            total, *_ = part.sum.stretch(batch.users, 0)
            total += batch.total
            part.sum.resume(waiting=True)
        else:
            part.collect(cast("Any", batch))
        part.error = self.errors[self.batch]
        self._released = part.counts()
        self.batch += 1
        if self.batch < len(self.batches):
            self._part = self._fresh(self.batch)

    def counts(self) -> PrivateCounts:
        """Returns what the last batch released."""
        if self._released is None:
            raise InvalidInput("nothing has been released yet")
        return self._released

    def state(self) -> dict[str, Any]:
        """Returns copies of all that changes, by name."""
        last = self._released
        released = None if last is None else [last.visits, last.transitions, last.rewards, last.error]
        return copy.deepcopy({"batch": self.batch, "released": released, "part": self._part.state()})

    def restore(self, state: dict[str, Any]) -> None:
        """Goes back to a `state`, which is used up."""
        self.batch = state["batch"]
        self._released = None if state["released"] is None else PrivateCounts(*state["released"])
        self._part = self._fresh(min(self.batch, len(self.batches) - 1))
        self._part.restore(state["part"])
        if isinstance(self._part, CentralPrivatizer):
            self.rng = self._part.sum._rng  # one generator for all batches

    @property
    def encoders(self) -> list[Encoder[Any]]:
        """One of each kind: what was calibrated."""
        return [model.encoder for model in self._models.values()]

    def recalibrate(self, encoders: Sequence[Any]) -> None:
        """Takes the noise of ``encoders`` (see `encoders`) instead of what was calibrated."""
        for model, encoder in zip(self._models.values(), encoders, strict=True):
            if isinstance(model, ShufflePrivatizer):
                model.put_encoders(dict.fromkeys(model._encoders, encoder))
        self._part = self._fresh(min(self.batch, len(self.batches) - 1))

    @property
    def simulated(self) -> bool:
        """Whether `tally` does what encoder and shuffler of the current batch do."""
        encoder, shuffler = type(self.encoder), type(self.shuffler)
        return (encoder, shuffler) in ((RawEncoder, Collector), (SimulatedBinomialEncoder, SimulatedShuffler))

    def tally(self) -> Tally:
        """In simulation only: returns what stands for the users and the shuffler of the current batch."""
        return Tally(self)


class Tally:
    """In simulation only: the total of a batch while its users play, bit for bit what their reports add up to."""

    def __init__(self, privatizer: StagedPrivatizer) -> None:
        self._encoder = cast("RawEncoder | SimulatedBinomialEncoder", privatizer.encoder)
        self._total: NDArray[Any] = np.zeros(self._encoder.layout.size, dtype=np.float64 if self._raw else np.int64)
        self.users = 0

    @property
    def _raw(self) -> bool:
        return not isinstance(self._encoder, SimulatedBinomialEncoder | BinomialEncoder)

    def add(
        self,
        states: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> None:
        """Adds users, a row each; ``rng`` is that of their encoders."""
        indices, values = self._encoder.contributions(states, actions, rewards)
        if self._raw:
            np.add.at(self._total, indices.ravel(), values.ravel())
        else:
            ones = rng.random(values.shape) < values
            self._total += np.bincount(indices[ones], minlength=len(self._total))
        self.users += len(states)

    def batch(self, rng: np.random.Generator) -> Batch:
        """Returns what the shuffler hands on; ``rng`` is the shuffler's."""
        encoder = self._encoder
        if not isinstance(encoder, SimulatedBinomialEncoder):
            return RawTotals(self._total, self.users)
        noise = rng.binomial(self.users * encoder.noise_bits, encoder.probability, size=encoder.layout.size)
        return ShuffledBatch(noise + self._total, self.users * encoder.messages, self.users)

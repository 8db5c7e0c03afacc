"""Rounds: what the people of a batch play, and when the policy changes. All of it is public.

A round begins with a `Plan`, which is all that a device, a simulation or a service need to know, and ends with a
release. Batches end after public numbers of users, never depending on what they did.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from discreet.privacy import Report
    from discreet.privatizers import Encoder

#: Actions, or probabilities of them.
Policy: TypeAlias = "NDArray[np.int64] | NDArray[np.float64]"

__all__ = ["Listed", "Phase", "Plan", "Policy", "Proposal", "Schedule", "Stages"]


class Proposal(NamedTuple):
    """What a learner wants the next batch to play and to be asked.

    Attributes:
        policies: (n, H, S), or (n, H, S, A) of probabilities.
        users: How many play each, in order, (n,).
        rest: What people play who are in no batch, (H, S) or (H, S, A): the best that is known.
        carried: What the encoder of the batch is given, arrays by name.
    """

    policies: Policy
    users: NDArray[np.int64]
    rest: Policy
    carried: Mapping[str, NDArray[np.int64] | NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Plan:
    """One round: public, and never changed. Playing and encoding need nothing else of the server.

    A person belongs to a *slot* of the batch from the start: slot i is the i-th to begin, whoever reports when.

    Attributes:
        version: How many releases it rests on: the number of its batch, from 0.
        start: Users before it.
        size: Slots of the batch; 0 if nobody is collected any more.
        policies: (n, H, S), or (n, H, S, A) of probabilities.
        users: How many slots play each, in order, (n,).
        rest: What people play who are in no slot.
        encoder: What runs at the people of the batch.
    """

    version: int
    start: int
    size: int
    policies: Policy
    users: NDArray[np.int64]
    rest: Policy
    encoder: Encoder[Report]

    def __post_init__(self) -> None:
        for array in (self.policies, self.users, self.rest, *vars(self.encoder).values()):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
        if self.users.shape != (len(self.policies),) or (self.users < 0).any():
            raise InvalidInput(f"a plan says how many slots play each of its {len(self.policies)} policies")
        if self.users.sum() != self.size:
            raise InvalidInput(f"a plan for {self.size} slots says what {int(self.users.sum())} of them play")

    def __repr__(self) -> str:
        return f"<Plan {self.version}: {self.size} slots from {self.start}, {len(self.policies)} policies>"

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.users)

    def policy(self, slot: int) -> Policy:
        """Returns what a slot plays, from 0; whoever comes after the last one plays ``rest``."""
        i = int(np.searchsorted(self._ends, check_integer("slot", slot, least=0), side="right"))
        found: Policy = (self.policies[i] if i < len(self._ends) else self.rest).copy()
        return found

    @property
    def assignments(self) -> list[tuple[Policy, int]]:
        """The policies, and how many slots play each, in order."""
        return [(policy.copy(), int(n)) for policy, n in zip(self.policies, self.users, strict=True)]

    def to_json(self) -> str:
        """Returns all of it, as a device or a record can hold it."""
        document = {name: getattr(self, name) for name in ("version", "start", "size")}
        document |= {name: getattr(self, name).tolist() for name in ("policies", "users", "rest")}
        return json.dumps({**document, "encoder": json.loads(self.encoder.to_json())})

    @classmethod
    def from_json(cls, text: str, **pins: Any) -> Plan:
        """Returns the plan that `to_json` wrote.

        Args:
            text: The JSON.
            pins: What the owner of a device asks of the encoder: see `discreet.privatizers.codec.from_json`.

        Raises:
            InvalidInput: If the text is no plan, or its encoder hides less than is asked for.
        """
        from discreet.privatizers.codec import from_json

        try:
            found = json.loads(text)
            encoder = from_json(json.dumps(found["encoder"]), **pins)
            rest = np.array(found["rest"])
            policies = np.array(found["policies"], dtype=rest.dtype).reshape(-1, *rest.shape)
            version, start, size = (check_integer(name, found[name], least=0) for name in ("version", "start", "size"))
            users = np.array([check_integer("users", n, least=0, most=size) for n in found["users"]], dtype=np.int64)
            _check_policies(policies, rest, users, encoder)
            return cls(version, start, size, policies, users, rest, encoder)
        except InvalidInput:
            raise
        except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as e:
            raise InvalidInput(f"this is not a plan: {type(e).__name__}") from None

    @property
    def hash(self) -> str:
        """SHA-256 of `to_json`: what everybody who was given this plan can compare."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def _check_policies(policies: Policy, rest: Policy, users: NDArray[np.int64], encoder: Any) -> None:
    """Raises unless everybody can play what a plan says."""
    if len(users) != len(policies):
        raise InvalidInput("a plan must say of every policy how many slots play it")
    spec = getattr(getattr(encoder, "layout", encoder), "spec", None)
    if spec is None:  # of another package
        return
    shape = (spec.horizon, spec.states)
    if rest.shape not in (shape, (*shape, spec.actions)) or rest.dtype.kind != "if"[rest.ndim - 2]:
        raise InvalidInput("the policies of a plan must be actions (H, S), or probabilities (H, S, A)")
    most = 1.0 if rest.ndim > 2 else spec.actions - 1
    for played in (policies, rest):
        if not ((played >= 0) & (played <= most)).all():  # not a number is neither
            raise InvalidInput(f"the policies of a plan must lie in [0, {most}]")


@dataclass(frozen=True)
class Schedule:
    """The sizes of the batches.

    Attributes:
        update_every: Users a batch; ``"geometric"`` makes every batch a fifth of the users so far, and at least 1.
    """

    update_every: int | str

    def __post_init__(self) -> None:
        if isinstance(self.update_every, str):
            if self.update_every != "geometric":
                raise UnknownName("update_every", self.update_every, ["geometric"])
        else:
            try:
                object.__setattr__(self, "update_every", check_integer("update_every", self.update_every))
            except InvalidInput as error:
                raise InvalidInput(f"{error}; or give 'geometric'") from None

    def batch_size(self, count: int) -> int:
        """Returns the size of the batch that begins after ``count`` users."""
        return max(1, count // 5) if isinstance(self.update_every, str) else self.update_every

    def ends(self, count: int, users: int) -> NDArray[np.int64]:
        """Returns after how many of the next ``users`` users each whole batch ends; a batch begins after ``count``."""
        if isinstance(self.update_every, int):
            return np.arange(self.update_every, users + 1, self.update_every, dtype=np.int64)
        ends, end = [], self.batch_size(count)
        while end <= users:
            ends.append(end)
            end += self.batch_size(count + end)
        return np.array(ends, dtype=np.int64)


class Phase(NamedTuple):
    """One batch of `Stages`.

    Attributes:
        stage: Which stage, from 0.
        layer: The step, from 0, that crude exploration explores; None is fine exploration.
        users: How many users, the same number for each policy.
        start: How many users come before it.
    """

    stage: int
    layer: int | None
    users: int
    start: int


class Stages:
    """The batches of SDP-PE: H crude ones, a layer each, and a fine one in every stage, whose length doubles.

    Stage b has L_b = 2^b users for crude and as many for fine exploration, from the smallest b with L_b ≥ HSA on; the
    last one has half of what is left (Algorithm 1, lines 2 to 4), if that is at least HSA. Every policy is played by
    ⌊L_b/(HSA)⌋ users; who is left over comes last.

    Attributes:
        lengths: L_b of every stage.
        each: Users a policy in every stage.
        phases: The batches.
        update_every: None: the stages say when the policy changes.

    Raises:
        InvalidInput: If there are not enough episodes for one stage.
    """

    update_every = None

    def __init__(self, episodes: int, horizon: int, states: int, actions: int) -> None:
        self.episodes, HSA = episodes, horizon * states * actions
        self.lengths: list[int] = []
        L, used = 1 << (HSA - 1).bit_length(), 0
        while used < episodes:
            if used + 2 * L >= episodes:  # line 2
                L = (episodes - used) // 2  # line 3
                if L >= HSA:
                    self.lengths.append(L)
                break
            self.lengths.append(L)
            used += 2 * L
            L *= 2
        if not self.lengths:
            raise InvalidInput(
                f"the first stage of sdp-pe needs 2·H·S·A = {2 * HSA} episodes at least, got episodes={episodes}"
            )
        self.each = [L // HSA for L in self.lengths]
        self.phases: list[Phase] = []
        start = 0
        for stage, each in enumerate(self.each):
            for layer in (*range(horizon), None):
                users = each * (HSA if layer is None else states * actions)
                self.phases.append(Phase(stage, layer, users, start))
                start += users
        self.total = start
        self._starts = [phase.start for phase in self.phases]

    def index(self, count: int) -> int:
        """Returns the number of the batch that begins after ``count`` users; after the last one, their number."""
        return len(self.phases) if count >= self.total else bisect_right(self._starts, count) - 1

    def batch_size(self, count: int) -> int:
        """Returns the size of the batch that begins after ``count`` users; at last one that cannot be completed."""
        i = self.index(count)
        return self.phases[i].users if i < len(self.phases) else self.episodes - count + 1

    def ends(self, count: int, users: int) -> NDArray[np.int64]:
        """Returns after how many of the next ``users`` users each whole batch ends; a batch begins after ``count``."""
        ends = np.array([phase.start + phase.users for phase in self.phases], dtype=np.int64) - count
        return ends[(ends > 0) & (ends <= users)]


@dataclass(frozen=True)
class Listed:
    """Batches of given sizes, one after the other; whoever comes after the last one is in none.

    Attributes:
        sizes: Users of each batch.
        episodes: Users at most.
        update_every: None: the sizes say when the policy changes.
    """

    sizes: tuple[int, ...]
    episodes: int
    update_every: ClassVar[None] = None

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.sizes, dtype=np.int64)

    def batch_size(self, count: int) -> int:
        """Returns the size of the batch that begins after ``count`` users; at last one that cannot be completed."""
        i = int(np.searchsorted(self._ends, count, side="right"))
        return self.sizes[i] if i < len(self.sizes) else self.episodes - count + 1

    def ends(self, count: int, users: int) -> NDArray[np.int64]:
        """Returns after how many of the next ``users`` users each whole batch ends; a batch begins after ``count``."""
        ends = self._ends - count
        return ends[(ends > 0) & (ends <= users)]

"""Trust models: whom the users trust with what."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from discreet.errors import InvalidInput, UnknownName
from discreet.privacy.budget import Budget
from discreet.privacy.guarantee import Guarantee

__all__ = [
    "CALIBRATIONS",
    "RELEASES",
    "TRUST_MODELS",
    "Central",
    "Local",
    "NonPrivate",
    "Shuffle",
    "TrustModel",
    "trust",
]

#: How noise is scaled: to a proof of the budget, or as the paper prints it.
CALIBRATIONS = ("sound", "paper")
#: What every learner from counts can release: its own choice; all three families, or transitions and rewards only.
RELEASES = ("auto", "nmr", "mr")
_NOISES = ("fast", "secure")


class TrustModel:
    """Base class of the trust models."""


@dataclass(frozen=True)
class NonPrivate(TrustModel):
    """Everybody trusts everybody: exact sums, no noise.

    Guarantee:
        None at all. It is the baseline that private learners are measured against.
    """

    @property
    def guarantee(self) -> Guarantee:
        """The promise of notion ``"none"``."""
        return Guarantee("none", math.inf, 0.0, protects="nothing", noise="none")


@dataclass(frozen=True)
class _Budgeted(TrustModel):
    """What all private trust models take."""

    epsilon: float
    delta: float = 0.0
    sum: str = "auto"
    calibration: str = "sound"
    noise: str = "fast"

    sums: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        budget = Budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)
        for name, known in (("sum", self.sums), ("calibration", CALIBRATIONS), ("noise", _NOISES)):
            if getattr(self, name) not in known:
                raise UnknownName(name, getattr(self, name), known)
        if self.noise == "secure":
            raise InvalidInput("noise='secure' is not built yet; noise='fast' is for simulation, never for release")

    @property
    def budget(self) -> Budget:
        """What is asked for."""
        return Budget(self.epsilon, self.delta)


@dataclass(frozen=True)
class Central(_Budgeted):
    """Users trust the server with raw data; whatever the server releases is differentially private.

    Args:
        epsilon: The budget's ε.
        delta: The budget's δ; 0 asks for pure DP (Laplace noise), more for approximate DP (Gaussian noise).
        sum: The private sum: ``"tree"``, ``"smooth-tree"``, ``"factored"``, ``"optimal"`` (up to 64 reads),
            ``"batch"``, or ``"auto"``: the one with the least noise that is proven for the budget.
        calibration: ``"sound"`` proves the budget; ``"paper"`` takes the printed noise (``sum="tree"``, Laplace), and
            the guarantee then states the ε that this noise really gives.
        noise: ``"fast"`` for simulation; ``"secure"``, for release, is not built yet and raises.
        release: ``"nmr"`` releases visits, transitions and rewards, ``"mr"`` derives the visits, ``"weighted"`` (of
            discreet-vi) counts that users weight so that their norm is bounded; ``"auto"`` is the agent's own choice.

    Guarantee:
        Joint DP of the agent for every user's whole trajectory, replace-one: the released reads are (ε, δ)-DP, and what
        other users are shown is computed from them alone (billboard lemma).
    """

    release: str = "auto"

    sums = ("tree", "smooth-tree", "factored", "optimal", "batch", "auto")
    releases: ClassVar[tuple[str, ...]] = (*RELEASES, "weighted")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release not in self.releases:
            raise UnknownName("release", self.release, self.releases)


@dataclass(frozen=True)
class Local(_Budgeted):
    """Users trust nobody: what leaves a user's device is already private.

    Args:
        epsilon: The budget's ε.
        delta: The budget's δ.
        sum: ``"laplace"`` (as in the paper), ``"gaussian"`` (needs δ > 0), ``"sampled"``: one step of the episode,
            drawn independently of the data, at the full ε; ``"questions"``: one question about one cell, at the full
            ε, which is what discreet-vi asks; or ``"auto"``: questions in discreet-vi, elsewhere the least noise that
            is proven for the budget.
        calibration: ``"sound"``, or ``"paper"`` (``sum="laplace"``), which loses 2ε and says so.
        noise: ``"fast"`` for simulation; ``"secure"`` is not built yet and raises.
        randomiser: How ``sampled`` and ``questions`` hide a value: ``"unary"``, ``"subset"``, ``"response"`` or
            ``"auto"``.

    Guarantee:
        Local DP of every report, for the user's whole trajectory.
    """

    randomiser: str = "auto"

    sums = ("laplace", "gaussian", "sampled", "questions", "auto")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon > 100:
            raise InvalidInput(f"local privacy goes up to epsilon=100, got epsilon={self.epsilon!r}")


@dataclass(frozen=True)
class Shuffle(_Budgeted):
    """Users trust a shuffler that takes their messages apart and mixes them, and the other users to add their noise.

    Args:
        epsilon: The budget's ε.
        delta: The budget's δ, more than 0.
        sum: ``"binomial"``: one-bit messages with Bernoulli noise bits; ``"auto"`` is the same.
        calibration: ``"sound"``, or ``"paper"``: the printed number of noise bits, with the ε that they really give.
        noise: ``"fast"`` for simulation; ``"secure"`` is not built yet and raises.
        release: As for `Central`; or ``"first-visits"``: each batch is asked about a public list of cells (s, a), and
            of each only the first visit is counted. It is what ``"auto"`` means to discreet-vi; others do not take it.
        honest_fraction: The share of each batch that is trusted to add its noise bits; it enters the account.

    Guarantee:
        Shuffle DP of every batch, for one user's whole trajectory; each user is in exactly one batch.
    """

    release: str = "auto"
    honest_fraction: float = 1.0

    sums = ("binomial", "auto")
    releases: ClassVar[tuple[str, ...]] = (*RELEASES, "first-visits")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release not in self.releases:
            raise UnknownName("release", self.release, self.releases)
        if self.delta == 0:
            raise InvalidInput("the shuffle model needs delta > 0, got delta=0.0")
        if not 0 < self.honest_fraction <= 1:
            raise InvalidInput(f"honest_fraction must lie in (0, 1], got honest_fraction={self.honest_fraction!r}")


#: By the names that the command line uses.
TRUST_MODELS: dict[str, type[TrustModel]] = {
    "none": NonPrivate,
    "central": Central,
    "local": Local,
    "shuffle": Shuffle,
}


def trust(name: str, **options: Any) -> TrustModel:
    """Returns a trust model by name; options that are None are left to their defaults.

    Raises:
        ValueError: If there is no such trust model, or if it does not take an option.
    """
    if name not in TRUST_MODELS:
        raise UnknownName("trust model", name, TRUST_MODELS)
    takes = {kind: [field.name for field in fields(model)] for kind, model in TRUST_MODELS.items()}  # type: ignore[arg-type]
    given = {key: value for key, value in options.items() if value is not None}
    for key, value in given.items():
        if key not in takes[name]:
            others = ", ".join(kind for kind, known in takes.items() if key in known)
            raise InvalidInput(f"{key}={value!r} is for the trust model {others or 'of nobody'}, got {name}")
    return TRUST_MODELS[name](**given)

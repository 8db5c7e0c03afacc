"""Trust models: whom the users trust with what."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from discreet.errors import InvalidInput, UnknownName
from discreet.privacy.budget import Budget
from discreet.privacy.guarantee import Guarantee
from discreet.registry import Registry
from discreet.registry.options import Option, about, table, union

__all__ = [
    "CALIBRATIONS",
    "RELEASES",
    "SUMS",
    "TRUST_MODELS",
    "Central",
    "Local",
    "NonPrivate",
    "Shuffle",
    "TrustModel",
    "options",
    "trust",
]

#: How noise is scaled: to a proof of the budget, or as the paper prints it.
CALIBRATIONS = ("sound", "paper")
#: What every learner from counts can release: its own choice; all three families, or transitions and rewards only.
RELEASES = ("auto", "nmr", "mr")
_NOISES = ("fast", "secure")


_RELEASE = about(
    "Central, shuffle: nmr, mr (visits are derived) or auto; discreet-vi: weighted (central), first-visits (shuffle).",
    label="{} release",
)


#: All sums, by the trust model that they are for. A central one is a `discreet.sums.factorisation.Factorisation`; the
#: privatizers of the other trust models know theirs by name.
SUMS: Registry[Any] = Registry("sum")
SUMS.add("tree", "discreet.sums.factorisation:Binary", trust="central")
SUMS.add("smooth-tree", "discreet.sums.factorisation:Smooth", trust="central")
SUMS.add("factored", "discreet.sums.factorisation:Factored", trust="central")
SUMS.add("optimal", "discreet.sums.factorisation:Optimal", trust="central")
SUMS.add("batch", "discreet.sums.factorisation:Batch", trust="central")
for _name in ("laplace", "gaussian", "sampled", "questions"):
    SUMS.add(_name, None, trust="local")
SUMS.add("binomial", None, trust="shuffle")


class _Sums:
    """What a trust model can be asked for as its ``sum``: whatever is registered for it, and ``"auto"``."""

    def __init__(self, trust: str) -> None:
        self.trust = trust

    def __get__(self, instance: object, owner: type) -> tuple[str, ...]:
        return (*(name for name, found in SUMS.entries.items() if found.facts.get("trust") == self.trust), "auto")


class TrustModel:
    """Base class of the trust models.

    Attributes:
        whom: Whom users trust, in a few words.
        releases: What a learner can be asked to release, if it has a choice.
    """

    whom: ClassVar[str] = ""
    releases: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class NonPrivate(TrustModel):
    """Everybody trusts everybody: exact sums, no noise.

    Guarantee:
        None at all. It is the baseline that private learners are measured against.
    """

    whom = "no privacy: the baseline"

    @property
    def guarantee(self) -> Guarantee:
        """The promise of notion ``"none"``."""
        return Guarantee("none", math.inf, 0.0, protects="nothing", noise="none")


@dataclass(frozen=True)
class _Budgeted(TrustModel):
    """What all private trust models take."""

    epsilon: float = field(metadata=about("The budget's ε.", short="-e", unset="1"))
    delta: float = field(default=0.0, metadata=about("The budget's δ.", short="-d"))
    sum: str = field(default="auto", metadata=about("The private sum; discreet list names them.", label="{} sum"))
    calibration: str = field(
        default="sound",
        metadata=about("sound, or paper: the printed noise.", label={"paper": "printed noise", "sound": "sound noise"}),
    )
    noise: str = field(
        default="fast", metadata=about("fast: for simulation; secure: exact, may be released.", label="{} noise")
    )

    sums: ClassVar[_Sums]

    def __post_init__(self) -> None:
        budget = Budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)
        for name, known in (("sum", self.sums), ("calibration", CALIBRATIONS), ("noise", _NOISES)):
            if getattr(self, name) not in known:
                raise UnknownName(name, getattr(self, name), known)

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
        noise: ``"fast"`` for simulation; ``"secure"``, for release: integers with exact discrete noise from the
            operating system's entropy.
        release: ``"nmr"`` releases visits, transitions and rewards, ``"mr"`` derives the visits, ``"weighted"`` (of
            discreet-vi) counts that users weight so that their norm is bounded; ``"auto"`` is the agent's own choice.

    Guarantee:
        Joint DP of the agent for every user's whole trajectory, replace-one: the released reads are (ε, δ)-DP, and what
        other users are shown is computed from them alone (billboard lemma).
    """

    release: str = field(default="auto", metadata=_RELEASE)

    whom = "the server is trusted"
    sums = _Sums("central")
    releases = (*RELEASES, "weighted")

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
        noise: ``"fast"`` for simulation; ``"secure"`` for release.
        randomiser: How ``sampled`` and ``questions`` hide a value: ``"unary"``, ``"subset"``, ``"response"`` or
            ``"auto"``.

    Guarantee:
        Local DP of every report, for the user's whole trajectory.
    """

    randomiser: str = field(
        default="auto",
        metadata=about("Local, sampled or questions: unary, subset, response or auto.", label="{} randomiser"),
    )

    whom = "nobody is trusted"
    sums = _Sums("local")

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
        noise: ``"fast"`` for simulation; ``"secure"`` for release.
        release: As for `Central`; or ``"first-visits"``: each batch is asked about a public list of cells (s, a), and
            of each only the first visit is counted. It is what ``"auto"`` means to discreet-vi; others do not take it.
        honest_fraction: The share of each batch that is trusted to add its noise bits; it enters the account.

    Guarantee:
        Shuffle DP of every batch, for one user's whole trajectory; each user is in exactly one batch.
    """

    release: str = field(default="auto", metadata=_RELEASE)
    honest_fraction: float = field(
        default=1.0, metadata=about("Shuffle: share of users that add noise.", label="{:.3g} honest")
    )

    whom = "a shuffler is trusted to mix"
    sums = _Sums("shuffle")
    releases = (*RELEASES, "first-visits")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release not in self.releases:
            raise UnknownName("release", self.release, self.releases)
        if self.delta == 0:
            raise InvalidInput("the shuffle model needs delta > 0, got delta=0.0")
        if not 0 < self.honest_fraction <= 1:
            raise InvalidInput(f"honest_fraction must lie in (0, 1], got honest_fraction={self.honest_fraction!r}")


#: By the names that the command line uses; the fewer are trusted, the later.
TRUST_MODELS: Registry[type[TrustModel]] = Registry("trust model")
TRUST_MODELS.add("none", NonPrivate)
TRUST_MODELS.add("central", Central)
TRUST_MODELS.add("shuffle", Shuffle)
TRUST_MODELS.add("local", Local)


def options(name: str | None = None) -> dict[str, Option]:
    """Returns what a trust model can be asked for, by name; what any of them can, by default."""
    return union(table(model) for key, model in TRUST_MODELS.items() if name in (None, key))  # type: ignore[arg-type]


def trust(name: str, **asked: Any) -> TrustModel:
    """Returns a trust model by name; options that are None are left to their defaults.

    Raises:
        ValueError: If there is no such trust model, or if it does not take an option.
    """
    model = TRUST_MODELS[name]
    takes = table(model)  # type: ignore[arg-type]
    given = {key: value for key, value in asked.items() if value is not None}
    for key, value in given.items():
        if key not in takes:
            others = ", ".join(kind for kind in TRUST_MODELS if key in options(kind))
            raise InvalidInput(f"{key}={value!r} is for the trust model {others or 'of nobody'}, got {name}")
    return model(**given)

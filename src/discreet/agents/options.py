"""What agents take beside a trust model: one dataclass for each family of them.

`discreet.agents.make`, sweeps, labels, the command line and budgets read these tables and nothing else: a new option
is one field here and one parameter of the agent's constructor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from discreet.registry.options import about

__all__ = ["Discreet", "Linear", "Staged", "Tabular", "Values"]

_POOL = about("Pool the counts over the steps of an episode.", label={True: "pooled", False: "by step"}, noise=True)
_EVERY = about(
    "People between two updates of the policy, or geometric.",
    unset="1; shuffle: a hundredth of all, at most 500; discreet-vi: a schedule of its own",
    noise=True,
)


@dataclass(frozen=True)
class Tabular:
    """Agents on counts; the other families with bonuses take the same and more."""

    preset: str = field(default="practical", metadata=about("Bonuses: theory or practical.", label="{} preset"))
    stationary: bool = field(default=False, metadata=_POOL)
    failure: float = field(
        default=0.05, metadata=about("The papers' failure probability; not a privacy parameter.", noise=True)
    )
    bonus_scale: float = field(default=1.0, metadata=about("Multiplies every bonus."))
    update_every: int | str | None = field(default=None, metadata=_EVERY)


@dataclass(frozen=True)
class Staged(Tabular):
    """Policy elimination, sdp-pe: its stages say when it updates."""

    policies: str = field(
        default="implicit",
        metadata=about("sdp-pe: implicit, or enumerate, which lists all of them.", label={"implicit": ""}),
    )


@dataclass(frozen=True)
class Linear(Tabular):
    """Agents on sums of feature products."""

    feature_bound: float | None = field(
        default=None, metadata=about("Linear agents: largest norm of a value feature.", unset="√d₁·H")
    )


@dataclass(frozen=True)
class Discreet(Tabular):
    """Our own learner, discreet-vi."""

    share_steps: bool = field(
        default=True, metadata=about("discreet-vi, not stationary: pool steps that look alike.", noise=True)
    )


@dataclass(frozen=True)
class Values:
    """Perturbed values, rlsvi: it has no bonuses."""

    accounting: str = field(
        default="tight",
        metadata=about("rlsvi: tight, paper or individual.", label={"tight": ""}, noise=True),
    )
    noise_scale: float | None = field(
        default=None,
        metadata=about("rlsvi: multiplies its noise; instead of --epsilon.", unset="solved for the budget", noise=True),
    )
    delta: float | None = field(default=None, metadata=about("rlsvi: the δ that ε is stated at, with a noise scale."))
    stationary: bool = field(default=False, metadata=_POOL)
    update_every: int | str | None = field(default=None, metadata=_EVERY)

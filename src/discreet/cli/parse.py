"""Reading what people type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.privacy import TrustModel

__all__ = ["SHARE_STEPS", "UPDATE_EVERY", "trust", "trust_options", "values_options"]

_TRUST = ("trust", "epsilon", "delta", "sum", "calibration", "release", "noise", "randomiser", "honest_fraction")


class _UpdateEvery(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "integer|geometric"

    def convert(self, value: Any, _parameter: click.Parameter | None, _context: click.Context | None) -> int | str:
        from discreet.envs.text import scalar

        read = scalar(value) if isinstance(value, str) else value
        return read if isinstance(read, (int, str)) else str(value)


#: A number of people, or the name of a schedule.
UPDATE_EVERY = _UpdateEvery()
#: An option of discreet-vi.
SHARE_STEPS: Callable[[Any], Any] = click.option(
    "--share-steps/--no-share-steps",
    default=None,
    help="discreet-vi, not stationary: pool steps that look alike.  [default: share]",
)


def trust_options(default: str) -> Callable[[Any], Any]:
    """Adds the options that say who is trusted and what is asked for; `trust` makes a trust model of them."""

    def add(function: Any) -> Any:
        for option in (
            click.option("--honest-fraction", type=float, help="Shuffle: share of users that add noise.  [default: 1]"),
            click.option(
                "--randomiser", help="Local, sampled or questions: unary, subset, response or auto.  [default: auto]"
            ),
            click.option("--noise", help="fast: for simulation; secure is not built yet.  [default: fast]"),
            click.option(
                "--release",
                help="Central, shuffle: nmr, mr (visits are derived) or auto; discreet-vi: weighted (central) or "
                "first-visits (shuffle).  [default: auto]",
            ),
            click.option("--calibration", help="sound, or paper: the printed noise.  [default: sound]"),
            click.option("--sum", help="The private sum; discreet list names them.  [default: auto]"),
            click.option("--delta", "-d", type=float, help="The budget's δ.  [default: 0]"),
            click.option("--epsilon", "-e", type=float, help="The budget's ε.  [default: 1]"),
            click.option("--trust", help=f"none, central, local or shuffle.  [default: {default}]"),
        ):
            function = option(function)
        return function

    return add


def values_options(function: Any) -> Any:
    """Adds the options of RLSVI: who keeps the account, and how much noise there is."""
    for option in (
        click.option("--noise-scale", type=float, help="rlsvi: multiplies its noise; instead of --epsilon."),
        click.option("--accounting", help="rlsvi: tight, paper or individual.  [default: tight]"),
    ):
        function = option(function)
    return function


def trust(options: dict[str, Any], default: str) -> TrustModel | None:
    """Takes what `trust_options` read out of ``options``, and returns the trust model.

    None if there is no budget because ε follows from a noise scale, which δ then goes with.
    """
    from discreet import agents, privacy

    given = {key: options.pop(key) for key in _TRUST}
    name = given.pop("trust") or default
    if name == "central" and given["epsilon"] is None and agents.epsilon_follows(options):
        options["delta"] = given["delta"]
        return None
    if name != "none" and given["epsilon"] is None:
        given["epsilon"] = 1.0
    return privacy.trust(name, **given)

"""The commands about privacy: what is promised, and whether it can be broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import parse
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from discreet.registry.options import Option

__all__ = ["audit", "budget"]


@click.command(cls=parse.Asking, asks=parse.noise_options)
@click.argument("env", required=False)
@click.option("--agent", default="dp-ucbvi", show_default=True, help="Whose schedule is taken.")
@click.option("--trust", help="Whom users trust; discreet list names all.  [default: central]")
@click.option("--states", type=int, help="Number of states, instead of ENV.")
@click.option("--actions", type=int, help="Number of actions, instead of ENV.")
@click.option("--horizon", type=int, help="Steps an episode, instead of ENV.")
@click.option("--episodes", "-K", type=int, default=50_000, show_default=True, help="People, one episode each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def budget(
    env: str | None,
    states: int | None,
    actions: int | None,
    horizon: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a budget promises and how much noise it takes, for every private sum and the paper's.

    ENV is name[:key=value,…]; or give --states, --actions and --horizon. For rlsvi it compares the accountants, at a
    budget or at a noise scale.
    """
    from discreet import envs
    from discreet.experiments.budget import report
    from discreet.mdp import Spec

    sizes = (states, actions, horizon)
    if env is None:
        if None in sizes:
            raise InvalidInput("give an environment, or --states, --actions and --horizon")
        spec, title = Spec(states, actions, horizon), "sizes"  # type: ignore[arg-type]
    else:
        if sizes != (None, None, None):
            raise InvalidInput(f"give either an environment ({env}) or --states, --actions and --horizon")
        spec, title = envs.read(env).spec, env
    found = report(title, spec, parse.given(options))
    click.echo(json.dumps(found.to_dict()) if as_json else found.to_text())


def _attacked() -> Iterable[Option]:
    """Returns which options of trust models and agents some target takes."""
    from discreet.audit.targets import TARGETS, takes

    known = {name for target in TARGETS for name in takes(target)} | {"epsilon", "delta"}
    return [option for option in parse.run_options() if option.name in known]


@click.command(cls=parse.Asking, asks=_attacked)
@click.argument("target")
@click.option("--steps", type=int, help="Steps an episode, for privatizers and agents.  [default: 1; agents 2]")
@click.option("--reads", type=int, help="Reads of a stream.  [default: 15; central 2; agents 8]")
@click.option("--users", type=int, help="Users in a batch, for shuffle and algorithm-4.  [default: 4 for shuffle]")
@click.option(
    "--silent", type=int, help="Users that really add none.  [default: as many as the honest fraction allows]"
)
@click.option("--runs", type=int, help="Runs of each of the two neighbours.  [default: by target]")
@click.option("--seed", type=int, help="Of the runs.  [default: the operating system's entropy]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def audit(target: str, runs: int | None, seed: int | None, as_json: bool, **options: Any) -> None:
    """Attack a mechanism, and print what is proven to leak beside what is claimed.

    TARGET is laplace or gaussian (a single number); tree, smooth-tree, factored, optimal or batch (a stream of
    counts); central, weighted, local or shuffle (what a server sees of a tiny world); algorithm-4 (the shuffle
    protocol as printed); linear (sums of feature products); or an agent (all releases and policies of a run under
    central privacy).
    Exits with 1 if the claim is broken.
    """
    from discreet.audit import audit as attack
    from discreet.audit import named
    from discreet.privacy.guarantee import REWARDS_ONLY

    attacked = named(target, **{"epsilon": 1.0, **parse.given(options)})
    found = attack(attacked, runs=attacked.runs if runs is None else runs, seed=seed)
    if as_json:
        document = {
            "target": found.target,
            "claim": found.claim.to_dict(),
            "lower_bound": found.lower_bound,
            "attack": found.attack,
            "runs": found.runs,
            "confidence": found.confidence,
            "violated": found.violated,
        }
        click.echo(json.dumps(document))
    else:
        click.echo(f"target       {found.target}")
        only = f"; {REWARDS_ONLY}" if found.claim.protects == "rewards" else ""
        click.echo(f"claimed      ε = {found.claim.epsilon:.4f} at δ = {found.claim.delta:g}{only}")
        click.echo(
            f"leaks        ε ≥ {found.lower_bound:.4f}, with {found.confidence:.1%} confidence, by {found.attack} "
            f"over {found.runs:,} runs of each neighbour"
        )
        click.echo("verdict      " + ("THE CLAIM IS BROKEN" if found.violated else "the claim stands"))
    if found.violated:
        raise click.exceptions.Exit(1)

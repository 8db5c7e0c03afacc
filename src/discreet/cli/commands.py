"""The commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import parse
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["completion", "list_", "run"]


def _complete(kind: str) -> Any:
    """Completes names of ``discreet.<kind>.NAMES``."""

    def names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        import importlib

        from click.shell_completion import CompletionItem

        known = importlib.import_module(f"discreet.{kind}").NAMES
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]

    return names


#: Options that a run prints even if they are left to their defaults.
_SHOWN = ("preset", "stationary", "failure", "bonus_scale", "accounting")


@click.command()
@click.argument("env", shell_complete=_complete("envs"))
@click.option("--agent", default="ucbvi", show_default=True, shell_complete=_complete("agents"), help="The learner.")
@parse.trust_options(default="central if the agent is private")
@parse.values_options
@click.option("--preset", help="Bonuses: theory or practical.  [default: practical]")
@click.option("--episodes", "-K", type=int, default=5_000, show_default=True, help="People, one episode each.")
@click.option("--runs", type=int, default=1, show_default=True, help="Independent repetitions.")
@click.option("--seed", type=int, help="Run i uses the seed (SEED, i).  [default: the operating system's entropy]")
@click.option("--stationary", is_flag=True, help="Pool the counts over the steps of an episode.")
@click.option(
    "--update-every",
    type=parse.UPDATE_EVERY,
    help="People between updates, or geometric.  [default: 1; shuffle: a hundredth of all, at most 500; discreet-vi: "
    "a schedule of its own]",
)
@parse.SHARE_STEPS
@click.option("--policies", help="sdp-pe: implicit, or enumerate, which lists all of them.  [default: implicit]")
@click.option("--failure", type=float, help="The papers' failure probability.  [default: 0.05]")
@click.option("--bonus-scale", type=float, help="Multiplies every bonus.  [default: 1]")
@click.option("--feature-bound", type=float, help="Linear agents: largest norm of a value feature.  [default: √d₁·H]")
@click.option(
    "--alpha",
    type=float,
    multiple=True,
    default=(0.1, 1.0),
    show_default=True,
    help="Count the episodes with a larger gap; may be given several times.",
)
@click.option("--reveal-losses", is_flag=True, help="rlsvi, individual: print realised losses, which reveal states.")
@click.option("--out", type=click.Path(path_type=Path), help="Save the numbers and a picture in this directory.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run(env: str, as_json: bool, quiet: bool, out: Path | None, reveal_losses: bool, **options: Any) -> None:
    """Let an agent learn in an environment and print its regret.

    ENV is name[:key=value,…], for example riverswim:states=6,horizon=20.
    """
    from discreet import agents
    from discreet.experiments.run import Run

    options["privacy"] = parse.trust(options, "central" if agents.is_private(options["agent"]) else "none")
    takes = agents.defaults(options["agent"])
    given = {key: value for key, value in options.items() if value is not None}
    options = {"privacy": None, "seed": None, **{key: takes[key] for key in _SHOWN if key in takes}, **given}
    if reveal_losses and (as_json or options.get("accounting") != "individual"):
        raise InvalidInput("--reveal-losses is for --accounting individual, and for people to read: without --json")
    job = Run.make(env, reveal=reveal_losses, **options)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    try:
        job.execute(progress=not quiet)
    except KeyboardInterrupt:
        if not job.results:
            raise click.Abort from None
        click.echo(f"discreet: interrupted after {len(job.results)} of {job.runs} runs", err=True)
        raise click.exceptions.Exit(1) from None
    finally:
        if job.results:
            if out is not None:
                for line in job.save(out):
                    click.echo(line, err=True)
            click.echo(json.dumps(job.to_dict()) if as_json else job.to_text())


@click.command("list")
def list_() -> None:
    """List environments, agents, presets, trust models and targets."""
    from discreet import agents, audit, envs
    from discreet.experiments.reproduce import EXPERIMENTS
    from discreet.privacy import TRUST_MODELS

    click.echo("environments (name:key=value,…)")
    for name in envs.NAMES:
        defaults = ", ".join(f"{key}={value}" for key, value in envs.parameters(name).items())
        click.echo(f"  {name:16}{defaults}")
    click.echo("agents")
    for name in agents.NAMES:
        click.echo(f"  {name:16}{agents.summary(name)}")
    click.echo("presets")
    click.echo(f"  {'theory':16}the papers' constants")
    click.echo(f"  {'practical':16}smaller bonuses, for use; privacy is never affected")
    click.echo("trust models and their sums")
    whom = {"none": "no privacy: the baseline", "central": "the server is trusted"}
    whom |= {"local": "nobody is trusted", "shuffle": "a shuffler is trusted to mix"}
    for name, model in TRUST_MODELS.items():
        known, releases = getattr(model, "sums", ()), getattr(model, "releases", ())
        told = (f": {', '.join(known)}" if known else "") + (f"; releases {', '.join(releases)}" if releases else "")
        click.echo(f"  {name:16}{whom[name]}{told}")
    click.echo("experiments of discreet reproduce")
    for found in EXPERIMENTS.values():
        click.echo(f"  {found.name:16}{found.title}")
    click.echo("targets of discreet audit")
    click.echo(f"  {', '.join(audit.TARGETS)}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash: discreet completion bash >> ~/.bashrc
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "discreet", "_DISCREET_COMPLETE").source())

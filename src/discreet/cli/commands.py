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


def _complete(kind: str, registry: str) -> Any:
    """Completes the names of a registry."""

    def names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        import importlib

        from click.shell_completion import CompletionItem

        known = getattr(importlib.import_module(kind), registry)
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]

    return names


@click.command(cls=parse.Asking, asks=parse.run_options)
@click.argument("env", shell_complete=_complete("discreet.envs", "ENVIRONMENTS"))
@click.option(
    "--agent",
    default="ucbvi",
    show_default=True,
    shell_complete=_complete("discreet.agents", "AGENTS"),
    help="The learner.",
)
@click.option("--trust", help="Whom users trust; discreet list names all.  [default: central if the agent is private]")
@click.option("--episodes", "-K", type=int, default=5_000, show_default=True, help="People, one episode each.")
@click.option("--runs", type=int, default=1, show_default=True, help="Independent repetitions.")
@click.option("--seed", type=int, help="Run i uses the seed (SEED, i).  [default: the operating system's entropy]")
@click.option(
    "--alpha",
    type=float,
    multiple=True,
    default=(0.1, 1.0),
    show_default=True,
    help="Count the episodes with a larger gap; may be given several times.",
)
@click.option("--reveal-losses", is_flag=True, help="rlsvi, individual: print realised losses, which reveal states.")
@click.option("--out", type=click.Path(path_type=Path), help="Store the runs and a picture in this directory.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run(
    runs: int,
    seed: int | None,
    alpha: tuple[float, ...],
    as_json: bool,
    quiet: bool,
    out: Path | None,
    reveal_losses: bool,
    **options: Any,
) -> None:
    """Let an agent learn in an environment and print its regret.

    ENV is name[:key=value,…], for example riverswim:states=6,horizon=20. With --out the runs are stored as those of a
    sweep are: discreet report OUT looks at them, and what is there already is not done again.
    """
    from discreet.experiments.run import Run

    if reveal_losses and (as_json or options.get("accounting") != "individual"):
        raise InvalidInput("--reveal-losses is for --accounting individual, and for people to read: without --json")
    job = Run.make(parse.given(options), runs=runs, seed=seed, alpha=alpha, reveal=reveal_losses)
    try:
        job.execute(out, progress=not quiet, say=_say)
    except KeyboardInterrupt:
        if not job.finished:
            raise click.Abort from None
        _say(f"discreet: interrupted after {len(job.finished)} of {runs} runs")
        raise click.exceptions.Exit(1) from None
    finally:
        if job.finished:
            if out is not None:
                _say(f"stored: {len(job.finished)} of {runs} runs in {out}")
                _draw(out)
            click.echo(json.dumps(job.to_dict()) if as_json else job.to_text())


def _say(line: str) -> None:
    click.echo(line, err=True)


def _draw(directory: Path) -> None:
    """Draws all runs of a store, and says where the pictures are."""
    from discreet.errors import MissingExtra
    from discreet.experiments.figures.regret import draw_regret
    from discreet.experiments.results import load

    try:
        for path in draw_regret(load(directory), directory).values():
            _say(f"picture: {path.with_suffix('.png')}, {path}")
    except MissingExtra as error:
        _say(f"no picture: {error}")


@click.command("list")
def list_() -> None:
    """List environments, agents, presets, trust models and targets."""
    from discreet import agents, audit, envs
    from discreet.experiments.reproduce import EXPERIMENTS
    from discreet.privacy import TRUST_MODELS

    click.echo("environments (name:key=value,…)")
    for name in envs.ENVIRONMENTS:
        defaults = ", ".join(f"{key}={value}" for key, value in envs.parameters(name).items())
        click.echo(f"  {name:16}{defaults}")
    click.echo("agents")
    for name in agents.AGENTS:
        click.echo(f"  {name:16}{agents.summary(name)}")
    click.echo("presets")
    click.echo(f"  {'theory':16}the papers' constants")
    click.echo(f"  {'practical':16}smaller bonuses, for use; privacy is never affected")
    click.echo("trust models and their sums")
    for name, model in TRUST_MODELS.items():
        known: tuple[str, ...] = getattr(model, "sums", ())
        told = f": {', '.join(known)}" if known else ""
        told += f"; releases {', '.join(model.releases)}" if model.releases else ""
        click.echo(f"  {name:16}{model.whom}{told}")
    click.echo("experiments of discreet reproduce")
    for name, found in EXPERIMENTS.items():
        click.echo(f"  {name:16}{found.title}")
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

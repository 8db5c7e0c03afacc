"""The commands about experiments: many runs, stored, looked at."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.experiments.conduct import Outcome
    from discreet.experiments.sweep import Sweep

__all__ = ["report", "reproduce", "results", "sweep"]


def _conducting(function: Any) -> Any:
    """The options that say how runs are done."""
    for option in (
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option("--address", help="Of a Dask scheduler that is running.  [default: a cluster on this machine]"),
        click.option("--workers", type=int, help="Processes.  [default: as many as there are cores]"),
        click.option("--engine", default="local", show_default=True, help="local (processes) or dask."),
        click.option("--resume", is_flag=True, help="Go on with the runs that are missing or damaged."),
    ):
        function = option(function)
    return function


def _say(line: str) -> None:
    click.echo(line, err=True)


def _command(*words: str, engine: str, workers: int | None, address: str | None, **_: Any) -> str:
    """Returns a command as a shell takes it, with how runs are done where that was said."""
    given = {"--engine": engine if engine != "local" else None, "--workers": workers, "--address": address}
    return shlex.join([*words, *(str(word) for pair in given.items() if pair[1] is not None for word in pair)])


def _conduct(found: Sweep, out: Path, again: str, *, quiet: bool, **options: Any) -> Outcome:
    """Conducts a sweep, and says on stderr how it went; exits with 1 unless every run is stored."""
    from discreet.experiments.conduct import conduct

    outcome = conduct(found, out, say=_say, show=not quiet, **options)
    for line in outcome.failed[:10]:
        _say(f"failed: {line}")
    stored = outcome.before + outcome.done
    _say(f"{stored} of {outcome.total} runs are in {out}" + (f", {outcome.done} of them new" if outcome.before else ""))
    if outcome.interrupted:
        _say(f"interrupted; go on with: {again}")
    if not outcome.complete or outcome.interrupted:
        raise click.exceptions.Exit(1)
    return outcome


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The directory of the store.  [default: the file's name]")
@click.option("--dry-run", is_flag=True, help="Check everything, say what would be run, and run nothing.")
@_conducting
def sweep(file: Path, out: Path | None, dry_run: bool, **options: Any) -> None:
    """Do all runs that a TOML file declares, and store each as it finishes.

    Everything is checked before the first run begins. discreet report OUT looks at the results.
    """
    from discreet import agents
    from discreet.experiments.conduct import check, expected_seconds, missing
    from discreet.experiments.sweep import Sweep
    from discreet.experiments.words import count
    from discreet.privacy.guarantee import REWARDS_ONLY

    found = Sweep.read(file)
    out = out or Path(found.name)
    check(out, **{key: value for key, value in options.items() if key != "quiet"})
    todo = missing(found, out) if options["resume"] else found.configs
    workers = max(1, min(options["workers"] or os.cpu_count() or 1, len(todo)))
    if dry_run:
        for setting in found.settings:
            click.echo(setting.text + f", episodes {setting.episodes:,}, runs {found.runs}")
    rewards = sorted({setting.agent for setting in found.settings if agents.protects(setting.agent) == "rewards"})
    if rewards:
        _say(f"{', '.join(rewards)}: {REWARDS_ONLY}")
    left = "" if len(todo) == len(found.configs) else f", {len(todo)} of them to do"
    time = f": about {_duration(expected_seconds(todo, workers))} with {workers} at a time" if todo else ""
    _say(f"{count(len(found.configs), 'run')} of {count(len(found.settings), 'setting')}{left}{time}")
    if not dry_run:
        again = _command("discreet", "sweep", str(file), "--out", str(out), "--resume", **options)
        _conduct(found, out, again, **options)


def _duration(seconds: float) -> str:
    """Returns a duration as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


@click.command()
@click.argument("experiment", default="riverswim")
@click.option("--quick", is_flag=True, help="A first look: fewer people and runs.")
@click.option("--out", type=click.Path(path_type=Path), help="Where everything goes.  [default: reproduce-EXPERIMENT]")
@_conducting
def reproduce(experiment: str, quick: bool, out: Path | None, **options: Any) -> None:
    """Do a published experiment from end to end: runs, table, figures and a page.

    discreet list says which there are.
    """
    from discreet import results as stored
    from discreet.experiments import report as pages
    from discreet.experiments.reproduce import EXPERIMENTS

    found = EXPERIMENTS[experiment]
    out = out or Path(f"reproduce-{found.name}" + ("-quick" if quick else ""))
    command = shlex.join(["discreet", "reproduce", found.name, *(["--quick"] if quick else [])])
    again = _command(*shlex.split(command), "--out", str(out), "--resume", **options)
    _conduct(found.sweep(quick=quick), out, again, **options)
    loaded = stored.load(out)
    written = pages.write(loaded, out, title=found.title, text=found.text, command=command, draw=found.draw)
    click.echo(pages.table(loaded))
    for path in written:
        _say(f"written: {path}")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def report(directory: Path) -> None:
    """Make one self-contained HTML page of the runs in a directory, with figures and guarantees."""
    from discreet import results as stored
    from discreet.experiments import report as pages

    loaded = stored.load(directory)
    for path in pages.write(loaded, directory, title=directory.resolve().name):
        click.echo(path)


@click.group()
def results() -> None:
    """Look at stored runs: ls, show, export."""


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns columns for people to read."""
    lines = [heads, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


@results.command("ls")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def ls(directory: Path, as_json: bool) -> None:
    """List the runs of a directory."""
    from discreet import results as stored
    from discreet.privacy.guarantee import REWARDS_ONLY

    runs = stored.load(directory).runs
    if as_json:
        rows = [{"key": run.key, **run.labels, "regret": run.regret, "episodes": run.episodes} for run in runs]
        click.echo(json.dumps({"directory": str(directory), "runs": rows}))
        return
    lines: list[tuple[str, ...]] = []
    for run in runs:
        config, proven = run.config, run.guarantee.get("epsilon")
        asked = {key: value for key, value in config["privacy"].items() if key != "epsilon"}
        rest = ", ".join(f"{key} {value}" for key, value in {**asked, **config["options"]}.items())
        epsilon = "none" if proven is None else f"{proven:.4g}"
        what = (config["env"], config["agent"], config["trust"], epsilon, str(config["seed"][1]))
        lines.append((run.key, *what, f"{run.regret:,.1f}", rest))
    click.echo(_table(("key", "env", "agent", "trust", "proven ε", "run", "regret", "options"), lines))
    rewards = sorted({run.config["agent"] for run in runs if run.guarantee["protects"] == "rewards"})
    if rewards:
        click.echo(f"{', '.join(rewards)}: {REWARDS_ONLY}")


@results.command("show")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("key")
def show(directory: Path, key: str) -> None:
    """Print all that is known of one run, as JSON. KEY may be shortened."""
    import dataclasses

    from discreet import results as stored

    runs = [run for run in stored.load(directory).runs if run.key.startswith(key)]
    if len(runs) != 1:
        raise InvalidInput(f"{len(runs)} runs of {directory} have a key that begins with {key!r}")
    click.echo(json.dumps(dataclasses.asdict(runs[0]), indent=2))


@results.command("export")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--format", "kind", help="csv, json or parquet.  [default: by the file's ending]")
def export(directory: Path, file: Path, kind: str | None) -> None:
    """Write the curves of all runs into one table."""
    from discreet import results as stored

    stored.load(directory).export(file, kind)  # type: ignore[arg-type]
    _say(f"written: {file}")

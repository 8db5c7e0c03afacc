"""The commands about deployments: make one, look at it, close what is due, and let simulated people meet it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.live import Config, Deployment, Habits, Simulated

__all__ = ["live"]

F = TypeVar("F", bound="Callable[..., Any]")


def _database(default: str | None = None) -> Callable[[F], F]:
    told = "sqlite:///FILE, postgresql://… or memory:; or set DISCREET_DATABASE."
    return click.option(
        "--database",
        metavar="URL",
        envvar="DISCREET_DATABASE",
        required=default is None,
        default=default,
        show_default=default is not None,
        help=told,
    )


def _existing(database: str) -> str:
    """Returns the URL, unless it names a file that is not there: to look at it would make an empty one."""
    file = database.removeprefix("sqlite:///")
    if file != database and not Path(file).exists():
        raise InvalidInput(f"there is no database {file!r}: discreet live create makes one")
    return database


@click.group()
def live() -> None:
    """Real people, one at a time: deployments that are kept in a database.

    The guide is docs/live.md.
    """


@live.command()
@click.argument("file", type=click.Path(path_type=Path))
@_database()
def create(file: Path, database: str) -> None:
    """Make the deployment that a TOML file describes.

    It calibrates the noise, charges the ledger of the population and plans the first batch.
    """
    from discreet import live

    with live.create(database, file) as made:
        click.echo(_text(_status(made)))


@live.command()
@click.argument("name", required=False)
@_database()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def status(name: str | None, database: str, as_json: bool) -> None:
    """Show what is public of one deployment, or of all: state, slots given out, releases, guarantee."""
    from discreet import live
    from discreet.live.stores import connect

    store = connect(_existing(database))
    try:
        known = live.names(store) if name is None else [name]
        found = [_status(live.open(store, each)) for each in known]
    finally:
        store.close()
    if as_json:
        click.echo(json.dumps({"deployments": found}))
    else:
        click.echo("\n\n".join(map(_text, found)) if found else "there is no deployment in this database")


@live.command()
@click.argument("name")
@_database()
def close(name: str, database: str) -> None:
    """Release and plan what is due.

    A service does this by itself. Under shuffle it asks the shuffler, which is another process.
    """
    from discreet import live

    with live.open(_existing(database), name) as opened:
        versions = opened.close_due()
    told = ", ".join(map(str, versions))
    click.echo(f"released     version {told}" if versions else "released     nothing: no batch is due")


@live.command()
@click.argument("name")
@click.option(
    "--person", help="The pseudonym of the person; - reads it from stdin, where no list of processes shows it."
)
@click.option("--token", help="The token of the episode.")
@_database()
def erase(name: str, person: str | None, token: str | None, database: str) -> None:
    """Erase a person, or one episode.

    Before its batch is closed, the report is deleted and the slot is absent. Afterwards there is nothing to delete.
    Under shuffle nobody keeps reports: what the shuffler has added up stays in the sum of its batch.
    """
    from discreet import live

    if person == "-":
        person = sys.stdin.readline().strip()
    with live.open(_existing(database), name) as opened:
        said = opened.erase(token=token, person=person)
    click.echo(_ERASED[said])


_ERASED = {
    "erased": "erased       the report is deleted, and its slot counts as absent",
    "mixed": "mixed        the shuffler may have added the report up already: nobody can take it out of the sum, where "
    "noise hides it",
    "closed": "closed       the batch was closed before: reports were deleted with its release",
    "unknown": "unknown      nobody of that name has a slot",
}


@live.command()
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where the JSON document goes.")
@_database()
def statement(name: str, out: Path, database: str) -> None:
    """Write what is promised to whom, with all parameters and the chain of releases; discreet verify checks it."""
    from discreet import live

    with live.open(_existing(database), name) as opened:
        document: Any = opened
        out.write_bytes(document.statement().to_json().encode())
    click.echo(f"statement    {out}")


@live.command()
@click.argument("file", type=click.Path(path_type=Path))
@_database("memory:")
@click.option(
    "--shuffler", metavar="URL", help="Under shuffle: the shuffler's own database.  [default: beside the other]"
)
@click.option("--env", help="The environment of the people, name[:key=value,…].  [default: that of the file]")
@click.option("--people", type=int, help="How many people start in all.  [default: one for every slot]")
@click.option(
    "--seed", type=int, help="Of the people; the same one goes on.  [default: the operating system's entropy]"
)
@click.option("--every", default="1 min", show_default=True, help="Mean time between two starts.")
@click.option("--steady", is_flag=True, help="That is the time between any two starts; else it is random.")
@click.option("--no-wait", is_flag=True, help="Whoever finds no free slot plays uncollected; else they wait for one.")
@click.option("--delay", default="0 s", show_default=True, help="Mean time between a start and its report.")
@click.option("--drop-outs", type=float, default=0.0, help="Share of people who start and never report.")
@click.option("--duplicates", type=float, default=0.0, help="Share of people whose app sends all twice.")
@click.option("--malformed", type=float, default=0.0, help="Share of people whose app sends a damaged report at first.")
@click.option("--returning", type=float, default=0.0, help="Share of starts by somebody who was here before.")
@click.option("--leave", type=float, default=0.0, help="Chance to leave after each step; needs gone in [world].")
@click.option("--kill-after", type=int, help="Kill this process (kill -9) after so many starts, to see what is left.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def simulate(
    file: Path,
    database: str,
    shuffler: str | None,
    env: str | None,
    people: int | None,
    seed: int | None,
    kill_after: int | None,
    as_json: bool,
    quiet: bool,
    **habits: Any,
) -> None:
    """Let simulated people meet a deployment, and print their regret.

    The clock is simulated too: nothing waits. If the database has the deployment already, its people continue: the
    same command goes on where it was interrupted or killed.
    """
    from discreet import envs, live
    from discreet.runtime.progress import Progress

    config = live.read(file)
    wanted, mixing = _habits(habits), _shuffler(config, database, shuffler)
    mdp = None if env is None else envs.read(env)
    with _opened(database, config) as opened:
        before = opened.plan().start + opened.status["issued"]
        left = max((config.episodes if people is None else people) - before, 0)
        try:
            with Progress(f"people of {opened.name}", left, show=not quiet) as bar:
                told = _killing(bar.update, kill_after)
                found = live.simulate(opened, mdp, left, seed, habits=wanted, shuffler=mixing, progress=told)
        except KeyboardInterrupt:
            raise click.Abort from None
        document = _told(opened, found)
    click.echo(json.dumps(document) if as_json else _people(document, found))


def _habits(given: dict[str, Any]) -> Habits:
    from discreet.live import Habits

    every, delay = (_seconds(name, given.pop(name)) for name in ("every", "delay"))
    return Habits(every, wait=not given.pop("no_wait"), delay=delay, **given)


def _seconds(name: str, text: str) -> float:
    """Returns seconds: a number, or a time with its unit, as in a configuration."""
    from discreet.live.config import duration

    try:
        return float(text)
    except ValueError:
        return 0.0 if text.split()[:1] == ["0"] else duration(f"--{name}", text)


def _opened(database: str, config: Config) -> Deployment:
    """Returns the deployment of a configuration, which is made if there is none."""
    from discreet import live

    if not config.simulation and database != "memory:":
        raise InvalidInput(
            f"{config.name!r} is for real people, and simulated ones would use up its slots: set simulation = true, or "
            "leave out --database to rehearse in memory"
        )
    from discreet.live.stores import connect

    store = connect(database)
    try:
        if config.name not in live.names(store):
            return live.create(store, config, now=0.0)
        opened = live.open(store, config.name)
        if opened.config != config:
            raise InvalidInput(f"the deployment {config.name!r} of this database was made with another configuration")
    except BaseException:
        store.close()
        raise
    return opened


def _shuffler(config: Config, database: str, url: str | None) -> str:
    """Returns the URL of the shuffler's own database."""
    if config.privacy["trust"] != "shuffle":
        if url is not None:
            raise InvalidInput("--shuffler is for trust = 'shuffle'")
    elif url is None and database.startswith("sqlite:///"):
        file = Path(database.removeprefix("sqlite:///"))
        return f"sqlite:///{file.with_name(f'{file.stem}-shuffler{file.suffix}')}"
    elif url is None and database != "memory:":
        raise InvalidInput("give --shuffler: the shuffler needs a database of its own")
    return url or "memory:"


def _killing(told: Any, after: int | None) -> Any:
    """Returns what is told of every start, and kills this process after so many."""
    if after is None:
        return told

    def count(done: int) -> None:
        import os
        import signal

        told(done)
        if done >= after:
            click.echo(f"kill -9 after {done} starts", err=True)
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def _status(opened: Deployment) -> dict[str, Any]:
    """Returns what is public of a deployment."""
    row, config = opened.status, opened.config
    return {
        **row,
        "agent": opened.agent.name,
        "trust": config.privacy["trust"],
        "timing": config.timing,
        "report_within": config.report_within,
        "capacity": config.episodes,
        "population": config.population,
        "simulation": config.simulation,
        "guarantee": opened.guarantee.to_dict(),
        "promise": str(opened.guarantee),
        "releases": [
            {"version": each.version, "users": each.users, "hash": each.hash, "chain": each.chain}
            for each in opened.releases()
        ],
    }


def _text(found: dict[str, Any]) -> str:
    simulated = ", simulated people only" if found["simulation"] else ""
    lines = [
        f"deployment   {found['name']}: {found['state']}{simulated}",
        f"agent        {found['agent']}, trust: {found['trust']}, {found['capacity']:,} slots in all",
        f"promise      {found['promise']}",
        *(f"assuming     {each}" for each in found["guarantee"]["assumptions"]),
        f"batch        {found['version']}: {found['issued']} of {found['slots']} slots are given out",
        f"reports      within {found['report_within']:g} s of the start; timing is {found['timing']}",
    ]
    released = (
        f"release      {each['version']}, after {each['users']:,} slots, {each['hash'][:16]}…"
        for each in found["releases"]
    )
    return "\n".join([*lines, *released])


def _told(opened: Deployment, found: Simulated) -> dict[str, Any]:
    from discreet import __version__

    return {
        "name": opened.name,
        "people": found.starts,
        "first": found.first,
        **{name: getattr(found, name) for name in _COUNTS},
        "releases": list(found.releases),
        "regret": float(found.gaps.sum()),
        "mean_gap": float(found.gaps.mean()) if found.starts else None,
        "state": opened.state,
        "guarantee": found.guarantee.to_dict(),
        "seed": str(found.seed) if not isinstance(found.seed, (int, list)) else found.seed,
        "clock": found.clock,
        "version": __version__,
    }


_COUNTS = ("collected", "reported", "late", "dropped", "refused", "repeated")


def _people(told: dict[str, Any], found: Simulated) -> str:
    counted = ", ".join(f"{told[name]} {name}" for name in _COUNTS)
    versions = ", ".join(map(str, told["releases"])) or "none"
    mean = "" if told["mean_gap"] is None else f", {told['mean_gap']:.4g} a person"
    return "\n".join(
        [
            f"deployment   {told['name']}: {told['state']}",
            f"people       {told['people']} started, after {told['first']} slots: {counted}",
            f"regret       {told['regret']:.6g}{mean}",
            f"releases     {versions}",
            f"promise      {found.guarantee}",
            f"seed         {told['seed']}",
        ]
    )

"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it.

Exit codes: 0 done; 2 bad usage or bad input, with one clear line on stderr; 1 failed while running.
"""

from __future__ import annotations

import sys

import click

from discreet import __version__
from discreet.cli.commands import completion, list_, run
from discreet.cli.deployments import live
from discreet.cli.experiments import report, reproduce, results, sweep
from discreet.cli.privacy import audit, budget
from discreet.cli.service import keys, serve, shuffler
from discreet.cli.statement import verify
from discreet.errors import DiscreetError, InvalidToken, LiveError

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="discreet")
def cli() -> None:
    """Differentially private reinforcement learning: learn from many people, betray none of them."""


for command in (
    *(run, reproduce, sweep, results, report, budget, audit),
    *(live, verify, serve, shuffler, keys),
    *(list_, completion),
):
    cli.add_command(command)


def main() -> None:
    """Runs the command line and exits."""
    sys.exit(_run())


def _run() -> int:
    try:
        code = cli.main(prog_name="discreet", standalone_mode=False)
    except click.exceptions.Abort:
        return _say("interrupted", 1)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _say(error.format_message(), 2)
    except DiscreetError as error:
        failed = isinstance(error, LiveError) and not isinstance(error, InvalidToken)  # while running
        return _say(str(error), 1 if failed else 2)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone; Python would complain about it on exit
        return 1
    except MemoryError as error:
        return _say(f"not enough memory: {error}", 1)
    except OSError as error:
        return _say(str(error), 1)
    return int(code or 0)


def _say(message: str, code: int) -> int:
    click.echo(f"discreet: {' '.join(message.split())}", err=True)
    return code

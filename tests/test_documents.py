"""What the documents say is run as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from discreet.cli import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("discreet")]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_in_the_readme_runs(code, capsys):
    exec(code, {"__name__": "__main__"})
    assert capsys.readouterr().out


def test_the_first_command_of_the_readme_runs_in_a_process_of_its_own(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(COMMANDS[0], comments=True)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


#: A published experiment takes as long as all the others: by day it runs with fewer people, in test_reproduce.py.
BY_DAY = [pytest.param(line, marks=[pytest.mark.slow] * line.startswith("discreet reproduce")) for line in COMMANDS[1:]]


@pytest.mark.parametrize("line", BY_DAY)
def test_commands_in_the_readme_run(line, tmp_path, monkeypatch, discreet_):
    """In this process, which has loaded and compiled everything."""
    monkeypatch.chdir(tmp_path)
    code, out, err = discreet_(*shlex.split(line, comments=True)[1:])
    assert code == 0, err
    assert out


def test_every_command_and_option_is_documented():
    """Each in the section of its command on the page about the command line, or in one that the section points to."""
    page = (ROOT / "docs" / "cli.md").read_text()
    shared = page[page.index("## Who is trusted, and with what") :]
    for name, command in cli.commands.items():
        found = re.search(rf"## `discreet {name}\b.*?(?=\n## `|\Z)", page, flags=re.DOTALL)
        assert found, name
        section = found[0] + (shared if "#who-is-trusted" in found[0] or name == "budget" else "")
        if name == "reproduce":
            section += page[page.index("## `discreet sweep") :]
        parts = {name: command, **getattr(command, "commands", {})}
        for part, child in parts.items():
            assert part == name or f"`{part} " in section or f" {part} DIR" in section, part
            for parameter in child.get_params(click.Context(child, help_option_names=[])):
                for option in parameter.opts:
                    assert option.startswith("-") is False or f"`{option}`" in section, f"{name} {part} {option}"


def test_every_agent_environment_and_experiment_is_documented():
    import discreet
    from discreet.experiments.reproduce import EXPERIMENTS

    text = "\n".join(page.read_text() for page in PAGES)
    for name in (*discreet.agents.NAMES, *discreet.envs.NAMES, *EXPERIMENTS):
        assert f"`{name}`" in text, name
    cli_page = (ROOT / "docs" / "cli.md").read_text()
    section = cli_page[cli_page.index("## `discreet reproduce") : cli_page.index("## `discreet sweep")]
    for name in EXPERIMENTS:
        assert f"`{name}`" in section, name
    for name in discreet.agents.NAMES:
        assert (ROOT / "docs" / "agents" / f"{name}.md").exists()


def test_the_tables_of_the_readme_name_every_agent_and_every_sum():
    import discreet
    from discreet.privacy import TRUST_MODELS

    rows = "\n".join(line for line in README.splitlines() if line.startswith("|"))
    overview = (ROOT / "docs" / "agents" / "README.md").read_text()
    for name in discreet.agents.NAMES:
        assert f"[`{name}`](docs/agents/{name}.md)" in rows, name
        assert f"[`{name}`]({name}.md)" in overview, name
    for model in TRUST_MODELS.values():
        for name in set(getattr(model, "sums", ())) - {"auto"}:
            assert f"`{name}`" in rows, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_documents_name_exist(page):
    file = None
    for path, name in re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", page.read_text()):
        file = ROOT / path if path else file
        assert f"def {name}(" in file.read_text(), name

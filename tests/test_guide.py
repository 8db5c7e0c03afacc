"""The guide to deployments is run as written, and its tables are complete."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from discreet import live
from discreet.cli import cli
from discreet.errors import UnknownName

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "live.md").read_text()
BLOCKS = re.findall(r"```(sh|text|python)\n(.*?)```", GUIDE, flags=re.DOTALL)


def like(shown: str, printed: str) -> bool:
    """Whether the guide shows what was printed; … stands for anything."""
    pattern = ".*".join(map(re.escape, shown.split("…")))
    return re.fullmatch(pattern, printed, flags=re.DOTALL) is not None


def test_the_commands_of_the_guide_run_as_written(tmp_path, monkeypatch, discreet_):
    """One after the other: a learner is made, killed in the middle, started again, and its statement is verified."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed, ran = "", 0
    first = BLOCKS[: next(i for i, (kind, _) in enumerate(BLOCKS) if kind == "python")]
    for kind, text in first:
        if kind == "text":
            assert like(text, printed), f"the guide shows\n{text}\nbut this was printed:\n{printed}"
            continue
        for line in text.splitlines():
            command = shlex.split(line)[1:]
            if command[0] == "verify" and "verify" not in cli.commands:
                continue
            if command[1] == "statement" and not hasattr(live.Deployment, "statement"):
                continue
            ran += 1
            if "--kill-after" in command:
                killed = subprocess.run(
                    [sys.executable, "-m", "discreet", *command], capture_output=True, text=True, check=False
                )
                assert killed.returncode == -signal.SIGKILL, killed.stderr
                continue
            code, printed, err = discreet_(*command)
            assert (code, err) == (0, ""), line
    assert ran >= 5


def test_the_python_of_the_guide_runs_as_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    code = [text for kind, text in BLOCKS if kind == "python"]
    names = {"__name__": "__main__"}
    exec(code[0], names)
    shown = next(text for kind, text in reversed(BLOCKS) if kind == "text")
    assert capsys.readouterr().out == shown
    exec(code[1], names)
    assert capsys.readouterr().out.startswith("200 ")


def rows(heading: str) -> set[str]:
    """The keys in the first column of a table."""
    section = re.search(rf"### {re.escape(heading)}\n(.*?)(?=\n##)", GUIDE, flags=re.DOTALL)[1]
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return {key for cell in first for key in re.findall(r"`(\w+)`", cell)}


def known(**changed: object) -> set[str]:
    """The keys that the configuration knows: it says so when it is given another one."""
    small = {"name": "x", "world": {}, "agent": {"episodes": 9}, "privacy": {"trust": "central"}}
    with pytest.raises(UnknownName) as error:
        live.read({**small, "world": {"states": 2, "actions": 2, "horizon": 2}, **changed})
    return set(str(error.value).partition("known: ")[2].split(", "))


def test_the_tables_of_the_guide_name_every_key_and_no_other():
    """Would catch a key that is added, renamed or removed in the configuration alone."""
    assert rows("Of the deployment") == known(nothing=1)
    assert rows("`[world]`") == known(world={"nothing": 1}) | known(world={"env": "riverswim", "nothing": 1})
    assert rows("`[population]`") == known(population={"nothing": 1})
    assert rows("`[agent]`") == {"name", "episodes"}
    assert rows("`[agent]`") < known(agent={"episodes": 9, "nothing": 1})
    assert rows("`[privacy]`") == {"trust", "epsilon", "delta", "noise"}
    options = {
        key for trust in ("central", "local", "shuffle") for key in known(privacy={"trust": trust, "nothing": 1})
    }
    row = next(line for line in GUIDE.splitlines() if line.startswith("| options | `sum`"))
    assert options == rows("`[privacy]`") | set(re.findall(r"`(\w+)`", row))


def test_the_example_is_fit_for_real_people():
    """Without its line about simulation it is accepted: noise is secure, and the trust model is private."""
    text = (ROOT / "examples" / "walking-coach" / "coach.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("simulation"))
    document = tomllib.loads(text.replace(line, ""))
    assert not live.read(document).simulation
    assert live.read(tomllib.loads(text)).simulation

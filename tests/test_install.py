"""A stranger's first commands, on a machine that has nothing but Python and make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def make(target: str, directory: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return subprocess.run(
        ["make", target, *variables], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path):
    """What git would check out, with what is not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_make_demo_in_a_clean_clone(clone):
    done = make("demo", clone, f"PYTHON={sys.executable}")
    assert done.returncode == 0, done.stderr
    assert "regret" in done.stdout
    assert (clone / "demo" / "regret.png").read_bytes().startswith(b"\x89PNG")


def fake_python(directory: Path, script: str) -> str:
    path = directory / "fakepython"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"PYTHON={path}"


def test_a_missing_venv_is_one_line_that_says_what_to_install(clone):
    """Debian's Python without python3-venv."""
    script = f'case "$2" in *ensurepip*) exit 1;; *) exec {sys.executable} "$@";; esac'
    done = make("demo", clone, fake_python(clone, script))
    assert done.returncode != 0
    assert "apt install python3-venv" in done.stdout


def test_an_old_python_is_one_line(clone):
    done = make("demo", clone, fake_python(clone, "exit 1"))
    assert done.returncode != 0
    assert "Python 3.11 or newer" in done.stdout


def test_no_file_names_a_registry_or_a_machine():
    pattern = r"py[p]i\.org|pythonhost[e]d|npmj[s]|/work[/]"
    done = subprocess.run(["git", "grep", "-nIE", pattern], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout or done.stderr  # 1 is "no match"

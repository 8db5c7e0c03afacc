"""Services on loopback, in processes of their own, ended by their process id."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time

import httpx
import pytest

from tests.live.people import config


def toml(value, key=""):
    """Returns a small configuration as TOML."""
    plain = {k: v for k, v in value.items() if not isinstance(v, dict)}
    lines = [f"[{key}]"] if key else []
    for name, item in plain.items():
        text = str(item).lower() if isinstance(item, bool) else repr(item).replace("'", '"')
        lines.append(f"{name} = {text}")
    for name, item in value.items():
        if isinstance(item, dict):
            lines.append(toml(item, f"{key}.{name}" if key else name))
    return "\n".join(lines)


class Process:
    """A service, or a shuffler, that runs: its URL and the key that it printed."""

    def __init__(self, *arguments, folder):
        self.folder, self.arguments = folder, arguments
        with (folder / "stderr.txt").open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "discreet", *arguments, "--port", "0"],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        said = self.process.stdout.readline()
        found = re.search(r"http://[\d.:]+", said)
        assert found, said + (folder / "stderr.txt").read_text()
        self.url = found[0]
        self.key = None
        if "--keys" not in arguments:
            self.key = re.search(r"dk_\S+", self.process.stdout.readline())[0]

    def client(self, key=None, **more):
        return httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {key or self.key}"}, timeout=30.0, **more
        )

    def kill(self):
        self.process.kill()
        self.process.wait(30)
        self.process.stdout.close()

    def stop(self):
        """Ends it as an operator does; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


@pytest.fixture
def run(tmp_path):
    """Starts processes, which are ended at the end."""
    found = []

    def started(*arguments, folder=tmp_path):
        found.append(Process(*arguments, folder=folder))
        return found[-1]

    yield started
    for each in found:
        if each.process.poll() is None:
            each.kill()
        with contextlib.suppress(OSError):
            each.process.stdout.close()


@pytest.fixture
def deployed(run, tmp_path):
    """Starts a service with one deployment."""

    def started(kind="dp-ucbvi", *arguments, **more):
        given = {"report_within": 5, "timing": "public", **more}
        (tmp_path / "steps.toml").write_text(toml(config(kind, **given)))
        return run("serve", "steps.toml", "--database", "sqlite:///steps.db", *arguments)

    return started


def until(what, seconds=60.0):
    """Waits until something holds; returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")

"""The commands about deployments keep the contract of the command line, and show nothing that is personal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet import live
from discreet.live import rows

FILE = """
name = "steps"
simulation = true
seed = 3
report_within = "1 h"

[world]
env = "riverswim:states=3,horizon=3"

[agent]
name = "dp-ucbvi"
episodes = 60
update_every = 20

[privacy]
trust = "TRUST"
epsilon = 1.0
delta = 1e-4
noise = "fast"
"""
PEOPLE = ("--seed", "5", "--delay", "20 min", "--drop-outs", "0.2")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_DATABASE", "sqlite:///steps.db")
    path = tmp_path / "steps.toml"
    path.write_text(FILE.replace("TRUST", "central"))
    return path


def test_a_simulation_is_what_python_gives(discreet_, file, monkeypatch):
    monkeypatch.delenv("DISCREET_DATABASE")
    code, out, err = discreet_("live", "simulate", str(file), "--seed", "5", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    config = live.read(file)
    expected = dc.simulate(config.make(3), dc.envs.read("riverswim:states=3,horizon=3"), 60, seed=5)
    assert found["regret"] == expected.gaps.sum()
    assert (found["people"], found["collected"], found["releases"], found["seed"]) == (60, 60, [1, 2, 3], 5)
    assert found["guarantee"]["epsilon"] == pytest.approx(1.0)
    assert not list(file.parent.glob("*.db"))  # in memory, unless told otherwise


@pytest.mark.parametrize("trust", ["central", "shuffle"])
def test_after_a_real_kill_the_same_command_goes_on(discreet_, file, trust):
    """Would catch people who come twice after kill -9, and a shuffler that forgot who had reported."""
    file.write_text(FILE.replace("TRUST", trust))
    command = ["live", "simulate", str(file), *PEOPLE]
    killed = subprocess.run(
        [sys.executable, "-m", "discreet", *command, "--kill-after", "33"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DISCREET_DATABASE": "sqlite:///steps.db"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert killed.stdout == ""
    assert killed.stderr == "kill -9 after 33 starts\n"
    assert Path("steps-shuffler.db").exists() == (trust == "shuffle")
    _, out, _ = discreet_("live", "status", "--json")
    (status,) = json.loads(out)["deployments"]
    assert (status["state"], status["version"], status["issued"]) == ("open", 1, 13)
    code, out, err = discreet_(*command, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["first"], found["people"], found["releases"], found["state"]) == (33, 27, [2, 3], "complete")
    with live.open("sqlite:///steps.db", "steps") as deployment, live.create("memory:", str(file), now=0.0) as other:
        habits = live.Habits(delay=1200.0, drop_outs=0.2)
        whole = live.simulate(other, seed=5, habits=habits)
        assert [each.users for each in deployment.releases()] == [20, 40, 60]
        if trust == "central":
            assert found["regret"] == np.sum(whole.gaps[33:])
            assert [each.hash for each in deployment.releases()] == [each.hash for each in other.releases()]
    code, out, _ = discreet_(*command)  # everybody has come
    assert code == 0
    assert "0 started, after 60 slots" in out


def test_create_status_close_and_erase(discreet_, file):
    code, out, err = discreet_("live", "create", str(file))
    assert (code, err) == (0, "")
    assert "0 of 20 slots" in out
    with live.open("sqlite:///steps.db", "steps") as deployment:
        ticket = deployment.start("anna")
        deployment.start("bert")
        mdp = deployment.environment()
        deployment.report(ticket.token, ticket.encoder.encode(mdp.sample(ticket.policy, np.random.default_rng(0))))
    for name in ((), ("steps",)):
        code, out, _ = discreet_("live", "status", *name)
        assert code == 0
        assert "2 of 20 slots are given out" in out
        assert "ε = 1" in out
        assert "anna" not in out
        assert ticket.token not in out
    assert discreet_("live", "close", "steps")[:2] == (0, "released     nothing: no batch is due\n")
    code, out, _ = discreet_("live", "erase", "steps", "--token", ticket.token)
    assert (code, out.split()[0]) == (0, "erased")
    code, out, _ = discreet_("live", "erase", "steps", "--person", "carla")
    assert (code, out.split()[0]) == (0, "unknown")


def test_a_pseudonym_is_read_from_stdin(discreet_, file, monkeypatch):
    import io

    discreet_("live", "create", str(file))
    with live.open("sqlite:///steps.db", "steps") as deployment:
        deployment.start("anna")
    monkeypatch.setattr("sys.stdin", io.StringIO("anna\n"))
    code, out, _ = discreet_("live", "erase", "steps", "--person", "-")
    assert (code, out.split()[0]) == (0, "erased")


def test_close_releases_what_is_due(discreet_, file):
    with live.create("sqlite:///steps.db", str(file), now=0.0) as deployment:
        for k in range(20):
            deployment.start(f"person {k}", now=float(k))
    assert discreet_("live", "close", "steps")[:2] == (0, "released     version 1\n")  # long ago


@pytest.mark.skipif(not hasattr(live.Deployment, "statement"), reason="statements are not built yet")
def test_a_statement_is_written(discreet_, file):
    discreet_("live", "simulate", str(file), *PEOPLE)
    code, out, err = discreet_("live", "statement", "steps", "--out", "statement.json")
    assert (code, err) == (0, "")
    assert out == "statement    statement.json\n"
    assert json.loads(Path("statement.json").read_text())


BAD = {
    "a key with a typo": (("create", "typo.toml"), 2, "did you mean 'report_within'?"),
    "a file that is not there": (("create", "nothing.toml"), 2, "nothing.toml"),
    "a database that is not there": (("status", "--database", "sqlite:///nothing.db"), 2, "nothing.db"),
    "a deployment that is not there": (("status", "others"), 2, "'others'"),
    "a database of another kind": (("status", "--database", "mysql://host/name"), 2, "sqlite:///FILE"),
    "the name again": (("create", "steps.toml"), 2, "already"),
    "no person": (("erase", "steps"), 2, "a token or a person"),
    "a token of nobody": (("erase", "steps", "--token", "0.0.secret"), 2, "token"),
    "another configuration": (("simulate", "other.toml"), 2, "another configuration"),
    "real people": (("simulate", "real.toml"), 2, "simulation = true"),
    "a delay of the wrong unit": (("simulate", "steps.toml", "--delay", "2 weeks"), 2, "--delay"),
    "more drop-outs than people": (("simulate", "steps.toml", "--drop-outs", "2"), 2, "drop_outs"),
    "an unknown environment": (("simulate", "steps.toml", "--env", "riverswin"), 2, "did you mean 'riverswim'?"),
    "people of another world": (("simulate", "steps.toml", "--env", "riverswim:states=9"), 2, "horizon"),
    "nowhere to go": (("simulate", "steps.toml", "--leave", "0.1"), 2, "gone"),
    "a shuffler without shuffling": (("simulate", "steps.toml", "--shuffler", "memory:"), 2, "--shuffler"),
    "an old copy": (("close", "old"), 1, "backup"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_goes_wrong_is_one_line_and_a_code(discreet_, file, name):
    """Would catch a traceback, and a failure that looks like a mistake of whoever typed."""
    text = file.read_text()
    Path("typo.toml").write_text(text.replace("report_within", "report_witin"))
    Path("other.toml").write_text(text.replace("update_every = 20", "update_every = 30"))
    real = text.replace("simulation = true\nseed = 3\n", "").replace('"fast"', '"secure"')
    Path("real.toml").write_text(real)
    live.create("sqlite:///steps.db", str(file)).close()
    Path("old.toml").write_text(text.replace('"steps"', '"old"'))
    with live.create("sqlite:///steps.db", "old.toml") as old:
        old.store.do(lambda db: rows.roll_back(db, old.name), alone=True)
    arguments, expected, word = BAD[name]
    code, out, err = discreet_("live", *arguments)
    assert (code, out) == (expected, "")
    assert err.startswith("discreet: ")
    assert err.count("\n") == 1
    assert word in err
    assert "secret" not in err


def test_an_interrupt_leaves_what_was_acknowledged(discreet_, file, monkeypatch):
    monkeypatch.setattr("discreet.cli.deployments._killing", lambda _told, _after: stop)
    code, out, err = discreet_("live", "simulate", str(file))
    assert (code, out, err) == (1, "", "discreet: interrupted\n")
    with live.open("sqlite:///steps.db", "steps") as deployment:
        assert deployment.status["issued"] == 7


def stop(done):
    if done == 7:
        raise KeyboardInterrupt

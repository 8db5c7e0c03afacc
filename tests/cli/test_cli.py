"""The command line keeps its contract: what it prints where, and with which code it exits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest

import discreet
from discreet.cli import cli
from discreet.experiments import engine

LIVE = """
name = "steps"
world = "riverswim:states=3,horizon=3"
agent = { name = "dp-ucbvi", episodes = 20, update_every = 10 }
privacy = { trust = "central", epsilon = 1.0, noise = "fast" }
simulation = true
"""
KEYS = {"env", "agent", "guarantee", "regret", "suboptimal", "episodes", "seeds", "version"}


def test_json_is_one_object_and_nothing_else(discreet_):
    code, out, err = discreet_("run", "riverswim:states=4", "--episodes", "50", "--runs", "3", "--seed", "7", "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    document = json.loads(out)
    assert set(document) == KEYS
    assert set(document["regret"]) == {"mean", "std", "runs"}
    assert document["regret"]["mean"] == pytest.approx(np.mean(document["regret"]["runs"]))
    assert document["regret"]["std"] == pytest.approx(np.std(document["regret"]["runs"], ddof=1))
    assert document["seeds"] == [[7, 0], [7, 1], [7, 2]]
    assert document["guarantee"]["epsilon"] is None
    assert document["version"] == discreet.__version__
    assert document["episodes"] == 50


def test_every_command_with_json_prints_one_object_and_nothing_else(discreet_, tmp_path):
    """Also where something is infinite, saved or broken; a command that gets --json later must be added here."""
    (tmp_path / "sweep.toml").write_text('env = "riverswim"\nagent = "ucbvi"\nepisodes = 20\n')
    store = str(tmp_path / "store")
    assert discreet_("sweep", str(tmp_path / "sweep.toml"), "--out", store, "--workers", "1")[0] == 0
    asked = {
        "run": ("riverswim", "--episodes", "20", "--out", str(tmp_path / "run")),
        "budget": ("riverswim", "--epsilon", "1", "--episodes", "100"),
        "audit": ("algorithm-4", "--delta", "1e-6", "--runs", "200", "--seed", "0"),
        "results ls": (store,),
        "live status": ("--database", f"sqlite:///{tmp_path / 'live.db'}"),
        "live simulate": (str(tmp_path / "live.toml"), "--people", "3"),
        "verify": (str(tmp_path / "statement.json"),),
    }
    (tmp_path / "live.toml").write_text(LIVE)
    made = discreet_("live", "create", str(tmp_path / "live.toml"), *asked["live status"])
    assert made[0] == 0
    name = tomllib.loads(LIVE)["name"]
    stated = discreet_("live", "statement", name, *asked["live status"], "--out", str(tmp_path / "statement.json"))
    assert stated[0] == 0
    found = {
        f"{name} {part}".strip()
        for name, command in cli.commands.items()
        for part, child in (getattr(command, "commands", None) or {"": command}).items()
        if any("--json" in parameter.opts for parameter in child.params)
    }
    assert found == set(asked)
    for name, arguments in asked.items():
        code, out, err = discreet_(*name.split(), *arguments, "--json")
        assert code == (1 if name == "audit" else 0), err  # the printed protocol breaks its claim
        assert out.count("\n") == 1
        assert isinstance(json.loads(out, parse_constant=pytest.fail), dict)  # NaN and Infinity are no JSON


def test_a_run_is_what_python_gives(discreet_):
    _, out, _ = discreet_("run", "riverswim", "--episodes", "50", "--runs", "2", "--seed", "3", "--json")
    mdp = discreet.envs.riverswim()
    agent = discreet.agents.make("ucbvi", mdp.spec, episodes=50, seed=[3, 1])
    assert json.loads(out)["regret"]["runs"][1] == discreet.simulate(agent, mdp, seed=[3, 1]).regret[-1]


def test_text_tells_regret_guarantee_and_the_cost_of_never_learning(discreet_):
    code, out, _ = discreet_("run", "chain", "--agent", "ubev", "--episodes", "100", "--stationary", "--alpha", "0.25")
    assert code == 0
    for piece in ("chain", "ubev", "no privacy", "regret", "acting at random", "gap > 0.25", "stationary: True"):
        assert piece in out


def test_text_tells_what_was_chosen_where_nothing_was_said(discreet_):
    asked = ("--epsilon", "3", "--delta", "1e-6", "--episodes", "100", "--seed", "0")
    _, out, _ = discreet_("run", "riverswim", "--agent", "auto", "--stationary", *asked)
    assert "chosen       agent: discreet-vi, " in out
    assert "sum: optimal, noise: gaussian\n" in out
    agent = discreet.agents.make(
        "rlsvi", discreet.envs.riverswim().spec, episodes=100, privacy=discreet.Central(3.0, 1e-6)
    )
    _, out, _ = discreet_("run", "riverswim", "--agent", "rlsvi", *asked)
    assert f"noise scale: {agent.noise_scale:.4g}" in out


def test_the_budget_of_auto_is_that_of_what_it_would_be(discreet_):
    asked = ("budget", "riverswim", "--epsilon", "1", "--episodes", "2000", "--stationary", "--json")
    for delta, name in (("1e-6", "discreet-vi"), ("0", "dp-ucbvi")):
        _, auto, _ = discreet_(*asked, "--delta", delta, "--agent", "auto")
        every = ("--update-every", "20") if name == "dp-ucbvi" else ()
        assert auto == discreet_(*asked, "--delta", delta, "--agent", name, *every)[1]


def test_out_is_a_store_that_results_and_report_read(discreet_, tmp_path):
    out = tmp_path / "new" / "directory"
    code, printed, err = discreet_(
        "run", "riverswim", "--episodes", "60", "--runs", "2", "--seed", "5", "--json", "--out", str(out)
    )
    assert code == 0
    assert str(out / "regret.png") in err
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert [run.regret for run in discreet.results.load(out).runs] == json.loads(printed)["regret"]["runs"]
    code, listed, _ = discreet_("results", "ls", str(out), "--json")
    assert code == 0
    key = json.loads(listed)["runs"][0]["key"]
    assert discreet_("results", "show", str(out), key)[0] == 0
    assert discreet_("results", "export", str(out), str(tmp_path / "all.csv"))[0] == 0
    assert discreet_("report", str(out))[0] == 0
    assert (out / "report.html").exists()


def test_a_second_run_adds_what_is_missing_and_nothing_is_done_twice(discreet_, tmp_path, monkeypatch):
    """What is stored is read, and prints as if it had just been done; another setting goes into the same store."""
    asked = ("run", "riverswim", "--episodes", "60", "--seed", "5", "--out", str(tmp_path / "store"))
    _, first, _ = discreet_(*asked, "--runs", "2", "--json")
    calls, real = [], engine.simulate
    monkeypatch.setattr(engine, "simulate", lambda *a, **b: calls.append(1) or real(*a, **b))
    code, again, _ = discreet_(*asked, "--runs", "2", "--json")
    assert (code, again, calls) == (0, first, [])
    code, more, _ = discreet_(*asked, "--runs", "3")
    assert (code, len(calls)) == (0, 1)
    assert "2 of 3 runs before" in more
    assert discreet_(*asked, "--agent", "ubev")[0] == 0
    runs = discreet.results.load(tmp_path / "store").runs
    assert sorted(run.config["agent"] for run in runs) == ["ubev", "ucbvi", "ucbvi", "ucbvi"]


def test_a_run_is_one_of_a_sweep(discreet_, tmp_path):
    """The same configuration has the same key, so that a sweep can go on where a run ended."""
    file, store = tmp_path / "sweep.toml", str(tmp_path / "store")
    file.write_text('env = "chain"\nagent = "pucb"\nepisodes = 30\nruns = 2\nupdate_every = 3\nepsilon = 2\n')
    asked = ("--agent", "pucb", "--episodes", "30", "--update-every", "3", "--epsilon", "2", "--seed", "0")
    assert discreet_("run", "chain", *asked, "--out", store)[0] == 0
    code, _, err = discreet_("sweep", str(file), "--out", store, "--workers", "1", "--resume")
    assert code == 0
    assert "1 of them new" in err


def test_a_damaged_run_is_mended_and_done_again(discreet_, tmp_path):
    asked = ("run", "chain", "--episodes", "20", "--runs", "2", "--seed", "1", "--json", "--out", str(tmp_path))
    _, first, _ = discreet_(*asked)
    next((tmp_path / "curves").glob("*.parquet")).write_bytes(b"x")
    code, again, err = discreet_(*asked)
    assert (code, again) == (0, first)
    assert "mended" in err


def test_without_matplotlib_the_runs_are_stored_all_the_same(discreet_, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = discreet_("run", "riverswim", "--episodes", "20", "--out", str(tmp_path))
    assert code == 0
    assert "pip install 'discreet[report]'" in err
    assert len(discreet.results.load(tmp_path).runs) == 1
    assert not (tmp_path / "regret.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "riverswim", "--episodes", "0"], "episodes=0"),
        (["run", "riverswim", "--episodes", "many"], "many"),
        (["run", "riverswm"], "did you mean 'riverswim'?"),
        (["run", "riverswim", "--agent", "ucbv"], "did you mean 'ucbvi'?"),
        (["run", "riverswim", "--preset", "pratical"], "did you mean 'practical'?"),
        (["run", "riverswim", "--episode", "3"], "--episodes"),
        (["run", "riverswim:horizon=-1"], "horizon=-1"),
        (["run", "riverswim:hrizon=3"], "did you mean 'horizon'?"),
        (["run", "riverswim:horizon"], "name:key=value"),
        (["run", "riverswim:horizon=3,horizon=4"], "twice"),
        (["run", "riverswim", "--update-every", "0"], "update_every=0"),
        (["run", "riverswim", "--update-every", "2.5"], "2.5"),
        (["run", "riverswim", "--failure", "1"], "failure=1"),
        (["run", "riverswim", "--alpha", "-1"], "alpha=-1"),
        (["run", "riverswim", "--runs", "0"], "runs=0"),
        (["run", "riverswim", "--seed", "-1"], "seed=-1"),
        (["run", "riverswim", "--episodes", "99999999999999999999"], "at most"),
        (["run", "random:concentration=abc"], "concentration='abc'"),
        (["budget"], "--states"),
        (["budget", "riverswim", "--states", "3"], "either"),
        (["budget", "riverswim", "--epsilon", "0"], "epsilon=0"),
        (["budget", "riverswim", "--delta", "1"], "delta=1"),
        (["budget", "riverswim", "--sum", "factored"], "delta=0"),
        (["budget", "riverswim", "--sum", "fctored"], "did you mean 'factored'?"),
        (["budget", "riverswim", "--release", "mn"], "did you mean"),
        (["budget", "riverswim", "-K", "10", "--update-every", "11"], "update_every=11"),
        (["audit", "tre"], "did you mean 'tree'?"),
        (["audit", "gaussian"], "delta=0"),
        (["audit", "tree", "--steps", "3"], "--steps"),
        (["audit", "tree", "--reads", "0"], "reads=0"),
        (["audit", "laplace", "--reads", "5"], "--reads"),
        (["budget", "riverswim", "-e", "1e200", "-d", "1e-6"], "epsilon=1e+200"),
        (["audit", "tree", "--runs", "5"], "runs=5"),
        (["run"], "ENV"),
        (["rn", "riverswim"], "rn"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(discreet_, arguments, message):
    code, out, err = discreet_(*arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


def test_what_cannot_be_written_is_one_line_and_exit_code_1(discreet_, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = discreet_("run", "riverswim", "--episodes", "5", "--out", str(tmp_path / "file" / "directory"))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


def test_budget_prints_the_promised_numbers(discreet_):
    """Must show: RiverSwim-6, H = 20, ε = 1, per step, n, m and r."""
    code, out, _ = discreet_("budget", "riverswim", "--json")
    assert code == 0
    pure = json.loads(out)
    assert pure["chosen"] == "smooth-tree"
    assert pure["sums"]["smooth-tree"]["std_worst_read"] <= 3_840
    assert pure["sums"]["tree"]["std_worst_read"] == pytest.approx(10_520, rel=1e-3)
    assert pure["sums"]["paper"]["epsilon"] > 1.9
    _, out, _ = discreet_("budget", "riverswim", "--delta", "1e-6", "--json")
    gaussian = json.loads(out)
    assert gaussian["sums"]["factored"]["std_worst_read"] <= 214
    assert gaussian["sums"]["tree"]["std_worst_read"] == pytest.approx(717, abs=1)
    for row in (*pure["sums"].values(), *gaussian["sums"].values()):
        assert row["relation"] == "replace-one"
        assert row["error_bound"] > row["std_worst_read"]
        assert "DpEvent" in row["events"]


def test_budget_for_people(discreet_):
    code, out, _ = discreet_("budget", "--states", "3", "--actions", "2", "--horizon", "4", "-d", "1e-6", "-K", "100")
    assert code == 0
    for piece in (
        "joint DP",
        "replace-one",
        "simulation only",
        "* factored",
        "paper",
        "error bound E",
        "GaussianDpEvent",
    ):
        assert piece in out


def test_budgets_of_the_other_trust_models(discreet_, tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_CACHE_DIR", str(tmp_path))
    code, out, _ = discreet_("budget", "riverswim", "--trust", "local", "--json")
    assert code == 0
    local = json.loads(out)
    assert (local["trust"], local["chosen"]) == ("local", "sampled")
    assert local["sums"]["laplace"]["std_fresh"] > 14 * local["sums"]["sampled"]["std_fresh"]
    assert local["sums"]["paper"]["epsilon"] == pytest.approx(2.0)
    arguments = ("budget", "riverswim", "--trust", "local", "--agent", "discreet-vi", "--stationary")
    code, out, _ = discreet_(*arguments, "--json")
    asked = json.loads(out)
    assert code == 0
    assert asked["sum"] == "questions"
    assert [row["answers"] for row in asked["questions"].values()] == [7, 3]
    assert 0.99 <= asked["guarantee"]["epsilon"] <= 1
    code, out, _ = discreet_(*arguments)
    for piece in ("local DP", "first visit", "24 questions", "next state", "users to know", "RandomizedResponse"):
        assert piece in out
    code, _, err = discreet_(*arguments, "--sum", "laplace")
    assert (code, err.count("\n")) == (2, 1)
    assert "sum='laplace'" in err
    arguments = ("budget", "riverswim", "--trust", "shuffle", "-d", "1e-6", "--update-every", "500")
    code, out, _ = discreet_(*arguments, "--json")
    row = json.loads(out)["sums"]["binomial"]
    assert code == 0
    assert 0.99 <= row["epsilon"] <= 1
    assert row["messages_per_user"] % 1920 == 0  # as many for every counter
    assert row["bytes_per_user"] > row["messages_per_user"] / 8
    assert row["std_worst_read"] == pytest.approx(10 * row["std_fresh"])
    code, out, _ = discreet_(*arguments)
    for piece in (
        "shuffle DP",
        "of 500 users",
        "of one bit a user",
        "assumes",
        "add their noise bits",
        "BinomialEvent",
    ):
        assert piece in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trust", "shuffle"), "delta > 0"),
        (("--trust", "shufle"), "did you mean 'shuffle'"),
        (("--trust", "local", "--release", "mr"), "release='mr' is for the trust model central, shuffle, got local"),
        (("--trust", "local", "--sum", "tree"), "unknown sum 'tree'"),
        (("--trust", "none"), "no budget without privacy"),
        (("--honest-fraction", "0.5"), "honest_fraction=0.5 is for the trust model shuffle, got central"),
        (("--noise", "exact"), "unknown noise 'exact'"),
    ],
)
def test_impossible_budgets_are_one_line(discreet_, arguments, message):
    code, out, err = discreet_("budget", "riverswim", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_audit_prints_claim_and_bound_side_by_side(discreet_):
    code, out, _ = discreet_("audit", "laplace", "--runs", "5000", "--seed", "0")
    assert code == 0
    assert "claimed      ε = 1.0000" in out
    assert "the claim stands" in out
    code, out, _ = discreet_("audit", "central", "--calibration", "paper", "--runs", "1000", "--seed", "0", "--json")
    document = json.loads(out)
    assert document["lower_bound"] > 1.0  # the paper's claim for this noise is ε = 1
    assert document["claim"]["epsilon"] == pytest.approx(4.0)
    assert not document["violated"]


def test_a_broken_claim_exits_with_1(discreet_, monkeypatch):
    from discreet import audit

    honest = audit.single(discreet.Budget(1.0))

    def make(copies, rng):
        sum_ = honest.make(copies, rng)
        sum_.scale /= 2
        return sum_

    broken = audit.SumTarget("broken", honest.claim, make, honest.zero, honest.one)
    monkeypatch.setattr(audit, "named", lambda *_, **__: broken)
    code, out, _ = discreet_("audit", "laplace", "--runs", "5000", "--seed", "0")
    assert code == 1
    assert "BROKEN" in out


def test_list_names_everything(discreet_):
    code, out, _ = discreet_("list")
    assert code == 0
    for name in (
        *discreet.envs.NAMES,
        *discreet.agents.NAMES,
        *discreet.agents.PRESETS,
        *discreet.privacy.TRUST_MODELS,
        *(name for trust in ("Central", "Local", "Shuffle") for name in getattr(discreet, trust).sums),
    ):
        assert f" {name}" in out


def test_version_and_help(discreet_):
    assert discreet_("--version") == (0, f"discreet, version {discreet.__version__}\n", "")
    for arguments in (["--help"], ["run", "-h"], ["list", "--help"]):
        code, out, _ = discreet_(*arguments)
        assert code == 0
        assert "Usage: discreet" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(discreet_, shell):
    code, out, _ = discreet_("completion", shell)
    assert code == 0
    assert "_DISCREET_COMPLETE" in out


def test_names_complete():
    environment = {
        **os.environ,
        "_DISCREET_COMPLETE": "bash_complete",
        "COMP_WORDS": "discreet run riv",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "discreet"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["plain,riverswim"]


def test_interrupting_keeps_the_finished_runs(discreet_, tmp_path, monkeypatch):
    real, calls = engine.simulate, []

    def simulate(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(engine, "simulate", simulate)
    code, out, err = discreet_("run", "riverswim", "--episodes", "20", "--runs", "5", "--json", "--out", str(tmp_path))
    assert code == 1
    assert len(json.loads(out)["regret"]["runs"]) == 2
    assert len(discreet.results.load(tmp_path).runs) == 2
    assert "2 of 5 runs" in err


def test_ctrl_c_in_a_real_process(tmp_path):
    code = """if True:
        import signal
        import discreet as dc
        from discreet.cli import main
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it
        mdp = dc.envs.riverswim()
        dc.simulate(dc.agents.make("ucbvi", mdp.spec, episodes=5, seed=0), mdp, seed=0)  # all is loaded
        print("ready", flush=True)
        main()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", "riverswim", "-K", "2000000", "--runs", "99", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "interrupted" in err
    assert "Traceback" not in err


def test_too_large_is_one_line(discreet_):
    code, out, err = discreet_("run", "riverswim", "--episodes", "1000000000000000")
    assert (code, out) == (1, "")
    assert "not enough memory" in err
    assert err.count("\n") == 1


def test_without_a_seed_one_is_drawn_and_recorded(discreet_):
    _, out, _ = discreet_("run", "riverswim", "--episodes", "30", "--json")
    first = json.loads(out)
    _, out, _ = discreet_("run", "riverswim", "--episodes", "30", "--json", "--seed", str(first["seeds"][0][0]))
    assert json.loads(out)["regret"] == first["regret"]

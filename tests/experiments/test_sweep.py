"""Sweeps: declared, checked, done by any engine with the same numbers, and never half."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyarrow")

from discreet import results
from discreet.errors import InvalidInput
from discreet.experiments import conduct, engine
from discreet.experiments.store import Store
from discreet.experiments.sweep import KEYS, Sweep

SMALL = {
    "env": ["riverswim:states=3,horizon=4", "chain"],
    "episodes": 60,
    "runs": 3,
    "setting": [{"agent": "ucbvi"}, {"agent": ["dp-ucbvi", "pucb"], "epsilon": [1, 10], "update_every": 5}],
}


def test_lists_are_grids_and_settings_are_alternatives():
    sweep = Sweep.make(SMALL)
    assert len(sweep.settings) == 2 * (1 + 2 * 2)
    assert len(sweep.configs) == 30
    assert {tuple(config["seed"]) for config in sweep.configs} == {(0, 0), (0, 1), (0, 2)}
    assert {config["trust"] for config in sweep.configs} == {"none", "central"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsiln": 1}, "unknown key 'epsiln': did you mean 'epsilon'"),
        ({"setting": [{"agent": "ucbvi", "episode": 3}]}, "did you mean 'episodes'"),
        ({"episodes": "many"}, "episodes of setting 1 must be a whole number, or a list of such, got 'many'"),
        ({"episodes": True}, "must be a whole number"),
        ({"runs": 0}, "runs=0"),
        ({"runs": "x"}, "runs="),
        ({"alpha": "x"}, "alpha must be a list of gaps"),
        ({"env": "riverswm"}, "setting 1: unknown environment 'riverswm': did you mean 'riverswim'"),
        ({"setting": [{"agent": "ucbvi"}, {"agent": "dp-ucbvi", "epsilon": -1}]}, "setting 2: .*epsilon=-1"),
        ({"setting": [{"agent": "ucbvi", "trust": "central"}]}, "offers no privacy"),
        ({"setting": [{"agent": "ucbvi"}, {"agent": ["ubev", "ucbvi"]}]}, "setting 2 repeats a setting"),
        ({"setting": [{"trust": "central"}]}, "needs the key agent"),
        ({"setting": {"agent": "ucbvi"}}, r"\[\[setting\]\]"),
        ({"setting": []}, r"\[\[setting\]\]"),
        ({"epsilon": []}, "epsilon of setting 1 must be a number"),
    ],
)
def test_whatever_is_wrong_is_said_before_anything_runs(change, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        Sweep.make({**SMALL, **change})
    assert "\n" not in str(caught.value)


def test_every_key_is_documented(request):
    page = (request.config.rootpath / "docs" / "sweeps.md").read_text()
    for key in (*KEYS, "runs", "seed", "alpha", "keep", "name"):
        assert f"`{key}`" in page


def test_a_file_that_is_no_toml_is_named(tmp_path):
    file = tmp_path / "bad.toml"
    for content in ("a = ", "env = 1", "\xff"):
        file.write_bytes(content.encode("latin-1"))
        with pytest.raises(InvalidInput, match=r"bad\.toml"):
            Sweep.read(file)


def same(one, other):
    with Store.open(one) as first, Store.open(other) as second:
        return results.same_content(first, second)


@pytest.mark.slow
def test_engines_and_workers_do_not_change_results(tmp_path):
    """Must show: local with 1 and 2 workers, and dask."""
    pytest.importorskip("distributed")
    sweep = Sweep.make(SMALL)
    for name, options in (
        ("one", {"workers": 1}),
        ("two", {"workers": 2}),
        ("dask", {"workers": 2, "engine": "dask"}),
    ):
        outcome = conduct.conduct(sweep, tmp_path / name, **options)
        assert outcome.complete
        assert not outcome.failed
    assert same(tmp_path / "one", tmp_path / "two") == []
    assert same(tmp_path / "one", tmp_path / "dask") == []


def test_a_directory_with_runs_is_not_taken_for_an_empty_one(tmp_path):
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 20, "runs": 2})
    assert conduct.conduct(sweep, tmp_path / "s", workers=1).done == 2
    with pytest.raises(InvalidInput, match="holds 2 runs already: --resume"):
        conduct.conduct(sweep, tmp_path / "s", workers=1)
    again = conduct.conduct(sweep, tmp_path / "s", workers=1, resume=True)
    assert (again.before, again.done, again.complete) == (2, 0, True)
    more = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 20, "runs": 4})
    assert conduct.conduct(more, tmp_path / "s", workers=1, resume=True).done == 2


def test_a_damaged_run_is_named_and_done_again(tmp_path):
    """Must show: truncated or corrupted files are detected, named and re-run."""
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 30, "runs": 3})
    for name in ("whole", "damaged"):
        conduct.conduct(sweep, tmp_path / name, workers=1)
    curves = sorted((tmp_path / "damaged" / "curves").glob("*.parquet"))
    curves[0].write_bytes(curves[0].read_bytes()[:-20])
    data = bytearray(curves[1].read_bytes())
    data[len(data) // 2] ^= 1
    curves[1].write_bytes(bytes(data))
    said = []
    outcome = conduct.conduct(sweep, tmp_path / "damaged", workers=1, resume=True, say=said.append)
    assert (outcome.before, outcome.done) == (1, 2)
    assert all(any(curve.stem in line for line in said) for curve in curves[:2])
    assert same(tmp_path / "whole", tmp_path / "damaged") == []


def test_a_run_that_fails_is_said_and_the_others_go_on(tmp_path, monkeypatch):
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 30, "runs": 3})
    real = engine.simulate

    def fails(agent, mdp, episodes, *, seed, progress):
        if seed[1] == 1:
            raise MemoryError("too large")
        return real(agent, mdp, episodes, seed=seed, progress=progress)

    monkeypatch.setattr(engine, "simulate", fails)
    outcome = conduct.conduct(sweep, tmp_path / "s", workers=1)
    assert (outcome.done, len(outcome.failed), outcome.complete) == (2, 1, False)
    assert "too large" in outcome.failed[0]
    monkeypatch.undo()
    assert conduct.conduct(sweep, tmp_path / "s", workers=1, resume=True).complete


def test_two_sweeps_into_one_directory_at_once(tmp_path):
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 30})
    with Store.create(tmp_path / "s") as store, store.lock():
        code = f"""if True:
            from pathlib import Path
            from discreet.experiments import conduct
            from discreet.experiments.sweep import Sweep
            sweep = Sweep.make({{"env": "chain", "agent": "ucbvi", "episodes": 30}})
            conduct.conduct(sweep, Path({str(tmp_path / "s")!r}))
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "LockedStore" in done.stderr
        assert str(os.getpid()) in done.stderr
    assert conduct.conduct(sweep, tmp_path / "s", workers=1).complete


def test_an_unreachable_scheduler_is_one_line(tmp_path):
    pytest.importorskip("distributed")
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 30})
    with pytest.raises(OSError, match="no Dask scheduler answers at tcp"):
        conduct.conduct(sweep, tmp_path / "s", engine="dask", address="tcp://127.0.0.1:9")
    assert Store.open(tmp_path / "s").verify() == []


TOML = """
env = "riverswim:states=3,horizon=4"
episodes = 3000
runs = 5
[[setting]]
agent = ["ucbvi", "ubev"]
[[setting]]
agent = ["dp-ucbvi", "pucb", "private-ucb-vi"]
epsilon = [1, 10]
update_every = 10
"""


@pytest.mark.slow
def test_kill_9_at_random_moments_loses_nothing(tmp_path):
    """Must show: 20 kills of a sweep of 40 runs, resumed each time: the store equals that of an uninterrupted sweep."""
    file = tmp_path / "sweep.toml"
    file.write_text(TOML)
    command = [sys.executable, "-m", "discreet", "sweep", str(file), "--quiet", "--workers", "2"]
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    with Store.open(tmp_path / "whole") as store:
        assert len(store.keys()) == 40
    rng, kills, counts = random.Random(0), 0, []
    while kills < 20:
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "killed"), "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(rng.uniform(1.5, 6.0))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)  # the coordinator; its workers must go by themselves
        process.wait()
        kills += 1
        if (tmp_path / "killed" / "index.sqlite").exists():
            with Store.create(tmp_path / "killed") as store, store.lock():
                counts.append(len(store.keys()))
        if counts and counts[-1] == 40 and kills >= 20:
            break
        if counts and counts[-1] == 40:  # all done: begin again, so that every kill meets a sweep at work
            with Store.create(tmp_path / "killed") as store:
                for key in sorted(store.keys())[::2]:
                    store.discard(key)
    subprocess.run([*command, "--out", str(tmp_path / "killed"), "--resume"], check=True, capture_output=True)
    assert same(tmp_path / "whole", tmp_path / "killed") == []

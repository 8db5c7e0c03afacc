"""Sweeps: declared, checked, done by any engine with the same numbers, and never half."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

pytest.importorskip("pyarrow")

from discreet import results
from discreet.errors import InvalidInput, StoreError
from discreet.experiments import conduct, engine
from discreet.experiments.setting import build, keys
from discreet.experiments.store import Store
from discreet.experiments.sweep import Sweep

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
        ({"setting": [{"agent": "ucbvi", "runs": 3}]}, "runs of setting 1 is a key of the whole sweep"),
        ({"episodes": "many"}, "episodes of setting 1 must be a whole number, or a list of such, got 'many'"),
        ({"episodes": True}, "must be a whole number"),
        ({"runs": 0}, "runs=0"),
        ({"runs": "x"}, "runs="),
        ({"alpha": "x"}, "alpha must be a list of gaps"),
        ({"env": "riverswm"}, "setting 1: unknown environment 'riverswm': did you mean 'riverswim'"),
        ({"setting": [{"agent": "ucbvi"}, {"agent": "dp-ucbvi", "epsilon": -1}]}, "setting 2: .*epsilon=-1"),
        ({"setting": [{"agent": "ucbvi", "trust": "central"}]}, "offers no privacy"),
        ({"setting": [{"agent": "ucbvi"}, {"agent": ["ubev", "ucbvi"]}]}, "setting 2 repeats a setting"),
        ({"setting": [{"agent": "dp-ucbvi"}, {"agent": "dp-ucbvi", "delta": 0}]}, "setting 2 repeats a setting"),
        ({"agent": "ucbvi", "setting": [{"stationary": False}, {}]}, "setting 2 repeats a setting"),
        ({"agent": "ucbvi", "setting": [{"env": "riverswim:horizon=20,states=6"}, {"env": "riverswim"}]}, "repeats"),
        ({"setting": [{"trust": "central"}]}, "needs the key agent"),
        ({"name": 5}, "name must be a text"),
        ({"name": "../elsewhere"}, "name must be a text"),
        ({"name": ""}, "name must be a text"),
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
    for key in (*keys(), "runs", "seed", "alpha", "keep", "name"):
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


def test_a_directory_without_a_store_can_be_resumed(tmp_path):
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 20, "runs": 2})
    (tmp_path / "empty").mkdir()
    (tmp_path / "killed" / "curves").mkdir(parents=True)
    for name in ("empty", "killed", "new"):
        assert conduct.conduct(sweep, tmp_path / name, workers=1, resume=True).done == 2


def test_what_was_left_open_is_stored_as_it_was_decided(tmp_path):
    """Else nobody could tell later what auto was."""
    sweep = Sweep.make({"env": "chain", "agent": "auto", "delta": [0, 1e-6], "episodes": 200})
    conduct.conduct(sweep, tmp_path / "s", workers=1)
    for run in results.load(tmp_path / "s").runs:
        resolved = run.config["resolved"]
        assert resolved["agent"] not in ("auto", None)
        assert resolved["sum"] not in ("auto", None)
        own = resolved["agent"] == "discreet-vi"  # on a schedule of its own, a function of sizes and budget
        assert own or isinstance(resolved["update_every"], int | str)
        _, agent = build(run.config)
        assert agent.name == resolved["agent"]
        assert (agent.mechanism.name, agent.mechanism.noise) == (resolved["sum"], resolved["noise"])


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


def test_an_unreachable_scheduler_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(engine, "_PATIENCE", 1)
    sweep = Sweep.make({"env": "chain", "agent": "ucbvi", "episodes": 30})
    with pytest.raises(OSError, match="no Dask scheduler answers at tcp"):
        conduct.conduct(sweep, tmp_path / "s", engine="dask", address="tcp://127.0.0.1:9")
    assert Store.open(tmp_path / "s").verify() == []


@pytest.mark.slow
def test_a_scheduler_that_dies_is_one_line(tmp_path):
    """What was finished before is kept; Dask's own words are not shown."""
    pytest.importorskip("distributed")
    code = """if True:
        import time
        from distributed import LocalCluster
        if __name__ == "__main__":
            cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
            print(cluster.scheduler_address, flush=True)
            time.sleep(600)
    """
    (tmp_path / "cluster.py").write_text(code)
    file = tmp_path / "sweep.toml"
    file.write_text('env = "riverswim:states=3,horizon=4"\nepisodes = 300_000\nruns = 100\nagent = "ucbvi"\n')
    options = {"text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, str(tmp_path / "cluster.py")], stdout=subprocess.PIPE, **options) as cluster:
        address = cluster.stdout.readline().strip()
        command = [sys.executable, "-m", "discreet", "sweep", str(file), "--out", str(tmp_path / "s")]
        with subprocess.Popen(
            [*command, "--engine", "dask", "--address", address], stderr=subprocess.PIPE, **options
        ) as sweep:
            while sweep.poll() is None and stored_in(tmp_path / "s") < 2:
                time.sleep(0.1)
            os.killpg(cluster.pid, signal.SIGKILL)
            _, said = sweep.communicate(timeout=120)
    assert sweep.returncode == 1
    *_, last = said.splitlines()
    assert f"discreet: the Dask cluster at {address} was lost" in last
    assert "Traceback" not in said
    with Store.open(tmp_path / "s") as store:
        assert store.verify() == []
        assert len(store.keys()) >= 2


SECURE = """
env = "riverswim:states=3,horizon=4"
episodes = 300
runs = 2
noise = "secure"
[[setting]]
agent = ["discreet-vi", "dp-ucbvi"]
epsilon = [1, 3]
delta = 1e-6
[[setting]]
agent = "discreet-vi"
trust = "local"
epsilon = 3
noise = ["fast", "secure"]
[[setting]]
agent = "ucbvi"
trust = "none"
noise = []
"""


def test_a_sweep_with_noise_that_may_be_released(tmp_path, discreet_):
    """Catches a key that only the command line knows, and stored runs that forget which noise they had."""
    file = tmp_path / "sweep.toml"
    file.write_text(SECURE)
    code, _, err = discreet_("sweep", str(file), "--out", str(tmp_path / "s"), "--workers", "1", "--quiet")
    assert code == 2
    assert "noise" in err  # an empty grid
    file.write_text(SECURE[: SECURE.rindex("[[setting]]")])
    code, _, err = discreet_("sweep", str(file), "--out", str(tmp_path / "s"), "--workers", "1", "--quiet")
    assert code == 0, err
    runs = results.load(tmp_path / "s").runs
    assert len(runs) == 12
    for run in runs:
        assert run.guarantee["noise"] == run.config["privacy"]["noise"]
        assert 0.999 <= run.guarantee["epsilon"] / run.config["privacy"]["epsilon"] <= 1
    file.write_text(SECURE.replace("noise = []", 'noise = "secure"'))
    code, _, err = discreet_("sweep", str(file), "--out", str(tmp_path / "t"), "--quiet")
    assert code == 2
    assert "noise='secure' is for the trust model central, shuffle, local" in err


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


def test_what_is_there_is_neither_probed_nor_done_again(tmp_path, discreet_):
    file = tmp_path / "a b.toml"
    file.write_text(TOML.replace("3000", "20"))
    command = ("sweep", str(file), "--out", str(tmp_path / "s"), "--workers", "1")
    assert "40 runs of 8 settings: about" in discreet_(*command, "--dry-run")[2]
    assert "40 of 40 runs" in discreet_(*command)[2]
    assert "40 runs of 8 settings, 0 of them to do\n" in discreet_(*command, "--resume")[2]
    (tmp_path / "s" / "index.sqlite").write_bytes(b"not SQLite at all" * 100)
    assert "40 of 40 runs" in discreet_(*command, "--resume")[2]


def on_a_terminal(command):
    """Starts a command whose stderr is a terminal of its own; returns the process and the other end."""

    def heed():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's & ignores it, and that is inherited

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        start_new_session=True,
        preexec_fn=heed,  # noqa: PLW1509
    )
    os.close(theirs)
    return process, ours


def alive(group):
    """Whether a process of the group is there and is no zombie."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return any(int(line.split()[0]) == group and "Z" not in line for line in listed.splitlines())


def stored_in(directory):
    """Returns how many runs are in a store, 0 if there is none yet. A curve counts when it has its row."""
    try:
        return len(Store.open(directory).keys())
    except (StoreError, OSError):
        return 0


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path, workers):
    """Progress says rate, time left and regret of the runs in flight; no process outlives the command."""
    file = tmp_path / "a b.toml"
    file.write_text('env = "riverswim:states=3,horizon=4"\nepisodes = 200_000\nruns = 400\nagent = "ucbvi"\n')
    command = [sys.executable, "-m", "discreet", "sweep", str(file), "--workers", str(workers)]
    process, terminal = on_a_terminal([*command, "--out", str(tmp_path / "s")])
    shown, sent = "", False
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data.decode(errors="replace")
        if stored_in(tmp_path / "s") >= 2 and re.search(r"/s regret [\d,]+", shown) and not sent:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
            sent = True
    process.communicate(timeout=30)
    os.close(terminal)
    assert process.returncode == 1
    assert re.search(r"\d%.*\d:\d\d.*[\d,]+/s regret [\d,]+", shown)
    assert "Traceback" not in shown
    lines = [line for line in shown.replace("\r", "\n").split("\n") if line.strip()]
    assert f"go on with: discreet sweep '{file}' --out {tmp_path / 's'} --resume" in lines[-1]
    with Store.open(tmp_path / "s") as store:
        stored = len(store.keys())
    assert 2 <= stored < 400
    assert f"{stored} of 400 runs are in" in lines[-2]
    deadline = time.monotonic() + 20
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive(process.pid)


def test_a_full_disk_is_one_line_and_keeps_what_is_stored(tmp_path, discreet_):
    """A limit on the size of files stands in for the disk."""
    file = tmp_path / "sweep.toml"
    file.write_text(TOML)
    arguments = ["sweep", str(file), "--workers", "1", "--out", str(tmp_path / "s")]
    command = [sys.executable, "-m", "discreet", *arguments]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert done.returncode == 1
    (problem,) = [line for line in done.stderr.splitlines() if line.startswith("discreet: ")]
    assert str(tmp_path / "s") in problem
    with Store.open(tmp_path / "s") as store:
        assert store.verify() == []
        assert 0 < len(store.keys()) < 40
    assert discreet_(*arguments, "--resume")[0] == 0
    with Store.open(tmp_path / "s") as store:
        assert len(store.keys()) == 40


def test_a_read_only_directory_is_one_line(tmp_path, discreet_):
    file = tmp_path / "sweep.toml"
    file.write_text(TOML.replace("3000", "20"))
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False
    if os.geteuid() == 0:  # root may write everywhere but on a read-only file system
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "ro", "none", str(place)], check=False, capture_output=True
        )
        mounted = done.returncode == 0
        if not mounted:
            pytest.skip("nothing is read-only to root here")
    else:
        place.chmod(0o555)
    try:
        code, _, said = discreet_("sweep", str(file), "--out", str(place / "s"), "--workers", "1")
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)
        place.chmod(0o755)
    assert code == 1
    (problem,) = [line for line in said.splitlines() if line.startswith("discreet: ")]
    assert str(place / "s") in problem
    assert "Read-only file system" in problem or "Permission denied" in problem


@pytest.mark.slow
def test_kill_9_at_random_moments_loses_nothing(tmp_path):
    """Must show: 20 kills of a sweep of 40 runs, resumed each time: the store equals that of an uninterrupted sweep.

    Every kill meets a sweep at work, and what is stored when it comes is neither lost nor done again.
    """
    file = tmp_path / "sweep.toml"
    file.write_text(TOML)
    command = [sys.executable, "-m", "discreet", "sweep", str(file), "--quiet", "--workers", "2"]
    subprocess.run([*command, "--out", str(tmp_path / "whole")], check=True, capture_output=True)
    with Store.open(tmp_path / "whole") as store:
        assert len(store.keys()) == 40
    rng, kills, killed, stored = random.Random(0), 0, tmp_path / "killed", {}
    while kills < 20:
        process = subprocess.Popen(
            [*command, "--out", str(killed), "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        more = rng.choice((0, 1, 1, 2, 3, 5))  # so many runs later, or on its way there
        while process.poll() is None and len(list((killed / "curves").glob("*.parquet"))) < len(stored) + more:
            time.sleep(0.01)
        time.sleep(rng.choice((0.0, 0.05, 1.0)) * rng.random())
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)  # the coordinator; its workers must go by themselves
            kills += 1
        process.wait()
        if (killed / "index.sqlite").exists():
            with Store.create(killed) as store, store.lock():
                found = {row.key: (row.created, row.wall_seconds) for row in store.runs()}
                assert stored.items() <= found.items()
                stored = found
                for key in sorted(found)[::2] if len(found) == 40 else ():  # all done: give the next one work
                    store.discard(key)
                    del stored[key]
    subprocess.run([*command, "--out", str(killed), "--resume"], check=True, capture_output=True)
    assert same(tmp_path / "whole", tmp_path / "killed") == []

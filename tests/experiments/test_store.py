"""Runs on disk: whatever happens to writer, disk or files, a store holds whole runs or says which are not."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet import results
from discreet.errors import (
    DamagedStore,
    DuplicateRun,
    InvalidInput,
    LockedStore,
    MissingExtra,
    StoreError,
    UnknownName,
)
from discreet.experiments import files, records
from discreet.experiments.files import write_file
from discreet.experiments.records import host_facts, run_key, source_commit, summarise, thin
from discreet.experiments.store import Store
from discreet.experiments.store.index import Index

if TYPE_CHECKING:
    from collections.abc import Iterable

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def tmp_path(tmp_path):
    """In memory where that can be had: flushing to a disk is most of what these tests would wait for."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="discreet-") as place:
        yield Path(place)


def config(i: int = 0, *, seed: int = 0, epsilon: float | None = 1.0, episodes: int = 50) -> dict:
    return {
        "env": "riverswim",
        "env_parameters": {"states": 6},
        "agent": "ucbvi" if epsilon is None else "dp-ucbvi",
        "options": {"preset": "practical", "stationary": True},
        "trust": "none" if epsilon is None else "central",
        "privacy": None if epsilon is None else {"epsilon": epsilon, "delta": 0.0},
        "episodes": episodes,
        "seed": [seed, i],
        "alpha": [0.1, 1.0],
    }


def finished(i: int = 0, *, keep: int = 1000, **options):
    """A run as a worker would hand it in: the same numbers for the same configuration, other times."""
    asked = config(i, **options)
    gaps = np.random.default_rng(asked["seed"]).random(asked["episodes"])
    private = asked["privacy"] is not None
    guarantee = dc.Guarantee("joint", 0.999, 0.0) if private else dc.Guarantee("none", np.inf, 0.0, noise="none")
    spent = {"wall_seconds": time.perf_counter(), "cpu_seconds": 0.5}
    row, curve = summarise(asked, gaps, guarantee.to_dict(), keep=keep, **spent)
    return dataclasses.replace(row, commit="c0ffee"), curve  # ours may change while tests run


def filled(directory: Path, n: int = 3) -> Store:
    store = Store.create(directory)
    put_all(store, range(n))
    return store


def put_all(store: Store, numbers: Iterable[int]) -> None:
    with store.lock():
        for i in numbers:
            store.put(*finished(i))


def check_one_line(error: BaseException, *parts: str) -> None:
    text = str(error)
    assert "\n" not in text
    for part in parts:
        assert part in text


class TestIdentity:
    def test_a_key_is_what_it_was(self):
        """A changed rule would make every stored run look new, and run it again."""
        assert run_key(config()) == "0c4c735298d17ee7"

    def test_equal_configurations_have_equal_keys(self):
        """1 in a TOML file is 1.0 on the command line."""
        asked = config()
        other = dict(reversed(asked.items())) | {"privacy": {"delta": 0, "epsilon": np.float64(1)}, "seed": (0, 0)}
        assert run_key(other) == run_key(asked)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("seed", [0, 1]), ("episodes", 51), ("privacy", {"epsilon": 1.5, "delta": 0}), ("options", {"stationary": 2})],
    )
    def test_other_configurations_have_other_keys(self, name, value):
        assert run_key(config() | {name: value}) != run_key(config())

    @pytest.mark.parametrize("value", [np.nan, np.inf, object(), {1: 2}, {1, 2}, b"x"])
    def test_what_json_cannot_hold_is_refused_and_named(self, value):
        with pytest.raises(InvalidInput, match=r"config\.options\.x"):
            run_key({"options": {"x": value}})

    @pytest.mark.parametrize("name", ["env", "agent", "trust", "episodes", "seed"])
    def test_an_incomplete_configuration_is_refused(self, name):
        asked = {key: value for key, value in config().items() if key != name}
        with pytest.raises(InvalidInput, match=name):
            summarise(asked, np.zeros(50), {}, wall_seconds=0, cpu_seconds=0)

    def test_gaps_that_are_not_of_the_configuration_are_refused(self):
        with pytest.raises(InvalidInput, match="episodes=50, got 49"):
            summarise(config(), np.zeros(49), {}, wall_seconds=0, cpu_seconds=0)


class TestThinning:
    @given(st.integers(1, 3000), st.integers(2, 300))
    def test_kept_values_are_exact_and_both_ends_are_among_them(self, episodes, keep):
        gaps = np.random.default_rng(episodes).random(episodes)
        regret = np.cumsum(gaps)
        curve = thin(regret, gaps, keep)
        assert (curve.episodes[0], curve.episodes[-1], curve.total) == (1, episodes, episodes)
        assert len(curve.episodes) <= keep or episodes == 1
        assert (np.diff(curve.episodes) > 0).all()
        assert (curve.regret == regret[curve.episodes - 1]).all()
        assert (curve.gaps == gaps[curve.episodes - 1]).all()

    def test_the_beginning_and_the_end_are_both_seen(self):
        """A linear grid alone misses the first thousand of a million episodes, a geometric one the last half."""
        kept = thin(np.zeros(10**6), np.zeros(10**6)).episodes
        assert len(kept) > 950
        assert (kept <= 1000).sum() > 150
        assert np.diff(kept).max() <= 10**6 / 450

    def test_short_curves_are_kept_whole_and_said_to_be(self):
        assert len(thin(np.zeros(1000), np.zeros(1000)).episodes) == 1000
        assert thin(np.zeros(1000), np.zeros(1000)).thinning == "all 1,000 episodes, values exact at those kept"
        assert thin(np.zeros(2000), np.zeros(2000), 2).thinning == "2 of 2,000 episodes, values exact at those kept"

    @pytest.mark.parametrize("gaps", [[], [[1.0]], [np.nan], [1.0, np.inf]])
    def test_what_is_no_curve_is_refused(self, gaps):
        with pytest.raises(InvalidInput, match="regret and gaps"):
            thin(np.asarray(gaps), np.asarray(gaps))


class TestRoundTrip:
    def test_everything_comes_back(self, tmp_path):
        runs = {row.key: (row, curve) for row, curve in (finished(0), finished(1, epsilon=None), finished(2, keep=7))}
        with Store.create(tmp_path / "a" / "b") as store:
            for row, curve in runs.values():
                store.put(row, curve)
        again = Store.open(tmp_path / "a" / "b")
        assert again.keys() == set(runs)
        assert {row.key: row for row in again.runs()} == {key: row for key, (row, _) in runs.items()}
        for key, (_, curve) in runs.items():
            assert again.has(key)
            assert again.curve(key) == curve
        assert again.verify() == []
        assert not again.has("0" * 16)

    def test_a_real_run_is_summarised_as_it_was_measured(self, tmp_path):
        mdp = dc.envs.riverswim(states=3, horizon=4)
        agent = dc.agents.make("ucbvi", mdp.spec, episodes=300, seed=[7, 1])
        result = dc.simulate(agent, mdp, seed=[7, 1])
        asked = config(1, seed=7, epsilon=None, episodes=300)
        row, curve = summarise(
            asked, result.gaps, result.guarantee.to_dict(), wall_seconds=1.0, cpu_seconds=1.0, keep=100
        )
        with Store.create(tmp_path) as store:
            store.put(row, curve)
        (again,) = results.load(tmp_path).runs
        assert again.config == asked
        assert again.regret == result.regret[-1]
        assert again.suboptimal == {"0.1": result.suboptimal(0.1), "1.0": result.suboptimal(1.0)}
        assert again.guarantee == result.guarantee.to_dict()
        assert (again.version, again.episodes) == (dc.__version__, 300)
        kept = store.curve(again.key)
        assert (kept.regret == result.regret[kept.episodes - 1]).all()

    def test_a_seed_of_128_bits_comes_back(self, tmp_path):
        row, curve = finished(3, seed=2**128 - 1)
        with Store.create(tmp_path) as store:
            store.put(row, curve)
        assert Store.open(tmp_path).runs()[0].config["seed"] == [2**128 - 1, 3]
        assert results.load(tmp_path).table()["seed"][0] == str(2**128 - 1)

    def test_runs_are_in_an_order_of_their_own(self, tmp_path):
        """Workers finish in any order; two stores of one sweep should list alike."""
        options = [{"i": i, "seed": seed, "epsilon": e} for i in range(3) for seed in (2, 10) for e in (1.0, None)]
        orders = []
        for name in ("one", "other"):
            random.Random(name).shuffle(options)
            with Store.create(tmp_path / name) as store:
                for entry in options:
                    store.put(*finished(**entry))
            orders.append([row.key for row in store.runs()])
        assert orders[0] == orders[1]
        assert [row.config["seed"] for row in store.runs()][:6] == [[2, 0], [2, 1], [2, 2], [10, 0], [10, 1], [10, 2]]

    def test_nothing_says_who_ran_it(self):
        text = json.dumps(host_facts())
        assert str(Path.home()) not in text or str(Path.home()) == "/"
        assert set(host_facts()) == {"node", "platform", "machine", "cpus", "python", "packages"}

    def test_the_commit_is_that_of_our_source_only(self, tmp_path, monkeypatch):
        """A library in a venv inside somebody's repository would be given their commit."""
        if shutil.which("git") is None:
            pytest.skip("needs git")
        package = tmp_path / "package"
        (package / "experiments").mkdir(parents=True)
        monkeypatch.setattr(records, "__file__", str(package / "experiments" / "store.py"))
        ask = source_commit.__wrapped__

        def git(*words):
            command = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", *words]
            return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

        (package / "__init__.py").write_text("")
        assert ask() is None
        git("init", "--quiet")
        git("commit", "--quiet", "--allow-empty", "-m", "theirs")
        assert ask() is None
        git("add", ".")
        git("commit", "--quiet", "-m", "ours")
        assert ask() == git("rev-parse", "HEAD")
        (package / "__init__.py").write_text("changed")
        assert ask() == git("rev-parse", "HEAD") + "-dirty"


class TestStrangersRead:
    """Files are read by pandas, DuckDB and SQLite without this library."""

    def test_curves_of_different_runs_are_one_table(self, tmp_path):
        with Store.create(tmp_path) as store:
            for i, epsilon in enumerate((None, 1.0, 0.3)):
                store.put(*finished(i, epsilon=epsilon))
        frame = pq.read_table(tmp_path / "curves")
        assert frame.num_rows == 150
        assert frame.column_names == [
            *("key", "setting", "env", "agent", "options", "trust", "privacy"),
            *("epsilon_requested", "delta_requested", "epsilon_proven", "delta_proven"),
            *("seed", "run", "episode", "regret", "gap"),
        ]
        asked = set(zip(frame["run"].to_pylist(), frame["epsilon_requested"].to_pylist(), strict=True))
        assert asked == {(0, None), (1, 1.0), (2, 0.3)}
        assert set(frame["env"].to_pylist()) == {"riverswim:states=6"}

    def test_a_setting_is_shared_by_seeds_and_by_nothing_else(self, tmp_path):
        """Who averages over runs with the same setting must not mix presets."""
        rows = [finished(0)[0], finished(1)[0], finished(0, seed=5)[0], finished(0, epsilon=2.0)[0]]
        settings = [row.labels["setting"] for row in rows]
        assert settings[0] == settings[1] == settings[2] != settings[3]

    def test_the_index_answers_plain_sql(self, tmp_path):
        filled(tmp_path)
        db = sqlite3.connect(tmp_path / "index.sqlite")
        query = "SELECT agent, trust, epsilon_proven, count(*), avg(regret) FROM runs GROUP BY 1, 2, 3"
        ((agent, trust, epsilon, count, regret),) = db.execute(query).fetchall()
        db.close()
        assert (agent, trust, epsilon, count) == ("dp-ucbvi", "central", 0.999, 3)
        assert regret == pytest.approx(np.mean([finished(i)[0].regret for i in range(3)]))


class TestWriters:
    def test_a_run_cannot_be_added_twice(self, tmp_path):
        store = filled(tmp_path)
        before = store.runs()
        with pytest.raises(DuplicateRun) as caught:
            store.put(*finished(1))
        check_one_line(caught.value, finished(1)[0].key, str(tmp_path), "the same regret")
        assert store.runs() == before
        assert store.verify() == []

    def test_row_and_curve_must_belong_together(self, tmp_path):
        """A mix-up of workers' answers would be stored under the wrong configuration."""
        row, curve = finished(0)
        with Store.create(tmp_path) as store, pytest.raises(InvalidInput, match="belong together"):
            store.put(row, finished(1)[1])
        with Store.create(tmp_path) as store, pytest.raises(InvalidInput, match="belong together"):
            store.put(dataclasses.replace(row, config=config(5)), curve)

    def test_discarded_runs_can_be_run_again(self, tmp_path):
        store = filled(tmp_path)
        key = finished(1)[0].key
        store.discard(key)
        assert not store.has(key)
        assert filled(tmp_path / "other").keys() - store.keys() == {key}
        store.put(*finished(1))
        assert results.same_content(store, Store.open(tmp_path / "other")) == []

    def test_one_writer_at_a_time_and_any_number_of_readers(self, tmp_path):
        with Store.create(tmp_path) as store, store.lock():
            store.put(*finished(0))
            other = Store.create(tmp_path)
            with pytest.raises(LockedStore) as caught:
                other.put(*finished(1))
            check_one_line(caught.value, str(tmp_path), f"process {os.getpid()} on")
            assert len(Store.open(tmp_path).runs()) == 1
            store.put(*finished(2))
        other.put(*finished(1))
        assert len(store.keys()) == 3

    def test_a_store_opened_for_reading_is_not_written_to(self, tmp_path):
        filled(tmp_path)
        with pytest.raises(StoreError, match="for reading"):
            Store.open(tmp_path).put(*finished(5))

    def test_threads_may_hand_in_runs(self, tmp_path):
        from concurrent.futures import ThreadPoolExecutor

        with Store.create(tmp_path) as store, store.lock(), ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: store.put(*finished(i)), range(12)))
        assert len(store.keys()) == 12
        assert store.verify() == []

    def test_what_is_no_store_is_said_to_be_none(self, tmp_path):
        (tmp_path / "file").write_text("")
        for wrong in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
            for action in (Store.open, results.load, Store.repair):
                with pytest.raises(StoreError) as caught:
                    action(wrong)
                check_one_line(caught.value, str(wrong))
        with pytest.raises(StoreError, match="no directory"):
            Store.create(tmp_path / "file")
        filled(tmp_path / "full")
        with pytest.raises(StoreError, match="already"):
            Store.create(tmp_path / "full", exist_ok=False)

    def test_a_later_format_is_not_touched(self, tmp_path):
        filled(tmp_path)
        db = sqlite3.connect(tmp_path / "index.sqlite")
        db.execute("PRAGMA user_version = 2")
        db.close()
        before = (tmp_path / "index.sqlite").read_bytes()
        for action in (Store.open, Store.create, Store.repair):
            with pytest.raises(StoreError, match="format 2"):
                action(tmp_path)
        assert (tmp_path / "index.sqlite").read_bytes() == before

    def test_without_pyarrow_one_can_list_but_not_write(self, tmp_path, monkeypatch):
        filled(tmp_path / "full")
        for name in ("pyarrow", "pyarrow.parquet"):
            monkeypatch.setitem(sys.modules, name, None)
        assert len(results.load(tmp_path / "full").runs) == 3
        with pytest.raises(MissingExtra, match=r"discreet\[sweep\]"):
            Store.create(tmp_path / "new")
        assert not (tmp_path / "new").exists()


#: What a process of its own needs to write runs as above.
PREAMBLE = """
import os, signal, sys, time
from pathlib import Path
from discreet.experiments.store.parquet import unpack
from discreet.experiments.records import run_key
from discreet.experiments.store import Store
from tests.experiments.test_store import config, finished
"""


def start(code: str, *arguments: object) -> subprocess.Popen:
    root = Path(__file__).parent.parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(code), *map(str, arguments)],
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(code: str, *arguments: object) -> str:
    process = start(code, *arguments)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def interrupt(place: Path) -> None:
    """Kills a writer in the middle of a transaction, when half of it is on the disk."""
    run(
        """
        import sqlite3
        if not os.fork():
            db = sqlite3.connect(Path(sys.argv[1]) / "index.sqlite", isolation_level=None)
            db.execute("PRAGMA cache_size = 1")
            db.execute("BEGIN IMMEDIATE")
            long = "config || hex(zeroblob(100000))"
            db.execute(f"UPDATE runs SET regret = -1, config = {long} WHERE rowid = (SELECT max(rowid) FROM runs)")
            db.execute("SELECT count(*) FROM runs").fetchall()
            os.kill(os.getpid(), signal.SIGKILL)
        os.wait()
        """,
        place,
    )


class TestKilled:
    def test_before_any_line_of_a_writer(self, tmp_path):
        """Dies before the nth line, for every n: the other runs stay, this one is whole or not there.

        A row before its curve, or a curve under its own name before it is on the disk, would be caught.
        """
        filled(tmp_path / "base", 2)
        out = run(
            """
            import shutil
            base, place = Path(sys.argv[1]), Path(sys.argv[2])
            row, curve = finished(2)
            watched = {"create", "lock", "_locked", "held", "_acquire", "_release", "_tidy", "put", "_write"}
            watched |= {"replacing", "sync", "add"}
            n, outcomes = 0, []
            while True:
                n += 1
                shutil.copytree(base, place)
                child = os.fork()
                if not child:
                    left = n
                    def trace(frame, event, argument):
                        global left
                        code = frame.f_code
                        ours = "/experiments/" in code.co_filename
                        if not ours or code.co_name not in watched:
                            return None
                        if event == "line":
                            left -= 1
                            if not left:
                                os.kill(os.getpid(), signal.SIGKILL)
                        return trace
                    sys.settrace(trace)
                    with Store.create(place) as store, store.lock():
                        store.put(row, curve)
                    sys.settrace(None)
                    os._exit(0)
                status = os.waitpid(child, 0)[1]
                reader = Store.open(place)
                before = reader.keys()
                assert reader.verify() == [] and len(reader.runs()) == len(before) and len(before) in (2, 3), n
                for path in reader.curves.glob("*.parquet"):  # what pandas and DuckDB would see
                    unpack(path.read_bytes())
                with Store.create(place) as store, store.lock():
                    after = store.keys()
                    if row.key not in after:
                        store.put(row, curve)
                    assert store.verify() == [] and len(store.keys()) == 3 and store.curve(row.key) == curve, n
                files = {path.name for path in store.curves.iterdir()}
                assert files == {f"{key}.parquet" for key in store.keys()}, files
                outcomes.append((len(before), len(after)))
                shutil.rmtree(place)
                if status == 0:
                    break
            print(n, outcomes.count((2, 2)), outcomes.count((2, 3)), outcomes.count((3, 3)))
            """,
            tmp_path / "base",
            tmp_path / "place",
        )
        lines, nothing, taken_in, all_there = map(int, out.split())
        assert lines > 40
        assert min(nothing, taken_in, all_there) > 3  # each of the three outcomes was met

    def test_in_the_middle_of_a_transaction(self, tmp_path):
        """Half a transaction is on the disk; whoever opens the store next, only to read it too, undoes it."""
        filled(tmp_path)
        interrupt(tmp_path)
        assert (tmp_path / "index.sqlite-journal").stat().st_size > 0
        assert Store.open(tmp_path).verify() == []
        assert all(row.regret > 0 for row in Store.open(tmp_path).runs())

    def test_the_lock_goes_with_the_process_even_if_it_has_forked(self, tmp_path):
        """A worker that outlives a killed sweep must not hold its lock."""
        process = start(
            """
            store = Store.create(sys.argv[1])
            with store.lock():
                store.put(*finished(0))
                child = os.fork()
                if child:
                    print(child, flush=True)
                time.sleep(60)
            """,
            tmp_path,
        )
        child = int(process.stdout.readline())
        try:
            with pytest.raises(LockedStore, match=f"process {process.pid} on"):
                Store.create(tmp_path).put(*finished(1))
            process.kill()
            process.wait()
            os.kill(child, 0)  # it is there
            with Store.create(tmp_path) as store:
                store.put(*finished(1))
            assert len(store.keys()) == 2
        finally:
            os.kill(child, signal.SIGKILL)
            process.communicate()

    @pytest.mark.slow
    def test_twenty_times_at_random_moments(self, tmp_path):
        """The store grows by whole runs only, loses none, does none twice, and ends as if nobody had been killed."""
        sweep = """
            with Store.create(sys.argv[1]) as store, store.lock():
                here = store.keys()
                for i in range(120):
                    if run_key(config(i)) not in here:
                        print(i, flush=True)
                        time.sleep(0.002)
                        store.put(*finished(i))
        """
        rng = random.Random(5)
        place, seen, started = tmp_path / "killed", set(), []
        for kill in range(20):
            process = start(sweep, place)
            if kill == 0:  # while it starts
                time.sleep(0.3)
            started += [int(process.stdout.readline()) for _ in range(rng.randrange(1, 5) if kill else 0)]
            time.sleep(rng.uniform(0.0, 0.012))
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
            assert process.returncode == -signal.SIGKILL, err or out
            started += map(int, out.split())
            if (place / "index.sqlite").exists():
                assert Store.open(place).verify() == []
                with Store.create(place) as store, store.lock():
                    keys = store.keys()
                assert seen <= keys
                seen = keys
        assert 0 < len(seen) < 120
        started += map(int, run(sweep, place).split())
        assert 120 <= len(started) <= 140  # only what was in flight is done again
        run(sweep, tmp_path / "whole")
        one, other = Store.open(place), Store.open(tmp_path / "whole")
        assert len(one.keys()) == 120
        assert one.verify() == []
        assert results.same_content(one, other) == []


class TestDamage:
    @pytest.mark.parametrize(
        ("harm", "reason"),
        [
            (lambda data: data[: len(data) // 2], "bytes, not"),
            (lambda data: b"", "has 0 bytes"),
            (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], "checksum"),
            (lambda data: None, "missing"),
        ],
        ids=["truncated", "empty", "altered", "missing"],
    )
    def test_a_damaged_curve_is_named_and_only_that_is_run_again(self, tmp_path, harm, reason):
        store, key = filled(tmp_path / "a"), finished(1)[0].key
        path = tmp_path / "a" / "curves" / f"{key}.parquet"
        left = harm(path.read_bytes())
        path.unlink() if left is None else path.write_bytes(left)
        ((found, why),) = store.verify()
        assert found == key
        assert reason in why
        assert str(path) in why
        with pytest.raises(DamagedStore) as caught:
            store.curve(key)
        check_one_line(caught.value, str(path), reason)
        assert len(store.runs()) == 3  # the others can be worked with
        assert [damage.key for damage in Store.repair(tmp_path / "a")] == [key]
        assert store.keys() == {finished(i)[0].key for i in (0, 2)}
        store.put(*finished(1))
        assert results.same_content(store, filled(tmp_path / "b")) == []
        assert Store.repair(tmp_path / "a") == []

    @pytest.mark.parametrize(
        "change",
        ["regret = regret + 1e-9", "guarantee = replace(guarantee, '0.999', '0.1')", "epsilon_proven = NULL",
         "run = 'x'", "config = X'ff00'", "curve_sha256 = 'no'", "key = '../../etc'"],
    )  # fmt: skip
    def test_a_changed_row_is_found_and_taken_from_the_curve_again(self, tmp_path, change):
        store, key = filled(tmp_path / "a"), finished(1)[0].key
        db = sqlite3.connect(store.index)
        db.execute(f"UPDATE runs SET {change} WHERE key = ?", (key,))
        db.commit()
        db.close()
        assert len(store.verify()) == 1
        with pytest.raises(DamagedStore) as caught:
            store.runs()
        check_one_line(caught.value, str(store.index))
        assert len(Store.repair(tmp_path / "a")) == 1
        assert results.same_content(store, filled(tmp_path / "b")) == []

    def test_a_damaged_index_is_never_believed_and_built_anew(self, tmp_path):
        """Bytes flipped or cut off anywhere: what can be read is right, all else is one line; repair loses no run."""
        whole = filled(tmp_path / "whole", 4)
        good, right = whole.index.read_bytes(), whole.runs()
        rng = random.Random(1)
        place = tmp_path / "place"
        noticed = 0
        for case in range(50):
            shutil.copytree(tmp_path / "whole", place)
            data = bytearray(good)
            if case % 3 == 0:
                del data[rng.randrange(len(data)) :]
            else:
                at = rng.randrange(100 if case % 3 == 1 else len(data))
                data[at : at + 8] = rng.randbytes(8)
            (place / "index.sqlite").write_bytes(data)
            try:
                assert Store.open(place).runs() == right
            except StoreError as error:
                check_one_line(error, str(place))
                noticed += 1
            damages = Store.repair(place)
            with Store.create(place) as store, store.lock():
                assert store.verify() == []
            assert results.same_content(whole, Store.open(place)) == [], (case, damages)
            shutil.rmtree(place)
        assert noticed > 25

    def test_index_and_curve_at_once(self, tmp_path):
        store = filled(tmp_path)
        key = finished(1)[0].key
        store.index.write_bytes(b"nonsense" * 1000)
        path = tmp_path / "curves" / f"{key}.parquet"
        path.write_bytes(path.read_bytes()[:-9])
        found = Store.repair(tmp_path)
        assert [damage.key for damage in found] == ["index", key]
        assert str(path) in found[1].reason
        assert Store.open(tmp_path).keys() == {finished(i)[0].key for i in (0, 2)}
        assert (tmp_path / "index.sqlite.damaged").read_bytes().startswith(b"nonsense")

    @pytest.mark.parametrize("again", [Store.create, Store.repair], ids=["create", "repair"])
    def test_the_journal_of_a_lost_index_is_not_that_of_the_new_one(self, tmp_path, again):
        """SQLite would undo with it what never happened to the new file."""
        store = filled(tmp_path / "a", 12)
        interrupt(tmp_path / "a")
        store.index.unlink()
        again(tmp_path / "a")
        with store.lock():
            assert store.verify() == []
        assert results.same_content(store, filled(tmp_path / "b", 12)) == []

    def test_files_of_others_are_left_alone(self, tmp_path):
        filled(tmp_path)
        theirs = [tmp_path / "curves" / name for name in ("all.parquet", "notes.tmp")]
        for path in theirs:
            path.write_text("mine")
        Store.repair(tmp_path)
        with Store.create(tmp_path).lock():
            pass
        assert all(path.read_text() == "mine" for path in theirs)

    def test_comparing_finds_differences(self, tmp_path):
        one, other = filled(tmp_path / "one", 3), Store.create(tmp_path / "other")
        row, curve = finished(0)
        other.put(dataclasses.replace(row, version="0.0.0", wall_seconds=9.0, created="then", host={}), curve)
        other.put(*finished(1, keep=7))
        text = "\n".join(results.same_content(one, other))
        assert text.count("\n") == 3
        for part in (f"{row.key} differs in version", "differs in thinning", "differs in its curve", "one only"):
            assert part in text


def full(*_arguments, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class HalfFull(io.FileIO):
    def write(self, data):
        super().write(data[:100])
        full()


class TestDisk:
    @pytest.mark.parametrize("step", ["open", "write", "fsync", "replace", "sync"])
    def test_a_full_disk_at_any_step_leaves_the_store_intact(self, tmp_path, monkeypatch, step):
        store = filled(tmp_path / "a", 2)
        row, curve = finished(2)
        with monkeypatch.context() as patch:
            if step == "open":
                patch.setattr(Path, "open", full)
            elif step == "write":
                patch.setattr(Path, "open", lambda path, _mode: HalfFull(path, "w"))
            elif step == "fsync":
                patch.setattr(os, "fsync", full)
            elif step == "replace":
                patch.setattr(Path, "replace", full)
            else:
                patch.setattr(files, "sync", full)
            with pytest.raises(OSError, match="No space left") as caught:
                store.put(row, curve)
        check_one_line(caught.value, str(store.curves / f"{row.key}.parquet"))
        assert store.keys() == {finished(i)[0].key for i in (0, 1)}
        assert Store.open(tmp_path / "a").verify() == []
        assert not list(store.curves.glob("*.tmp"))
        with store.lock():
            if not store.has(row.key):  # taken in
                store.put(row, curve)
        assert results.same_content(store, filled(tmp_path / "b", 3)) == []

    def test_what_has_a_name_is_on_the_disk(self, tmp_path, monkeypatch):
        """A power cut must not leave the name of a curve without its bytes, nor a row without its curve."""
        store, events = filled(tmp_path, 1), []
        fsync, replace, enter = os.fsync, Path.replace, Index.add

        def log(name, function):
            return lambda *arguments: (events.append(name(*arguments)), function(*arguments))[1]

        def kind(file):
            return "flush directory" if stat.S_ISDIR(os.fstat(file).st_mode) else "flush file"

        monkeypatch.setattr(os, "fsync", log(kind, fsync))
        monkeypatch.setattr(Path, "replace", log(lambda *_: "rename", replace))
        monkeypatch.setattr(Index, "add", log(lambda *_: "row", enter))
        store.put(*finished(1))
        assert events == ["flush file", "rename", "flush directory", "row"]
        with store._rows.database() as db:
            assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA

    def test_an_index_that_cannot_grow(self, tmp_path, monkeypatch):
        """SQLite's own error becomes the system's; the finished run is not lost."""
        store = filled(tmp_path / "a", 2)
        connect = sqlite3.connect

        def tight(*arguments, **options):
            db = connect(*arguments, **options)
            db.execute("PRAGMA max_page_count = 1")  # never less than it has
            return db

        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", tight)
            with pytest.raises(OSError, match="No space left") as caught:
                put_all(store, range(2, 40))
        check_one_line(caught.value, str(store.index))
        n = len(store.keys())
        assert Store.open(tmp_path / "a").verify() == []
        with store.lock():
            assert len(store.keys()) == n + 1
        assert results.same_content(store, filled(tmp_path / "b", n + 1)) == []

    def test_a_disk_that_is_really_full_and_then_read_only(self, tmp_path):
        place = tmp_path / "disk"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
        if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("may not mount a small disk")
        try:
            ballast = place / "ballast"
            ballast.write_bytes(bytes(60_000))
            with Store.create(place / "a") as store:
                with pytest.raises(OSError, match="No space left") as caught:
                    put_all(store, range(60))
                check_one_line(caught.value, str(place / "a"))
                done = len(Store.open(place / "a").runs())
                assert done > 3
                assert Store.open(place / "a").verify() == []
                ballast.unlink()
                with store.lock():
                    if not store.has(finished(done)[0].key):
                        store.put(*finished(done))
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            assert results.same_content(Store.open(place / "a"), filled(tmp_path / "b", done + 1)) == []
            for action in (
                lambda: Store.create(place / "a").put(*finished(99)),
                lambda: Store.create(place / "new"),
                lambda: Store.repair(place / "a"),
                lambda: results.load(place / "a").export(place / "x.csv"),
                lambda: write_file(place / "page.html", b"page"),
            ):
                with pytest.raises(OSError, match="Read-only") as caught:
                    action()
                check_one_line(caught.value, str(place))
                assert ".tmp" not in str(caught.value)  # nobody asked for a draft
            subprocess.run(["mount", "-o", "remount,rw,size=4m", str(place)], check=True)
            interrupt(place / "a")
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            with pytest.raises(StoreError) as caught:
                Store.open(place / "a")
            check_one_line(caught.value, str(place), "unfinished transaction")
        finally:
            subprocess.run(["umount", str(place)], check=True)

    def test_a_directory_that_may_not_be_written(self, tmp_path):
        filled(tmp_path / "a")
        for path in (
            tmp_path / "a" / "index.sqlite",
            tmp_path / "a" / "lock",
            tmp_path / "a" / "curves",
            tmp_path / "a",
        ):
            path.chmod(0o555)
        try:
            if os.access(tmp_path / "a", os.W_OK):
                pytest.skip("nothing is read-only to root")
            assert len(Store.open(tmp_path / "a").runs()) == 3
            with pytest.raises(PermissionError) as caught:
                Store.create(tmp_path / "a").put(*finished(5))
            check_one_line(caught.value, str(tmp_path / "a"))
        finally:
            for path in (tmp_path / "a", tmp_path / "a" / "curves"):
                path.chmod(0o755)


class TestResults:
    @pytest.fixture
    def loaded(self, tmp_path):
        with Store.create(tmp_path / "store") as store:
            for i in range(2):
                for epsilon in (None, 1.0):
                    store.put(*finished(i, epsilon=epsilon, keep=7))
        return results.load(tmp_path / "store")

    def test_tables_are_columns_of_numbers(self, loaded):
        table = loaded.table()
        assert len({len(column) for column in table.values()}) == 1
        assert table["episode"].dtype == np.int64
        assert np.isnan(table["epsilon_proven"]).sum() == 14
        row = loaded.runs[0]
        mine = table["key"] == row.key
        assert (table["regret"][mine] == loaded.curve(row.key).regret).all()
        assert (table["run"][mine] == row.config["seed"][1]).all()

    def test_a_summary_has_one_row_a_run(self, loaded):
        summary = loaded.summary()
        assert summary["regret"].tolist() == [row.regret for row in loaded.runs]
        assert summary["suboptimal_0.1"].dtype.kind == "i"
        assert summary["agent"].tolist() == [row.config["agent"] for row in loaded.runs]

    def test_exports_hold_the_same_numbers(self, loaded, tmp_path):
        table = loaded.table()
        for name in results.FORMATS:
            loaded.export(tmp_path / f"x.{name}")
        with (tmp_path / "x.csv").open(newline="") as file:
            from_csv = list(csv.DictReader(file))
        from_json = json.loads((tmp_path / "x.json").read_text())
        from_parquet = pq.read_table(tmp_path / "x.parquet").to_pylist()
        assert from_json == from_parquet
        for rows in (from_csv, from_json):
            assert list(rows[0]) == list(table)
            for name in ("regret", "gap", "episode"):
                assert [float(row[name]) for row in rows] == table[name].tolist()
        assert {row["epsilon_proven"] for row in from_csv} == {"", "0.999"}
        assert {row["epsilon_proven"] for row in from_json} == {None, 0.999}
        assert {path.name for path in tmp_path.glob("x*")} == {"x.csv", "x.json", "x.parquet"}

    def test_an_export_that_fails_leaves_the_old_file(self, loaded, tmp_path, monkeypatch):
        target = tmp_path / "x.csv"
        target.write_text("old")
        monkeypatch.setattr(loaded._store, "curve", full)
        with pytest.raises(OSError, match=r"x\.csv"):
            loaded.export(target)
        assert [path.name for path in tmp_path.glob("x*")] == ["x.csv"]
        assert target.read_text() == "old"

    def test_wrong_formats_and_empty_stores_are_refused(self, loaded, tmp_path):
        with pytest.raises(UnknownName, match="xlsx"):
            loaded.export(tmp_path / "x.xlsx")
        Store.create(tmp_path / "empty")
        with pytest.raises(InvalidInput, match="no runs"):
            results.load(tmp_path / "empty").export(tmp_path / "x.csv")
        assert results.load(tmp_path / "empty").table() == {}

    def test_pandas_gets_the_table(self, loaded, monkeypatch):
        import types

        monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=dict))
        assert list(loaded.to_pandas()) == list(loaded.table())

    def test_listing_imports_nothing_heavy(self, loaded, python):
        place = str(loaded._store.directory)
        code = f"import sys; from discreet import results; results.load({place!r}); print(*sys.modules)"
        heavy = ("pyarrow", "numba", "scipy", "pandas", "dp_accounting", "gymnasium")
        assert not [name for name in python(code).split() if name.split(".")[0] in heavy]

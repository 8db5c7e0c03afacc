"""A saved agent goes on exactly, and once; a file that is not whole is refused and kept."""

from __future__ import annotations

import dataclasses
import errno
import functools
import io
import json
import os
import pickle
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.agents.dp_ucbvi import DPUCBVI
from discreet.errors import InvalidInput
from discreet.noise import Role
from discreet.privacy import BitsReport, binomial
from discreet.privatizers.counts.encode import RawEncoder
from discreet.runtime import handover as files
from discreet.runtime import records
from discreet.runtime.fast import short_cut
from tests.conftest import PRIVATE, TRUST, make_agent, met

MDP = dc.envs.riverswim(states=3, horizon=4)
EPISODES = 40  # with batches of 7: five whole ones, and five people who are never collected
STOPS = (0, 7, 10, 24, 36, 40)  # at the start, a batch's end, within batches, within the last one, at the end
CASES = [met(name, trust) for name in PRIVATE for trust in TRUST]
CASES += [pytest.param("ucbvi", "none"), pytest.param("ubev", "none")]


def in_turn(cases):
    """Returns cases pooled and per step, which differ in the shapes of arrays only: by day one of them, in turn."""
    found = []
    for i, case in enumerate(cases):
        for stationary in (True, False):
            marks = [*case.marks, *[pytest.mark.slow] * ((i + i // len(TRUST) + stationary) % 2)]
            found.append(pytest.param(*case.values, stationary, marks=marks))
    return found


EPSILON = functools.cache(binomial.epsilon)


@pytest.fixture(autouse=True)
def account_once(monkeypatch):
    """The account of shuffled batches takes longer than all else here."""
    monkeypatch.setattr(binomial, "epsilon", EPSILON)


def build(name="dp-ucbvi", trust="tree, laplace", **options):
    return make_agent(name, MDP.spec, trust=trust, **{"episodes": EPISODES, "update_every": 7, "seed": 0, **options})


def play(agent, people, block=True, messages=False):
    return dc.simulate(agent, MDP, people, seed=1, block=block, messages=messages).gaps if people else np.zeros(0)


def moved(agent, path):
    agent.save(path)
    return dc.agents.load(path)


def assert_same(one, two):
    """Everything that is released, shown or drawn from, to the last bit."""
    assert type(one) is type(two)
    assert (one.count, one.batch_size, one.guarantee) == (two.count, two.batch_size, two.guarantee)
    assert one.shuffler.uncollected == two.shuffler.uncollected
    assert len(one.shuffler.reports) == len(two.shuffler.reports)
    for field in ("Q", "V", "policy"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))
    assert one.plan.hash == two.plan.hash
    first, second = one.privatizer.last, two.privatizer.last
    for field in ("visits", "transitions", "rewards", "error", "std", "version"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    assert one.rng.bit_generator.state == two.rng.bit_generator.state
    for role, source in one.sources.items():
        assert source.mark() == two.sources[role].mark()
    assert files.pack(one) == files.pack(two)


def names_in(directory):
    return sorted(file.name for file in directory.iterdir())


def saved(path, people=10, **options):
    """Saves an agent within a batch; returns the file's bytes."""
    agent = build(**options)
    play(agent, people)
    agent.save(path)
    return path.read_bytes()


def refused(path, match):
    """Loading raises one line that names the path; the file and its directory stay as they were."""
    before, names = path.read_bytes(), names_in(path.parent)
    with pytest.raises(InvalidInput, match=match) as caught:
        dc.agents.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert names_in(path.parent) == names


@pytest.mark.parametrize(("name", "trust", "stationary"), in_turn(CASES))
def test_a_saved_agent_goes_on_bit_for_bit(name, trust, stationary, tmp_path):
    """Would catch anything that is left behind: noise, a generator's state, a plan, a report in transit."""
    path = tmp_path / "agent"
    whole, parts = (build(name, trust, stationary=stationary) for _ in range(2))
    expected, gaps = play(whole, EPISODES, block=False), []
    for i, (start, stop) in enumerate(zip((0, *STOPS), STOPS, strict=False)):
        gaps.append(play(parts, stop - start, block=i % 2 == 0))
        cut, waiting = type(short_cut(parts)), len(parts.shuffler.reports)
        assert waiting == (stop % 7 if stop < 35 else 0)
        parts = moved(parts, path)
        assert not list(tmp_path.iterdir())
        assert type(short_cut(parts)) is cut
    np.testing.assert_array_equal(np.concatenate(gaps), expected)
    assert_same(parts, whole)


@pytest.mark.parametrize("trust", ["none", "tree, laplace", "factored, mr", "local sampled", "shuffle"])
@pytest.mark.parametrize("update_every", [1, "geometric", 60])
def test_whatever_the_batches_are(trust, update_every, tmp_path):
    """Batches of one, of growing size (a shuffler for each), and one that is never complete."""
    whole, parts = (build("pucb", trust, update_every=update_every) for _ in range(2))
    expected = play(whole, EPISODES)
    gaps = [play(parts, 17, block=False)]
    parts = moved(parts, tmp_path / "agent")
    gaps.append(play(parts, 9))
    parts = moved(parts, tmp_path / "agent")
    gaps.append(play(parts, 14))
    np.testing.assert_array_equal(np.concatenate(gaps), expected)
    assert_same(parts, whole)


def test_all_messages_of_the_shuffle_model_travel(tmp_path):
    """The path on which every bit is drawn, with whole reports in transit."""
    whole, parts = (build("pucb", "shuffle") for _ in range(2))
    expected, first = play(whole, 20, messages=True), play(parts, 10, messages=True)
    parts = moved(parts, tmp_path / "agent")
    assert [type(report) for report in parts.shuffler.reports] == [BitsReport] * 3
    assert parts.shuffler.reports[0].bits.dtype == np.bool_
    np.testing.assert_array_equal(np.concatenate([first, play(parts, 10, messages=True)]), expected)
    assert_same(parts, whole)


@pytest.mark.parametrize("people", [10, 20])
def test_a_block_that_stopped_within_a_batch_goes_on(people, tmp_path):
    """Whole batches by a compiled block, then reports that wait, a file, and the rest."""
    whole, parts = build(), build()
    play(whole, 28)
    play(parts, people)
    assert len(parts.shuffler.reports) == people % 7
    parts = moved(parts, tmp_path / "agent")
    play(parts, 28 - people)
    assert_same(parts, whole)


def test_it_goes_on_in_another_process(tmp_path, python):
    """Would catch what is kept in memory only; there, calibrations cannot be looked up either."""
    expected = []
    for i, trust in enumerate(("smooth-tree, gaussian", "local laplace", "shuffle")):
        whole, parts = build(trust=trust), build(trust=trust)
        expected.append(play(whole, EPISODES)[10:].tobytes().hex())
        play(parts, 10)
        parts.save(tmp_path / str(i))
    code = f"""if True:
        import discreet as dc
        for i in range(3):
            agent = dc.agents.load({str(tmp_path)!r} + f"/{{i}}")
            print(dc.simulate(agent, dc.envs.riverswim(states=3, horizon=4), seed=1).gaps.tobytes().hex())
    """
    assert python(code, DISCREET_CACHE_DIR=str(tmp_path / "cache")).split() == expected


@pytest.mark.parametrize(
    ("trust", "calibrate", "other"),
    [
        ("shuffle", "discreet.privacy.binomial.calibrate", (500, 0.5)),
        ("local gaussian", "discreet.privacy.accounting.gaussian_mu", 0.01),
        ("factored", "discreet.privacy.accounting.gaussian_mu", 0.01),
    ],
)
def test_what_was_calibrated_is_not_calibrated_anew(trust, calibrate, other, tmp_path, monkeypatch):
    """Another version may calibrate otherwise; the guarantee is about the noise that users were promised."""
    whole, parts = build(trust=trust), build(trust=trust)
    play(whole, 10)
    play(parts, 10)
    parts.save(tmp_path / "agent")
    with monkeypatch.context() as patch:
        patch.setattr(calibrate, lambda *_: other)
        assert build(trust=trust).mechanism.fresh_std != whole.mechanism.fresh_std
        parts = dc.agents.load(tmp_path / "agent")
    assert (parts.mechanism.fresh_std, parts.mechanism.error) == (whole.mechanism.fresh_std, whole.mechanism.error)
    np.testing.assert_array_equal(play(parts, 30), play(whole, 30))
    assert_same(parts, whole)


OPTIONS = [
    {"preset": "theory", "failure": 0.1, "bonus_scale": 0.5},
    {"privacy": dc.Central(0.7, calibration="paper")},
    {"privacy": dc.Local(2.0, randomiser="response", sum="sampled")},
    {"privacy": dc.Shuffle(3.0, 1e-5, honest_fraction=0.5)},
    {"privacy": dc.Central(2.0, 1e-7)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_travels(options, tmp_path):
    agent = build(**options)
    play(agent, 10)
    settings = {key: getattr(agent, key) for key in ("privacy", "preset", "failure", "bonus_scale", "schedule")}
    again = moved(agent, tmp_path / "agent")
    assert settings == {key: getattr(again, key) for key in settings}
    assert again.guarantee == agent.guarantee
    assert again.spec == agent.spec
    whole = build(**options)
    play(whole, 10)
    np.testing.assert_array_equal(play(again, 30), play(whole, 30))


@pytest.mark.parametrize("seed", [None, 5, [3, 1], (3, 1), np.array([7, 8]), np.random.SeedSequence(4).spawn(3)[2]])
def test_seeds_travel(seed, tmp_path):
    """Results name the agent's seed: it must be the one that the noise came from."""
    agent = build(seed=seed)
    entropy, key = agent.seed.entropy, agent.seed.spawn_key
    again = moved(agent, tmp_path / "agent")
    np.testing.assert_array_equal(again.seed.entropy, entropy)
    assert again.seed.spawn_key == key
    np.testing.assert_array_equal(again.seed.generate_state(4), agent.seed.generate_state(4))


def test_the_noise_has_one_generator(tmp_path):
    """Two in the same state would draw the same noise twice."""
    whole, parts = build(), build()
    play(parts, 10)
    parts = moved(parts, tmp_path / "agent")
    assert parts.sources[Role.NOISE] is parts.privatizer.source
    play(whole, 10)
    np.testing.assert_array_equal(play(parts, 30), play(whole, 30))


def test_a_file_is_loaded_once(tmp_path):
    path = tmp_path / "agent"
    saved(path)
    dc.agents.load(path)
    with pytest.raises(InvalidInput, match="loading one uses it up") as caught:
        dc.agents.load(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_of_many_who_load_one_gets_it(tmp_path):
    path, found, errors = tmp_path / "agent", [], []
    saved(path)
    start = threading.Barrier(8)

    def race():
        start.wait()
        try:
            found.append(dc.agents.load(path))
        except InvalidInput as error:
            errors.append(str(error))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    assert len(errors) == 7
    assert all(str(path) in error for error in errors)
    assert not list(tmp_path.iterdir())


def test_a_link_is_used_up_with_its_file(tmp_path):
    saved(tmp_path / "agent")
    (tmp_path / "link").symlink_to(tmp_path / "agent")
    dc.agents.load(tmp_path / "link")
    with pytest.raises(InvalidInput, match="no saved agent"):
        dc.agents.load(tmp_path / "agent")


def test_a_load_that_was_killed_says_where_the_file_is(tmp_path):
    path = tmp_path / "agent"
    saved(path)
    left = files._beside(path, "loading")
    path.rename(left)
    with pytest.raises(InvalidInput) as caught:
        dc.agents.load(path)
    assert str(left) in str(caught.value)
    left.rename(path)
    assert dc.agents.load(path).count == 7


def test_the_retired_agent_meets_nobody(tmp_path):
    """Would catch an original that goes on beside its saved self, with the same noise."""
    path, rng = tmp_path / "agent", np.random.default_rng(0)
    for trust in ("tree, laplace", "local sampled", "shuffle", "none"):
        agent = build(trust=trust)
        play(agent, 10)
        policy, guarantee, encoder, shuffler = agent.policy, agent.guarantee, agent.encoder, agent.shuffler
        batch = shuffler([encoder.encode(MDP.sample(policy, rng), rng) for _ in range(7)], rng)
        assert agent.saved is None
        agent.save(path)
        before = held(agent)
        assert agent.saved == path
        for call in (
            lambda agent=agent, batch=batch: agent.observe(batch),
            lambda agent=agent: agent.absorb(agent.privatizer.reveal(), 7),
            lambda agent=agent: dc.simulate(agent, MDP, 1, seed=1),
            lambda agent=agent: dc.simulate(agent, MDP, 1, seed=1, block=False),
            lambda agent=agent: agent.encoder,
            lambda agent=agent: agent.shuffler,
            lambda agent=agent: agent.save(tmp_path / "second"),
            lambda agent=agent: files.pack(agent),
        ):
            with pytest.raises(InvalidInput, match="was saved to") as caught:
                call()
            assert str(path) in str(caught.value)
        assert held(agent) == before
        assert (agent.count, agent.guarantee) == (7, guarantee)
        np.testing.assert_array_equal(agent.policy, policy)
        assert "7 of 40" in repr(agent)
        assert [file.name for file in tmp_path.iterdir()] == ["agent"]
        dc.agents.load(path)


def held(agent):
    """All that could change in an agent that is retired, and hands nothing out."""
    kept = records._plain(agent.privatizer.reveal(), arrays := {})
    return (
        kept,
        {name: array.tobytes() for name, array in arrays.items()},
        agent.privatizer.version,
        [id(report) for report in agent._shuffler.reports],
        agent.plan.hash,
        [str(source.mark()) for source in agent.sources.values()],
    )


def test_packing_changes_nothing():
    one, two = build(), build()
    play(one, 10)
    play(two, 10)
    files.pack(one)
    np.testing.assert_array_equal(play(one, 30), play(two, 30))


def test_a_truncated_file_is_refused_and_kept(tmp_path):
    path = tmp_path / "agent"
    data = saved(path)
    for length in {*range(0, 100, 3), *range(0, len(data), len(data) // 60), *range(len(data) - 40, len(data))}:
        path.write_bytes(data[:length])
        refused(path, "cut short|damaged")
    path.write_bytes(data)
    assert dc.agents.load(path).count == 7


def test_one_wrong_byte_anywhere_is_refused(tmp_path, rng):
    path = tmp_path / "agent"
    data = saved(path)
    ends = (*range(70), *range(len(data) - 40, len(data)))
    for place in {*ends, *range(0, len(data), len(data) // 200)}:
        wrong = bytearray(data)
        wrong[place] ^= int(rng.integers(1, 256))
        path.write_bytes(wrong)
        refused(path, "no saved agent|cut short|damaged")
    path.write_bytes(data + b"\n")
    refused(path, "damaged")
    path.write_bytes(data)
    assert dc.agents.load(path).count == 7


def _npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


FOREIGN = {
    "png": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "json": b'{"agent": "ucbvi"}',
    "pickle": pickle.dumps({"agent": "ucbvi"}),
    "npz": _npz(document=np.zeros(3)),
    "text": "ein kleiner Text, größer nicht\n".encode(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_kept(kind, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(FOREIGN[kind])
    path.chmod(0o644)
    inode = path.stat().st_ino
    refused(path, "no saved agent")
    assert (path.stat().st_ino, stat.S_IMODE(path.stat().st_mode)) == (inode, 0o644)


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "directory").mkdir()
    with pytest.raises(InvalidInput, match="not a file"):
        dc.agents.load(tmp_path / "directory")
    assert (tmp_path / "directory").is_dir()
    with pytest.raises(InvalidInput, match="no saved agent at"):
        dc.agents.load(tmp_path / "nothing" / "agent")


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def _document(data, **changes):
    """The bytes of a saved file with a changed document: whole, and with a good checksum."""
    with np.load(io.BytesIO(files.unseal(io.BytesIO(data)))) as file:
        arrays = dict(file)
    document = {**json.loads(arrays.pop("document").tobytes()), **changes}
    return files.seal(_npz(document=np.frombuffer(json.dumps(document).encode(), dtype=np.uint8), **arrays)), document


def test_loading_runs_no_code_of_the_file(tmp_path):
    """Object arrays are pickles; a document that names something else must not call it."""
    path, mark = tmp_path / "agent", tmp_path / "mark"
    data = saved(path)
    bomb = np.array([Bomb(mark)], dtype=object)
    with np.load(io.BytesIO(files.unseal(io.BytesIO(data)))) as file:
        arrays = dict(file)
    for body in (_npz(document=bomb), _npz(**{**arrays, "array0": bomb}), pickle.dumps(Bomb(mark)), b""):
        path.write_bytes(files.seal(body))
        refused(path, "does not describe an agent")
        assert not mark.exists()


def test_a_whole_file_that_makes_no_sense_is_refused_and_kept(tmp_path, monkeypatch):
    path = tmp_path / "agent"
    data = saved(path)
    for changes in (
        {"agent": "nobody"},
        {"episodes": -1},
        {"spec": {"$record": "Path", "fields": {}}},
        {"spec": {"$record": "pathlib:Path", "fields": {}}},
        {"spec": {"$record": "discreet.agents.base:LearningAgent", "fields": {}}},
        {"kept": {}},
        {"calibration": []},
        {"learned": []},
        {"plan": {}},
        {"streams": {"ENCODER": {"bit_generator": "MT19937"}}},
        {"options": {"colour": "red"}},
    ):
        path.write_bytes(_document(data, **changes)[0])
        refused(path, "does not describe an agent")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_VERSION", 3)
        path.write_bytes(files.seal(files.unseal(io.BytesIO(files.seal(b"later")))))
    refused(path, "its format is 3")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_VERSION", 1)
        path.write_bytes(files.seal(files.unseal(io.BytesIO(files.seal(b"earlier")))))
    refused(path, "its format is 1")


@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_only_the_owner_can_read_it_at_any_time(umask, tmp_path, monkeypatch):
    """Would catch a file that is open to others until it is closed to them."""
    modes, sync, opened = [], os.fsync, os.open

    def watched(path, flags, mode=0o777, **options):
        descriptor = opened(path, flags, mode, **options)
        if flags & os.O_CREAT:
            modes.append((flags & os.O_EXCL != 0, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~0o600))
        return descriptor

    def synced(descriptor):
        modes.append(
            (True, stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077 * stat.S_ISREG(os.fstat(descriptor).st_mode))
        )
        sync(descriptor)

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(os, "fsync", synced)
    agent, before = build(), os.umask(umask)
    try:
        agent.save(tmp_path / "agent")
    finally:
        os.umask(before)
    assert len(modes) >= 3
    assert set(modes) == {(True, 0)}
    assert stat.S_IMODE((tmp_path / "agent").stat().st_mode) == 0o600


def unharmed(agent, directory, names=()):
    """The agent goes on as if nobody had tried to save it, and nothing is left behind."""
    assert agent.saved is None
    assert names_in(directory) == sorted(names)
    whole = build()
    play(whole, 10)
    np.testing.assert_array_equal(play(agent, 30), play(whole, 30))
    assert_same(agent, whole)


def test_a_saved_agent_replaces_no_file(tmp_path):
    """Overwriting another saved agent would lose people's data."""
    path = tmp_path / "agent"
    path.write_text("precious")
    agent = build()
    play(agent, 10)
    with pytest.raises(InvalidInput, match="exists") as caught:
        agent.save(path)
    assert str(path) in str(caught.value)
    assert path.read_text() == "precious"
    unharmed(agent, tmp_path, ["agent"])


def test_nor_one_that_appears_while_it_is_saved(tmp_path, monkeypatch):
    path, write = tmp_path / "agent", files._write

    def slow(draft, data):
        write(draft, data)
        path.write_text("precious")

    monkeypatch.setattr(files, "_write", slow)
    agent = build()
    play(agent, 10)
    with pytest.raises(InvalidInput, match="exists"):
        agent.save(path)
    assert path.read_text() == "precious"
    unharmed(agent, tmp_path, ["agent"])


@pytest.mark.parametrize("where", ["nowhere/agent", "file/agent", "x" * 300])
def test_a_path_that_cannot_be_written_harms_nothing(where, tmp_path):
    (tmp_path / "file").write_text("")
    agent = build()
    play(agent, 10)
    with pytest.raises(OSError, match=r"agent'$|xxx'$"):
        agent.save(tmp_path / where)
    unharmed(agent, tmp_path, ["file"])


def test_the_longest_name_can_be_saved_and_loaded(tmp_path):
    moved(build(), tmp_path / ("x" * 255))


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_whatever_interrupts_saving_the_agent_goes_on(failing, error, tmp_path, monkeypatch):
    """A full disk, or Ctrl-C: no half a file, and no agent lost."""
    agent = build()
    play(agent, 10)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(failing, fail)
        with pytest.raises(type(error)) as caught:
            agent.save(tmp_path / "agent")
    if isinstance(error, OSError):
        assert str(tmp_path / "agent") in str(caught.value)
    unharmed(agent, tmp_path)


def test_an_interrupt_just_after_saving_leaves_one_agent(tmp_path, monkeypatch):
    """The file is there, so the agent in memory must not go on."""
    replace = Path.replace
    agent = build()

    def late(self, target):
        replace(self, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", late)
        with pytest.raises(KeyboardInterrupt):
            agent.save(tmp_path / "agent")
    assert agent.saved == tmp_path / "agent"
    assert [file.name for file in tmp_path.iterdir()] == ["agent"]
    dc.agents.load(tmp_path / "agent")


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt(), MemoryError()], ids=repr
)
def test_whatever_interrupts_loading_the_file_stays(error, tmp_path, monkeypatch):
    path = tmp_path / "agent"
    data = saved(path)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(files, "unseal", fail)
        with pytest.raises(type(error)) as caught:
            dc.agents.load(path)
    if isinstance(error, OSError):
        assert str(path) in str(caught.value)
    assert path.read_bytes() == data
    assert [file.name for file in tmp_path.iterdir()] == ["agent"]
    assert dc.agents.load(path).count == 7


def test_a_refused_file_does_not_come_back_over_a_newer_one(tmp_path, monkeypatch):
    path, data = tmp_path / "agent", saved(tmp_path / "other")
    path.write_bytes(data[:-1])

    def meanwhile(file):
        path.write_bytes(data)
        raise InvalidInput("it is cut short")

    with monkeypatch.context() as patch:
        patch.setattr(files, "unseal", meanwhile)
        with pytest.raises(InvalidInput, match=r"the file is now '.*\.loading'"):
            dc.agents.load(path)
    assert path.read_bytes() == data


@dataclasses.dataclass(frozen=True)
class Watcher(RawEncoder):
    """An encoder of somebody else's."""


class Other(DPUCBVI):
    """A subclass, which no file can name."""


def test_an_agent_that_could_not_come_back_is_not_saved(tmp_path):
    """Would catch a save whose file is refused later, when the agent is gone."""
    agent = build()
    mind = agent._mind
    agent._mind = mind._replace(plan=dataclasses.replace(mind.plan, encoder=Watcher(agent.encoder.layout)))
    with pytest.raises(InvalidInput, match="cannot be saved"):
        agent.save(tmp_path / "agent")
    agent._mind = mind
    play(agent, 10)
    unharmed(agent, tmp_path)
    agent = Other(MDP.spec, episodes=EPISODES, update_every=7, privacy=TRUST["tree, laplace"], seed=0)
    play(agent, 10)
    with pytest.raises(InvalidInput, match="cannot be saved: parts of it"):
        agent.save(tmp_path / "agent")
    assert agent.saved is None
    assert not list(tmp_path.iterdir())


def test_load_is_public():
    assert "load" in dc.agents.__all__


def test_paths_are_what_python_takes_for_paths(tmp_path, monkeypatch):
    """Also relative ones, after the working directory has changed."""
    monkeypatch.chdir(tmp_path)
    agent = build()
    agent.save("agent")
    monkeypatch.chdir("/")
    assert agent.saved == tmp_path / "agent"
    dc.agents.load(str(agent.saved))
    with pytest.raises(TypeError):
        build().save(3)

"""Power cuts: ``kill -9`` leaves what the system has not written yet; a power cut does not."""

from __future__ import annotations

import pytest

from tests.live.faults.forks import Forks
from tests.live.faults.invariants import Broken
from tests.live.faults.power import PoweredRig, compiled, files_after, records


@pytest.fixture
def powered(tmp_path):
    """Makes deployments whose writes are noted."""
    library = compiled(tmp_path)
    if library is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "files"
    folder.mkdir()
    log = tmp_path / "writes"
    forks = Forks(tmp_path / "log", LD_PRELOAD=str(library), POWER_FOLDER=str(folder), POWER_LOG=str(log))
    yield lambda trust, bug=None: PoweredRig(forks, folder, log, trust, bug=bug, seed=5)
    forks.close()


def cuts(rig, tmp_path, number):
    """Cuts the power at marks and between them, with none, some and all of what was not synced."""
    size = rig.log_.stat().st_size
    for turn in range(number):
        folder = tmp_path / f"cut{turn}"
        folder.mkdir()
        mark = rig.marks[int(rig.rng.integers(len(rig.marks)))].size
        at = mark if turn % 2 else int(rig.rng.integers(size))
        rig.cut(at, (0.0, 0.5, 1.0)[turn % 3], folder)


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["central", "local"])
def test_what_was_acknowledged_survives(trust, powered, tmp_path):
    """Would catch a commit that is acknowledged before it is on the disk."""
    rig = powered(trust)
    rig.play(60)
    rig.end()
    assert rig.marks[-1].releases
    cuts(rig, tmp_path, 150)


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["synchronous off", "synchronous normal"])
def test_commits_that_do_not_wait_are_found(bug, powered, tmp_path):
    """Would catch a test of power cuts that cuts nothing off: with weaker settings acknowledged reports are lost."""
    rig = powered("central", bug)
    rig.play(60)
    rig.end()
    with pytest.raises(Broken) as found:
        cuts(rig, tmp_path, 150)
    assert "acknowledged_are_counted_once" in found.value.invariants or "slots_per_person" in found.value.invariants


def test_files_after_a_cut(rng):
    """Would catch a cut that keeps what was not synced, or drops what was."""

    def record(kind, offset=0, data=b""):
        name = b"live.db-wal"
        head = kind.encode() + bytes([len(name)]) + offset.to_bytes(8, "little") + len(data).to_bytes(8, "little")
        return head + name + data

    log = (
        record("w", 0, b"aaaa")
        + record("s")
        + record("w", 4, b"bbbb")
        + record("t", 2)
        + record("s")
        + record("w", 2, b"c")
    )
    found = list(records(log))
    assert [each.kind for each in found] == list("wswtsw")

    def after(cut, luck):
        return files_after({"live.db": b"x"}, found, found[cut].end, luck, rng).get("live.db-wal")

    assert after(0, 0.0) == b""
    assert after(1, 0.0) == after(3, 0.0) == b"aaaa"
    assert after(2, 1.0) == b"aaaabbbb"
    assert after(4, 0.0) == after(5, 0.0) == b"aa"
    assert after(5, 1.0) == b"aac"

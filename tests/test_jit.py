"""Compiled code is cached where it can be, and works where it cannot."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import discreet

CODE = """if True:
    import sys
    sys.path.insert(0, {path!r})
    import discreet as dc
    from discreet.agents._kernels import dp_ucbvi
    from discreet.runtime._kernels import block
    mdp = dc.envs.riverswim()
    print(dc.simulate(dc.agents.make("ucbvi", mdp.spec, episodes=20, seed=0), mdp, seed=0).regret[-1])
    print(sum(dp_ucbvi.plan.stats.cache_hits.values()), sum(block.play.stats.cache_hits.values()))
"""


def copy(tmp_path):
    shutil.copytree(Path(discreet.__file__).parent, tmp_path / "discreet", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "discreet"


@pytest.mark.slow
def test_a_changed_file_invalidates_its_own_cache_only(python, tmp_path):
    """A planner is passed to the block as a pointer: a stale machine code of it must never be called."""
    package = copy(tmp_path)
    code = CODE.format(path=str(tmp_path))
    first, hits = python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")).splitlines()
    assert hits == "0 0"
    again, hits = python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")).splitlines()
    assert (again, hits) == (first, "1 2")  # the block has two signatures
    kernel = package / "agents" / "_kernels" / "dp_ucbvi.py"
    text = kernel.read_text()
    changed = text.replace("q = min(q, reward + mean + bonus)", "q = min(q, reward + mean)")
    assert changed != text
    kernel.write_text(changed)
    other, hits = python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache")).splitlines()
    assert hits == "0 2"
    assert other != first


@pytest.mark.slow
def test_no_writable_cache_directory_is_no_obstacle(python, tmp_path):
    """A path below a file can never become a directory, for any user."""
    copy(tmp_path)
    blocked = tmp_path / "file"
    blocked.touch()
    locate = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
    code = locate + CODE.format(path=str(tmp_path)).replace("if True:", "if True:")
    lines = python(code, NUMBA_CACHE_DIR=str(blocked / "cache")).splitlines()
    assert float(lines[0]) > 0
    assert lines[1] == "0 0"

from __future__ import annotations

import pytest

from tests.live.faults.forks import Forks
from tests.live.postgres import Postgres, programs


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of this test run's own."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed: .ci/run installs it")
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    """A process that forks servers and shufflers."""
    found = Forks(tmp_path_factory.mktemp("forks") / "log")
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'live.db'}"
    return request.getfixturevalue("postgres").new()

"""A private PostgreSQL server for tests: in a folder of its own, on a Unix socket, ended by its process number."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

__all__ = ["Postgres", "programs"]


def programs() -> Path | None:
    """Returns the folder of PostgreSQL's programs, the newest if there are several; None if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def _account() -> dict[str, object]:
    """Returns how a server's process is started: it refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


class Postgres:
    """A server that only this machine's socket leads to.

    Args:
        settings: Of the server, beside its defaults: commits wait for the disk.
    """

    def __init__(self, **settings: str) -> None:
        found = programs()
        assert found is not None
        self._programs, self._settings = found, settings
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-pg-"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self.data = self.folder / "data"
        made = [str(found / "initdb"), "-D", str(self.data), "-U", "discreet", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(made, check=True, capture_output=True, cwd=self.folder, **_account())  # type: ignore[call-overload]
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Returns the URL of a database."""
        return f"postgresql://discreet@/{database}?host={self.folder}"

    def new(self) -> str:
        """Makes an empty database and returns its URL."""
        import psycopg

        self._databases += 1
        name = f"d{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def copy(self, url: str) -> str:
        """Returns the URL of a copy of a database that nobody uses now, as a backup would give it back."""
        import psycopg

        self._databases += 1
        name = f"d{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name} TEMPLATE {url.partition('?')[0].rsplit('/', 1)[-1]}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Removes a database, whoever uses it."""
        import psycopg

        name = url.partition("?")[0].rsplit("/", 1)[-1]
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        import psycopg

        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "16MB",
            "max_connections": "60",
            "autovacuum": "off",
            **self._settings,
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.data), *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **_account(),  # type: ignore[call-overload]
            )
        for _ in range(600):
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("PostgreSQL did not start: " + (self.folder / "log").read_text()[-2000:])

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def stop(self) -> None:
        """Ends the server in order: open transactions are rolled back."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Ends the server at once: nothing is written that was not written, and the next start recovers its log."""
        self._end(signal.SIGQUIT)

    def drop_connections(self) -> None:
        """Cuts everybody off."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def log(self) -> str:
        """Returns what the server wrote down."""
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        """Ends the server and removes its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

"""Processes that start in milliseconds: one has everything imported and compiled, and forks whenever it is asked to."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["Forks", "Process"]

_ROOT = Path(__file__).parents[3]


class Process:
    """A process that was forked: it is told things, answers, and can be killed."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self.channel, self.pid = channel, pid
        self.dead = self.buried = False
        self._rest = b""
        self._last = 0

    def tell(self, do: str, **order: Any) -> int:
        """Sends an order and returns its number; if the process is gone, nobody answers."""
        self._last += 1
        with contextlib.suppress(OSError):
            self.channel.sendall(json.dumps({"do": do, "id": self._last, **order}).encode() + b"\n")
        return self._last

    def heard(self) -> list[dict[str, Any]]:
        """Returns what it has said since; notes if it is dead."""
        try:
            block = self.channel.recv(1 << 20)
        except OSError:
            block = b""
        if not block:
            self.dead = True
            return []
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [json.loads(line) for line in lines]

    def kill(self) -> None:
        """Ends it at once: ``kill -9``. Until it is buried nobody else can have its number."""
        os.kill(self.pid, signal.SIGKILL)


class Forks:
    """The process that forks.

    Args:
        log: Where its children write what they have to complain of.
        environment: Beside this process's own.
    """

    def __init__(self, log: Path, **environment: str) -> None:
        ours, theirs = socket.socketpair()
        self._channel, self.log = ours, log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.faults.forks", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stderr=file,
                cwd=_ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", **environment},
            )
        theirs.close()
        self._lines = ours.makefile("rb")
        assert json.loads(self._lines.readline())["ready"]

    def _ask(self, order: dict[str, Any], *handles: int) -> dict[str, Any]:
        socket.send_fds(self._channel, [json.dumps(order).encode() + b"\n"], list(handles))
        found: dict[str, Any] = json.loads(self._lines.readline())
        return found

    def fork(self, **order: Any) -> Process | None:
        """Starts a process and waits until it is ready; None if it died before that."""
        ours, theirs = socket.socketpair()
        pid = self._ask({"fork": order}, theirs.fileno())["pid"]
        theirs.close()
        process = Process(ours, pid)
        while not process.dead:
            select.select([ours], [], [], 60.0)
            if process.heard():
                return process
        self.buried(process)
        return None

    def buried(self, process: Process) -> int:
        """Waits until a process that was killed is gone; returns the signal that ended it."""
        process.channel.close()
        process.buried = True
        found: int = self._ask({"bury": process.pid})["signal"]
        return found

    def close(self) -> None:
        """Ends the process that forks, and all that it forked."""
        self._channel.close()
        self._lines.close()
        self._process.wait(60)


def _warm() -> None:
    """Goes once through everything that is compiled, so that no child has to."""
    from tests.live.faults import warm

    warm.up()


def _work(channel: socket.socket) -> None:
    from tests.live.faults import child

    _warm()
    channel.sendall(b'{"ready": true}\n')
    children: set[int] = set()
    while True:
        block, handles, _, _ = socket.recv_fds(channel, 1 << 20, 1)
        if not block:
            break
        order = json.loads(block)
        if "bury" in order:
            _, status = os.waitpid(order["bury"], 0)
            children.discard(order["bury"])
            channel.sendall(
                json.dumps({"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}).encode() + b"\n"
            )
            continue
        pid = os.fork()
        if pid == 0:
            channel.close()
            child.main(socket.socket(fileno=handles[0]), order["fork"])
            os._exit(0)
        os.close(handles[0])
        children.add(pid)
        channel.sendall(json.dumps({"pid": pid}).encode() + b"\n")
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(0)


if __name__ == "__main__":
    _work(socket.socket(fileno=int(sys.argv[1])))

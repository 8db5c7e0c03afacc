"""One writer at a time: a lock that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import threading
import weakref
from typing import TYPE_CHECKING

from discreet.errors import LockedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Lock"]


class Lock:
    """The lock of a directory: a file that is held with ``flock`` and names its holder.

    Attributes:
        directory: Where the file is.
        mutex: Keeps the threads of this process apart.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mutex = threading.RLock()
        self._file: int | None = None  # the file descriptor, while it is held
        self._holders = 0

    @contextlib.contextmanager
    def held(self, begin: Callable[[], object] | None = None) -> Iterator[None]:
        """Holds the lock for as long as a ``with`` block lasts; blocks within one another count as one.

        Args:
            begin: Called by whoever takes the lock, before anything else.

        Raises:
            LockedStore: If another process, or another lock of this one, holds it.
        """
        with self.mutex:
            if not self._holders:
                self._acquire()
                try:
                    if begin is not None:
                        begin()
                except BaseException:
                    self._release()
                    raise
            self._holders += 1
        try:
            yield
        finally:
            with self.mutex:
                self._holders = max(0, self._holders - 1)
                if not self._holders:
                    self._release()

    def give_up(self) -> None:
        """Releases it, whoever holds it here."""
        with self.mutex:
            self._holders = 0
            self._release()

    def forget(self) -> None:
        """Closes the copy of a forked child: else it would hold the lock when its parent is killed."""
        self.mutex = threading.RLock()  # another thread may have held it
        self._holders = 0
        self._release()

    def _acquire(self) -> None:
        if self._file is not None:
            return
        path = self.directory / "lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(file, f"process {os.getpid()} on {platform.node()}".ljust(120).encode() + b"\n", 0)
        except OSError as error:
            holder = os.pread(file, 120, 0).decode(errors="replace").strip() or "another process"
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise LockedStore(f"{str(self.directory)!r} is being written to by {holder}") from None
            raise OSError(error.errno, error.strerror, str(path)) from None
        self._file = file
        _HELD.add(self)

    def _release(self) -> None:
        _HELD.discard(self)
        if self._file is not None:
            os.close(self._file)  # unlocks it
            self._file = None


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget() -> None:
    for lock in list(_HELD):
        lock.forget()


os.register_at_fork(after_in_child=_forget)

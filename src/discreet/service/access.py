"""Who may ask for what: keys with scopes, in a file that holds hashes only.

A key is ``dk_`` and an id, ``_`` and a secret of 256 bits. The file knows the id, the SHA-256 of the secret, the scopes
and a label. A secret of 256 random bits needs no slow hash: nobody can list them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SCOPES", "Access", "Key", "KeyFile", "new_key"]

#: What a key may do: play and report; look; hand in batches; make deployments and erase.
SCOPES = ("client", "viewer", "shuffler", "admin")
_FORM = re.compile(r"dk_([0-9a-f]{8})_([0-9A-Za-z_-]{43})")
_LOOK = 1.0  # seconds between two looks at the file


@dataclass(frozen=True)
class Key:
    """What is known of a key: not the secret.

    Attributes:
        id: Its number, which the key itself begins with.
        digest: SHA-256 of the secret.
        scopes: What it may do.
        label: For people.
        created: When, in seconds since 1970.
        revoked: When it was revoked, if it was.
    """

    id: str
    digest: str
    scopes: tuple[str, ...]
    label: str = ""
    created: float = 0.0
    revoked: float | None = None


def new_key(scopes: Iterable[str], label: str = "") -> tuple[Key, str]:
    """Returns a new key, and its text, which is shown once and kept nowhere."""
    chosen = tuple(dict.fromkeys(scopes))
    if not chosen:
        raise InvalidInput(f"a key needs a scope: {', '.join(SCOPES)}")
    for scope in chosen:
        if scope not in SCOPES:
            raise UnknownName("scope", scope, SCOPES)
    number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    return Key(number, _digest(secret), chosen, label, time.time()), f"dk_{number}_{secret}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyFile:
    """A file of keys, which only its owner can read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[Key]:
        """Returns all keys, those that were revoked too."""
        try:
            found = json.loads(self.path.read_text())
            return [Key(**{**key, "scopes": tuple(key["scopes"])}) for key in found["keys"]]
        except FileNotFoundError:
            raise InvalidInput(f"there is no key file {str(self.path)!r}: discreet keys create makes one") from None
        except OSError as error:
            raise InvalidInput(f"the key file {str(self.path)!r} cannot be read: {error.strerror}") from None
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(f"{str(self.path)!r} is no key file") from None

    def add(self, scopes: Iterable[str], label: str = "") -> str:
        """Makes a key and returns its text; the file is made with the first one."""
        key, text = new_key(scopes, label)
        with self._held() as keys:
            keys.append(key)
        return text

    def revoke(self, number: str) -> None:
        """Revokes a key by its id."""
        with self._held() as keys:
            for i, key in enumerate(keys):
                if key.id == number and key.revoked is None:
                    keys[i] = Key(**{**asdict(key), "revoked": time.time()})
                    return
            known = [key.id for key in keys if key.revoked is None]
            raise UnknownName("key", number, known)

    @contextlib.contextmanager
    def _held(self) -> Iterator[list[Key]]:
        """Reads the file, lets it be changed, and puts a new one in its place: nobody sees half of it."""
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys = self.read() if self.path.exists() else []
            yield keys
            draft = self.path.with_name(self.path.name + ".new")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:  # noqa: PTH123
                json.dump({"keys": [asdict(key) for key in keys]}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            os.close(lock)


class Access:
    """Tells what a caller may do. A key that is revoked in the file is refused within a second.

    Args:
        keys: A file, or keys that were made for this run.
    """

    def __init__(self, keys: KeyFile | Iterable[Key]) -> None:
        self._file = keys if isinstance(keys, KeyFile) else None
        self._stamp: tuple[int, int] | None = None
        self._looked = 0.0
        self._known: dict[str, Key] = {}
        if not isinstance(keys, KeyFile):
            self._known = {key.id: key for key in keys}
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._file is None or now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            found = self._file.path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._known = {key.id: key for key in self._file.read() if key.revoked is None}
                self._stamp = stamp
        except (InvalidInput, OSError):  # a file that is gone or damaged opens nothing
            self._known, self._stamp = {}, None

    def scopes(self, header: str | None) -> tuple[str, ...] | None:
        """Returns what the bearer of an ``Authorization`` header may do; None if it is no key of ours."""
        self._refresh()
        given = _FORM.fullmatch(header[7:]) if header is not None and header[:7].lower() == "bearer " else None
        key = None if given is None else self._known.get(given[1])
        # a key that is not known takes as long as one that is
        digest = _digest(given[2] if given is not None else "")
        same = hmac.compare_digest(digest, key.digest if key is not None else "0" * 64)
        return key.scopes if key is not None and same else None

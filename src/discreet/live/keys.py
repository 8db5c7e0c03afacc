"""Keys of a deployment: tokens that need no table, and people who are known by a hash alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import NamedTuple

from discreet.errors import InvalidInput, InvalidToken

__all__ = ["Keys", "new_key", "person_hash", "read_token", "token_of"]

_MOST = 2**53
_LONGEST = 128  # characters of a token
_PSEUDONYM = 1024  # characters of a pseudonym


class Keys(NamedTuple):
    """The secrets of a deployment, none of which hides people's data.

    Attributes:
        token: What tokens are signed with; a shuffler has it too.
        person: What pseudonyms are hashed with; None once it is destroyed.
        signing: Ed25519, what statements are signed with; None without the library for it.
    """

    token: bytes
    person: bytes | None
    signing: bytes | None

    def __repr__(self) -> str:
        return "<Keys: contents not shown>"


def new_key() -> bytes:
    """Returns 256 bits from the operating system."""
    return secrets.token_bytes(32)


def token_of(key: bytes, deployment: str, version: int, slot: int) -> str:
    """Returns what a device shows to report for a slot: it names the slot, and is signed."""
    return f"{version}.{slot}.{_signature(key, deployment, version, slot)}"


def read_token(key: bytes, deployment: str, token: str) -> tuple[int, int]:
    """Returns version and slot of a token.

    Raises:
        InvalidToken: If it is none of this deployment's; the message repeats nothing of it.
    """
    parts = token.split(".") if isinstance(token, str) and len(token) <= _LONGEST else []
    whole = len(parts) == 3 and all(part.isascii() for part in parts) and all(part.isdigit() for part in parts[:2])
    if whole:
        version, slot = int(parts[0]), int(parts[1])
        if max(version, slot) < _MOST and parts[:2] == [str(version), str(slot)]:
            expected = _signature(key, deployment, version, slot)
            if hmac.compare_digest(expected.encode(), parts[2].encode()):
                return version, slot
    raise InvalidToken("this token is none of this deployment's")


def _signature(key: bytes, deployment: str, version: int, slot: int) -> str:
    said = f"slot\n{deployment}\n{version}\n{slot}".encode()
    return base64.urlsafe_b64encode(hmac.digest(key, said, hashlib.sha256)).rstrip(b"=").decode()


def person_hash(key: bytes, deployment: str, pseudonym: str) -> bytes:
    """Returns how a person is known: nobody without the key can tell whose it is."""
    if not isinstance(pseudonym, str) or not 1 <= len(pseudonym) <= _PSEUDONYM:
        raise InvalidInput(f"a person is a text of 1 to {_PSEUDONYM} characters")  # which is not repeated
    said = b"person\n" + deployment.encode() + b"\n" + pseudonym.encode("utf-8", "surrogatepass")
    return hmac.digest(key, said, hashlib.sha256)

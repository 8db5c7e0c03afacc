"""What a statement is written and signed with: one text for every document, and Ed25519.

The text of a document is JSON with sorted keys, an indent of one space and a newline at the end. `read` takes nothing
else, so that every byte of a file counts: whoever adds a space has changed it.

`cryptography` is needed to sign and to check (``discreet[live]``). It is imported when it is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from discreet.errors import InvalidInput, MissingExtra

__all__ = ["Altered", "digest", "key_of", "new_signing_key", "public_key", "read", "sign", "signed_by", "written"]

_KEY = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")
_LARGEST = 2**28  # bytes of a statement


class Altered(InvalidInput):
    """A document is not written as discreet writes it.

    Attributes:
        document: What it says all the same.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__("its bytes are not those that discreet writes: something was changed")
        self.document = document


def written(document: dict[str, Any]) -> str:
    """Returns the one text of a document."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, indent=1) + "\n"


def read(text: str | bytes) -> dict[str, Any]:
    """Returns the document of a text.

    Raises:
        InvalidInput: If it is no JSON object.
        Altered: If it is one, but not written as `written` does.
    """
    if len(text) > _LARGEST:
        raise InvalidInput(f"it is longer than {_LARGEST} bytes")
    try:
        shown = text.decode() if isinstance(text, bytes) else text
        found = json.loads(shown)
        again = written(found) if isinstance(found, dict) else ""
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidInput(f"it is no JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise InvalidInput("it is no JSON object")
    if again != shown:  # spaces, the order of keys, a key twice, another way to write a number
        raise Altered(found)
    return found


def digest(document: dict[str, Any]) -> str:
    """Returns the SHA-256 of a document's text, but for its digest and its signature."""
    return hashlib.sha256(written(_without(document, "digest", "signature")).encode()).hexdigest()


def _without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra("cryptography", "live") from None
    return ed25519


def new_signing_key() -> bytes | None:
    """Returns a new private key, 32 bytes; None without the library."""
    try:
        found: bytes = _library().Ed25519PrivateKey.generate().private_bytes_raw()
    except MissingExtra:
        return None
    return found


def public_key(key: bytes) -> str:
    """Returns the public key of a private one, as 64 hexadecimal digits."""
    found: bytes = _library().Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
    return found.hex()


def sign(document: dict[str, Any], key: bytes) -> str:
    """Returns the signature of a document's text, but for its signature: 128 hexadecimal digits."""
    found: bytes = _library().Ed25519PrivateKey.from_private_bytes(key).sign(_signed(document))
    return found.hex()


def _signed(document: dict[str, Any]) -> bytes:
    return written(_without(document, "signature")).encode()


def signed_by(document: dict[str, Any], key: str, signature: object) -> bool:
    """Returns whether a signature of a document is by the owner of a public key.

    Raises:
        MissingExtra: If ``cryptography`` is not installed.
    """
    ed25519 = _library()
    from cryptography.exceptions import InvalidSignature

    if not (isinstance(signature, str) and _SIGNATURE.fullmatch(signature) and _KEY.fullmatch(key)):
        return False
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signature), _signed(document)
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def key_of(text: str) -> str:
    """Returns a public key: 64 hexadecimal digits, with space around them.

    Raises:
        InvalidInput: If it is none.
    """
    found = text.strip().lower()
    if not _KEY.fullmatch(found):
        raise InvalidInput("a public key of Ed25519 is 64 hexadecimal digits, as a statement shows it")
    return found

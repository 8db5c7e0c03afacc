"""Agents on disk: a file that one agent goes into and one agent comes out of.

A saved agent is *personal data*: the raw totals, the reports in transit, the noise that hides them, and the states
of the generators, from which earlier noise can be computed. Treat it like the raw data.

It is used once. If two agents went on from one state with different users, both would add the same noise, and the
difference of their releases would be raw. So `save` retires the agent in memory and `load` consumes the file.
Copies of the file cannot be told from it: loading two of them breaks the guarantee.

The file is a line of text, the format's version and the body's length (12 bytes), the body, and the SHA-256 of all
that. The body is an ``.npz``: plain arrays, one of which is a JSON document that refers to the others. Nothing in
it is pickled, and reading it runs no code of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import secrets
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__
from discreet.agents import make
from discreet.errors import InvalidInput
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.runtime import records
from discreet.runtime.fast import fast_source
from discreet.sums import Secret

if TYPE_CHECKING:
    import io
    from collections.abc import Sequence

    from discreet.agents.base import LearningAgent

__all__ = ["blueprint", "load", "pack", "rebuilt", "save", "seal", "unpack", "unseal"]

_MAGIC = b"discreet agent: personal data, to be loaded once\n"
_VERSION = 2
_HEAD = struct.Struct(">IQ")  # version, length of the body
_DIGEST = hashlib.sha256().digest_size


def save(agent: LearningAgent, path: str | os.PathLike[str]) -> None:
    """Moves an agent into a new file that only its owner can read; see `discreet.agents.base.LearningAgent.save`."""
    agent._check_here()
    shown, target = os.fspath(path), _resolved(path)
    if target.exists():
        raise _exists(shown)
    body = pack(agent)
    _check_way_back(body)
    draft = _beside(target, "saving")
    try:
        _write(draft, seal(body))
        agent._saved = target  # first: whatever happens from here on, there are never two agents that go on
        _place(draft, target)
    except BaseException as error:
        if draft.exists():  # it did not get there
            agent._saved = None
            draft.unlink()
        if isinstance(error, FileExistsError):
            raise _exists(shown) from None
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, shown) from None  # not the draft's name
        raise
    _sync(target.parent)


def load(path: str | os.PathLike[str]) -> LearningAgent:
    """Takes an agent out of its file, which is used up; see `discreet.agents.load`."""
    shown, target = os.fspath(path), _resolved(path)
    claimed = _beside(target, "loading")
    try:
        if not target.is_file() and target.exists():
            raise InvalidInput(f"{shown!r} is no saved agent: it is not a file")
        target.rename(claimed)  # of several processes that load it, one gets it
    except FileNotFoundError:
        raise _gone(shown, target) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, shown) from None
    try:
        with claimed.open("rb") as file:
            agent = _rebuilt(unseal(file))
        claimed.unlink()
        _sync(target.parent)  # before the agent goes on, lest the file come back after a power cut
    except BaseException as error:
        where = _put_back(claimed, target) if claimed.exists() else "the file is used up"
        if isinstance(error, InvalidInput):
            raise InvalidInput(f"{shown!r} cannot be loaded: {error}; {where}") from None
        if isinstance(error, OSError):
            raise OSError(error.errno, f"{error.strerror}; {where}", shown) from None
        raise
    return agent


def pack(agent: LearningAgent) -> bytes:
    """Returns all that is needed to go on exactly: personal data and noise. Nothing about the agent changes."""
    return records.pack(_contents(agent))


def _contents(agent: LearningAgent) -> dict[str, Any]:
    private, plan = agent.privatizer, agent.plan
    # a secure source has nothing to keep: nobody can draw its noise again
    streams = {role.name: source.mark() for role, source in agent.sources.items() if isinstance(source, FastSource)}
    return {
        "discreet": __version__,
        **blueprint(agent),
        "parts": [_kind(part) for part in (agent, private.mechanism, plan.encoder, agent.shuffler)],
        "streams": {**streams, Role.AGENT.name: agent.rng.bit_generator.state},
        "kept": private.reveal(),
        "count": private.count,
        "version": private.version,
        "released": private.last,
        "learned": agent.pack_learned(agent.learned),
        "plan": {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)},
        "transit": _stacked(agent.shuffler.reports),
        "uncollected": agent.shuffler.uncollected,
    }


def blueprint(agent: LearningAgent) -> dict[str, Any]:
    """Returns what an agent is, as plain records: its name, sizes, options and seed, and what was calibrated."""
    seed = agent.seed
    return {
        "agent": agent.name,
        "spec": agent.spec,
        "episodes": agent.episodes,
        "options": agent.options,
        "seed": {
            "entropy": seed.entropy,
            "spawn_key": seed.spawn_key,
            "pool_size": seed.pool_size,
            "n_children_spawned": seed.n_children_spawned,
        },
        "calibration": agent.mechanism.calibration(),
    }


def rebuilt(found: dict[str, Any]) -> LearningAgent:
    """Returns a new agent by its `blueprint`, with the noise that was calibrated then."""
    seed = {**found["seed"], "spawn_key": tuple(found["seed"]["spawn_key"])}
    agent = make(
        found["agent"],
        found["spec"],
        episodes=found["episodes"],
        seed=np.random.SeedSequence(**seed),
        **found["options"],
    )
    agent.mechanism.recalibrate(found["calibration"])
    return agent


def unpack(body: bytes) -> LearningAgent:
    """Returns the agent that `pack` described. What was calibrated is taken from there, not calibrated anew."""
    found = records.unpack(body)
    agent = rebuilt(found)
    learned, kept = agent.unpack_learned(found["learned"]), found["kept"]
    for name, read, built in (("state", kept, agent.privatizer.reveal()), ("plans", learned, agent.learned)):
        if type(read) is not type(built):  # it would be missed when the file is used up
            raise InvalidInput(f"its {name} are a {type(read).__name__}, not a {type(built).__name__}")
    agent.privatizer.resume(Secret(kept), found["count"], found["version"], found["released"])
    agent.resume(learned, found["plan"])
    for name, state in found["streams"].items():
        if name == Role.AGENT.name:
            agent.rng.bit_generator.state = state
        else:
            fast_source(agent.sources[Role[name]]).rewind(state)
    agent.shuffler.reports[:] = _unstacked(found["transit"])
    agent.shuffler.uncollected = found["uncollected"]
    return agent


def _kind(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _stacked(reports: Sequence[Any]) -> dict[str, Any]:
    """Returns the reports field by field, one row each."""
    if not reports:
        return {}
    kind = type(reports[0])
    if not records.is_record(kind) or any(type(report) is not kind for report in reports):
        raise InvalidInput("this agent cannot be saved: the reports in transit are not all of one known kind")
    names = [field.name for field in dataclasses.fields(kind)]
    return {"kind": records.name_of(kind), **{name: np.stack([getattr(r, name) for r in reports]) for name in names}}


def _unstacked(stacked: dict[str, Any]) -> list[Any]:
    if not stacked:
        return []
    kind = records.record(stacked.pop("kind"))
    rows = zip(*stacked.values(), strict=True)
    return [kind(*(x.copy() if x.ndim else x.item() for x in row)) for row in rows]


def _rebuilt(body: bytes) -> LearningAgent:
    """Returns what `unpack` does; whatever is wrong becomes one line that repeats nobody's data."""
    try:
        return unpack(body)
    except Exception as error:
        why = str(error) if isinstance(error, InvalidInput) else type(error).__name__
        raise InvalidInput(f"it does not describe an agent of discreet {__version__}: {why}") from None


def _check_way_back(body: bytes) -> None:
    """Tries the way back before the agent is let go: what comes out must be what went in, to the last bit."""
    if pack(_rebuilt(body)) != body:
        raise InvalidInput("this agent cannot be saved: parts of it are not those that dc.agents.make builds")


def seal(body: bytes) -> bytes:
    """Returns a file's bytes: format, length, body and checksum."""
    whole = _MAGIC + _HEAD.pack(_VERSION, len(body)) + body
    return whole + hashlib.sha256(whole).digest()


def unseal(file: io.BufferedIOBase | io.BufferedReader) -> bytes:
    """Returns the body of a file; raises `InvalidInput` if a single byte is not as `seal` wrote it."""
    magic = file.read(len(_MAGIC))
    if not _MAGIC.startswith(magic):
        raise InvalidInput("it is no saved agent")
    whole = magic + file.read()
    start = len(_MAGIC) + _HEAD.size
    if len(whole) < start:
        raise InvalidInput("it is cut short")
    version, length = _HEAD.unpack(whole[len(_MAGIC) : start])
    if len(whole) < start + length + _DIGEST:
        raise InvalidInput("it is cut short")
    if hashlib.sha256(whole[:-_DIGEST]).digest() != whole[-_DIGEST:]:
        raise InvalidInput("it is damaged: its checksum does not match")
    if version != _VERSION:
        raise InvalidInput(f"its format is {version}, and discreet {__version__} reads {_VERSION}")
    return whole[start:-_DIGEST]


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Returns the file itself: a link to it must not survive it."""
    return Path(os.path.realpath(path))


def _beside(target: Path, purpose: str) -> Path:
    """Returns a new name in the same directory; short, because ``target`` may be as long as names can be."""
    return target.with_name(f".discreet-{_mark(target)}-{secrets.token_hex(4)}.{purpose}")


def _mark(target: Path) -> str:
    return hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]


def _write(draft: Path, data: bytes) -> None:
    """Writes a new file that nobody else can read at any time, and waits until it is on the disk."""
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # if the umask takes the owner's rights away
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _place(source: Path, target: Path) -> None:
    """Renames ``source``, never over a file that exists: an empty one of our own holds the place for a moment."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        source.replace(target)
    except BaseException as error:
        if isinstance(error, OSError) or source.exists():  # else it got there, and an interrupt came just after
            target.unlink()
        raise


def _put_back(claimed: Path, target: Path) -> str:
    """Undoes the claim of a `load` that failed; says where the file is."""
    try:
        _place(claimed, target)
    except OSError:
        return f"the file is now {str(claimed)!r}"
    return "the file is left as it was"


def _sync(directory: Path) -> None:
    """Waits until the names in a directory are on the disk, where the file system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exists(shown: str) -> InvalidInput:
    return InvalidInput(f"{shown!r} exists: a saved agent does not replace a file, it needs a new path")


def _gone(shown: str, target: Path) -> InvalidInput:
    left = sorted(target.parent.glob(f".discreet-{_mark(target)}-*.loading"))
    where = f"; a load that is under way or was killed has it at {str(left[0])!r}" if left else ""
    return InvalidInput(f"there is no saved agent at {shown!r}: loading one uses it up{where}")

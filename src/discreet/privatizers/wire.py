"""How one report travels: a short text that is safe inside JSON, and a parser that trusts nobody. NumPy only.

    1.answer.BQAAAKAA
    │ │      └ body: the arrays one behind the other, in base64url
    │ └ kind of report
    └ version of this format

**Body.** Numbers are little-endian: floats have 8 bytes (IEEE 754, every bit is kept), integers 4 (unsigned). Bits are
packed, the first one highest; what is left of the last byte is 0. Zero bytes fill the body up to a multiple of 3: so
every character carries six bits, nothing is padded, and a report has exactly one text. Arrays are in C order, in the
order of `CODECS`.

**Length.** It is a function of the encoder, which is public, and of nothing that a person did. That is what raw
reports pay for: as JSON lists most of their values are a short "1.0", and a person's rewards change the length.
Characters of a report in a world of 6 states, 2 actions and 20 steps, and of the same report as JSON lists (counters
for every step; weights pooled; features of dimension 4 and 8; ε = 1; 16 noise bits a counter, or 8 pairs in 12 cells):

    ========  ==============  =======  =======
    kind      encoder            wire     JSON
    ========  ==============  =======  =======
    raw       raw                 966      828
    raw       weighted            966    1,338
    features  raw-features      2,999    5,377
    noisy     noisy            20,488   36,321
    noisy     noisy-features   11,912   21,408
    sampled   sampled              42      310
    answer    questions            17       41
    bits      binomial          5,447   69,130
    bits      first-visits        279    3,466
    ========  ==============  =======  =======

**Parsing.** The server reads with the encoder of the batch in hand, so everything about the text is known before it is
looked at. First comes the length, which costs nothing however long the text is; then version and kind; then base64url,
strictly; then the arrays, which can only have the expected types and shapes; then their bounds. What is accepted gives
the same text again.

**Memory.** `from_wire` allocates at most ``MEMORY`` times `wire_limit` and 16 KiB, the report included. A longer text
is refused without being copied.

Messages name a field and its bound. All their numbers are the encoder's; they never hold a value, an index or a piece
of the text, and no other exception hangs on them. Simulated people (`discreet.runtime.fast`) have no wire format.
"""

from __future__ import annotations

import binascii
import math
import sys
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from discreet.errors import InvalidPersonalData
from discreet.privacy.messages import (
    AnswerReport,
    BitsReport,
    NoisyReport,
    RawFeatureReport,
    RawReport,
    Report,
    SampledReport,
)
from discreet.privatizers.weighted.layout import SLACK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from discreet.privatizers.codec import AnyEncoder
    from discreet.privatizers.counts.encode import BinomialEncoder, NoisyEncoder, RawEncoder
    from discreet.privatizers.features.encode import NoisyFeatureEncoder, RawFeatureEncoder
    from discreet.privatizers.first_visits.encode import FirstVisitEncoder
    from discreet.privatizers.questions.encode import QuestionEncoder
    from discreet.privatizers.sampled.encode import SampledEncoder
    from discreet.privatizers.weighted.encode import WeightedEncoder

__all__ = ["CODECS", "MEMORY", "VERSION", "Array", "Codec", "Expected", "add", "from_wire", "to_wire", "wire_limit"]

#: Of the format; every text begins with it.
VERSION = 1
#: How many times `wire_limit` bytes are allocated at most: most for bits, six of which are in a character.
MEMORY = 8

_MOST = 2**32  # integers lie below
# "+", "/" and "=" are no part of base64url: they become what no base64 has
_TO_BASE64 = bytes.maketrans(b"-_+/=", b"+/***")
_TO_BASE64URL = bytes.maketrans(b"+/", b"-_")
#: How numbers travel: the kinds of NumPy's types that are written, what they are called, and what is read.
_FORMS: dict[str, tuple[str, str, type[Any]]] = {
    "<f8": ("f", "float64", np.float64),
    "<u4": ("iu", "integers", np.int64),
    "bits": ("b", "truth values", np.bool_),
}


@dataclass(frozen=True, eq=False)
class Array:
    """One array of a report, as the reports of an encoder have it.

    Attributes:
        name: The report's attribute.
        form: How its entries travel.
        shape: What it must have; () is a number.
        low: The least that entries may be.
        high: The most.
        bound: Says so: "must …".
    """

    name: str
    form: str
    shape: tuple[int, ...]
    low: float | NDArray[Any] = -sys.float_info.max
    high: float | NDArray[Any] = sys.float_info.max
    bound: str = "be finite"

    @property
    def count(self) -> int:
        """How many entries there are."""
        return math.prod(self.shape)

    @property
    def length(self) -> int:
        """Bytes in the body."""
        return -(-self.count // 8) if self.form == "bits" else self.count * int(self.form[-1])

    def read(self, body: bytes, start: int) -> Any:
        """Returns the array that begins there; raises if an entry is out of bounds."""
        if self.form == "bits":
            return self._unpacked(body, start)
        # a copy: aligned, in the order of this machine, and without the rest of the body
        found = np.frombuffer(body, self.form, self.count, start).astype(_FORMS[self.form][2]).reshape(self.shape)
        if not ((found >= self.low) & (found <= self.high)).all():  # not a number is neither
            raise InvalidPersonalData(f"{self.name} must {self.bound}")
        return found if self.shape else int(found)

    def _unpacked(self, body: bytes, start: int) -> NDArray[np.bool_]:
        used = (self.count - 1) % 8 + 1  # bits of the last byte
        if body[start + self.length - 1] & (0xFF >> used):
            raise InvalidPersonalData(f"{self.name} must be followed by bits that are 0")
        packed = np.frombuffer(body, np.uint8, self.length, start)
        return np.unpackbits(packed, count=self.count).view(np.bool_).reshape(self.shape)


def _written(name: str, form: str, axes: int, held: Any) -> bytes:
    """Returns the bytes of an array. What its entries may be depends on the encoder: the server checks that."""
    array = np.asarray(held) if isinstance(held, (int, np.integer)) else held
    kinds, what, _ = _FORMS[form]
    whole = isinstance(array, np.ndarray) and array.ndim == axes and array.dtype.kind in kinds
    if not whole or (form == "<f8" and array.dtype.itemsize != 8):
        raise InvalidPersonalData(f"{name} must be {what} with {axes} axes")
    if form == "bits":
        return np.packbits(array).tobytes()
    if form == "<u4" and array.size and (array.min() < 0 or array.max() >= _MOST):
        raise InvalidPersonalData(f"{name} must lie in [0, {_MOST})")
    return bytes(array.astype(form).tobytes())


#: The arrays of a report in order, and a rule for all of them together, which raises.
Expected: TypeAlias = "tuple[tuple[Array, ...], Callable[[Any], None] | None]"


def _number(name: str, most: int) -> Array:
    return Array(name, "<u4", (), 0, most - 1, f"lie in [0, {most})")


def _indices(size: int, places: Sequence[tuple[int, int]], sets: int, steps: int) -> Array:
    """Returns the coordinates that a user touches: one of each family and step, within the counters of that step.

    With values in [0, 1] this implies the norms that the sensitivity of tabular sums rests on. If any coordinate were
    taken anywhere, all of a user's steps could be put into one counter.

    Args:
        size: Of the whole vector.
        places: Of each family: where its counters begin, and how many there are in a set.
        sets: Sets of counters: one for each step, or one for all.
        steps: Steps that are counted.
    """
    if size > _MOST:
        raise InvalidPersonalData(f"reports of vectors longer than {_MOST} have no wire format")
    h = np.arange(steps) if sets > 1 else np.zeros(steps, dtype=np.int64)
    low = np.concatenate([start + h * width for start, width in places])
    high = low + np.repeat([width - 1 for _, width in places], steps)
    return Array("indices", "<u4", low.shape, low, high, f"lie in [0, {size}), within the counters of their steps")


def _raw(encoder: RawEncoder) -> Expected:
    layout, pairs = encoder.layout, encoder.layout.spec.states * encoder.layout.spec.actions
    m, r = layout.starts
    families = [(0, pairs)] if layout.visits else []
    families.append((m, pairs * layout.spec.states))
    if layout.rewards:
        families.append((r, pairs))
    indices = _indices(layout.size, families, layout.steps, layout.counted)
    return (Array("values", "<f8", indices.shape, 0.0, 1.0, "lie in [0, 1]"), indices), None


def _weighted(encoder: WeightedEncoder) -> Expected:
    layout, S, H = encoder.layout, encoder.layout.spec.states, encoder.layout.spec.horizon
    parts, low, high, start = [], [], [], 0
    for sets, share in layout.blocks:
        n = start + sets * layout.cells * S
        r = n + sets * layout.cells
        families = [(start, layout.cells * S), (n, layout.cells), (r, layout.cells)]
        parts.append(_indices(layout.size, families, sets, H))
        # the weight of a step is at most √(L/a), and at most the share if nobody clips
        weight = share * (math.sqrt(H) if layout.clipped else 1.0) * (1 + SLACK)
        gain = layout.reward * weight
        low += [0.0] * (2 * H) + [-layout.centre * gain] * H
        high += [weight] * H + [layout.visit * weight] * H + [(1 - layout.centre) * gain] * H
        start = r + sets * layout.cells
    ends = [np.concatenate([getattr(part, end) for part in parts]) for end in ("low", "high")]
    indices = replace(parts[0], shape=ends[0].shape, low=ends[0], high=ends[1])
    bound = f"lie within the weights of their steps, [{min(low):.6g}, {max(high):.6g}] at most"
    return (Array("values", "<f8", indices.shape, np.array(low), np.array(high), bound), indices), None


def _noisy(encoder: NoisyEncoder | NoisyFeatureEncoder) -> Expected:
    return (Array("values", "<f8", (encoder.layout.size,)),), None


def _sampled(encoder: SampledEncoder) -> Expected:
    steps = 1 if encoder.layout.stationary else encoder.layout.spec.horizon
    return (_number("step", steps), Array("support", "bits", (encoder.randomiser.size,))), None


def _answers(encoder: QuestionEncoder) -> Expected:
    sizes, cells = [randomiser.size for randomiser in encoder.randomisers], encoder.layout.cells

    def rule(report: AnswerReport) -> None:
        if report.support[sizes[report.question // cells] :].any():
            raise InvalidPersonalData("support must be 0 beyond the answers that the question has")

    return (_number("question", len(sizes) * cells), Array("support", "bits", (encoder.width,))), rule


def _binomial(encoder: BinomialEncoder) -> Expected:
    return (Array("bits", "bits", (encoder.layout.size, encoder.messages)),), None


def _first_visits(encoder: FirstVisitEncoder) -> Expected:
    return (Array("bits", "bits", (encoder.size, encoder.messages)),), None


def _features(encoder: RawFeatureEncoder) -> Expected:
    H, width = encoder.layout.spec.horizon, encoder.layout.spec.reward_dimension + encoder.layout.spec.dimension
    return (Array("features", "<f8", (H, width)), Array("targets", "<f8", (H, 2))), None


@dataclass(frozen=True, eq=False)
class Codec:
    """How one kind of report is written, and how it is read for a given encoder.

    Attributes:
        kind: In the text.
        report: The class.
        arrays: What is written, in order: name, how, and how many axes.
        encoders: What the reports of an encoder hold, by the encoder's kind.
    """

    kind: str
    report: type[Report]
    arrays: tuple[tuple[str, str, int], ...]
    encoders: dict[str, Callable[[Any], Expected]]

    @property
    def head(self) -> bytes:
        """With which a text begins."""
        return f"{VERSION}.{self.kind}.".encode()


#: One entry a kind of report. A simulated report has none.
CODECS: tuple[Codec, ...] = (
    Codec("raw", RawReport, (("values", "<f8", 1), ("indices", "<u4", 1)), {"raw": _raw, "weighted": _weighted}),
    Codec("features", RawFeatureReport, (("features", "<f8", 2), ("targets", "<f8", 2)), {"raw-features": _features}),
    Codec("noisy", NoisyReport, (("values", "<f8", 1),), {"noisy": _noisy, "noisy-features": _noisy}),
    Codec("sampled", SampledReport, (("step", "<u4", 0), ("support", "bits", 1)), {"sampled": _sampled}),
    Codec("answer", AnswerReport, (("question", "<u4", 0), ("support", "bits", 1)), {"questions": _answers}),
    Codec("bits", BitsReport, (("bits", "bits", 2),), {"binomial": _binomial, "first-visits": _first_visits}),
)
_BY_REPORT: dict[type[Report], Codec] = {}
_BY_ENCODER: dict[str, Codec] = {}


def add(codec: Codec) -> None:
    """Adds a kind of report; `discreet.privatizers.codec.register` does it for other packages."""
    _BY_REPORT[codec.report] = codec
    _BY_ENCODER.update(dict.fromkeys(codec.encoders, codec))


for _codec in CODECS:
    add(_codec)


def to_wire(report: Report) -> str:
    """Returns a report as text: letters, digits, ``-``, ``_`` and ``.`` only.

    Raises:
        InvalidPersonalData: If this kind of report does not travel, or holds other types than its class says.
    """
    codec = _BY_REPORT.get(type(report))
    if codec is None:
        raise InvalidPersonalData(f"a {type(report).__name__} has no wire format")
    body = b"".join(_written(name, form, axes, getattr(report, name)) for name, form, axes in codec.arrays)
    body += bytes(-len(body) % 3)
    return (codec.head + binascii.b2a_base64(body, newline=False).translate(_TO_BASE64URL)).decode()


def from_wire(text: str | bytes, encoder: AnyEncoder) -> Report:
    """Returns the report that a text holds, if an encoder of these public parameters can have written it.

    Args:
        text: As `to_wire` wrote it.
        encoder: The one that the batch in hand was given.

    Raises:
        InvalidPersonalData: Whatever is wrong; the message names a field and its bound only.
    """
    return _format(encoder).read(text)


def wire_limit(encoder: AnyEncoder) -> int:
    """Returns the bytes that every report of this encoder has as text: no more, and no less.

    Raises:
        InvalidPersonalData: If the encoder's reports have no wire format.
    """
    return _format(encoder).limit


class _Format:
    """All that is known of a report's text before it comes.

    It holds numbers, not the encoder, so that it can be kept as long as the encoder lives.
    """

    def __init__(self, codec: Codec, encoder: Any) -> None:
        self.report, self.head = codec.report, codec.head
        self.arrays, self.rule = codec.encoders[encoder.kind](encoder)
        self.starts = [sum(array.length for array in self.arrays[:i]) for i in range(len(self.arrays))]
        self.length = self.starts[-1] + self.arrays[-1].length
        self.filled = self.length + -self.length % 3
        self.limit = len(self.head) + self.filled // 3 * 4
        self.other_length = f"a report of this encoder must have {self.limit} characters"

    def read(self, text: str | bytes) -> Report:
        """Returns the report; see `from_wire`."""
        body = self._body(text)
        report = self.report(**{a.name: a.read(body, start) for a, start in zip(self.arrays, self.starts, strict=True)})
        if self.rule is not None:
            self.rule(report)
        return report

    def _body(self, text: str | bytes) -> bytes:
        if not isinstance(text, (str, bytes)):
            raise InvalidPersonalData("a report must be text or bytes")
        if len(text) != self.limit:  # first: nothing longer is ever looked at
            raise InvalidPersonalData(self.other_length)
        if isinstance(text, str):
            if not text.isascii():
                raise InvalidPersonalData("a report must be ASCII")
            text = text.encode()
        if not text.startswith(self.head):
            known = text.startswith(f"{VERSION}.".encode())
            asked = f"begin with {self.head.decode()}" if known else f"be in version {VERSION} of the wire format"
            raise InvalidPersonalData(f"a report must {asked}")
        try:
            body = binascii.a2b_base64(text[len(self.head) :].translate(_TO_BASE64), strict_mode=True)
        except ValueError:
            body = b""
        if len(body) != self.filled:  # raised here, where no other exception is at hand that would hang on it
            raise InvalidPersonalData("the body of a report must be base64url without padding")
        if any(body[self.length :]):
            raise InvalidPersonalData("the body of a report must end with bytes that are 0")
        return body


_FORMATS: dict[int, tuple[weakref.ref[Any], _Format]] = {}


def _format(encoder: Any) -> _Format:
    """Returns what an encoder's reports look like: worked out once, because most junk ends right after it.

    Encoders are told apart by identity. To compare them would take longer than to parse a report.
    """
    key = id(encoder)
    kept = _FORMATS.get(key)
    if kept is not None and kept[0]() is encoder:
        return kept[1]
    kind = getattr(encoder, "kind", None)
    codec = _BY_ENCODER.get(kind) if isinstance(kind, str) else None
    if codec is None:
        raise InvalidPersonalData(f"reports of a {type(encoder).__name__} have no wire format")
    made = _Format(codec, encoder)
    _FORMATS[key] = weakref.ref(encoder, lambda _: _FORMATS.pop(key, None)), made
    return made

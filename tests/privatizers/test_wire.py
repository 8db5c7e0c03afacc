"""Reports as text: what is written comes back bit for bit; all else is refused, without a word about what it was."""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import random
import re
import string
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidPersonalData
from discreet.mdp import LinearSpec, Spec, Trajectory
from discreet.privacy import (
    AnswerReport,
    BitsReport,
    NoisyReport,
    RawFeatureReport,
    RawReport,
    SampledReport,
)
from discreet.privacy.messages import Report
from discreet.privacy.sensitivity import tabular_user
from discreet.privatizers import wire
from discreet.privatizers.codec import KINDS, from_json
from discreet.privatizers.counts.encode import BinomialEncoder, NoisyEncoder, RawEncoder
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.features.encode import NoisyFeatureEncoder, RawFeatureEncoder
from discreet.privatizers.features.layout import FeatureLayout
from discreet.privatizers.first_visits.encode import FirstVisitEncoder
from discreet.privatizers.questions.encode import QuestionEncoder, hiding
from discreet.privatizers.randomisers import choose
from discreet.privatizers.sampled.encode import SampledEncoder
from discreet.privatizers.weighted.encode import WeightedEncoder
from discreet.privatizers.weighted.layout import WeightedLayout
from discreet.privatizers.wire import CODECS, MEMORY, from_wire, to_wire, wire_limit
from discreet.runtime.fast import SimulatedReport

ALPHABET = set(string.ascii_letters + string.digits + "_.-")
SLACK = 16 * 1024  # bytes that are declared beside the multiple of the text
WEIGHTS = [
    {},
    {"pooled": 0.0, "steps": 1.0},
    {"steps": 0.7},
    {"centre": 0.0, "reward": 0.5, "visit": 0.25},
    {"steps": 0.4, "centre": 0.3, "visit": 0.75},
    {"centre": 1.0, "reward": 1.0, "visit": 0.25},
    {"clipped": False},
    {"pooled": 0.0, "steps": 0.7, "clipped": False},
]


def features(rng, S, A, H, d1=3, d2=2):
    psi = rng.dirichlet(np.ones(S), size=(S, A, d1)).transpose(0, 1, 3, 2)
    spec = LinearSpec.dense(psi, rng.dirichlet(np.ones(d2), size=(S, A)), horizon=H)
    return FeatureLayout(spec, math.sqrt(d1) * H, bool(rng.integers(2))), rng.random((H + 1, S)) * H


def build(kind, rng, S, A, H):
    """An encoder of a kind in a world of these sizes; everything else about it is drawn."""
    spec, stationary = Spec(S, A, H), bool(rng.integers(2))
    layer = int(rng.integers(H)) if rng.random() < 0.3 else None
    tables = Layout(spec, stationary, bool(rng.integers(2)), bool(rng.integers(2)), layer)
    plain, randomiser = Layout(spec, stationary), str(rng.choice(["auto", "unary", "subset", "response"]))
    if kind == "raw":
        return RawEncoder(tables)
    if kind == "weighted":
        where = WeightedLayout(spec, **WEIGHTS[rng.integers(len(WEIGHTS))])
        want = 10 ** rng.uniform(-5, 5, size=(where.sets, where.cells))
        return WeightedEncoder(where, want, rng.normal(size=(len(where.blocks), H, S)) * 10)
    if kind == "raw-features":
        return RawFeatureEncoder(*features(rng, S, A, H))
    if kind == "noisy-features":
        return NoisyFeatureEncoder(*features(rng, S, A, H), 3.0)
    if kind == "noisy":
        return NoisyEncoder(tables, str(rng.choice(["laplace", "gaussian"])), 10 ** rng.uniform(-3, 6))
    if kind == "sampled":
        return SampledEncoder(plain, choose(randomiser, rng.uniform(0.1, 8), SampledEncoder.values(spec)))
    if kind == "questions":
        asked = rng.dirichlet(np.ones(2 * plain.cells)).reshape(2, plain.steps, S, A)
        return QuestionEncoder(plain, hiding(randomiser, rng.uniform(0.1, 8), spec), asked)
    if kind == "binomial":
        return BinomialEncoder(tables, int(rng.integers(1, 12)), 0.3)
    cells = S * A * (1 if stationary else H)
    asked = rng.permutation(cells)[: rng.integers(1, cells + 1)]
    return FirstVisitEncoder(spec, stationary, tuple(asked.tolist()), ((cells, int(rng.integers(1, 9)), 0.3),))


def episode(spec, rng):
    rewards = rng.choice([0.0, 1.0, -0.0, 5e-324, 0.1, rng.random()], size=spec.horizon)
    return Trajectory(
        rng.integers(spec.states, size=spec.horizon + 1), rng.integers(spec.actions, size=spec.horizon), rewards
    )


def spec_of(encoder):
    return encoder.spec if isinstance(encoder, FirstVisitEncoder) else encoder.layout.spec


def world(kind, seed, S=2, A=2, H=2):
    """An encoder and one of its reports."""
    rng = np.random.default_rng(seed)
    encoder = build(kind, rng, S, A, H)
    return encoder, encoder.encode(episode(spec_of(encoder), rng), rng)


def contents(report):
    """All bits of a report, with types and shapes."""
    found = [(name, np.asarray(held), type(held)) for name, held in sorted(vars(report).items())]
    return type(report), [(name, array.dtype, array.shape, array.tobytes(), held) for name, array, held in found]


def refusal(text, encoder):
    """The message with which a text is refused; None if it is accepted, and then it is the one text of its report."""
    error = None
    try:
        report = from_wire(text, encoder)
    except InvalidPersonalData as raised:
        error = raised
    if error is not None:
        assert error.__cause__ is None
        assert error.__context__ is None  # not only suppressed: a collector of errors would find the text in it
        assert len(error.args) == 1
        return str(error)
    assert to_wire(report).encode() == (text.encode() if isinstance(text, str) else text)
    return None


def test_every_kind_of_report_and_encoder_has_an_entry_and_the_simulated_ones_have_none():
    """Would catch a new report that nobody can send, and raw data of simulated people that could be sent."""
    assert {kind for codec in CODECS for kind in codec.encoders} == set(KINDS)
    ours = {report for report in Report.__subclasses__() if report.__module__.startswith("discreet.")}
    assert {codec.report for codec in CODECS} == ours - {SimulatedReport}
    assert len({codec.kind for codec in CODECS}) == len(CODECS)
    for codec in CODECS:
        assert {name for name, *_ in codec.arrays} == {field.name for field in dataclasses.fields(codec.report)}
    report = SimulatedReport(np.array([1]), np.array([1]))
    with pytest.raises(InvalidPersonalData, match="a SimulatedReport has no wire format"):
        to_wire(report)
    for encoder in (None, "raw", 7, RawReport, report):
        with pytest.raises(InvalidPersonalData, match="no wire format"):
            from_wire("1.raw.AAAA", encoder)
        with pytest.raises(InvalidPersonalData, match="no wire format"):
            wire_limit(encoder)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), S=st.integers(1, 5), A=st.integers(1, 3), H=st.integers(1, 5))
def test_reports_come_back_bit_for_bit(kind, seed, S, A, H):
    """On random worlds: sizes, pooled or not, layers, families, randomisers, weights.

    Would catch a lost sign of −0.0, rounded floats, bits in another order, and a length or an encoder's bound that
    honest people do not keep.
    """
    encoder, report = world(kind, seed, S, A, H)
    text = to_wire(report)
    assert set(text) <= ALPHABET
    assert json.dumps(text) == f'"{text}"'
    assert len(text) == wire_limit(encoder)
    for given_ in (text, text.encode()):
        assert contents(from_wire(given_, encoder)) == contents(report)
    travelled = from_json(encoder.to_json())  # a server and a device have equal encoders, not the same one
    assert wire_limit(travelled) == wire_limit(encoder)
    assert contents(from_wire(text, travelled)) == contents(report)


@pytest.mark.parametrize("kind", KINDS)
def test_the_length_says_nothing_about_the_person(kind):
    """Would catch lengths that depend on data, from which whoever sees the traffic could learn."""
    rng = np.random.default_rng(5)
    encoder = build(kind, rng, 4, 2, 5)
    texts = [to_wire(encoder.encode(episode(spec_of(encoder), rng), rng)) for _ in range(50)]
    assert {len(text) for text in texts} == {wire_limit(encoder)}
    assert len(set(texts)) > 1


def test_any_finite_float_survives():
    """Would catch a detour over decimal digits, and subnormals that are flushed to 0."""
    encoder = NoisyEncoder(Layout(Spec(1, 2, 1), False), "laplace", 1.0)
    values = np.array([-0.0, 5e-324, -2.2e-308, 0.1, 1.7976931348623157e308, -1 / 3])
    assert encoder.layout.size == len(values)
    assert contents(from_wire(to_wire(NoisyReport(values)), encoder)) == contents(NoisyReport(values))
    for bad in (np.nan, np.inf, -np.inf):
        assert refusal(to_wire(NoisyReport(np.where(values == 0.1, bad, values))), encoder) == "values must be finite"


#: Version 1, for ever; other languages read the same ones.
VECTORS = {
    "1.answer.BQAAAKAA": AnswerReport(5, np.array([True, False, True, False, False])),
    "1.sampled.AQAAAIGA": SampledReport(1, np.array([True, *[False] * 6, True, True])),
    "1.bits.4AAA": BitsReport(np.array([[True, True], [True, False]])),
    "1.noisy.AAAAAAAA8L8AAAAAAAAAgAAA": NoisyReport(np.array([-1.0, -0.0])),
    "1.raw.AAAAAAAA8D8AAAAAAADQPwIAAAABAAAA": RawReport(np.array([2, 1]), np.array([1.0, 0.25])),
    "1.features.AAAAAAAA-D8AAAAAAADgPwAAAAAAAPA_": RawFeatureReport(np.array([[1.5]]), np.array([[0.5, 1.0]])),
}


@pytest.mark.parametrize("text", VECTORS)
def test_version_1_stays_as_it_is(text):
    """Would catch a change of the format under the same version."""
    assert to_wire(VECTORS[text]) == text


def test_what_is_not_a_report_is_not_written():
    """Would catch values that are cut off or rounded on their way, and messages that show them."""
    half, whole = np.array([0.5]), np.array([1])
    for report, field in (
        (RawReport(np.array([-7]), half), "indices"),
        (RawReport(np.array([2**32 + 7]), half), "indices"),
        (RawReport(half, half), "indices"),
        (RawReport([1], half), "indices"),
        (RawReport(whole, whole), "values"),
        (RawReport(whole, half.astype(np.float32)), "values"),
        (RawReport(whole, half.astype(np.longdouble)), "values"),
        (RawReport(whole, half + 1j), "values"),
        (RawReport(whole, half[None]), "values"),
        (RawReport(whole, None), "values"),
        (SampledReport(-1, half > 0), "step"),
        (SampledReport(10**30, half > 0), "step"),
        (SampledReport(True, half > 0), "step"),
        (SampledReport(0.0, half > 0), "step"),
        (SampledReport([[1], [1, 2]], half > 0), "step"),
        (AnswerReport("1", half > 0), "question"),
        (AnswerReport(1, whole), "support"),
        (BitsReport(half > 0), "bits"),
        (RawFeatureReport(half[None], half), "targets"),
    ):
        with pytest.raises(InvalidPersonalData, match=f"^{field} must") as raised:
            to_wire(report)
        assert raised.value.__context__ is None
        assert not re.search("7|0\\.5|10000", str(raised.value).replace("4294967296", ""))
    for strange in (None, 1, "1.raw.AAAA", whole, Report()):
        with pytest.raises(InvalidPersonalData, match="no wire format"):
            to_wire(strange)


@pytest.mark.parametrize("kind", KINDS)
def test_a_character_that_is_changed_lost_or_added(kind):
    """Every one, everywhere. Would catch two texts of one report, padding, whitespace and any other exception."""
    encoder, report = world(kind, 3, 1 if "features" in kind else 2, 2, 1)
    text = to_wire(report).encode()
    accepted = 0
    for i in range(len(text)):
        for other in range(256):
            changed = text[:i] + bytes([other]) + text[i + 1 :]
            said = refusal(changed, encoder)
            accepted += said is None
            if other < 128:
                assert refusal(changed.decode(), encoder) == said
            if chr(other) not in ALPHABET - {"."}:
                assert said is not None or changed == text
        assert (
            refusal(text[:i] + text[i + 1 :], encoder) == f"a report of this encoder must have {len(text)} characters"
        )
        for extra in (b"A", b"=", b"\n", b" ", b"\0"):
            assert refusal(text[:i] + extra + text[i:], encoder) is not None
            assert refusal(text[:i] + extra + text[i + 1 :], encoder) is not None or extra == b"A"
    assert accepted > len(text)  # the test reaches what is behind the header


@pytest.mark.parametrize("kind", KINDS)
def test_base64_has_one_spelling(kind):
    """Would catch the other alphabet, padding, line ends, and bits behind the end, each at the right length."""
    encoder, report = world(kind, 3)
    text = to_wire(report)
    head = text[: text.rindex(".") + 1]
    for bad in ("+", "/", "=", "==", "\n", "\r\n", " ", ".", "é", "\ud800", "\N{FULLWIDTH DIGIT ONE}"):
        said = refusal(text[: -len(bad)] + bad, encoder)
        assert said == (
            "a report must be ASCII" if ord(bad[0]) > 127 else "the body of a report must be base64url without padding"
        )
    assert refusal("2." + text[2:], encoder) == "a report must be in version 1 of the wire format"
    assert refusal(text.replace("1.", "1_", 1), encoder) == "a report must be in version 1 of the wire format"
    assert refusal(head.upper() + text[len(head) :], encoder) == f"a report must begin with {head}"
    for strange in (
        None,
        0,
        1.0,
        [],
        [text],
        {},
        bytearray(text.encode()),
        memoryview(text.encode()),
        np.array(text),
        object(),
    ):
        assert refusal(strange, encoder) == "a report must be text or bytes"


def forged(encoder, **arrays):
    """A text with these arrays, whatever they are."""
    rng = np.random.default_rng(0)
    report = encoder.encode(episode(spec_of(encoder), rng), rng)
    return to_wire(dataclasses.replace(report, **arrays))


def test_what_is_out_of_bounds_is_refused():
    """Would catch a missing bound on each field: an index past the end, a value that poisons a sum, a bit too many."""
    spec, rng = Spec(2, 2, 3), np.random.default_rng(1)
    raw = RawEncoder(Layout(spec, False))
    honest = raw.encode(episode(spec, rng))
    for bad in (-5e-324, 1 + 2**-52, np.nan, np.inf, 1e300):
        values = honest.values.copy()
        values[4] = bad
        assert refusal(forged(raw, values=values, indices=honest.indices), raw) == "values must lie in [0, 1]"
    for bad in (raw.layout.size, 2**32 - 1, 0):
        indices = honest.indices.copy()
        indices[-1] = bad
        said = refusal(forged(raw, indices=indices), raw)
        assert said == f"indices must lie in [0, {raw.layout.size}), within the counters of their steps"
    where = WeightedLayout(spec, centre=0.3, visit=0.75)
    weighted = WeightedEncoder(where)
    honest, H = weighted.encode(episode(spec, rng)), spec.horizon
    most = math.sqrt(H)
    for place, good, bad in (
        (0, most, most * 1.001),
        (0, 0.0, -5e-324),
        (H, 0.75 * most, 0.751 * most),
        (2 * H, 0.7 * most, 0.701 * most),
        (2 * H, -0.3 * most, -0.301 * most),
        (2 * H, 0.0, np.nan),
    ):
        for value, fine in ((good, True), (bad, False)):
            values = honest.values.copy()
            values[place] = value
            said = refusal(forged(weighted, values=values), weighted)
            assert (said is None) == fine
            assert fine or re.fullmatch(
                r"values must lie within the weights of their steps, \[-0\.\d+, 1\.\d+\] at most", said
            )
    sampled = SampledEncoder(Layout(spec, False), choose("unary", 1.0, SampledEncoder.values(spec)))
    assert refusal(forged(sampled, step=2), sampled) is None
    assert refusal(forged(sampled, step=3), sampled) == "step must lie in [0, 3)"
    pooled = dataclasses.replace(sampled, layout=Layout(spec, True))
    assert refusal(forged(sampled, step=1), pooled) == "step must lie in [0, 1)"
    assert (
        refusal(forged(sampled, support=np.ones(15, np.bool_)), sampled) is None
    )  # a report of 15 bits has the same bytes
    wide = QuestionEncoder(
        Layout(Spec(4, 1, 1), False), hiding("unary", 1.0, Spec(4, 1, 1)), np.full((2, 1, 4, 1), 1 / 8)
    )
    bits = np.array([False, False, False, True, False])
    assert wide.width == 5
    assert refusal(forged(wide, question=3, support=bits), wide) is None
    said = "support must be 0 beyond the answers that the question has"
    assert refusal(forged(wide, question=4, support=bits), wide) == said
    assert refusal(forged(wide, question=8), wide) == "question must lie in [0, 8)"
    assert refusal(forged(wide, support=np.ones(6, np.bool_)), wide) == "support must be followed by bits that are 0"
    linear = RawFeatureEncoder(*features(rng, 2, 2, 2))
    for name, shape in (("features", (2, 5)), ("targets", (2, 2))):
        values = np.zeros(shape)
        values[1, 1] = np.nan
        assert refusal(forged(linear, **{name: values}), linear) == f"{name} must be finite"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), S=st.integers(1, 3), A=st.integers(1, 2), H=st.integers(1, 4))
def test_raw_counts_that_are_accepted_keep_the_norms_of_the_sensitivity(seed, S, A, H):
    """Would catch indices that are only held below the size: all of a user's steps in one counter are too long.

    The worst people of each layout that the parser lets pass: every value 1, and coordinates as equal as it allows.
    """
    rng = np.random.default_rng(seed)
    encoder = build("raw", rng, S, A, H)
    layout = encoder.layout
    bound = tabular_user(layout.counted, layout.families, stationary=layout.stationary)
    n = layout.counted * layout.families
    (_, indices), _ = wire._raw(encoder)
    for low in (indices.low, indices.high, rng.integers(indices.low, indices.high + 1)):
        report = from_wire(to_wire(RawReport(low, np.ones(n))), encoder)
        vector = np.bincount(report.indices, weights=report.values, minlength=layout.size)
        assert np.abs(vector).sum() <= bound.l1
        assert vector @ vector <= bound.l2_squared
    piled = RawReport(np.zeros(n, dtype=np.int64), np.ones(n))
    assert (refusal(to_wire(piled), encoder) is None) == (layout.families == 1 and layout.steps == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_of_another_batch_is_refused_if_its_shape_differs(kind):
    """Would catch a parser that takes lengths from the text instead of the encoder: other cells, sizes or kinds."""
    encoder, report = world(kind, 8, 3, 2, 3)
    text = to_wire(report)
    others = [world(other, seed, *sizes) for other in KINDS for seed in range(4) for sizes in ((3, 2, 3), (4, 3, 5))]
    refused = 0
    for other, theirs in others:
        shapes = [[(name, np.shape(held)) for name, held in vars(r).items()] for r in (report, theirs)]
        if type(theirs) is not type(report) or (shapes[0] != shapes[1] and wire_limit(other) != wire_limit(encoder)):
            said = refusal(text, other)
            assert said is not None
            assert re.match(r"a report (of this encoder )?must", said)
            refused += 1
    assert refused > 40


def test_first_visits_of_other_cells_are_refused_if_there_are_more_or_fewer():
    """Would catch last batch's encoder in this batch."""
    spec = Spec(3, 2, 2)
    one, two = (FirstVisitEncoder(spec, True, tuple(range(n)), ((3, 2, 0.3), (6, 2, 0.4))) for n in (2, 3))
    text = to_wire(one.encode(episode(spec, np.random.default_rng(0)), np.random.default_rng(0)))
    assert refusal(text, one) is None
    assert refusal(text, two) == f"a report of this encoder must have {wire_limit(two)} characters"


def test_formats_are_forgotten_with_their_encoders():
    """Would catch a server that grows by one format a batch, and a new encoder at an old address that is read as it."""
    gc.collect()
    before = len(wire._FORMATS)
    for i in range(200):
        encoder = NoisyEncoder(Layout(Spec(1 + i % 7, 2, 2), False), "laplace", 1.0)
        assert wire_limit(encoder) == len("1.noisy.") + 4 * -(-8 * encoder.layout.size // 3)
    del encoder
    gc.collect()
    assert len(wire._FORMATS) <= before


def small(kind):
    """A small encoder, and a text of it."""
    encoder, report = world(kind, 11, 2, 2, 2)
    return encoder, to_wire(report).encode()


def junk(text, rng, count):
    """Random bytes of random lengths, of the right length, and behind the right header; and changed honest texts."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    n, head = len(text), text[: text.rindex(b".") + 1]
    for i in range(count):
        if i % 4 == 0:
            yield rng.randbytes(rng.randrange(2 * n))
        elif i % 4 == 1:
            yield rng.randbytes(n)
        elif i % 4 == 2:
            yield head + bytes(rng.choices(letters, k=n - len(head)))
        else:
            changed = bytearray(text)
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(n)] = rng.choice(letters) if rng.random() < 0.8 else rng.randrange(256)
            yield bytes(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_fuzz(kind):
    """Would catch any other exception, more memory than declared, and a message that depends on the text."""
    encoder, text = small(kind)
    limit, said = MEMORY * wire_limit(encoder) + SLACK, set()
    tracemalloc.start()
    try:
        for given_ in junk(text, random.Random(1), 2_000):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            message = refusal(given_, encoder)
            assert tracemalloc.get_traced_memory()[1] - before <= limit
            said.add(message)
    finally:
        tracemalloc.stop()
    assert len(said) <= 9  # a few sentences, not one a text


@settings(max_examples=300, deadline=None)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_fuzz_by_hypothesis(data, kind):
    """Arbitrary text and bytes, alone and behind the right header. Would catch what random bytes rarely are."""
    encoder, text = small(kind)
    n = len(text)
    head = text[: text.rindex(b".") + 1]
    exact = st.binary(min_size=n - len(head), max_size=n - len(head)).map(lambda body: head + body)
    near = st.text(min_size=n - len(head), max_size=n - len(head)).map(lambda body: head.decode() + body)
    refusal(data.draw(st.one_of(st.text(), st.binary(), exact, near)), encoder)


@pytest.mark.slow
def test_a_million_random_byte_strings():
    """Would catch the exception that comes once in a hundred thousand; memory is looked at in a sample."""
    encoders = [small(kind) for kind in KINDS]
    count, accepted = -(-1_000_000 // len(encoders)), 0
    for i, (encoder, text) in enumerate(encoders):
        limit = MEMORY * wire_limit(encoder) + SLACK
        for j, given_ in enumerate(junk(text, random.Random(i), count)):
            if j % 20 == 0:
                tracemalloc.start(1)
            try:
                report = from_wire(given_, encoder)
            except InvalidPersonalData:
                report = None
            if j % 20 == 0:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert peak <= limit
            if report is not None:
                accepted += 1
                assert to_wire(report).encode() == given_
    assert 50_000 < accepted < 900_000  # both sides of the border are tried


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_a_small_multiple_of_the_text(kind):
    """Honest reports of a larger world. Would catch temporary copies that are larger than what is declared."""
    encoder, report = max((world(kind, seed, 8, 4, 30) for seed in range(8)), key=lambda found: wire_limit(found[0]))
    for text in (to_wire(report), to_wire(report).encode()):
        from_wire(text, encoder)  # what is kept for the encoder is not the report's
        tracemalloc.start()
        found = from_wire(text, encoder)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found is not None
        assert peak <= MEMORY * wire_limit(encoder) + SLACK


@pytest.mark.parametrize("kind", ["raw", "questions", "binomial"])
def test_a_huge_text_is_refused_without_being_copied(kind):
    """Would catch decoding, searching or encoding before the length is compared."""
    encoder, _ = small(kind)
    for huge in (bytes(10**9), "A" * 10**7, "é" * 10**7):  # zero pages of the first are never touched
        tracemalloc.start()
        said = refusal(huge, encoder)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert said == f"a report of this encoder must have {wire_limit(encoder)} characters"
        assert peak < SLACK


def test_no_message_ever_repeats_what_was_sent():
    """Canaries in every field, out of bounds each. Would catch a value, an index or a piece of text in a message."""
    spec, rng = Spec(3, 2, 4), np.random.default_rng(4)
    layout = Layout(spec, False)
    raw, noisy = RawEncoder(layout), NoisyEncoder(layout, "laplace", 1.0)
    sampled = SampledEncoder(layout, choose("subset", 1.0, SampledEncoder.values(spec)))
    asked = QuestionEncoder(layout, hiding("auto", 1.0, spec), np.full((2, 4, 3, 2), 1 / 48))
    linear = RawFeatureEncoder(*features(rng, 3, 2, 4))
    weighted = WeightedEncoder(WeightedLayout(spec))
    canary, number = 7654.321987, 76543219
    spoiled = []
    for encoder in (raw, weighted):
        honest = encoder.encode(episode(spec, rng))
        for name, value in (("values", canary), ("indices", number)):
            array = getattr(honest, name).copy()
            array[-1] = value
            spoiled.append((forged(encoder, **{name: array}), encoder))
    endless = np.full(layout.size, canary)
    endless[-1] = np.inf
    spoiled.append((to_wire(NoisyReport(endless)), noisy))
    spoiled += [(forged(sampled, step=number), sampled), (forged(asked, question=number), asked)]
    unbound = np.full((4, 5), canary)
    unbound[-1, -1] = np.nan
    spoiled.append((forged(linear, features=unbound), linear))
    for text, encoder in list(spoiled):
        head = text[: text.rindex(".") + 1]
        for other in (
            text[:-4] + "CANA",
            text[:-1] + "=",
            text + "CANARY",
            text.replace("1.", "CANARY", 1)[: len(text)],
        ):
            spoiled.append((other, encoder))
        spoiled.append((head + "CANARY" + text[len(head) + 6 :], encoder))
        spoiled.append(("CANARY" + "\ud800" * (len(text) - 6), encoder))
    refused = 0
    for text, encoder in spoiled:
        try:
            from_wire(text, encoder)
        except InvalidPersonalData as error:
            refused += 1
            chain, link = [], error
            while link is not None:
                chain += [str(link), repr(link), repr(vars(link)), repr(link.args)]
                link = link.__cause__ or link.__context__
            whole = " ".join(chain)
            for secret in ("CANA", "7654", "\\ud800", text[12:24], str(number)):
                assert secret not in whole
    assert refused >= len(spoiled) - 10  # a changed end of the body may still be a report


def test_the_table_of_sizes_is_right():
    """Would catch a docstring that drifts from the format."""
    rng = np.random.default_rng(0)
    spec = Spec(6, 2, 20)
    layout, (where, values) = Layout(spec, False), features(rng, 6, 2, 20, 8, 4)
    randomiser = choose("auto", 1.0, SampledEncoder.values(spec))
    encoders = (
        RawEncoder(layout),
        WeightedEncoder(WeightedLayout(spec)),
        RawFeatureEncoder(where, values),
        NoisyEncoder(layout, "laplace", 60.0),
        NoisyFeatureEncoder(dataclasses.replace(where, printed=False), values, 3.0),
        SampledEncoder(layout, randomiser),
        QuestionEncoder(layout, hiding("auto", 1.0, spec), np.full((2, 20, 6, 2), 1 / 480)),
        BinomialEncoder(layout, 16, 0.25),
        FirstVisitEncoder(spec, False, tuple(range(12)), ((12, 8, 0.25),)),
    )
    table = re.findall(r"^    (\w+) +([\w-]+) +([\d,]+) +([\d,]+)$", wire.__doc__, re.MULTILINE)
    assert [kind for _, kind, *_ in table] == [encoder.kind for encoder in encoders]
    for encoder, (kind, _, size, listed) in zip(encoders, table, strict=True):
        rewards = rng.random(20)
        trajectory = Trajectory(rng.integers(6, size=21), rng.integers(2, size=20), rewards)
        report = encoder.encode(trajectory, rng)
        lists = {
            name: (held * 1 if held.dtype == np.bool_ else held).tolist() if isinstance(held, np.ndarray) else held
            for name, held in vars(report).items()
        }
        assert to_wire(report).startswith(f"1.{kind}.")
        assert wire_limit(encoder) == int(size.replace(",", ""))
        plain = len(json.dumps(lists, separators=(",", ":")))
        assert plain == pytest.approx(int(listed.replace(",", "")), rel=0.1)


def test_a_device_needs_numpy_only(python):
    """Would catch an import of what only servers have, also a late one."""
    code = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("scipy", "numba", "dp_accounting", "gymnasium", "rich", "click"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import numpy as np
from discreet.mdp import Spec, Trajectory
from discreet.privatizers.codec import from_wire, to_wire
from discreet.privatizers.counts.encode import RawEncoder
from discreet.privatizers.counts.layout import Layout

encoder = RawEncoder(Layout(Spec(2, 2, 2), False))
report = encoder.encode(Trajectory([0, 1, 0], [1, 1], [0.5, 1.0]))
print((from_wire(to_wire(report), encoder).values == report.values).all())
"""
    assert python(code) == "True"

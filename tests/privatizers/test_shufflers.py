"""Between users and server: reports are collected whole, or taken apart; never fewer than the noise is for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.noise import as_source
from discreet.privacy import BitsReport, NoisyBatch, NoisyReport
from discreet.privatizers import BitShuffler, Collector
from tests.privatizers.catalogue import MECHANISMS, SHUFFLED, people


@pytest.mark.parametrize("name", SHUFFLED)
def test_a_shuffler_hands_on_a_whole_batch_or_nothing(name, rng):
    """Planted: one report, one too few, one too many, one twice, other messages, other types. Each must be refused.

    The server must not see the messages of fewer users than the noise was calibrated for: of one it would see all.
    """
    mechanism = MECHANISMS[name]()
    encoder, shuffler = mechanism.encoder_of(0), mechanism.shuffler()
    reports = [encoder.encode(person, rng) for person in people(name, rng, 4)]
    bits = reports[0].bits
    marked = np.full(bits.shape, 7654)
    changed = [
        (reports[:1], InvalidInput, "that of 3 users"),
        (reports[:2], InvalidInput, "that of 3 users"),
        (reports, InvalidInput, "that of 3 users"),
        ([], InvalidInput, "at least one report"),
        ([reports[0], reports[1], reports[0]], InvalidPersonalData, "once only"),
        ([BitsReport(bits[:, :-1]), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([BitsReport(bits[:-1]), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([BitsReport(np.concatenate([bits, bits], axis=1)), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([BitsReport(bits[:, 0]), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([BitsReport(marked), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([BitsReport(bits.astype(float)), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([BitsReport(bits.astype(np.uint8)), *reports[1:3]], InvalidPersonalData, "bits for each of"),
        ([None, *reports[1:3]], TypeError, "expected a BitsReport, got NoneType"),
        ([bits, *reports[1:3]], TypeError, "expected a BitsReport, got ndarray"),
    ]
    for given, error, why in changed:
        for act in (shuffler, shuffler.mix):
            with pytest.raises(error, match=why) as caught:
                act(given, rng)
            assert "7654" not in str(caught.value)
            assert "True" not in str(caught.value)
    batch = shuffler(reports[:3], rng)
    assert (batch.users, batch.messages) == (3, 3 * encoder.messages)
    np.testing.assert_array_equal(batch.ones, np.sum([report.bits for report in reports[:3]], axis=(0, 2)))
    with pytest.raises(InvalidInput, match="no server sees"):
        shuffler.alone(reports[0])


def test_a_public_plan_tells_the_shuffler_what_comes_next(rng):
    """Would catch a shuffler that goes on with the size of an earlier batch, or its number of messages."""
    mechanism = MECHANISMS["first visits"]()
    encoder = dataclasses.replace(mechanism.encoder_of(0), cells=(0, 1, 2))
    shuffler = mechanism.shuffler()
    reports = [encoder.encode(person, rng) for person in people("first visits", rng, 2)]
    with pytest.raises(ValueError, match="that of 3 users"):
        shuffler(reports, rng)
    shuffler.begin(7, 2, encoder)
    batch = shuffler(reports, as_source(rng))
    assert (batch.users, batch.version, len(batch.ones)) == (2, 7, encoder.size)
    old = [mechanism.encoder_of(0).encode(person, rng) for person in people("first visits", rng, 2)]
    with pytest.raises(InvalidPersonalData, match=f"{encoder.messages} bits for each of {encoder.size} counters"):
        shuffler(old, rng)


def test_every_message_is_somewhere_else_and_nothing_is_lost(rng):
    """Would catch permutations of whole reports: what stays together tells whose it is."""
    bits = [np.zeros((6, 4), dtype=np.bool_) for _ in range(50)]
    bits[0][:, 0] = True
    mixed = BitShuffler(50, (6, 4)).mix([BitsReport(part) for part in bits], rng)
    np.testing.assert_array_equal(mixed.sum(axis=1), 1)
    assert len(set(mixed.argmax(axis=1).tolist())) >= 4
    first = [BitShuffler(50, (6, 4)).mix([BitsReport(part) for part in bits], rng).argmax(axis=1) for _ in range(400)]
    assert np.abs(np.mean(first) - 99.5) < 5 * 57.7 / np.sqrt(2400)  # uniform over the 200 places
    assert np.std(first) == pytest.approx(57.7, rel=0.05)


def test_a_collector_takes_reports_of_one_kind_and_shape(rng):
    collector = Collector(NoisyReport, NoisyBatch)
    collector.begin(4, 2, None)
    batch = collector([NoisyReport(np.arange(3.0)), NoisyReport(np.ones(3))], rng)
    assert isinstance(batch, NoisyBatch)
    assert (batch.users, batch.version) == (2, 4)
    np.testing.assert_array_equal(batch.values, [[0, 1, 2], [1, 1, 1]])
    assert collector.alone(NoisyReport(np.ones(3))).users == 1
    with pytest.raises(InvalidPersonalData, match="the same shapes"):
        collector([NoisyReport(np.ones(3)), NoisyReport(np.ones(4))], rng)
    with pytest.raises(TypeError, match="expected a NoisyReport, got BitsReport"):
        collector([BitsReport(np.ones((2, 2), dtype=np.bool_))], rng)
    with pytest.raises(ValueError, match="at least one report"):
        collector([], rng)

"""Vectors that clients in other languages run too: what a device is sent, and what it must make of it."""

from __future__ import annotations

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet import errors
from discreet.mdp import Trajectory
from discreet.privatizers import device
from discreet.privatizers.codec import from_json, from_wire, wire_limit
from discreet.privatizers.counts.encode import RawEncoder
from discreet.privatizers.counts.layout import Layout

ROOT = Path(__file__).parents[2]
loading = importlib.util.spec_from_file_location("make_vectors", ROOT / "scripts" / "make_vectors.py")
script = importlib.util.module_from_spec(loading)
loading.loader.exec_module(script)
VECTORS = json.loads(script.FILE.read_text())
ENCODERS = [from_json(json.dumps(document)) for document in VECTORS["documents"]]


def test_there_are_enough_and_the_file_stays_small():
    assert len(VECTORS["reports"]) >= 1000
    assert {document["kind"] for document in VECTORS["documents"]} == {"questions", "binomial", "first-visits"}
    assert {
        hidden["name"]
        for document in VECTORS["documents"]
        if document["kind"] == "questions"
        for hidden in document["device"]["randomisers"]
    } == {"unary", "subset", "response"}
    assert script.FILE.stat().st_size < 2_000_000


def test_documents_are_what_encoders_write():
    """Would catch a threshold, a size or a number of draws that changes under the clients."""
    for encoder, document in zip(ENCODERS, VECTORS["documents"], strict=True):
        assert device.document(encoder) == document
        assert json.loads(device.to_json(encoder)) == document
        assert json.loads(encoder.to_json()) == {key: value for key, value in document.items() if key != "device"}


def test_reports_agree_bit_for_bit():
    for d, trajectory, data, text in VECTORS["reports"]:
        assert script.on_tape(ENCODERS[d], trajectory, bytes.fromhex(data)) == text
        assert len(text) == wire_limit(ENCODERS[d])
        from_wire(text, ENCODERS[d])


def test_data_out_of_bounds_is_refused_without_being_repeated():
    for d, trajectory, kind in VECTORS["refused"]:
        with pytest.raises(getattr(errors, kind)):
            ENCODERS[d].encode(Trajectory(*trajectory))


def test_owners_accept_and_refuse_the_same_encoders():
    for d, epsilon, delta, users, accepted in VECTORS["pins"]:
        text = json.dumps(VECTORS["documents"][d])
        if accepted:
            from_json(text, epsilon=epsilon, delta=delta, users=users)
        else:
            with pytest.raises(errors.InvalidInput):
                from_json(text, epsilon=epsilon, delta=delta, users=users)


def test_a_threshold_takes_the_decisions_of_the_probability():
    """Both sides of every threshold, exactly: one unit more or less would be seen."""
    rng = np.random.default_rng(1)
    for p in (
        *rng.random(200),
        *(rng.random(200) * 2.0 ** -rng.integers(60, size=200)),
        0.0,
        0.5,
        1.0,
        2.0**-53,
        5e-324,
    ):
        T = device.threshold(float(p))
        for k in (k for k in (T - 1, T) if 0 <= k < 2**53):
            assert (k < T) == (Fraction(k, 2**53) < Fraction(float(p))) == (k * 2.0**-53 < p)


@pytest.mark.parametrize("d", [d for d, document in enumerate(VECTORS["documents"]) if document["kind"] == "questions"])
def test_question_thresholds_are_exact(d):
    """At each threshold and right below it the encoder asks what the table says."""
    encoder, table = ENCODERS[d], VECTORS["documents"][d]["device"]["questions"]
    assert table == sorted(table)
    assert table[-1] == 2**53
    for k in {k for T in table for k in (T - 1, T) if 0 <= k < 2**53}:
        assert encoder.question(k * 2.0**-53) == sum(k >= T for T in table)


def test_encoders_that_no_device_runs_travel_as_they_are():
    encoder = RawEncoder(Layout(script.spec_of((2, 2, 3)), True))
    assert device.document(encoder) == json.loads(encoder.to_json())

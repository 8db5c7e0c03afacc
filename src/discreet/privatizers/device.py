"""What a device without Python is given: an encoder's JSON, with every probability as an integer of 2^53. NumPy only.

A browser draws k = word >> 11 from a random word of 64 bits, as a secure source does here, and compares integers: a
draw is below a probability exactly if k is below its threshold. So a device needs no logarithm, no exponential and no
rule for rounding, it takes the same decisions as the encoder here from the same words, and it computes ε from the very
numbers that it uses. The format is described in ``clients/typescript/README.md``.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.privatizers.randomisers import SubsetSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from discreet.privatizers.codec import AnyEncoder
    from discreet.privatizers.counts.encode import BinomialEncoder
    from discreet.privatizers.first_visits.encode import FirstVisitEncoder
    from discreet.privatizers.questions.encode import QuestionEncoder
    from discreet.privatizers.randomisers import Randomiser

__all__ = ["FORMAT", "document", "threshold", "to_json"]

FORMAT = 1  #: Of what is added for devices.
_UNITS = 2**53


def threshold(probability: float) -> int:
    """Returns the integer T for which ``k < T`` is ``k·2⁻⁵³ < probability``, for every k below 2^53."""
    return min(max(math.ceil(probability * 2.0**53), 0), _UNITS)  # to scale by a power of 2 is exact


def document(encoder: AnyEncoder) -> dict[str, Any]:
    """Returns an encoder's public parameters, with integers for devices under ``"device"`` if its kind has them.

    `discreet.privatizers.codec.from_json` reads the same text, and ignores what is added.
    """
    found: dict[str, Any] = json.loads(encoder.to_json())
    made = _DEVICES.get(encoder.kind)
    return found if made is None else {**found, "device": {"format": FORMAT, **made(encoder)}}


def to_json(encoder: AnyEncoder) -> str:
    """Returns `document` as text."""
    return json.dumps(document(encoder), separators=(",", ":"))


def _questions(encoder: QuestionEncoder) -> dict[str, Any]:
    return {
        "questions": _cumulative(encoder),
        "randomisers": [_randomiser(found) for found in encoder.randomisers],
        "draws": [encoder.draws] * 2,
    }


def _cumulative(encoder: QuestionEncoder) -> list[int]:
    """Returns thresholds of the questions: the draw k asks question number #{j: T_j ≤ k}.

    `QuestionEncoder.question` multiplies a draw and looks it up. Both are monotone in the draw, rounding included, so
    the smallest draw that passes each entry is found by bisection; nothing passes the last question that is asked.
    """
    bounds, total = encoder.cumulative, encoder.cumulative[-1]
    low, high = np.zeros(len(bounds), dtype=np.int64), np.full(len(bounds), _UNITS)
    while (low < high).any():
        middle = (low + high) // 2
        passed = middle * 2.0**-53 * total >= bounds
        low, high = np.where(passed, low, np.minimum(middle + 1, high)), np.where(passed, middle, high)
    high[encoder.last :] = _UNITS
    return [int(found) for found in high]


def _randomiser(found: Randomiser) -> dict[str, Any]:
    p, q = found.probabilities
    made = {"name": found.name, "size": found.size, "p": threshold(p)}
    if isinstance(found, SubsetSelection):
        return {**made, "chosen": found.chosen}
    return {**made, "q": threshold(q)}


def _binomial(encoder: BinomialEncoder) -> dict[str, Any]:
    noise = encoder.size * encoder.noise_bits
    data = encoder.layout.families * encoder.layout.counted
    return {
        "noise_bits": encoder.noise_bits,
        "p": threshold(encoder.probability),
        "draws": [data + noise, noise],
    }


def _first_visits(encoder: FirstVisitEncoder) -> dict[str, Any]:
    noise = encoder.size * encoder.noise_bits * 2
    return {
        "cells": list(encoder.cells),
        "noise_bits": encoder.noise_bits,
        "p": threshold(encoder.probability),
        "q": threshold(1 - encoder.probability),
        "draws": [len(encoder.cells) + noise, noise],
    }


#: What is added for devices, by the kind of encoder; other kinds run in Python only.
_DEVICES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "questions": _questions,
    "binomial": _binomial,
    "first-visits": _first_visits,
}

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.privatizers.codec import AnyEncoder

__all__ = ["FORMAT", "UNITS", "document", "passed", "threshold", "to_json"]

FORMAT = 1  #: Of what is added for devices.
UNITS = 2**53  #: Draws are multiples of 1/UNITS.


def threshold(probability: float) -> int:
    """Returns the integer T for which ``k < T`` is ``k·2⁻⁵³ < probability``, for every k below 2^53."""
    return min(max(math.ceil(probability * 2.0**53), 0), UNITS)  # to scale by a power of 2 is exact


def passed(bounds: NDArray[np.float64], factor: float) -> NDArray[np.int64]:
    """Returns for every bound the integer T for which ``k ≥ T`` is ``k·2⁻⁵³·factor ≥ bound``, rounding included.

    A product is monotone in the draw, however it is rounded: so T is found by bisection. It is 2^53 if no draw passes.
    """
    low, high = np.zeros(len(bounds), dtype=np.int64), np.full(len(bounds), UNITS)
    while (low < high).any():
        middle = (low + high) // 2
        beyond = middle * 2.0**-53 * factor >= bounds
        low, high = np.where(beyond, low, np.minimum(middle + 1, high)), np.where(beyond, middle, high)
    return high


def document(encoder: AnyEncoder) -> dict[str, Any]:
    """Returns an encoder's public parameters, and what it says ``for_device`` under ``"device"``, if it does.

    `discreet.privatizers.codec.from_json` reads the same text, and ignores what is added.
    """
    found: dict[str, Any] = json.loads(encoder.to_json())
    made = getattr(encoder, "for_device", None)  # other encoders run in Python only
    return found if made is None else {**found, "device": {"format": FORMAT, **made()}}


def to_json(encoder: AnyEncoder) -> str:
    """Returns `document` as text."""
    return json.dumps(document(encoder), separators=(",", ":"))

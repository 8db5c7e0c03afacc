"""The exponential function between two integers, and comparisons with it that are never wrong.

No floating-point number takes part. A bound that is too wide costs another round with more digits; it never costs
correctness.
"""

from __future__ import annotations

import os

__all__ = ["bounds", "happens"]

_MORE = 64  # random bits that a comparison takes when those it has do not decide


def bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Returns integers low ≤ 2^bits · exp(−numerator/denominator) ≤ high, close together.

    Args:
        numerator: At least 0.
        denominator: At least 1.
        bits: At least 0.
    """
    if numerator == 0:
        return 1 << bits, 1 << bits
    if numerator > bits * denominator:  # exp(−x) < 2^−x
        return 0, 1
    halvings = (numerator // denominator).bit_length() + 8  # then y = x/2^halvings ≤ 2^−8
    p = bits + halvings + 16
    y_low = (numerator << p) // (denominator << halvings)
    y_high = y_low + 1
    low = high = term_low = term_high = 1 << p
    n = 0
    while term_high > 1:
        n += 1
        term_low = (term_low * y_low >> p) // n
        term_high = (term_high * y_high >> p) // n + 1
        if n % 2:
            low, high = low - term_high, high - term_low
        else:
            low, high = low + term_low, high + term_high
    low, high = low - 1, high + 1  # the terms alternate and fall: the rest is less than the last, which is at most 1
    for _ in range(halvings):
        low, high = low * low >> p, (high * high >> p) + 1
    return low >> (p - bits), (high >> (p - bits)) + 1


def happens(factor: int, over: int, exponent: tuple[int, int], revealed: int = 0, bits: int = 0) -> bool:
    """Returns whether a uniform number u in [0, 1) is below p = factor/over · exp(−exponent), which is at most 1.

    The number u is revealed as far as is needed: ``bits`` of its digits are known already, the others come from the
    operating system when they are asked for.

    Args:
        factor: At least 0.
        over: At least 1.
        exponent: Numerator and denominator.
        revealed: The first digits of u, as an integer below 2^bits.
        bits: How many digits are known.

    Guarantee:
        The result is True with probability p exactly, if the known digits are uniform. It takes 64 digits more with
        probability less than 2^(2 − bits), so it ends.
    """
    while True:
        low, high = bounds(*exponent, bits + 32 + factor.bit_length())
        scale = over << (32 + factor.bit_length())
        if (revealed + 1) * scale <= factor * low:  # u < (revealed + 1)/2^bits ≤ p
            return True
        if revealed * scale >= factor * high:  # u ≥ revealed/2^bits ≥ p
            return False
        revealed = revealed << _MORE | int.from_bytes(os.urandom(_MORE // 8), "little")
        bits += _MORE

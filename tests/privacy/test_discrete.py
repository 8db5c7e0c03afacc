"""The account of discrete Gaussian noise against exact enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from discreet.errors import InvalidInput
from discreet.privacy import Guarantee, accounting, discrete

DELTA = 1e-6


def log_law(variance: float, reach: int, centre: int = 0) -> np.ndarray:
    """Returns ln P of the discrete Gaussian around ``centre`` on −reach … reach."""
    x = np.arange(-reach, reach + 1) - centre
    found = -x * x / (2.0 * variance)
    return found - np.logaddexp.reduce(-(np.arange(-4 * reach, 4 * reach + 1) ** 2) / (2.0 * variance))


def exact_epsilon(p: np.ndarray, q: np.ndarray) -> float:
    """Returns ε at `DELTA` of two laws given by logarithms, in one direction."""

    def excess(eps: float) -> float:
        return float(np.maximum(np.exp(p) - np.exp(eps + q), 0).sum()) - DELTA

    return float(brentq(excess, 0, 60, xtol=1e-13)) if excess(0) > 0 else 0.0


@pytest.mark.parametrize(("variance", "shift"), [(2, 1), (4, 1), (25, 1), (25, 5), (100, 7), (2000, 1), (2000, 40)])
def test_one_read_never_loses_more_than_its_account(variance: int, shift: int) -> None:
    """Catches an account that is below the truth, and one that is loose on a fine grid."""
    reach = int(12 * math.sqrt(variance)) + shift
    exact = exact_epsilon(log_law(variance, reach), log_law(variance, reach, shift))
    found = accounting.epsilon(discrete.gaussian(variance, shift, 1), DELTA)
    assert exact <= found
    if variance >= 2000:
        assert found <= exact * 1.001


def test_plain_gdp_would_understate() -> None:
    """The enumeration has the power to tell the two accounts apart: continuous noise of this variance loses less."""
    exact = exact_epsilon(log_law(25, 70), log_law(25, 70, 1))
    assert exact > accounting.gaussian_epsilon(1 / 5, DELTA) * 1.0009
    assert exact == pytest.approx(0.83498, abs=1e-4)


@pytest.mark.parametrize("variance", [6, 30, 200])
def test_two_reads_that_adapt_never_lose_more_than_their_account(variance: int) -> None:
    """Catches an account that holds only for shifts that are chosen in advance.

    The second shift follows the first output: all that is left of the squared length, where that helps most.
    """
    reach, first, square = int(10 * math.sqrt(variance)) + 6, 2, 9
    y = np.arange(-reach, reach + 1)
    rest = math.isqrt(square - first * first)
    second = np.where(y > 1, rest, np.where(y < -1, -rest, 0))  # |second|² ≤ square − first²
    p = log_law(variance, reach)[:, None] + log_law(variance, reach)[None, :]
    q = log_law(variance, reach, first)[:, None] + np.array([log_law(variance, reach, d) for d in second])
    found = accounting.epsilon(discrete.gaussian(variance, math.sqrt(square), 2), DELTA)
    for one, other in ((p, q), (q, p)):
        assert exact_epsilon(one.ravel(), other.ravel()) <= found


def test_the_extra_terms_are_explicit_and_tiny() -> None:
    """Catches r² that does not grow with the number of entries: 2Nη must stay below its bound."""
    for entries in (1, 1000, 10**9):
        event = discrete.gaussian(10**20, 1e9, entries)
        assert 0 < 2 * event.ratio <= discrete.NEAR
        assert event.event.noise_multiplier < 10.0


def test_too_little_noise_for_the_proof_is_refused() -> None:
    """Catches a negative variance under a root."""
    with pytest.raises(InvalidInput, match="needs a variance above"):
        discrete.gaussian(1, 1, 1)


def test_a_group_loses_more() -> None:
    """Catches a group's guarantee that forgets the extra terms or the shift."""
    event = discrete.gaussian(10**12, 1e5, 40)
    one = Guarantee("joint", accounting.epsilon(event, DELTA), DELTA, noise="secure", events=event)
    three = one.group(3)
    assert three.epsilon == pytest.approx(accounting.epsilon(discrete.gaussian(10**12, 3e5, 120), DELTA), rel=1e-6)
    assert three.events.ratio == 3 * event.ratio

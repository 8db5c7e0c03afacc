"""Finds the best BLT with four buffers for continual counting over n = 2^8, ..., 2^24 steps.

Minimises the worst error ``||c|| ||b||`` (see ``discreet.sums.blt``), reached at the last read, and writes the
coefficients that the package ships. Run as ``python scripts/find_blt.py [output]``; it takes some seconds on one core.

Parametrisation. A BLT with positive weights is given just as well by the decays ``kappa_i`` of ``C`` and the decays
``kappa'_i`` of its inverse, which interlace: ``kappa_1 < kappa'_1 < kappa_2 < ... < kappa_d < kappa'_d``. Then no
equation is to be solved within an evaluation, since all weights are products of differences::

    omega_i = prod_j (kappa'_j - kappa_i) / prod_{m != i} (kappa_m - kappa_i)
    g_i     = prod_j (kappa_j - kappa'_i) / prod_{m != i} (kappa'_m - kappa'_i)      with kappa'_0 = 0

and both squared norms are the same function ``sum_ij r_i r_j S_T(p_i + p_j - p_i p_j)`` of (poles p, zeros, T), where
``S_T(k) = sum_{s < T} (1 - k)^s``: all terms are positive and nothing cancels. The unconstrained variables are the
logit of the first decay and the logarithms of the successive differences of logits. They keep all decays within (0, 1)
and interlaced, hence ``0 < theta < 1``, ``omega > 0`` and ``b`` positive and decreasing, throughout the search.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from discreet.sums.blt import column_norm, prefix_modes, read_variance

FloatArray = npt.NDArray[np.float64]

BUFFERS = 4
EXPONENTS = range(8, 25)
RESTARTS = 6
SEED = 20240611
TABLE = Path(__file__).parent.parent / "src" / "discreet" / "sums" / "blt_coefficients.json"
AGREEMENT = 1e-9  # At least half of the starts must find the same error to this relative precision.


def geometric_sum(decay: FloatArray, terms: int) -> tuple[FloatArray, FloatArray]:
    """``S(k) = sum_{s < terms} (1 - k)^s`` and its derivative by ``k``.

    Args:
        decay: Values of ``k`` in [0, 1).
        terms: Number of terms.

    Returns:
        The sums and their derivatives. At ``k = 0`` the derivative is reported as 0: that entry belongs to the
        constant mode, whose decay is not a variable.
    """
    zero = decay == 0.0
    k = np.where(zero, 0.5, decay)
    log_power = terms * np.log1p(-k)
    value = -np.expm1(log_power) / k
    slope = (terms * np.exp(log_power) / (1.0 - k) - value) / k
    return np.where(zero, float(terms), value), np.where(zero, 0.0, slope)


def energy(poles: FloatArray, zeros: FloatArray, terms: int) -> tuple[float, FloatArray, FloatArray]:
    """Sum of squares of the first coefficients of a sum of exponentials given by poles and zeros.

    Args:
        poles: Decays of the exponentials.
        zeros: Decays interlacing them.
        terms: Number of coefficients.

    Returns:
        ``sum_{s < terms} (sum_i r_i (1 - p_i)^s)^2`` with ``r_i = prod_j (z_j - p_i) / prod_{m != i} (p_m - p_i)``,
        and its gradients by the poles and by the zeros.
    """
    identity = np.eye(poles.size, dtype=bool)
    to_poles = np.where(identity, 1.0, poles[None, :] - poles[:, None])
    to_zeros = zeros[None, :] - poles[:, None]
    weight = to_zeros.prod(axis=1) / to_poles.prod(axis=1)
    sums, slopes = geometric_sum(poles[:, None] + poles[None, :] * (1.0 - poles[:, None]), terms)
    by_log_weight = 2.0 * weight * (sums @ weight)
    inverse_poles = np.where(identity, 0.0, 1.0 / to_poles)
    inverse_zeros = 1.0 / to_zeros
    by_zeros = by_log_weight @ inverse_zeros
    by_poles = (
        2.0 * weight * (slopes @ (weight * (1.0 - poles)))
        - by_log_weight @ inverse_poles
        + by_log_weight * (inverse_poles.sum(axis=1) - inverse_zeros.sum(axis=1))
    )
    return float(weight @ sums @ weight), by_poles, by_zeros


def decays(x: FloatArray) -> FloatArray:
    """The interlaced decays ``kappa_1, kappa'_1, kappa_2, ...`` of the unconstrained variables."""
    return np.asarray(expit(np.cumsum(np.append(x[0], np.exp(x[1:])))), dtype=np.float64)


def log_error(x: FloatArray, n: int) -> tuple[float, FloatArray]:
    """Logarithm of the worst error over ``n`` reads, and its gradient.

    Args:
        x: Unconstrained variables, two per buffer.
        n: Number of reads.

    Returns:
        ``log(||c|| ||b||)`` and its gradient by ``x``.
    """
    chain = decays(x)
    kappa, kappa_hat = chain[0::2], chain[1::2]
    tail, c_kappa, c_hat = energy(kappa, kappa_hat, n - 1)
    c_square = 1.0 + tail
    b_square, b_hat, b_kappa = energy(np.append(0.0, kappa_hat), kappa, n)
    gradient = np.empty_like(chain)
    gradient[0::2] = c_kappa / c_square + b_kappa / b_square
    gradient[1::2] = c_hat / c_square + b_hat[1:] / b_square
    by_logit = 0.5 * gradient * chain * (1.0 - chain)
    by_x = np.cumsum(by_logit[::-1])[::-1] * np.append(1.0, np.exp(x[1:]))
    return 0.5 * float(np.log(c_square) + np.log(b_square)), by_x


def first_guess(n: int, buffers: int) -> FloatArray:
    """Variables whose decays are spread evenly, on the logit scale, between about ``1 / n`` and 0.85."""
    low, high = -np.log(n), np.log(0.85 / 0.15)
    step = (high - low) / (2 * buffers - 1)
    return np.append(low, np.full(2 * buffers - 1, np.log(step)))


def optimise(n: int, start: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Minimises the worst error from a warm start and random perturbations of it.

    Args:
        n: Number of reads.
        start: Warm start.
        rng: Source of the perturbations.

    Returns:
        The best variables, and the share of starts that reached the same error.

    Raises:
        RuntimeError: If fewer than half of the starts agree on the minimum.
    """
    starts = [start] + [start + rng.normal(0.0, 0.2, start.size) for _ in range(RESTARTS)]
    found: list[tuple[float, FloatArray]] = []
    for x0 in starts:
        with np.errstate(all="ignore"):  # A line search may step out to where decays coincide; it then backs off.
            result = minimize(
                log_error, x0, args=(n,), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 2000}
            )
        if np.isfinite(result.fun):
            found.append((float(result.fun), np.asarray(result.x, dtype=np.float64)))
    best_value, best_x = min(found, key=lambda pair: pair[0])
    agreeing = sum(value - best_value < AGREEMENT for value, _ in found) / len(starts)
    if agreeing < 0.5:
        raise RuntimeError(f"n = {n}: only {agreeing:.0%} of the starts agree")
    return best_x, agreeing


def coefficients(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The poles ``theta`` (decreasing) and weights ``omega`` of ``C`` for given variables."""
    chain = decays(x)
    kappa, kappa_hat = chain[0::2], chain[1::2]
    to_poles = np.where(np.eye(kappa.size, dtype=bool), 1.0, kappa[None, :] - kappa[:, None])
    omega = (kappa_hat[None, :] - kappa[:, None]).prod(axis=1) / to_poles.prod(axis=1)
    return 1.0 - kappa, omega


def worst_error(theta: npt.ArrayLike, omega: npt.ArrayLike, n: int) -> float:
    """Error of the last of ``n`` reads, in units of sigma, for coefficients as they are stored."""
    rows = tuple(np.asarray(theta, dtype=float).tolist()), tuple(np.asarray(omega, dtype=float).tolist())
    return column_norm(*rows, n) * float(np.sqrt(read_variance(*prefix_modes(*rows), np.array([n]))[0]))


def square_root_error(n: int) -> float:
    """Worst error of the square-root factorisation, ``sum_{t < n} (binom(2t, t) / 4^t)^2``."""
    t = np.arange(1.0, n)
    return float(np.sum(np.append(1.0, np.cumprod(1.0 - 0.5 / t)) ** 2))


def main(path: Path) -> None:
    """Computes the table, prints it and writes it.

    Args:
        path: Output file.
    """
    rng = np.random.default_rng(SEED)
    begin = time.perf_counter()
    table: dict[str, dict[str, list[float] | float]] = {}
    x = first_guess(2 ** EXPONENTS[0], BUFFERS)
    print(f"{'n':>10} {'BLT error':>12} {'square root':>12} {'ratio':>8} {'agree':>6}")
    for exponent in EXPONENTS:
        n = 2**exponent
        x, agreeing = optimise(n, x, rng)
        theta, omega = coefficients(x)
        error = worst_error(theta, omega, n)
        table[str(n)] = {"theta": theta.tolist(), "omega": omega.tolist(), "error": error}
        root = square_root_error(n)
        print(f"{n:>10} {error:>12.6f} {root:>12.6f} {error / root:>8.4f} {agreeing:>6.0%}")
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path} after {time.perf_counter() - begin:.1f} s")

    n = 50_000  # No power of two: compare the two neighbours' coefficients with the best for this very n.
    for name in ("32768", "65536"):
        error = worst_error(table[name]["theta"], table[name]["omega"], n)
        print(f"n = {n}, coefficients of {name}: {error:.6f}")
    x, _ = optimise(n, first_guess(n, BUFFERS), rng)
    print(f"n = {n}, optimised for it: {worst_error(*coefficients(x), n):.6f}")
    print(f"n = {n}, square root: {square_root_error(n):.6f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TABLE)

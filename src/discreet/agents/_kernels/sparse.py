"""Most things never happen: posterior means of noisy counts, most of which are 0."""

import math

from numba import types

from discreet._jit import kernel

_ROOT2 = math.sqrt(2.0)
_ROOT2PI = math.sqrt(2.0 * math.pi)
#: posterior_mean(y, sigma, high, spike)
MEAN = types.float64(types.float64, types.float64, types.float64, types.float64)


@kernel(MEAN)
def posterior_mean(y, sigma, high, spike):
    """Returns the posterior mean of t from y ~ N(t, σ²), where t is 0 with probability ``spike``, else U[0, high]."""
    if high <= 0.0:
        return 0.0
    if sigma <= 0.0:
        return min(max(y, 0.0), high)
    low = -y / sigma
    top = (high - y) / sigma
    if low > 0.0:  # from the tail that is not rounded away
        mass = 0.5 * (math.erfc(low / _ROOT2) - math.erfc(top / _ROOT2))
    else:
        mass = 0.5 * (math.erfc(-top / _ROOT2) - math.erfc(-low / _ROOT2))
    if mass < 1e-300:
        return 0.0 if y < 0.5 * high else high
    mean = y + sigma * (math.exp(-0.5 * low * low) - math.exp(-0.5 * top * top)) / _ROOT2PI / mass
    mean = min(max(mean, 0.0), high)
    if spike <= 0.0:
        return mean
    odds = math.log(spike) - 0.5 * low * low - math.log(sigma * _ROOT2PI) - math.log((1.0 - spike) * mass / high)
    return mean / (1.0 + math.exp(min(odds, 700.0)))


@kernel()
def shrink(counts, total, std, spike, out):
    """Fills ``out`` with the posterior mean of each of ``counts`` (cells, n), which are at most ``total`` (cells,)."""
    for c in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            out[c, i] = posterior_mean(counts[c, i], std[c], total[c], spike)

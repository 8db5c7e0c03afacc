"""Compiled noise."""

from discreet._jit import kernel

_SIGNS = 48  # random bits taken from one draw in [0, 1), which has 53


@kernel()
def fill_laplace(rng, scale, out):
    """Fills ``out`` (n,) with Laplace(scale): an exponential of NumPy's ziggurat with a random sign."""
    left = 0
    bits = 0
    for i in range(out.size):
        if left == 0:
            bits = int(rng.random() * (1 << _SIGNS))
            left = _SIGNS
        e = scale * rng.standard_exponential()
        out[i] = e if bits & 1 else -e
        bits >>= 1
        left -= 1


@kernel()
def fill_laplace_rows(rng, scale, out):
    """Fills ``out`` (rows, n) row by row, as `fill_laplace` would each."""
    for i in range(out.shape[0]):
        fill_laplace(rng, scale, out[i])

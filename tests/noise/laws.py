"""What discrete noise must look like, and a test that tells when it does not."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import stats

from discreet.noise.tables import Law


@dataclass(frozen=True)
class Noise:
    """A discrete law; its probabilities in double precision, which no sample of 10^8 could tell from the exact ones."""

    kind: str
    parameter: Fraction

    def __str__(self):
        return f"{self.kind} {self.parameter}"

    @property
    def law(self):
        return getattr(Law, self.kind)(self.parameter)

    @cached_property
    def scale(self):
        return float(self.parameter) ** (0.5 if self.kind == "gaussian" else 1)

    @cached_property
    def heights(self):
        """f(0), f(1), …, for laws that are narrow enough to be listed."""
        x = np.arange(int(40 * self.scale) + 40)
        return np.exp(-((x / self.scale) ** 2) / 2 if self.kind == "gaussian" else -x / self.scale)

    def beyond(self, m):
        """P(x ≥ m) for m ≥ 1."""
        if self.kind == "laplace":
            q = -1 / self.scale
            return np.exp(np.asarray(m, float) * q) / (1 + np.exp(q))
        if self.scale > 3000:  # Euler–Maclaurin: the midpoint rule errs by less than 1e-8
            return stats.norm.sf((np.asarray(m, float) - 0.5) / self.scale)
        tails = np.append(np.cumsum(self.heights[::-1])[::-1], 0.0)
        return tails[np.minimum(m, tails.size - 1)] / (2 * tails[0] - 1)

    def statistic(self, x):
        """The sufficient statistic of the scale, its expectation and its variance for one sample."""
        z = np.abs(x / self.scale) ** (2 if self.kind == "gaussian" else 1)
        if self.scale > 3000:
            return z, 1.0, 2.0 if self.kind == "gaussian" else 1.0
        h = self.heights.copy()
        h[0] /= 2
        h /= h.sum()
        values = (np.arange(h.size) / self.scale) ** (2 if self.kind == "gaussian" else 1)
        mean = h @ values
        return z, mean, h @ (values - mean) ** 2

    def edges(self, n):
        """Integers that cut the positive side into parts of about equal probability, each with samples enough."""
        parts = min(16, int(n * self.beyond(1) / 20))
        levels = np.linspace(0, 1, parts + 1)[1:-1] if parts > 1 else []
        reach = 12.0 if self.kind == "gaussian" else 40.0
        found = {1}
        for level in levels:
            low, high = 1, int(reach * self.scale) + 40
            while low < high:  # the first m with few beyond
                middle = (low + high) // 2
                low, high = (low, middle) if self.beyond(middle) <= level * self.beyond(1) else (middle + 1, high)
            found.add(low)
        return np.array(sorted(found))


def suspicion(x, noise):
    """Returns a p-value: a bound on how often samples of exactly that law look as strange as these.

    It looks at how often each value (or range of values) comes, at the tail, at the scale's sufficient statistic, at
    what neighbours have to do with each other, and at the last digits.
    """
    n, found = x.size, []
    assert x.dtype == np.int64
    edges = noise.edges(n)
    upper = np.append(noise.beyond(edges), 0.0)
    positive = upper[:-1] - upper[1:]
    expected = np.concatenate([positive[::-1], [1 - 2 * upper[0]], positive])
    signed = np.concatenate([1 - edges[::-1], edges])  # … −e < x ≤ …
    cells = np.searchsorted(signed, x, side="right")
    seen = np.bincount(cells, minlength=expected.size)
    good = n * expected > 5
    seen = np.append(seen[good], n - seen[good].sum())
    wanted = np.append(n * expected[good], n * expected[~good].sum())
    if wanted[-1] < 5:
        seen, wanted = seen[:-1], wanted[:-1] * (n / wanted[:-1].sum())
        wanted *= seen.sum() / n
    if seen.size > 1:
        found.append(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), seen.size - 1))
    for sizes in (4.5, 3.5) if noise.kind == "gaussian" else (11.0, 8.0):
        cut = int(sizes * noise.scale) + 1
        found.append(stats.binomtest(int((np.abs(x) >= cut).sum()), n, min(1.0, 2 * float(noise.beyond(cut)))).pvalue)
    z, mean, variance = noise.statistic(x)
    if n * noise.beyond(1) > 1000:
        found.append(2 * stats.norm.sf(abs(z.mean() - mean) / np.sqrt(variance / n)))
        found.append(2 * stats.norm.sf(abs(x.mean()) / (x.std() / np.sqrt(n))))
    pairs = cells[: n // 2 * 2].reshape(-1, 2)
    wanted = (n // 2) * np.outer(expected, expected).ravel()
    seen = np.bincount(pairs[:, 0] * expected.size + pairs[:, 1], minlength=wanted.size)
    good = wanted > 5
    if good.sum() > 1:
        seen, wanted = np.append(seen[good], seen[~good].sum()), np.append(wanted[good], wanted[~good].sum())
        keep = wanted > 5
        found.append(stats.chi2.sf(((seen[keep] - wanted[keep]) ** 2 / wanted[keep]).sum(), keep.sum()))
    if noise.scale >= 1000:
        found.append(stats.chisquare(np.bincount(x & 15, minlength=16)).pvalue)
        real = x[x != 0]  # by symmetry the sign says nothing of the last digit
        found.append(stats.binomtest(int(((real & 1 == 1) ^ (real < 0)).sum()), real.size).pvalue)
    return min(1.0, min(found) * len(found))


LAWS = [
    *(Noise("gaussian", Fraction(v)) for v in (Fraction(1, 3), 10, 10**4, 10**6, 2**60, 2**110)),
    *(Noise("laplace", Fraction(t)) for t in (Fraction(2, 3), 3, 100, 1000, 2**30, 2**55)),
]

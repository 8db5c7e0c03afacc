"""Which noise is in which read: factorisations of the prefix-sum matrix, as public mathematics.

All sums here are one mechanism. With x_t the total of batch t and z_t fresh noise a coordinate, read t is

    y_t = Σ_{s ≤ t} x_s + Σ_{s ≤ t} B_{ts} z_s,       B lower triangular and invertible.

As B is invertible, the reads carry the same information as C x + z with C = B⁻¹A. Column s of C says how a user of
batch s enters it: the L1 and L2 sensitivities are those of the user's vector times the largest column norm of C. C is
lower triangular as well, so this holds for adaptively chosen x: what is read before batch t does not depend on batch
t.

The trees fit in: read t is the sum of nodes; exactly one of them is new (its noise is z_t), the others are those of an
earlier read, so row t of B is the row of that read plus a one at t. C then has ones where a batch lies in a node.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.errors import InvalidInput
from discreet.sums import blt, optimal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from discreet.noise import Distribution

__all__ = ["Batch", "Binary", "Factored", "Factorisation", "Optimal", "Smooth"]


class Factorisation(ABC):
    """B and C for a number of reads.

    Attributes:
        horizon: Number of reads at most.
        distribution: Of z; some factorisations are tuned to it.
    """

    name: ClassVar[str]
    distributions: ClassVar[tuple[Distribution, ...]] = ("laplace", "gaussian")

    def __init__(self, horizon: int, distribution: Distribution) -> None:
        self.horizon = horizon
        self.distribution: Distribution = distribution

    @property
    @abstractmethod
    def entries(self) -> tuple[float, int]:
        """(c, k): a column of C holds k entries of c at most: its L1 norm is ck at most, its L2 norm c√k."""

    @abstractmethod
    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns variances of noise for unit-variance z, and how often each counts.

        The tails at x of such noise, added up with these counts, bound the probability that any read's noise exceeds
        x: as a rule the reads' own variances and their numbers. For trees a variance is a number of nodes.
        """

    #: what `kernel` reads beside its state, (k, d)
    coefficients: NDArray[np.float64] = np.zeros((1, 1))

    @property
    @abstractmethod
    def kernel(self) -> Any:
        """The compiled recursion, an ``ADVANCE`` of `discreet.sums._kernels`."""

    @abstractmethod
    def start(self, size: int) -> dict[str, Any]:
        """Returns the state before the first read: ``reads``, the kernel's ``array``, and numbers."""

    def depths(self, state: dict[str, Any], reads: int) -> NDArray[np.int64]:
        """Moves on by ``reads`` reads and returns what the kernel must know about each, (reads,)."""
        state["reads"] += reads
        return np.zeros(reads, dtype=np.int64)

    def advance(self, state: dict[str, Any], z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Takes the fresh noise of the next read, (size,), and returns that read's whole noise, (size,)."""
        (depth,) = self.depths(state, 1)
        noise = np.empty(len(z))
        self.kernel(self.coefficients, depth, np.ascontiguousarray(z), state["array"], noise)
        return noise

    def advanced(self, state: dict[str, Any], z: NDArray[np.float64]) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """Returns the state after the next read, and that read's whole noise, (size,); ``state`` stays as it was."""
        after = {**state, "array": state["array"].copy()}
        return after, self.advance(after, z)

    def variance(self, read: int) -> float:
        """Returns the variance of the noise of one read (from 1) for unit-variance z."""
        raise NotImplementedError

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance of any read."""
        return float(self.spectrum()[0].max())

    def matrix(self) -> NDArray[np.float64]:
        """Returns B, (horizon, horizon)."""
        state = self.start(self.horizon)
        return np.array([self.advance(state, row).copy() for row in np.eye(self.horizon)])


class _Tree(Factorisation):
    """Read t has depth d_t: it is the last read of depth d_t − 1 plus one new node."""

    @property
    @abstractmethod
    def _deepest(self) -> int: ...

    @property
    def kernel(self) -> Any:
        from discreet.sums import _kernels

        return _kernels.advance_tree

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "array": np.zeros((self._deepest + 1, size))}


class Binary(_Tree):
    """The binary mechanism: read t sums one node for each bit of t.

    A batch lies in one node of each size 1, 2, 4, … ≤ T: in ⌊log₂T⌋ + 1 of them.

    References:
        Chan, Shi and Song (2011), Algorithm 2; PUCB, Algorithm 5.
    """

    name = "tree"

    @property
    def entries(self) -> tuple[float, int]:
        return 1.0, self.horizon.bit_length()  # ⌊log₂T⌋ + 1

    @property
    def _deepest(self) -> int:
        return self.horizon.bit_length()

    def depths(self, state: dict[str, Any], reads: int) -> NDArray[np.int64]:
        from discreet.sums import _kernels

        depths = np.empty(reads, dtype=np.int64)
        _kernels.binary_depths(state["reads"], depths)
        state["reads"] += reads
        return depths

    def variance(self, read: int) -> float:
        return float(read.bit_count())

    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        counts = np.zeros(self._deepest + 1)
        end, above = self.horizon + 1, 0  # numbers below end, by their highest bit that differs from end's
        for i in reversed(range(end.bit_length())):
            if end >> i & 1:
                counts[above : above + i + 1] += [math.comb(i, j) for j in range(i + 1)][: len(counts) - above]
                above += 1
        depths = np.flatnonzero(counts[1:]) + 1  # depth 0 is the number 0
        return depths.astype(np.float64), counts[depths]


class Smooth(_Tree):
    """The smooth binary mechanism: leaves are the words of z zeros and w ones, in order.

    Batch t is leaf t − 1, and the read after it sums the nodes to the left of leaf t: one for each 1 of its word,
    except the ones at its end, whose left neighbours are empty and need no noise. A batch lies in one node for each 0
    of its word. So the sensitivity is z, no read sums more than w nodes, and there must be T + 1 words; z and w are
    tuned for the
    distribution: least z·√w for Laplace, √z·√w for Gaussian noise.

    References:
        Andersson and Pagh (2023), A smooth binary mechanism for efficient private continual observation.
    """

    name = "smooth-tree"

    def __init__(self, horizon: int, distribution: Distribution) -> None:
        super().__init__(horizon, distribution)
        self.zeros, self.ones = min(self._shapes(), key=self._cost)

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """Yields, for each number of zeros, the smallest number of ones with enough words (of at most 63 bits)."""
        for z in range(1, 40):
            w = 1
            while math.comb(z + w, z) < self.horizon + 1:
                w += 1
                if z + w > 63:
                    break
            else:
                yield z, w

    def _cost(self, shape: tuple[int, int]) -> tuple[float, int]:
        z, w = shape
        return (z * z * w if self.distribution == "laplace" else z * w), z

    @property
    def entries(self) -> tuple[float, int]:
        return 1.0, self.zeros

    @property
    def _deepest(self) -> int:
        return self.ones

    def start(self, size: int) -> dict[str, Any]:
        return {**super().start(size), "word": (1 << self.ones) - 1}

    def depths(self, state: dict[str, Any], reads: int) -> NDArray[np.int64]:
        from discreet.sums import _kernels

        depths = np.empty(reads, dtype=np.int64)
        state["word"] = int(_kernels.smooth_depths(state["word"], self.ones, depths))
        state["reads"] += reads
        return depths

    def variance(self, read: int) -> float:
        return float(self._word_depth(read))

    def _word_depth(self, index: int) -> int:
        """Returns the depth of word ``index`` (from 0): how many ones it has before its last zero."""
        z, w, depth = self.zeros, self.ones, 0
        while z:
            first = math.comb(z - 1 + w, w)  # words that go on with a 0
            if index < first:
                z -= 1
            else:
                index -= first
                w -= 1
                depth += 1
        return depth

    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        counts = np.zeros(self.ones + 1)
        z, w, above, left = self.zeros, self.ones, 0, self.horizon + 1
        while z and left:
            first = math.comb(z - 1 + w, w)
            if left < first:
                z -= 1
                continue
            for depth in range(w + 1 if z > 1 else 1):  # all words that go on with a 0 here
                counts[above + depth] += math.comb(z - 2 + depth, depth) if z > 1 else 1
            left -= first
            w -= 1
            above += 1
        if left and not z:
            counts[above] += 1
        counts[0] -= 1  # word 0 stands for no read
        depths = np.flatnonzero(counts)
        return depths.astype(np.float64), counts[depths]


_AHEAD = 1024  # reads whose variances are computed at once


class _Modes(Factorisation):
    """Every coordinate has a few scalar recursions."""

    @property
    def kernel(self) -> Any:
        from discreet.sums import _kernels

        return _kernels.advance_modes

    def advanced(self, state: dict[str, Any], z: NDArray[np.float64]) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """Returns the state after the next read, and its noise; all of it changes, so nothing is copied first."""
        from discreet.sums import _kernels

        after, noise = {**state, "array": np.empty_like(state["array"])}, np.empty(len(z))
        self.depths(after, 1)
        _kernels.step_modes(self.coefficients, np.ascontiguousarray(z), state["array"], after["array"], noise)
        return after, noise


class Factored(_Modes):
    """A Toeplitz factorisation in its constant-memory form: 4 buffers a coordinate, Gaussian noise."""

    name = "factored"
    distributions = ("gaussian",)

    def __init__(self, horizon: int, distribution: Distribution) -> None:
        super().__init__(horizon, distribution)
        self._theta_omega = blt.coefficients(horizon)
        self._decays, self._weights = blt.prefix_modes(*self._theta_omega)
        self.coefficients = np.array([self._decays, self._weights])
        self._known: tuple[int, list[float]] = (0, [])

    @property
    def entries(self) -> tuple[float, int]:
        return blt.column_norm(*self._theta_omega, self.horizon), 1

    def variance(self, read: int) -> float:
        first = read - (read - 1) % _AHEAD
        if first != self._known[0]:  # every release asks for the next one
            reads = np.arange(first, first + _AHEAD)
            self._known = first, blt.read_variance(self._decays, self._weights, reads).tolist()
        return self._known[1][read - first]

    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ends = np.unique(np.geomspace(1, self.horizon, 2000).round().astype(np.int64))
        if self.horizon <= 5000:
            ends = np.arange(1, self.horizon + 1)
        variances = blt.read_variance(self._decays, self._weights, ends)  # grow with t: rounded up within a stretch
        return variances, np.diff(ends, prepend=0).astype(np.float64)

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "array": np.zeros((size, len(self._decays)))}


class Batch(_Modes):
    """Fresh noise for every batch, added up: read t has t of them. Best for few reads."""

    name = "batch"

    @property
    def entries(self) -> tuple[float, int]:
        return 1.0, 1

    def variance(self, read: int) -> float:
        return float(read)

    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        # Lévy: the largest of partial sums of symmetric terms exceeds x at most twice as often as the last one does
        if self.horizon > 2:
            return np.array([float(self.horizon)]), np.array([2.0])
        ends = np.arange(1, self.horizon + 1)
        return ends.astype(np.float64), np.diff(ends, prepend=0).astype(np.float64)

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "array": np.zeros((size, 1))}

    coefficients = np.array([[0.0], [1.0]])  # one mode that forgets nothing


class Optimal(Factorisation):
    """The least noise in all reads together, Gaussian; every read goes back to all draws: for few reads.

    References:
        `discreet.sums.optimal`.
    """

    name = "optimal"
    distributions = ("gaussian",)

    def __init__(self, horizon: int, distribution: Distribution) -> None:
        super().__init__(horizon, distribution)
        if horizon > optimal.MOST:
            raise InvalidInput(f"sum='optimal' is for up to {optimal.MOST} reads, got {horizon}; try factored")
        B, self._norm = optimal.prefix(horizon)
        self.coefficients = B.copy()

    @property
    def entries(self) -> tuple[float, int]:
        return self._norm, 1

    def variance(self, read: int) -> float:
        return float((self.coefficients[read - 1] ** 2).sum())

    def spectrum(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return (self.coefficients**2).sum(axis=1), np.ones(self.horizon)

    def start(self, size: int) -> dict[str, Any]:
        return {"reads": 0, "array": np.zeros((self.horizon, size))}

    def depths(self, state: dict[str, Any], reads: int) -> NDArray[np.int64]:
        first = state["reads"]
        state["reads"] += reads
        return np.arange(first, first + reads, dtype=np.int64)

    @property
    def kernel(self) -> Any:
        from discreet.sums import _kernels

        return _kernels.advance_dense

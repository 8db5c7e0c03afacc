"""What travels from users to the server. The types are the trust boundary.

A `Report` is what one user sends, a `Batch` what the server receives of many. Where the server is trusted, the report
is the raw statistic and its type says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AnswerBatch",
    "AnswerReport",
    "Batch",
    "BitsReport",
    "NoisyBatch",
    "NoisyReport",
    "RawBatch",
    "RawFeatureBatch",
    "RawFeatureReport",
    "RawReport",
    "Report",
    "SampledBatch",
    "SampledReport",
    "ShuffledBatch",
]


class Report:
    """What one user sends. Its representation never shows what is in it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: contents not shown>"


class Batch:
    """What the server receives of ``users`` users.

    Attributes:
        version: Which round of the server it belongs to, if a shuffler made it: nobody is counted in two.
    """

    users: int
    version: int | None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.users} users: contents not shown>"


@dataclass(frozen=True, eq=False, repr=False)
class RawReport(Report):
    """One user's exact contribution to the sums: personal data, for a trusted server only.

    Attributes:
        indices: The coordinates that the user touches, (n,).
        values: What the user adds to each, (n,).
    """

    indices: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class RawBatch(Batch):
    """The raw contributions of a batch, one row a user.

    Attributes:
        indices: (users, n).
        values: (users, n).
    """

    indices: NDArray[np.int64]
    values: NDArray[np.float64]
    version: int | None = None

    @property
    def users(self) -> int:  # type: ignore[override]
        """How many users the batch holds."""
        return len(self.indices)


@dataclass(frozen=True, eq=False, repr=False)
class RawFeatureReport(Report):
    """One user's features and targets at every step: personal data, for a trusted server only.

    Attributes:
        features: Reward features and value features, (H, d₂ + d₁).
        targets: Rewards and values of the next states, (H, 2).
    """

    features: NDArray[np.float64]
    targets: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class RawFeatureBatch(Batch):
    """The raw features and targets of a batch, one row a user.

    Attributes:
        features: (users, H, d₂ + d₁).
        targets: (users, H, 2).
    """

    features: NDArray[np.float64]
    targets: NDArray[np.float64]
    version: int | None = None

    @property
    def users(self) -> int:  # type: ignore[override]
        """How many users the batch holds."""
        return len(self.features)


@dataclass(frozen=True, eq=False, repr=False)
class NoisyReport(Report):
    """One user's whole vector with noise on every coordinate: locally private.

    Attributes:
        values: (size,).
    """

    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class NoisyBatch(Batch):
    """Locally private vectors, one row a user.

    Attributes:
        values: (users, size).
    """

    values: NDArray[np.float64]
    version: int | None = None

    @property
    def users(self) -> int:  # type: ignore[override]
        """How many users the batch holds."""
        return len(self.values)


@dataclass(frozen=True, eq=False, repr=False)
class SampledReport(Report):
    """What one user says about one step: locally private.

    Attributes:
        step: Which step; drawn independently of the data.
        support: Which values the randomised answer contains, (k,).
    """

    step: int
    support: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class SampledBatch(Batch):
    """Randomised answers, one row a user.

    Attributes:
        steps: (users,).
        support: (users, k).
    """

    steps: NDArray[np.int64]
    support: NDArray[np.bool_]
    version: int | None = None

    @property
    def users(self) -> int:  # type: ignore[override]
        """How many users the batch holds."""
        return len(self.steps)


@dataclass(frozen=True, eq=False, repr=False)
class AnswerReport(Report):
    """What one user answers to one question: locally private.

    Attributes:
        question: Its number; drawn independently of the data.
        support: Which values the randomised answer contains, (k,), with k that of the question with most answers.
    """

    question: int
    support: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class AnswerBatch(Batch):
    """Randomised answers, one row a user.

    Attributes:
        questions: (users,).
        support: (users, k).
    """

    questions: NDArray[np.int64]
    support: NDArray[np.bool_]
    version: int | None = None

    @property
    def users(self) -> int:  # type: ignore[override]
        """How many users the batch holds."""
        return len(self.questions)


@dataclass(frozen=True, eq=False, repr=False)
class BitsReport(Report):
    """One user's one-bit messages: as many for every counter, data and noise bits alike.

    Attributes:
        bits: (counters, messages).
    """

    bits: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class ShuffledBatch(Batch):
    """The messages of a batch, taken apart: for every counter a multiset of bits, and nothing that links two of them.

    A multiset of bits is its number of ones and its size.

    Attributes:
        ones: How many messages of each counter are 1, (counters,).
        messages: How many there are of each counter.
        users: How many users sent them.
    """

    ones: NDArray[np.int64]
    messages: int
    users: int
    version: int | None = None

"""Between the users and the server: who holds the reports of a batch, and what of them is handed on. NumPy only."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.noise import as_source
from discreet.privacy.messages import Batch, BitsReport, Report, ShuffledBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from discreet.noise import Source

__all__ = ["AnyShuffler", "BitShuffler", "Collector", "Shuffler", "check_reports"]

R = TypeVar("R", bound=Report)
B = TypeVar("B", bound=Batch)


class Shuffler(Generic[R, B]):
    """Holds the reports of a batch until it is complete, then hands them on.

    Attributes:
        reports: The reports in transit. The server never looks at them.
        uncollected: How many people played in a last batch that cannot be completed; nothing of theirs is kept.
        version: Which round of the server the reports are for, if it was told.
    """

    def __init__(self) -> None:
        self.reports: list[R] = []
        self.uncollected = 0
        self.version: int | None = None
        self._handed_on: weakref.WeakKeyDictionary[R, int] = weakref.WeakKeyDictionary()

    def begin(self, version: int, users: int, encoder: Any) -> None:
        """Is told, by a public plan, which batch comes next: its round, its size, and what its users run."""
        self.version = version

    def __call__(self, reports: Sequence[R], rng: Source | np.random.Generator) -> B:
        """Returns what the server receives of ``reports``."""
        raise NotImplementedError

    def _hand_on(self, reports: Sequence[R]) -> None:
        """Raises if a report was in the batch of an earlier round: whoever tries again must not count anybody twice.

        A batch of the current round may be made again.
        """
        if self.version is None:
            return
        if any(self._handed_on.get(report, self.version) != self.version for report in reports):
            raise InvalidInput("a report was handed on in an earlier round: nobody is counted twice")
        self._handed_on.update(dict.fromkeys(reports, self.version))

    def alone(self, report: R) -> B:
        """Returns a batch of one report, for checking it; where nobody may see one report, raises."""
        raise NotImplementedError


class Collector(Shuffler[R, B]):
    """Collects reports, in order: for a trusted server, or because each is private by itself.

    Args:
        report: The kind of reports.
        batch: The kind of batch, whose fields are the reports' fields, one row a user.
    """

    def __init__(self, report: type[R], batch: type[B]) -> None:
        super().__init__()
        self._report, self._batch = report, batch

    def __call__(self, reports: Sequence[R], rng: Source | np.random.Generator | None = None) -> B:
        """Returns the reports, one row each."""
        check_reports(reports, self._report)
        names = list(self._report.__dataclass_fields__)  # type: ignore[attr-defined]
        columns = {name: [getattr(report, name) for report in reports] for name in names}
        try:
            rows = [np.stack(columns[name]) for name in names]
        except ValueError:
            raise InvalidPersonalData("the reports of a batch must have the same shapes") from None
        self._hand_on(reports)
        return self._batch(*rows, version=self.version)  # type: ignore[call-arg]

    def alone(self, report: R) -> B:
        """Returns a batch of one report."""
        return self([report])


class BitShuffler(Shuffler[BitsReport, ShuffledBatch]):
    """Takes reports apart: a message keeps only its counter, and each counter's messages are permuted over all users.

    Permuting whole reports instead would not be private: what stays together tells whose it is. The noise is that of
    a whole batch, so it hands on nothing less: it knows from the public plan how many users there are and how many
    messages each sends, and refuses anything else.

    Attributes:
        users: Users of the batch.
        shape: Counters, and messages a user and counter.
    """

    def __init__(self, users: int, shape: tuple[int, int]) -> None:
        super().__init__()
        self.users, self.shape = users, shape

    def begin(self, version: int, users: int, encoder: Any) -> None:
        """Is told which batch comes next."""
        super().begin(version, users, encoder)
        self.users, self.shape = users, (encoder.size, encoder.messages)

    def mix(self, reports: Sequence[BitsReport], rng: Source | np.random.Generator) -> NDArray[np.bool_]:
        """Returns all messages, (counters, users·messages), each counter's in an order of its own.

        Raises:
            InvalidInput: If there are not as many reports as the batch has users.
            InvalidPersonalData: If a report has not as many messages as every user sends.
        """
        check_reports(reports, BitsReport)
        if len(reports) != self.users:
            raise InvalidInput(
                f"the noise of this batch is that of {self.users} users: a shuffler hands on no other number, "
                f"got {len(reports)}"
            )
        if len({id(report) for report in reports}) < len(reports):
            raise InvalidPersonalData("a report is in a batch once only")
        for report in reports:
            if report.bits.dtype != np.bool_ or report.bits.shape != self.shape:
                raise InvalidPersonalData(
                    f"a report must have {self.shape[1]} bits for each of {self.shape[0]} counters"
                )
        self._hand_on(reports)
        return as_source(rng).permuted(np.concatenate([report.bits for report in reports], axis=1))

    def __call__(self, reports: Sequence[BitsReport], rng: Source | np.random.Generator) -> ShuffledBatch:
        """Returns the multisets."""
        mixed = self.mix(reports, rng)
        return ShuffledBatch(mixed.sum(axis=1), mixed.shape[1], len(reports), version=self.version)

    def alone(self, report: BitsReport) -> ShuffledBatch:
        """Raises: nobody but the shuffler sees one report, and the shuffler checks it by itself."""
        raise InvalidInput("under Shuffle no server sees the report of one user")


def check_reports(reports: Sequence[Report], kind: type[Report]) -> None:
    """Raises unless there are reports, all of one kind; never shows one."""
    if len(reports) == 0:
        raise InvalidInput("a batch needs at least one report")
    for report in reports:
        if not isinstance(report, kind):
            raise TypeError(f"expected a {kind.__name__}, got {type(report).__name__}")


#: Of whatever reports.
AnyShuffler: TypeAlias = Shuffler[Any, Any]

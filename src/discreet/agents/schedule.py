"""When the policy changes: after public numbers of users, never depending on what they did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import InvalidInput, UnknownName, check_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """The sizes of the batches.

    Attributes:
        update_every: Users a batch; ``"geometric"`` makes every batch a fifth of the users so far, and at least 1.
    """

    update_every: int | str

    def __post_init__(self) -> None:
        if isinstance(self.update_every, str):
            if self.update_every != "geometric":
                raise UnknownName("update_every", self.update_every, ["geometric"])
        else:
            try:
                object.__setattr__(self, "update_every", check_integer("update_every", self.update_every))
            except InvalidInput as error:
                raise InvalidInput(f"{error}; or give 'geometric'") from None

    def batch_size(self, count: int) -> int:
        """Returns the size of the batch that begins after ``count`` users."""
        return max(1, count // 5) if isinstance(self.update_every, str) else self.update_every

    def ends(self, count: int, users: int) -> NDArray[np.int64]:
        """Returns after how many of the next ``users`` users each whole batch ends; a batch begins after ``count``."""
        if isinstance(self.update_every, int):
            return np.arange(self.update_every, users + 1, self.update_every, dtype=np.int64)
        ends, end = [], self.batch_size(count)
        while end <= users:
            ends.append(end)
            end += self.batch_size(count + end)
        return np.array(ends, dtype=np.int64)

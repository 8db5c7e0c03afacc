"""Progress on stderr: rate and time left; silent unless a person is looking."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["Board", "Progress", "Watch"]


class Progress:
    """A line that says how far a loop is.

    Args:
        title: What is going on.
        total: How many steps there are.
        show: Whether to show anything; nothing is shown in any case unless stderr is a terminal.
    """

    def __init__(self, title: str, total: int, *, show: bool) -> None:
        self._title, self._total = title, total
        self._show = show and sys.stderr.isatty()
        self._bar: Bars | None = None
        self._line: TaskID | None = None
        self._next = 0.0

    def __enter__(self) -> Progress:
        if self._show:
            from rich import progress
            from rich.console import Console

            class Rate(progress.ProgressColumn):
                def render(self, task: progress.Task) -> str:
                    return f"{task.speed:,.0f} episodes/s" if task.speed else ""

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.TaskProgressColumn(),
                Rate(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._line = self._bar.add_task(self._title, total=self._total)
        return self

    def update(self, done: int) -> None:
        """Says that ``done`` steps are done."""
        if self._bar is not None and self._line is not None and (done == self._total or time.monotonic() >= self._next):
            self._next = time.monotonic() + 0.05
            self._bar.update(self._line, completed=done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class Watch:
    """Calls somebody now and then with the number of steps done."""

    def __init__(self, call: Callable[[int], None], *, every: float = 0.2) -> None:
        self._call, self._every = call, every
        self._next = time.monotonic() + every

    def update(self, done: int) -> None:
        """Says that ``done`` steps are done."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            self._call(done)


class Board:
    """A line for every run in flight, and one for all, on stderr if that is a terminal.

    Args:
        titles: Of the runs.
        show: Whether to show anything.
    """

    def __init__(self, titles: Sequence[str], *, show: bool) -> None:
        self._titles = titles
        self._show = show and sys.stderr.isatty()
        self._bar: Bars | None = None
        self._lines: dict[int, TaskID] = {}
        self._whole: TaskID | None = None

    def __enter__(self) -> Board:
        if self._show:
            from rich import progress
            from rich.console import Console
            from rich.table import Column

            class Rate(progress.ProgressColumn):
                def get_table_column(self) -> Column:
                    return Column(no_wrap=True)

                def render(self, task: progress.Task) -> str:
                    regret = task.fields.get("regret")
                    rate = f"{task.speed:,.0f}/s" if task.speed and regret is not None else ""
                    return rate if regret is None else f"{rate} regret {regret:,.0f}"

            self._bar = progress.Progress(
                progress.TextColumn(
                    "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
                ),
                progress.BarColumn(bar_width=12),
                progress.TaskProgressColumn(),
                progress.TimeRemainingColumn(),
                Rate(),
                console=Console(stderr=True),
                transient=True,
                expand=True,
            )
            self._bar.start()
            self._whole = self._bar.add_task("runs", total=len(self._titles))
        return self

    def update(self, i: int, done: int, total: int, regret: float) -> None:
        """Says how far run ``i`` is."""
        if self._bar is not None:
            if i not in self._lines:
                self._lines[i] = self._bar.add_task(self._titles[i], total=total)
            self._bar.update(self._lines[i], completed=done, regret=regret)

    def finish(self, i: int) -> None:
        """Says that run ``i`` is over."""
        if self._bar is not None and self._whole is not None:
            if i in self._lines:
                self._bar.remove_task(self._lines.pop(i))
            self._bar.advance(self._whole)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

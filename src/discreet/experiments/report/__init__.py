"""One self-contained page about finished runs, and the table that a terminal shows of them."""

from discreet.experiments.report.page import page, write
from discreet.experiments.report.tables import table

__all__ = ["page", "table", "write"]

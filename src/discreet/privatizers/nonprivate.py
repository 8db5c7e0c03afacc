"""No privacy: raw reports, exact sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.privatizers.base import Collector, PrivateCounts, RawServer
from discreet.privatizers.encoders import RawEncoder
from discreet.privatizers.layout import Layout
from discreet.sums import ExactSum

if TYPE_CHECKING:
    from discreet.mdp import Spec
    from discreet.privacy import Guarantee

__all__ = ["NonPrivatePrivatizer"]


class NonPrivatePrivatizer(RawServer):
    """Counts exactly.

    Guarantee:
        None.
    """

    sum: ExactSum
    name, noise = "exact", "none"
    error = 0.0

    def __init__(
        self, spec: Spec, *, capacity: int, stationary: bool, guarantee: Guarantee, layout: Layout | None = None
    ) -> None:
        self.guarantee = guarantee
        self.layout = layout or Layout(spec, stationary)
        self.encoder = RawEncoder(self.layout)
        self.shuffler = Collector()
        self.sum = ExactSum(self.layout.size, capacity=capacity)

    def counts(self) -> PrivateCounts:
        """Returns the exact counts."""
        return PrivateCounts(*self.layout.split(self.sum.total.copy()))

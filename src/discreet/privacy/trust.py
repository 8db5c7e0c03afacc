"""Trust models: whom the users trust with what."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.privacy.guarantee import Guarantee

__all__ = ["NonPrivate", "TrustModel"]


class TrustModel:
    """Base class of the trust models."""


@dataclass(frozen=True)
class NonPrivate(TrustModel):
    """Everybody trusts everybody: exact sums, no noise.

    Guarantee:
        None at all. It is the baseline that private learners are measured against.
    """

    @property
    def guarantee(self) -> Guarantee:
        """The promise of notion ``"none"``."""
        return Guarantee("none", math.inf, 0.0, protects="nothing", noise="none")

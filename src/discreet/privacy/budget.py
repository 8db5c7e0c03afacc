"""What the user asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """A privacy budget (ε, δ); δ = 0 asks for pure differential privacy.

    Raises:
        ValueError: Naming the value, unless 0 < ε < ∞ and 0 ≤ δ < 1.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            try:
                if isinstance(value, bool):
                    raise TypeError
                object.__setattr__(self, name, float(value))
            except (TypeError, ValueError):
                raise InvalidInput(f"{name} must be a number, got {name}={value!r}") from None
        if not 0 < self.epsilon < math.inf:
            raise InvalidInput(f"epsilon must be positive and finite, got epsilon={self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must lie in [0, 1), got delta={self.delta!r}")

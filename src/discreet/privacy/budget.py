"""What the user asks for."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import InvalidInput

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """A privacy budget (ε, δ); δ = 0 asks for pure differential privacy.

    Raises:
        ValueError: Naming the value, unless 10⁻⁶ ≤ ε ≤ 10⁴ and δ is 0 or in [10⁻¹⁰⁰, 1): what the accountant covers.
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
        if not 1e-6 <= self.epsilon <= 1e4:  # NaN fails too
            raise InvalidInput(f"epsilon must lie in [1e-6, 1e4], got epsilon={self.epsilon!r}")
        if self.delta != 0 and not 1e-100 <= self.delta < 1:
            raise InvalidInput(f"delta must be 0 or lie in [1e-100, 1), got delta={self.delta!r}")

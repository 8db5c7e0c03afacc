"""What an agent does where nothing was said, and what it says where something must be."""

from __future__ import annotations

from discreet.errors import InvalidInput
from discreet.privacy import NonPrivate, Shuffle, TrustModel

__all__ = ["default_update", "no_trust", "trusted"]


def no_trust(name: str, privacy: object) -> InvalidInput:
    """Returns what is said of an agent that was given no trust model."""
    got = "" if privacy is None else f", got {type(privacy).__name__}"
    known = "Central(epsilon=1.0), Local(…), Shuffle(…) or NonPrivate()"
    return InvalidInput(f"{name} needs a trust model: privacy={known}{got}")


def trusted(name: str, privacy: TrustModel | None, *, private: bool) -> TrustModel:
    """Returns the trust model of an agent, which offers privacy or does not; raises if it cannot have it."""
    if privacy is None and not private:
        return NonPrivate()
    if not isinstance(privacy, TrustModel):
        raise no_trust(name, privacy)
    if not private and not isinstance(privacy, NonPrivate):
        from discreet import agents

        kind, others = type(privacy).__name__, [other for other in agents.NAMES if agents.is_private(other)]
        raise InvalidInput(
            f"{name} offers no privacy: privacy must be NonPrivate(), got {kind}; private agents are "
            f"{', '.join(others)}"
        )
    return privacy


def default_update(privacy: TrustModel | None, episodes: int) -> int:
    """Returns how many users a batch has by default: 1; under `Shuffle` a hundredth of all, and at most 500.

    A shuffled batch of n users needs the same noise in total whatever n is: small batches cost messages and noise.
    """
    return max(1, min(500, episodes // 100)) if isinstance(privacy, Shuffle) else 1

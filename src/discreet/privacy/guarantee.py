"""What the accountant proves for the object that was built."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from discreet.errors import InvalidInput, Unproven, check_integer

__all__ = ["REWARDS_ONLY", "Guarantee"]

#: What has to be said wherever a guarantee protects rewards and nothing else.
REWARDS_ONLY = "rewards only: states and actions are not protected"
_MOST = 1e9  # of an ε or a μ: what events can hold


@dataclass(frozen=True)
class Guarantee:
    """A proven promise to every user; never a paper's claim.

    Attributes:
        notion: What is differentially private: the joint view of all other users, every user's own report
            (local), the shuffled batches, or nothing.
        epsilon: The proven ε (infinite if nothing is promised).
        delta: The proven δ.
        unit: Whose data may change: one user, that is one whole episode.
        protects: Which part of it may change.
        relation: How neighbouring inputs differ.
        noise: ``"fast"`` noise is for simulation and never for release; ``"secure"`` noise is for release;
            ``"none"`` if there is no noise at all.
        assumptions: What else must hold.
        events: The mechanism's privacy events that ``epsilon`` and ``delta`` were computed from.
    """

    notion: Literal["joint", "local", "shuffle", "none"]
    epsilon: float
    delta: float
    unit: str = "user"
    protects: Literal["trajectory", "rewards", "nothing"] = "trajectory"
    relation: str = "replace-one"
    noise: Literal["fast", "secure", "none"] = "fast"
    assumptions: tuple[str, ...] = ()
    events: Any = None

    def group(self, size: int) -> Guarantee:
        """Returns the guarantee of a person with ``size`` episodes among the users.

        The episodes are replaced one after the other. On every history each step adds at most its ε to the loss of a
        pure part, and turns kμ-GDP of a Gaussian part into (k+1)μ-GDP. So pure losses and the μ of Gaussian ones grow
        ``size``-fold, also where both occur; δ stays and ε follows. The factors of discrete noise (`NearEvent`) grow
        ``size``-fold as well.

        Where the events do not say how they grow, as under `Shuffle`, or there are none, every step multiplies the
        probabilities by e^ε and adds δ: the group has (kε, δ·(e^{kε} − 1)/(e^ε − 1)). Here δ grows too.

        Raises:
            Unproven: If the group is so large that nothing is left of the guarantee.

        References:
            Dong, Roth and Su (2022), Section 2, on group privacy; Dwork and Roth (2014), Theorem 2.2, for the rest.
        """
        from discreet.privacy import accounting

        k = check_integer("size", size)
        if k == 1 or self.notion == "none":
            return self
        event = self._grown(k)
        delta = event.delta if isinstance(event, accounting.ApproximateEvent) else self.delta
        known = re.fullmatch(r"group of (\d+) (\w+)s", self.unit)
        members, unit = (int(known[1]), known[2]) if known else (1, self.unit)
        unit = f"group of {k * members} {unit}s"
        return replace(self, epsilon=accounting.epsilon(event, delta), delta=delta, unit=unit, events=event)

    def _grown(self, k: int) -> Any:
        """Returns the event of a group of ``k``."""
        from discreet.privacy import accounting, discrete

        near = self.events if isinstance(self.events, discrete.NearEvent) else None
        try:
            mu2, pure = accounting.losses(self.events if near is None else near.event)
        except Unproven:
            return self._approximate(k)
        mu, pure = k * math.sqrt(mu2), k * pure
        if not max(mu, pure) <= _MOST:
            raise Unproven(f"nothing is left of this guarantee for a group of {k}")
        parts = [accounting.gaussian(1 / mu)] if mu else []
        parts += [accounting.laplace(1 / pure)] if pure else []
        event = accounting.compose(*parts)
        return event if near is None else near.grown(event, k)

    def _approximate(self, k: int) -> Any:
        """Returns the event of a group of ``k`` of which only ε and δ are known."""
        from discreet.privacy import accounting

        delta = self.delta
        if delta > 0:  # δ·Σ_{j<k} e^{jε}, by its logarithm: it may be far beyond 1
            log = math.log(k)
            if self.epsilon > 0:
                log = (k - 1) * self.epsilon + math.log(math.expm1(-k * self.epsilon) / math.expm1(-self.epsilon))
            log += math.log(delta)
            delta = math.exp(min(log, 0.0)) * (1 + 1e-12)
        if not (k * self.epsilon <= _MOST and delta < 1):
            raise Unproven(f"nothing is left of this guarantee for a group of {k}")
        return accounting.ApproximateEvent(k * self.epsilon * (1 + 1e-15), delta)

    def __post_init__(self) -> None:
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):  # NaN fails too
            raise InvalidInput(f"no guarantee has epsilon={self.epsilon!r}, delta={self.delta!r}")

    def __str__(self) -> str:
        if self.notion == "none":
            return "no privacy: the agent learns from raw data and protects nobody"
        caveat = " (fast noise: simulation only)" if self.noise == "fast" else ""
        whose = f"{self.relation} {self.unit}"
        if self.protects == "rewards":
            whose += f", {REWARDS_ONLY}"
        return f"{self.notion} DP, ε = {self.epsilon:.4g}, δ = {self.delta:.3g}, {whose}{caveat}"

    @property
    def label(self) -> str:
        """A few words for a legend."""
        if self.notion == "none":
            return "no privacy"
        return f"{self.notion} ε = {self.epsilon:.3g}" + (", rewards only" if self.protects == "rewards" else "")

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold; an infinite ε becomes None."""
        return {
            "notion": self.notion,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "unit": self.unit,
            "protects": self.protects,
            "relation": self.relation,
            "noise": self.noise,
            "assumptions": list(self.assumptions),
        }

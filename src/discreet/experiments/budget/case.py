"""What a budget report is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet import agents
from discreet.errors import InvalidInput
from discreet.privacy import NonPrivate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.agents.base import LearningAgent
    from discreet.experiments.configs import Value
    from discreet.mdp import Spec
    from discreet.privacy import TrustModel

__all__ = ["Case", "lines_of"]


@dataclass(frozen=True)
class Case:
    """An agent, a trust model and sizes.

    Attributes:
        title: What the sizes are those of.
        spec: The sizes.
        privacy: The trust model as it was asked for; None if ε follows from the options.
        agent: The agent's name.
        episodes: Number of people.
        options: All that the noise depends on, and what else was said.
    """

    title: str
    spec: Spec
    privacy: TrustModel | None
    agent: str
    episodes: int
    options: Mapping[str, Value]

    def build(self, **changes: Value) -> LearningAgent:
        """Returns the agent; nobody has met it."""
        if isinstance(self.privacy, NonPrivate):
            raise InvalidInput("there is no budget without privacy: got the trust model none")
        options = {**self.options, **changes}
        return agents.make(self.agent, self.spec, episodes=self.episodes, privacy=self.privacy, seed=0, **options)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes, as JSON can hold them."""
        return {"states": self.spec.states, "actions": self.spec.actions, "horizon": self.spec.horizon}

    @property
    def sizes_in_words(self) -> str:
        """The sizes, for people to read."""
        return f"{self.title}: {self.spec.states} states, {self.spec.actions} actions, horizon {self.spec.horizon}"


def lines_of(facts: Mapping[str, str], width: int = 12) -> list[str]:
    """Returns facts, a line each."""
    return [f"{key:{width}} {value}" for key, value in facts.items()]

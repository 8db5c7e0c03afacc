"""What a run was asked for and what is known of it, as JSON holds it: the types of a store's documents."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from discreet.registry.options import Value

__all__ = ["Host", "Labels", "Promised", "RunConfig", "Value"]


class RunConfig(TypedDict):
    """All that the numbers of one run depend on.

    Attributes:
        env: The environment, as it is written.
        env_parameters: Its parameters, if they are not in ``env``.
        agent: The agent's name.
        trust: The trust model's name.
        privacy: What the trust model is asked for.
        options: What else the agent gets.
        episodes: People.
        resolved: What became of all that was left open: the agent, its options, the sum and its noise.
        seed: ``[S, i]``, of the agent and of the people.
        alpha: Which gaps count as suboptimal.
    """

    env: str
    env_parameters: NotRequired[dict[str, Value]]
    agent: str
    trust: str
    privacy: NotRequired[dict[str, Value]]
    options: NotRequired[dict[str, Value]]
    episodes: int
    resolved: NotRequired[dict[str, Value]]
    seed: list[int]
    alpha: NotRequired[list[float]]


class Promised(TypedDict):
    """What was proven, as `Guarantee.to_dict` says it; an infinite ε is None."""

    notion: str
    epsilon: float | None
    delta: float
    unit: str
    protects: str
    relation: str
    noise: str
    assumptions: list[str]


class Host(TypedDict, total=False):
    """Where a run was done, and on what: nothing about who did it."""

    node: str
    platform: str
    machine: str
    cpus: int | None
    python: str
    packages: dict[str, str]


class Labels(TypedDict):
    """What tells a run from other runs, one plain value each; all seeds of one ``setting`` share it.

    What a trust model and an agent were asked for is JSON; ``seed`` is a text, because it may have 128 bits.
    """

    key: str
    setting: str
    env: str
    agent: str
    options: str
    trust: str
    privacy: str
    epsilon_requested: float | None
    delta_requested: float | None
    epsilon_proven: float | None
    delta_proven: float | None
    seed: str
    run: int

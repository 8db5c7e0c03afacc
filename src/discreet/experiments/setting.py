"""One setting: an environment, an agent, a trust model, and what they are asked for. Its runs differ in their seeds."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet import agents, envs
from discreet.errors import check_integer
from discreet.privacy import trust
from discreet.privacy.trust import options as trust_options
from discreet.registry.options import Option, Value, union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discreet.agents.base import LearningAgent
    from discreet.experiments.configs import RunConfig
    from discreet.mdp import FiniteMDP
    from discreet.privacy import Guarantee

__all__ = ["Setting", "asked", "build", "keys", "text"]


def keys() -> dict[str, Option]:
    """Returns all that a setting can say: what trust models and agents take, and what there is besides."""
    names = {"env": str, "agent": str, "trust": str}
    first = {name: Option(name, None, (kind,)) for name, kind in names.items()}
    last = {"episodes": Option("episodes", 5000, (int,))}
    return union([first, trust_options(), agents.table(), last])


def asked(given: Mapping[str, Value]) -> tuple[str, dict[str, Value], dict[str, Value]]:
    """Returns the trust model's name, what it is asked for and what the agent is, out of all that was said.

    Private agents have a trusted server unless something else is said, and ε is 1. There is no budget if ε follows
    from a noise scale: δ then goes with that.
    """
    agent = str(given["agent"])
    privacy = {key: given[key] for key in trust_options() if key in given}
    options = {key: given[key] for key in agents.table() if key in given and key not in privacy}
    name = str(given.get("trust", "central" if agents.is_private(agent) else "none"))
    if name == "central" and "epsilon" not in given and agents.epsilon_follows(options):
        return name, {}, {**options, **privacy}
    if name != "none":
        privacy.setdefault("epsilon", 1.0)
    return name, privacy, options


@dataclass(frozen=True)
class Setting:
    """What some runs have in common.

    Attributes:
        env: The environment, as it is written.
        agent: The agent's name.
        trust: The trust model's name.
        privacy: What the trust model is asked for.
        options: What else the agent gets.
        episodes: People a run.
        resolved: What became of all that was left open: the agent, its options, the sum and its noise.
        guarantee: What is proven for every run.
        identity: The same for settings that come to the same, however they are written.
    """

    env: str
    agent: str
    trust: str
    privacy: dict[str, Value]
    options: dict[str, Value]
    episodes: int
    resolved: dict[str, Value]
    guarantee: Guarantee
    identity: str

    @classmethod
    def make(cls, given: Mapping[str, Value]) -> Setting:
        """Builds an agent once, so that whatever is wrong with what was asked for is said now."""
        name, privacy, options = asked(given)
        episodes = check_integer("episodes", given.get("episodes", 5000))
        env, agent = str(given["env"]), str(given["agent"])
        mdp, made = build(
            {
                "env": env,
                "agent": agent,
                "trust": name,
                "privacy": privacy,
                "options": options,
                "episodes": episodes,
                "seed": [0, 0],
            }
        )
        model = hashlib.sha256(pickle.dumps(mdp)).hexdigest()
        identity = f"{model} {made.resolved} {made.options.get('privacy')} {episodes}"
        return cls(env, agent, name, privacy, options, episodes, made.resolved, made.guarantee, identity)

    def config(self, seed: list[int], alpha: list[float]) -> RunConfig:
        """Returns the whole configuration of one run: all that its numbers depend on."""
        return {
            "env": self.env,
            "agent": self.agent,
            "trust": self.trust,
            "privacy": self.privacy,
            "options": self.options,
            "episodes": self.episodes,
            "resolved": self.resolved,
            "seed": seed,
            "alpha": alpha,
        }

    @property
    def text(self) -> str:
        """In one line, for people."""
        return text(self.config([0, 0], []))


def build(config: RunConfig) -> tuple[FiniteMDP, LearningAgent]:
    """Returns the environment and a new agent of one run."""
    mdp = envs.read(config["env"])
    budgeted = config["privacy"] or config["trust"] == "none"  # else ε follows from the options
    privacy = trust(config["trust"], **config["privacy"]) if budgeted else None
    return mdp, agents.make(
        config["agent"],
        mdp.spec,
        episodes=config["episodes"],
        privacy=privacy,
        seed=config["seed"],
        **config["options"],
    )


def text(config: RunConfig) -> str:
    """Returns a configuration in one line, for people: what it is, and what is not left to its default."""
    parts = [config["agent"], config["env"]]
    parts += [config["trust"]] + [f"{key} {value}" for key, value in config["privacy"].items()]
    parts += [f"{key.replace('_', ' ')} {json.dumps(value)}" for key, value in config["options"].items()]
    return ", ".join(parts)

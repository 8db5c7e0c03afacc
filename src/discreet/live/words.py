"""What a statement says in plain words. All of it follows from the guarantee and the configuration."""

from __future__ import annotations

import decimal
import math
from typing import TYPE_CHECKING

from discreet.privacy.guarantee import REWARDS_ONLY

if TYPE_CHECKING:
    from discreet.live.config import Config
    from discreet.privacy import Guarantee

__all__ = ["not_checked", "not_covered", "promise", "rounded_up", "trusted"]

_SEEN = {
    "joint": "everything that leaves the server: all releases, all plans, and the policies that other people are given",
    "local": "the report that leaves a person's device",
    "shuffle": "everything that leaves the shuffler: mixed batches, and the releases, plans and policies made of them",
}


def rounded_up(value: float, digits: int) -> str:
    """Returns a number for people to read: what is promised is never rounded down."""
    exact = decimal.Decimal(repr(value))
    return f"{float(decimal.Context(digits, decimal.ROUND_CEILING).plus(exact)):.{digits}g}"


def promise(guarantee: Guarantee, config: Config) -> list[str]:
    """Returns what is promised to whom."""
    if guarantee.notion == "none":
        return ["Nothing is promised to anybody: this deployment learns from raw data, in simulation."]
    k = config.episodes_per_person
    whom = "one episode" if k == 1 else f"at most {k} episodes"
    data = "rewards" if guarantee.protects == "rewards" else "states, actions and rewards"
    factor = rounded_up(math.exp(min(guarantee.epsilon, 700.0)), 4)
    but = f", but for a probability of δ = {rounded_up(guarantee.delta, 3)}" if guarantee.delta else ""
    said = [
        f"The promise is made to every person of this deployment. A person has {whom} in it.",
        f"Take {_SEEN[guarantee.notion]}. Replace all data of one person ({data}) by any other data, or by those of "
        f"somebody who stayed away. Then nothing that can be seen there becomes more than e^ε = {factor} times as "
        f"likely{but}. Here ε = {rounded_up(guarantee.epsilon, 6)}.",
        "So whoever sees all of that, and knows everything about everybody else, still learns little about this "
        f"person: their odds for any guess change by a factor of {factor} at most{but}.",
    ]
    if guarantee.notion == "joint":
        said.append("What a person is shown may depend on their own data; it is what others see that is protected.")
    if guarantee.protects == "rewards":
        said.append(f"It protects {REWARDS_ONLY}.")
    if guarantee.noise == "fast":
        said.insert(0, "This is a simulation. Its noise may not be relied on, and no real person may be in it.")
    return said


def trusted(guarantee: Guarantee) -> list[str]:
    """Returns whom a person has to trust, and with what."""
    return {
        "none": ["Everybody is trusted with everything."],
        "joint": [
            "The server and whoever runs it are trusted: they see raw reports until the batch is released, and keep "
            "raw totals and the noise that hides them.",
            "They are trusted to run the mechanism of this statement, with noise from the operating system.",
        ],
        "local": [
            "Nobody else is trusted. Noise is added on the person's own device, which must run the encoder of this "
            "deployment.",
        ],
        "shuffle": [
            "The shuffler is trusted to mix the messages of a whole batch, to hand on nothing less, and to fill the "
            "slots of absent people with noise. It must not work together with the server, and its database is never "
            "restored from a backup.",
            "The stated share of the people of a batch is trusted to add its noise.",
        ],
    }[guarantee.notion]


def not_covered(guarantee: Guarantee, config: Config) -> list[str]:
    """Returns what the guarantee does not speak of."""
    raw = {
        "none": "The database: it holds everything.",
        "joint": "The database and its backups: they hold raw reports until their batch is released, and raw totals, "
        "noise and keys until the end.",
        "local": "The database and its backups: they hold the reports, which are private, and keys.",
        "shuffle": "The databases of server and shuffler, and their backups: they hold who used which slot until its "
        "batch is closed, and keys.",
    }[guarantee.notion]
    said = [
        raw,
        "That and when somebody starts an episode: slots are given out in that order.",
        "When, how fast and from where requests come: the logs of proxies, networks and operating systems.",
        "How many reports have come in, and other numbers of running the service.",
        "What the app itself keeps of its people, and what it does with the policies.",
        "What is true of a person because it is true of everybody: that is what is learned.",
    ]
    if config.timing == "public":
        said.insert(2, "Whether and when people report: batches close when all have reported.")
    if guarantee.protects == "rewards":
        said.insert(0, "States and actions: only rewards are protected.")
    return said


def not_checked(guarantee: Guarantee) -> list[str]:
    """Returns what nobody can tell from a statement."""
    said = [
        "That the software that ran was this mechanism, and that it added its noise.",
        "That the hashes are those of what was really shown, unless the releases are compared with them.",
        "That the assumptions hold.",
        "That nothing else was released about these people.",
    ]
    return said if guarantee.notion != "none" else said[1:2]

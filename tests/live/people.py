"""A small world, deployments in it, and people who come, report or stay away."""

from __future__ import annotations

import numpy as np

import discreet as dc
from discreet import live

MDP = dc.envs.riverswim(states=3, horizon=4)
WORLD = {"states": 3, "actions": 2, "horizon": 4, "initial": [1.0, 0.0, 0.0]}
#: One of every kind of question: agent, slots, options, trust model.
KINDS = {
    "discreet-vi central": (
        "discreet-vi",
        180,
        {"update_every": 60},
        {"trust": "central", "epsilon": 3.0, "delta": 1e-5},
    ),
    "discreet-vi local": ("discreet-vi", 80, {"update_every": 20}, {"trust": "local", "epsilon": 3.0}),
    "discreet-vi shuffle": (
        "discreet-vi",
        80,
        {"update_every": 40},
        {"trust": "shuffle", "epsilon": 3.0, "delta": 1e-4},
    ),
    "auto": ("auto", 200, {}, {"trust": "central", "epsilon": 3.0, "delta": 1e-5}),
    "dp-ucbvi": ("dp-ucbvi", 40, {"update_every": 5}, {"trust": "central", "epsilon": 1.0}),
    "pucb mr": ("pucb", 40, {"update_every": 5}, {"trust": "central", "epsilon": 1.0, "release": "mr"}),
    "laplace": ("dp-ucbvi", 40, {"update_every": 5}, {"trust": "local", "epsilon": 2.0, "sum": "laplace"}),
    "gaussian": (
        "dp-ucbvi",
        40,
        {"update_every": 5},
        {"trust": "local", "epsilon": 2.0, "delta": 1e-5, "sum": "gaussian"},
    ),
    "sampled": ("private-ucb-vi", 40, {"update_every": 5}, {"trust": "local", "epsilon": 2.0, "sum": "sampled"}),
    "binomial": ("dp-ucbvi", 60, {"update_every": 20}, {"trust": "shuffle", "epsilon": 2.0, "delta": 1e-4}),
    "sdp-pe shuffle": ("sdp-pe", 150, {"stationary": True}, {"trust": "shuffle", "epsilon": 3.0, "delta": 1e-4}),
    "sdp-pe central": ("sdp-pe", 150, {}, {"trust": "central", "epsilon": 3.0, "delta": 1e-4}),
    "linopt-vi": ("linopt-vi", 20, {"update_every": 5}, {"trust": "central", "epsilon": 5.0, "delta": 1e-5}),
    "linopt-po local": ("linopt-po", 20, {"update_every": 5}, {"trust": "local", "epsilon": 5.0, "delta": 1e-5}),
}


def config(kind="dp-ucbvi", **more):
    """Returns the configuration of a deployment of that kind."""
    agent, episodes, options, privacy = KINDS[kind]
    world = "riverswim:states=3,horizon=4" if agent.startswith("linopt") else WORLD
    found = {
        "name": "steps",
        "world": world,
        "agent": {"name": agent, "episodes": episodes, **options},
        "privacy": dict(privacy),
        "report_within": 10,
    }
    privacy = more.pop("privacy", {})
    agent = more.pop("agent", {})
    found["privacy"] |= privacy
    found["agent"] |= agent
    return {**found, **more}


def deploy(kind="dp-ucbvi", url="memory:", **more):
    """Returns a new deployment that began at time 0; under Shuffle with a shuffler of its own."""
    found = live.create(url, config(kind, **more), now=0.0)
    if found.config.privacy["trust"] == "shuffle":
        found.shuffler = live.Shuffler("memory:", found.terms)
    return found


def send(deployment, ticket, report, now):
    """Sends a report to whom the ticket says."""
    if ticket.report_to == "shuffler":
        return deployment.shuffler.report(ticket.token, report)
    return deployment.report(ticket.token, report, now=now)


class Crowd:
    """People who come one after the other; some stay away after they have started."""

    def __init__(self, deployment, seed=0, absent=(), mdp=MDP):
        self.deployment, self.rng, self.absent, self.mdp = deployment, np.random.default_rng(seed), set(absent), mdp
        self.now, self.k, self.sent = 0.0, 0, []

    def one(self):
        """Somebody starts, plays, and reports unless they stay away."""
        ticket = self.deployment.start(person=f"person {self.k}", now=self.now)
        trajectory = self.mdp.sample(ticket.policy, self.rng)
        if ticket.collected and self.k not in self.absent:
            report = ticket.encoder.encode(trajectory)
            assert send(self.deployment, ticket, report, self.now) == "recorded"
            self.sent.append((ticket.version, ticket.slot, report))
        self.k += 1
        self.now += 0.001
        return ticket

    def fill(self):
        """A whole batch starts; returns its tickets."""
        return [self.one() for _ in range(self.deployment.plan().size)]

    def batch(self):
        """A whole batch starts, its time passes, and it is closed; returns the versions that were released."""
        self.fill()
        self.now += 11
        return self.deployment.close_due(now=self.now)

    def all(self):
        """Everybody comes."""
        while self.deployment.state == "open":
            self.batch()
        return self


def shut(deployment):
    """Leaves the databases."""
    if deployment.shuffler is not None:
        deployment.shuffler.shut()
    deployment.close()

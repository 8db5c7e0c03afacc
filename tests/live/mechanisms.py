"""Every mechanism that a deployment accepts, on worlds so small that building one takes no time."""

from __future__ import annotations

SMALL = {"states": 2, "actions": 2, "horizon": 2}
LINEAR = "linear_mixture:states=3,actions=2,horizon=2,d=2,successors=2"
CENTRAL = {"trust": "central", "epsilon": 1.0}
GAUSSIAN = {**CENTRAL, "delta": 1e-5}
LOCAL = {"trust": "local", "epsilon": 1.0}
SHUFFLE = {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-5}


def config(agent="dp-ucbvi", privacy=GAUSSIAN, *, name="steps", world=SMALL, episodes=40, **more):
    """Returns a configuration; what is left over are options of the agent, or keys of the top."""
    top = ("episodes_per_person", "timing", "anonymous", "population", "window", "simulation", "seed")
    given = {key: more.pop(key) for key in top if key in more}
    own = {"update_every": 10} if agent == "dp-ucbvi" else {}
    asked = {"name": agent, "episodes": episodes, **own, **more}
    return {"name": name, "world": world, "agent": asked, "privacy": dict(privacy), **given}


MECHANISMS = {
    "tree, laplace": config(privacy={**CENTRAL, "sum": "tree"}),
    "tree, gaussian": config(privacy={**GAUSSIAN, "sum": "tree"}),
    "smooth-tree, laplace": config(privacy={**CENTRAL, "sum": "smooth-tree"}),
    "smooth-tree, gaussian": config(privacy={**GAUSSIAN, "sum": "smooth-tree"}),
    "factored": config(privacy={**GAUSSIAN, "sum": "factored"}),
    "optimal": config(privacy={**GAUSSIAN, "sum": "optimal"}),
    "batch, laplace": config(privacy={**CENTRAL, "sum": "batch"}),
    "batch, gaussian": config(privacy={**GAUSSIAN, "sum": "batch"}),
    "printed noise": config(privacy={**CENTRAL, "sum": "tree", "calibration": "paper"}),
    "mr": config(privacy={**GAUSSIAN, "release": "mr"}),
    "pooled": config(privacy=GAUSSIAN, stationary=True),
    "a batch for each": config("private-ucb-vi", CENTRAL, update_every=1, episodes=12),
    "weighted": config("discreet-vi", GAUSSIAN, update_every=10),
    "weighted, pooled": config("discreet-vi", GAUSSIAN, stationary=True, update_every=10),
    "auto": config("auto", GAUSSIAN, episodes=200),
    "local laplace": config(privacy={**LOCAL, "sum": "laplace"}),
    "local gaussian": config(privacy={**LOCAL, "delta": 1e-5, "sum": "gaussian"}),
    "sampled": config(privacy={**LOCAL, "sum": "sampled"}),
    "sampled, unary": config(privacy={**LOCAL, "sum": "sampled", "randomiser": "unary"}),
    "questions": config("discreet-vi", LOCAL),
    "questions, response": config("discreet-vi", {**LOCAL, "randomiser": "response"}),
    "binomial": config(privacy=SHUFFLE),
    "binomial, mr": config(privacy={**SHUFFLE, "release": "mr"}),
    "binomial, some honest": config(privacy={**SHUFFLE, "honest_fraction": 0.7}),
    "first visits": config("discreet-vi", SHUFFLE),
    "first visits, some honest": config("discreet-vi", {**SHUFFLE, "honest_fraction": 0.7}),
    "sdp-pe, central": config("sdp-pe", GAUSSIAN, episodes=60),
    "sdp-pe, laplace": config("sdp-pe", CENTRAL, episodes=60),
    "sdp-pe, shuffle": config("sdp-pe", SHUFFLE, episodes=60),
    "linear, central": config("linopt-vi", GAUSSIAN, world={"env": LINEAR}, update_every=10),
    "linear, local": config("linopt-po", {**LOCAL, "delta": 1e-5}, world={"env": LINEAR}, update_every=10),
    "three episodes, gaussian": config(privacy=GAUSSIAN, episodes_per_person=3),
    "three episodes, laplace": config(privacy=CENTRAL, episodes_per_person=3),
    "three episodes, local": config(privacy={**LOCAL, "sum": "sampled"}, episodes_per_person=3),
    "three episodes, shuffle": config(privacy=SHUFFLE, episodes_per_person=3),
    "public timing": config(privacy=GAUSSIAN, timing="public", anonymous=True),
}

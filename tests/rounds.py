"""Every agent under every trust model, small, and rounds of it by hand."""

from __future__ import annotations

import functools

import numpy as np

import discreet as dc
from discreet.noise.fast import FastSource

SWIM = dc.envs.riverswim(states=3, horizon=4)
TINY = dc.envs.riverswim(states=2, horizon=2)
LINEAR = dc.envs.make("linear_mixture", states=4, actions=2, horizon=3, d=2, seed=1)
CENTRAL, LOCAL, SHUFFLE = dc.Central(2.0, 1e-4), dc.Local(2.0, 1e-4), dc.Shuffle(2.0, 1e-3)
MODELS = {"none": dc.NonPrivate(), "central": CENTRAL, "local": LOCAL, "shuffle": SHUFFLE}
SUMS = {
    "laplace tree": dc.Central(2.0, sum="tree"),
    "tree": dc.Central(2.0, 1e-4, sum="tree"),
    "smooth": dc.Central(2.0, 1e-4, sum="smooth-tree"),
    "factored mr": dc.Central(2.0, 1e-4, sum="factored", release="mr"),
    "optimal": dc.Central(2.0, 1e-4, sum="optimal"),
    "batch": dc.Central(2.0, sum="batch"),
    "local laplace": dc.Local(2.0, sum="laplace"),
    "local gaussian": dc.Local(2.0, 1e-4, sum="gaussian"),
    "local sampled": dc.Local(2.0, sum="sampled"),
    "shuffle mr": dc.Shuffle(2.0, 1e-3, release="mr"),
}


def _cases():
    small = {"episodes": 20, "update_every": 4}
    yield "ucbvi", SWIM, "ucbvi", small
    yield "ubev", SWIM, "ubev", small
    for name in ("pucb", "dp-ucbvi", "private-ucb-vi", "private-ucb-po"):
        for model, privacy in {**MODELS, **(SUMS if name == "dp-ucbvi" else {})}.items():
            yield f"{name} {model}", SWIM, name, {**small, "privacy": privacy}
    for accounting in ("tight", "individual"):
        yield f"rlsvi {accounting}", SWIM, "rlsvi", {**small, "privacy": CENTRAL, "accounting": accounting}
    for model in ("none", "central", "shuffle"):
        yield f"sdp-pe {model}", TINY, "sdp-pe", {"episodes": 60, "privacy": MODELS[model]}
    for model, privacy in MODELS.items():
        options = {"episodes": 60, "update_every": 12, "stationary": True, "privacy": privacy}
        yield f"discreet-vi {model}", SWIM, "discreet-vi", options
    for name in ("linopt-vi", "linopt-po"):
        for model in ("none", "central", "local"):
            yield f"{name} {model}", LINEAR, name, {**small, "privacy": MODELS[model]}


#: Name → environment, agent and options.
CASES = {case: (mdp, name, options) for case, mdp, name, options in _cases()}
#: Those whose server draws noise.
DRAWING = [
    case
    for case, (_, name, options) in CASES.items()
    if isinstance(options.get("privacy"), dc.Central) or name == "rlsvi"
]


def build(case, **more):
    """Returns a new agent of a case."""
    mdp, name, options = CASES[case]
    return dc.agents.make(name, mdp.spec, **{"seed": 0, **options, **more})


@functools.cache
def guarantee(case):
    """Returns what is proven for a case, by an agent that met nobody."""
    return build(case).guarantee


class Hand:
    """A live loop, written by hand: people play what the plan says, encode, and the reports of a batch are mixed."""

    def __init__(self, case, agent, seed=1):
        self.mdp, self.agent = CASES[case][0], agent
        self.people, self.noise = np.random.default_rng(seed), FastSource(np.random.default_rng(seed + 1))
        self.batches, self.reports = [], []

    def batch(self):
        """Returns the next batch."""
        plan = self.agent.plan
        people = [self.mdp.sample(plan.policy(slot), self.people) for slot in range(plan.size)]
        self.reports.append([plan.encoder.encode(person, self.noise) for person in people])
        self.batches.append(self.agent.shuffler(self.reports[-1], self.noise))
        return self.batches[-1]


def fingerprint(agent):
    """Returns all that may change at a server, as text: what it keeps, its plan, its books, its generators."""
    private = agent.privatizer
    sources = [source.mark() for source in agent.sources.values()]
    last = plain(vars(private.last)) if private.last else None
    books = (plain(private.reveal()), private.count, private.version, last)
    return repr((books, agent.plan.hash, agent.rng.bit_generator.state, sources))


def plain(value):
    """Returns numbers, text and lists of them."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes().hex())
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return [plain(getattr(value, name)) for name in value.__dataclass_fields__]
    return repr(value)

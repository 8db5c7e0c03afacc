"""Every mechanism, small: four batches of three people each."""

from __future__ import annotations

import numpy as np

import discreet as dc
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.make import make
from discreet.privatizers.values.serve import PerturbedTables
from discreet.privatizers.weighted.layout import WeightedLayout
from tests import linear

BATCHES = (3, 3, 3, 3)
TABLES = dc.envs.riverswim(states=3, horizon=4)
LINEAR = linear.world(np.random.default_rng(0), states=3, actions=2, horizon=4)


def _counts(privacy, **options):
    given = {"capacity": sum(BATCHES), "batches": BATCHES, "stationary": False, **options}
    return lambda: make("counts", TABLES.spec, privacy, **given)


def _staged(privacy):
    spec = TABLES.spec
    layouts = [Layout(spec, False, layer=h, rewards=False) for h in (0, 2)] + [Layout(spec, False)] * 2
    return lambda: make("staged", spec, privacy, batches=BATCHES, layouts=layouts)


def _weighted(privacy):
    return lambda: make("weighted", WeightedLayout(TABLES.spec, steps=0.5), privacy, capacity=12, horizon=4)


def _features(privacy):
    given = {"feature_bound": 7.0, "capacity": 12, "batches": BATCHES, "failure": 0.05}
    return lambda: make("features", LINEAR.spec, privacy, **given)


def _values(budget):
    def promise(scale, filtered):  # as private as its noise is large: what is proven has tests of its own
        epsilon = 1 / scale
        return dc.privacy.Guarantee("joint", epsilon, 1e-6, protects="rewards")

    given = {"capacity": 12, "releases": 4, "stationary": False, "scale": 1.0, "promise": promise, "budget": budget}
    return lambda: PerturbedTables(TABLES.spec, **given)


#: What builds each.
MECHANISMS = {
    "exact": _counts(dc.NonPrivate()),
    "central laplace": _counts(dc.Central(1.0, sum="tree")),
    "central gaussian": _counts(dc.Central(1.0, 1e-6, sum="factored")),
    "central mr": _counts(dc.Central(1.0, 1e-6, sum="batch", release="mr"), stationary=True),
    "noisy laplace": _counts(dc.Local(1.0, sum="laplace")),
    "noisy gaussian": _counts(dc.Local(1.0, 1e-6, sum="gaussian"), stationary=True),
    "sampled subset": _counts(dc.Local(1.0, sum="sampled", randomiser="subset")),
    "sampled unary": _counts(dc.Local(1.0, sum="sampled", randomiser="unary"), stationary=True),
    "questions": lambda: make(
        "questions", TABLES.spec, dc.Local(1.0, randomiser="subset"), capacity=12, stationary=True, failure=0.05
    ),
    "shuffled": _counts(dc.Shuffle(1.0, 1e-3)),
    "first visits": lambda: make("first_visits", TABLES.spec, dc.Shuffle(1.0, 1e-3), batches=BATCHES, stationary=True),
    "staged exact": _staged(dc.NonPrivate()),
    "staged central": _staged(dc.Central(1.0, 1e-6)),
    "staged shuffled": _staged(dc.Shuffle(1.0, 1e-3)),
    "exact weighted": _weighted(dc.NonPrivate()),
    "central weighted": _weighted(dc.Central(1.0, 1e-6)),
    "exact features": _features(dc.NonPrivate()),
    "central features": _features(dc.Central(1.0, 1e-6, sum="tree")),
    "noisy features": _features(dc.Local(1.0, 1e-6)),
    "values": _values(None),
    "filtered values": _values(2.0),
}
#: Those whose server draws noise.
DRAWING = tuple(name for name in MECHANISMS if "central" in name or "values" in name)
SHUFFLED = tuple(name for name in MECHANISMS if "shuffled" in name or "first visits" in name)
PRIVATE = tuple(name for name in MECHANISMS if "exact" not in name)


def people(name, rng, number):
    """People of the world that a mechanism is for."""
    world = LINEAR if "features" in name else TABLES
    policy = np.zeros((world.horizon, world.states), dtype=np.int64)
    return [world.sample(policy, rng) for _ in range(number)]

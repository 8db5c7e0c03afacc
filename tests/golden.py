"""What must not change by accident: hashes of everything that a run computes, for every agent under every trust model.

    python -m tests.golden            # compare with tests/golden.json and name what differs
    python -m tests.golden --write    # renew it; the commit says what changed and why

Floats are rounded to 36 bits before they are hashed: another processor may differ in the last ones.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np

import discreet as dc

FILE = Path(__file__).with_suffix(".json")
SEEDS = (0, 1)
#: Sums that every agent on counts takes, by name.
COUNTS = {
    "none": dc.NonPrivate(),
    "tree-laplace": dc.Central(1.0, sum="tree"),
    "tree-paper": dc.Central(1.0, sum="tree", calibration="paper"),
    "tree-gaussian": dc.Central(1.0, 1e-6, sum="tree"),
    "smooth-laplace": dc.Central(1.0, sum="smooth-tree"),
    "smooth-gaussian": dc.Central(1.0, 1e-6, sum="smooth-tree"),
    "factored": dc.Central(1.0, 1e-6, sum="factored"),
    "factored-mr": dc.Central(1.0, 1e-6, sum="factored", release="mr"),
    "optimal": dc.Central(1.0, 1e-6, sum="optimal"),
    "batch-laplace": dc.Central(1.0, sum="batch"),
    "batch-gaussian": dc.Central(1.0, 1e-6, sum="batch"),
    "auto": dc.Central(2.0, 1e-5),
    "local-laplace": dc.Local(2.0, sum="laplace"),
    "local-paper": dc.Local(2.0, sum="laplace", calibration="paper"),
    "local-gaussian": dc.Local(2.0, 1e-6, sum="gaussian"),
    "local-sampled": dc.Local(2.0, sum="sampled"),
    "shuffle": dc.Shuffle(2.0, 1e-4),
    "shuffle-mr": dc.Shuffle(2.0, 1e-4, release="mr"),
    "shuffle-paper": dc.Shuffle(2.0, 1e-4, calibration="paper"),
}


def cases():  # noqa: C901 - a list
    """Yields (name, environment, agent, episodes, options)."""
    swim = dc.envs.riverswim(states=3, horizon=4)
    for stationary in (False, True):
        pooled = "pooled" if stationary else "steps"
        given = {"stationary": stationary}
        for agent in ("ucbvi", "ubev"):
            yield f"{agent} {pooled}", swim, agent, 60, given
        for agent in ("dp-ucbvi", "pucb", "private-ucb-vi", "private-ucb-po"):
            names = (
                COUNTS if agent == "dp-ucbvi" else ("none", "tree-laplace", "factored-mr", "local-sampled", "shuffle")
            )
            for name in names:
                for every in (
                    (1, "geometric") if name not in ("optimal", *(n for n in COUNTS if "shuffle" in n)) else (10,)
                ):
                    options = {**given, "privacy": COUNTS[name], "update_every": every}
                    yield f"{agent} {pooled} {name} every {every}", swim, agent, 60, options
            yield (
                f"{agent} {pooled} theory",
                swim,
                agent,
                60,
                {**given, "privacy": COUNTS["tree-laplace"], "preset": "theory"},
            )
        for accounting in ("tight", "individual"):
            options = {**given, "privacy": dc.Central(1.0, 1e-6), "accounting": accounting, "update_every": 3}
            yield f"rlsvi {pooled} {accounting}", swim, "rlsvi", 60, options
        for name in ("none", "batch-gaussian", "batch-laplace", "shuffle", "shuffle-mr"):
            yield f"sdp-pe {pooled} {name}", swim, "sdp-pe", 400, {**given, "privacy": COUNTS[name]}
        for name, privacy in {
            "none": dc.NonPrivate(),
            "central": dc.Central(3.0, 1e-5),
            "factored": dc.Central(3.0, 1e-5, sum="factored"),
            "local": dc.Local(3.0),
            "local unary": dc.Local(3.0, randomiser="unary"),
            "shuffle": dc.Shuffle(3.0, 1e-4),
        }.items():
            for every in (None, 50):
                options = {**given, "privacy": privacy, "update_every": every}
                yield f"discreet-vi {pooled} {name} every {every}", swim, "discreet-vi", 1500, options
        yield f"auto {pooled} central", swim, "auto", 1500, {**given, "privacy": dc.Central(3.0, 1e-5)}
        yield f"auto {pooled} pure", swim, "auto", 300, {**given, "privacy": dc.Central(3.0)}
    yield "discreet-vi unshared", swim, "discreet-vi", 1500, {"privacy": dc.Central(3.0, 1e-5), "share_steps": False}
    yield "rlsvi paper", swim, "rlsvi", 60, {"privacy": dc.Central(1.0, 1e-6), "accounting": "paper"}
    yield "rlsvi scale", swim, "rlsvi", 60, {"noise_scale": 0.1, "delta": 1e-6}
    linear = dc.envs.make("linear_mixture", states=5, actions=2, horizon=3, d=3, seed=1)
    for agent in ("linopt-vi", "linopt-po"):
        for name, privacy in {
            "none": dc.NonPrivate(),
            "tree": dc.Central(5.0, 1e-5, sum="tree"),
            "paper": dc.Central(5.0, 1e-5, sum="tree", calibration="paper"),
            "factored": dc.Central(5.0, 1e-5, sum="factored"),
            "local": dc.Local(5.0, 1e-5),
        }.items():
            yield f"{agent} {name}", linear, agent, 40, {"privacy": privacy, "update_every": 4}
        yield f"{agent} table", swim, agent, 40, {"privacy": dc.Central(5.0, 1e-5), "update_every": 5}


def rounded(values):
    """Returns an array as it is hashed."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return np.ascontiguousarray(array)
    mantissa, exponent = np.frexp(array + 0.0)
    return np.ldexp(np.round(mantissa * 2**36), exponent)


def plain(value):
    """Returns numbers, text and lists of them; arrays become what `rounded` makes of them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic | float):
        return rounded(value).tolist()
    return value


def digest(*values):
    """Returns a short hash."""
    text = json.dumps([plain(value) for value in values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def released(found):
    """Returns the numbers of a release, by the names that planners know."""
    names = (
        *("visits", "transitions", "rewards", "values", "reward_gram", "reward_vector", "value_gram", "value_vector"),
        *("asked", "cells", "blocks", "error"),
    )
    numbers = {name: getattr(found, name) for name in names if hasattr(found, name)}
    if "error" not in numbers:
        numbers["error"] = getattr(found, "regulariser", found.std)
    return numbers


def scales(agent):
    """Returns how much noise was calibrated, and the bound on its error."""
    private = agent.mechanism
    return {name: getattr(private, name) for name in ("fresh_std", "worst_std", "error") if hasattr(private, name)}


def seen(mdp, agent, episodes, seed, block):
    """Plays everybody in two goes, with a stop within a batch; returns what came of it."""
    releases = []
    agent.on_release = lambda counts, policy, count: releases.append(digest(released(counts), policy, count))
    first = episodes // 2 + 1
    gaps = [dc.simulate(agent, mdp, first, seed, block=block).gaps]
    asked = json.loads(agent.encoder.to_json())
    gaps.append(dc.simulate(agent, mdp, episodes - first, seed, block=block).gaps)
    return {
        "gaps": digest(np.concatenate(gaps)),
        "policy": digest(agent.policy),
        "releases": digest(releases),
        "encoder": digest(asked),
        "guarantee": digest(agent.guarantee.to_dict()),
        "scales": digest(scales(agent)),
    }


def resumed(mdp, name, episodes, options, seed):
    """Plays in two goes with a saved file between them; returns the gaps."""
    agent = dc.agents.make(name, mdp.spec, episodes=episodes, seed=seed, **options)
    first = episodes // 2 + 1
    gaps = [dc.simulate(agent, mdp, first, seed).gaps]
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent")
        agent = dc.agents.load(Path(folder) / "agent")
    gaps.append(dc.simulate(agent, mdp, episodes - first, seed).gaps)
    return digest(np.concatenate(gaps), agent.policy)


def compute(wanted=lambda case: True):
    """Returns all hashes of the cases with these names."""
    found = {}
    for case, mdp, name, episodes, options in cases():
        if not wanted(case):
            continue
        for seed in SEEDS:
            for path, block in (("fast", True), ("protocol", False)):
                agent = dc.agents.make(name, mdp.spec, episodes=episodes, seed=seed, **options)
                for what, value in seen(mdp, agent, episodes, seed, block).items():
                    found[f"{case} | {path} | {what} | {seed}"] = value
        found[f"{case} | saved"] = resumed(mdp, name, episodes, options, 0)
    return found


def run_keys():
    """Returns the identities of stored runs: what resuming a sweep rests on."""
    from discreet.experiments.records import run_key
    from discreet.experiments.sweep import Sweep

    table = {
        "env": "riverswim:states=3,horizon=4",
        "episodes": 60,
        "runs": 1,
        "setting": [
            {"agent": "ucbvi"},
            {"agent": ["dp-ucbvi", "pucb"], "epsilon": [1, 3], "delta": [0.0, 1e-6], "stationary": [True, False]},
            {"agent": "dp-ucbvi", "trust": "local", "epsilon": 2},
            {"agent": "dp-ucbvi", "trust": "shuffle", "epsilon": 2, "delta": 1e-4, "update_every": 10},
            {"agent": "rlsvi", "noise_scale": 0.1, "delta": 1e-6},
            {"agent": "auto", "epsilon": 2, "delta": 1e-5},
        ],
    }
    return {f"run key | {i}": run_key(config) for i, config in enumerate(Sweep.make(table).configs)}


def compact(found):
    """Returns one hash a case and what, of all seeds: what is kept in the file."""
    kept: dict[str, list[str]] = {}
    for key, value in found.items():
        kept.setdefault(" | ".join(key.split(" | ")[:3]), []).append(value)
    return {key: digest(*values) if len(values) > 1 else values[0] for key, values in kept.items()}


def main():
    now = {**compact(compute()), **run_keys()}
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(now, indent=0, sort_keys=True) + "\n")
        return
    kept = json.loads(FILE.read_text())
    for key in sorted(kept.keys() | now.keys()):
        if kept.get(key) != now.get(key):
            print(key)  # noqa: T201


if __name__ == "__main__":
    main()

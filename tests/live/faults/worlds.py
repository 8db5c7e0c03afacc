"""Small deployments for fault tests, one for each trust model, and what a report adds to their totals, in integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.mdp import Trajectory
from discreet.privatizers.codec import from_json, from_wire, to_wire

__all__ = ["SLOTS", "TRUSTS", "WITHIN", "config", "noise_of", "people_in", "report_of", "total_of", "units"]

SLOTS = 6  #: Of a batch.
WITHIN = 100.0  #: Seconds in which a report is taken, by the clock that tests turn.
BATCHES = 400  #: More than any campaign closes.
#: A sum of each kind whose totals can be told from outside: noise of the server, of the device, and bits.
TRUSTS: dict[str, dict[str, Any]] = {
    "central": {"trust": "central", "epsilon": 1.0, "sum": "batch"},
    "local": {"trust": "local", "epsilon": 1.0, "sum": "laplace"},
    "shuffle": {"trust": "shuffle", "epsilon": 4.0, "delta": 1e-4},
}


def config(trust: str, name: str = "steps", **more: Any) -> dict[str, Any]:
    """Returns the configuration of a deployment; under Local a person may have two slots."""
    return {
        "name": name,
        "world": {"states": 2, "actions": 2, "horizon": 2, "initial": [0.5, 0.5]},
        "agent": {"name": "dp-ucbvi", "episodes": SLOTS * BATCHES, "update_every": SLOTS},
        "privacy": TRUSTS[trust],
        "report_within": WITHIN,
        "episodes_per_person": 2 if trust == "local" else 1,
        **more,
    }


def report_of(encoder: str, rng: np.random.Generator) -> tuple[str, list[float]]:
    """Plays an episode and returns its report and its rewards, which nobody else has."""
    rewards = (rng.integers(1, 2**20, size=2) / 2.0**20).tolist()
    states = rng.integers(0, 2, size=3)
    trajectory = Trajectory(states, rng.integers(0, 2, size=2), np.array(rewards))
    return to_wire(from_json(encoder).encode(trajectory)), rewards


def units(trust: str, mechanism: Any, encoder: str, text: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns what a report adds to the totals, in whole units."""
    known: Any = from_json(encoder)
    report: Any = from_wire(text, known)
    if trust == "shuffle":
        found: np.ndarray[Any, np.dtype[np.int64]] = report.bits.sum(axis=1, dtype=np.int64)
        return found
    if trust == "local":
        return np.ldexp(report.values, known.exact.bits).astype(np.int64)
    vector = np.zeros(mechanism.sum.size, dtype=np.int64)
    np.add.at(vector, report.indices, np.ldexp(report.values, mechanism.sum.bits).astype(np.int64))
    return vector


def total_of(trust: str, mechanism: Any, kept: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the raw totals that a server keeps, in whole units."""
    if trust == "shuffle":
        return np.asarray(kept.ones).astype(np.int64)
    if trust == "local":
        return np.ldexp(kept[1], mechanism.encoder.exact.bits).astype(np.int64)
    return np.asarray(kept.total)


def people_in(trust: str, kept: Any) -> int:
    """Returns how many people are in the totals: under Local those who reported, else all who had a slot."""
    found: int = kept.batch * SLOTS if trust == "shuffle" else kept[0] if trust == "local" else kept.users
    return found


def noise_of(trust: str, mechanism: Any, kept: Any, released: Any) -> tuple[Any, Any]:
    """Returns the noise in a release as it is recovered from the raw totals, and as the server keeps it."""
    counts = (released.visits, released.transitions, released.rewards)
    shown = np.concatenate([part.ravel() for part in counts])
    if trust == "central":
        recovered = np.ldexp(shown, mechanism.sum.bits).astype(np.int64) - kept.total
        return recovered, kept.noise["array"]
    expected = mechanism.released(kept, None)[1]  # devices drew the noise: the server adds none
    parts = (expected.visits, expected.transitions, expected.rewards)
    return shown, np.concatenate([part.ravel() for part in parts])

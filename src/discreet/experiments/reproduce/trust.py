"""``trust``: one learner at one ε under every trust model."""

from __future__ import annotations

from discreet.experiments.reproduce.experiment import Experiment

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    "trust",
    "What trust costs: one learner at one ε under every trust model",
    "DP-UCBVI on RiverSwim, pooled counts, an update every 500 people (50 in a quick look): without privacy, and at "
    "ε = 3 (δ = 1e-6) with a trusted server, with a trusted shuffler, and with nobody trusted.",
    {
        "env": "riverswim:states=6,horizon=20",
        "agent": "dp-ucbvi",
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "stationary": True,
        "update_every": 500,
        "setting": [
            {"trust": "none"},
            {"trust": ["central", "shuffle", "local"], "epsilon": 3, "delta": 1e-6},
        ],
    },
    {"episodes": 5_000, "runs": 2, "update_every": 50},
)

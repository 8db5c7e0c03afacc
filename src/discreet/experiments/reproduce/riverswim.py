"""``riverswim``: what the printed noise promises, what a true ε costs, and our best."""

from __future__ import annotations

from discreet.experiments.reproduce.experiment import LAPLACE, TREE, Experiment

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    "riverswim",
    "RiverSwim: what the printed noise promises, what a true ε costs, and our best",
    "The experiment of DP-UCBVI (Qiao and Wang 2023): RiverSwim with 6 states and horizon 20, pooled counts. Printed "
    "noise is what the paper prints, labelled with the ε that it really gives; sound noise is the same mechanism at a "
    "proven ε; our best is what auto chooses at the same ε, with δ = 1e-6 in the central model. Where a curve stays "
    "with the line of acting at random, the learner does not learn.",
    {
        "env": "riverswim:states=6,horizon=20",
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "stationary": True,
        "setting": [
            {"agent": "ucbvi"},
            {**TREE, "calibration": ["paper", "sound"], "epsilon": [1, 3, 10]},
            {"agent": "auto", "trust": "central", "delta": 1e-6, "epsilon": [1, 3, 10]},
            {**LAPLACE, "calibration": ["paper", "sound"], "epsilon": [1, 3, 10]},
            {"agent": "auto", "trust": "local", "epsilon": [1, 3, 10]},
        ],
    },
    {
        "episodes": 3_000,
        "runs": 2,
        "setting": [
            {"agent": "ucbvi"},
            {**TREE, "calibration": ["paper", "sound"], "epsilon": 10},
            {"agent": "auto", "trust": "central", "delta": 1e-6, "epsilon": 10},
            {"agent": "auto", "trust": "local", "epsilon": 10},
        ],
    },
)

"""Published experiments, end to end: a declared sweep and a look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import UnknownName
from discreet.experiments.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from discreet.experiments.plot import Runs

__all__ = ["EXPERIMENTS", "Experiment", "experiment"]


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes:
        name: What `discreet reproduce` calls it.
        title: In one line.
        text: What it shows and how to read it, for the report.
        full: The sweep, as `Sweep.make` takes it.
        quick: What changes for a first look.
        draw: Draws its figures into a directory and returns them by caption; None draws regret.
    """

    name: str
    title: str
    text: str
    full: dict[str, Any]
    quick: dict[str, Any]
    draw: Callable[[Runs, Path], dict[str, Path]] | None = None

    def sweep(self, *, quick: bool) -> Sweep:
        """Returns the declared sweep."""
        return Sweep.make({"name": self.name, **self.full, **(self.quick if quick else {})})


_RIVERSWIM = Experiment(
    "riverswim",
    "RiverSwim: what the printed noise promises, what a true ε costs, and our best",
    "The experiment of DP-UCBVI (Qiao and Wang 2023): RiverSwim with 6 states and horizon 20, pooled counts. Printed "
    "noise is what the paper prints, labelled with the ε that it really gives; sound noise is the same mechanism at a "
    "proven ε; our best takes better sums and fewer updates at the same ε, with δ = 1e-6 in the central model. Where a "
    "curve stays with the line of acting at random, the learner does not learn.",
    {
        "env": "riverswim:states=6,horizon=20",
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "stationary": True,
        "setting": [
            {"agent": "ucbvi"},
            {"agent": "dp-ucbvi", "trust": "central", "sum": "tree", "calibration": "paper", "epsilon": [1, 10]},
            {"agent": "dp-ucbvi", "trust": "central", "sum": "tree", "epsilon": [1, 10]},
            {"agent": "auto", "trust": "central", "delta": 1e-6, "epsilon": [1, 10]},
            {"agent": "dp-ucbvi", "trust": "local", "sum": "laplace", "calibration": "paper", "epsilon": [1, 10]},
            {"agent": "auto", "trust": "local", "epsilon": [1, 10]},
        ],
    },
    {
        "episodes": 3_000,
        "runs": 2,
        "setting": [
            {"agent": "ucbvi"},
            {"agent": "dp-ucbvi", "trust": "central", "sum": "tree", "calibration": "paper", "epsilon": 10},
            {"agent": "dp-ucbvi", "trust": "central", "sum": "tree", "epsilon": 10},
            {"agent": "auto", "trust": "central", "delta": 1e-6, "epsilon": 10},
            {"agent": "auto", "trust": "local", "epsilon": 10},
        ],
    },
)

_TRUST = Experiment(
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

_ALPHAS = (0.03, 0.05, 0.08, 0.12, 0.17)  # the construction needs α ≤ H/28


def _pac_envs(alphas: tuple[float, ...]) -> list[str]:
    """The instances of the lower bound: arms that are 14α/H apart (PUCB, Section 6.2)."""
    return [f"hard:horizon=5,gap={14 * alpha / 5:.6g}" for alpha in alphas]


def _draw_pac(results: Runs, directory: Path) -> dict[str, Path]:
    from discreet.experiments import pac

    return pac.draw(results, directory)


_PAC = Experiment(
    "pac",
    "PUCB on the hard class: suboptimal episodes beside the bounds",
    "For every α the instance of the lower bound, whose arms are 14α/H apart: how many episodes are more than α below "
    "the optimum. The bounds are drawn with constants 1 and without hidden logarithms: compare slopes, not heights.",
    {
        "env": _pac_envs(_ALPHAS),
        "agent": "pucb",
        "trust": "central",
        "epsilon": [0.3, 1, 3, 10],
        "episodes": 200_000,
        "runs": 20,
        "seed": 0,
        "stationary": True,
        "update_every": "geometric",
        "alpha": list(_ALPHAS),
    },
    {"env": _pac_envs(_ALPHAS[::2]), "epsilon": [1, 10], "episodes": 20_000, "runs": 3},
    _draw_pac,
)


def _linear_env(d: int) -> str:
    return f"linear_mixture:d={d}"  # 50 states, 4 actions, horizon 5, 10 successors


def _draw_linear(results: Runs, directory: Path) -> dict[str, Path]:
    from discreet.experiments import dimension

    return dimension.draw(results, directory)


_LINEAR = Experiment(
    "linear",
    "Linear mixtures: regret against episodes and dimension, with printed noise and ours",
    "Random mixtures of d known kernels over 50 states (4 actions, horizon 5), an update every 10 people (20 in "
    "a quick look): LinOpt-VI and LinOpt-PO (Zhou 2022) without privacy, with a trusted server and with nobody "
    "trusted, at ε = 10, δ = 1e-6. Printed noise is what the paper prints, labelled with the ε that it really "
    "gives: far less than was asked for. Tree is the same mechanism at a proven ε = 10; without a name it is "
    "our best sum. There is a figure for each d, and one against d.",
    {
        "env": [_linear_env(d) for d in (2, 5, 10)],
        "agent": ["linopt-vi", "linopt-po"],
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "update_every": 50,
        "setting": [
            {"trust": "none"},
            {"trust": "central", "epsilon": 10, "delta": 1e-6, "sum": "tree", "calibration": ["paper", "sound"]},
            {"trust": ["central", "local"], "epsilon": 10, "delta": 1e-6},
        ],
    },
    {
        "env": [_linear_env(d) for d in (2, 5)],
        "episodes": 1_000,
        "runs": 2,
        "update_every": 20,
    },
    _draw_linear,
)

#: All experiments, by name.
EXPERIMENTS: dict[str, Experiment] = {found.name: found for found in (_RIVERSWIM, _PAC, _TRUST, _LINEAR)}


def experiment(name: str) -> Experiment:
    """Returns an experiment by name."""
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]

"""Published experiments, end to end: a declared sweep and a look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.experiments.sweep import Sweep
from discreet.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from discreet.experiments.labels import Runs

__all__ = ["EXPERIMENTS", "Experiment"]


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


_TREE = {"agent": "dp-ucbvi", "trust": "central", "sum": "tree"}  # the paper's central and local mechanisms
_LAPLACE = {"agent": "dp-ucbvi", "trust": "local", "sum": "laplace"}
_RIVERSWIM = Experiment(
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
            {**_TREE, "calibration": ["paper", "sound"], "epsilon": [1, 3, 10]},
            {"agent": "auto", "trust": "central", "delta": 1e-6, "epsilon": [1, 3, 10]},
            {**_LAPLACE, "calibration": ["paper", "sound"], "epsilon": [1, 3, 10]},
            {"agent": "auto", "trust": "local", "epsilon": [1, 3, 10]},
        ],
    },
    {
        "episodes": 3_000,
        "runs": 2,
        "setting": [
            {"agent": "ucbvi"},
            {**_TREE, "calibration": ["paper", "sound"], "epsilon": 10},
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
    from discreet.experiments.reproduce import pac

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

_EPSILONS = [0.3, 1, 3, 10]


def _draw_rlsvi(results: Runs, directory: Path) -> dict[str, Path]:
    from discreet.experiments.reproduce import rlsvi

    return rlsvi.draw(results, directory)


_RLSVI = Experiment(
    "rlsvi",
    "RLSVI: what its own noise hides, by three accountants, and what it costs to ask for an ε",
    "RLSVI perturbs its values to explore, and that hides everybody's rewards (Lu et al. 2026); states and actions are "
    "not protected. The first figure needs no run: the ε of RLSVI as printed, by the paper's account and by the exact "
    "one, at a δ of 1e-6. Then RLSVI with its noise scaled to a budget: for the worst history (tight), or with an "
    "account of every user that leaves out whoever would exceed it (individual), beside UCBVI without privacy and "
    "RLSVI as printed.",
    {
        "env": "riverswim:states=6,horizon=20",
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "setting": [
            {"agent": "ucbvi"},
            {"agent": "rlsvi", "noise_scale": 1.0, "delta": 1e-6},
            {"agent": "rlsvi", "delta": 1e-6, "epsilon": _EPSILONS, "update_every": [1, 500]},
            {
                "agent": "rlsvi",
                "accounting": "individual",
                "delta": 1e-6,
                "epsilon": _EPSILONS,
                "update_every": 500,
                "stationary": [False, True],
            },
        ],
    },
    {
        "episodes": 3_000,
        "runs": 2,
        "setting": [
            {"agent": "ucbvi"},
            {"agent": "rlsvi", "delta": 1e-6, "epsilon": [1, 10], "update_every": [1, 50]},
            {"agent": "rlsvi", "accounting": "individual", "delta": 1e-6, "epsilon": [1, 10], "update_every": 50},
        ],
    },
    _draw_rlsvi,
)


def _draw_shuffle(results: Runs, directory: Path) -> dict[str, Path]:
    from discreet.experiments.reproduce import shuffle

    return shuffle.draw(results, directory)


_SHUFFLE = Experiment(
    "shuffle",
    "SDP-PE: policy elimination under shuffle privacy, beside optimism and the other trust models",
    "The algorithm of Bai et al. (2025), in polynomial time (policies='implicit'), at ε = 1 and δ = 1e-6 on RiverSwim "
    "with pooled counts: without privacy, with a trusted server and with a trusted shuffler; beside it our best "
    "optimistic learner under every trust model. SDP-PE explores to the end, with whatever is still active, so its "
    "regret grows until the last stage: look at the gap of each stage, too. In a world with 4,096 deterministic "
    "policies the printed version (policies='enumerate') shows how many of them are left.",
    {
        "env": "riverswim:states=6,horizon=20",
        "episodes": 200_000,
        "runs": 5,
        "seed": 0,
        "setting": [
            {"agent": "sdp-pe", "trust": "none", "stationary": True},
            {"agent": "sdp-pe", "trust": ["central", "shuffle"], "epsilon": 1, "delta": 1e-6, "stationary": True},
            {
                "agent": "auto",
                "trust": ["central", "shuffle", "local"],
                "epsilon": 1,
                "delta": 1e-6,
                "stationary": True,
            },
            {"env": "riverswim:states=3,horizon=4", "agent": "sdp-pe", "policies": "enumerate", "trust": "none"},
            {
                "env": "riverswim:states=3,horizon=4",
                "agent": "sdp-pe",
                "policies": "enumerate",
                "trust": ["central", "shuffle"],
                "epsilon": 1,
                "delta": 1e-6,
            },
        ],
    },
    {"episodes": 10_000, "runs": 2},
    _draw_shuffle,
)


def _linear_env(d: int) -> str:
    return f"linear_mixture:d={d}"  # 50 states, 4 actions, horizon 5, 10 successors


def _draw_linear(results: Runs, directory: Path) -> dict[str, Path]:
    from discreet.experiments.reproduce import linear

    return linear.draw(results, directory)


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


def _draw_frontier(results: Runs, directory: Path) -> dict[str, Path]:
    from discreet.experiments.reproduce import frontier

    return frontier.draw(results, directory)


def _ours(epsilons: list[float], shuffled: list[bool]) -> list[dict[str, Any]]:
    """Our learner under every trust model, and the one without privacy."""
    both = {"epsilon": epsilons, "stationary": [True, False]}
    return [
        {"agent": "ucbvi", "stationary": [True, False]},
        {"agent": "auto", "trust": "central", "delta": 1e-6, **both},
        {"agent": "auto", "trust": "shuffle", "delta": 1e-6, **both, "stationary": shuffled},
        {"agent": "auto", "trust": "local", **both},
    ]


def _papers(
    mechanism: dict[str, Any], *, pooled: bool, epsilon: list[float], scale: float, every: int | str
) -> dict[str, Any]:
    """A paper's mechanism at the bonus scale and the schedule that are best for these ε (benchmarks/frontier.py)."""
    return {**mechanism, "stationary": pooled, "epsilon": epsilon, "bonus_scale": scale, "update_every": every}


_BITS = {"agent": "dp-ucbvi", "trust": "shuffle", "sum": "binomial", "delta": 1e-6}
_FRONTIER = Experiment(
    "frontier",
    "The frontier: what a proven ε costs with the mechanisms of the papers, and with ours",
    "RiverSwim with 6 states and horizon 20 under every trust model, with counts pooled over the steps and per step: "
    "DP-UCBVI with the noise that the papers print for each trust model, scaled to a proven ε, at its best bonus scale "
    "and update schedule; auto, which is our own learner; and UCBVI without privacy. Ours has δ = 1e-6 where a server "
    "or a shuffler is trusted, and δ = 0 where nobody is. The curves against episodes are those of pooled counts at "
    "ε = 1.",
    {
        "env": "riverswim:states=6,horizon=20",
        "episodes": 50_000,
        "runs": 5,
        "seed": 0,
        "setting": [
            *_ours([0.1, 0.3, 1, 3, 10], [True, False]),
            _papers(_TREE, pooled=True, epsilon=[0.1, 0.3], scale=0.1, every=2000),
            _papers(_TREE, pooled=True, epsilon=[1], scale=0.3, every=1000),
            _papers(_TREE, pooled=True, epsilon=[3], scale=0.3, every=500),
            _papers(_TREE, pooled=True, epsilon=[10], scale=0.3, every="geometric"),
            _papers(_TREE, pooled=False, epsilon=[0.1, 0.3, 1, 3, 10], scale=0.3, every=2000),
            _papers(_BITS, pooled=True, epsilon=[0.1, 0.3, 1, 3], scale=0.3, every=500),
            _papers(_BITS, pooled=True, epsilon=[10], scale=0.3, every=200),
            _papers(_BITS, pooled=False, epsilon=[0.1, 0.3, 1, 3, 10], scale=0.3, every=500),
            _papers(_LAPLACE, pooled=True, epsilon=[0.1, 0.3, 1], scale=0.1, every=2000),
            _papers(_LAPLACE, pooled=True, epsilon=[3, 10], scale=0.3, every=200),
            _papers(_LAPLACE, pooled=False, epsilon=[0.1, 0.3, 1, 3, 10], scale=0.1, every=2000),
        ],
    },
    {
        "episodes": 5_000,
        "runs": 2,
        "setting": [
            *_ours([1, 10], [True]),
            *(_papers(_TREE, pooled=pooled, epsilon=[1, 10], scale=0.3, every="geometric") for pooled in (True, False)),
            _papers(_BITS, pooled=True, epsilon=[1, 10], scale=0.3, every=50),
            *(_papers(_LAPLACE, pooled=pooled, epsilon=[1, 10], scale=0.1, every=200) for pooled in (True, False)),
        ],
    },
    _draw_frontier,
)

#: All experiments.
EXPERIMENTS: Registry[Experiment] = Registry("experiment")
for _found in (_RIVERSWIM, _PAC, _TRUST, _RLSVI, _SHUFFLE, _LINEAR, _FRONTIER):
    EXPERIMENTS.add(_found.name, _found)

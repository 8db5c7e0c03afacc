"""``rlsvi``: ε of its own noise by three accountants, and regret at a budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from discreet import envs
from discreet.experiments.figures.canvas import COLOURS, MARKERS, canvas, tidy
from discreet.experiments.figures.regret import draw_regret
from discreet.experiments.labels import rounded_up
from discreet.experiments.measures import chance, standard_error
from discreet.experiments.reproduce.experiment import Experiment
from discreet.privacy import accounting
from discreet.privacy.rlsvi import Account

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from discreet.experiments.configs import Value
    from discreet.experiments.labels import Runs
    from discreet.mdp import FiniteMDP

__all__ = ["EXPERIMENT", "curves", "draw"]

_DELTA = 1e-6
_NOTE = "Rewards only: states and actions are not protected."
_LOSSES = (
    "ε of RLSVI as printed (noise scale 1) at δ = 1e-6 against the number of episodes. For individual, which keeps to "
    "any budget, what a user would lose if all visits were spread evenly over the cells: its default noise scale is "
    f"solved for that. {_NOTE}"
)


def curves(states: int, actions: int, horizon: int, episodes: int) -> dict[str, tuple[list[int], list[float]]]:
    """Returns ε of RLSVI as printed, noise scale 1, at δ = 1e-6: numbers of episodes and ε by accountant."""
    K = sorted({int(k) for k in np.geomspace(100, max(episodes, 1000), 40)})

    def account(k: int, every: int = 1) -> Account:
        return Account(states, actions, horizon, np.arange(every, k + 1, every))

    return {
        "paper: Corollary 14": (K, [account(k).paper_epsilon(1.0, _DELTA) for k in K]),
        "tight: exact, worst history": (K, [account(k).tight_epsilon(1.0, _DELTA) for k in K]),
        "tight, one release every 500": (
            [k for k in K if k >= 500],
            [account(k, 500).tight_epsilon(1.0, _DELTA) for k in K if k >= 500],
        ),
        "individual: visits spread evenly": (
            K,
            [accounting.gaussian_epsilon(math.sqrt(account(k).even_mu2), _DELTA) for k in K],
        ),
    }


def draw(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the pictures as SVG and PNG; returns the SVGs by caption."""
    first = results.runs[0].config
    mdp = envs.read(first["env"])
    written = {_LOSSES: _losses(results, mdp, directory / "rlsvi-epsilon.svg")}
    caption = f"Regret after {first['episodes']:,} episodes against the proven ε, mean and standard error. {_NOTE}"
    written[caption] = _costs(results, directory / "rlsvi-regret.svg")
    return {**written, **draw_regret(results, directory)}


def _losses(results: Runs, mdp: FiniteMDP, path: Path) -> Path:
    lines = curves(mdp.states, mdp.actions, mdp.horizon, results.runs[0].config["episodes"])
    with canvas(path) as (_, axes):
        for i, (label, (K, epsilon)) in enumerate(lines.items()):
            axes.plot(K, epsilon, color=COLOURS[i % 7], marker=MARKERS[i % 7], ms=4, markevery=6, label=label)
        axes.set(xscale="log", yscale="log", xlabel="episodes K", ylabel="ε at δ = 1e-6 (rewards only)")
        axes.xaxis.minorticks_off()
        _finish(axes, f"rlsvi as printed, {results.runs[0].config['env']}")
    return path


def _costs(results: Runs, path: Path) -> Path:
    lines: dict[str, dict[float, list[float]]] = {}
    flat: dict[str, list[float]] = {}
    for row in results.runs:
        options = row.config["options"]
        if row.asked is None:
            label = "ucbvi, no privacy" if row.config["agent"] == "ucbvi" else "rlsvi as printed"
            if row.private:
                label += f", ε = {rounded_up(row.epsilon, 4)}"
            flat.setdefault(label, []).append(row.regret)
            continue
        label = f"{options.get('accounting', 'tight')}, {_every(options.get('update_every', 1))}"
        label += ", pooled" if options.get("stationary") else ""
        lines.setdefault(label, {}).setdefault(row.epsilon, []).append(row.regret)
    env, episodes = results.runs[0].config["env"], results.runs[0].config["episodes"]
    with canvas(path) as (_, axes):
        for i, (label, by_epsilon) in enumerate(sorted(lines.items(), reverse=True)):
            epsilons = sorted(by_epsilon)
            means = [float(np.mean(by_epsilon[epsilon])) for epsilon in epsilons]
            errors = [standard_error(by_epsilon[epsilon]) for epsilon in epsilons]
            axes.errorbar(epsilons, means, errors, color=COLOURS[i % 7], marker=MARKERS[i % 7], ms=4, label=label)
        for (label, regrets), style in zip(sorted(flat.items()), ("-.", "--"), strict=False):
            axes.axhline(float(np.mean(regrets)), color="grey", ls=style, lw=1, label=label)
        gap = chance(env)
        if gap is not None:
            axes.axhline(gap * episodes, color="grey", ls=":", lw=1, label="acting at random")
        axes.set(xscale="log", yscale="log", xlabel="proven ε (rewards only)", ylabel="regret")
        ticks = sorted({round(epsilon, 3) for by_epsilon in lines.values() for epsilon in by_epsilon})
        _finish(axes, f"{env}; simulation only", ticks)
    return path


def _every(users: Value) -> str:
    return "a release every user" if users == 1 else f"a release every {users} users"


def _finish(axes: Axes, title: str, ticks: list[float] | None = None) -> None:
    axes.set_title(title, fontsize=9, loc="left")
    tidy(axes, ticks)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(-0.1, -0.18))


_EPSILONS = [0.3, 1, 3, 10]
EXPERIMENT = Experiment(
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
    draw,
)

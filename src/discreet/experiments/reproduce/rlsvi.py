"""The pictures of the experiment ``rlsvi``: ε by three accountants, and regret at a budget."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import envs
from discreet.errors import MissingExtra
from discreet.experiments.figures.regret import COLOURS, MARKERS, SIZE, draw_regret
from discreet.experiments.files import write_file
from discreet.experiments.labels import rounded_up
from discreet.experiments.measures import chance, standard_error
from discreet.privacy import accounting
from discreet.privacy.rlsvi import Account

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtra("matplotlib", "report") from None

if TYPE_CHECKING:
    from pathlib import Path

    from discreet.experiments.configs import Value
    from discreet.experiments.labels import Runs

__all__ = ["curves", "draw"]

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
    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "discreet", "svg.fonttype": "path"}):
        written = {_LOSSES: _losses(results, mdp, directory / "rlsvi-epsilon.svg")}
        caption = f"Regret after {first['episodes']:,} episodes against the proven ε, mean and standard error. {_NOTE}"
        written[caption] = _costs(results, directory / "rlsvi-regret.svg")
    return {**written, **draw_regret(results, directory)}


def _losses(results: Runs, mdp: Any, path: Path) -> Path:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    lines = curves(mdp.states, mdp.actions, mdp.horizon, results.runs[0].config["episodes"])
    for i, (label, (K, epsilon)) in enumerate(lines.items()):
        axes.plot(K, epsilon, color=COLOURS[i % 7], marker=MARKERS[i % 7], ms=4, markevery=6, label=label)
    axes.set(xscale="log", yscale="log", xlabel="episodes K", ylabel="ε at δ = 1e-6 (rewards only)")
    return _finish(figure, axes, path, f"rlsvi as printed, {results.runs[0].config['env']}")


def _costs(results: Runs, path: Path) -> Path:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    lines: dict[str, dict[float, list[float]]] = {}
    flat: dict[str, list[float]] = {}
    for row in results.runs:
        options = row.config["options"]
        if row.asked is None:
            label = "ucbvi, no privacy" if row.config["agent"] == "ucbvi" else "rlsvi as printed"
            if row.guarantee["epsilon"] is not None:
                label += f", ε = {rounded_up(row.guarantee['epsilon'], 4)}"
            flat.setdefault(label, []).append(row.regret)
            continue
        label = f"{options.get('accounting', 'tight')}, {_every(options.get('update_every', 1))}"
        label += ", pooled" if options.get("stationary") else ""
        lines.setdefault(label, {}).setdefault(row.epsilon, []).append(row.regret)
    for i, (label, by_epsilon) in enumerate(sorted(lines.items(), reverse=True)):
        epsilons = sorted(by_epsilon)
        means = [float(np.mean(by_epsilon[epsilon])) for epsilon in epsilons]
        errors = [standard_error(by_epsilon[epsilon]) for epsilon in epsilons]
        axes.errorbar(epsilons, means, errors, color=COLOURS[i % 7], marker=MARKERS[i % 7], ms=4, label=label)
    for label, style, regrets in zip(sorted(flat), ("-.", "--"), [flat[label] for label in sorted(flat)], strict=False):
        axes.axhline(float(np.mean(regrets)), color="grey", ls=style, lw=1, label=label)
    gap = chance(results.runs[0].config["env"])
    if gap is not None:
        axes.axhline(gap * results.runs[0].config["episodes"], color="grey", ls=":", lw=1, label="acting at random")
    axes.set(xscale="log", yscale="log", xlabel="proven ε (rewards only)", ylabel="regret")
    ticks = sorted({round(epsilon, 3) for by_epsilon in lines.values() for epsilon in by_epsilon})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    return _finish(figure, axes, path, f"{results.runs[0].config['env']}; simulation only")


def _every(users: Value) -> str:
    return "a release every user" if users == 1 else f"a release every {users} users"


def _finish(figure: Any, axes: Any, path: Path, title: str) -> Path:
    """Writes a figure as SVG and PNG."""
    axes.set_title(title, fontsize=9, loc="left")
    axes.xaxis.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(-0.1, -0.18))
    for target, options in ((path, {"metadata": {"Date": None}}), (path.with_suffix(".png"), {"dpi": 200})):
        file = io.BytesIO()
        figure.savefig(file, format=target.suffix[1:], **options)
        write_file(target, file.getvalue())
    return path

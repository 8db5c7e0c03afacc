"""``shuffle``: SDP-PE; regret, the gap of every stage, and how many policies stay active."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet import envs
from discreet.agents.rounds import Stages
from discreet.agents.sdp_pe import SDPPE
from discreet.experiments.figures.canvas import COLOURS, MARKERS, canvas, tidy
from discreet.experiments.figures.regret import draw_regret
from discreet.experiments.labels import group
from discreet.experiments.measures import chance
from discreet.experiments.reproduce.experiment import Experiment
from discreet.experiments.setting import build
from discreet.runtime.simulate import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from discreet.experiments.configs import RunConfig
    from discreet.experiments.labels import Group, Runs
    from discreet.experiments.records import RunRow

__all__ = ["EXPERIMENT", "active", "draw", "stage_gaps"]


def _enumerates(config: RunConfig) -> bool:
    return bool(config["agent"] == "sdp-pe" and config["options"].get("policies") == "enumerate")


def _ends(stages: Stages) -> NDArray[np.float64]:
    return np.array([phase.start + phase.users for phase in stages.phases if phase.layer is None], dtype=np.float64)


def stage_gaps(results: Runs, row: RunRow) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns after how many episodes each stage of a run ends, and the mean gap within it."""
    mdp = envs.read(row.config["env"])
    ends = _ends(Stages(row.config["episodes"], mdp.horizon, mdp.states, mdp.actions))
    curve = results.curve(row.key)
    regret = np.interp(ends, curve.episodes, curve.regret)
    return ends, np.diff(regret, prepend=0.0) / np.diff(ends, prepend=0.0)


def active(row: RunRow) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns after how many episodes each stage of a run ends, and how many policies are active then.

    The run is done once more: the same seed gives the same bits, and the number is no part of a stored result.
    """
    mdp, agent = build(row.config)
    assert isinstance(agent, SDPPE)
    simulate(agent, mdp, row.config["episodes"], seed=row.config["seed"])
    sizes = [np.nan if report.active is None else float(report.active) for report in agent.stages]
    return _ends(agent.schedule), np.array(sizes)


def draw(results: Runs, directory: Path) -> dict[str, Path]:
    """Draws the pictures as SVG and PNG; returns the SVGs by caption."""
    figures = draw_regret(results, directory)
    found = [each for settings in group(results.runs).values() for each in settings]
    staged = [each for each in found if each.rows[0].config["agent"] == "sdp-pe"]
    listed = [each for each in staged if _enumerates(each.rows[0].config)]
    implicit = [each for each in staged if each not in listed]
    if implicit:
        gaps = {each.label: [stage_gaps(results, row) for row in each.rows] for each in implicit}
        path = directory / "stages.svg"
        _plot(gaps, path, "episodes at the end of the stage", "mean gap within the stage", _chance(implicit))
        figures["Mean gap of the people of each stage of SDP-PE; mean over runs. Dotted: acting at random."] = path
    if listed:
        counts = {each.label: [active(row) for row in each.rows] for each in listed}
        path = directory / "active.svg"
        _plot(counts, path, "episodes at the end of the stage", "active policies after it", None, log=True)
        env = listed[0].rows[0].config["env"]
        figures[f"{env}: active policies of SDP-PE (policies='enumerate') after each stage; mean over runs."] = path
    return figures


def _chance(groups: list[Group]) -> float | None:
    return chance(groups[0].rows[0].config["env"])


def _plot(
    curves: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]],
    path: Path,
    x: str,
    y: str,
    level: float | None,
    *,
    log: bool = False,
) -> None:
    """Draws one line a setting: the mean over its runs, over logarithmic x."""
    with canvas(path, (5.4, 3.6 + 0.25 * len(curves))) as (_, axes):
        for i, (label, runs) in enumerate(curves.items()):
            means = np.mean([values for _, values in runs], axis=0)
            axes.plot(runs[0][0], means, color=COLOURS[i % 7], marker=MARKERS[i % 7], ms=4, label=label)
        if level is not None:
            axes.axhline(level, color="grey", ls=":", label="acting at random")
        axes.set(xscale="log", xlabel=x, ylabel=y)
        if log:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        tidy(axes)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))


EXPERIMENT = Experiment(
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
    draw,
)

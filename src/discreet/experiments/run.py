"""Several runs of one setting, one after the other: what `discreet run` does."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from discreet import __version__, agents, envs
from discreet.experiments.conduct import opened
from discreet.experiments.engine import perform
from discreet.experiments.measures import chance_gap, standard_deviation
from discreet.experiments.records import run_key
from discreet.experiments.setting import Setting
from discreet.experiments.sweep import Sweep
from discreet.privacy import trust
from discreet.privacy.accounting import gaussian_epsilon

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from discreet.agents.base import LearningAgent
    from discreet.experiments.configs import Value
    from discreet.experiments.records import Curve, RunRow

__all__ = ["Run"]


@dataclass
class Run:
    """A job of several runs: a sweep of one setting, done in this process. ``finished`` grows.

    Attributes:
        sweep: The setting, and how often it is run.
        reveal: Whether to keep what RLSVI's accounts of every user say, for `to_text` only: it reveals states.
        finished: What is known of each run, and its curve.
        before: How many of them were stored earlier, and are not done again.
        revealed: What was revealed, a line a run.
        seconds: How long the others took.
    """

    sweep: Sweep
    reveal: bool = False
    finished: list[tuple[RunRow, Curve]] = field(default_factory=list)
    before: int = 0
    revealed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def make(
        cls, given: Mapping[str, Value], *, runs: int, seed: int | None, alpha: tuple[float, ...], reveal: bool = False
    ) -> Run:
        """Checks everything and builds an agent before anything runs; ``given`` is what a setting of a sweep says."""
        if seed is None:
            seed = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        return cls(Sweep("run", (Setting.make(given),), runs=runs, seed=seed, alpha=alpha), reveal)

    @property
    def setting(self) -> Setting:
        """What the runs have in common."""
        return self.sweep.settings[0]

    def execute(
        self, directory: Path | None = None, *, progress: bool = False, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """Does the runs, and stores each as it finishes.

        Args:
            directory: Of the store, made if it is not there. Runs that it holds already are read, not done again.
            progress: Whether to show progress on stderr, if that is a terminal.
            say: Told, line by line, what was wrong with the store.
        """
        if directory is None:
            for i in range(self.sweep.runs):
                self.finished.append(self._perform(i, progress))
            return
        with opened(directory, mend=True, say=say) as store:
            stored = {row.key: row for row in store.runs()}
            for i, config in enumerate(self.sweep.configs):
                key = run_key(config)
                if key in stored:
                    self.finished.append((stored[key], store.curve(key)))
                    self.before += 1
                else:
                    run = self._perform(i, progress)
                    store.put(*run)
                    self.finished.append(run)

    def _perform(self, i: int, progress: bool) -> tuple[RunRow, Curve]:
        start = time.perf_counter()
        look = (lambda agent: self._reveal(i, agent)) if self.reveal else None
        run = perform(self.sweep.configs[i], self.sweep.keep, progress, look)
        self.seconds += time.perf_counter() - start
        return run

    def _reveal(self, i: int, agent: LearningAgent) -> None:
        found, delta = agent.reveal_losses(), agent.guarantee.delta  # type: ignore[attr-defined]
        epsilons = [gaussian_epsilon(float(q) ** 0.5, delta) for q in np.quantile(found.mu2, [0.5, 1.0])]
        self.revealed.append(
            f"run {i}: {found.dropped.sum():,} people dropped; realised ε {epsilons[0]:.4g} in the middle, "
            f"{epsilons[1]:.4g} at most"
        )

    @property
    def _finals(self) -> list[float]:
        return [row.regret for row, _ in self.finished]

    @property
    def _suboptimal(self) -> dict[float, float]:
        """For every α, how many episodes of a run have a larger gap, on average."""
        found = {a: [row.suboptimal[str(float(a))] for row, _ in self.finished] for a in self.sweep.alpha}
        return {a: float(np.mean(counts)) for a, counts in found.items()}

    def to_dict(self) -> dict[str, object]:
        """Returns the finished runs as one JSON object."""
        setting, finals = self.setting, self._finals
        return {
            "env": setting.env,
            "agent": setting.agent,
            "guarantee": setting.guarantee.to_dict(),
            "regret": {"mean": float(np.mean(finals)), "std": standard_deviation(finals), "runs": finals},
            "suboptimal": {str(a): mean for a, mean in self._suboptimal.items()},
            "episodes": setting.episodes,
            "seeds": [row.config["seed"] for row, _ in self.finished],
            "version": __version__,
        }

    def to_text(self) -> str:
        """Returns the finished runs for people to read."""
        setting, finals, n = self.setting, self._finals, len(self.finished)
        mdp = envs.read(setting.env)
        asked: dict[str, Value] = {
            key: value for key, value in agents.defaults(setting.agent).items() if value is not None
        }
        asked |= setting.options
        chosen = {
            key: value
            for key, value in setting.resolved.items()
            if value != (setting.agent if key == "agent" else asked.get(key))
        }
        tenth = max(1, setting.episodes // 10)
        last = np.mean([curve.mean_gap(setting.episodes - tenth) for _, curve in self.finished])
        rows = {
            "environment": f"{setting.env}: {mdp.states} states, {mdp.actions} actions, horizon {mdp.horizon}",
            "agent": f"{setting.agent} ({_listed(asked)})",
            "chosen": _listed(chosen),
            "trust": _asked(setting),
            "guarantee": str(setting.guarantee),
            "episodes": f"{setting.episodes:,} in each of {n} run{'s' if n > 1 else ''}, seed {self.sweep.seed}",
            "regret": f"{np.mean(finals):,.2f}"
            + (f" ± {standard_deviation(finals):,.2f} (standard deviation over runs)" if n > 1 else "")
            + f"; acting at random: {chance_gap(mdp) * setting.episodes:,.0f}",
            "last tenth": f"{last:.5f} an episode; optimal value {mdp.optimal_value:.4f}",
        }
        rows |= {f"gap > {a:g}": f"{count:,.1f} episodes a run" for a, count in self._suboptimal.items()}
        if self.revealed:
            rows["REVEALING"] = "; ".join(self.revealed) + " (this reveals states: simulation only)"
        if self.before:
            rows["stored"] = f"{self.before} of {n} run{'s' if n > 1 else ''} before, and not done again"
        if self.seconds:
            done = (n - self.before) * setting.episodes
            rows["speed"] = f"{done / self.seconds:,.0f} episodes/s, compilation included"
        return "\n".join(f"{key:12} {value}" for key, value in rows.items())


def _listed(values: Mapping[str, Value]) -> str:
    """Returns settings as people read them; None is none."""
    return ", ".join(
        f"{key.replace('_', ' ')}: {value:.4g}" if isinstance(value, float) else f"{key.replace('_', ' ')}: {value}"
        for key, value in values.items()
        if value is not None
    )


def _asked(setting: Setting) -> str:
    """Returns a trust model as it was asked for, without what is left to its defaults."""
    if not setting.privacy and setting.trust != "none":
        return f"{setting.trust}, ε follows from the noise scale"
    model = trust(setting.trust, **setting.privacy)
    given = {
        field.name: getattr(model, field.name)
        for field in dataclasses.fields(model)  # type: ignore[arg-type]
        if getattr(model, field.name) != field.default
    }
    return setting.trust.lower() + "".join(f", {key} {value}" for key, value in given.items())

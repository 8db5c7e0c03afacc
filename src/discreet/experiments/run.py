"""Several runs of one agent in one environment: what `discreet run` does."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import __version__, agents, envs
from discreet.errors import InvalidInput, MissingExtra, check_integer
from discreet.experiments.figures.regret import plot_regret
from discreet.experiments.labels import promise
from discreet.experiments.records import thin
from discreet.experiments.simulate import Result, simulate
from discreet.privacy.accounting import gaussian_epsilon

if TYPE_CHECKING:
    from pathlib import Path

    from discreet.mdp import FiniteMDP
    from discreet.privacy import Guarantee

__all__ = ["Run"]


@dataclass
class Run:
    """A job of several runs; ``results`` grows as they finish.

    Attributes:
        env: The environment as it was asked for.
        mdp: The environment.
        agent: Name of the agent.
        options: What else `discreet.agents.make` gets, ``privacy`` among it.
        episodes: People a run.
        runs: Number of runs; run i uses the seed ``(seed, i)`` for the agent and for the people.
        seed: The seed.
        alpha: Which gaps count as suboptimal.
        guarantee: What is proven.
        resolved: What became of what was left open, as the agent says it.
        reveal: Whether to keep what RLSVI's accounts of every user say, for `to_text` only: it reveals states.
    """

    env: str
    mdp: FiniteMDP
    agent: str
    options: dict[str, Any]
    episodes: int
    runs: int
    seed: int
    alpha: tuple[float, ...]
    guarantee: Guarantee
    resolved: dict[str, Any]
    reveal: bool = False
    results: list[Result] = field(default_factory=list)
    revealed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def make(
        cls,
        env: str,
        *,
        agent: str,
        episodes: int,
        runs: int,
        seed: int | None,
        alpha: tuple[float, ...],
        reveal: bool = False,
        **options: Any,
    ) -> Run:
        """Checks everything and builds a first agent before anything runs."""
        check_integer("runs", runs)
        if seed is None:
            seed = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        check_integer("seed", seed, least=0, most=2**128)
        for value in alpha:
            if not 0 <= value < np.inf:
                raise InvalidInput(f"alpha must be a finite gap, got alpha={value}")
        mdp = envs.read(env)
        first = agents.make(agent, mdp.spec, episodes=episodes, seed=[seed, 0], **options)
        return cls(env, mdp, agent, options, episodes, runs, seed, alpha, first.guarantee, first.resolved, reveal)

    def execute(self, *, progress: bool) -> None:
        """Does the runs, one after the other."""
        start = time.perf_counter()
        for i in range(self.runs):
            seed = [self.seed, i]
            agent = agents.make(self.agent, self.mdp.spec, episodes=self.episodes, seed=seed, **self.options)
            self.results.append(simulate(agent, self.mdp, self.episodes, seed=seed, progress=progress))
            self.seconds = time.perf_counter() - start
            if self.reveal:
                found, delta = agent.reveal_losses(), self.guarantee.delta  # type: ignore[attr-defined]
                epsilons = [gaussian_epsilon(float(q) ** 0.5, delta) for q in np.quantile(found.mu2, [0.5, 1.0])]
                self.revealed.append(
                    f"run {i}: {found.dropped.sum():,} people dropped; realised ε {epsilons[0]:.4g} in the middle, "
                    f"{epsilons[1]:.4g} at most"
                )

    @property
    def _finals(self) -> list[float]:
        return [float(result.regret[-1]) for result in self.results]

    def to_dict(self) -> dict[str, Any]:
        """Returns the finished runs as one JSON object."""
        finals = self._finals
        suboptimal = np.array([result.suboptimal(self.alpha) for result in self.results])
        return {
            "env": self.env,
            "agent": self.agent,
            "guarantee": self.guarantee.to_dict(),
            "regret": {"mean": float(np.mean(finals)), "std": _std(finals), "runs": finals},
            "suboptimal": {str(a): float(mean) for a, mean in zip(self.alpha, suboptimal.mean(axis=0), strict=True)},
            "episodes": self.episodes,
            "seeds": [[self.seed, i] for i in range(len(self.results))],
            "version": __version__,
        }

    def to_text(self) -> str:
        """Returns the finished runs for people to read."""
        mdp, finals, n = self.mdp, self._finals, len(self.results)
        uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
        never = (mdp.optimal_value - mdp.evaluate(uniform)) * self.episodes
        tenth = max(1, self.episodes // 10)
        last = np.mean([result.gaps[-tenth:].mean() for result in self.results])
        counts = np.mean([result.suboptimal(self.alpha) for result in self.results], axis=0)
        asked = {"agent": self.agent, **self.options}
        chosen = {key: value for key, value in self.resolved.items() if asked.get(key) != value}
        rows = {
            "environment": f"{self.env}: {mdp.states} states, {mdp.actions} actions, horizon {mdp.horizon}",
            "agent": f"{self.agent} ({_listed({**self.options, 'privacy': None})})",
            "chosen": _listed(chosen),
            "trust": _asked(self.options["privacy"]),
            "guarantee": str(self.guarantee),
            "episodes": f"{self.episodes:,} in each of {n} run{'s' if n > 1 else ''}, seed {self.seed}",
            "regret": f"{np.mean(finals):,.2f}"
            + (f" ± {_std(finals):,.2f} (standard deviation over runs)" if n > 1 else "")
            + f"; acting at random: {never:,.0f}",
            "last tenth": f"{last:.5f} an episode; optimal value {mdp.optimal_value:.4f}",
        }
        for a, count in zip(self.alpha, counts, strict=True):
            rows[f"gap > {a:g}"] = f"{count:,.1f} episodes a run"
        if self.revealed:
            rows["REVEALING"] = "; ".join(self.revealed) + " (this reveals states: simulation only)"
        rows["speed"] = f"{n * self.episodes / self.seconds:,.0f} episodes/s, compilation included"
        return "\n".join(f"{key:12} {value}" for key, value in rows.items())

    def save(self, directory: Path) -> list[str]:
        """Writes ``run.json``, ``gaps.npz`` and, with matplotlib, pictures; returns lines that say so."""
        privacy = self.options["privacy"]
        trust = None if privacy is None else {"trust": type(privacy).__name__, **dataclasses.asdict(privacy)}
        document = {**self.to_dict(), "settings": {**self.options, "privacy": trust}}
        (directory / "run.json").write_text(json.dumps(document, indent=2) + "\n")
        np.savez_compressed(directory / "gaps.npz", gaps=np.array([result.gaps for result in self.results]))
        lines = [f"numbers: {directory / 'run.json'}, {directory / 'gaps.npz'}"]
        promised = promise(self.guarantee.to_dict(), getattr(privacy, "epsilon", None))  # type: ignore[arg-type]
        label = f"{self.agent}: {promised}"
        curves = [thin(result.regret, result.gaps) for result in self.results]
        note = "simulation only" if self.guarantee.noise == "fast" else ""
        picture = directory / "regret.png"
        try:
            plot_regret([(label, curves)], picture, title=self.env, note=note)
        except MissingExtra as error:
            return [*lines, f"no picture: {error}"]
        return [*lines, f"picture: {picture}, {picture.with_suffix('.svg')}"]


def _std(values: list[float]) -> float:
    """Returns the sample standard deviation; 0 for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _listed(values: dict[str, Any]) -> str:
    """Returns settings as people read them; None is none."""
    return ", ".join(
        f"{key.replace('_', ' ')}: {value:.4g}" if isinstance(value, float) else f"{key.replace('_', ' ')}: {value}"
        for key, value in values.items()
        if value is not None
    )


def _asked(privacy: Any) -> str:
    """Returns a trust model as it was asked for, without what is left to its defaults."""
    if privacy is None:
        return "central, ε follows from the noise scale"
    given = {
        field.name: getattr(privacy, field.name)
        for field in dataclasses.fields(privacy)
        if getattr(privacy, field.name) != field.default
    }
    return type(privacy).__name__.lower() + "".join(f", {key} {value}" for key, value in given.items())

"""discreet-vi under Shuffle(1, 1e-6), pooled: what each ingredient is worth, and how it does elsewhere.

Regret is the mean over paired seeds [S, i], with its standard error; "late" is the mean gap over the last tenth of the
episodes, and its worst run.

    python benchmarks/frontier_shuffle.py                       # ablation on RiverSwim-6, random and gridworld
    python benchmarks/frontier_shuffle.py --table environments  # seven environments; --papers adds visit counts
    python benchmarks/frontier_shuffle.py --table epsilon       # RiverSwim-6 at several ε, K and reward noise
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import discreet as dc
from discreet.agents.discreet import shuffle as discreet_shuffle

if TYPE_CHECKING:
    from collections.abc import Iterable

ENVIRONMENTS = {
    "riverswim": "riverswim:states=6,horizon=20",
    "riverswim-12": "riverswim:states=12,horizon=40",
    "chain": "chain",
    "hard": "hard",
    "random": "random",
    "gridworld": "gridworld",
    "frozenlake": "frozenlake",
}
ABLATION: dict[str, dict[str, Any]] = {
    "all of it": {},
    "all cells are asked about": {"chosen": False},
    "predictions trusted whatever was seen": {"credit": False},
    "batches not weighted": {"weighted": False},
    "no transition spike": {"spike": 0.0},
    "no reward spike": {"reward_spike": 0.0},
    "no exploiters": {"exploit": False},
    "no gate: exploiters whatever they are worth": {"gate": 0.0},
    "exploiters after a tenth of the time": {"alone": 0.1, "gate": 0.0},
    "no bonus": {"bonus": 0.0},
    "four times the bonus": {"bonus": 0.4},
    "one explorer": {"explorers": 1},
    "known at 3σ": {"known": 3.0},
    "known at 12σ": {"known": 12.0},
    "known cells are not asked about again": {"refine": 0.0},
    "batches do not grow": {"growth": 0.0},
    "batches grow twice as fast": {"growth": 0.14},
    "half the first batch": {"first": 10.0},
    "twice the first batch": {"first": 40.0},
}
SHUFFLE = dc.Shuffle(1.0, 1e-6)


def play(mdp: Any, episodes: int, seed: list[int], agent: str, **options: Any) -> tuple[float, float]:
    """Returns the regret of one run, and its mean gap over the last tenth."""
    made = dc.agents.make(agent, mdp.spec, episodes=episodes, stationary=True, seed=seed, **options)
    gaps = dc.simulate(made, mdp, seed=seed).gaps
    return float(gaps.sum()), float(gaps[-episodes // 10 :].mean())


def row(name: str, mdp: Any, episodes: int, seeds: Iterable[list[int]], agent: str = "discreet-vi", **o: Any) -> None:
    """Prints a line of the table."""
    found = np.array([play(mdp, episodes, seed, agent, **{"privacy": SHUFFLE, **o}) for seed in seeds])
    error = found[:, 0].std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
    regret = f"{found[:, 0].mean():,.0f} ± {error:,.0f} | {found[:, 0].max():,.0f}"
    print(f"| {name} | {regret} | {found[:, 1].mean():.3f} | {found[:, 1].max():.3f} |", flush=True)


def head(title: str) -> None:
    """Prints the head of a table."""
    print(f"\n{title}\n\n| | regret | worst run | late | worst |\n| --- | --- | --- | --- | --- |", flush=True)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=("ablation", "environments", "epsilon"), default="ablation")
    parser.add_argument("--only", help="the rows of the ablation whose names contain this")
    parser.add_argument("--envs", nargs="*", choices=list(ENVIRONMENTS))
    parser.add_argument("--papers", action="store_true", help="dp-ucbvi beside it, message by message: slow")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--episodes", "-K", type=int, default=50_000)
    given = parser.parse_args()
    seeds, K = [[given.seed, i] for i in range(given.runs)], given.episodes
    if given.table == "ablation":
        for env in given.envs or ("riverswim", "random", "gridworld"):
            mdp = dc.envs.read(ENVIRONMENTS[env])
            head(f"{env}, K = {K:,}, {given.runs} runs")
            for name, change in ABLATION.items():
                if given.only and given.only not in name:
                    continue
                discreet_shuffle.SETTINGS = dataclasses.replace(discreet_shuffle.Settings(), **change)
                row(name, mdp, K, seeds)
    elif given.table == "environments":
        head(f"K = {K:,}, {given.runs} runs")
        for env in given.envs or ENVIRONMENTS:
            mdp = dc.envs.read(ENVIRONMENTS[env])
            uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
            print(f"| {env}: acting at random | {K * (mdp.optimal_value - mdp.evaluate(uniform)):,.0f} | | | |")
            if given.papers:
                row(f"{env}: dp-ucbvi, visit counts", mdp, K, seeds, "dp-ucbvi")
            row(f"{env}: discreet-vi, first visits", mdp, K, seeds)
    else:
        head(f"RiverSwim-6, {given.runs} runs")
        mdp = dc.envs.riverswim(states=6, horizon=20)
        for epsilon in (10.0, 3.0, 1.0, 0.3, 0.1):
            row(f"ε = {epsilon:g}, K = {K:,}", mdp, K, seeds, privacy=dc.Shuffle(epsilon, 1e-6))
        for episodes in (20_000, 200_000):
            row(f"ε = 1, K = {episodes:,}", mdp, episodes, seeds)
        noisy = dc.envs.riverswim(states=6, horizon=20, reward_noise="bernoulli")
        row(f"ε = 1, K = {K:,}, Bernoulli rewards", noisy, K, seeds)
        row(f"ε = 1, K = {K:,}, half honest", mdp, K, seeds, privacy=dc.Shuffle(1.0, 1e-6, honest_fraction=0.5))


if __name__ == "__main__":
    main()

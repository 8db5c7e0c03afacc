"""What trust costs: regret on RiverSwim-6, pooled, of each learner under each trust model at its best bonus scale.

Seeds are paired: run i has the agent seed [0, i] and the people seed [0, i] everywhere. An inequality is strict if it
holds by two standard errors of the paired differences.

python benchmarks/orderings.py
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING

import numpy as np

import discreet as dc

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED, DELTA, SCALES = 0, 1e-6, (0.1, 0.3, 1.0, 3.0)
# each line: the lower side, the upper side, the factor of the upper side, whether it must hold by two standard errors
ORDERINGS = (
    ("non-private", "central", 1.0, True),
    ("central", "shuffle", 1.1, False),
    ("shuffle", "local", 1.0, True),
)


def parse() -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description="Orderings of the trust models on RiverSwim-6.")
    parser.add_argument("--seeds", type=int, default=10, help="paired runs, at least 2")
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--update-every", type=int, default=500)
    parser.add_argument("--agents", nargs="+", default=["dp-ucbvi", "private-ucb-vi"])
    return parser.parse_args()


def regrets(
    name: str, privacy: dc.privacy.TrustModel, scale: float, options: argparse.Namespace
) -> NDArray[np.float64]:
    """Returns the regret of every run, (seeds,)."""
    mdp = dc.envs.riverswim(states=6, horizon=20)
    found = np.empty(options.seeds)
    for i in range(options.seeds):
        agent = dc.agents.make(
            name,
            mdp.spec,
            episodes=options.episodes,
            privacy=privacy,
            stationary=True,
            update_every=options.update_every,
            bonus_scale=scale,
            seed=[SEED, i],
        )
        found[i] = dc.simulate(agent, mdp, seed=[SEED, i]).regret[-1]
    return found


def error(values: NDArray[np.float64]) -> float:
    """Returns the standard error of the mean."""
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def main() -> None:
    """Prints two tables in Markdown: regret by trust model and scale, and the orderings."""
    options = parse()
    trust = {
        "non-private": dc.NonPrivate(),
        "central": dc.Central(options.epsilon, DELTA),
        "shuffle": dc.Shuffle(options.epsilon, DELTA),
        "local": dc.Local(options.epsilon, DELTA),
    }
    print(
        f"RiverSwim-6, H = 20, pooled, ε = {options.epsilon:g}, δ = {DELTA:g}, {options.episodes:,} episodes, "
        f"update_every = {options.update_every}, {options.seeds} paired seeds; mean regret.\n"
    )
    print(
        "| agent | trust model | "
        + " | ".join(f"scale {scale:g}" for scale in SCALES)
        + " | best scale | at its best |"
    )
    print("| --- | --- |" + " --- |" * (len(SCALES) + 2), flush=True)
    best: dict[tuple[str, str], NDArray[np.float64]] = {}
    for name in options.agents:
        for model, privacy in trust.items():
            runs = {}
            for scale in SCALES:
                runs[scale] = regrets(name, privacy, scale, options)
                print(f"{name}, {model}, scale {scale:g}: {runs[scale].mean():,.0f}", file=sys.stderr, flush=True)
            least = min(SCALES, key=lambda scale: float(runs[scale].mean()))
            best[name, model] = runs[least]
            means = " | ".join(f"{runs[scale].mean():,.0f}" for scale in SCALES)
            summary = f"{runs[least].mean():,.0f} ± {error(runs[least]):,.0f}"
            print(f"| {name} | {model} | {means} | {least:g} | {summary} |", flush=True)
    print("\n| agent | ordering | paired difference | holds |\n| --- | --- | --- | --- |")
    for name in options.agents:
        for low, high, factor, strict in ORDERINGS:
            difference = factor * best[name, high] - best[name, low]
            holds = difference.mean() > 2 * error(difference) if strict else difference.mean() >= 0
            ordering = f"{low} < {high}" if strict else f"{low} ≤ {factor:g} × {high}"
            amount = f"{difference.mean():+,.0f} ± {error(difference):,.0f}"
            print(f"| {name} | {ordering} | {amount} | {'yes' if holds else 'no'} |")


if __name__ == "__main__":
    main()

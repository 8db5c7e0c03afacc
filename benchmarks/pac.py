"""PUCB on the hard class: how many episodes are α-suboptimal, beside the papers' bounds.

python benchmarks/pac.py [FILE.png]

For every α the instance of the lower bound: arms are 14α/H apart (Section 6.2), so that whoever plays a wrong arm often
is more than α below the optimum. Bounds are drawn with constants 1; logarithms that the papers hide are dropped.
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.figure import Figure

import discreet as dc

EPISODES, SEEDS, FAILURE, H = 200_000, 40, 0.05, 5
EPSILONS = (0.3, 1.0, 3.0, 10.0)
ALPHAS = np.array([0.03, 0.05, 0.08, 0.12, 0.17])  # the construction needs α ≤ H/28
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def measure(alpha: float, epsilon: float) -> tuple[float, float]:
    """Returns the mean number of α-suboptimal episodes, and its standard error."""
    mdp = dc.envs.hard(horizon=H, gap=14 * alpha / H)
    counts = []
    for seed in range(SEEDS):
        agent = dc.agents.make(
            "pucb",
            mdp.spec,
            episodes=EPISODES,
            privacy=dc.Central(epsilon),
            stationary=True,
            update_every="geometric",
            failure=FAILURE,
            seed=seed,
        )
        counts.append(dc.simulate(agent, mdp, seed=seed).suboptimal(alpha))
    return float(np.mean(counts)), float(np.std(counts, ddof=1) / np.sqrt(SEEDS))


def main() -> None:
    """Prints a table and draws the picture."""
    spec = dc.envs.hard(horizon=H).spec
    S, A = spec.states, spec.actions
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.subplots()
    fine = np.geomspace(ALPHAS[0], ALPHAS[-1], 50)
    print(f"hard: S = {S}, A = {A}, H = {H}; {EPISODES:,} episodes, {SEEDS} seeds; mean ± standard error")
    print("| ε | " + " | ".join(f"α = {a:g}" for a in ALPHAS) + " |")
    print("| --- |" + " --- |" * len(ALPHAS))
    for epsilon, colour in zip(EPSILONS, COLOURS, strict=True):
        mean, error = zip(*(measure(alpha, epsilon) for alpha in ALPHAS), strict=True)
        print(f"| {epsilon:g} | " + " | ".join(f"{m:,.0f} ± {e:,.0f}" for m, e in zip(mean, error, strict=True)) + " |")
        axes.errorbar(ALPHAS, mean, error, color=colour, marker="o", ms=4, label=f"measured, ε = {epsilon:g}")
        sizes = {"states": S, "actions": A, "horizon": H, "epsilon": epsilon}
        axes.plot(fine, dc.theory.pucb_pac(**sizes, alpha=fine), color=colour, ls="--", lw=1)
        axes.plot(fine, dc.theory.pac_lower(**sizes, alpha=fine, failure=FAILURE), color=colour, ls=":", lw=1)
    axes.plot([], [], color="grey", ls="--", label="upper bound, constants 1")
    axes.plot([], [], color="grey", ls=":", label="lower bound, constants 1")
    axes.set(xscale="log", yscale="log", xlabel="α", ylabel="α-suboptimal episodes")
    axes.set_title(f"PUCB on the hard class, {EPISODES:,} episodes")
    axes.set_xticks(ALPHAS, [f"{alpha:g}" for alpha in ALPHAS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    path = sys.argv[1] if len(sys.argv) > 1 else "pac.png"
    figure.savefig(path, dpi=150)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()

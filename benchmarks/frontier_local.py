"""What every ingredient of discreet-vi is worth under local privacy, and the papers' learners beside it.

    python benchmarks/frontier_local.py                 # the ablation: RiverSwim-6, H = 20, ε = 1, K = 1,000,000
    python benchmarks/frontier_local.py --papers        # Local(sum="laplace") at several bonus scales and schedules
    python benchmarks/frontier_local.py --environments  # the same configuration elsewhere
    python benchmarks/frontier_local.py --epsilons      # and at other budgets, also per step

Run i of seed S has the seeds [S, i] of people and agent, so rows are paired.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

import discreet as dc
from discreet.agents._kernels import discreet_local as kernels
from discreet.agents.discreet import local as discreet_local
from discreet.agents.discreet.local import LocalLearner, Settings
from discreet.privatizers.make import make
from discreet.privatizers.questions.serve import Answers

FULL = Settings()
ABLATION = {
    "all of it": FULL,
    "no prior that most counts are 0": replace(FULL, absent=(0.0, 0.0)),
    "… for next states": replace(FULL, absent=(0.0, FULL.absent[1])),
    "… for rewards": replace(FULL, absent=(FULL.absent[0], 0.0)),
    "batches weighted alike": replace(FULL, weighted=False),
    "known cells may be forgotten": replace(FULL, sticky=False),
    "all questions alike": replace(FULL, directed=False),
    "both kinds alike while unknown": replace(FULL, balanced=False),
    "no bonus": replace(FULL, bonus=(0.0, 0.0)),
    "bonus 0.2": replace(FULL, bonus=(0.2, 0.2)),
    "known at 15 and 8 deviations": replace(FULL, trust=(15.0, 8.0)),
    "known at 5 and 3 deviations": replace(FULL, trust=(5.0, 3.0)),
}
SAMPLED = "a sampled step instead of the first visit"
ENVIRONMENTS = (
    "riverswim:reward_noise=bernoulli",
    "riverswim:states=12,horizon=40",
    "chain",
    "hard",
    "random",
    "gridworld",
    "frozenlake:horizon=20",
)
PAPERS = ("dp-ucbvi", "pucb", "private-ucb-vi")


class SampledStep(LocalLearner):
    """Asks what happened at one step, drawn uniformly, if the cell was visited there: instead of the first visit."""

    def __init__(self, agent, update_every) -> None:
        super().__init__(agent, update_every)
        given = {"capacity": agent.episodes, "failure": agent.failure}
        self.pooled = self.mechanism
        self.mechanism = make("questions", agent.spec, agent.privacy, stationary=False, **given)

    def start(self):
        """What is known is pooled, whatever is asked."""
        asked, self.mechanism = self.mechanism, self.pooled
        known, self.mechanism = super().start(), asked
        return known

    def _add(self, known, new: Answers):
        asked = new.asked.sum(axis=1, keepdims=True)
        transitions, rewards = (part.sum(axis=0, keepdims=True) for part in (new.transitions, new.rewards))
        return super()._add(known, Answers(asked, transitions, rewards, new.error))

    def _questions(self, so_far, model, V, policy):
        (_, asked), H = super()._questions(so_far, model, V, policy), self._spec.horizon
        work, visits, worth = np.empty((2, self._spec.states)), np.empty(model.r.shape), np.empty(model.r.shape)
        kernels.visit(model.P, so_far.known, np.array(self._spec.initial), policy, V, work, visits, worth)
        return np.maximum(visits / H, self.settings.least), np.repeat(asked / H, H, axis=1)


def play(mdp: dc.TabularMDP, agent: str, episodes: int, runs: int, seed: int, **options) -> np.ndarray:
    """Returns the regret of each run."""
    found = []
    for i in range(runs):
        made = dc.agents.make(agent, mdp.spec, episodes=episodes, seed=[seed, i], **options)
        found.append(dc.simulate(made, mdp, seed=[seed, i]).regret[-1])
    return np.array(found)


def show(name: str, regret: np.ndarray, seconds: float) -> None:
    """Prints a row of a table."""
    error = regret.std(ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else float("nan")
    numbers = f"{regret.mean():,.0f} ± {error:,.0f} | {np.median(regret):,.0f} | {regret.max():,.0f}"
    print(f"| {name} | {numbers} | {seconds / len(regret):.1f} s |", flush=True)


def main() -> None:
    """Prints the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("papers", "environments", "epsilons"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=1_000_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    river, local = dc.envs.riverswim(), dc.Local(epsilon=given.epsilon)
    plain = {"privacy": local, "stationary": True}
    rows = [(name, river, "discreet-vi", settings, plain) for name, settings in ABLATION.items()]
    rows.append((SAMPLED, river, "discreet-vi", FULL, plain))
    if given.papers:
        laplace = {"privacy": replace(local, sum="laplace"), "stationary": True}
        rows = [
            (
                f"{agent}, bonus × {scale:g}, batches of {every}",
                river,
                agent,
                FULL,
                {**laplace, "bonus_scale": scale, "update_every": every},
            )
            for agent in PAPERS
            for scale in (0.1, 0.3, 1.0)
            for every in (500, 2000, 20_000)
        ]
    if given.environments:
        rows = []
        for text in ENVIRONMENTS:
            mdp = dc.envs.read(text)
            cost = given.episodes * (mdp.optimal_value - mdp.evaluate(np.full(mdp.rewards.shape, 1 / mdp.actions)))
            rows.append((f"{text} (uniform policy: {cost:,.0f})", mdp, "discreet-vi", FULL, plain))
    if given.epsilons:
        budgets = [(epsilon, True) for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)] + [(1.0, False), (3.0, False)]
        rows = [
            (
                f"ε = {epsilon:g}, {'pooled' if pooled else 'per step'}",
                river,
                "discreet-vi",
                FULL,
                {"privacy": dc.Local(epsilon), "stationary": pooled},
            )
            for epsilon, pooled in budgets
        ]
    print("| | regret | median | worst | a run |\n| --- | --- | --- | --- | --- |")
    for name, mdp, agent, settings, options in rows:
        if given.only in name:
            LocalLearner.settings = settings
            discreet_local.LocalLearner = SampledStep if name == SAMPLED else LocalLearner
            start = time.perf_counter()
            show(name, play(mdp, agent, given.episodes, given.runs, given.seed, **options), time.perf_counter() - start)


if __name__ == "__main__":
    main()

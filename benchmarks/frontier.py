"""How far a proven ε goes: the papers' mechanism at its best, what each improvement adds, ours, and no privacy.

    python benchmarks/frontier.py                                  # regret against ε, with a trusted server
    python benchmarks/frontier.py --trust shuffle local            # and with other trust models
    python benchmarks/frontier.py --part ladder                    # improvements added one at a time
    python benchmarks/frontier.py --part ablation --runs 20        # each ingredient of ours removed
    python benchmarks/frontier.py --part constants --runs 20       # and its constants halved and doubled
    python benchmarks/frontier.py --part environments              # seven environments and Bernoulli rewards
    python benchmarks/frontier.py --part sharing --runs 20         # per step: worlds that change half-way

Run i of seed S has the seeds [S, i] of the agent and of the people in every row, so differences are paired. The
papers' mechanism is DP-UCBVI with the sum, the noise and the δ that the papers print, made sound: the best of a grid of
bonus scales and update schedules: the best four by the mean of the first `--screen` runs, and the best of these by all.
Tables are Markdown: mean regret ± standard error.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import discreet as dc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

DELTA, FEW = 1e-6, 4
RIVERSWIM = "riverswim:states=6,horizon=20"
ENVIRONMENTS = {
    "riverswim-6": RIVERSWIM,
    "riverswim-12": "riverswim:states=12,horizon=40",
    "chain": "chain",
    "hard": "hard",
    "random": "random",
    "gridworld": "gridworld",
    "frozenlake": "frozenlake:horizon=40",
    "riverswim-6-bernoulli": f"{RIVERSWIM},reward_noise=bernoulli",
}
HALFWAY = (
    "actions swapped",
    "transitions swapped",
    "rewards swapped",
    "reward moved",
    "early reward",
    "weaker current",
    "stronger current",
)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
EPISODES = 50_000
PRINTED: dict[str, dict[str, Any]] = {  # what the papers print, per trust model
    "central": {"delta": 0.0, "sum": "tree"},
    "shuffle": {"delta": DELTA, "sum": "binomial"},
    "local": {"delta": 0.0, "sum": "laplace"},
}
OURS: dict[str, dict[str, Any]] = {"central": {"delta": DELTA}, "shuffle": {"delta": DELTA}, "local": {"delta": 0.0}}
SCALES = {"central": (0.1, 0.3, 1.0), "shuffle": (0.1, 0.3, 1.0), "local": (0.001, 0.01, 0.1, 1.0)}
SCHEDULES: dict[str, tuple[int | str, ...]] = {
    "central": (1, 20, 200, 500, 1000, 2000, "geometric"),
    "shuffle": (500, 1000, 2000),
    "local": (2000, "geometric"),
}
ABLATION: dict[str, dict[str, Any]] = {
    "clipping: users count": {"clipped": False},
    "centred rewards": {"centred": False},
    "the transitions' spike": {"transition_spike": 0.0},
    "the rewards' spike": {"reward_spike": 0.0},
    "focus": {"focus": False},
    "the exploiter": {"exploit": False},
    "diverse explorers: one kind": {"kinds": ((0.2, 0.8),)},
    "eight explorers: one a batch": {"explorers": 1, "kinds": ((0.2, 0.8),)},
    "extended exploration": {"extend": 0.0},
    "the optimal sum: factored": {"sum": "factored"},
}
CONSTANTS: dict[str, dict[str, Any]] = {
    "first read: half": {"first": 3.0},
    "first read: double": {"first": 12.0},
    "reads: 8 % and 15 % apart": {"growth": 0.08, "late": 0.15},
    "reads: 30 % and 60 % apart": {"growth": 0.3, "late": 0.6},
    "explorers alone: half as long": {"explore": 10.0},
    "explorers alone: twice as long": {"explore": 40.0},
    "explorers' share: decay 1": {"decay": 1.0},
    "explorers' share: decay 4": {"decay": 4.0},
    "transitions' spike 0.9": {"transition_spike": 0.9},
    "transitions' spike 0.995": {"transition_spike": 0.995},
    "rewards' spike 0.5": {"reward_spike": 0.5},
    "rewards' spike 0.98": {"reward_spike": 0.98},
    "bonus: half": {"kinds": ((0.1, 0.8), (0.1, 0.8), (0.25, 0.8), (0.1, 3.0))},
    "bonus: double": {"kinds": ((0.4, 0.8), (0.4, 0.8), (1.0, 0.8), (0.4, 3.0))},
    "known at 0.4σ": {"kinds": ((0.2, 0.4), (0.2, 0.4), (0.5, 0.4), (0.2, 3.0))},
    "known at 1.6σ": {"kinds": ((0.2, 1.6), (0.2, 1.6), (0.5, 1.6), (0.2, 3.0))},
}
BARE: dict[str, Any] = {  # discreet-vi with nothing but its schedule and one kind of optimism
    "sum": "factored",
    "clipped": False,
    "centred": False,
    "transition_spike": 0.0,
    "reward_spike": 0.0,
    "focus": False,
    "exploit": False,
    "kinds": ((0.2, 0.8),),
    "extend": 0.0,
}
LADDER = (  # what is put back, in this order
    ("own schedule and planner", ()),
    ("an exploiter", ("exploit",)),
    ("explorers of several kinds, extension", ("kinds", "extend")),
    ("weighted counts", ("clipped",)),
    ("centred rewards", ("centred",)),
    ("the transitions' spike", ("transition_spike",)),
    ("the rewards' spike", ("reward_spike",)),
    ("focus", ("focus",)),
    ("optimal sum: ours", ("sum",)),
)


@dataclass(frozen=True)
class Job:
    """One run's configuration, but for its seed.

    Attributes:
        env: The environment.
        agent: The learner.
        trust: The trust model.
        episodes: People.
        privacy: What the trust model is asked for.
        options: What the agent is given.
        settings: What is changed of discreet-vi's constants.
    """

    env: str
    agent: str
    trust: str
    episodes: int
    privacy: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    settings: tuple[tuple[str, Any], ...] = field(default=())


def job(
    env: str,
    agent: str,
    trust: str,
    episodes: int,
    privacy: dict[str, Any],
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> Job:
    """Returns a configuration; ``sum`` among the settings is the trust model's."""
    changed = dict(settings or {})
    asked = {**privacy, **({"sum": changed.pop("sum")} if "sum" in changed else {})}
    return Job(env, agent, trust, episodes, *(tuple(sorted(part.items())) for part in (asked, options, changed)))


@functools.cache
def world(env: str) -> Any:
    """Returns an environment, or RiverSwim-6 that changes half-way through the episode."""
    if env not in HALFWAY:
        return dc.envs.read(env)
    river = dc.envs.riverswim(states=6, horizon=20)
    P, r = (np.broadcast_to(x, (20, *x.shape[1:])).copy() for x in (river.transitions, river.rewards))
    if env in ("actions swapped", "transitions swapped"):
        P[10:] = P[10:, :, ::-1]
    if env in ("actions swapped", "rewards swapped"):
        r[10:] = r[10:, :, ::-1]
    if env == "reward moved":
        r[10:] = 0.0
        r[10:, 2, 1] = 1.0
    if env == "early reward":
        r[:10] = 0.0
        r[:10, 1, 0] = 0.5
    if env.endswith("current"):
        for s in range(1, 5):
            P[10:, s, 1] = 0.0
            P[10:, s, 1, s - 1 : s + 2] = (0.05, 0.25, 0.7) if env == "weaker current" else (0.25, 0.6, 0.15)
    return dc.TabularMDP(P, r, horizon=20, name=env)


def play(what: Job, seed: tuple[int, int]) -> float:
    """Returns the regret of one run."""
    mdp = world(what.env)
    options = dict(what.options)
    if what.settings:
        from discreet.agents.discreet.central import CentralLearner, Settings

        CentralLearner.settings = Settings(**dict(what.settings))
    try:
        privacy = dc.privacy.trust(what.trust, **dict(what.privacy))
        agent = dc.agents.make(
            what.agent, mdp.spec, episodes=what.episodes, privacy=privacy, seed=list(seed), **options
        )
        return float(dc.simulate(agent, mdp, seed=list(seed)).regret[-1])
    finally:
        if what.settings:
            CentralLearner.settings = Settings()


def never(env: str, episodes: int) -> float:
    """Returns the regret of acting at random to the end."""
    mdp = world(env)
    uniform = np.full((mdp.horizon, mdp.states, mdp.actions), 1 / mdp.actions)
    return float(episodes * (mdp.optimal_value - mdp.evaluate(uniform)))


class Bench:
    """Runs configurations, each once.

    Args:
        runs: Of each.
        seed: S.
        screen: Runs by which the best few of a grid are chosen.
        map: What does the work.
    """

    def __init__(self, runs: int, seed: int, screen: int, map: Callable[..., Iterable[float]]) -> None:  # noqa: A002
        self.runs, self.seed, self.screen, self._map = runs, seed, min(screen, runs), map
        self._found: dict[tuple[Job, int], float] = {}

    def regrets(self, jobs: Sequence[Job], runs: int | None = None) -> list[NDArray[np.float64]]:
        """Returns the regret of all runs of each configuration."""
        wanted = list(itertools.product(jobs, range(runs or self.runs)))
        todo = [pair for pair in dict.fromkeys(wanted) if pair not in self._found]
        seeds = [(self.seed, i) for _, i in todo]
        for (what, i), regret in zip(todo, self._map(play, [what for what, _ in todo], seeds), strict=True):
            self._found[what, i] = regret
            print(f"{what.env} {what.agent} {what.trust} {i}: {regret:,.0f}", file=sys.stderr, flush=True)
        return [np.array([self._found[what, i] for i in range(runs or self.runs)]) for what in jobs]

    def best(self, jobs: Sequence[Job]) -> tuple[Job, NDArray[np.float64]]:
        """Returns the best of a grid and all of its runs: the best few by the first runs, the best of these by all."""
        means = [found.mean() for found in self.regrets(jobs, self.screen)]
        few = [jobs[i] for i in np.argsort(means)[:FEW]]
        found = self.regrets(few)
        i = int(np.argmin([runs.mean() for runs in found]))
        return few[i], found[i]


def grid(env: str, trust: str, episodes: int, privacy: dict[str, Any], *, pooled: bool) -> list[Job]:
    """Returns DP-UCBVI at every bonus scale and update schedule; an update a user is tried on RiverSwim-6, pooled."""
    each = env.startswith(RIVERSWIM) and pooled
    schedules = [every for every in SCHEDULES[trust] if every != (20 if each else 1)]
    return [
        job(env, "dp-ucbvi", trust, episodes, privacy, stationary=pooled, bonus_scale=scale, update_every=every)
        for scale, every in itertools.product(SCALES[trust], schedules)
    ]


def number(values: NDArray[np.float64]) -> str:
    """Returns a mean ± its standard error."""
    if len(values) < 2:
        return f"{values.mean():,.0f}"
    return f"{values.mean():,.0f} ± {values.std(ddof=1) / math.sqrt(len(values)):,.0f}"


def at(what: Job) -> str:
    """Returns a scale and a schedule in words."""
    options = dict(what.options)
    return f"{options['bonus_scale']:g}, {options['update_every']}"


def table(*columns: str) -> None:
    """Prints the head of a table."""
    print("\n" + line(*columns) + "\n" + line(*["---"] * len(columns)), flush=True)


def line(*cells: str) -> str:
    """Returns a line of a table."""
    return "| " + " | ".join(cells) + " |"


def show(*cells: str) -> None:
    """Prints a line of a table."""
    print(line(*cells), flush=True)


def part_epsilon(bench: Bench, given: argparse.Namespace) -> None:
    """Regret against ε."""
    for env, trust in itertools.product(given.env, given.trust):
        K = given.episodes
        print(f"\n{env}, {trust}, {K:,} episodes; never learning costs {never(env, K):,.0f}.")
        table("ε", "counts", "papers' mechanism, sound", "(scale, schedule)", "`discreet-vi`", "no privacy")
        for pooled, epsilon in itertools.product(given.pooled, given.epsilon):
            asked = {"epsilon": epsilon}
            chosen, papers = bench.best(grid(env, trust, K, asked | PRINTED[trust], pooled=pooled))
            ours, free = bench.regrets(
                [
                    job(env, "discreet-vi", trust, K, asked | OURS[trust], stationary=pooled),
                    job(env, "ucbvi", "none", K, {}, stationary=pooled),
                ]
            )
            counts = "pooled" if pooled else "per step"
            show(f"{epsilon:g}", counts, number(papers), at(chosen), number(ours), number(free))


def part_ladder(bench: Bench, given: argparse.Namespace) -> None:
    """Improvements added one at a time, with a trusted server."""
    for env, epsilon, pooled in itertools.product(given.env, given.epsilon, given.pooled):
        K, counts = given.episodes, "pooled" if pooled else "per step"
        print(f"\n{env}, {counts}, ε = {epsilon:g}, {K:,} episodes; never learning costs {never(env, K):,.0f}.")
        table("", "regret", "(scale, schedule)")
        gaussian = {"epsilon": epsilon, "delta": DELTA}
        for name, privacy in {
            "papers' mechanism: Laplace tree": {"epsilon": epsilon} | PRINTED["central"],
            "Gaussian tree (δ = 1e-6)": gaussian | {"sum": "tree"},
            "factored sum": gaussian | {"sum": "factored"},
        }.items():
            chosen, found = bench.best(grid(env, "central", K, privacy, pooled=pooled))
            show(name, number(found), at(chosen))
        left = dict(BARE)
        for name, back in LADDER:
            left = {key: value for key, value in left.items() if key not in back}
            what = job(env, "discreet-vi", "central", K, gaussian, left, stationary=pooled)
            show(f"+ {name}", number(bench.regrets([what])[0]), "own")
        free = job(env, "ucbvi", "none", K, {}, stationary=pooled)
        same = job(env, "discreet-vi", "none", K, {}, stationary=pooled)
        for name, what in {"`ucbvi`, no privacy": free, "`discreet-vi`, no privacy": same}.items():
            show(name, number(bench.regrets([what])[0]), "own")


def part_ablation(bench: Bench, given: argparse.Namespace) -> None:
    """Each ingredient removed, or each constant changed, with a trusted server."""
    rows = ABLATION if given.part == "ablation" else CONSTANTS
    for env, epsilon, pooled in itertools.product(given.env, given.epsilon, given.pooled):
        K, counts = given.episodes, "pooled" if pooled else "per step"
        print(f"\n{env}, {counts}, ε = {epsilon:g}, δ = {DELTA:g}, {K:,} episodes, {bench.runs} paired runs.")
        table("without" if given.part == "ablation" else "with", "regret", "paired difference", "worst run")
        whole: NDArray[np.float64] | None = None
        for name, change in ({"the whole of it": {}} | rows).items():
            privacy = {"epsilon": epsilon, "delta": DELTA}
            found = bench.regrets([job(env, "discreet-vi", "central", K, privacy, change, stationary=pooled)])[0]
            whole = found if whole is None else whole
            change_ = f"{'+' if found.mean() >= whole.mean() else ''}{number(found - whole)}" if change else ""
            show(name, number(found), change_, f"{found.max():,.0f}")


def part_environments(bench: Bench, given: argparse.Namespace) -> None:
    """The same configuration everywhere."""
    for trust, epsilon, pooled in itertools.product(given.trust, given.epsilon, given.pooled):
        K, counts = given.episodes, "pooled" if pooled else "per step"
        print(f"\n{trust}, {counts}, ε = {epsilon:g}, {K:,} episodes, {bench.runs} paired runs.")
        table(
            "environment", "never learning", "papers', sound", "(scale, schedule)", "ours", "papers'", "never", "free"
        )
        for env in given.env:
            asked = {"epsilon": epsilon}
            chosen, papers = bench.best(grid(env, trust, K, asked | PRINTED[trust], pooled=pooled))
            ours, free = bench.regrets(
                [
                    job(env, "auto", trust, K, asked | OURS[trust], stationary=pooled),
                    job(env, "ucbvi", "none", K, {}, stationary=pooled),
                ]
            )
            shares = [f"1/{papers.mean() / ours.mean():.1f}", f"1/{never(env, K) / ours.mean():.1f}"]
            show(env, f"{never(env, K):,.0f}", number(papers), at(chosen), number(ours), *shares, number(free))


def part_sharing(bench: Bench, given: argparse.Namespace) -> None:
    """Per step: sharing steps, and not, where all steps are alike and where they change half-way."""
    for epsilon in given.epsilon:
        K = given.episodes
        print(f"\nper step, ε = {epsilon:g}, δ = {DELTA:g}, {K:,} episodes, {bench.runs} paired runs.")
        table("RiverSwim-6", "never learning", "steps share", "not", "paired difference", "ratio")
        privacy = {"epsilon": epsilon, "delta": DELTA}
        for env in given.env:
            one, two = bench.regrets(
                [job(env, "discreet-vi", "central", K, privacy, share_steps=share) for share in (True, False)]
            )
            ratio = f"{one.mean() / two.mean():.2f}"
            name = "all steps alike" if env == RIVERSWIM else env
            show(name, f"{never(env, K):,.0f}", number(one), number(two), number(one - two), ratio)


PARTS = {
    "epsilon": part_epsilon,
    "ladder": part_ladder,
    "ablation": part_ablation,
    "constants": part_ablation,
    "environments": part_environments,
    "sharing": part_sharing,
}


def parse() -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="epsilon")
    parser.add_argument("--env", nargs="+", help=f"{', '.join(ENVIRONMENTS)}, or any name[:key=value,…]")
    parser.add_argument("--epsilon", type=float, nargs="+", help="budgets; but for --part epsilon only 1 by default")
    parser.add_argument("--trust", nargs="+", choices=PRINTED, default=["central"])
    parser.add_argument("--counts", choices=("pooled", "steps", "both"), help="by default both for --part epsilon")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--screen", type=int, default=2, help="runs by which the best few of a grid are chosen")
    parser.add_argument("--episodes", "-K", type=int, default=EPISODES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    own = {"environments": [*ENVIRONMENTS], "sharing": ["riverswim-6", *HALFWAY]}
    given.env = [ENVIRONMENTS.get(name, name) for name in given.env or own.get(given.part, ["riverswim-6"])]
    given.epsilon = given.epsilon or (EPSILONS if given.part == "epsilon" else (1.0,))
    counts = given.counts or ("both" if given.part == "epsilon" else "pooled")
    given.pooled = {"pooled": (True,), "steps": (False,), "both": (True, False)}[counts]
    return given


def main() -> None:
    """Prints the tables of a part."""
    given = parse()
    if given.jobs == 1:
        PARTS[given.part](Bench(given.runs, given.seed, given.screen, map), given)
        return
    with ProcessPoolExecutor(given.jobs) as pool:
        PARTS[given.part](Bench(given.runs, given.seed, given.screen, pool.map), given)


if __name__ == "__main__":
    main()

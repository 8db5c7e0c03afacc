"""Agents whose noise may be released."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.noise.fast import FastSource
from discreet.noise.secure import SecureSource

RIVER = dc.envs.riverswim(states=6, horizon=20)
SMALL = dc.envs.riverswim(states=3, horizon=3)

#: Agents, trust models and options that secure noise is built for, at RiverSwim-6's sizes.
CASES = {
    "central counts, Laplace": ("dp-ucbvi", dc.Central(1.0, noise="secure"), {}),
    "central counts, Gaussian": ("dp-ucbvi", dc.Central(1.0, 1e-6, noise="secure"), {}),
    "central counts, factored": ("pucb", dc.Central(1.0, 1e-6, sum="factored", noise="secure"), {}),
    "central counts, tree": ("private-ucb-vi", dc.Central(1.0, 1e-6, sum="tree", noise="secure"), {}),
    "central counts, batch": ("private-ucb-po", dc.Central(1.0, sum="batch", noise="secure"), {"update_every": 500}),
    "derived visits": ("dp-ucbvi", dc.Central(1.0, 1e-6, release="mr", noise="secure"), {"stationary": True}),
    "weighted counts": ("discreet-vi", dc.Central(1.0, 1e-6, noise="secure"), {"stationary": True}),
    "weighted counts, shared": ("auto", dc.Central(1.0, 1e-6, noise="secure"), {}),
    "staged, central": ("sdp-pe", dc.Central(1.0, 1e-6, noise="secure"), {"stationary": True}),
    "staged, shuffle": ("sdp-pe", dc.Shuffle(1.0, 1e-6, noise="secure"), {"stationary": True}),
    "shuffled counts": ("dp-ucbvi", dc.Shuffle(1.0, 1e-6, noise="secure"), {"stationary": True}),
    "first visits": ("discreet-vi", dc.Shuffle(1.0, 1e-6, noise="secure"), {"stationary": True}),
    "local Laplace": ("dp-ucbvi", dc.Local(1.0, sum="laplace", noise="secure"), {}),
    "local Gaussian": ("dp-ucbvi", dc.Local(1.0, 1e-6, sum="gaussian", noise="secure"), {}),
    "sampled": ("dp-ucbvi", dc.Local(1.0, sum="sampled", noise="secure"), {"stationary": True}),
    "questions": ("discreet-vi", dc.Local(1.0, noise="secure"), {"stationary": True}),
    "rlsvi, tight": ("rlsvi", dc.Central(1.0, 1e-6, noise="secure"), {}),
    "rlsvi, individual": ("rlsvi", dc.Central(1.0, 1e-6, noise="secure"), {"accounting": "individual"}),
    "rlsvi, paper": ("rlsvi", dc.Central(1.0, 1e-6, noise="secure"), {"accounting": "paper"}),
}


def made(case: str, mdp: dc.TabularMDP = SMALL, episodes: int = 60, **more: object):
    """Returns the agent of a case."""
    name, privacy, options = CASES[case]
    given = {**options, **more}
    if mdp is SMALL and "update_every" in given:
        given["update_every"] = 10
    return dc.agents.make(name, mdp.spec, episodes=episodes, privacy=privacy, seed=0, **given)


@pytest.mark.parametrize("case", CASES)
def test_what_is_proven_is_the_budget(case: str) -> None:
    """Catches noise that is too small in its own units, or much too large, and a guarantee that says the wrong kind."""
    found = made(case, RIVER, 5000).guarantee
    assert 0.999 <= found.epsilon <= 1.0
    assert found.noise == "secure"
    assert "simulation" not in str(found)


@pytest.mark.parametrize("case", CASES)
def test_agents_learn_save_and_go_on(case: str, tmp_path) -> None:
    """Catches a part that draws fast noise (secure sources refuse it), and a state that a hand-over loses."""
    agent = made(case)
    assert {type(source) for source in agent.sources.values()} == {SecureSource}
    dc.simulate(agent, SMALL, episodes=31, seed=1)
    agent.save(tmp_path / "agent")
    agent = dc.agents.load(tmp_path / "agent")
    assert {type(source) for source in agent.sources.values()} == {SecureSource}
    result = dc.simulate(agent, SMALL, seed=1)
    assert result.guarantee.noise == "secure"
    assert np.isfinite(result.gaps).all()


@pytest.mark.parametrize("case", ["central counts, Laplace", "weighted counts", "rlsvi, tight"])
def test_a_seed_repeats_no_noise(case: str) -> None:
    """Catches noise that follows from a seed: two agents with one seed would release the same."""
    seen = []
    for _ in range(2):
        agent, released = made(case, episodes=600), []
        agent.on_release = lambda found, policy, count, kept=released: kept.append(found)
        dc.simulate(agent, SMALL, seed=1)
        assert released
        seen.append(repr([vars(found) for found in released]))
    assert seen[0] != seen[1]


@pytest.mark.parametrize("case", CASES)
def test_fast_sources_cannot_take_the_place_of_secure_ones(case: str) -> None:
    """Catches a fall-back: a mechanism of integers that is given a fast source must not release anything."""
    agent = made(case, episodes=600)
    secure = agent.sources
    agent.sources = {role: FastSource(np.random.default_rng(0)) for role in secure}
    agent.privatizer.source = FastSource(np.random.default_rng(0))
    if agent.mechanism.name in ("binomial", "sampled", "questions"):
        assert agent.guarantee.noise == "fast"  # bits are bits: the guarantee says whose
        return
    with pytest.raises(ValueError, match="SecureSource"):
        dc.simulate(agent, SMALL, seed=1)


def test_linear_agents_take_secure_noise() -> None:
    """Catches feature products that are not put on their grid."""
    mdp = dc.envs.linear_mixture(horizon=3)
    for name in ("linopt-vi", "linopt-po"):
        for privacy in (dc.Central(1.0, 1e-6, noise="secure"), dc.Local(1.0, 1e-6, noise="secure")):
            agent = dc.agents.make(name, mdp.spec, episodes=20, privacy=privacy, seed=0)
            assert 0.999 <= agent.guarantee.epsilon <= 1.0
            assert dc.simulate(agent, mdp, seed=0).guarantee.noise == "secure"


def test_parts_that_are_not_exact_are_named() -> None:
    """Catches a printed calibration that has no integers."""
    mdp = dc.envs.linear_mixture(horizon=3)
    privacy = dc.Central(1.0, 1e-6, calibration="paper", noise="secure")
    with pytest.raises(ValueError, match="noise='secure' is for calibration='sound'"):
        dc.agents.make("linopt-vi", mdp.spec, episodes=20, privacy=privacy)


_LAW = {
    "weighted counts": (3000, 10),
    "first visits": (2000, 10),
    "questions": (20_000, 10),
    "central counts, Gaussian": (3000, 10),
    "rlsvi, tight": (3000, 10),
    "staged, central": (3000, 10),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", _LAW)
def test_regret_has_the_law_of_fast_noise(case: str) -> None:
    """Catches noise of another size: regret with secure and with fast noise agree, within four standard errors."""
    from dataclasses import replace

    name, privacy, options = CASES[case]
    episodes, runs = _LAW[case]
    means, variances = [], []
    for kind in ("fast", "secure"):
        regrets = []
        for i in range(runs):
            agent = dc.agents.make(
                name,
                RIVER.spec,
                episodes=episodes,
                privacy=replace(privacy, epsilon=3.0, noise=kind),
                seed=[7, i],
                **{"update_every": 50, **options} if name == "dp-ucbvi" else options,
            )
            regrets.append(dc.simulate(agent, RIVER, seed=[8, i]).regret[-1])
        means.append(np.mean(regrets))
        variances.append(np.var(regrets, ddof=1) / runs)
    assert abs(means[0] - means[1]) <= 4 * np.sqrt(sum(variances)) + 1e-9


@pytest.mark.parametrize("case", ["central counts, Gaussian", "weighted counts", "staged, central"])
def test_short_cuts_keep_what_the_protocol_keeps(case: str) -> None:
    """Catches rewards that a short cut does not round as people do: the first batch's totals are the same."""
    totals = []
    for block in (True, False):
        agent, kept = made(case, episodes=600), []
        size, right = agent.batch_size, agent.mechanism.released
        agent.mechanism.released = lambda state, source, kept=kept, right=right: (
            kept.append(state) or right(state, source)
        )
        dc.simulate(agent, SMALL, episodes=size, seed=1, block=block)
        state = kept[0].part if hasattr(kept[0], "part") else kept[0]
        assert state.total.dtype == np.int64
        totals.append(state.total)
    np.testing.assert_array_equal(*totals)


@pytest.mark.parametrize("case", CASES)
def test_worlds_smaller_than_an_episode(case: str) -> None:
    """Catches people who are refused because they are in one cell again and again: more steps than cells."""
    rewards, transitions = np.full((9, 1, 2), 0.3), np.ones((9, 1, 2, 1))
    bandit = dc.TabularMDP(transitions, rewards)
    agent = made(case, bandit, 40, **({"update_every": 10} if case == "central counts, batch" else {}))
    assert np.isfinite(dc.simulate(agent, bandit, seed=0).gaps).all()


@pytest.mark.parametrize("case", ["rlsvi, tight", "local Laplace", "central counts, Laplace", "weighted counts"])
def test_reports_off_the_grid_are_refused(case: str) -> None:
    """Catches a server that rounds for people, or lets through what the account does not allow for."""
    from dataclasses import replace

    from discreet.errors import InvalidPersonalData

    agent = made(case, episodes=600)
    trajectory = SMALL.sample(agent.policy, np.random.default_rng(0))
    report = agent.encoder.encode(trajectory, SecureSource())
    agent.mechanism.check(report, agent.encoder)
    values = report.values.copy()
    values[-1] = np.nextafter(values[-1], 0.5)
    with pytest.raises(InvalidPersonalData, match=r"2\^-|multiples"):
        agent.mechanism.check(replace(report, values=values), agent.encoder)


def _world(states: int, actions: int, horizon: int) -> dc.TabularMDP:
    """Returns a small world whose rewards are the ends of their range, and next to them."""
    rng = np.random.default_rng(3)
    rewards = rng.choice([0.0, 5e-324, 2.0**-60, 0.3, 1 - 2.0**-53, 1.0], size=(horizon, states, actions))
    return dc.TabularMDP(rng.dirichlet(np.ones(states), size=(horizon, states, actions)), rewards)


_ODD = [(1, 1, 1), (1, 1, 7), (2, 1, 1), (5, 1, 2), (2, 2, 40)]


@pytest.mark.parametrize("budget", [(1.0, 1e-12), (1e-3, 1e-6), (20.0, 1e-6)])
@pytest.mark.parametrize("case", CASES)
def test_odd_sizes(case: str, budget: tuple[float, float]) -> None:
    """Catches honest people who are refused, and budgets that are missed, at the ends of all ranges."""
    from dataclasses import replace

    name, privacy, options = CASES[case]
    shuffled = isinstance(privacy, dc.Shuffle)
    if shuffled and budget[0] != 1:
        return  # of less, billions of noise bits: refused by name, see below; of more, they take long to calibrate
    for sizes in _ODD[: 2 if shuffled else 5]:
        mdp = _world(*sizes)
        for episodes in (1, 9) if name != "sdp-pe" else (2 * int(np.prod(sizes)),):
            asked = replace(privacy, epsilon=budget[0], delta=privacy.delta and budget[1])
            given = {**options, "update_every": episodes} if "update_every" in options else options
            agent = dc.agents.make(name, mdp.spec, episodes=episodes, privacy=asked, seed=0, **given)
            assert 0.999 * budget[0] <= agent.guarantee.epsilon <= budget[0]
            assert np.isfinite(dc.simulate(agent, mdp, seed=0).gaps).all()


def test_many_people_and_little_privacy() -> None:
    """Catches grids that have no room for large noise: 2^24 people, all of them counted at once or one by one."""
    for case in ("weighted counts", "weighted counts, shared", "central counts, factored", "central counts, tree"):
        name, privacy, options = CASES[case]
        for epsilon in (1e-3, 0.1):
            for every in (1, "geometric"):
                asked = dc.Central(epsilon, 1e-12, sum=privacy.sum, noise="secure")
                given = {**options, "update_every": every}
                found = dc.agents.make(name, RIVER.spec, episodes=2**24, privacy=asked, seed=0, **given).guarantee
                assert 0.999 * epsilon <= found.epsilon <= epsilon


def test_more_noise_bits_than_memory_are_refused() -> None:
    """Catches a device that is asked for billions of bits, and dies of it."""
    for name in ("dp-ucbvi", "discreet-vi"):
        with pytest.raises(ValueError, match=r"messages|too large"):
            dc.agents.make(name, SMALL.spec, episodes=7, privacy=dc.Shuffle(1e-3, 1e-6, noise="secure"), seed=0)


def test_budgets_that_rounding_alone_exceeds_are_refused() -> None:
    """Catches a root of a negative number, squared: ε was eight times the budget."""
    spec = _world(1, 1, 100).spec
    for accounting in ("paper", "tight", "individual"):
        with pytest.raises(ValueError, match="epsilon is too small"):
            dc.agents.make(
                "rlsvi",
                spec,
                episodes=2**20,
                privacy=dc.Central(1e-6, 1e-12, noise="secure"),
                accounting=accounting,
                seed=0,
            )


@pytest.mark.parametrize("case", ["central counts, Gaussian", "derived visits", "local Laplace"])
def test_errors_cover_rewards_that_people_round_down(case: str) -> None:
    """Catches a bound on the noise alone: pooled, a person rounds H rewards, each by almost a unit."""
    found = {}
    for kind in ("fast", "secure"):
        name, privacy, options = CASES[case]
        from dataclasses import replace

        agent = dc.agents.make(name, RIVER.spec, episodes=5000, privacy=replace(privacy, noise=kind), seed=0, **options)
        found[kind] = agent.mechanism
    layout, secure = found["secure"].layout, found["secure"]
    unit = secure.encoder.exact.unit if "local" in case else 2.0**-secure.sum.fine
    assert secure.error - found["fast"].error >= 5000 * layout.shift * unit * 0.99
    assert secure.error < found["fast"].error * 1.01


def test_a_batch_whose_noise_runs_over_can_be_observed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches people who are counted although nothing was released, or lost although they came."""
    agent = made("central counts, factored")
    trajectory = SMALL.sample(agent.policy, np.random.default_rng(0))
    batch = agent.shuffler([agent.encoder.encode(trajectory, SecureSource())], SecureSource())
    with monkeypatch.context() as patched:
        patched.setattr(SecureSource, "integers", lambda *_, **__: np.full(agent.mechanism.sum.size, 2**61))
        with pytest.raises(OverflowError, match="nothing was released"):
            agent.observe(batch)
    assert (agent.count, agent.privatizer.version) == (0, 0)
    agent.observe(batch)
    assert (agent.count, agent.privatizer.version) == (1, 1)

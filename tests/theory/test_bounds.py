"""The bounds against their printed formulas: values worked out by hand, exponents, and lower below upper."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest

import discreet as dc
from discreet import theory

SIZES = {"states": 6, "actions": 2, "horizon": 20}
LINEAR = {"dimension": 4, "horizon": 5, "delta": 1e-6, "failure": 0.01}
REGRETS = {  # every regret bound, with all but episodes and epsilon given
    "pucb_regret": SIZES,
    "dp_ucbvi_regret": SIZES,
    "private_ucb_vi_regret": SIZES,
    "private_ucb_po_regret": SIZES,
    "sdp_pe_regret": SIZES,
    "linopt_vi_regret": LINEAR,
    "linopt_po_regret": LINEAR | {"actions": 3},
    "regret_lower": SIZES,
}
LOCAL = ("dp_ucbvi_regret", "private_ucb_vi_regret", "private_ucb_po_regret")
GRID = [
    {"states": S, "actions": A, "horizon": H}
    for S, A, H in itertools.product((1, 2, 3, 6, 40, 500), (1, 2, 5, 30), (1, 2, 5, 20, 100))
]
EPSILONS = np.array([1e-3, 0.1, 1.0, 8.0, 100.0, math.inf])[:, None]
EPISODES = np.logspace(0, 10, 41)
ROUNDING = 1 + 1e-9


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        # S = 3, A = 2, H = 4, K = 600 (T = 2400): SA = 6, S²A = 18, H³ = 64; α = 1/2, ε = 1/4.
        ("pucb_pac", {"alpha": 0.5, "epsilon": 0.25}, 6 * 256 * 4 + 18 * 256 * 8),
        ("pucb_regret", {"episodes": 600, "epsilon": 0.25}, 16 * 60 + (6 * 64 + 18 * 64) * 4),
        ("dp_ucbvi_regret", {"episodes": 600, "epsilon": 0.25}, 480 + 18 * 64 * 4),
        ("dp_ucbvi_regret", {"episodes": 600, "epsilon": 0.25, "trust": "local"}, 480 + 18 * 64 * 600**0.5 * 4),
        ("private_ucb_vi_regret", {"episodes": 600, "epsilon": 0.25}, 960 + 18 * 64 * 4),
        ("private_ucb_vi_regret", {"episodes": 600, "epsilon": 0.25, "trust": "local"}, 960 + 4608 * 600**0.5),
        ("private_ucb_po_regret", {"episodes": 600, "epsilon": 0.25}, 960 * 3**0.5 + 4608),
        (
            "private_ucb_po_regret",
            {"episodes": 1200, "epsilon": 1, "trust": "local"},
            16 * 21600**0.5 + 1152 * 1200**0.5,
        ),
        ("sdp_pe_regret", {"episodes": 800, "epsilon": 0.25}, 32 * 120 + 27 * 4 * 4096 * 4),
        ("rlsvi_regret", {"episodes": 600}, 64 * 27**0.5 * 1200**0.5),
        ("minimax_regret_lower", {"episodes": 600}, 480),
        ("regret_lower", {"episodes": 600, "epsilon": 0.25}, 14400**0.5 + 24 * math.log(600) * 4),
        ("pac_lower", {"alpha": 0.5, "epsilon": 0.25, "failure": 0.1}, 6 * 16 * 4 + 24 * 8 * math.log(10)),
    ],
)
def test_tabular_values_at_a_point(name, arguments, value):
    found = getattr(theory, name)(states=3, actions=2, horizon=4, **arguments)
    assert isinstance(found, float)
    assert found == pytest.approx(value, rel=1e-12)


def test_linear_values_at_a_point():
    """Would catch K for T, β for δ in a logarithm, and eq. (5)'s logarithm outside the root."""
    d, H, K, epsilon, delta, beta = 16, 4, 100, 0.25, 1e-5, 0.02  # d^(7/4) = 128, T = 400
    first = 16 * 20 * 8 * math.log(400 / 0.02)
    second = math.log(4 / 1e-5) ** 0.25 * 2 * 128 * 20 * 16 * math.log(400) * math.log(400 / 0.02) ** 0.25
    arguments = {"dimension": d, "horizon": H, "episodes": K, "epsilon": epsilon, "delta": delta, "failure": beta}
    assert theory.linopt_vi_regret(**arguments) == pytest.approx(first + second, rel=1e-12)
    third = 20 * 8 * math.log(9) ** 0.5
    assert theory.linopt_po_regret(actions=9, **arguments) == pytest.approx(first + second + third, rel=1e-12)
    assert theory.linopt_po_regret(actions=1, **arguments) == theory.linopt_vi_regret(**arguments)


def test_the_explicit_bound_at_a_point():
    """All three terms of eq. (75), ι squared in the last two and inside the root of the first."""
    S, A, H, K, E, beta = 3, 2, 4, 600, 7.0, 0.05
    T = K * H
    iota = math.log(30 * H * S * A * T / beta)
    value = 1000 * (math.sqrt(H**2 * S * A * T * iota**2) + H**2 * S**2 * A * E * iota**2 + H**3 * S**2 * A * iota**2)
    found = theory.dp_ucbvi_regret_explicit(states=S, actions=A, horizon=H, episodes=K, error=E, failure=beta)
    assert found == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "trust", "nonprivate", "private"),
    [  # exponents of (S, A, H, K) in the two terms
        ("pucb_regret", None, (0.5, 0.5, 2, 0.5), None),  # S + S² is no power
        ("dp_ucbvi_regret", "central", (0.5, 0.5, 1.5, 0.5), (2, 1, 3, 0)),
        ("dp_ucbvi_regret", "local", (0.5, 0.5, 1.5, 0.5), (2, 1, 3, 0.5)),
        ("private_ucb_vi_regret", "central", (0.5, 0.5, 2, 0.5), (2, 1, 3, 0)),
        ("private_ucb_vi_regret", "local", (0.5, 0.5, 2, 0.5), (2, 1, 3, 0.5)),
        ("private_ucb_po_regret", "central", (1, 0.5, 2, 0.5), (2, 1, 3, 0)),
        ("private_ucb_po_regret", "local", (1, 0.5, 2, 0.5), (2, 1, 3, 0.5)),
        ("sdp_pe_regret", None, (1, 0.5, 2.5, 0.5), (3, 2, 6, 0)),
    ],
)
def test_doubling_a_size_scales_each_term_by_its_exponent(name, trust, nonprivate, private):
    """The terms are told apart by ε: infinite leaves the first, and the second goes with 1/ε."""
    arguments = SIZES | {"episodes": 1000} | ({"trust": trust} if trust else {})
    bound = getattr(theory, name)

    def terms(**changed):
        first = bound(epsilon=math.inf, **(arguments | changed))
        second = bound(epsilon=0.5, **(arguments | changed)) - first
        assert bound(epsilon=0.25, **(arguments | changed)) - first == pytest.approx(2 * second)
        return first, second

    base = terms()
    for i, size in enumerate(("states", "actions", "horizon", "episodes")):
        doubled = terms(**{size: 2 * arguments[size]})
        assert math.log2(doubled[0] / base[0]) == pytest.approx(nonprivate[i])
        if private:
            assert math.log2(doubled[1] / base[1]) == pytest.approx(private[i])


def test_doubling_alpha_and_epsilon_in_the_pac_bounds():
    for bound in (theory.pucb_pac, theory.pac_lower):
        first = bound(alpha=1.0, epsilon=math.inf, **SIZES)
        assert bound(alpha=2.0, epsilon=math.inf, **SIZES) == pytest.approx(first / 4)
        second = bound(alpha=1.0, epsilon=1.0, **SIZES) - first
        assert bound(alpha=2.0, epsilon=1.0, **SIZES) == pytest.approx(first / 4 + second / 2)
        assert bound(alpha=1.0, epsilon=2.0, **SIZES) == pytest.approx(first + second / 2)


def test_the_linear_bounds_lose_only_the_root_of_epsilon():
    first, at_1, at_4 = (theory.linopt_vi_regret(episodes=500, epsilon=e, **LINEAR) for e in (math.inf, 1.0, 4.0))
    assert at_1 - first == pytest.approx(2 * (at_4 - first))


def test_privacy_is_free_from_the_epsilon_of_the_abstract_on():
    """At ε = S^1.5·A^0.5·H²/√T the two terms of DP-UCBVI's central bound are equal."""
    S, A, H, K = 6, 2, 20, 50_000
    epsilon = S**1.5 * A**0.5 * H**2 / math.sqrt(K * H)
    both = theory.dp_ucbvi_regret(episodes=K, epsilon=epsilon, **SIZES)
    assert both == pytest.approx(2 * theory.dp_ucbvi_regret(episodes=K, epsilon=math.inf, **SIZES))


def test_the_local_cost_is_the_central_one_with_the_error_of_local_counts():
    """E is H/ε centrally and H√K/ε locally, so the private terms differ by √K."""
    for name in LOCAL:
        bound = getattr(theory, name)
        first = bound(episodes=EPISODES, epsilon=math.inf, **SIZES)
        central = bound(episodes=EPISODES, epsilon=1.0, **SIZES) - first
        local = bound(episodes=EPISODES, epsilon=1.0, trust="local", **SIZES) - first
        np.testing.assert_allclose(local, central * np.sqrt(EPISODES), rtol=1e-6)


def test_regret_lower_bounds_stay_below_the_upper_ones():
    """Without logarithms on either side. Would catch T read as steps on one side only, or a lost power of H.

    The printed lower bound keeps ln K where the upper ones drop their logarithms; with it, it may exceed them (below).
    """
    for size in GRID:
        K = EPISODES[size["states"] ** 1.1 <= EPISODES]
        nonprivate = theory.regret_lower(episodes=K, epsilon=math.inf, **size)
        lower = theory.regret_lower(episodes=K, epsilon=EPSILONS, **size)
        private = (lower - nonprivate) / np.maximum(np.log(K), 1)
        minimax = theory.minimax_regret_lower(episodes=K, **size)
        assert (nonprivate <= minimax * ROUNDING).all(), size
        runs = size | {"episodes": K, "epsilon": EPSILONS}
        assert (minimax + private <= theory.pucb_regret(**runs) * ROUNDING).all(), size
        for name in LOCAL:
            assert (minimax + private <= getattr(theory, name)(**runs) * ROUNDING).all(), (name, size)
            local = getattr(theory, name)(trust="local", **runs)
            assert (minimax + lower - nonprivate <= local * ROUNDING).all(), (name, size)  # √K pays for ln K
        # Shuffle privacy has δ > 0, RLSVI no ε: only the non-private bound speaks of them.
        assert (minimax <= theory.sdp_pe_regret(**runs) * ROUNDING).all(), size
        assert (minimax <= theory.rlsvi_regret(episodes=K, **size) * ROUNDING).all(), size


def test_pac_lower_bounds_stay_below_the_upper_one():
    """Without ln(1/β), which the upper bound drops; the one with all constants lies below either way."""
    for size in GRID:
        H, S = size["horizon"], size["states"]
        at = {"alpha": np.logspace(-6, 0, 25) * H, "epsilon": EPSILONS}
        nonprivate = theory.pac_lower(**size, **(at | {"epsilon": math.inf}))
        private = (theory.pac_lower(failure=0.05, **size, **at) - nonprivate) / math.log(1 / 0.05)
        assert (nonprivate + private <= theory.pucb_pac(**size, **at) * ROUNDING).all(), size
        if S > 2:
            at["alpha"] = at["alpha"][at["alpha"] <= H / 28]
            hard = theory.hard_lower(bandits=S - 2, actions=size["actions"], horizon=H, failure=0.05, **at)
            assert (hard <= theory.pac_lower(failure=0.05, **size, **at)).all(), size
            assert (hard <= theory.pucb_pac(**size, **at)).all(), size


def test_dropped_logarithms_can_put_a_lower_bound_above_an_upper_one():
    """What the docstring warns of, so that nobody takes the heights of these curves for proven."""
    tiny = {"states": 1, "actions": 2, "horizon": 1}
    assert theory.pac_lower(alpha=0.5, epsilon=0.01, **tiny) > theory.pucb_pac(alpha=0.5, epsilon=0.01, **tiny)
    run = {"episodes": 1000, "epsilon": 0.001}
    assert theory.regret_lower(**tiny, **run) > theory.pucb_regret(**tiny, **run)


def test_bandit_and_hard_values_at_a_point():
    assert theory.bandit_lower(gap=0.1, epsilon=0.5, failure=0.05) == pytest.approx(math.log(5) / 1.2)
    found = theory.hard_lower(bandits=9, actions=4, horizon=7, alpha=0.25, epsilon=0.5, failure=0.1)
    assert found == pytest.approx(7 * 9 * 3 / (336 * 0.5 * 0.25) * math.log(7 / 6.4))


@pytest.mark.parametrize("beta", [1e-9, 0.01, 0.05, 0.12])
def test_the_hard_bound_is_the_cheapest_way_to_share_failures_among_bandits(beta, rng):
    """The last step of Lemma 10's proof: n bandits may fail with probabilities that add up to n(1 − φ(1−β)).

    Would catch a wrong constant (336 = 24·14), S for n, and a β that is not spread evenly.
    """
    n, A, H, alpha, epsilon, phi = 5, 3, 10, 0.2, 0.7, 6 / 7
    hard = theory.hard_lower(bandits=n, actions=A, horizon=H, alpha=alpha, epsilon=epsilon, failure=beta)
    share = 1 - phi * (1 - beta)
    gap = 14 * alpha / H
    even = n * (A - 1) * theory.bandit_lower(gap=gap, epsilon=epsilon, failure=share)
    assert hard == pytest.approx(even, rel=1e-9)
    for failures in np.minimum(rng.dirichlet(np.ones(n), size=500) * n * share, 1):
        pulls = [theory.bandit_lower(gap=gap, epsilon=epsilon, failure=f) for f in failures if 0 < f < 1 / 4]
        assert (A - 1) * sum(pulls) >= hard * (1 - 1e-9)


def test_the_hard_mdps_are_those_of_the_environment():
    """gap = 14α/H: a policy that is wrong in one state of seven loses exactly α, in two of seven more.

    Would catch rewards of H − 1 an episode (Appendix C.4) where the bound counts H (Section 6.2).
    """
    alpha, H, n = 0.3, 12, 7
    mdp = dc.envs.hard(bandits=n, actions=3, horizon=H, gap=14 * alpha / H, best=1)
    policy = np.ones((H, n + 2), dtype=np.int64)
    assert mdp.optimal_value - mdp.evaluate(policy) == pytest.approx(0)
    policy[0, 0] = 0
    assert mdp.optimal_value - mdp.evaluate(policy) == pytest.approx(alpha)
    policy[0, 1] = 0
    assert mdp.optimal_value - mdp.evaluate(policy) == pytest.approx(2 * alpha)
    assert dc.envs.hard(bandits=1, horizon=H, gap=14 * (H / 28) / H).spec.states == 3  # the largest α allowed


def test_less_privacy_and_less_precision_never_cost_more():
    epsilons = np.logspace(-3, 3, 50)
    for name, arguments in REGRETS.items():
        assert (np.diff(getattr(theory, name)(episodes=1000, epsilon=epsilons, **arguments)) < 0).all(), name
    alphas = np.linspace(0.01, 20, 50)
    for bound in (theory.pucb_pac, theory.pac_lower):
        assert (np.diff(bound(alpha=alphas, epsilon=1.0, **SIZES)) < 0).all()
        assert (np.diff(bound(alpha=1.0, epsilon=epsilons, **SIZES)) < 0).all()
    hard = {"bandits": 4, "actions": 3, "horizon": 20}
    assert (np.diff(theory.hard_lower(alpha=alphas[alphas < 20 / 28], epsilon=1.0, **hard)) < 0).all()
    assert (np.diff(theory.bandit_lower(gap=np.linspace(0.1, 1, 9), epsilon=1.0)) < 0).all()


def test_the_growth_with_confidence_that_is_stated_and_the_one_that_is_proven():
    """Theorem 5 has ln(1/β); its proof ends in ln(7/(4 + 24β)), at most ln(7/4) and 0 at β = 1/8."""
    stated = [theory.pac_lower(alpha=0.1, epsilon=1e-3, failure=b, **SIZES) for b in (1e-3, 1e-6)]
    assert stated[1] / stated[0] == pytest.approx(2, rel=0.05)
    hard = {"bandits": 4, "actions": 2, "horizon": 20, "alpha": 0.1, "epsilon": 1e-3}
    proven = [theory.hard_lower(failure=b, **hard) for b in (1e-3, 1e-6, 1e-12)]
    limit = 20 * 4 / (336 * 1e-4) * math.log(7 / 4)
    assert proven[0] < proven[1] < proven[2] < limit < 1.02 * proven[0]
    assert theory.pac_lower(alpha=0.1, epsilon=1e-3, failure=0.125 - 1e-12, **SIZES) < stated[0]
    assert theory.hard_lower(failure=0.125 - 1e-12, **hard) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", REGRETS)
def test_arrays_broadcast_and_equal_their_elements(name):
    bound, arguments = getattr(theory, name), REGRETS[name]
    K, epsilon = [10, 100, 1000], np.array([[0.5], [2.0]])
    table = bound(episodes=K, epsilon=epsilon, **arguments)
    assert table.shape == (2, 3)
    assert table.dtype == np.float64
    for (i, e), (j, k) in itertools.product(enumerate(epsilon[:, 0]), enumerate(K)):
        one = bound(episodes=k, epsilon=e, **arguments)
        assert type(one) is float
        assert table[i, j] == pytest.approx(one, rel=1e-14)


def test_the_regret_lower_bound_is_silent_below_its_first_episode():
    K = np.arange(1, 31)
    found = theory.regret_lower(states=10, actions=2, horizon=3, episodes=K, epsilon=1.0)
    np.testing.assert_array_equal(np.isnan(found), K < 10**1.1)


def test_integers_do_not_overflow():
    """S³A²H⁶ is beyond 64 bits; episodes may come as a small integer type."""
    found = theory.sdp_pe_regret(states=10**4, actions=10**3, horizon=10**4, episodes=np.int32(10**9), epsilon=1.0)
    assert found == pytest.approx(1e42, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("pucb_regret", {"epsilon": 0}, r"epsilon=0\b"),
        ("pucb_regret", {"epsilon": -1.5}, "epsilon=-1.5"),
        ("pucb_regret", {"epsilon": np.array([1.0, math.nan])}, "epsilon=nan"),
        ("pucb_regret", {"epsilon": "one"}, "epsilon='one'"),
        ("pucb_regret", {"epsilon": True}, "epsilon=True"),
        ("pucb_regret", {"epsilon": [[1], [1, 2]]}, "epsilon="),
        ("pucb_regret", {"episodes": [10, 0.5]}, "episodes=0.5"),
        ("pucb_regret", {"episodes": math.inf}, "episodes=inf"),
        ("pucb_regret", {"states": 0}, "states=0"),
        ("pucb_regret", {"horizon": 2.5}, "horizon=2.5"),
        ("dp_ucbvi_regret", {"trust": "shuffle"}, "shuffle.*central, local"),
        ("dp_ucbvi_regret_explicit", {"error": 0.0}, r"error=0\.0"),
        ("dp_ucbvi_regret_explicit", {"failure": 1.0}, r"failure=1\.0"),
        ("linopt_vi_regret", {"delta": 0.0}, r"delta=0\.0"),
        ("linopt_po_regret", {"actions": 0}, "actions=0"),
        ("pucb_pac", {"alpha": 20.5}, r"at most 20, got alpha=20\.5"),
        ("pac_lower", {"failure": 0.125}, r"failure=0\.125"),
        ("bandit_lower", {"failure": 0.25}, r"failure=0\.25"),
        ("bandit_lower", {"gap": 1.1}, r"gap=1\.1"),
        ("hard_lower", {"alpha": 0.75}, r"alpha=0\.75"),  # 20/28 is 0.714
        ("hard_lower", {"failure": 0.125}, r"failure=0\.125"),
        ("hard_lower", {"bandits": 0}, "bandits=0"),
    ],
)
def test_bad_input_is_named(name, arguments, message):
    good = SIZES | LINEAR | {"horizon": 20, "episodes": 100, "epsilon": 1.0, "error": 1.0, "alpha": 0.5, "gap": 0.1}
    good |= {"bandits": 3}
    bound = getattr(theory, name)
    known = {key: value for key, value in (good | arguments).items() if key in inspect.signature(bound).parameters}
    with pytest.raises(dc.errors.InvalidInput, match=message):
        bound(**known)


def test_every_bound_names_its_source_and_takes_keywords_only():
    for name in theory.__all__:
        bound = getattr(theory, name)
        assert "References:" in bound.__doc__, name
        assert {p.kind for p in inspect.signature(bound).parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
        assert f"`{name}`" in theory.__doc__, name

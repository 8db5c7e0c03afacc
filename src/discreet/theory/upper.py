"""Upper bounds: what each agent is proven to need.

Notation: S, A, H, K, ε, α as in the package's docstring, T = KH. Unless a function says otherwise, constants are
1 and logarithms are dropped. All but `pucb_pac` bound the regret of K episodes.

Those said to hold with probability 1 − β have β in a logarithm. They are about the papers' own noise and constants,
the preset ``theory``; another calibration or sum changes the private term by a constant or a logarithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discreet.errors import UnknownName, check_fraction
from discreet.theory._arguments import Bound, as_bound, check_episodes, check_sizes, check_swept

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "dp_ucbvi_regret",
    "dp_ucbvi_regret_explicit",
    "linopt_po_regret",
    "linopt_vi_regret",
    "private_ucb_po_regret",
    "private_ucb_vi_regret",
    "pucb_pac",
    "pucb_regret",
    "rlsvi_regret",
    "sdp_pe_regret",
]


def pucb_pac(*, states: int, actions: int, horizon: int, alpha: ArrayLike, epsilon: ArrayLike) -> Bound:
    """α-suboptimal episodes of PUCB, however many are played: SAH⁴/α² + S²AH⁴/(εα), for α in (0, H].

    With probability 1 − β. Left out: constants, and polylog(K, S, A, H, 1/α, 1/β, 1/ε).

    The last line of the proof has H³ for H⁴ in the first term; its eq. (9) has the theorem's H⁴. The non-nice
    episodes also cost S²AH³/α without privacy, which the theorem leaves out: it matters from ε of about H on.

    References:
        Vietri et al. (2020), Theorem 3; eq. (9), (10) and Lemma 20.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    a, e = check_swept("alpha", alpha, most=H), check_swept("epsilon", epsilon)
    return as_bound(S * A * H**4 / a**2 + S**2 * A * H**4 / (e * a))


def pucb_regret(*, states: int, actions: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike) -> Bound:
    """Regret of PUCB: H²√(SAK) + (SAH³ + S²AH³)/ε.

    With probability 1 − β. Left out: constants, and polylog(K, S, A, H, 1/β, 1/ε). The paper's T counts episodes.

    Later papers list √(S²AH³T) = H²√(S²AK) as the first term, √S more, which is `private_ucb_po_regret`: Lemma 18
    does not pay for the error of the estimated transitions on a value function that depends on the same data.

    References:
        Vietri et al. (2020), Theorem 4; Qiao and Wang (2023), Table 1.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, e = check_episodes(episodes), check_swept("epsilon", epsilon)
    return as_bound(H**2 * np.sqrt(S * A * K) + (S * A * H**3 + S**2 * A * H**3) / e)


def dp_ucbvi_regret(
    *, states: int, actions: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike, trust: str = "central"
) -> Bound:
    """Regret of DP-UCBVI: √(SAH²T) + S²AH³/ε (central) or √(SAH²T) + S²A√(H⁵T)/ε (local).

    With probability 1 − β. Left out: constants and logarithms. The first term alone is UCBVI's, and is the best
    possible (`minimax_regret_lower`). Both are Theorem 4.1's √(SAH²T) + S²AH²E with E = H/ε and E = H√K/ε.

    The proof ends in one more term, S²AH³ (eq. 80), which the theorems leave out: centrally it matters from ε of
    about 1 on.

    References:
        Qiao and Wang (2023), Theorems 4.1, 5.2 and 5.7.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, e = check_episodes(episodes), check_swept("epsilon", epsilon)
    return as_bound(np.sqrt(S * A * H**2 * (K * H)) + _private_part(S, A, H, K, e, trust))


def dp_ucbvi_regret_explicit(
    *, states: int, actions: int, horizon: int, episodes: ArrayLike, error: ArrayLike, failure: float = 0.05
) -> Bound:
    """Regret of DP-UCBVI as proven, nothing left out: 1000·(√(H²SATι²) + H²S²AEι² + H³S²Aι²).

    With probability 1 − β (``failure``), ι = ln(30·H·S·A·T/β), under any trust model. E (``error``) is the one in
    the bonus, where our agents take at least 1: with probability 1 − β/3 no count is further from the truth
    (Assumption 3.1). An array of episodes means runs of these lengths; within one run of K episodes ι stays that
    of K.

    It says something (less than KH) only from K of about 10⁶·ι²·HSA on: on RiverSwim-6 with H = 20, E = 1 from
    5·10¹¹.

    References:
        Qiao and Wang (2023), Lemma C.9, eq. (75), and Algorithm 1, line 2.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, E = check_episodes(episodes), check_swept("error", error)
    T = K * H
    iota = np.log(30 * H * S * A * T / check_fraction("failure", failure))
    return as_bound(1000 * (np.sqrt(H**2 * S * A * T) * iota + H**2 * S**2 * A * (E + H) * iota**2))


def private_ucb_vi_regret(
    *, states: int, actions: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike, trust: str = "central"
) -> Bound:
    """Regret of Private-UCB-VI: √(SAH³T) + S²AH³/ε (central) or √(SAH³T) + S²A√(H⁵T)/ε (local).

    Left out: constants and logarithms.

    References:
        Qiao and Wang (2023), Table 1, for Chowdhury and Zhou (2022), Corollaries 5.2 and 5.5.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, e = check_episodes(episodes), check_swept("epsilon", epsilon)
    return as_bound(np.sqrt(S * A * H**3 * (K * H)) + _private_part(S, A, H, K, e, trust))


def private_ucb_po_regret(
    *, states: int, actions: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike, trust: str = "central"
) -> Bound:
    """Regret of Private-UCB-PO: √(S²AH³T) + S²AH³/ε (central) or √(S²AH³T) + S²A√(H⁵T)/ε (local).

    Left out: constants and logarithms. The same table gives PUCB the central bound (see `pucb_regret`).

    References:
        Qiao and Wang (2023), Table 1, for Chowdhury and Zhou (2022).
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, e = check_episodes(episodes), check_swept("epsilon", epsilon)
    return as_bound(np.sqrt(S**2 * A * H**3 * (K * H)) + _private_part(S, A, H, K, e, trust))


def sdp_pe_regret(*, states: int, actions: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike) -> Bound:
    """Regret of SDP-PE under shuffle privacy: √(H⁵S²AK) + S³A²H⁶/ε, stated for ε < 1.

    With high probability (1 − 9δ in Theorem 6). Left out: constants and logarithms, also of the privacy parameter
    that this paper calls β; its δ is our ``failure``. It is Theorem 6's √(H⁵S²AK) + S³A²H⁵E with E = H/ε of Lemma
    10. It holds for the paper's explicit set of policies (``policies="enumerate"``), not for ``"implicit"``.

    References:
        Bai et al. (2025), Theorems 6 and 11, Lemma 10.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    K, e = check_episodes(episodes), check_swept("epsilon", epsilon)
    return as_bound(np.sqrt(H**5 * S**2 * A * K) + S**3 * A**2 * H**6 / e)


def linopt_vi_regret(
    *, dimension: int, horizon: int, episodes: ArrayLike, epsilon: ArrayLike, delta: float, failure: float = 0.05
) -> Bound:
    """Regret of LinOpt-VI: d√(TH³)·ln(T/β) + ln(H/δ)^¼·ε^−½·d^{7/4}·√(TH⁴)·ln(T)·ln(T/β)^¼.

    Under (ε, δ) joint privacy, with probability 1 − 4β; the paper's α is β here (``failure``). Left out:
    constants; the logarithms are the theorem's. d (``dimension``) bounds the dimensions of both features. d^{7/4}
    becomes d^{5/4} if ‖φ‖ ≤ H instead of √d·H (Remark 6.6). No local bound is printed.

    References:
        Zhou (2022), Theorem 6.5, eq. (4).
    """
    d, H = check_sizes(dimension=dimension, horizon=horizon)
    T = check_episodes(episodes) * H
    e = check_swept("epsilon", epsilon)
    log_failure = np.log(T / check_fraction("failure", failure))
    log_delta = np.log(H / check_fraction("delta", delta))
    private = log_delta**0.25 / np.sqrt(e) * d**1.75 * np.sqrt(T * H**4) * np.log(T) * log_failure**0.25
    return as_bound(d * np.sqrt(T * H**3) * log_failure + private)


def linopt_po_regret(
    *,
    dimension: int,
    actions: int,
    horizon: int,
    episodes: ArrayLike,
    epsilon: ArrayLike,
    delta: float,
    failure: float = 0.05,
) -> Bound:
    """Regret of LinOpt-PO: that of `linopt_vi_regret`, plus √(TH³·ln A).

    Eq. (5) prints √(TH³)·log|A|, with the logarithm outside the root. Theorem 5.1, which it instantiates, Remark
    6.7 and the proof, (i) ≤ √(2H³T·log|A|), have it inside; so has this function.

    References:
        Zhou (2022), Theorems 5.1 and 6.5, eq. (5).
    """
    (A,) = check_sizes(actions=actions)
    value_iteration = linopt_vi_regret(
        dimension=dimension, horizon=horizon, episodes=episodes, epsilon=epsilon, delta=delta, failure=failure
    )
    return as_bound(np.sqrt(check_episodes(episodes) * float(horizon) ** 4 * np.log(A)) + value_iteration)


def rlsvi_regret(*, states: int, actions: int, horizon: int, episodes: ArrayLike) -> Bound:
    """Expected regret of RLSVI: H³·S^{3/2}·√(AK).

    Left out: constants and logarithms. ε is not in it: the agent's own exploration noise is all the noise there
    is. It holds for the noise of the paper, β_k = ½·S·H³·ln(2HSAk), that is ``noise_scale=1``.

    Lu et al. print no regret bound; they refer to this one.

    References:
        Russo (2019), Theorem 1; Lu et al. (2026), Section 4.
    """
    S, A, H = check_sizes(states=states, actions=actions, horizon=horizon)
    return as_bound(H**3 * S**1.5 * np.sqrt(A * check_episodes(episodes)))


def _private_part(
    S: float, A: float, H: float, K: NDArray[np.float64], epsilon: NDArray[np.float64], trust: str
) -> NDArray[np.float64]:
    """Returns S²AH²E: the error E of the counts is H/ε centrally (Lemma 5.1), H√K/ε locally (Lemma 5.6)."""
    if trust == "central":
        return S**2 * A * H**3 / epsilon
    if trust == "local":
        return S**2 * A * np.sqrt(H**5 * (K * H)) / epsilon
    raise UnknownName("trust model with this bound", trust, ["central", "local"])

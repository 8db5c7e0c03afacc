"""The papers' bounds as functions, so that a plot can show the bound beside the measurement.

`upper` has what each agent is proven to need, `lower` what no private agent can avoid:

| function | bounds | source |
| --- | --- | --- |
| `pucb_pac`, `pucb_regret` | PUCB | Vietri et al. (2020), Theorems 3 and 4 |
| `dp_ucbvi_regret` | DP-UCBVI, central or local | Qiao and Wang (2023), Theorems 5.2 and 5.7 |
| `dp_ucbvi_regret_explicit` | the same, with all constants | Qiao and Wang (2023), Lemma C.9 |
| `private_ucb_vi_regret`, `private_ucb_po_regret` | the comparison systems | Qiao and Wang (2023), Table 1 |
| `sdp_pe_regret` | SDP-PE, shuffle | Bai et al. (2025), Theorems 6 and 11 |
| `linopt_vi_regret`, `linopt_po_regret` | LinOpt-VI, LinOpt-PO | Zhou (2022), Theorem 6.5 |
| `rlsvi_regret` | RLSVI | Russo (2019), Theorem 1 |
| `pac_lower`, `regret_lower` | every jointly private agent | Vietri et al. (2020), Theorems 5 and 6 |
| `minimax_regret_lower` | every agent, private or not | Qiao and Wang (2023), Table 1 |
| `bandit_lower`, `hard_lower` | bandits, and the class of hard MDPs | Vietri et al. (2020), Lemmas 8 and 10 |

**What is left out.** Where a paper writes O(·) or Ω(·) the constant is 1 here; where it writes Õ(·) or polylog(·)
the logarithms are 1 too. Such a curve has the right slope, not the right height, and a lower bound may lie above
an upper one by a logarithm. Logarithms that are printed are kept, and are natural. Only
`dp_ucbvi_regret_explicit`, `bandit_lower` and `hard_lower` leave nothing out. No bound is capped: the regret of K
episodes never exceeds KH, and a curve above that says nothing.

**Arguments** are keywords. ``states`` S, ``actions`` A and ``horizon`` H are integers; ``episodes`` K (never steps:
those are T = KH), ``epsilon`` ε, ``alpha`` α, ``error`` E and ``gap`` are numbers or arrays, which broadcast.
``epsilon=math.inf`` leaves the non-private part. ``failure`` is a failure probability, ``delta`` a privacy
parameter; ``trust`` is ``"central"`` (joint privacy) or ``"local"``. What comes back is a float, or an array if one
went in.
"""

from discreet.theory.lower import bandit_lower, hard_lower, minimax_regret_lower, pac_lower, regret_lower
from discreet.theory.upper import (
    dp_ucbvi_regret,
    dp_ucbvi_regret_explicit,
    linopt_po_regret,
    linopt_vi_regret,
    private_ucb_po_regret,
    private_ucb_vi_regret,
    pucb_pac,
    pucb_regret,
    rlsvi_regret,
    sdp_pe_regret,
)

__all__ = [
    "bandit_lower",
    "dp_ucbvi_regret",
    "dp_ucbvi_regret_explicit",
    "hard_lower",
    "linopt_po_regret",
    "linopt_vi_regret",
    "minimax_regret_lower",
    "pac_lower",
    "private_ucb_po_regret",
    "private_ucb_vi_regret",
    "pucb_pac",
    "pucb_regret",
    "regret_lower",
    "rlsvi_regret",
    "sdp_pe_regret",
]

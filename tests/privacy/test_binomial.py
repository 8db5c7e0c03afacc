"""The account of binomial noise, recomputed from the probabilities alone: exact convolutions and all splits.

Nothing here uses the module under test but `epsilon` and `calibrate`. A counter that a neighbour moves up by s has
the laws s + Bin(N, p) and Bin(N, p); one that is moved down has them in the other order. δ(ε) of independent
counters is Σ (P(y) − e^ε·Q(y))⁺ over all their outcomes, or E_P (1 − e^{ε−L})⁺ with L the sum of the counters'
privacy losses ln P(y)/Q(y), infinite where Q(y) = 0. "ε ≤ c at δ" is "δ(c) ≤ δ", so claims are checked by
evaluating δ(·).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import fft
from scipy.stats import binom

from discreet.mdp import Spec, Trajectory
from discreet.privacy import binomial
from discreet.privacy.binomial import BinomialEvent
from discreet.privatizers.counts.encode import BinomialEncoder
from discreet.privatizers.counts.layout import Layout

FLOAT = 1e-14  # what rounding in a transform may add up to: a hundred times of what it does


def laws(trials, p, change):
    """The two laws of a counter that changes by ``change``, on the same outcomes."""
    y = np.arange(trials + abs(change) + 1)
    still, moved = binom.pmf(y, trials, p), binom.pmf(y - abs(change), trials, p)
    return (moved, still) if change > 0 else (still, moved)


def on_grid(trials, p, change, interval, upper):
    """A counter's privacy loss: (cells of the grid, their probabilities, the probability of an infinite loss).

    Upper: each loss is split between the cells around it so that the sums of P and of Q stay what they are. The
    exact pair is what is left of this one when the two halves are not told apart, so its δ is nowhere larger; the
    error is of the order of interval². Lower: each loss is rounded down. Probabilities below 1e-18 are infinite
    losses, or none.
    """
    P, Q = laws(trials, p, change)
    seen = (P > 1e-18) & (Q > 0)
    infinite = P[~seen].sum() if upper else P[Q == 0].sum()
    loss, P = np.log(P[seen] / Q[seen]), P[seen]
    cell = np.floor(loss / interval).astype(int)
    if not upper:
        return cell, P, infinite
    share = np.clip(np.expm1(cell * interval - loss) / math.expm1(-interval), 0, 1)
    return np.append(cell, cell + 1), np.append(P * (1 - share), P * share), infinite


def exact_delta(trials, p, changes, epsilons, interval=1e-4):
    """Brackets of δ at every ε for counters that change by ``changes``: (lower, upper), an entry for every ε."""
    brackets = []
    for upper in (False, True):
        counters = {c: on_grid(trials, p, c, interval, upper) for c in set(changes)}
        first = sum(counters[c][0].min() for c in changes)
        size = fft.next_fast_len(int(sum(counters[c][0].max() for c in changes) - first + 1), real=True)
        spectrum, finite = 1.0, 1.0
        for c, count in Counter(changes).items():
            cell, mass, infinite = counters[c]
            spectrum = spectrum * fft.rfft(np.bincount(cell - cell.min(), mass, size)) ** count
            finite *= (1 - infinite) ** count
        mass, loss = fft.irfft(spectrum, size), (first + np.arange(size)) * interval
        found = []
        for eps in epsilons:
            above = loss > eps
            found.append(1 - finite - (mass[above] * np.expm1(eps - loss[above])).sum())
        brackets.append(np.array(found) + (FLOAT if upper else -FLOAT))
    return brackets


def worst(shift, pairs):
    """What the account takes for the worst neighbour."""
    return [shift, -shift] * pairs


@pytest.mark.parametrize(
    ("trials", "p", "changes"),
    [
        (40, 0.5, (1, -1)),
        (40, 0.2, (3, -2)),
        (300, 0.03, (1, -1)),
        (6, 0.5, (2, -2)),
        (25, 0.4, (1, 1, -1, -1)),
        (12, 0.5, (2, 1, -3)),
    ],
)
def test_exact_convolutions_agree_with_listing_all_outcomes(trials, p, changes):
    """Must show: what is called exact below encloses the sum over all outcomes of 2 to 4 counters, narrowly."""
    P, Q = np.ones(1), np.ones(1)
    for change in changes:
        P, Q = (np.outer(law, new).ravel() for law, new in zip((P, Q), laws(trials, p, change), strict=True))
    epsilons = [0.0, 0.3, 1.0, 2.5]
    truth = np.array([np.maximum(P - math.exp(eps) * Q, 0).sum() for eps in epsilons])
    lower, upper = exact_delta(trials, p, changes, epsilons)
    assert (lower <= truth).all()
    assert (truth <= upper).all()
    assert (upper - truth <= 2e-5 * truth + 2 * FLOAT).all()
    assert (truth - lower <= 1e-3 * truth + 2 * FLOAT).all()


def check_account(trials, p, shift, pairs, delta):
    """The exact ε is at most the claimed one, and at least 0.99 of it."""
    claimed = binomial.epsilon(BinomialEvent(trials, p, shift, pairs), delta)
    lower, upper = exact_delta(trials, p, worst(shift, pairs), [0.99 * claimed, claimed])
    assert upper[1] <= delta
    assert lower[0] >= delta
    return claimed


CASES = [
    (users, *change, eps, delta)
    for users, eps, delta in itertools.product((1, 2, 5, 20, 50), (0.5, 1.0, 3.0), (1e-6, 1e-3))
    for change in sorted({(1, f * H) for f in (2, 3) for H in (1, 2)} | {(2, f) for f in (2, 3)})
]
SOME = [(1, 1, 2, 1.0, 1e-6), (2, 2, 2, 3.0, 1e-3), (5, 2, 3, 0.5, 1e-6), (20, 1, 6, 3.0, 1e-6), (50, 2, 3, 1.0, 1e-6)]
SOME += [(50, 1, 4, 0.5, 1e-3), (50, 1, 2, 3.0, 1e-3), (1, 2, 3, 3.0, 1e-6)]


@pytest.mark.parametrize(
    ("users", "shift", "pairs", "eps", "delta"),
    [*SOME, *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES if case not in SOME)],
)
def test_calibrated_noise_agrees_with_exact_convolutions(users, shift, pairs, eps, delta):
    """For n ≤ 50 and H ≤ 2, per step and pooled, the proven ε is the budget's and the exact one, within 1 %.

    Catches a rounding to the wrong side, infinite losses left out, a wrong direction of the counters that go down,
    and too little or too much noise.
    """
    m, p = binomial.calibrate(users, shift, pairs, eps, delta)
    claimed = check_account(users * m, p, shift, pairs, delta)
    assert 0.99 * eps <= claimed <= eps
    assert m == 1 or binomial.epsilon(BinomialEvent(users * (m - 1), 0.5, shift, pairs), delta) > eps


@pytest.mark.parametrize(
    ("trials", "p", "shift", "pairs"),
    [(60, 0.5, 1, 1), (200, 0.3, 1, 2), (400, 0.5, 2, 1), (300, 0.1, 1, 1), (5000, 0.004, 1, 3), (900, 0.9, 2, 3)],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_the_account_agrees_with_exact_convolutions(trials, p, shift, pairs, delta):
    """Must show: also for noise that nobody calibrated: thin, skewed, at losses far above any budget."""
    if math.isfinite(binomial.epsilon(BinomialEvent(trials, p, shift, pairs), delta)):
        check_account(trials, p, shift, pairs, delta)
    else:  # more than δ is lost outright
        assert exact_delta(trials, p, worst(shift, pairs), [50.0])[0][0] > delta


@pytest.mark.parametrize(
    ("trials", "p", "shift", "pairs", "delta"), [(2000, 0.1, 1, 20, 1e-5), (20_000, 0.02, 2, 3, 1e-4)]
)
def test_the_account_agrees_with_dp_accounting(trials, p, shift, pairs, delta):
    """Must show: the same as privacy-loss distributions of the library that the other accounts rest on."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    k = np.flatnonzero(binom.pmf(np.arange(trials + 1), trials, p) > 1e-20)
    still = dict(zip(k.tolist(), binom.logpmf(k, trials, p), strict=True))
    moved = {k + shift: value for k, value in still.items()}
    up, down = (
        pld.from_two_probability_mass_functions(*laws, value_discretization_interval=1e-5).self_compose(pairs)
        for laws in ((still, moved), (moved, still))
    )
    theirs = up.compose(down).get_epsilon_for_delta(delta)
    assert binomial.epsilon(BinomialEvent(trials, p, shift, pairs), delta) == pytest.approx(theirs, rel=1e-3)


def test_small_delta_is_accounted_relatively():
    """Must show: δ far below what a plain transform resolves (1e-16) is near the Gaussian limit, and no crash."""
    from discreet.privacy import accounting

    event = BinomialEvent(20_000, 0.5, 1, 6)
    mu = math.sqrt(12 / event.variance)
    for delta in (1e-9, 1e-12, 1e-20, 1e-40):
        assert binomial.epsilon(event, delta) == pytest.approx(accounting.gaussian_epsilon(mu, delta), rel=0.01)
        m, p = binomial.calibrate(50, 1, 6, 1.0, delta)
        assert 0.99 <= binomial.epsilon(BinomialEvent(50 * m, p, 1, 6), delta) <= 1.0


@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_a_budget_that_few_bits_cannot_use_up_is_kept(delta):
    """Must show: at ε = 10 noise of finite range loses δ outright before it loses ε; the account still holds."""
    m, p = binomial.calibrate(1, 1, 2, 10.0, delta)
    assert 5 < check_account(m, p, 1, 2, delta) <= 10


def test_what_cannot_be_proven_is_infinite():
    for event in (BinomialEvent(0, 0.5, 1, 1), BinomialEvent(3, 0.5, 4, 1), BinomialEvent(9, 0.0, 1, 1)):
        assert binomial.epsilon(event, 1e-6) == math.inf
    for delta in (0.0, 2.0**-10, 1e-300):  # of ten bits all are 1 with probability 2^-10
        assert binomial.epsilon(BinomialEvent(10, 0.5, 1, 1), delta) == math.inf
    assert binomial.epsilon(BinomialEvent(10, 0.5, 1, 1), 0.9) == 0
    for delta in (0.0, 1e-300):
        with pytest.raises(ValueError, match="delta > 0"):
            binomial.calibrate(10, 1, 1, 1.0, delta)


def partitions(n, largest=None):
    """All multisets of positive numbers that add up to n."""
    if n == 0:
        yield ()
    for part in range(min(n, n if largest is None else largest), 0, -1):
        for rest in partitions(n - part, part):
            yield (part, *rest)


def changes_one_way(H, families):
    """All multisets of what the counters of all families together can go up by (or down): at most H a family."""
    one = [split for n in range(H + 1) for split in partitions(n)]
    together = itertools.combinations_with_replacement(one, families)
    return sorted({tuple(sorted(itertools.chain(*parts), reverse=True)) for parts in together})


def deltas_of_all_changes(trials, p, H, families, eps, interval):
    """Upper bounds of δ at ε for every list of what goes up (rows) and of what goes down (columns), and the lists.

    δ of two independent groups of counters is the mean, over the first one's loss L, of the second one's δ at ε −
    L: all pairs of groups are one multiplication of matrices.
    """
    ways = changes_one_way(H, families)
    counters = {c: on_grid(trials, p, c, interval, upper=True) for c in range(-H, H + 1) if c}
    reach = {s: max(np.abs(counters[c][0]).max() for c in (s, -s)) for s in range(1, H + 1)}
    half = int(max(sum(reach[s] for s in way) for way in ways))  # of the grid: no sum of losses lies outside
    size = fft.next_fast_len(2 * half + 2, real=True)
    loss = (np.arange(size) - size // 2) * interval
    groups = []
    for sign in (1, -1):
        spectra = {s: fft.rfft(np.bincount(counters[sign * s][0] % size, counters[sign * s][1], size)) for s in reach}
        nothing = np.ones(size // 2 + 1)
        law = np.array([fft.irfft(math.prod((spectra[s] for s in way), start=nothing), size) for way in ways])
        finite = np.array([math.prod(1 - counters[sign * s][2] for s in way) for way in ways])
        groups.append((np.roll(law, size // 2, axis=1), finite))
    (up, up_finite), (down, down_finite) = groups
    P, Q = (np.cumsum(law[:, ::-1], axis=1)[:, ::-1] for law in (down, down * np.exp(-loss)))  # of losses from here on
    at = np.searchsorted(loss, eps - loss, side="right")
    tails = np.where(at < size, P[:, at % size] - np.exp(eps - loss) * Q[:, at % size], 0)
    return ways, 1 - np.outer(up_finite, down_finite) + up @ tails.T


def neighbours_by_family(H, stationary, states, actions):
    """What replacing a user can change: (users, users, counters) for n, m and r."""
    spec = Spec(states, actions, H)
    layout = Layout(spec, stationary)
    encoder, rng = BinomialEncoder(layout, 1, 0.5), np.random.default_rng(0)
    vectors = set()
    for path in itertools.product(range(states), repeat=H + 1):
        for played in itertools.product(range(actions), repeat=H):
            for bits in itertools.product((0.0, 1.0), repeat=H):
                report = encoder.encode(Trajectory(np.array(path), np.array(played), np.array(bits)), rng)
                vectors.add(tuple(report.bits[:, : encoder.data_bits].sum(axis=1)))
    users = np.array(sorted(vectors), dtype=np.int8)
    change = users[:, None] - users[None]
    return np.split(change, layout.starts, axis=2)


@pytest.mark.parametrize(("H", "states", "actions"), [(1, 3, 2), (2, 2, 2), (2, 3, 1), (3, 2, 1), (4, 2, 1)])
def test_real_neighbours_are_among_the_listed(H, states, actions):
    """All pairs of trajectories of a small world, with all reward bits, through the encoder itself.

    Must show: pooled, what goes up in a family is at most H in all, and so is what goes down, so that it is one of
    the splits listed below; and all three families go H up and H down at once in some pair, which is the account.
    Per step, counters move by one, at most H up and H down in a family, and that many do.

    Rewards in between are rounded to bits by the user: then the laws are mixtures over the bits, and δ(ε), convex
    in the pair of laws, is at most that of the worst bits.
    """
    for stationary in (True, False):
        families = neighbours_by_family(H, stationary, states, actions)
        ups = [np.maximum(family, 0).sum(axis=2) for family in families]
        downs = [np.maximum(-family, 0).sum(axis=2) for family in families]
        assert max(ways.max() for ways in ups + downs) == H
        largest = [(sign * family).max(axis=2) for family in families for sign in (1, -1)]
        if stationary:
            assert (np.array(largest) == H).all(axis=0).any()
        else:
            assert np.max(largest) == 1
            assert (np.array(ups + downs) == H).all(axis=0).any()


@pytest.mark.parametrize(("trials", "p"), [(1, 0.5), (2, 0.02), (3, 0.5), (9, 0.1), (20, 0.3), (60, 0.01), (60, 0.8)])
def test_one_counter_moved_by_both_dominates_two(trials, p):
    """The step of the proof, by listing outcomes: a + b in one counter loses no less than a and b in two."""
    for a, b, sign in itertools.product((1, 2, 3), (1, 2, 3), (1, -1)):
        P, Q = laws(trials, p, sign * (a + b))
        split = [np.outer(*pair) for pair in zip(laws(trials, p, sign * a), laws(trials, p, sign * b), strict=True)]
        for ratio in np.exp(np.linspace(-12, 12, 97)):
            assert np.maximum(split[0] - ratio * split[1], 0).sum() <= np.maximum(P - ratio * Q, 0).sum() + 1e-12


@pytest.mark.parametrize(
    ("trials", "p", "H", "families", "delta"),
    [
        (60, 0.5, 2, 1, 1e-3),
        (200, 0.3, 2, 3, 1e-6),
        (2000, 0.02, 2, 2, 1e-3),
        (12, 0.5, 2, 3, 0.3),
        pytest.param(300, 0.5, 3, 3, 1e-3, marks=pytest.mark.slow),
        (1000, 0.02, 3, 2, 1e-2),
        pytest.param(800, 0.5, 4, 3, 1e-6, marks=pytest.mark.slow),
        (400, 0.1, 4, 1, 1e-4),
        pytest.param(3000, 0.5, 4, 3, 1e-6, marks=pytest.mark.slow),
        pytest.param(3000, 0.02, 4, 3, 1e-3, marks=pytest.mark.slow),
        pytest.param(100, 0.4, 4, 3, 0.05, marks=pytest.mark.slow),
        pytest.param(60, 0.5, 4, 2, 0.05, marks=pytest.mark.slow),
    ],
)
def test_the_worst_pooled_neighbour_is_h_up_and_h_down(trials, p, H, families, delta):
    """All splits of up to H visits over cells, up and down, in all families: none exceeds the account.

    Listed is all that a family's change can be, each family for itself: it goes up by at most H in all and down by
    at most H in all, in whatever cells; visits that both users make cancel, so it may be less. That contains the
    real neighbours (the cells of m refine those of n, the bits of r are at most its visits). Given the data, the
    noise of every counter is independent and has the same law, so δ(ε) depends only on the multisets of what goes
    up and down, whichever families the counters are of.

    Must show: δ at the claimed ε is below δ for all of them; and an account of families·H unit shifts each way,
    which is one of those listed, claims an ε at which the worst neighbour loses more than δ.
    """
    claimed = check_account(trials, p, H, families, delta)
    ways, deltas = deltas_of_all_changes(trials, p, H, families, claimed, interval=5e-3)
    whole, units = ways.index((H,) * families), ways.index((1,) * (families * H))
    assert deltas[whole, whole] == deltas.max()
    assert deltas[whole, whole] == pytest.approx(delta, rel=0.02)  # the grid is coarse: the bracket above is not
    deltas[whole, whole] = 0
    assert deltas.max() <= delta
    understated = binomial.epsilon(BinomialEvent(trials, p, 1, families * H), delta)
    assert deltas[units, units] < 0.9 * delta
    assert understated < 0.95 * claimed
    assert exact_delta(trials, p, worst(H, families), [understated])[0][0] > 1.1 * delta


@pytest.mark.parametrize(("H", "least"), [(2, 1.4), (20, 5.0)])
def test_noise_for_unit_shifts_is_too_little_for_pooled_counters(H, least):
    """Must show: calibrated to ε = 1 with 2H unit shifts a family, pooled counters lose 5.2 at H = 20."""
    users, families, delta = 50, 3, 1e-6
    m, p = binomial.calibrate(users, 1, families * H, 1.0, delta)
    assert exact_delta(users * m, p, worst(H, families), [least])[0][0] > delta
    assert binomial.epsilon(BinomialEvent(users * m, p, H, families), delta) > least
    m, p = binomial.calibrate(users, H, families, 1.0, delta)
    assert exact_delta(users * m, p, worst(H, families), [1.0])[1][0] <= delta

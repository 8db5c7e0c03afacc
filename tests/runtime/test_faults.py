"""Whatever fails, and whenever: people are counted once, noise is used once, and the plan is the one of the release."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import linecache
import pickle
import sys

import numpy as np
import pytest

import discreet as dc
from discreet import testing
from discreet.errors import InvalidInput
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.privacy import BitsReport, NoisyReport, RawReport
from discreet.privatizers.counts.shuffle import Ones
from discreet.sums import Secret, SumState
from tests import rounds
from tests.rounds import CASES, DRAWING, Hand, build, fingerprint

BATCHES = 3
#: One case of every kind of server.
EVERY_LINE = [
    "dp-ucbvi laplace tree",
    "dp-ucbvi local sampled",
    "sdp-pe shuffle",
    "rlsvi individual",
    "linopt-vi local",
]


class Failed(Exception):
    """What is injected."""


class Flaky(FastSource):
    """Fails once, at its n-th bulk draw, before or after it took anything from the generator; or only takes it."""

    def __init__(self, generator, at, when):
        super().__init__(generator)
        self.left, self.when = at, when

    def fill(self, distribution, scale, out):
        self.left -= 1
        if self.left == 0:
            if self.when != "before":
                super().fill(distribution, scale, np.empty_like(out))
            if self.when != "skip":
                raise Failed
        super().fill(distribution, scale, out)


def with_source(agent, source):
    """Lets the server draw from another source from here on."""
    agent.sources[Role.NOISE] = agent.privatizer.source = source
    return agent


@functools.cache
def undisturbed(case, skip=0):
    """Returns the plans of an undisturbed run and what the server then holds; ``skip`` draws are lost before one."""
    agent = build(case)
    if skip:
        with_source(agent, Flaky(agent.sources[Role.NOISE].generator, skip, "skip"))
    hand = Hand(case, agent)
    plans = [agent.plan.hash]
    for _ in range(BATCHES):
        agent.observe(hand.batch())
        plans.append(agent.plan.hash)
    return plans, fingerprint(agent), agent.guarantee


def check_exact(agent, hand):
    """The server holds the sum of all reports, each of them once, and nothing else."""
    reports = [report for batch in hand.reports for report in batch]
    assert agent.count == agent.privatizer.count == len(reports)
    assert agent.privatizer.version == agent.plan.version == len(hand.reports)
    assert agent.privatizer.last.version == len(hand.reports)
    kept = agent.privatizer.reveal()
    if isinstance(reports[0], RawReport) and hasattr(kept, "total"):
        total = np.zeros_like(kept.total)
        for report in reports:
            np.add.at(total, report.indices, report.values)
        np.testing.assert_allclose(kept.total, total, rtol=1e-12, atol=1e-12)
        assert kept.users == len(reports)
    if isinstance(reports[0], NoisyReport):
        assert kept[0] == len(reports)
        np.testing.assert_allclose(kept[1], np.sum([report.values for report in reports], axis=0), atol=1e-9)
    if isinstance(reports[0], BitsReport):
        bits = [np.sum([report.bits.sum(axis=1) for report in batch], axis=0) for batch in hand.reports]
        for batch, ones in zip(hand.batches, bits, strict=True):
            np.testing.assert_array_equal(batch.ones, ones)
        if isinstance(kept, Ones):
            np.testing.assert_array_equal(kept.ones, np.sum(bits, axis=0))


def go_on(agent, hand, case, skip=0):
    """Plays the rest; everything is as in an undisturbed run."""
    plans, end, guarantee = undisturbed(case, skip)
    check_exact(agent, hand)
    assert agent.plan.hash == plans[len(hand.batches)]
    while len(hand.batches) < BATCHES:
        agent.observe(hand.batch())
    check_exact(agent, hand)
    assert agent.plan.hash == plans[-1]
    assert fingerprint(agent) == end
    assert agent.guarantee == guarantee == rounds.guarantee(case)


def check_refused(agent, batch, message="has been observed"):
    """Observing a batch is refused, and changes nothing."""
    before = fingerprint(agent)
    with pytest.raises(InvalidInput, match=message):
        agent.observe(batch)
    assert fingerprint(agent) == before


@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_observed_once(case):
    """The same object, one that is made again, one of the same reports, and one of a round that is to come.

    Would catch what was the worst defect: everybody counted twice by a retry, and a stated ε of 1 that is 2.
    """
    agent = build(case)
    hand = Hand(case, agent)
    batch = hand.batch()
    check_refused(agent, dataclasses.replace(batch, version=1), "is of round 1, the current one is 0")
    agent.observe(batch)
    for again in (batch, dataclasses.replace(batch), copy.copy(batch)):
        check_refused(agent, again)
    before = fingerprint(agent)
    with pytest.raises(InvalidInput, match=r"nobody is counted twice|a shuffler hands on no other number|must have"):
        agent.observe(agent.shuffler(hand.reports[0], hand.noise))
    assert fingerprint(agent) == before
    later = hand.batch()
    check_refused(agent, batch)
    agent.observe(later)
    for again in (batch, later):
        check_refused(agent, again)
    go_on(agent, hand, case)


@pytest.mark.parametrize("case", CASES)
def test_a_failing_callback_breaks_nothing(case):
    """The release stands, with its plan; the callback is told once. Whoever tries the batch again is refused."""
    agent, told = build(case), []
    hand = Hand(case, agent)

    def fail(released, policy, count):
        told.append((released.version, count))
        released_ = [value for value in vars(released).values() if isinstance(value, np.ndarray)]
        for array in (policy, *(array for array in released_ if array.flags.writeable)):
            array[...] = 0  # what it is given is its own
        if len(told) == 1:
            raise Failed

    agent.on_release = fail
    batch = hand.batch()
    with pytest.raises(Failed):
        agent.observe(batch)
    check_refused(agent, batch)
    assert told == [(1, batch.users)]
    agent.on_release = None
    check_exact(agent, hand)
    assert agent.plan.hash == undisturbed(case)[0][1]
    while len(hand.batches) < BATCHES:
        agent.observe(hand.batch())
    check_exact(agent, hand)
    assert agent.plan.hash == undisturbed(case)[0][-1]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", CASES)
def test_a_failing_plan_is_made_again_from_the_same_release(case, when):
    """With the same randomness of the agent; the callback hears of the release when there is a plan."""
    agent, told = build(case), []
    hand = Hand(case, agent)
    agent.on_release = lambda released, _policy, count: told.append((released.version, count))
    real, calls = agent._learn, []

    def learn(*given):
        calls.append(1)
        if len(calls) <= 2:
            if when == "after":
                real(*given)
            raise Failed
        return real(*given)

    agent._learn = learn
    batch = hand.batch()
    with pytest.raises(Failed):
        agent.observe(batch)
    assert (agent.count, agent.privatizer.version, told) == (batch.users, 1, [])
    with pytest.raises(Failed):  # nobody plays an old plan in its place
        agent.policy  # noqa: B018
    check_refused(agent, batch)
    assert told == [(1, batch.users)]
    agent.on_release = None
    go_on(agent, hand, case)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", DRAWING)
def test_an_interrupted_release_changes_nothing(case, when):
    """Noise that was drawn for nothing is never shown and never used; the batch is observed when it is tried again."""
    agent = build(case)
    with_source(agent, Flaky(agent.sources[Role.NOISE].generator, 2, when))
    hand = Hand(case, agent)
    agent.observe(hand.batch())
    batch, before = hand.batch(), (agent.count, agent.plan.hash, rounds.plain(agent.privatizer.reveal()))
    with pytest.raises(Failed):
        agent.observe(batch)
    assert (agent.count, agent.plan.hash, rounds.plain(agent.privatizer.reveal())) == before
    agent.observe(batch)
    go_on(agent, hand, case, skip=0 if when == "before" else 2)


class Interrupt:
    """Raises KeyboardInterrupt before the n-th line of ours that is run; of all lines, or of those that begin so."""

    def __init__(self, at=1, line=""):
        self.left, self.line = at, line

    def __enter__(self):
        sys.settrace(self.trace)

    def __exit__(self, *_):
        sys.settrace(None)

    def trace(self, frame, event, _):
        if "/discreet/" not in frame.f_code.co_filename:
            return None
        if event == "line" and (not self.line or self._here(frame).startswith(self.line)):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self.trace

    @staticmethod
    def _here(frame):
        return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


@pytest.mark.parametrize(
    "line", ["books.secret.released(kept)  # spent", "return found", "self._replan()", "released, count"]
)
@pytest.mark.parametrize("case", EVERY_LINE)
def test_an_interrupt_between_the_release_and_its_plan(case, line):
    """The release stands and the batch is in it, though nothing but the batch itself tells that it was observed."""
    agent = build(case)
    hand = Hand(case, agent)
    batch = dataclasses.replace(hand.batch(), version=None)
    with pytest.raises(KeyboardInterrupt), Interrupt(line=line):
        agent.observe(batch)
    if agent.count == 0:  # a line of what is before the release
        agent.observe(batch)
    check_refused(agent, batch)
    go_on(agent, hand, case)


@pytest.mark.parametrize("case", ["dp-ucbvi laplace tree", "private-ucb-po central", "rlsvi tight"])
@pytest.mark.parametrize(
    "line", ["mark, since, settled, version =", "self._mind = self._ready", "run.bar.update(run.done)"]
)
def test_the_noise_of_a_block_is_not_drawn_again_when_it_is_in_a_release(case, line):
    """Would catch a block that is interrupted after its releases are in the books, and rewinds their noise."""
    mdp, ends = CASES[case][0], []
    for interrupt in (False, True):
        agent = build(case)
        if interrupt:
            with pytest.raises(KeyboardInterrupt), Interrupt(line=line):
                dc.simulate(agent, mdp, 8, seed=1)
            assert agent.count == 8
        else:
            dc.simulate(agent, mdp, 8, seed=1)
        dc.simulate(agent, mdp, seed=1)
        ends.append(fingerprint(agent))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("case", [case for case in DRAWING if "sdp-pe" not in case])
def test_a_batch_whose_release_failed_waits_at_the_shuffler(case):
    """In a simulation by the protocol: the people have played, and are in the next try."""
    mdp, whole, agent = CASES[case][0], build(case), build(case)
    expected = dc.simulate(whole, mdp, seed=1, block=False).gaps
    with_source(agent, Flaky(agent.sources[Role.NOISE].generator, 2, "before"))
    with pytest.raises(Failed):
        dc.simulate(agent, mdp, seed=1, block=False)
    size = agent.batch_size
    assert (agent.count, len(agent.shuffler.reports)) == (size, size)
    np.testing.assert_array_equal(dc.simulate(agent, mdp, seed=1, block=False).gaps, expected[2 * size :])
    assert fingerprint(agent) == fingerprint(whole)


def interrupted(case, at):
    """Interrupts the second `observe` at a line, and tries again; returns whether it got that far."""
    agent = build(case)
    hand = Hand(case, agent)
    agent.observe(hand.batch())
    batch = hand.batch()
    batch = dataclasses.replace(batch, version=None)  # nothing but the batch itself tells that it was observed
    interrupt = Interrupt(at)
    try:
        with interrupt:
            agent.observe(batch)
    except KeyboardInterrupt:
        if agent.count == len(hand.reports[0]):
            agent.observe(batch)
        else:
            check_refused(agent, batch)
    check_exact(agent, hand)
    assert agent.plan.hash in {undisturbed(case, skip)[0][2] for skip in (0, 2)}
    agent.observe(hand.batch())
    check_exact(agent, hand)
    assert agent.guarantee == rounds.guarantee(case)
    return interrupt.left == 0


@pytest.mark.parametrize("case", CASES)
def test_an_interrupt_anywhere_counts_nobody_twice_and_loses_nobody(case):
    """Must show: `observe` is both or nothing. At lines far apart, from the first to the last."""
    lines = {1, 2, 3, 5, 8, 11, 13, 17, 21, 26, 34, 55}
    if case in EVERY_LINE:
        lines |= set(range(1, 80, 3))
    for at in sorted(lines):
        if not interrupted(case, at):
            break
    else:
        return
    assert at > 20  # it was interrupted at all


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_an_interrupt_at_every_line(case):
    at = 1
    while interrupted(case, at):
        at += 1
    assert at > 20


SIMULATED = [
    *("dp-ucbvi laplace tree", "private-ucb-po central", "rlsvi individual"),
    *("discreet-vi central", "discreet-vi local", "discreet-vi shuffle", "sdp-pe none", "linopt-po central"),
]


@pytest.mark.parametrize("case", SIMULATED)
@pytest.mark.parametrize("block", [True, False])
def test_a_simulation_that_is_interrupted_anywhere_goes_on(case, block):
    """Would catch noise that is rewound though it is in a release, a lost batch, and people who play twice.

    With short cuts it goes on to the same numbers: what was drawn for nothing is drawn again.
    """
    mdp = CASES[case][0]
    whole = build(case)
    expected = dc.simulate(whole, mdp, seed=1, block=block).gaps
    for at in (1, *range(40, 240, 17), 300, 400, 700, 1500):
        agent = build(case)
        with contextlib.suppress(KeyboardInterrupt), Interrupt(at):  # or it is done before
            dc.simulate(agent, mdp, seed=1, block=block)
        done = agent.count + len(agent.shuffler.reports) + agent.shuffler.uncollected
        if done < len(expected):
            rest = dc.simulate(agent, mdp, seed=1, block=block).gaps
            assert len(rest) == len(expected) - done
            if block or case.endswith("none"):
                np.testing.assert_array_equal(rest, expected[done:])
        assert agent.count == whole.count
        assert agent.privatizer.version == whole.privatizer.version
        kept, exact = agent.privatizer.reveal(), whole.privatizer.reveal()
        if isinstance(kept, SumState):
            assert (kept.users, kept.reads) == (exact.users, exact.reads)


@pytest.mark.parametrize("case", CASES)
def test_every_release_after_a_fault_explains_what_is_played(case):
    """Replay: also the plan that was made again is a function of what was released."""
    agent, again = build(case), build(case)
    record = testing.record(agent)
    hand, real, calls = Hand(case, agent), agent._learn, []

    def learn(*given):
        calls.append(1)
        if len(calls) == 2:
            raise Failed
        return real(*given)

    agent._learn = learn
    for i in range(BATCHES):
        batch = hand.batch()
        if i == 1:
            with pytest.raises(Failed):
                agent.observe(batch)
        else:
            agent.observe(batch)
    assert [found.version for found in record.releases] == [1, 2, 3]
    testing.replay(record, again)


# copies


@pytest.mark.parametrize("case", CASES)
def test_nothing_that_holds_noise_is_copied(case):
    """Two copies would hide different people behind the same noise."""
    agent = build(case)
    agent.observe(Hand(case, agent).batch())
    for thing in (agent, agent.privatizer, agent.privatizer._books.secret):
        for copying in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"not copied|not pickled"):
                copying(thing)


def test_a_secret_goes_on_once_and_shows_nothing():
    """Would catch two servers that go on from one state."""
    secret = Secret({"total": 12345})
    assert "12345" not in repr(secret)
    folded = [secret.folded({"total": n}) for n in (1, 2)]
    after = folded[0].released({"total": 3})
    for spent in (secret, *folded):
        for use in (spent.open, lambda spent=spent: spent.folded({}), lambda spent=spent: spent.released({})):
            with pytest.raises(InvalidInput, match="only once"):
                use()
    assert after.open() == {"total": 3}


@pytest.mark.parametrize("case", DRAWING)
def test_two_servers_do_not_go_on_from_one_state(case):
    """Would catch a privatizer that leaves its old state unspent."""
    agent = build(case)
    hand = Hand(case, agent)
    agent.observe(hand.batch())
    held = agent.privatizer._books.secret
    other = build(case).privatizer
    other.resume(held, agent.count, 1, agent.privatizer.last)
    batch = hand.batch()
    agent.observe(batch)
    with pytest.raises(InvalidInput, match="only once"):
        other.observe(batch, agent.plan.encoder)


@pytest.mark.parametrize("case", CASES)
def test_a_saved_file_is_loaded_once(case, tmp_path):
    agent = build(case)
    hand = Hand(case, agent)
    agent.observe(hand.batch())
    agent.save(tmp_path / "agent")
    hand.agent = dc.agents.load(tmp_path / "agent")
    with pytest.raises(InvalidInput, match="loading one uses it up"):
        dc.agents.load(tmp_path / "agent")
    check_refused(hand.agent, hand.batches[0])  # it remembers who is in it
    hand.agent.observe(hand.batch())
    go_on(hand.agent, hand, case)

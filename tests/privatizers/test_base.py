"""What every mechanism keeps at work: all or nothing, one report at a time, and a promise for the noise that it has."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest

from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.noise import Role
from discreet.noise.fast import FastSource
from discreet.privacy import AnswerReport, NoisyReport, RawFeatureReport, RawReport, SampledReport
from discreet.privatizers import Privatizer, codec
from discreet.privatizers.local import REACH
from discreet.sums import SumState
from tests.privatizers.catalogue import BATCHES, DRAWING, MECHANISMS, PRIVATE, SHUFFLED, people
from tests.privatizers.parties import at_work, batch_of


class Interrupted(BaseException):
    """As whoever presses Ctrl-C."""


class Faulty(FastSource):
    """Fails at the next draw: before it, or after it."""

    when = None

    def fill(self, distribution, scale, out):
        self._fail("before")
        super().fill(distribution, scale, out)
        self._fail("after")

    def _fail(self, when):
        if self.when == when:
            self.when = None
            raise Interrupted


class Released(FastSource):
    """Planted: noise that says it may be released."""

    kind = "secure"


def truth(kept):
    """All that a server keeps of people, without the noise that other draws would change."""
    if isinstance(kept, SumState):
        kept = kept._replace(noise={"reads": kept.reads})
    if isinstance(kept, np.ndarray):
        return kept.dtype.str, kept.shape, kept.tobytes()
    if isinstance(kept, dict):
        return {key: truth(part) for key, part in kept.items()}
    return tuple(truth(part) for part in kept) if isinstance(kept, tuple) else kept


def snapshot(private):
    """All that may not change; the state itself is compared byte by byte, noise included."""
    whole = private.reveal()
    noise = truth(whole.noise) if isinstance(whole, SumState) else ()
    return id(whole), truth(whole), noise, private.count, private.version, id(private.last)


def spoiled(method, error=Interrupted):
    """The method, which does all its work and then fails, once."""
    failed = []

    def run(*arguments):
        found = method(*arguments)
        if not failed:
            failed.append(True)
            raise error
        return found

    return run


@pytest.mark.parametrize("name", MECHANISMS)
def test_observe_is_all_or_nothing_whatever_fails(name, monkeypatch):
    """Would catch a batch that is in after a failed release: a retry would count everybody twice, at twice the ε.

    Failures: while folding, before and after the draw of the noise, and after all the work of a release.
    """
    rng = np.random.default_rng(1)
    mechanism = MECHANISMS[name]()
    source = Faulty(np.random.default_rng(0))
    private, twin = Privatizer(mechanism, source), at_work(mechanism)
    for stage, users in zip(("fold", "before", "after", "release"), BATCHES, strict=True):
        batch, before = batch_of(private, people(name, rng, users), rng), snapshot(private)
        if stage in ("before", "after"):
            source.when = stage
        with monkeypatch.context() as patched:
            if stage in ("fold", "release"):
                method = "folded" if stage == "fold" else "released"
                patched.setattr(mechanism, method, spoiled(getattr(mechanism, method)))
            if stage in ("fold", "release") or name in DRAWING:
                with pytest.raises(Interrupted):
                    private.observe(batch)
                assert snapshot(private) == before
            released = private.observe(batch)
        twin.observe(batch)
        assert (
            (private.version, private.count) == (released.version, 3 * released.version) == (twin.version, twin.count)
        )
        assert truth(private.reveal()) == truth(twin.reveal())
        assert private.last is released
        source.when = None
    after = snapshot(private)
    with pytest.raises(InvalidInput):  # there is no room for more: nothing changes either
        private.observe(batch)
    assert snapshot(private) == after


@pytest.mark.parametrize("name", ["central gaussian", "filtered values", "first visits", "questions"])
def test_collecting_and_releasing_apart_can_fail_and_be_repeated(name, monkeypatch):
    """Would catch a release that spends its turn although it failed, and one that folds again."""
    rng = np.random.default_rng(1)
    mechanism = MECHANISMS[name]()
    private, twin = at_work(mechanism), at_work(mechanism)
    batch = batch_of(private, people(name, rng, 3), rng)
    with monkeypatch.context() as patched:
        patched.setattr(mechanism, "folded", spoiled(mechanism.folded))
        with pytest.raises(Interrupted):
            private.collect(batch)
        assert private.count == 0
        private.collect(batch)
        patched.setattr(mechanism, "released", spoiled(mechanism.released))
        before = snapshot(private)
        with pytest.raises(Interrupted):
            private.release()
        assert snapshot(private) == before
        private.release()
    twin.observe(batch)
    assert truth(private.reveal()) == truth(twin.reveal())
    assert (private.count, private.version) == (3, 1)


@pytest.mark.parametrize("name", MECHANISMS)
def test_nothing_is_changed_in_place(name, rng):
    """Would catch a fold or a release that writes into the state it was given, or into what was released before."""
    mechanism = MECHANISMS[name]()
    private = at_work(mechanism)
    shown = []
    for users in BATCHES[:3]:
        kept, batch = private.reveal(), batch_of(private, people(name, rng, users), rng)
        before, given = truth(kept), truth(tuple(vars(batch).values()))
        folded = mechanism.folded(kept, batch, private.encoder)
        assert truth(kept) == before
        assert truth(tuple(vars(batch).values())) == given
        middle = truth(folded)
        mechanism.released(folded, FastSource(np.random.default_rng(0)))
        assert truth(folded) == middle
        shown.append(private.observe(batch))
        arrays = [[part.copy() for part in vars(one).values() if isinstance(part, np.ndarray)] for one in shown]
    private.observe(batch_of(private, people(name, rng, 3), rng))
    for one, copies in zip(shown, arrays, strict=True):
        for part, known in zip((x for x in vars(one).values() if isinstance(x, np.ndarray)), copies, strict=True):
            np.testing.assert_array_equal(part, known)
    assert [one.version for one in shown] == [1, 2, 3]


def test_a_privatizer_is_neither_copied_nor_shown(rng):
    private = at_work(MECHANISMS["central laplace"]())
    private.observe(batch_of(private, people("central laplace", rng, 3), rng))
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="behind the same noise"):
            take(private)
    assert repr(private) == "<privatizer of tree after 3 users and 1 releases>"


# --- one report, alone


def forgeries(report, mechanism, encoder):
    """Reports of the same kind that nobody honest can have sent."""
    replace = dataclasses.replace
    if isinstance(report, RawReport):
        values, indices = report.values.copy(), report.indices.copy()
        values[-1], indices[-1] = np.nan, 7_654_321
        yield replace(report, values=values)
        yield replace(report, indices=indices)
        yield replace(report, indices=-indices)
        yield replace(report, values=report.values[:-1])
        if mechanism.name != "exact" or hasattr(mechanism, "_bounds"):  # whose vectors have to be bounded
            yield replace(report, values=np.full_like(report.values, 7654.321))
            yield replace(report, values=report.values - 7654.321)
            yield RawReport(np.tile(report.indices, 9), np.tile(report.values + 1, 9))
    elif isinstance(report, RawFeatureReport):
        yield replace(report, features=report.features[1:])
        yield replace(report, targets=np.full((7, 7), 7654.321))
    elif isinstance(report, NoisyReport):
        for wrong in (np.nan, np.inf, -7654321.0 * encoder.scale, 1.001 * (REACH + 10) * encoder.scale):
            values = report.values.copy()
            values[-1] = wrong
            yield replace(report, values=values)
        yield replace(report, values=report.values[:-1])
    elif isinstance(report, SampledReport):
        yield replace(report, step=7_654_321)
        yield replace(report, step=-1)
        yield replace(report, step=0.0)
        yield replace(report, support=report.support[:-1])
        yield replace(report, support=report.support.astype(np.int64) * 7654)
        if encoder.randomiser.name != "unary":
            yield replace(report, support=np.ones_like(report.support))
            yield replace(report, support=np.zeros_like(report.support))
    else:
        assert isinstance(report, AnswerReport)
        yield replace(report, question=7_654_321)
        yield replace(report, question=-1)
        yield replace(report, support=report.support[:-1])
        yield replace(report, support=np.ones_like(report.support))  # beyond the answers of some questions
        yield AnswerReport(0, np.array([True, True, True, False]))  # one of four is chosen
        yield AnswerReport(0, np.zeros(4, dtype=np.bool_))


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in SHUFFLED])
def test_one_report_can_be_checked_before_it_is_acknowledged(name, rng):
    """Would catch one report that spoils everybody's sums, or a whole batch that is refused because of one."""
    mechanism = MECHANISMS[name]()
    for version in range(len(BATCHES)) if name.startswith("staged") else [0]:
        encoder = mechanism.encoder_of(version)
        honest = [encoder.encode(person, rng) for person in people(name, rng, 20)]
        for report in honest:
            mechanism.check(report, encoder)
            mechanism.check(report, codec.from_json(encoder.to_json()))  # as good as the same encoder
        forged = list(forgeries(honest[0], mechanism, encoder))
        assert len(forged) >= 2
        for report in forged:
            with pytest.raises(InvalidPersonalData) as caught:
                mechanism.check(report, encoder)
            assert not any(secret in str(caught.value) for secret in ("7654", "nan", "inf"))


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in SHUFFLED])
def test_one_forged_report_in_a_batch_changes_nothing(name, rng):
    """Would catch a server that adds up as it reads, and stops in the middle."""
    mechanism = MECHANISMS[name]()
    private = at_work(mechanism)
    private.observe(batch_of(private, people(name, rng, 3), rng))
    encoder = private.encoder
    honest = [encoder.encode(person, rng) for person in people(name, rng, 2)]
    before = snapshot(private)
    for report in forgeries(honest[0], mechanism, encoder):
        with pytest.raises(InvalidPersonalData):
            private.observe(mechanism.shuffler()([*honest, report], rng))
        assert snapshot(private) == before
    third = encoder.encode(people(name, rng, 1)[0], rng)
    assert private.observe(mechanism.shuffler()([*honest, third], rng)).version == 2


@pytest.mark.parametrize("name", SHUFFLED)
def test_under_shuffle_no_server_checks_one_report(name, rng):
    """Would catch a server that is shown the messages of one user."""
    mechanism = MECHANISMS[name]()
    encoder = mechanism.encoder_of(0)
    report = encoder.encode(people(name, rng, 1)[0], rng)
    with pytest.raises(InvalidInput, match="no server sees the report of one user"):
        mechanism.check(report, encoder)


@pytest.mark.parametrize("name", ["noisy laplace", "noisy gaussian", "noisy features"])
def test_noise_that_honest_users_never_have_is_refused_and_no_less(name, rng):
    """From both sides of the bound."""
    mechanism = MECHANISMS[name]()
    encoder = mechanism.encoder
    values = encoder.encode(people(name, rng, 1)[0], rng).values
    most = mechanism._sensitivity.l2 + REACH * encoder.scale
    for sign in (-1, 1):
        for value, fine in ((most, True), (np.nextafter(most, np.inf), False)):
            values[3] = sign * value
            if fine:
                mechanism.check(NoisyReport(values), encoder)
            else:
                with pytest.raises(InvalidPersonalData, match="finite values of at most"):
                    mechanism.check(NoisyReport(values), encoder)
    vectors = [encoder.vector(person) for person in people(name, rng, 50)]
    assert np.abs(vectors).max() <= mechanism._sensitivity.l2  # what a person adds is within it


def test_answers_that_nobody_was_asked_for_are_refused(rng):
    """Would catch a report about a cell of which the planner expects nothing: its weight would be without bound."""
    mechanism = MECHANISMS["questions"]()
    probabilities = np.zeros_like(mechanism.encoder.probabilities)
    probabilities[0, 0, :2] = 0.25
    encoder = dataclasses.replace(mechanism.encoder, probabilities=probabilities)
    for person in people("questions", rng, 30):
        mechanism.check(encoder.encode(person, rng), encoder)
    answer = encoder.encode(person, rng).support
    mechanism.check(AnswerReport(5, answer), mechanism.encoder)
    with pytest.raises(InvalidPersonalData, match="a question that is asked in this batch"):
        mechanism.check(AnswerReport(5, answer), encoder)


@pytest.mark.parametrize("name", ["noisy laplace", "noisy features", "sampled subset", "questions", "first visits"])
def test_a_batch_of_another_encoders_noise_is_refused(name, rng):
    """Would catch users who hide less, or debiasing with the wrong numbers, under a guarantee for other noise."""
    mechanism = MECHANISMS[name]()
    private = at_work(mechanism)
    batch = batch_of(private, people(name, rng, 3), rng)
    (other,) = weakened(mechanism.calibration(), name).encoders
    before = snapshot(private)
    with pytest.raises(InvalidInput, match="its own encoder"):
        private.observe(batch, codec.from_json(other))
    assert snapshot(private) == before
    private.observe(batch, codec.from_json(mechanism.encoder_of(0).to_json()))


# --- the promise


class weakened(dict):  # noqa: N801 - reads as a verb
    """A calibration with half of the noise, or about that; ``encoders`` are those in it, as JSON."""

    def __init__(self, found, name):
        self.encoders = []
        super().__init__(self._weaker(found))

    def _weaker(self, found):
        if "parts" in found:
            return {**found, "parts": [self._weaker(part) for part in found["parts"]]}
        changed = dict(found)
        if "scale" in found:
            changed["scale"] = found["scale"] / 2
        if "encoder" in found:
            changed["encoder"] = self._encoder(found["encoder"])
        for table in ("encoders", "tables"):
            if table in found:
                changed[table] = {users: self._encoder(text) for users, text in found[table].items()}
        return changed

    def _encoder(self, text):
        document = json.loads(text)
        parameters = document["parameters"]
        if "scale" in parameters:
            parameters["scale"] /= 2
        if "epsilon" in parameters:
            parameters["epsilon"] *= 2
        for hidden in parameters.get("randomisers", ()):
            hidden["epsilon"] *= 2
        if "probability" in parameters:
            parameters["probability"] /= 4
        if "noise" in parameters:
            parameters["noise"] = [(J, m, p / 4) for J, m, p in parameters["noise"]]
        self.encoders.append(json.dumps(document))
        return self.encoders[-1]


@pytest.mark.parametrize("name", PRIVATE)
def test_other_noise_has_another_promise_also_if_it_was_asked_for_before(name):
    """Would catch a guarantee that is kept from before `recalibrate`: half of the noise must cost a larger ε."""
    mechanism = MECHANISMS[name]()
    private = at_work(mechanism)
    before, found = private.guarantee.epsilon, mechanism.calibration()
    assert 0 < before <= 1.0
    mechanism.recalibrate(weakened(found, name))
    assert private.guarantee.epsilon > 1.2 * before
    assert mechanism.guarantee.epsilon == private.guarantee.epsilon
    mechanism.recalibrate(found)
    assert private.guarantee.epsilon == pytest.approx(before, rel=1e-12)
    if name.startswith("staged"):  # also in the batches that count another step
        mechanism.recalibrate(weakened(found, name))
        for version in range(len(BATCHES)):
            assert mechanism.part_of(version).guarantee.epsilon > 1.2 * before


@pytest.mark.parametrize("name", MECHANISMS)
def test_promises_take_their_noise_from_the_source(name):
    """Would catch "secure" beside fast noise, and a literal in a guarantee."""
    mechanism = MECHANISMS[name]()
    fast, secure = (Privatizer(mechanism, kind(np.random.default_rng(0))) for kind in (FastSource, Released))
    if name not in PRIVATE:
        assert fast.guarantee.noise == secure.guarantee.noise == mechanism.guarantee.noise == "none"
        return
    assert (fast.guarantee.noise, secure.guarantee.noise, mechanism.guarantee.noise) == ("fast", "secure", "fast")
    assert fast.guarantee == dataclasses.replace(secure.guarantee, noise="fast")
    drawn = Role.NOISE in mechanism.draws
    assert drawn == (name in DRAWING)


@pytest.mark.parametrize("name", MECHANISMS)
def test_calibrations_travel(name):
    """Would catch a saved agent that goes on with other noise, or another error, than it was started with."""
    one, two = MECHANISMS[name](), MECHANISMS[name]()
    found = one.calibration()
    two.recalibrate(found)
    assert two.guarantee == one.guarantee
    for kept in ("error", "errors"):
        if isinstance(getattr(one, kept, None), float | list):
            assert getattr(two, kept) == getattr(one, kept)
    for version in range(len(BATCHES)):
        assert two.encoder_of(version).to_json() == one.encoder_of(version).to_json()

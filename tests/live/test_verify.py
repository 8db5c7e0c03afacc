"""`discreet verify`: every changed byte is found, weaker noise is found by computation alone, and nothing is run."""

from __future__ import annotations

import copy
import json
import sys

import numpy as np
import pytest

import discreet
from discreet import live
from discreet.errors import InvalidInput
from discreet.live import signing, verdict
from discreet.live.statement import described
from discreet.runtime import records
from tests.live.mechanisms import MECHANISMS, config
from tests.live.people import Crowd, deploy, shut
from tests.live.test_statement import stated


@pytest.fixture(scope="module")
def small():
    """The text of a small statement with two releases."""
    made = deploy("dp-ucbvi")
    crowd = Crowd(made)
    crowd.batch()
    crowd.batch()
    text = made.statement(now=1e9).to_json()
    shut(made)
    return text


def unsigned(document, **changed):
    """Returns the text of a document that somebody changed and did all to that they can without a key."""
    found = copy.deepcopy({**document, **changed, "signer": None, "signature": None})
    found["digest"] = signing.digest(found)
    return signing.written(found)


def failed(text, key=None):
    """Returns the names of the checks that failed."""
    return {check.name for check in live.verify(text, key).checks if not check.held}


def fails(data):
    """Whether bytes are refused, one way or the other."""
    try:
        return not live.verify(data).holds
    except InvalidInput:
        return True


def changes(data, every=1):
    """Every byte changed: digits into digits and letters into letters, by one bit."""
    for i in range(0, len(data), every):
        yield i, data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :]


def test_every_changed_byte_is_found_by_bytes_digest_and_signature(small, monkeypatch):
    """Without a look at what it says: the rest would take minutes (the slow test does it)."""
    monkeypatch.setattr(verdict, "_mechanism", lambda *_: None)
    data = small.encode()
    assert live.verify(data).holds
    missed = [i for i, changed in changes(data) if not fails(changed)]
    assert missed == []


def test_bytes_that_are_taken_out_or_put_in_are_found(small, monkeypatch):
    """White space and the order of keys are bytes too."""
    monkeypatch.setattr(verdict, "_mechanism", lambda *_: None)
    data = small.encode()
    for i in range(0, len(data), 11):
        assert fails(data[:i] + data[i + 1 :]), i
        assert fails(data[:i] + b" " + data[i:]), i
    document = json.loads(small)
    for text in (
        json.dumps(document),
        json.dumps(document, indent=1),
        small.replace("\n", "\r\n"),
        small + "\n",
        small.rstrip(),
        small.replace('"chain"', '"\\u0063hain"'),
        "\ufeff" + small,
    ):
        assert fails(text.encode())
    assert fails(small.replace("{", '{\n "digest": "0",', 1))


@pytest.mark.slow
def test_every_changed_byte_is_found_by_all_checks(small):
    data, rng = small.encode(), np.random.default_rng(17)
    missed = [i for i, changed in changes(data) if not fails(changed)]
    for i in rng.integers(len(data), size=1000):
        changed = data[:i] + bytes([data[i] ^ int(rng.integers(1, 256))]) + data[i + 1 :]
        missed += [] if fails(changed) else [i]
    assert missed == []


def test_an_unsigned_statement_fails_on_any_byte_too(small, monkeypatch):
    """Its digest is there for accidents."""
    monkeypatch.setattr(verdict, "_mechanism", lambda *_: None)
    data = unsigned(json.loads(small)).encode()
    assert live.verify(data).holds
    assert [i for i, changed in changes(data, every=5) if not fails(changed)] == []


def weaker(value, name=""):
    """Returns what was calibrated with about half of the noise."""
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(weaker(json.loads(value)))
    if isinstance(value, dict):
        if value.get("kind") in ("sampled", "questions"):
            name = "randomised"
        return {key: weaker(item, name if name == "randomised" else key) for key, item in value.items()} | (
            {"epsilon": value["epsilon"] * 2} if "epsilon" in value else {}
        )
    if name == "noise" and isinstance(value, list):  # of first visits: cells, bits, probability
        return [[cells, max(1, bits // 2), p] for cells, bits, p in value]
    if isinstance(value, list | tuple):
        return type(value)(weaker(item, name) for item in value)
    if name == "parameter":
        return value // 4
    if name == "noise_bits":
        return max(1, value // 2)
    return value / 2 if name == "scale" else value


@pytest.mark.parametrize("name", MECHANISMS)
def test_less_noise_is_found_by_computation_alone(name):
    """Somebody halves the noise and leaves ε as it is: without any signature this must not hold."""
    document = copy.deepcopy(stated(name)[0].document)
    built = records.from_plain(document["mechanism"]["blueprint"])
    changed = {**built, "calibration": weaker(built["calibration"])}
    assert changed["calibration"] != built["calibration"] or "error" in built["calibration"]
    document["mechanism"]["blueprint"] = records.to_plain(changed)
    found = live.verify(unsigned(document))
    assert "epsilon" in {check.name for check in found.checks if not check.held}, found.to_text()
    assert found.epsilon > stated(name)[1].epsilon * 1.2


def test_less_noise_that_is_honestly_stated_is_above_the_budget():
    """Somebody halves the noise and says the true ε: it is more than the configuration asks for."""
    statement, _ = stated("tree, gaussian")
    document = copy.deepcopy(statement.document)
    built = records.from_plain(document["mechanism"]["blueprint"])
    built["calibration"] = weaker(built["calibration"])
    agent = discreet.agents.make(built["agent"], built["spec"], episodes=built["episodes"], seed=0, **built["options"])
    agent.mechanism.recalibrate(built["calibration"])
    document |= json.loads(signing.written(described(agent, live.read(document["config"]))))
    found = failed(unsigned(document))
    assert "epsilon" not in found
    assert {"budget", "noise"} <= found


def changed_at(document, path, value):
    """Returns a document with another value at a path."""
    found = copy.deepcopy(document)
    part = found
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return found


FIELDS = {
    "epsilon": (("promise", "guarantee", "epsilon"), 0.5, "epsilon"),
    "epsilon by 2e-9": (("promise", "guarantee", "epsilon"), 0.9999999998965197 - 3e-9, "epsilon"),
    "delta": (("promise", "guarantee", "delta"), 1e-12, "epsilon"),
    "an assumption": (("promise", "guarantee", "assumptions"), [], "epsilon"),
    "the unit": (("promise", "guarantee", "unit"), "group of 9 users", "epsilon"),
    "what is protected": (("promise", "guarantee", "protects"), "rewards", "epsilon"),
    "one episode": (("promise", "one_episode", "epsilon"), 0.1, "epsilon"),
    "asked": (("promise", "asked", "epsilon"), 0.1, "epsilon"),
    "the promise in words": (("promise", "words"), ["Trust us."], "words"),
    "not covered": (("not_covered",), [], "words"),
    "trusted": (("trust", "words"), ["Nobody is trusted."], "words"),
    "events": (("mechanism", "events"), {"kind": "LaplaceDpEvent", "noise_multiplier": 9.0}, "mechanism"),
    "the sum": (("mechanism", "sum"), "optimal", "mechanism"),
    "simulation": (("simulation",), True, "mechanism"),
    "fewer people": (("mechanism", "blueprint", "document", "episodes"), 39, "mechanism"),
    "another agent": (("mechanism", "blueprint", "document", "agent"), "pucb", "mechanism"),
    "another horizon": (("config", "world", "horizon"), 3, "mechanism"),
    "more episodes a person": (("config", "episodes_per_person"), 2, "chain"),
    "timing": (("config", "timing"), "public", "epsilon"),
    "the budget": (("config", "privacy", "epsilon"), 2.0, "mechanism"),
    "resolved": (("resolved",), "pucb", "mechanism"),
    "the name": (("deployment",), "others", "mechanism"),
    "the state": (("state",), "fine", "mechanism"),
    "genesis": (("chain",), "0" * 64, "chain"),
    "a hash": (("releases", 0, "hash"), "0" * 64, "chain"),
    "a link": (("releases", 1, "chain"), "0" * 64, "chain"),
    "a size": (("releases", 1, "users"), 11, "chain"),
    "a version": (("releases", 1, "version"), 3, "chain"),
    "releases": (("releases",), [], "chain"),
    "plans": (("plans",), [], "chain"),
    "a charge": (("population", "charges", 0, "epsilon"), 0.5, "population"),
    "a charge too many": (("population", "ledger", "budget", "epsilon"), 0.5, "population"),
    "a charge of the filter": (("population", "ledger", "charges", 0, "pure"), 0.5, "population"),
    "no ledger": (("population",), None, "population"),
    "another population": (("population", "name"), "others", "population"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_changed_field_is_found_without_a_signature(small, name):
    """Who has no key can still renew the digest; all that follows from the parameters is computed again."""
    path, value, check = FIELDS[name]
    assert check in failed(unsigned(changed_at(json.loads(small), path, value)))


def test_the_same_without_a_change_holds(small):
    assert failed(unsigned(json.loads(small))) == set()


def test_another_signer_is_found_with_the_key(small):
    """Whoever signs again has another key; who was given the right one elsewhere sees it."""
    document = json.loads(small)
    key, other = document["signer"]["key"], signing.new_signing_key()
    forged = {**document, "made": "2030-01-01T00:00:00Z"}
    forged["signer"] = {"algorithm": "Ed25519", "key": signing.public_key(other)}
    forged["digest"] = signing.digest(forged)
    forged["signature"] = signing.sign(forged, other)
    text = signing.written(forged)
    assert failed(text) == set()
    assert any("--key" in line for line in live.verify(text).unchecked)
    assert failed(text, key) == {"key"}
    assert failed(small, key) == set()
    assert not any("--key" in line for line in live.verify(small, key).unchecked)
    assert failed(unsigned(document), key) == {"signature"}
    forged["signer"]["key"] = key
    forged["digest"] = signing.digest(forged)
    assert failed(signing.written(forged), key) == {"signature"}


def test_it_says_what_nobody_can_check(small):
    found = live.verify(small)
    assert any("added its noise" in line for line in found.unchecked)
    assert any("assumptions hold" in line for line in found.unchecked)


def test_a_statement_of_another_version_is_computed_but_its_words_are_not_compared(small):
    document = json.loads(small)
    found = live.verify(unsigned(document, written_by="0.0.1"))
    assert found.holds
    assert any("its words" in line for line in found.unchecked)
    halved = changed_at(document, ("mechanism", "blueprint", "document", "calibration", "parameter"), 10**9)
    assert "epsilon" in failed(unsigned(halved, written_by="0.0.1"))


def test_an_encoder_for_another_world_is_refused_whatever_the_version():
    """A device that counts more steps than the sensitivity allows for has less privacy than its noise would give."""
    document = copy.deepcopy(stated("local laplace")[0].document)
    built = document["mechanism"]["blueprint"]["document"]
    encoder = json.loads(built["calibration"]["encoder"])
    encoder["layout"]["horizon"] = 4
    built["calibration"]["encoder"] = json.dumps(encoder)
    assert "mechanism" in failed(unsigned(document, written_by="0.0.1"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mechanism", "blueprint", "document", "agent"), "planted.Agent"),
        (("config", "agent", "name"), "planted:Agent"),
        (("config", "world"), {"env": "planted:world"}),
        (("mechanism", "blueprint", "document", "spec", "$record"), "planted:Spec"),
        (("mechanism", "blueprint", "document", "options", "privacy", "$record"), "planted:Central"),
    ],
)
def test_nothing_that_it_names_is_imported(small, path, value, tmp_path, monkeypatch):
    """A statement comes from strangers: it must not choose what runs here."""
    (tmp_path / "planted.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert failed(unsigned(changed_at(json.loads(small), path, value)))
    assert "planted" not in sys.modules


MALFORMED = [None, 7, "x", [], {}, [7], {"x": 7}, [{}]]


@pytest.mark.parametrize(
    "key", sorted(verdict._KEYS - {"format", "made", "written_by", "signer", "signature", "digest"})
)
def test_malformed_parts_do_not_hold_and_do_not_crash(small, key):
    document = json.loads(small)
    for value in MALFORMED:
        assert failed(unsigned(document, **{key: value})), value


@pytest.mark.parametrize("key", ["made", "written_by", "signer", "signature", "digest"])
def test_malformed_parts_that_the_signature_guards_do_not_hold(small, key):
    document = json.loads(small)
    for value in MALFORMED:
        assert failed(signing.written({**document, key: value})), value


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"format": "discreet statement 2"}', "\x00", "[" * 10**5])
def test_what_is_no_statement_is_bad_input(text, tmp_path, discreet_):
    file = tmp_path / "statement.json"
    file.write_text(text)
    code, out, err = discreet_("verify", str(file))
    assert (code, out) == (2, "")
    assert err.startswith("discreet:")
    assert "Traceback" not in err
    assert fails(text)


def test_the_command(small, tmp_path, discreet_):
    file, key = tmp_path / "statement.json", tmp_path / "key"
    file.write_text(small)
    document = json.loads(small)
    key.write_text(document["signer"]["key"] + "\n")
    code, out, err = discreet_("verify", str(file))
    assert (code, err) == (0, "")
    assert "the statement holds" in out
    assert "not checked" in out
    for given in (document["signer"]["key"], str(key)):
        code, out, _ = discreet_("verify", str(file), "--key", given, "--json")
        assert code == 0
        found = json.loads(out)
        assert found["holds"] is True
        assert found["epsilon"] == pytest.approx(document["promise"]["guarantee"]["epsilon"], abs=1e-9)
        assert {check["name"] for check in found["checks"]} >= {
            "bytes",
            "digest",
            "signature",
            "key",
            "epsilon",
            "chain",
        }
    assert discreet_("verify", str(file), "--key", "ab" * 32)[0] == 1
    assert discreet_("verify", str(file), "--key", "nonsense")[0] == 2
    assert discreet_("verify", str(tmp_path / "none.json"))[0] == 2
    file.write_text(small + " ")
    code, out, err = discreet_("verify", str(file))
    assert (code, err) == (1, "")
    assert "IT DOES NOT HOLD" in out


def test_a_world_that_is_not_ours_is_said_not_to_be_checked():
    """Its sizes are in the parameters; whether they are the environment's, nobody here can tell."""
    with live.create("memory:", config(world={"env": "riverswim:states=3,horizon=2"}), now=0.0) as made:
        document = made.statement().document
    assert live.verify(signing.written(document)).holds
    found = live.verify(unsigned(changed_at(document, ("config", "world", "env"), "my.worlds:tutor")))
    assert {check.name for check in found.checks if not check.held} == {"chain"}  # which begins with the configuration
    assert any("environment" in line for line in found.unchecked)

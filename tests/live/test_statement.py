"""Statements: all that is promised, computed from itself; nobody's data, no seed and no private key in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from functools import cache

import pytest

from discreet import live
from discreet.errors import MissingExtra
from discreet.live import signing
from discreet.live.words import rounded_up
from discreet.runtime import records
from tests.live.mechanisms import GAUSSIAN, MECHANISMS, SHUFFLE, config
from tests.live.people import KINDS, Crowd, deploy, shut


@cache
def stated(name):
    """The statement of a new deployment with one of the mechanisms, and its guarantee."""
    with live.create("memory:", MECHANISMS[name], now=0.0) as made:
        return made.statement(now=1e9), made.guarantee


@pytest.mark.parametrize("name", MECHANISMS)
def test_epsilon_follows_from_the_statement_alone(name):
    """A parameter that is missing, or one that is not what ε was computed from, would give another ε."""
    statement, guarantee = stated(name)
    verdict = live.verify(statement.to_json())
    assert verdict.holds, verdict.to_text()
    assert abs(verdict.epsilon - guarantee.epsilon) <= 1e-9
    assert verdict.delta == guarantee.delta
    promise = statement.document["promise"]
    assert abs(promise["guarantee"]["epsilon"] - guarantee.epsilon) <= 1e-9
    assert promise["guarantee"]["assumptions"] == list(guarantee.assumptions)
    assert guarantee.noise == "secure"
    if name != "printed noise":
        assert promise["one_episode"]["epsilon"] <= 1.0


@pytest.mark.parametrize("first", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 5))])
def test_a_process_that_knows_nothing_else_computes_the_same(first, tmp_path):
    """What this process remembers (calibrations, caches) must not be what makes statements hold."""
    names = list(MECHANISMS)[first::5]
    for i, name in enumerate(names):
        (tmp_path / f"{i}.json").write_text(stated(name)[0].to_json())
    code = (
        "import sys; from pathlib import Path; from discreet import live\n"
        "for path in sys.argv[1:]:\n"
        "    found = live.verify(Path(path).read_bytes())\n"
        "    print(found.holds, repr(found.epsilon))\n"
    )
    paths = [str(tmp_path / f"{i}.json") for i in range(len(names))]
    elsewhere = {**os.environ, "DISCREET_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, env=elsewhere, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        holds, epsilon = line.split()
        assert holds == "True", name
        assert abs(float(epsilon) - stated(name)[1].epsilon) <= 1e-9, name


@pytest.mark.parametrize("kind", ["dp-ucbvi", "discreet-vi local", "binomial"])
def test_the_chain_is_that_of_the_releases(kind):
    """A hash of anything but what was released, a version left out, or a plan that is not shown would differ."""
    made = deploy(kind)
    crowd = Crowd(made)
    crowd.batch()
    early = made.statement(now=1e9).document
    crowd.batch()
    document = made.statement(now=1e9).document
    assert live.verify(made.statement().to_json()).holds
    for release, shown in zip(made.releases(), document["releases"], strict=True):
        packed = hashlib.sha256(records.pack(release.released)).hexdigest()
        assert shown == {"version": release.version, "users": release.users, "hash": packed, "chain": release.chain}
    assert [plan["hash"] for plan in document["plans"]] == [made.plan(v).hash for v in range(3)]
    assert early["releases"] == document["releases"][:1]
    assert early["chain"] == document["chain"]
    shut(made)


def test_a_deployment_that_is_opened_again_says_the_same(tmp_path):
    """The signing key is kept: a new one after a restart would look like another signer."""
    url = f"sqlite:///{tmp_path / 'steps.db'}"
    with live.create(url, config(), now=0.0) as made:
        first = made.statement(now=1e9).to_json()
    with live.open(url, "steps") as again:
        assert again.statement(now=1e9).to_json() == first


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in ("dp-ucbvi", "laplace", "binomial")])
def test_nothing_personal_and_no_secret_is_in_it(kind):
    """Pseudonyms, their hashes, tokens, reports and keys: none of them may be in the document or on the page."""
    made = deploy(kind)
    crowd = Crowd(made)
    tokens = [crowd.one().token for _ in range(made.plan().size)]
    statement = made.statement()
    shown = statement.to_json() + statement.page()
    keys = made._keys
    secrets = [key.hex() for key in keys]
    secrets += [token.rpartition(".")[2] for token in tokens]
    secrets += [f"person {k}" for k in range(crowd.k)]
    assert not [secret for secret in secrets if secret in shown]
    assert "entropy" not in shown
    assert "person 0" not in repr(statement)
    shut(made)


def test_the_seed_of_a_simulation_is_not_in_it():
    """Who knows the seed of fast noise can take it off again."""
    privacy = {**GAUSSIAN, "noise": "fast"}
    with live.create("memory:", config(privacy=privacy, simulation=True, seed=987_654_321), now=0.0) as made:
        statement = made.statement()
        assert "987654321" not in statement.to_json()
        assert "seed" not in statement.document["config"]
        verdict = live.verify(statement.to_json())
        assert verdict.holds, verdict.to_text()
        assert "simulation only" in verdict.to_text()
        assert "A simulation" in statement.page()


def test_a_deployment_without_privacy_promises_nothing():
    asked = config("ucbvi", {"trust": "none"}, simulation=True)
    with live.create("memory:", asked, now=0.0) as made:
        statement = made.statement()
        assert statement.document["promise"]["guarantee"]["epsilon"] is None
        assert statement.document["population"] is None
        verdict = live.verify(statement.to_json())
        assert verdict.holds, verdict.to_text()
        assert json.loads(json.dumps(verdict.to_dict(), allow_nan=False))["epsilon"] is None
        assert "Nothing is promised" in statement.page()


def test_without_the_library_it_says_that_it_is_not_signed(monkeypatch):
    """It must not look signed, and one that is signed must not pass unchecked."""
    signed = stated("optimal")[0]

    def missing():
        raise MissingExtra("cryptography", "live")

    monkeypatch.setattr(signing, "_library", missing)
    with live.create("memory:", config(), now=0.0) as made:
        statement = made.statement()
    assert statement.key is None
    assert "unsigned" in repr(statement)
    assert "This statement is not signed" in statement.page()
    verdict = live.verify(statement.to_json())
    assert verdict.holds
    assert "who made it: it is not signed" in verdict.unchecked
    assert not live.verify(statement.to_json(), key="ab" * 32).holds
    with pytest.raises(MissingExtra):
        live.verify(signed.to_json())


@pytest.mark.parametrize(
    "name", ["tree, laplace", "local gaussian", "first visits", "sdp-pe, central", "linear, local"]
)
def test_the_page_needs_nothing_else_and_says_all_of_it(name):
    """A page that loads something tells others who reads it; a line that is left out is not said."""
    statement, guarantee = stated(name)
    document, page = statement.document, statement.page()
    assert not re.search(r"<script|<link|<img|<iframe|src=|href=|url\(|@import|https?:", page)
    text = re.sub(r"\s+", " ", page)
    lines = [*document["promise"]["words"], *document["not_covered"], *document["not_checked"]]
    lines += [line[1:] for line in guarantee.assumptions] + document["trust"]["words"]
    for line in [*lines, statement.key, document["digest"], document["chain"], document["discreet"]]:
        assert line.replace("'", "&#x27;") in text, line
    assert f"ε = {rounded_up(guarantee.epsilon, 6)}" in text


def test_what_is_promised_is_never_rounded_down():
    """A page that says 0.123456 for 0.1234561 promises more than was proven."""
    for value, digits, shown in [
        (0.1234561, 6, "0.123457"),
        (0.9999999989, 6, "1"),
        (1e-5, 3, "1e-05"),
        (1.0001e-5, 3, "1.01e-05"),
        (2.0, 6, "2"),
        (0.0, 6, "0"),
        (123456789.0, 4, "1.235e+08"),
    ]:
        assert rounded_up(value, digits) == shown
        assert float(shown) >= value


def test_the_page_escapes_what_it_shows():
    """A name in a configuration must not become part of the page."""
    statement, _ = stated("optimal")
    document = {**statement.document, "deployment": "<script>alert(1)</script>"}
    page = live.Statement(document).page()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_it_says_which_share_of_a_batch_must_be_honest():
    with live.create("memory:", config(privacy={**SHUFFLE, "honest_fraction": 0.7}), now=0.0) as made:
        assumptions = made.statement().document["promise"]["guarantee"]["assumptions"]
    assert any("0.7" in line or "70" in line for line in assumptions), assumptions

"""What `discreet budget --agent discreet-vi` prints; under local privacy: tests/cli/test_cli.py."""

from __future__ import annotations

import json

import pytest

BUDGET = ("budget", "riverswim", "--agent", "discreet-vi", "--trust", "shuffle", "-d", "1e-6", "-K", "2000")


def test_noise_and_messages_of_every_batch_and_number_of_questions(discreet_):
    code, out, _ = discreet_(*BUDGET, "--stationary")
    assert code == 0
    for text in ("shuffle DP, ε = 0.99", "3 counters a cell", "J = 12", "add their noise bits"):
        assert text in out
    code, out, _ = discreet_(*BUDGET, "--stationary", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["release"] == "first-visits"
    assert 0.99 <= found["guarantee"]["epsilon"] <= 1.0
    assert sum(row["users"] * row["batches"] for row in found["batches"]) == found["collected"] <= 2000
    one, two = (found["batches"][0]["questions"][J] for J in ("1", "2"))
    assert 1.4 < two["std"] / one["std"] < 1.43
    assert one["messages_per_user"] >= 8 * 3  # S + 2 counters, a data bit and a pair of noise bits each


@pytest.mark.parametrize("release", ["nmr", "mr"])
def test_other_releases_are_refused(discreet_, release):
    code, _, err = discreet_(*BUDGET, "--release", release)
    assert code == 2
    assert "first visits" in err


def test_it_runs_from_the_command_line(discreet_):
    arguments = ("--trust", "shuffle", "-d", "1e-6", "--stationary", "--episodes", "300", "--runs", "1", "--seed", "0")
    code, out, err = discreet_("run", "riverswim:states=3,horizon=5", "--agent", "discreet-vi", *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["guarantee"]["notion"] == "shuffle"


@pytest.mark.parametrize(
    "asked",
    [
        ("--agent", "dp-ucbvi"),
        ("--agent", "pucb", "--sum", "tree", "--calibration", "paper"),
        ("--agent", "dp-ucbvi", "--trust", "local", "--sum", "laplace"),
        ("--agent", "dp-ucbvi", "--trust", "local", "-d", "1e-6", "--sum", "gaussian"),
        ("--agent", "dp-ucbvi", "--trust", "shuffle", "-d", "1e-6"),
        ("--agent", "discreet-vi", "-d", "1e-6"),
        ("--agent", "sdp-pe", "-d", "1e-6"),
        ("--agent", "rlsvi", "-d", "1e-6"),
    ],
)
def test_budgets_say_which_noise_they_are_for(discreet_, asked):
    """Catches a budget for noise that may be released which is called a simulation, and the other way round."""
    budget = ("budget", "riverswim:states=3,horizon=3", "-K", "500", "--stationary", *asked)
    for noise, said in (("fast", True), ("secure", False)):
        code, out, err = discreet_(*budget, "--noise", noise)
        assert code == 0, err
        assert ("simulation only" in out) == said

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Before NumPy loads it: on matrices of tests a second thread of OpenBLAS does nothing but wait, at full power.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

import discreet as dc

# Compiled kernels are kept beside their source, whatever the environment says; so is bytecode, here and in every
# process that a test starts. Without it each of them compiles the whole library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent.parent
#: Agents on sums of feature products: tried in tests/agents/test_linopt.py.
LINEAR = ("linopt-vi", "linopt-po")
#: Agents that count, and update when they are told to; sdp-pe has stages, and tests of its own.
UPDATED = tuple(name for name in dc.agents.NAMES if name not in (*LINEAR, "sdp-pe"))
#: Those of them that take a private trust model of any kind.
PRIVATE = ("pucb", "dp-ucbvi", "private-ucb-vi", "private-ucb-po")
#: Every sum of every trust model at ε = 1.
TRUST = {
    "none": dc.NonPrivate(),
    "tree, laplace": dc.Central(1.0, sum="tree"),
    "tree, gaussian": dc.Central(1.0, 1e-6, sum="tree"),
    "smooth-tree, laplace": dc.Central(1.0, sum="smooth-tree"),
    "smooth-tree, gaussian": dc.Central(1.0, 1e-6, sum="smooth-tree"),
    "factored": dc.Central(1.0, 1e-6, sum="factored"),
    "batch, laplace": dc.Central(1.0, sum="batch"),
    "batch, gaussian": dc.Central(1.0, 1e-6, sum="batch"),
    "factored, mr": dc.Central(1.0, 1e-6, sum="factored", release="mr"),
    "local laplace": dc.Local(1.0, sum="laplace"),
    "local gaussian": dc.Local(1.0, 1e-6, sum="gaussian"),
    "local sampled": dc.Local(1.0, sum="sampled"),
    "shuffle": dc.Shuffle(1.0, 1e-6),
    "shuffle, mr": dc.Shuffle(1.0, 1e-6, release="mr"),
}
CENTRAL = [name for name, trust in TRUST.items() if isinstance(trust, dc.Central)]


@pytest.fixture(scope="session", autouse=True)
def calibrations(tmp_path_factory):
    """Calibrations are kept for this test run only, by all its workers together."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["DISCREET_CACHE_DIR"] = str(run / "calibrations")


def make_agent(name, spec, *, trust="tree, laplace", **options):
    """Returns an agent; private ones get a trust model by name."""
    if name in (*PRIVATE, "auto"):
        options.setdefault("privacy", TRUST[trust])
    if name in ("rlsvi", "discreet-vi"):  # with a trusted server they have Gaussian noise: δ > 0 only
        options.setdefault("privacy", dc.Central(1.0, 1e-6))
    return dc.agents.make(name, spec, **options)


def every_other(first, second):
    """Returns all pairs, as parameters; those in which the places add up to an odd number are slow."""
    pairs = [(i + j, one, two) for i, one in enumerate(first) for j, two in enumerate(second)]
    return [pytest.param(one, two, marks=[pytest.mark.slow] * (n % 2)) for n, one, two in pairs]


#: Every agent meets every trust model; beyond these few only dp-ucbvi does so in the fast tests.
FEW = ("none", "tree, laplace", "factored, mr", "local sampled", "shuffle")


def met(name, trust):
    """Returns a pair as parameters: slow, if another agent stands for it."""
    return pytest.param(name, trust, marks=[] if name == "dp-ucbvi" or trust in FEW else [pytest.mark.slow])


def plant(agent, released, users=0):
    """Lets an agent plan from a release that nobody made; returns the plan."""
    private = agent.privatizer
    private.settle(private.reveal(), users, 1, released)
    return agent.plan


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)


@pytest.fixture
def python():
    """Runs Python code in a process of its own and returns what it prints."""

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def discreet_(monkeypatch, capfd):
    """Runs a command line in this process; returns exit code, stdout and stderr."""

    from discreet.cli import main

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["discreet", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        return (exit_.value.code, *capfd.readouterr())

    return call


def random_mdp(rng, states=2, actions=2, horizon=3, per_step=True, **kw):
    """Dense random dynamics and rewards."""
    steps = horizon if per_step else 1
    P = rng.dirichlet(np.ones(states), size=(steps, states, actions))
    return dc.TabularMDP(
        P, rng.random((steps, states, actions)), initial=rng.dirichlet(np.ones(states)), horizon=horizon, **kw
    )

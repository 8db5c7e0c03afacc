from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet as dc

ROOT = Path(__file__).parent.parent


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


def random_mdp(rng, states=2, actions=2, horizon=3, per_step=True, **kw):
    """Dense random dynamics and rewards."""
    steps = horizon if per_step else 1
    P = rng.dirichlet(np.ones(states), size=(steps, states, actions))
    return dc.TabularMDP(
        P, rng.random((steps, states, actions)), initial=rng.dirichlet(np.ones(states)), horizon=horizon, **kw
    )

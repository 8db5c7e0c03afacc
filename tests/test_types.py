"""The trust boundary in the types: mypy refuses what would hand a person's data to somebody who must not have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

HEAD = """
import numpy as np
from discreet.agents.tabular import TabularAgent
from discreet.mdp import Trajectory
from discreet.privacy import (
    AnswerBatch, AnswerReport, BitsReport, NoisyBatch, NoisyReport, RawBatch, RawReport, Report, SampledBatch,
    SampledReport, ShuffledBatch,
)
from discreet.privatizers import BitShuffler, Privatizer
from discreet.privatizers.base import PrivateCounts
from discreet.privatizers.counts.encode import NoisyEncoder
from discreet.privatizers.counts.shuffle import Ones
from discreet.privatizers.first_visits.serve import Answered, FirstVisits
from discreet.privatizers.local import Totals
from discreet.privatizers.questions.serve import Answers, Counted, Questions
from discreet.privatizers.sampled.serve import Supports
from discreet.sums import SumState

def snippet(
    agent: TabularAgent, central: Privatizer[RawBatch, SumState, PrivateCounts],
    noisy: Privatizer[NoisyBatch, "Totals", PrivateCounts], sampled: Privatizer[SampledBatch, Supports, PrivateCounts],
    shuffle: Privatizer[ShuffledBatch, Ones, PrivateCounts], shuffler: BitShuffler, encoder: NoisyEncoder,
    rng: np.random.Generator, trajectory: Trajectory, raw: RawReport, report: Report, hidden: NoisyReport,
    answer: SampledReport, bits: BitsReport, raw_batch: RawBatch, noisy_batch: NoisyBatch,
    sampled_batch: SampledBatch, shuffled: ShuffledBatch, questions: Privatizer[AnswerBatch, Counted, Answers],
    asking: Questions, answers: AnswerBatch, answered: AnswerReport,
    first: Privatizer[ShuffledBatch, Answered, FirstVisits],
) -> None:
"""

ALLOWED = [
    "central.collect(raw_batch)",
    "noisy.collect(noisy_batch)",
    "sampled.collect(sampled_batch)",
    "questions.collect(answers)",
    "questions.collect(asking.shuffler()([answered], rng))",
    "shuffle.collect(shuffled)",
    "shuffle.collect(shuffler([bits], rng))",
    "first.collect(shuffled)",
    "first.collect(shuffler([bits], rng))",
    "agent.observe(shuffled)",
    "agent.observe(noisy_batch)",
    "encoder.encode(trajectory, rng)",
]
FORBIDDEN = [
    "noisy.collect(trajectory)",
    "sampled.collect(trajectory)",
    "shuffle.collect(trajectory)",
    "central.collect(trajectory)",
    "agent.observe(trajectory)",
    "agent.observe(raw)",
    "agent.observe(report)",
    "agent.observe(bits)",
    "noisy.collect(raw_batch)",
    "sampled.collect(raw_batch)",
    "shuffle.collect(raw_batch)",
    "shuffle.collect(noisy_batch)",
    "shuffle.collect(bits)",
    "shuffle.collect(report)",
    "shuffle.collect([bits])",
    "first.collect(trajectory)",
    "first.collect(bits)",
    "first.collect([bits])",
    "first.collect(raw_batch)",
    "shuffler([raw], rng)",
    "shuffler([trajectory], rng)",
    "noisy.collect(hidden)",
    "sampled.collect(answer)",
    "questions.collect(trajectory)",
    "questions.collect(raw_batch)",
    "questions.collect(sampled_batch)",
    "questions.collect(answered)",
    "asking.shuffler()([raw], rng)",
    "shuffle.collect(answers)",
]


def test_mypy_refuses_what_the_trust_model_forbids(tmp_path):
    """Every forbidden line is an error, and no allowed one is."""
    file = tmp_path / "snippets.py"
    file.write_text(HEAD + "".join(f"    {line}\n" for line in [*ALLOWED, *FORBIDDEN]))
    first = len(HEAD.splitlines()) + 1
    root = Path(__file__).parent.parent
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    errors = {}
    for line in result.stdout.splitlines():
        name, number, kind, message = [*line.split(":", maxsplit=3), "", "", ""][:4]
        if name.endswith("snippets.py") and "error" in kind:
            errors[int(number)] = message
    wrong = {first + len(ALLOWED) + i: line for i, line in enumerate(FORBIDDEN)}
    assert sorted(errors) == sorted(wrong), result.stdout
    for number, message in errors.items():
        assert "[arg-type]" in message or "[list-item]" in message, (wrong[number], message)

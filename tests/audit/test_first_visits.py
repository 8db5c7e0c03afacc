"""First visits under attack: below the claim as built, above it with planted bugs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import discreet as dc
from discreet import audit
from discreet.privacy import BitsReport
from discreet.privatizers import BitShuffler
from discreet.privatizers.first_visits.encode import FirstVisitEncoder

PRIVACY = dc.Shuffle(1.0, 1e-2, release="first-visits")


def caught(target, runs):
    """Attacks a target that does not keep its claim."""
    finding = audit.audit(target, runs=runs, seed=2)
    assert finding.violated, finding
    return finding


@pytest.mark.parametrize(  # 2500 prove 0.4, 4000 0.5; pooled, shuffled counts are attacked by day
    ("stationary", "runs"),
    [(False, 2500), *(pytest.param(pool, 4000, marks=pytest.mark.slow) for pool in (False, True))],
)
def test_no_bound_exceeds_the_claim(stationary, runs):
    finding = audit.audit(audit.shuffle(PRIVACY, users=2, steps=2, stationary=stationary), runs=runs, seed=1)
    assert not finding.violated
    assert finding.lower_bound > 0.25  # and the attack is a good one


@pytest.mark.slow
def test_silent_users_are_accounted_for():
    """Must show: half of the users add no noise: under the claim of honest_fraction = 0.5, above that of 1."""
    half = dataclasses.replace(PRIVACY, honest_fraction=0.5)
    assert not audit.audit(audit.shuffle(half, users=2), runs=40_000, seed=3).violated
    caught(audit.shuffle(PRIVACY, users=2, silent=1), runs=40_000)


def test_half_the_noise_is_caught():
    """Planted: a table with a quarter of the noise bits, half the standard deviation."""
    honest = audit.shuffle(PRIVACY, users=2, stationary=True)
    table = tuple((J, max(1, m // 4), p) for J, m, p in honest.encoder.noise)
    caught(dataclasses.replace(honest, encoder=dataclasses.replace(honest.encoder, noise=table)), runs=3000)


def test_reports_that_stay_whole_are_caught():
    class Whole(BitShuffler):
        def mix(self, reports, rng):
            order = rng.permutation(len(reports))
            return np.concatenate([reports[i].bits for i in order], axis=1)

    honest = audit.shuffle(PRIVACY, users=3, stationary=True)
    finding = caught(dataclasses.replace(honest, shuffler=Whole(0, (0, 0))), runs=400)
    assert finding.attack.startswith("linked")


@dataclasses.dataclass(frozen=True)
class EveryVisit(FirstVisitEncoder):
    """Planted: later visits count too, as data bits of their own; the noise is that for first visits."""

    data_bits = 3

    def touched(self, trajectory, source):
        indices, ones = super().touched(trajectory, source)
        cell = trajectory.states[:-1] * self.spec.actions + trajectory.actions
        again = [np.count_nonzero(cell == asked) for asked in self.cells]
        return indices, ones * np.tile(again, 3)

    def encode(self, trajectory, rng):
        counts = np.bincount(*self.touched(trajectory, rng), self.size)
        data = np.arange(self.data_bits) < counts[:, None]
        noise = super().encode(trajectory, rng).bits[:, 1:]
        return BitsReport(np.concatenate([data, noise], axis=1))


def test_a_visit_that_is_counted_again_is_caught():
    honest = audit.shuffle(PRIVACY, users=2, steps=3, stationary=True)
    fields = {f.name: getattr(honest.encoder, f.name) for f in dataclasses.fields(honest.encoder)}
    caught(dataclasses.replace(honest, encoder=EveryVisit(**fields)), runs=1000)
    assert not audit.audit(honest, runs=300, seed=2).violated


@pytest.mark.parametrize("arguments", [(), ("--stationary", "--users", "3", "--steps", "2")])
def test_the_command_line_attacks_it(discreet_, arguments):
    code, out, _ = discreet_(
        "audit", "shuffle", "-d", "1e-2", "--release", "first-visits", "--runs", "500", "--seed", "1", *arguments
    )
    assert code == 0
    assert "shuffle" in out

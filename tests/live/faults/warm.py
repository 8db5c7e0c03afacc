"""One batch of each trust model in memory."""

from __future__ import annotations

import numpy as np

from discreet import live
from tests.live.faults.worlds import SLOTS, TRUSTS, WITHIN, config, report_of

__all__ = ["batch", "up"]


def batch(deployment: live.Deployment, rng: np.random.Generator, now: float, people: str = "person") -> None:
    """Has a whole batch start, report and be released."""
    shuffler = deployment.shuffler
    for i in range(SLOTS):
        ticket = deployment.start(f"{people} {i}", now)
        assert ticket.encoder is not None
        assert ticket.token is not None
        text, _ = report_of(ticket.encoder.to_json(), rng)
        if shuffler is None:
            deployment.report(ticket.token, text, now)
        else:
            shuffler.report(ticket.token, text)
    assert deployment.close_due(now + 2 * WITHIN)


def up() -> None:
    """Compiles what is compiled."""
    rng = np.random.default_rng(0)
    for trust in TRUSTS:
        with live.create("memory:", config(trust), now=0.0) as deployment:
            if trust == "shuffle":
                deployment.shuffler = live.Shuffler("memory:", deployment.terms)
            batch(deployment, rng, 1.0)
            if deployment.shuffler is not None:
                deployment.shuffler.shut()

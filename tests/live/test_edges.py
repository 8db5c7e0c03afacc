"""What nobody should do, and somebody will."""

from __future__ import annotations

import shutil

import pytest

from discreet import live
from discreet.errors import InvalidInput, RolledBack
from discreet.live.stores import connect
from tests.live.people import Crowd, config, deploy, shut


def test_a_deployment_in_which_no_batch_fits_is_refused():
    """Would catch one that is open for ever, has charged its people's ledger, and collects nobody."""
    store = connect("memory:")
    for episodes, every in ((3, 10), (4, 5)):
        with pytest.raises(InvalidInput, match="no batch fits into"):
            live.create(store, config(agent={"episodes": episodes, "update_every": every}))
    assert live.names(store) == []
    with live.create(store, config(agent={"episodes": 5, "update_every": 5})) as deployment:
        assert deployment.plan().size == 5


@pytest.mark.parametrize("now", [float("nan"), float("inf"), -float("inf"), "soon"])
def test_a_time_that_is_none_is_refused(now):
    """Would catch one start at an infinite time, after which its batch never closes."""
    deployment = deploy()
    ticket = deployment.start(person="a", now=0.0)
    for call in (
        lambda: deployment.start(person="b", now=now),
        lambda: deployment.report(ticket.token, ticket.encoder.absent(), now=now),
        lambda: deployment.step(ticket.token, 1, 0, now=now),
        lambda: deployment.close_due(now=now),
        lambda: live.create("memory:", config(), now=now),
    ):
        with pytest.raises(InvalidInput, match="now must be"):
            call()
    assert deployment.status["issued"] == 1
    shut(deployment)


def test_an_erasure_proves_a_roll_back_too(tmp_path):
    """Would catch an old copy that says "erased" of a slot that it never gave out, and goes on."""
    path = tmp_path / "steps.db"
    shut(deploy(url=f"sqlite:///{path}"))
    for folder in ("slot", "version"):
        (tmp_path / folder).mkdir()
        shutil.copy(path, tmp_path / folder / "steps.db")
    deployment = live.open(f"sqlite:///{path}", "steps")
    crowd = Crowd(deployment)
    tokens = {"slot": crowd.fill()[0].token}
    crowd.now += 11
    deployment.close_due(now=crowd.now)
    tokens["version"] = crowd.one().token
    shut(deployment)
    for folder, token in tokens.items():
        with live.open(f"sqlite:///{tmp_path / folder / 'steps.db'}", "steps") as old:
            with pytest.raises(RolledBack):
                old.erase(token=token)
            assert old.state == "rolled-back"

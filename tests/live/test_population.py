"""A population's ledger: one budget for all deployments on the same people, charged before anything is released."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from discreet import live
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.live import population
from discreet.live.population import Population
from discreet.live.stores import connect, sql
from discreet.privacy import Budget, Guarantee, Ledger
from tests.live.mechanisms import CENTRAL, GAUSSIAN, LOCAL, MECHANISMS, SHUFFLE, config


@pytest.fixture
def store():
    found = connect("memory:")
    yield found
    found.close()


def create(store, name, privacy=CENTRAL, **more):
    return live.create(store, config(privacy=privacy, name=name, **more), now=0.0)


def test_without_a_budget_there_is_room_for_this_deployment_and_nothing_else(store):
    """A ledger that leaves room nobody asked for would let a second deployment double what a person loses."""
    made = create(store, "first", population="clinic")
    found = live.ledger(store, "clinic")
    assert found.budget.epsilon == pytest.approx(made.guarantee.epsilon, rel=1e-9)
    assert found.budget.delta == made.guarantee.delta
    assert [charge.deployment for charge in found.charges] == ["first"]
    with pytest.raises(BudgetExceeded, match="clinic"):
        create(store, "second", {**CENTRAL, "epsilon": 0.001}, population="clinic")
    assert live.names(store) == ["first"]
    assert live.ledger(store, "clinic").to_dict() == found.to_dict()


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_charged(name, store):
    """Secure noise and shuffled bits too: a guarantee that no ledger takes could be released for nothing."""
    made = live.create(store, MECHANISMS[name], now=0.0)
    found = live.ledger(store, "steps")
    own, guarantee = found.charges[0], made.guarantee
    assert (own.epsilon, own.delta) == (guarantee.epsilon, guarantee.delta)
    assert guarantee.epsilon <= found.budget.epsilon <= guarantee.epsilon * (1 + 1e-9)


def test_deployments_share_a_budget_until_it_is_spent(store):
    budget = {"name": "clinic", "epsilon": 2.5, "delta": 3e-5}
    create(store, "one", {**CENTRAL, "epsilon": 0.5}, population=budget)
    create(store, "two", {**LOCAL, "epsilon": 0.5, "sum": "sampled"}, population="clinic")
    create(store, "three", {**SHUFFLE, "epsilon": 0.5}, population="clinic")
    create(store, "four", {**GAUSSIAN, "epsilon": 0.5}, population=budget)
    found = live.ledger(store, "clinic")
    assert [charge.deployment for charge in found.charges] == ["one", "two", "three", "four"]
    assert 0.5 < found.spent <= 2.5
    with pytest.raises(BudgetExceeded):
        create(store, "five", {**CENTRAL, "epsilon": 1.5}, population="clinic")
    assert "five" not in live.names(store)
    create(store, "five", {**GAUSSIAN, "epsilon": 0.2}, population="clinic")  # the name is free, and there is room


def test_delta_is_a_budget_too(store):
    create(store, "one", {**SHUFFLE, "epsilon": 0.5}, population={"name": "clinic", "epsilon": 9, "delta": 1.5e-5})
    with pytest.raises(BudgetExceeded):
        create(store, "two", {**SHUFFLE, "epsilon": 0.5}, population="clinic")


def test_another_budget_is_refused(store):
    """Whoever may change a budget later has none."""
    create(store, "one", population={"name": "clinic", "epsilon": 2.0})
    for more in ({"epsilon": 3.0}, {"epsilon": 2.0, "delta": 1e-6}):
        with pytest.raises(InvalidInput, match="never changed"):
            create(store, "two", population={"name": "clinic", **more})
    assert live.names(store) == ["one"]
    create(store, "two", {**CENTRAL, "epsilon": 0.9}, population={"name": "clinic", "epsilon": 2.0})


def test_by_default_every_deployment_has_people_of_its_own(store):
    create(store, "one")
    create(store, "two")
    assert live.ledger(store, "one").name == "one"
    assert live.ledger(store, "two").charges[0].deployment == "two"
    with pytest.raises(InvalidInput, match="no population"):
        live.ledger(store, "three")


def test_several_episodes_are_charged_as_a_group(store):
    """Charging what one episode proves would be a third of what a person with three loses."""
    create(
        store, "one", {**CENTRAL, "epsilon": 1.0}, population={"name": "clinic", "epsilon": 3.5}, episodes_per_person=3
    )
    assert live.ledger(store, "clinic").charges[0].epsilon == pytest.approx(3.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        create(store, "two", {**CENTRAL, "epsilon": 0.6}, population="clinic")


def test_simulations_without_privacy_charge_nothing(store):
    live.create(store, config("ucbvi", {"trust": "none"}, simulation=True), now=0.0)
    with pytest.raises(InvalidInput):
        live.ledger(store, "steps")


def test_a_deployment_that_is_not_made_is_not_charged(store, monkeypatch):
    """Charge and deployment are one transaction: neither without the other."""
    create(store, "one", {**CENTRAL, "epsilon": 0.5}, population={"name": "clinic", "epsilon": 2.0})
    before = live.ledger(store, "clinic").to_dict()
    monkeypatch.setattr(sql, "NEW_PLAN", "INSERT INTO nowhere VALUES (:name)")
    with pytest.raises(Exception, match="database"):
        create(store, "two", {**CENTRAL, "epsilon": 0.5}, population="clinic")
    monkeypatch.undo()
    assert live.ledger(store, "clinic").to_dict() == before
    assert live.names(store) == ["one"]


def test_a_ledger_that_was_tampered_with_is_refused():
    found = Population("clinic", Ledger(Budget(2.0, 1e-5))).charged(Guarantee("joint", 1.0, 0.0), "one")
    document = found.to_dict()
    assert Population.from_dict(json.loads(json.dumps(document))).to_dict() == document
    for changed in (
        {**document, "charges": [*document["charges"], *document["charges"] * 2]},
        {**document, "charges": []},
        {**document, "ledger": {**document["ledger"], "budget": {"epsilon": 0.5, "delta": 1e-5}}},
        {**document, "ledger": {**document["ledger"], "charges": []}},
        {**document, "charges": [{"deployment": "one", "epsilon": -1.0, "delta": 0.0}]},
        {**document, "charges": [{"deployment": "one", "epsilon": float("nan"), "delta": 0.0}]},
        {**document, "version": 2},
        {**document, "more": 1},
        {},
        None,
    ):
        with pytest.raises(InvalidInput):
            Population.from_dict(changed)


def test_gaussian_deployments_compose_to_less_than_their_sum(store):
    """A second charge is never free; adding ε up would be sound, but waste a third of the budget."""
    clinic = {"name": "clinic", "epsilon": 5.0, "delta": 1e-4}
    create(store, "one", {**GAUSSIAN, "epsilon": 1.0}, population=clinic)
    first = live.ledger(store, "clinic").spent
    create(store, "two", {**GAUSSIAN, "epsilon": 1.0}, population="clinic")
    found = live.ledger(store, "clinic")
    assert 1.2 * first < found.spent < 1.7 * first


RACE = """
import sys
from discreet import live
from discreet.errors import BudgetExceeded
from tests.live.mechanisms import CENTRAL, config
url, name = sys.argv[1:]
clinic = {"name": "clinic", "epsilon": 1.0}
wanted = live.read(config(privacy={**CENTRAL, "epsilon": 0.7}, name=name, population=clinic))
wanted.make(None)
print("ready", flush=True)
sys.stdin.readline()
try:
    live.create(url, wanted).close()
    print("made")
except BudgetExceeded:
    print("refused")
"""


def race(url, number=2):
    """Several processes make deployments at the same moment, of which one fits; returns what became of them."""
    root, pipe = str(Path(__file__).parents[2]), subprocess.PIPE
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, url, f"racer-{i}"], cwd=root, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        for i in range(number)
    ]
    for run in runs:
        run.stdout.readline()
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    said = [run.communicate() for run in runs]
    assert all(run.returncode == 0 for run in runs), [error for _, error in said]
    return sorted(out.strip() for out, _ in said)


def test_of_two_that_are_made_at_once_one_fits(tmp_path):
    """Both look at the same room; without a lock both would find it."""
    url = f"sqlite:///{tmp_path / 'live.db'}"
    connect(url).close()
    assert race(url) == ["made", "refused"]
    assert len(live.ledger(url, "clinic").charges) == len(live.names(url)) == 1


@pytest.fixture(scope="module")
def postgres():
    """The address of a new server, if PostgreSQL is installed."""
    if shutil.which("initdb") is None or shutil.which("pg_ctl") is None:
        pytest.skip("PostgreSQL is not installed")
    owner = []
    if os.geteuid() == 0:  # it refuses to run as root
        if subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
            pytest.skip("PostgreSQL does not run as root")
        owner = ["runuser", "-u", "postgres", "--"]
    home = Path(tempfile.mkdtemp())  # not pytest's own folder, which others must not enter
    if owner:
        shutil.chown(home, "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = str(home / "data")
    initdb, pg_ctl = str(shutil.which("initdb")), str(shutil.which("pg_ctl"))
    options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1"

    def run(*command):
        subprocess.run([*owner, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    run(initdb, "-D", data, "-U", "discreet", "-A", "trust")
    run(pg_ctl, "-D", data, "-o", options, "-l", str(home / "log"), "-w", "start")
    yield f"postgresql://discreet@127.0.0.1:{port}/postgres"
    run(pg_ctl, "-D", data, "-m", "fast", "-w", "stop")
    shutil.rmtree(home)


@pytest.mark.slow
def test_of_two_that_are_made_at_once_one_fits_in_postgresql(postgres):
    """Two transactions run at the same time there: only the lock of the population keeps them apart."""
    connect(postgres).close()
    assert race(postgres) == ["made", "refused"]
    assert len(live.ledger(postgres, "clinic").charges) == len(live.names(postgres)) == 1


def test_in_postgresql_the_second_waits_for_the_first(postgres):
    """The same without luck: the first holds its transaction open while the second tries."""
    first, second = connect(postgres), connect(postgres)
    held, go = threading.Event(), threading.Event()

    def charge(db, name, epsilon=0.7):
        population.charge(db, "ward", name, Guarantee("joint", epsilon, 0.0), (1.0, 0.0))

    def slow(db):
        charge(db, "slow")
        held.set()
        assert go.wait(60)

    first.do(lambda db: charge(db, "before", 0.1), alone=True)
    waiting = first.submit(slow, alone=True)
    assert held.wait(60)
    answer = second.submit(lambda db: charge(db, "fast"), alone=True)
    with pytest.raises(TimeoutError):
        answer.result(timeout=0.5)
    go.set()
    waiting.result()
    with pytest.raises(BudgetExceeded):
        answer.result()
    assert [charged.deployment for charged in live.ledger(first, "ward").charges] == ["before", "slow"]
    first.close()
    second.close()

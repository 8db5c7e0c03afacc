"""The fault campaign: ``python -m tests.live.faults.campaign --kills 600``.

Kills servers and shufflers at every named point and at random moments, over SQLite and PostgreSQL, all trust models,
one and two servers, while messages get lost, arrive twice, out of order or malformed. The ten invariants are checked
after every kill; the first that does not hold ends it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.live.points import POINTS
from tests.live.faults.forks import Forks
from tests.live.faults.messages import Tally
from tests.live.faults.rig import ALL, RANDOM, Rig
from tests.live.faults.worlds import TRUSTS
from tests.live.postgres import Postgres, programs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Databases", "main", "run", "targets"]


def targets(trust: str, servers: int) -> list[tuple[str, str]]:
    """Returns who dies where: every point that this trust model comes by, and one random moment for three of them."""
    found = []
    for point in POINTS:
        mixing = point.startswith("shuffler")
        raw = point.startswith("report: ") or point == "reports read"
        if mixing if trust != "shuffle" else raw:
            continue
        found.append(("shuffler" if mixing else f"server {len(found) % servers}", point))
    roles = [f"server {i}" for i in range(servers)] + ["shuffler"] * (trust == "shuffle")
    by_chance = [(roles[i % len(roles)], RANDOM) for i in range(len(found) // 3)]
    return found + by_chance + [(roles[0], ALL)] * (len(roles) > 1)


class Databases:
    """Makes empty databases in a folder, or in a PostgreSQL server."""

    def __init__(self, folder: Path, postgres: Postgres | None = None) -> None:
        self._folder, self._postgres, self._made = folder, postgres, 0

    def new(self) -> str:
        """Returns the URL of an empty database."""
        self._made += 1
        if self._postgres is not None:
            return self._postgres.new()
        return f"sqlite:///{self._folder / f'{self._made}.db'}"


def run(forks: Forks, databases: Databases, trust: str, servers: int, kills: int, seed: int) -> Tally:
    """Has so many processes of one deployment killed; returns what was counted, or raises what does not hold."""
    shuffler = databases.new() if trust == "shuffle" else None
    rig = Rig(forks, databases.new(), trust, servers=servers, shuffler=shuffler, seed=seed)
    aimed = targets(trust, servers)
    aims: Iterator[tuple[str, str]] = itertools.islice(itertools.cycle(aimed), 5 * seed % len(aimed), None)
    missed = 0
    while sum(rig.tally.kills.values()) < kills:
        role, point = next(aims)
        missed += not rig.round(role, point, nth=int(rig.rng.integers(1, 3)))
        assert missed <= kills, f"processes that should die at {point!r} do not come by"
    tally = rig.finish()
    assert (tally.lost, tally.double) == (0, 0), _books(tally)
    return tally


def _books(tally: Tally) -> str:
    return f"{tally.acknowledged:6d}  acknowledged, lost {tally.lost}, double {tally.double}"


def _shown(tally: Tally, by_place: Counter[str], seconds: float) -> str:
    lines = [f"{number:6d}  {point}" for point, number in sorted(tally.kills.items())]
    lines += [f"{number:6d}  {place}" for place, number in by_place.items()]
    refused = ", ".join(f"{number} {name}" for name, number in sorted(tally.refused.items()))
    return "\n".join(
        (
            *lines,
            f"{sum(tally.kills.values()):6d}  kills in {seconds:.0f} s; {tally.releases} releases; refused: {refused}",
            f"{_books(tally)}; the ten invariants held after every kill",
        )
    )


def main() -> None:
    """Runs the campaign and prints what it did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    begun, tally, by_place = time.monotonic(), Tally(), Counter[str]()
    sys.stdout.write(f"seed {given.seed}\n")
    stores = ["SQLite"] + ["PostgreSQL"] * (programs() is not None)
    if len(stores) == 1:
        sys.stdout.write("PostgreSQL is not installed: its half is left out\n")
    places = list(itertools.product(stores, TRUSTS, (1, 2)))
    each = -(-given.kills // len(places))
    with tempfile.TemporaryDirectory() as folder:
        forks = Forks(Path(folder) / "log")
        postgres = Postgres() if len(stores) == 2 else None
        try:
            for number, (store, trust, servers) in enumerate(places):
                home = Path(folder) / str(number)
                home.mkdir()
                databases = Databases(home, postgres if store == "PostgreSQL" else None)
                found = run(forks, databases, trust, servers, each, given.seed + number)
                place = f"{store}, {trust}, {servers} server{'s' * (servers > 1)}"
                by_place[place] += sum(found.kills.values())
                tally.add(found)
                sys.stdout.write(f"{place}: {each} kills, {' '.join(_books(found).split())}\n")
                sys.stdout.flush()
            if postgres is not None:
                assert "canary-" not in postgres.log(), "PostgreSQL's log shows a person's data"
        finally:
            forks.close()
            if postgres is not None:
                postgres.close()
    sys.stdout.write(_shown(tally, by_place, time.monotonic() - begun) + "\n")


if __name__ == "__main__":
    main()

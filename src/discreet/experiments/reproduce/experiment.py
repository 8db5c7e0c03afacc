"""What a published experiment is: a declared sweep, and a look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.experiments.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from discreet.experiments.labels import Runs

__all__ = ["LAPLACE", "TREE", "Experiment"]


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes:
        name: What `discreet reproduce` calls it.
        title: In one line.
        text: What it shows and how to read it, for the report.
        full: The sweep, as `Sweep.make` takes it.
        quick: What changes for a first look.
        draw: Draws its figures into a directory and returns them by caption; None draws regret.
    """

    name: str
    title: str
    text: str
    full: Mapping[str, object]
    quick: Mapping[str, object]
    draw: Callable[[Runs, Path], dict[str, Path]] | None = None

    def sweep(self, *, quick: bool) -> Sweep:
        """Returns the declared sweep."""
        return Sweep.make({"name": self.name, **self.full, **(self.quick if quick else {})})


#: The central and the local mechanism of DP-UCBVI's paper.
TREE: dict[str, object] = {"agent": "dp-ucbvi", "trust": "central", "sum": "tree"}
LAPLACE: dict[str, object] = {"agent": "dp-ucbvi", "trust": "local", "sum": "laplace"}

"""Tables about settings: what came out, and what is promised; for a page and for a terminal."""

from __future__ import annotations

import math
import re
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet.errors import InvalidInput
from discreet.experiments.labels import Group, Runs, group, rounded_up
from discreet.privacy.guarantee import REWARDS_ONLY

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_some", "guarantee_table", "result_table", "table", "tied"]


def check_some(results: Runs) -> None:
    """Raises if there are no runs."""
    if not results.runs:
        raise InvalidInput("there are no runs to report on")


def table(results: Runs) -> str:
    """Returns the results for a terminal."""
    check_some(results)
    lines = []
    for env, settings in group(results.runs).items():
        heads, rows = _results(settings)
        cells = [[head.text for head in heads], *([cell.text for cell in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += [env] + [
            "  ".join(
                text.rjust(width) if head.number else text.ljust(width)
                for text, width, head in zip(row, widths, heads, strict=True)
            ).rstrip()
            for row in cells
        ]
        lines.append("")
    rewards = any(row.guarantee["protects"] == "rewards" for row in results.runs)
    return "\n".join([*lines, REWARDS_ONLY] if rewards else lines[:-1])


class _Cell(NamedTuple):
    text: str
    number: bool = False
    long: bool = False

    def html(self, tag: str) -> str:
        kind = ' class="n"' if self.number else ' class="long"' if self.long else ""
        return f"<{tag}{kind}>{tied(self.text)}</{tag}>"


def tied(text: str) -> str:
    """Returns a text as HTML in which no line ends within "ε = 2 (asked 1)"."""
    return re.sub(r"[εδ] = [^,:; ]+|\(asked [^) ]+\)", r'<span class="k">\g<0></span>', escape(text))


def _results(settings: Sequence[Group]) -> tuple[list[_Cell], list[list[_Cell]]]:
    alphas = sorted({alpha for each in settings for alpha in each.rows[0].suboptimal}, key=float)
    names = ["regret", *(f"gap > {float(alpha):g}" for alpha in alphas), "runs", "ε", "δ"]
    heads = [_Cell("setting"), *(_Cell(name, True) for name in names)]
    rows = []
    for each in settings:
        counts = ([row.suboptimal[alpha] for row in each.rows if alpha in row.suboptimal] for alpha in alphas)
        texts = [_mean([row.regret for row in each.rows]), *(_mean(values) if values else "–" for values in counts)]
        texts += [f"{len(each.rows)}", *_proven(each)]
        rows.append([_Cell(each.label), *(_Cell(text, True) for text in texts)])
    return heads, rows


def result_table(settings: Sequence[Group]) -> str:
    """Returns what came out, as HTML."""
    return _table(*_results(settings))


def guarantee_table(settings: Sequence[Group]) -> str:
    """Returns what is promised, as HTML."""
    names = ("setting", "notion", "asked", "protects", "relation", "noise", "assumes")
    heads = [_Cell(name, long=name == "assumes") for name in names]
    heads[2:3] = [_Cell("asked ε", True), _Cell("proven ε", True), _Cell("proven δ", True)]
    rows = []
    for each in settings:
        promised, asked = each.guarantee, each.rows[0].asked
        private = promised["notion"] != "none"
        noise = {"fast": "fast: simulation only", "secure": "secure: for release"}.get(promised["noise"], "none")
        numbers = [f"{asked:g}" if private and asked is not None else "–", *_proven(each)]
        relation = f"{promised['relation']} {promised['unit']}" if private else "–"
        assumes = "; ".join(promised["assumptions"]) or ("nothing else" if private else "–")
        rows.append(
            [_Cell(each.label), _Cell(promised["notion"] if private else "no privacy")]
            + [_Cell(number, True) for number in numbers]
            + [_Cell(promised["protects"] if private else "nothing"), _Cell(relation), _Cell(noise)]
            + [_Cell(assumes, long=True)]
        )
    return _table(heads, rows)


def _proven(each: Group) -> list[str]:
    promised = each.guarantee
    if promised["notion"] == "none":
        return ["∞", "–"]
    return [rounded_up(promised["epsilon"], 4), rounded_up(promised["delta"])]


def _table(heads: list[_Cell], rows: list[list[_Cell]]) -> str:
    top = "".join(head.html("th") for head in heads)
    lines = ("".join(cell.html("td" if i else "th") for i, cell in enumerate(row)) for row in rows)
    inside = f"<thead><tr>{top}</tr></thead><tbody>" + "".join(f"<tr>{line}</tr>\n" for line in lines) + "</tbody>"
    return f'<div class="wide" role="region" aria-label="table" tabindex="0"><table>{inside}</table></div>'


def _mean(values: Sequence[float]) -> str:
    """Returns a mean ± its standard error, with as many digits as that error deserves."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:,.1f}" if mean != int(mean) else f"{mean:,.0f}"
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    digits = 0 if error >= 10 or not error else min(3, 1 - math.floor(math.log10(error)))
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"

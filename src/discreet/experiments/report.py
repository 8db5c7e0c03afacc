"""One self-contained page about finished runs: figures, tables, what is promised, and how to do it all again.

It needs no network and no scripts, reads on a phone and in the dark, and prints. The same runs give the same page.
"""

from __future__ import annotations

import base64
import json
import math
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet.errors import InvalidInput
from discreet.experiments.figures.regret import draw_regret
from discreet.experiments.files import write_file
from discreet.experiments.labels import Group, Runs, group, rounded_up
from discreet.experiments.store import Store
from discreet.privacy.guarantee import REWARDS_ONLY

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from discreet.experiments.configs import Host, Promised
    from discreet.experiments.records import Curve, RunRow

__all__ = ["of_directory", "page", "table", "write"]

_ABOUT = (
    "Regret is how much value was lost so far by not acting optimally from the first person on, by the simulator's "
    "exact model. Every episode is one person. Lower is better; where a curve is flat, the learner has learned."
)
_COLUMNS = (
    "regret: after the last episode. gap > α: how many episodes were more than α below the optimum. Both are means "
    "over runs, ± one standard error. ε and δ: what is proven, rounded up."
)
_SIMULATION = (
    "Simulation only: the noise of these runs comes from a seeded generator, in floating point. ε and δ are proven for "
    "ideal noise of the same kind; nothing computed with this noise should be released about real people."
)
_ALONE = (
    "Each guarantee is of one run on its own. Whoever releases several runs about the same people promises less: their "
    "losses add up."
)
_NOTIONS = {
    "none": "No privacy: the agent learns from raw data and protects nobody",
    "joint": "Joint differential privacy, with a trusted server. What all other people together may see of the agent "
    "has nearly the same distribution, whatever",
    "local": "Local differential privacy, with nobody trusted. What a person sends has nearly the same distribution, "
    "whatever",
    "shuffle": "Shuffle differential privacy, with a trusted shuffler. The shuffled messages that the server gets have "
    "nearly the same distribution, whatever",
}
_PROTECTS = {"trajectory": "whole episode is", "rewards": "rewards are; states and actions are not protected"}
_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1b1b;--soft:#555;--line:#d5d5d5;--card:#f5f5f3}
@media (prefers-color-scheme:dark){:root{--back:#161719;--text:#e6e6e6;--soft:#a9a9a9;--line:#3a3c40;--card:#212327}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:62rem;background:var(--back);color:var(--text);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p,ul{max-width:46rem}
figcaption,.soft{color:var(--soft);font-size:.875rem}
.figures{display:grid;gap:1.2rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
figure{margin:0;max-width:36rem}
figure svg,figure img{display:block;width:100%;height:auto;background:#fff;border:1px solid var(--line);
border-radius:6px;margin-bottom:.4rem}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;font-size:.875rem;width:100%}
th,td{padding:.4rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--line);overflow-wrap:normal}
thead th{border-top:0;background:var(--card)}
tbody th{font-weight:normal;min-width:11rem}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.k{white-space:nowrap}
.long{min-width:14rem}
ul{padding-left:1.2rem}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:.4rem .7rem}
summary{cursor:pointer}
pre{overflow-x:auto;background:var(--card);padding:.7rem;border-radius:6px;font-size:.8125rem;line-height:1.4;
white-space:pre-wrap}
.box{background:var(--card);padding:.7rem;border-radius:6px}
@media print{:root{color-scheme:light;--back:#fff;--text:#000;--soft:#333;--line:#bbb;--card:#f5f5f3}
body{font-size:10pt;max-width:none;padding:0}.wide{overflow:visible;border:0}table,figcaption,.soft{font-size:8pt}
th,td{padding:.2rem .35rem}tbody th,.long{min-width:0}figure,tr,li,.box{break-inside:avoid}h2,h3{break-after:avoid}
.figures{grid-template-columns:1fr 1fr}@page{margin:15mm}}
"""


def of_directory(directory: str | os.PathLike[str]) -> Path:
    """Draws the runs of a store and writes the page beside them; returns where the page is.

    Raises:
        StoreError: If there are no runs, or they are damaged.
        MissingExtra: If there is no matplotlib.
    """
    directory = Path(directory)
    return write(_Stored(Store.open(directory)), directory, title=directory.resolve().name)[-1]


class _Stored:
    """The runs of a store; what `discreet.experiments.results.Results` is to those who may import it."""

    def __init__(self, store: Store) -> None:
        self._store, self.runs = store, store.runs()

    def curve(self, key: str) -> Curve:
        return self._store.curve(key)


def write(
    results: Runs,
    directory: Path,
    *,
    title: str,
    text: str = "",
    command: str = "",
    draw: Callable[[Runs, Path], Mapping[str, Path]] | None = None,
) -> list[Path]:
    """Draws figures and writes ``report.html``.

    Args:
        results: The runs.
        directory: Where everything is written to.
        title: Of the page.
        text: What this is and how to read it.
        command: What does it again; by default the page says how to do a single run again.
        draw: Draws the figures into the directory, and returns SVG or PNG files by caption; regret by default.

    Returns:
        What was written, the page last.
    """
    _some(results)
    figures = (draw or draw_regret)(results, directory)
    path = directory / "report.html"
    write_file(path, page(results, figures, title=title, text=text, command=command).encode())
    drawn = dict.fromkeys(figure.with_suffix(end) for figure in figures.values() for end in (".png", ".svg"))
    return [*(figure for figure in drawn if figure.exists()), path]


def page(results: Runs, figures: Mapping[str, Path], *, title: str, text: str = "", command: str = "") -> str:
    """Returns the page; see `write`. Figures are SVG or PNG files by caption."""
    _some(results)
    found = group(results.runs)
    settings = sum(map(len, found.values()))
    counts = (
        f"{_count(len(results.runs), 'run')} of {_count(settings, 'setting')} in {_count(len(found), 'environment')}"
    )
    body = [f"<h1>{escape(title)}</h1>"]
    body += [f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip()]
    body += [f"<p>{escape(_ABOUT)}</p>", f'<p class="soft">{counts}, made with Discreet {_versions(results.runs)}.</p>']
    body += ["<h2>Figures</h2>", f'<div class="figures">{_figures(figures)}</div>'] if figures else []
    body += ["<h2>Results</h2>", f'<p class="soft">{escape(_COLUMNS)}</p>']
    body += _by_environment(found, _result_table)
    body += ["<h2>What is promised</h2>", *_by_environment(found, _guarantee_table), _in_words(found)]
    body += ["<h2>How to do it again</h2>", _again(command)]
    body += ["<h2>Configurations</h2>", *_by_environment(found, _configurations)]
    body += ["<h2>Where these numbers come from</h2>", _provenance(results.runs)]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">' + (
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def table(results: Runs) -> str:
    """Returns the results for a terminal."""
    _some(results)
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


def _some(results: Runs) -> None:
    if not results.runs:
        raise InvalidInput("there are no runs to report on")


class _Cell(NamedTuple):
    text: str
    number: bool = False
    long: bool = False

    def html(self, tag: str) -> str:
        kind = ' class="n"' if self.number else ' class="long"' if self.long else ""
        return f"<{tag}{kind}>{_tied(self.text)}</{tag}>"


def _tied(text: str) -> str:
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


def _result_table(settings: Sequence[Group]) -> str:
    return _table(*_results(settings))


def _guarantee_table(settings: Sequence[Group]) -> str:
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


def _by_environment(found: Mapping[str, Sequence[Group]], part: Callable[[Sequence[Group]], str]) -> list[str]:
    return [f"<h3>{escape(env)}</h3>\n{part(settings)}" for env, settings in found.items()]


def _in_words(found: Mapping[str, Sequence[Group]]) -> str:
    """Returns every guarantee in words, each kind once, with the settings that it is for."""
    kinds: dict[str, dict[str, None]] = {}
    fast = False
    for each in (each for settings in found.values() for each in settings):
        kinds.setdefault(_kind(each.guarantee), {})[f"<li>{_tied(each.label)}{_factor(each.guarantee)}</li>"] = None
        fast |= each.guarantee["noise"] == "fast"
    parts = [f"<p>{escape(kind)}</p><ul>{''.join(items)}</ul>" for kind, items in kinds.items()]
    private = any(each.guarantee["notion"] != "none" for settings in found.values() for each in settings)
    parts += [f"<p>{escape(_ALONE)}</p>"] if private else []
    parts += [f'<p class="box">{escape(_SIMULATION)}</p>'] if fast else []
    return "\n".join(["<h3>In words</h3>", *parts])


def _kind(promised: Promised) -> str:
    text = _NOTIONS[promised["notion"]]
    if promised["notion"] == "none":
        return f"{text}."
    text += f" one {promised['unit']}'s {_PROTECTS[promised['protects']]}: "
    text += "probabilities change by a factor of at most e^ε, and by δ besides."
    return text + (f" This assumes: {'; '.join(promised['assumptions'])}." if promised["assumptions"] else "")


def _factor(promised: Promised) -> str:
    """Returns how much probabilities may change, as HTML."""
    if promised["notion"] == "none":
        return ""
    epsilon, delta = promised["epsilon"], promised["delta"]
    factor = math.exp(epsilon) if epsilon is not None and epsilon < 700 else None
    numbers = [rounded_up(factor), rounded_up(delta) if delta else "nothing"]
    return ' – a factor of <span class="k">{}</span>, and <span class="k">{}</span> besides'.format(*numbers)


def _figures(figures: Mapping[str, Path]) -> str:
    parts = []
    for i, (caption, path) in enumerate(figures.items()):
        if path.suffix == ".svg":
            picture = _inline(path.read_text(encoding="utf-8"), f"f{i}-", caption)
        else:
            data = base64.b64encode(path.read_bytes()).decode()
            picture = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
        parts.append(f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>")
    return "\n".join(parts)


def _inline(svg: str, prefix: str, caption: str) -> str:
    """Returns an SVG file as part of a page: names of its own, no metadata, as large as there is room."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, rest = svg.split(">", 1)
    box = re.search(r'viewBox="[-\d. ]+"', head)
    rest = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", rest)
    return f'<svg {box.group() if box else ""} role="img" aria-label="{escape(caption)}">' + rest.strip()


def _again(command: str) -> str:
    parts = [f"<pre>{escape(command)}</pre>"] if command else []
    code = "from discreet.experiments.engine import execute\n\nexecute(config)  # as below, with one of its seeds"
    return "\n".join([*parts, "<p>A single run depends on its configuration alone:</p>", f"<pre>{escape(code)}</pre>"])


def _configurations(settings: Sequence[Group]) -> str:
    parts = []
    for each in settings:
        document = {
            "config": {name: value for name, value in each.rows[0].config.items() if name != "seed"},
            "guarantee": each.guarantee,
        }
        seeds = ", ".join(json.dumps(row.config["seed"]) for row in each.rows)
        regrets = ", ".join(f"{row.regret:.6g}" for row in each.rows)
        text = json.dumps(document, indent=1, ensure_ascii=False) + f"\n\nseeds: {seeds}\nregrets: {regrets}"
        parts.append(f"<details><summary>{_tied(each.label)}</summary><pre>{escape(text)}</pre></details>")
    return "\n".join(parts)


def _provenance(rows: Sequence[RunRow]) -> str:
    hosts = ("{node}, {platform}, {cpus} processors, Python {python}".format(**_known(row.host)) for row in rows)
    packages = (", ".join(f"{name} {v}" for name, v in sorted(row.host.get("packages", {}).items())) for row in rows)
    wall, cpu = sum(row.wall_seconds for row in rows), sum(row.cpu_seconds for row in rows)
    created = sorted(row.created for row in rows)
    facts = {
        "Discreet": _versions(rows),
        "commit": _all(row.commit or "no git checkout" for row in rows),
        "packages": _all(packages),
        "host": _all(hosts),
        "time": f"{_duration(wall)} in all runs together, {_duration(cpu)} of processor time",
        "done": created[0] if created[0] == created[-1] else f"{created[0]} to {created[-1]}",
        "curves": _all(row.thinning for row in rows),
    }
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>\n" for name, fact in facts.items())
    return f'<div class="wide"><table class="facts"><tbody>{lines}</tbody></table></div>'


def _known(host: Host) -> dict[str, object]:
    return dict.fromkeys(("node", "platform", "cpus", "python"), "?") | host


def _versions(rows: Sequence[RunRow]) -> str:
    return _all(row.version for row in rows)


def _all(texts: Iterable[str]) -> str:
    return "; ".join(sorted(set(texts)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def _mean(values: Sequence[float]) -> str:
    """Returns a mean ± its standard error, with as many digits as that error deserves."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:,.1f}" if mean != int(mean) else f"{mean:,.0f}"
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    digits = 0 if error >= 10 or not error else min(3, 1 - math.floor(math.log10(error)))
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"

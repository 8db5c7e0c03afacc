"""One self-contained page about finished runs: figures, tables, what is promised, and how to do it all again.

It needs no network and no scripts, reads on a phone and in the dark, and prints. The same runs give the same page.
"""

from __future__ import annotations

import base64
import json
import re
from html import escape
from typing import TYPE_CHECKING

from discreet.experiments.figures.regret import draw_regret
from discreet.experiments.files import write_file
from discreet.experiments.labels import Group, Runs, group
from discreet.experiments.report.guarantees import in_words
from discreet.experiments.report.style import STYLE
from discreet.experiments.report.tables import check_some, guarantee_table, result_table, tied
from discreet.experiments.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from discreet.experiments.configs import Host
    from discreet.experiments.records import RunRow

__all__ = ["page", "write"]

_ABOUT = (
    "Regret is how much value was lost so far by not acting optimally from the first person on, by the simulator's "
    "exact model. Every episode is one person. Lower is better; where a curve is flat, the learner has learned."
)
_COLUMNS = (
    "regret: after the last episode. gap > α: how many episodes were more than α below the optimum. Both are means "
    "over runs, ± one standard error. ε and δ: what is proven, rounded up."
)


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
    check_some(results)
    figures = (draw or draw_regret)(results, directory)
    path = directory / "report.html"
    write_file(path, page(results, figures, title=title, text=text, command=command).encode())
    drawn = dict.fromkeys(figure.with_suffix(end) for figure in figures.values() for end in (".png", ".svg"))
    return [*(figure for figure in drawn if figure.exists()), path]


def page(results: Runs, figures: Mapping[str, Path], *, title: str, text: str = "", command: str = "") -> str:
    """Returns the page; see `write`. Figures are SVG or PNG files by caption."""
    check_some(results)
    found = group(results.runs)
    settings = sum(map(len, found.values()))
    counts = f"{count(len(results.runs), 'run')} of {count(settings, 'setting')} in {count(len(found), 'environment')}"
    body = [f"<h1>{escape(title)}</h1>"]
    body += [f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip()]
    body += [f"<p>{escape(_ABOUT)}</p>", f'<p class="soft">{counts}, made with Discreet {_versions(results.runs)}.</p>']
    body += ["<h2>Figures</h2>", f'<div class="figures">{_figures(figures)}</div>'] if figures else []
    body += ["<h2>Results</h2>", f'<p class="soft">{escape(_COLUMNS)}</p>']
    body += _by_environment(found, result_table)
    body += ["<h2>What is promised</h2>", *_by_environment(found, guarantee_table), in_words(found)]
    body += ["<h2>How to do it again</h2>", _again(command)]
    body += ["<h2>Configurations</h2>", *_by_environment(found, _configurations)]
    body += ["<h2>Where these numbers come from</h2>", _provenance(results.runs)]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">' + (
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _by_environment(found: Mapping[str, Sequence[Group]], part: Callable[[Sequence[Group]], str]) -> list[str]:
    return [f"<h3>{escape(env)}</h3>\n{part(settings)}" for env, settings in found.items()]


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
        parts.append(f"<details><summary>{tied(each.label)}</summary><pre>{escape(text)}</pre></details>")
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


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )

"""A statement as one HTML page: to be read on a screen, light or dark, and printed on one or two sheets of A4."""

from __future__ import annotations

import html
from typing import Any

from discreet.live.words import rounded_up

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1c1f; --soft: #5b6169; --line: #d9dce1; --back: #fff; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e9ec; --soft: #a3a9b1; --line: #3a3f46; --back: #15171a; --tint: #1e2125; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 50rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; }
p, ul { margin: .3rem 0; }
ul { padding-left: 1.2rem; }
.soft { color: var(--soft); }
.warn { border: 2px solid currentColor; padding: .5rem .7rem; font-weight: 600; margin: .8rem 0; }
.box { background: var(--tint); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .9rem; }
.box { margin: .8rem 0; }
.large { font-size: 1.3rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--soft); width: 34%; }
thead th { width: auto; }
code { font: .82em/1.35 ui-monospace, monospace; overflow-wrap: anywhere; }
@page { size: A4; margin: 14mm 16mm; }
@media print {
  :root { --ink: #000; --soft: #444; --line: #bbb; --back: #fff; --tint: #fff; color-scheme: light; }
  body { font-size: 9.5pt; line-height: 1.32; }
  main { max-width: none; padding: 0; }
  h1 { font-size: 15pt; } h2 { font-size: 11pt; margin: .7rem 0 .15rem; break-after: avoid; }
  tr, li, .box, .warn { break-inside: avoid; }
}
"""
_NOTIONS = {
    "joint": "joint differential privacy",
    "local": "local differential privacy",
    "shuffle": "shuffle differential privacy",
    "none": "no privacy",
}
_SHOWN = 6  # releases that are listed; the document has them all


def page(document: dict[str, Any]) -> str:
    """Returns the page of a statement's document."""
    promise, guarantee = document["promise"], document["promise"]["guarantee"]
    name = document["deployment"]
    parts = [
        f"<h1>Privacy statement of “{_text(name)}”</h1>",
        f'<p class="soft">Made {_text(document["made"])} by discreet {_text(document["written_by"])}. '
        "The JSON document of this statement is what <code>discreet verify</code> checks; this page only shows it.</p>",
        *_warnings(document),
        f'<div class="box"><p class="large">{_numbers(guarantee)}</p>'
        f"<p>{_text(_NOTIONS[guarantee['notion']])}; neighbours: {_text(guarantee['relation'])}, "
        f"unit: {_text(guarantee['unit'])}; noise: {_text(guarantee['noise'])}</p></div>",
        *(["<h2>What is promised to whom</h2>", *(f"<p>{_text(line)}</p>" for line in promise["words"])]),
        *_list("It assumes", guarantee["assumptions"]),
        *_list("Who is trusted", document["trust"]["words"]),
        *_list("What is not covered", document["not_covered"]),
        "<h2>How it is done</h2>",
        _table(_mechanism(document)),
        *_people(document["population"]),
        *_releases(document),
        *_list("What nobody can tell from a statement", document["not_checked"]),
        "<h2>Signature</h2>",
        _signature(document),
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Privacy statement of {_text(name)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _number(value: float | None) -> str:
    return "∞" if value is None else rounded_up(value, 6)


def _numbers(found: dict[str, Any]) -> str:
    return f"ε = {_number(found['epsilon'])}, δ = {_number(found['delta'])}"


def _warnings(document: dict[str, Any]) -> list[str]:
    found = []
    if document["simulation"]:
        found.append("A simulation: no real person may be in this deployment.")
    if document["state"] == "rolled-back":
        found.append("The database was rolled back: nothing more is released from it.")
    return [f'<p class="warn">{line}</p>' for line in found]


def _list(title: str, lines: list[str]) -> list[str]:
    items = "".join(f"<li>{_text(line[:1].upper() + line[1:])}</li>" for line in lines)
    return [f"<h2>{title}</h2>", f"<ul>{items}</ul>"] if lines else []


def _table(rows: list[tuple[str, str]]) -> str:
    """Returns a table of names and values, of which the values are HTML."""
    body = "".join(f"<tr><th>{_text(name)}</th><td>{value}</td></tr>" for name, value in rows)
    return f"<table><tbody>{body}</tbody></table>"


def _mechanism(document: dict[str, Any]) -> list[tuple[str, str]]:
    mechanism, config, promise = document["mechanism"], document["config"], document["promise"]
    built = mechanism["blueprint"]["document"]
    k, window = config["episodes_per_person"], config.get("window")
    sizes = built["spec"]["fields"]
    options = {
        key: value for key, value in built["options"].items() if not isinstance(value, dict) and value is not None
    }
    rows = [
        ("trust model", _text(document["trust"]["model"])),
        ("asked for", f"{_numbers(promise['asked'])} an episode; proven: {_numbers(promise['one_episode'])}"),
        ("episodes a person", _text(k)),
        (
            "learner",
            f"{_text(built['agent'])} ({_text(', '.join(f'{key} {value}' for key, value in options.items()))})",
        ),
        ("sizes", _text(f"{sizes['states']} states, {sizes['actions']} actions, {sizes['horizon']} steps an episode")),
        ("slots in all", _text(f"{built['episodes']:,}")),
        ("sum and noise", _text(f"{mechanism['sum']}, {mechanism['noise']}")),
        ("privacy event", f"<code>{_text(_event(mechanism['events']))}</code>"),
        (
            "batches",
            _text(
                f"timing {config['timing']}; reports within {config['report_within']:g} s of the start; "
                + ("a batch waits until its slots are given out" if window is None else f"a batch takes {window:g} s")
            ),
        ),
    ]
    return [row for row in rows if row[1]]


def _event(event: Any) -> str:
    """Returns an event as a short text."""
    if isinstance(event, dict):
        given = ", ".join(f"{key}={_event(value)}" for key, value in event.items() if key != "kind")
        return f"{event['kind']}({given})"
    if isinstance(event, list):
        return "[" + ", ".join(_event(part) for part in event) + "]"
    return f"{event:.9g}" if isinstance(event, float) else str(event)


def _people(population: dict[str, Any] | None) -> list[str]:
    if population is None:
        return []
    rows = [(charge["deployment"], _numbers(charge)) for charge in population["charges"]]
    return [
        f"<h2>The ledger of the population “{_text(population['name'])}”</h2>",
        f"<p>All deployments on these people together have at most {_numbers(population['ledger']['budget'])}. "
        "Each was charged before it could release anything.</p>",
        _table(rows),
    ]


def _releases(document: dict[str, Any]) -> list[str]:
    releases = document["releases"]
    left = len(releases) - _SHOWN
    shown = releases if left <= 0 else releases[-_SHOWN:]
    rows = [("configuration", f"<code>{_text(document['chain'])}</code>")]
    rows += [
        (f"version {each['version']}, {each['users']:,} slots", f"<code>{_text(each['chain'])}</code>")
        for each in shown
    ]
    more = f" The last {_SHOWN} are shown; the document has all." if left > 0 else ""
    return [
        "<h2>What was released</h2>",
        f"<p>{len(releases)} release{'s' * (len(releases) != 1)}; the deployment is {_text(document['state'])}. "
        f"Each link of the chain is the SHA-256 of the one before it and of the release’s own hash.{more}</p>",
        _table(rows),
    ]


def _signature(document: dict[str, Any]) -> str:
    digest = ("SHA-256 of the document", f"<code>{_text(document['digest'])}</code>")
    if document["signer"] is None:
        return "<p>This statement is not signed: nobody vouches for it.</p>" + _table([digest])
    return _table(
        [
            digest,
            ("public key (Ed25519)", f"<code>{_text(document['signer']['key'])}</code>"),
            ("signature", f"<code>{_text(document['signature'])}</code>"),
        ]
    )

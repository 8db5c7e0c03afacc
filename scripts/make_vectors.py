"""Writes clients/vectors.json: what every client must do, draw for draw, to agree with the encoders here.

    python scripts/make_vectors.py

Both languages run the file: ``tests/clients/test_vectors.py``, ``clients/typescript/test/vectors.test.mjs``. It holds

- ``documents``: encoders as `discreet.privatizers.device` writes them;
- ``reports``: document, trajectory (states, actions, rewards) or null for somebody absent, the random bytes in
  hexadecimal, and the text of the report;
- ``refused``: document, trajectory, and the class of the error;
- ``pins``: document, the largest ε and δ, how many users add their noise, and whether the encoder is accepted;
- ``broken``: documents that no device takes, and the class of the error.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from discreet.mdp import Spec, Trajectory
from discreet.noise import uniform
from discreet.noise.secure import SecureSource
from discreet.privatizers import device
from discreet.privatizers.codec import from_json, to_wire
from discreet.privatizers.counts.encode import BinomialEncoder
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.first_visits.encode import FirstVisitEncoder
from discreet.privatizers.questions.encode import QuestionEncoder, hiding

FILE = Path(__file__).parent.parent / "clients" / "vectors.json"
SIZES = [(1, 1, 1), (1, 1, 100), (1, 3, 2), (2, 1, 5), (3, 2, 4), (4, 2, 1), (7, 2, 3), (12, 1, 2)]
UNITS = 2**53
EXAMPLES = 15  # reports of a document


def on_tape(encoder: Any, trajectory: list[Any] | None, data: bytes) -> str:
    """Returns the text of a report whose random words are these bytes; the secure source itself reads them."""
    tape = np.frombuffer(data, dtype="<u8")
    at = 0

    def words(n: int) -> Any:
        nonlocal at
        at += n
        return tape[at - n : at]

    with mock.patch.object(uniform, "words", words):
        source = SecureSource()
        made = encoder.absent(source) if trajectory is None else encoder.encode(Trajectory(*trajectory), source)
    if at != len(tape):
        raise ValueError(f"{at} words were drawn of {len(tape)}")
    return to_wire(made)


def spec_of(sizes: tuple[int, int, int]) -> Spec:
    """Returns sizes with a first state that is known: the shortest text."""
    S, A, H = sizes
    return Spec(S, A, H, np.eye(S)[0])


def asked(rng: np.random.Generator, shape: tuple[int, ...], i: int) -> np.ndarray[Any, Any]:
    """Returns probabilities of questions: uniform, uneven, with zeros at both ends, or one alone."""
    found = np.ones(shape) if i % 4 == 0 else rng.exponential(size=shape) ** 3
    flat = found.reshape(-1)
    if i % 4 == 2 and flat.size > 3:
        flat[[0, -1]] = 0
        flat[rng.integers(1, flat.size - 1)] = 1
    if i % 4 == 3:
        flat[:] = 0
        flat[rng.integers(flat.size)] = 1
    return found / found.sum() * (1 + 3e-7 * (i % 3 - 1))


def question_encoders(rng: np.random.Generator) -> list[QuestionEncoder]:
    """Returns encoders of all randomisers, sizes and levels of ε."""
    made, turn = [], itertools.count()
    for sizes in SIZES:
        for name, stationary in itertools.product(("unary", "subset", "response"), (True, False)):
            if sizes[2] == 100 and (name == "response" or not stationary) and name != "subset":
                continue
            i = next(turn)
            spec, epsilon = spec_of(sizes), (0.01, 0.5, 1.0, math.log(3), 4.0, 30.0)[(i + i // 6) % 6]
            layout = Layout(spec, stationary)
            shape = (2, layout.steps, spec.states, spec.actions)
            made.append(QuestionEncoder(layout, hiding(name, epsilon, spec), asked(rng, shape, i)))
    return made


def lawful_encoders() -> list[QuestionEncoder]:
    """Returns encoders of whose reports 10^5 show the law: few questions, and answers that are hidden well."""
    made = []
    for name, states in (("unary", 3), ("subset", 6), ("response", 3)):
        spec = spec_of((states, 1, 2))
        probabilities = np.zeros((2, 1, states, 1))
        probabilities[0, 0, :2, 0], probabilities[1, 0, 0, 0] = (0.4, 0.2), 0.4
        made.append(QuestionEncoder(Layout(spec, True), hiding(name, 1.0, spec), probabilities))
    return made


def bit_encoders(rng: np.random.Generator) -> list[Any]:
    """Returns encoders of one-bit messages: all families of counters, one layer, few and many cells."""
    made: list[Any] = []
    chances = (0.5, 0.25, 0.3, 1e-3, 2.0**-30, 1 / 3)
    for i, sizes in enumerate([(1, 1, 1), (1, 1, 100), (1, 3, 2), (2, 1, 5), (2, 2, 3), (3, 1, 2)]):
        spec = spec_of(sizes)
        for j, (stationary, visits, rewards, layered) in enumerate(
            [
                (True, True, True, False),
                (False, False, True, False),
                (False, True, False, True),
                (True, False, False, True),
            ]
        ):
            if sizes[2] == 100 and not (stationary or layered):
                continue
            layer = spec.horizon // 2 if layered else None
            layout = Layout(spec, stationary, visits, rewards, layer)
            made.append(BinomialEncoder(layout, 1 + (i + j) % 3, chances[(i + j) % 6]))
        for stationary in (True, False):
            questions = spec.states * spec.actions * (1 if stationary else spec.horizon)
            cells = rng.permutation(questions)[: 1 + i % 3]
            lines = ((1, 1, chances[i]), (2, 2, chances[i - 1]), (max(3, len(cells)), 3, chances[i - 2]))
            made.append(FirstVisitEncoder(spec, stationary, tuple(cells.tolist()), lines))
    return made


def episode(rng: np.random.Generator, spec: dict[str, Any], i: int) -> list[Any]:
    """Returns a trajectory; rewards are bits, real numbers or multiples of 2^-53."""
    S, A, H = (spec[name] for name in ("states", "actions", "horizon"))
    rewards: Any = rng.integers(2, size=H)
    if i % 3 == 1 and H < 50:
        rewards = rng.random(H)
    elif i % 3 == 2:
        rewards = rng.integers(9, size=H) / 8
    return [rng.integers(S, size=H + 1).tolist(), rng.integers(A, size=H).tolist(), rewards.tolist()]


def thresholds(found: Any) -> list[int]:
    """Returns all large integers of a document."""
    if isinstance(found, dict):
        return [number for value in found.values() for number in thresholds(value)]
    if isinstance(found, list):
        return [number for value in found for number in thresholds(value)]
    return [found] if isinstance(found, int) and found > 2**20 else []


def words(rng: np.random.Generator, count: int, edges: list[int], i: int) -> bytes:
    """Returns random words; of some reports all at the ends, or right at and right below the thresholds."""
    digits = rng.integers(UNITS, size=count, dtype=np.uint64)
    if i % 5 == 1:
        digits[:] = (0, UNITS - 1)[i % 2]
    elif i % 5 in (2, 4):
        near = np.array([e for T in edges for e in (T - 1, T) if e < UNITS] or [0], dtype=np.uint64)
        digits = rng.choice(near, size=count)
    low = rng.integers(2**11, size=count, dtype=np.uint64)
    return ((digits << np.uint64(11)) | low).astype("<u8").tobytes()


def reports(rng: np.random.Generator, documents: list[dict[str, Any]]) -> list[Any]:
    """Returns episodes and absences of every encoder."""
    made = []
    for d, document in enumerate(documents):
        encoder, drawn = from_json(json.dumps(document)), document["device"]["draws"]
        for i in range(6 if document["layout"]["horizon"] == 100 else EXAMPLES):
            trajectory = None if i % 7 == 5 else episode(rng, document["layout"], i)
            edges = thresholds(document["device"])
            if trajectory is not None:
                edges += [device.threshold(reward) for reward in trajectory[2] if 0 < reward < 1]
            data = words(rng, drawn[trajectory is None], edges, i)
            made.append([d, trajectory, data.hex(), on_tape(encoder, trajectory, data)])
    return made


def refused(rng: np.random.Generator, documents: list[dict[str, Any]]) -> list[Any]:
    """Returns trajectories that are none of their encoder's."""
    made = []
    for d in range(0, len(documents), 4):
        layout = documents[d]["layout"]
        good = episode(rng, layout, d)
        for part, index, value in [
            *((0, 0, layout["states"]), (0, -1, -1), (1, 0, layout["actions"]), (1, -1, -1), (0, 0, 0.5), (1, 0, 0.5)),
            *((2, 0, 1.0000000000000002), (2, -1, -1e-300), (0, 0, "0"), (2, 0, "0"), (2, 0, None), (1, 0, None)),
        ]:
            bad = copy.deepcopy(good)
            bad[part][index] = value
            made.append([d, bad, "InvalidPersonalData"])
        for part in range(3):
            others = good[part][:-1], [*good[part], 0]
            made += [[d, [*good[:part], other, *good[part + 1 :]], "InvalidPersonalData"] for other in others]
    return made


def pins(documents: list[dict[str, Any]]) -> list[Any]:
    """Returns what an owner may accept, a little more and a little less than what an encoder gives."""
    made: list[Any] = []
    for d, document in enumerate(documents):
        encoder: Any = from_json(json.dumps(document))
        if document["kind"] == "questions":
            made += [[d, encoder.loss * (1 + 1e-9), 0.0, None, True], [d, encoder.loss * (1 - 1e-9), 0.0, None, False]]
            made += [[d, max(found.epsilon for found in encoder.randomisers) * (1 + 1e-12), 0.0, None, True]]
            continue
        made.append([d, 50.0, 0.1, None, False])  # bits hide nothing by themselves
        for users, delta in ((300, 1e-4), (20_000, 1e-7)):
            epsilon = encoder.shuffled_epsilon(users, delta)
            if 0.02 < epsilon < 20:  # a device's account is simpler, and asks for more
                made += [[d, epsilon * 1.25, delta, users, True], [d, epsilon * 0.99, delta, users, False]]
                few = users // 3
                made.append([d, min(encoder.shuffled_epsilon(few, delta) * 0.99, 1e3), delta, few, False])
    return made


#: Where a document is broken, and by what.
BROKEN: dict[str, list[tuple[str, Any]]] = {
    "": [("kind", "raw"), ("kind", "toString"), ("kind", None), ("layout", None), ("device", 5)],
    "layout": [
        *(("states", 0), ("states", "2"), ("states", 2**25), ("actions", 0), ("horizon", 1.5), ("horizon", 2**25)),
        ("stationary", "yes"),
    ],
    "device": [("format", 2), ("draws", [1, 2, 3]), ("draws", [1, 1])],
}
OF_KIND: dict[str, list[tuple[str, Any]]] = {
    "questions": [("questions", []), ("questions", [UNITS]), ("randomisers", []), ("randomisers", None)],
    "binomial": [("p", 0), ("p", UNITS), ("p", 0.5), ("noise_bits", 0), ("noise_bits", 2**40), ("noise_bits", -1)],
    "first-visits": [
        *(("p", 0), ("p", UNITS), ("q", UNITS), ("q", None), ("noise_bits", 0), ("cells", [])),
        *(("cells", [-1]), ("cells", [10**6]), ("cells", [0, 0])),
    ],
}
RANDOMISERS = [
    ("name", "auto"),
    ("size", 99),
    ("p", 0),
    ("p", UNITS),
    ("p", "1"),
    ("q", 0),
    ("chosen", 0),
    ("chosen", 99),
]


def broken(documents: list[dict[str, Any]]) -> list[Any]:
    """Returns altered documents."""
    made = []

    def alter(document: dict[str, Any], *path: Any, value: Any) -> None:
        bad = copy.deepcopy(document)
        place: Any = bad
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        made.append([bad, "InvalidInput"])

    small = [d for d in documents if len(json.dumps(d)) < 900]
    for kind, own in OF_KIND.items():
        document = next(d for d in small if d["kind"] == kind)
        for part, changes in BROKEN.items():
            for key, value in changes:
                alter(document, *([part] if part else []), key, value=value)
        for key, value in own:
            alter(document, "device", key, value=value)
    for name in ("unary", "subset", "response"):
        document = next(d for d in small if d["kind"] == "questions" and d["device"]["randomisers"][1]["name"] == name)
        for key, value in RANDOMISERS:
            if key in document["device"]["randomisers"][1]:
                alter(document, "device", "randomisers", 1, key, value=value)
        falling = [5, 4, *document["device"]["questions"][2:]]
        alter(document, "device", "questions", value=falling)
    return made


def vectors() -> dict[str, Any]:
    """Returns all vectors; the same ones whenever."""
    rng = np.random.default_rng(18)
    documents = [
        device.document(encoder) for encoder in (*lawful_encoders(), *question_encoders(rng), *bit_encoders(rng))
    ]
    return {
        "documents": documents,
        "reports": reports(rng, documents),
        "refused": refused(rng, documents),
        "pins": pins(documents),
        "broken": broken(documents),
    }


def text_of(found: dict[str, Any]) -> str:
    """Returns vectors as compact JSON, one a line."""
    parts = (
        json.dumps(name)
        + ":[\n"
        + ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows)
        + "\n]"
        for name, rows in found.items()
    )
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    made = vectors()
    FILE.write_text(text_of(made))
    print(*(f"{len(rows)} {name}" for name, rows in made.items()), f"{FILE.stat().st_size} bytes", sep=", ")

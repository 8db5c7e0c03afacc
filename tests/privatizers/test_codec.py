"""What travels: encoders that a device pins to its owner's wish, and the one registry, open to other packages."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.errors import InvalidInput, InvalidPersonalData
from discreet.mdp import Spec, Trajectory
from discreet.privacy import NoisyReport, Report, accounting
from discreet.privacy.sensitivity import tabular
from discreet.privatizers import codec, wire
from discreet.privatizers.codec import ENCODERS, KINDS, REPORTS, Codec, from_json, from_wire, register, to_wire
from discreet.privatizers.counts.encode import NoisyEncoder, RawEncoder
from discreet.privatizers.counts.layout import Layout
from discreet.privatizers.hiding import gaussian_delta, gaussian_hides
from discreet.privatizers.make import make
from discreet.privatizers.wire import Array
from tests.privatizers.catalogue import MECHANISMS

ROOT = Path(dc.__file__).parent
SPEC = Spec(2, 2, 3)


def refused(encoder, message="hides less", **pin):
    with pytest.raises(InvalidInput, match=message):
        from_json(encoder.to_json(), **pin)


# --- the owner of a device pins ε and δ


@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("families", [{}, {"visits": False}, {"rewards": False, "layer": 1}])
def test_laplace_noise_is_pinned_at_its_exact_loss(stationary, families):
    """Would catch the paper's 3H for 6H, and a layout whose sensitivity is not the device's own."""
    layout = Layout(SPEC, stationary, **families)
    encoder = NoisyEncoder(layout, "laplace", 7.0)
    epsilon = tabular(layout.counted, layout.families, stationary=stationary).l1 / 7.0
    assert from_json(encoder.to_json(), epsilon=epsilon) == encoder
    refused(encoder, epsilon=math.nextafter(epsilon, 0))
    refused(encoder, epsilon=math.nextafter(epsilon, 0), delta=0.5)  # no δ makes up for it
    half = replace(encoder, scale=3.5)  # planted
    refused(half, epsilon=epsilon)
    assert from_json(half.to_json(), epsilon=2 * epsilon) == half


def test_gaussian_noise_is_pinned_at_its_exact_curve():
    """Both sides in ε and in δ, against the accountant that a device does not have."""
    layout, linear = Layout(SPEC, False), MECHANISMS["noisy features"]().encoder
    for encoder, l2 in (
        (NoisyEncoder(layout, "gaussian", 20.0), tabular(3, 3).l2),
        (NoisyEncoder(Layout(SPEC, True), "gaussian", 9.0), tabular(3, 3, stationary=True).l2),
        (linear, linear.layout.sensitivity.l2),
    ):
        for delta in (1e-9, 1e-6, 1e-3):
            epsilon = accounting.epsilon(accounting.gaussian(encoder.scale / l2), delta)
            for factor, fine in ((1 + 1e-6, True), (1 - 1e-6, False)):
                for pin in (
                    {"epsilon": epsilon * factor, "delta": delta},
                    {"epsilon": epsilon, "delta": delta * factor},
                ):
                    if fine:
                        assert from_json(encoder.to_json(), **pin).scale == encoder.scale
                    else:
                        refused(encoder, **pin)
            refused(replace(encoder, scale=encoder.scale / 2), epsilon=epsilon, delta=delta)
        refused(encoder, epsilon=1000.0)  # pure privacy has no Gaussian noise
        refused(encoder, epsilon=1000.0, delta=0.0)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0])
def test_the_curve_of_a_device_is_the_accountants(mu):
    """NumPy and `math` alone, against SciPy and dp-accounting; nothing overflows."""
    for delta in (1e-12, 1e-6, 0.01):
        epsilon = accounting.epsilon(accounting.gaussian(1 / mu), delta)
        if epsilon > 0:
            assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-5)
    for epsilon in (0.0, 1e-9, 1.0, 1e5, math.inf):
        assert 0 <= gaussian_delta(mu, epsilon) <= 1
    for extreme in (1e-300, 1e300, math.inf):
        assert not gaussian_hides(extreme, 1.0, 1e-6) or extreme < 1
    assert not gaussian_hides(1.0, math.nan, 0.5)
    assert not gaussian_hides(1.0, 1.0, math.nan)
    assert not gaussian_hides(math.nan, 1.0, 0.5)


@pytest.mark.parametrize("name", ["sampled subset", "sampled unary", "questions"])
def test_randomised_answers_are_pinned_at_their_exact_loss(name):
    """Would catch a document that states its ε instead of a device that computes the loss."""
    encoder = MECHANISMS[name]().encoder
    loss = encoder.loss if name == "questions" else encoder.randomiser.loss
    assert loss <= 1.0
    assert from_json(encoder.to_json(), epsilon=1.0).to_json() == encoder.to_json()  # what was asked for
    assert from_json(encoder.to_json(), epsilon=loss).to_json() == encoder.to_json()
    refused(encoder, epsilon=math.nextafter(loss, 0))
    document = json.loads(encoder.to_json())
    if name == "questions":  # one of the two is enough to give somebody away
        document["parameters"]["randomisers"][1]["epsilon"] = 1.5
    else:
        document["parameters"]["epsilon"] = 1.5
    with pytest.raises(InvalidInput, match="hides less"):
        from_json(json.dumps(document), epsilon=1.0)


@pytest.mark.parametrize("name", ["shuffled", "first visits"])
def test_messages_are_pinned_for_the_users_that_are_trusted(name):
    """Exact threshold in ε; fewer users hide less; and alone a message hides nothing."""
    encoder = MECHANISMS[name]().encoder_of(0)
    epsilon = encoder.shuffled_epsilon(3, 1e-3)
    assert 0.9 < epsilon <= 1.0
    for asked in (epsilon, 1.0):
        assert from_json(encoder.to_json(), epsilon=asked, delta=1e-3, users=3) == encoder
    refused(encoder, "a batch of 3 users hides less", epsilon=math.nextafter(epsilon, 0), delta=1e-3, users=3)
    refused(encoder, "a batch of 3 users hides less", epsilon=1.0, delta=1e-4, users=3)
    refused(encoder, "a batch of 2 users hides less", epsilon=1.0, delta=1e-3, users=2)
    refused(encoder, "hide nothing by themselves", epsilon=1.0, delta=1e-3)
    refused(encoder, "hide nothing by themselves", epsilon=1000.0, delta=0.9)
    for users in (0, -1, 1.5, True):
        refused(encoder, "users", epsilon=1.0, delta=1e-3, users=users)


@pytest.mark.parametrize("name", ["exact", "central weighted", "central features"])
def test_raw_encoders_never_pass_a_pin(name):
    """Would catch a device that sends raw data because its ε is large enough for anything."""
    encoder = MECHANISMS[name]().encoder_of(0)
    assert from_json(encoder.to_json()).to_json() == encoder.to_json()
    for pin in ({"epsilon": 1.0}, {"epsilon": math.inf, "delta": 1.0}, {"epsilon": 1e9, "delta": 0.5, "users": 1000}):
        refused(encoder, **pin)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name.startswith(("noisy", "sampled", "questions"))])
@pytest.mark.parametrize("bad", [{"epsilon": math.nan}, {"epsilon": -1.0}, {"epsilon": 0.0}])
def test_a_pin_that_is_no_number_passes_nobody(name, bad):
    refused(MECHANISMS[name]().encoder, delta=1e-6, **bad)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0, 20.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_what_a_server_calibrates_passes_the_pin_that_it_was_asked_for(epsilon, delta):
    """Would catch rounding that locks honest servers out."""
    pin = {"epsilon": epsilon, "delta": delta}
    for stationary in (False, True):
        given = {"capacity": 9, "batches": [3] * 3, "stationary": stationary}
        for sum_ in ("laplace", "gaussian", "sampled"):
            encoder = make("counts", SPEC, dc.Local(epsilon, delta, sum=sum_), **given).encoder
            assert from_json(encoder.to_json(), **pin) == encoder
        asked = make(
            "questions", SPEC, dc.Local(epsilon, delta, sum="questions"), capacity=9, stationary=True, failure=0.1
        )
        assert from_json(asked.encoder.to_json(), **pin).kind == "questions"


def test_a_device_that_has_only_numpy_can_pin(python):
    """Would catch an accountant, SciPy or compiled code on the way to a refusal."""
    names = ("noisy laplace", "noisy gaussian", "sampled subset", "sampled unary", "questions", "noisy features")
    texts = [MECHANISMS[name]().encoder.to_json() for name in names]
    raw = MECHANISMS["exact"]().encoder.to_json()
    code = f"""
import json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("scipy", "numba", "dp_accounting", "gymnasium", "rich", "click"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
from discreet.privatizers.codec import from_json

for text in json.loads({json.dumps(json.dumps(texts))}):
    kind = from_json(text, epsilon=1.0, delta=1e-6).kind
    try:
        from_json(text, epsilon=0.9, delta=1e-6)
    except ValueError as error:
        print(kind, "hides less" in str(error))
try:
    from_json({raw!r}, epsilon=1.0)
except ValueError as error:
    print("raw", "hides less" in str(error))
"""
    kinds = ["noisy", "noisy", "sampled", "sampled", "questions", "noisy-features", "raw"]
    assert python(code).splitlines() == [f"{kind} True" for kind in kinds]


# --- the registry


@dataclass(frozen=True, eq=False, repr=False)
class Steps(Report):
    """What people of another package send: a noisy number, and how many steps they took."""

    amount: np.ndarray
    steps: int


@dataclass(frozen=True)
class StepEncoder:
    """Another package's encoder."""

    scale: float

    kind = "steps"

    def encode(self, trajectory, rng):
        total = float(np.sum(trajectory.rewards))
        return Steps(np.array([total]) + rng.laplace(scale=self.scale, size=1), len(trajectory.actions))

    def to_json(self):
        return json.dumps({"kind": self.kind, "scale": self.scale})

    @classmethod
    def from_document(cls, document):
        return cls(document["scale"])

    def hides(self, epsilon, delta):
        return 3 / self.scale <= epsilon


def _expected(encoder):
    return (Array("amount", "<f8", (1,)), Array("steps", "<u4", (), 0, 9, "lie in [0, 10)")), None


STEPS = Codec("steps", Steps, (("amount", "<f8", 1), ("steps", "<u4", 0)), {"steps": _expected})


@pytest.fixture
def registry():
    """Whatever is registered in a test is forgotten after it."""
    tables = (ENCODERS, REPORTS, wire._BY_REPORT, wire._BY_ENCODER)
    before = [dict(table) for table in tables]
    yield lambda: [dict(table) for table in tables] == before
    for table, known in zip(tables, before, strict=True):
        table.clear()
        table.update(known)


def test_another_packages_encoder_travels_as_ours_do(registry, rng):
    """Would catch a list of classes somewhere else that it is missing from."""
    person = Trajectory(np.array([0, 1, 0, 1]), np.zeros(3, dtype=int), np.ones(3))
    encoder = StepEncoder(4.0)
    with pytest.raises(InvalidInput, match="of the kind 'steps'"):
        from_json(encoder.to_json())
    register(StepEncoder, STEPS)
    again = from_json(encoder.to_json(), epsilon=0.75)
    assert again == encoder
    refused(encoder, epsilon=0.74)
    refused(encoder, "of the kind 'steps'", kinds=("noisy", "sampled"))
    report = again.encode(person, rng)
    text = to_wire(report)
    assert text.startswith("1.steps.")
    assert len(text) == wire.wire_limit(encoder)
    found = from_wire(text, encoder)
    assert isinstance(found, Steps)
    assert (found.amount, found.steps) == (report.amount, 3)
    with pytest.raises(InvalidPersonalData, match=r"steps must lie in \[0, 10\)"):
        from_wire(to_wire(replace(report, steps=10)), encoder)
    assert REPORTS["Steps"] is Steps
    register(StepEncoder, STEPS)  # again is fine


def test_another_packages_encoder_may_send_our_reports(registry):
    noisy = next(known for known in wire.CODECS if known.kind == "noisy")
    encoder = StepEncoder(4.0)
    register(StepEncoder, replace(noisy, encoders={"steps": lambda one: ((Array("values", "<f8", (2,)),), None)}))
    report = from_wire(to_wire(NoisyReport(np.array([1.5, -2.0]))), encoder)
    np.testing.assert_array_equal(report.values, [1.5, -2.0])
    assert wire._BY_REPORT[NoisyReport] is noisy


def test_nobody_takes_the_place_of_what_is_known(registry):
    """Would catch a package that reads or writes our reports in its own way, and one that is half registered."""
    raw = type("Mine", (StepEncoder,), {"kind": "raw"})
    namesake = type("RawReport", (Steps,), {})
    arrays = (("values", "<f8", 1),)
    for encoder, given, why in (
        (raw, None, "an encoder of the kind 'raw' already"),
        (raw, STEPS, "an encoder of the kind 'raw' already"),
        (StepEncoder, replace(STEPS, encoders={"other": _expected}), "does not read reports of"),
        (StepEncoder, replace(STEPS, report=namesake), "a report 'RawReport' already"),
        (StepEncoder, replace(STEPS, kind="raw"), "'raw' are written in another way"),
        (StepEncoder, Codec("noisy", NoisyReport, (*arrays, *arrays), {"steps": _expected}), "in another way"),
        (StepEncoder, Codec("mine", NoisyReport, arrays, {"steps": _expected}), "'noisy' are written in another way"),
        (StepEncoder, replace(STEPS, encoders={"steps": _expected, "raw": _expected}), "read in another way"),
    ):
        with pytest.raises(InvalidInput, match=why):
            register(encoder, given)
        assert registry(), why


def test_every_encoder_can_do_all_that_is_asked_of_one():
    assert tuple(ENCODERS) == KINDS
    for kind, encoder in ENCODERS.items():
        assert encoder.kind == kind
        for method in ("encode", "to_json", "from_document", "hides"):
            assert callable(getattr(encoder, method))
    assert set(wire._BY_ENCODER) == set(KINDS)
    assert {found.report for found in wire.CODECS} == set(REPORTS.values())


def lists(code):
    """Lines at which three encoders, reports or kinds of them stand together; annotations and exports do not count."""
    found, tree, skipped = [], ast.parse(code), set()
    for node in ast.walk(tree):
        exported = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        told = node.value if exported else getattr(node, "annotation", None) or getattr(node, "returns", None)
        skipped |= {id(part) for part in ast.walk(told)} if told is not None else set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Dict):
            parts = [*node.keys, *node.values]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = node.elts
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            parts = list(ast.walk(node))
        elif isinstance(node, ast.If) and "isinstance(" in ast.unparse(node.test):  # a chain of them
            tests, rest = [node.test], node.orelse
            while len(rest) == 1 and isinstance(rest[0], ast.If):
                tests, rest = [*tests, rest[0].test], rest[0].orelse
            parts = [part for test in tests for part in ast.walk(test)]
        else:
            continue
        names = {ast.unparse(part).split(".")[-1] for part in parts if isinstance(part, ast.Name | ast.Attribute)}
        classes = {name for name in names if name.endswith(("Encoder", "Report")) and name not in ("Encoder", "Report")}
        words = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        if len(classes) >= 3 or len(words & set(KINDS)) >= 3:
            found.append(node.lineno)
    return found


def test_only_the_registry_lists_encoders_and_reports():
    """Would catch a second list that somebody forgets when an encoder is added."""
    listing = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if lists(path.read_text())}
    assert listing <= {"privatizers/codec.py", "privatizers/wire.py"}
    assert "privatizers/codec.py" in listing
    for planted in (
        "KNOWN = (RawEncoder, encode.NoisyEncoder, SampledEncoder)",
        "KNOWN = {'RawReport': RawReport, 'b': messages.BitsReport, 'c': NoisyReport}",
        "Any = RawEncoder | NoisyEncoder | BinomialEncoder",
        "KINDS = ['raw', 'noisy', 'sampled']",
        "if isinstance(x, RawReport): a()\nelif isinstance(x, BitsReport): b()\nelif isinstance(x, NoisyReport): c()",
    ):
        assert lists(planted), planted
    assert not lists("__all__ = ['raw', 'noisy', 'sampled']")
    assert not lists("def f(x: RawEncoder | NoisyEncoder | SampledEncoder): pass")


def test_the_devices_module_is_what_it_says():
    """`privatizers.from_json` is the codec's, for those who import the room."""
    assert dc.privatizers.from_json is codec.from_json
    assert from_json(RawEncoder(Layout(SPEC, False)).to_json()) == RawEncoder(Layout(SPEC, False))


# --- encoders and plans from somebody who wishes a device harm


def _hostile(agent, where, value):
    document = json.loads(agent.plan.to_json())
    place = document
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    return document


@pytest.mark.parametrize(
    ("trust", "where", "value"),
    [
        (dc.Local(1.0, sum="laplace"), ("layout", "actions"), 10**9),
        (dc.Local(1.0, sum="laplace"), ("layout", "horizon"), 10**12),
        (dc.Local(1.0, sum="sampled"), ("layout", "actions"), 10**12),
        (dc.Shuffle(1.0, 1e-5), ("parameters", "noise_bits"), 10**12),
        (dc.Shuffle(1.0, 1e-5), ("layout", "horizon"), 10**9),
    ],
)
def test_a_device_that_pins_takes_no_encoder_that_is_too_large(trust, where, value):
    """Would catch a server that lets devices allocate terabytes, or account for ever."""
    mdp = dc.envs.riverswim(states=3, horizon=4)
    agent = dc.agents.make("dp-ucbvi", mdp.spec, episodes=2000, privacy=trust, seed=0)
    document = _hostile(agent, ("encoder", *where), value)
    with pytest.raises(InvalidInput, match="too large"):
        from_json(json.dumps(document["encoder"]), epsilon=100.0, delta=1e-5, users=10)
    with pytest.raises(InvalidInput, match="too large"):
        dc.agents.Plan.from_json(json.dumps(document), epsilon=100.0, delta=1e-5, users=10)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("users",), [10**30]),
        (("users",), [2, -1]),
        (("users",), [1, 0, 0]),
        (("policies", 0, 0, 0), 2),
        (("policies", 0, 0, 0), 1e300),
        (("policies", 0, 0, 0), -1),
        (("rest",), 0),
        (("rest",), [["a"]]),
        (("rest",), None),
        (("policies",), []),
        (("encoder", "parameters", "scale"), "x"),
    ],
)
def test_a_plan_that_nobody_can_play_is_refused(where, value):
    mdp = dc.envs.riverswim(states=3, horizon=4)
    agent = dc.agents.make("dp-ucbvi", mdp.spec, episodes=20, privacy=dc.Local(1.0, sum="laplace"), seed=0)
    with pytest.raises(InvalidInput):
        dc.agents.Plan.from_json(json.dumps(_hostile(agent, where, value)))


def test_a_plan_can_be_pinned():
    mdp = dc.envs.riverswim(states=3, horizon=4)
    agent = dc.agents.make("dp-ucbvi", mdp.spec, episodes=20, privacy=dc.Local(1.0, sum="laplace"), seed=0)
    assert dc.agents.Plan.from_json(agent.plan.to_json(), epsilon=1.0).hash == agent.plan.hash
    with pytest.raises(InvalidInput, match="hides less"):
        dc.agents.Plan.from_json(agent.plan.to_json(), epsilon=0.9)
    with pytest.raises(InvalidInput, match="plan"):
        dc.agents.Plan.from_json("[" * 100_000)


def test_numbers_that_travel_as_text_are_numbers():
    """Would catch a scale that passes its check as a text and fails at the first report."""
    mdp = dc.envs.riverswim(states=3, horizon=4)
    agent = dc.agents.make("dp-ucbvi", mdp.spec, episodes=20, privacy=dc.Local(1.0, sum="laplace"), seed=0)
    document = _hostile(agent, ("encoder", "parameters", "scale"), "50")
    encoder = from_json(json.dumps(document["encoder"]), epsilon=2.0)
    assert encoder.scale == 50.0

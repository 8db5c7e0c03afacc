"""Sources: the fast one draws what NumPy draws, in that order; and nothing else draws noise."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.noise import SecureSource, Source, as_source
from discreet.noise.fast import FastSource, fill

ROOT = Path(discreet.__file__).parent


def pair(seed=3):
    """A source and a generator at the same place."""
    return FastSource(np.random.default_rng(seed)), np.random.default_rng(seed)


def test_fast_sources_draw_the_generators_own_bits():
    """Would catch another order or number of draws: every recorded result would change."""
    source, rng = pair()
    rows = np.random.default_rng(0).random((5, 9)) < 0.5
    for drawn, expected in (
        (source.random(4), rng.random(4)),
        (source.random((2, 3)), rng.random((2, 3))),
        (source.integer(17), int(rng.integers(17))),
        (source.permutation(11), rng.permutation(11)),
        (source.permuted(rows), rng.permuted(rows, axis=1)),
        (source.noise("laplace", 2.5, (3, 2)), rng.laplace(scale=2.5, size=(3, 2))),
        (source.noise("gaussian", 2.5, 7), rng.normal(scale=2.5, size=7)),
        (source.binomial(30, 0.3, 8), rng.binomial(30, 0.3, size=8)),
    ):
        np.testing.assert_array_equal(drawn, expected)
    for distribution in ("laplace", "gaussian"):
        one, two = np.empty((3, 5)), np.empty((3, 5))
        source.fill(distribution, 1.5, one)
        fill(rng, distribution, 1.5, two)
        np.testing.assert_array_equal(one, two)
    gaussian = np.empty((2, 4))
    source.fill("gaussian", 1.5, gaussian)
    np.testing.assert_array_equal(gaussian, 1.5 * rng.standard_normal((2, 4)))
    assert source.random(1)[0] == rng.random()
    assert source.kind == "fast"


def test_filling_in_pieces_is_filling_at_once():
    """Would catch blocks of a simulation whose noise is not the protocol's."""
    for distribution in ("laplace", "gaussian"):
        (one, _), (two, _) = pair(), pair()
        whole, parts = np.empty((6, 5)), np.empty((6, 5))
        one.fill(distribution, 2.0, whole)
        for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
            two.fill(distribution, 2.0, parts[rows])
        np.testing.assert_array_equal(whole, parts)


def test_a_mark_goes_back_to_where_it_was_set():
    source, _ = pair()
    source.random(3)
    mark, first = source.mark(), source.random(5)
    source.rewind(mark)
    np.testing.assert_array_equal(source.random(5), first)


def test_as_source_takes_sources_and_generators_only():
    """Would catch a seed, the old global generator or a module that is drawn from by accident. Nothing is secure."""
    source, rng = pair()
    assert as_source(source) is source
    wrapped = as_source(rng)
    assert isinstance(wrapped, FastSource)
    assert wrapped.generator is rng
    assert isinstance(as_source(None), SecureSource)
    for wrong in (7, "fast", np.random, np.random.RandomState(0), np.random.PCG64(0), FastSource):
        with pytest.raises(TypeError, match=r"expected a numpy\.random\.Generator or a discreet\.noise\.Source"):
            as_source(wrong)


def test_a_source_must_say_all():
    """Would catch a kind of noise that some draw of a mechanism goes round."""
    assert Source.__abstractmethods__ == {"random", "chance", "integer", "permutation", "permuted", "noise", "fill"}
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (Source,), {"kind": "secure", "random": lambda self, shape: None})()


# --- nothing else draws

#: Draws that are noise wherever they are.
NOISE = {
    "binomial",
    "exponential",
    "fill",
    "gamma",
    "geometric",
    "laplace",
    "logistic",
    "normal",
    "permuted",
    "poisson",
    "standard_exponential",
    "standard_normal",
}
#: Draws that decide on nobody's privacy if they are of a learner's own generator; no mechanism has them.
DRAWS = {"bytes", "choice", "integers", "permutation", "random", "shuffle", "uniform"}
#: Events of the accountant have the names of the noise.
ACCOUNTS = {"accounting", "dp_accounting"}


def draws(code, room):
    """The lines at which something else than a source draws."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet.noise."):
            inner = node.module.split(".")[2]
            if inner in ("fast", "_kernels") and {alias.name for alias in node.names} != {"FastSource"}:
                found.append(node.lineno)
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith(("np.random.", "numpy.random.")):
            built = {"Generator", "SeedSequence", "PCG64"} | ({"default_rng"} if room == "agents" else set())
            if ast.unparse(node).split(".")[2] not in built:
                found.append(node.lineno)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name, whose = node.func.attr, ast.unparse(node.func.value)
        if whose.endswith("source") or whose.startswith("as_source(") or whose in ACCOUNTS:
            continue
        own = room == "agents" and whose in ("rng", "self.rng", "agent.rng")
        if name in (NOISE | DRAWS if not own else NOISE - {"normal", "permuted"}):  # explorers' widths, and ties
            found.append(node.lineno)
    return found


FILES = [path for room in ("privatizers", "sums", "agents") for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_mechanism_draws_from_a_generator(path):
    """Would catch noise that does not come from the source which the guarantee names."""
    room = path.relative_to(ROOT).parts[0]
    assert draws(path.read_text(), room) == []


@pytest.mark.parametrize(
    "code",
    [
        "rng.laplace(scale=1.0)",
        "self.rng.normal()",
        "self.source.generator.standard_normal(3)",
        "generator.binomial(3, 0.5)",
        "rng.permuted(x, axis=1)",
        "fast.fill(rng, 'laplace', 1.0, out)",
        "from discreet.noise import fast\nfast.fill(1, 2, 3, 4)",
        "from discreet.noise.fast import fill",
        "from discreet.noise._kernels import fill_laplace",
        "np.random.default_rng(0)",
        "np.random.rand(3)",
        "rng.random(3) < p",
        "generator.integers(3)",
        "self._generator.permutation(3)",
    ],
)
def test_planted_draws_are_found(code):
    """The test above has power."""
    assert draws(code, "privatizers")


def test_a_learner_has_its_own_generator_but_draws_no_noise():
    assert draws("rng.random(3)\nself.rng.integers(2)", "agents") == []
    assert draws("rng.laplace()\nself.rng.standard_normal()\nother.random(3)", "agents") == [1, 2, 3]
    assert draws("source.generator.normal()\nprivatizer.rng.permuted(x)", "agents") == [1, 2]

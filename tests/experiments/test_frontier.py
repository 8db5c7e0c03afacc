"""The pictures of the frontier: what is proven is on the axis, never what was asked for."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

from discreet import results
from discreet.experiments import conduct
from discreet.experiments.reproduce import EXPERIMENTS, frontier
from discreet.experiments.sweep import Sweep


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two learners with a trusted server, pooled and per step, and one without privacy."""
    out = tmp_path_factory.mktemp("frontier") / "store"
    budgets = {"trust": "central", "epsilon": [1, 3], "stationary": [True, False]}
    sweep = Sweep.make(
        {
            "env": "riverswim:states=3,horizon=4",
            "episodes": 60,
            "runs": 2,
            "setting": [
                {"agent": "ucbvi", "stationary": [True, False]},
                {"agent": "dp-ucbvi", "sum": "tree", "calibration": "paper", **budgets},
                {"agent": "auto", "delta": 1e-6, **budgets},
            ],
        }
    )
    conduct.conduct(sweep, out, workers=1)
    return results.load(out)


def test_lines_are_at_the_proven_epsilon(runs):
    """Printed noise at ε = 1 gives more than 1: a picture at 1 would be the papers' claim."""
    found = frontier.lines(runs, "central")
    assert set(found) == {(agent, pooled) for agent in ("ucbvi", "dp-ucbvi", "discreet-vi") for pooled in (True, False)}
    for pooled in (True, False):
        assert list(found["ucbvi", pooled]) == [float("inf")]
        assert min(found["dp-ucbvi", pooled]) > 1.01
        for epsilon, regrets in found["discreet-vi", pooled].items():
            assert 0.99 * round(epsilon) <= epsilon <= round(epsilon)
            assert len(regrets) == 2
    assert set(frontier.lines(runs, "local")) == {("ucbvi", True), ("ucbvi", False)}


def test_a_picture_for_each_trust_model_and_the_curves_at_one_epsilon(runs, tmp_path):
    written = frontier.draw(runs, tmp_path)
    assert {path.name for path in written.values()} == {"frontier-central.svg", "regret.svg", "regret-log.svg"}
    assert all(path.with_suffix(".png").read_bytes().startswith(b"\x89PNG") for path in written.values())
    caption = next(iter(written))
    assert caption.startswith("Joint DP: the server is trusted. Regret after 60 episodes")
    assert "δ is 0 or 1e-6." in caption
    assert "simulation only" in caption
    curves = (tmp_path / "regret.svg").read_text()
    assert "by step" not in curves  # pooled only
    first = (tmp_path / "frontier-central.svg").read_bytes()
    frontier.draw(runs, tmp_path)
    assert (tmp_path / "frontier-central.svg").read_bytes() == first


def test_the_frontier_compares_what_it_must():
    """Must show: every trust model, pooled and per step, ε from 0.1 to 10: the papers' mechanism, ours, no privacy."""
    found = set()
    for each in EXPERIMENTS["frontier"].full["setting"]:
        assert each.get("calibration", "sound") == "sound"
        counts = each["stationary"] if isinstance(each["stationary"], list) else [each["stationary"]]
        for pooled, epsilon in itertools.product(counts, each.get("epsilon", [None])):
            found.add((each["agent"], each.get("trust", "none"), pooled, epsilon))
    trust = ("central", "shuffle", "local")
    private = set(itertools.product(("dp-ucbvi", "auto"), trust, (True, False), (0.1, 0.3, 1, 3, 10)))
    assert found == {*private, ("ucbvi", "none", True, None), ("ucbvi", "none", False, None)}

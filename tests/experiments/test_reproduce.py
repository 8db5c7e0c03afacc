"""Published experiments: declared, done, drawn."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

from discreet.experiments import report
from discreet.experiments.reproduce import EXPERIMENTS
from discreet.privacy import binomial
from discreet.registry import Entry

#: The frontier takes as long as the six others; its pictures are drawn in test_frontier.py.
BY_DAY = [pytest.param(name, marks=[pytest.mark.slow] if name == "frontier" else []) for name in EXPERIMENTS]


@pytest.fixture
def tiny(monkeypatch):
    """Every experiment with few people, so that it takes a second."""
    for name, found in EXPERIMENTS.items():
        people = {"shuffle": 500, "linear": 20}.get(name, 60)  # a stage of sdp-pe needs 480
        few = dataclasses.replace(found, quick={**found.quick, "episodes": people, "runs": 2})
        monkeypatch.setitem(EXPERIMENTS.entries, name, Entry(name, few))


def declared_soundly(name, quick):
    """Everything in it can be built, and the full one is what the paper did, or more."""
    sweep = EXPERIMENTS[name].sweep(quick=quick)
    assert len(sweep.configs) == len(sweep.settings) * sweep.runs
    if not quick:
        assert sweep.runs >= 5
        assert all(setting.episodes >= 50_000 for setting in sweep.settings)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("quick", [True, False])
def test_experiments_are_declared_soundly(name, quick, monkeypatch):
    if name == "frontier":  # half a minute for the noise bits of all its batch sizes, and their account: see below
        for calibrate in ("calibrate", "calibrate_symmetric"):
            monkeypatch.setattr(binomial, calibrate, lambda *_: (1, 0.5))
        monkeypatch.setattr(binomial, "epsilon", lambda *_: 1.0)
    declared_soundly(name, quick)


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
def test_the_frontier_has_noise_for_all_its_batches(quick):
    declared_soundly("frontier", quick)


def test_riverswim_has_the_settings_that_it_must_have():
    """Must show: non-private, joint and local at several ε; printed, sound and our best."""
    settings = EXPERIMENTS["riverswim"].sweep(quick=False).settings
    found = {
        (each.trust, each.agent, each.privacy.get("calibration"), each.privacy.get("epsilon")) for each in settings
    }
    assert len(found) >= 6
    for epsilon in (1, 3, 10):
        for wanted in (
            ("central", "dp-ucbvi", "paper", epsilon),
            ("central", "dp-ucbvi", "sound", epsilon),
            ("central", "auto", None, epsilon),
            ("local", "dp-ucbvi", "paper", epsilon),
            ("local", "dp-ucbvi", "sound", epsilon),
            ("local", "auto", None, epsilon),
        ):
            assert wanted in found
    assert ("none", "ucbvi", None, None) in found


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", BY_DAY)
def test_an_experiment_ends_with_a_table_figures_a_page_and_the_store(discreet_, tmp_path, monkeypatch, name):
    out = tmp_path / "out"
    code, printed, err = discreet_("reproduce", name, "--quick", "--workers", "1", "--out", str(out))
    assert code == 0, err
    assert "ε" in printed
    suffixes = {path.suffix for path in out.iterdir()}
    assert {".png", ".svg", ".html", ".sqlite"} <= suffixes
    for path in out.iterdir():
        if path.suffix in (".png", ".svg", ".html"):
            assert str(path) in err
    page = (out / "report.html").read_text()
    assert EXPERIMENTS[name].title in page
    assert f"discreet reproduce {name} --quick" in page
    code, _, err = discreet_("reproduce", name, "--quick", "--workers", "1", "--out", str(out))
    assert code == 2
    assert "--resume" in err
    if name != "riverswim":  # what is stored is drawn again: once is enough
        monkeypatch.setattr(report, "write", lambda *_, **__: [])
    code, _, err = discreet_("reproduce", name, "--quick", "--workers", "1", "--out", str(out), "--resume")
    assert code == 0
    assert "0 of them new" in err


def test_an_unknown_experiment_is_one_line(discreet_):
    code, out, err = discreet_("reproduce", "rivrswim")
    assert (code, out) == (2, "")
    assert "did you mean 'riverswim'" in err


def test_commands_about_results(discreet_, tmp_path):
    file = tmp_path / "few.toml"
    file.write_text('env = "chain"\nagent = ["ucbvi", "ubev"]\nepisodes = 30\nruns = 2\n')
    store = str(tmp_path / "few")
    code, out, err = discreet_("sweep", str(file), "--dry-run")
    assert (code, out.count("\n")) == (0, 2)
    assert "4 runs of 2 settings" in err
    assert not (tmp_path / "few").exists()
    assert discreet_("sweep", str(file), "--out", store, "--workers", "1")[0] == 0
    code, out, _ = discreet_("results", "ls", store, "--json")
    runs = json.loads(out)["runs"]
    assert (code, len(runs)) == (0, 4)
    code, out, _ = discreet_("results", "ls", store)
    assert out.count("\n") == 5
    code, out, _ = discreet_("results", "show", store, runs[0]["key"][:8])
    assert json.loads(out)["config"]["agent"] == runs[0]["agent"]
    assert discreet_("results", "show", store, "zzz")[0] == 2
    table = tmp_path / "table.csv"
    assert discreet_("results", "export", store, str(table))[0] == 0
    assert "regret" in table.read_text().splitlines()[0]
    assert discreet_("results", "export", store, str(tmp_path / "table.xyz"))[0] == 2
    code, out, _ = discreet_("report", store)
    assert code == 0
    assert "report.html" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("results", "ls", "/nowhere"), 2),
        (("report", "/nowhere"), 2),
        (("sweep", "/nowhere.toml"), 2),
        (("results", "export", "/nowhere", "x.csv"), 2),
    ],
)
def test_what_is_not_there_is_one_line(discreet_, arguments, code):
    found, out, err = discreet_(*arguments)
    assert (found, out) == (code, "")
    assert err.count("\n") == 1


def test_stages_are_drawn_over_time():
    """The last stage may be shorter than the one before: over its length, the line would turn back."""
    from discreet.experiments.reproduce.shuffle import active

    configs = EXPERIMENTS["shuffle"].sweep(quick=True).configs
    config = next(each for each in configs if each["options"].get("policies") == "enumerate")
    ends, sizes = active(SimpleNamespace(config=config))
    assert len(ends) == len(sizes) > 3
    assert (np.diff(ends) > 0).all()
    assert (np.diff(sizes) <= 0).all()

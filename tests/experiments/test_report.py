"""Figures and the page: what they claim is what is proven, and they need nothing but themselves."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

from discreet import results
from discreet.errors import InvalidInput, MissingExtra, StoreError
from discreet.experiments import labels, report
from discreet.experiments.engine import execute
from discreet.experiments.figures import regret as plot
from discreet.experiments.records import summarise, thin
from discreet.experiments.store import Store
from discreet.experiments.sweep import Sweep

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")

GUARANTEE = {
    "notion": "joint",
    "epsilon": 1.0,
    "delta": 0.0,
    "unit": "user",
    "protects": "trajectory",
    "relation": "replace-one",
    "noise": "fast",
    "assumptions": [],
}
NOTHING = GUARANTEE | {"notion": "none", "epsilon": None, "protects": "nothing", "noise": "none"}
HOSTILE = "<script>alert('1')</script> & \"x\" $\\frac{ \x00 ]]>"


def run(i=0, *, agent="dp-ucbvi", env="riverswim", trust="central", epsilon=1.0, proven=None, episodes=40, **more):
    """A run that nobody did: row and curve."""
    promised = more.pop("guarantee", GUARANTEE | {"epsilon": proven or epsilon} if epsilon else NOTHING)
    options = {key: more.pop(key) for key in list(more) if key in ("stationary", "update_every", "preset")}
    config = {
        "env": env,
        "agent": agent,
        "trust": trust if epsilon else "none",
        "privacy": {"epsilon": epsilon, **more} if epsilon else {},
        "options": options,
        "episodes": episodes,
        "seed": [0, i],
        "alpha": [0.1],
    }
    gaps = np.random.default_rng(i).random(episodes)
    return summarise(config, gaps, promised, wall_seconds=1.0, cpu_seconds=0.5)


class Kept:
    """Runs in memory."""

    def __init__(self, *runs):
        self.runs = [row for row, _ in runs]
        self._curves = {row.key: curve for row, curve in runs}

    def curve(self, key):
        return self._curves[key]


def label(row, among):
    """The label of a run's setting among others."""
    return labels.labels([*among, row])[row.labels["setting"]]


def written(directory):
    """The page of a store."""
    return report.write(results.load(directory), directory, title=directory.resolve().name)[-1]


class Page(HTMLParser):
    """A page taken apart; fails on tags that are not closed in order."""

    VOID = ("meta", "br", "img", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


def legend(path):
    """All text of a figure."""
    return " ".join("".join(node.itertext()) for node in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A store of real runs in two environments."""
    place = tmp_path_factory.mktemp("store")
    common = {"runs": 2, "stationary": True, "episodes": 60}
    river = [
        {"agent": "ucbvi"},
        {"agent": "dp-ucbvi", "sum": "tree", "calibration": ["paper", "sound"]},
        {"agent": "dp-ucbvi", "trust": "shuffle", "epsilon": 3, "delta": 1e-3},
        {"agent": "dp-ucbvi", "trust": "local", "sum": "laplace", "calibration": "paper"},
    ]
    store = Store.create(place)
    for document in ({"env": "riverswim", "setting": river}, {"env": "chain", "agent": "ucbvi"}):
        for config in Sweep.make({**document, **common}).configs:
            outcome = execute(config)
            assert outcome.run is not None
            store.put(*outcome.run)
    return place


def test_labels_say_what_differs_and_what_is_proven():
    rows = [
        run(agent="ucbvi", epsilon=None)[0],
        run(calibration="paper", proven=2.0501)[0],
        run(calibration="sound")[0],
        run(trust="local", calibration="paper", proven=2.0)[0],
    ]
    assert [label(row, rows) for row in rows] == [
        "ucbvi: no privacy",
        "dp-ucbvi, central, printed noise: ε = 2.051 (asked 1)",
        "dp-ucbvi, central, sound noise: ε = 1",
        "dp-ucbvi, local, printed noise: ε = 2 (asked 1)",
    ]
    assert label(rows[1], []) == "dp-ucbvi: ε = 2.051 (asked 1)"


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"update_every": 10}, {"update_every": "geometric"}, ("update every 10", "update every geometric")),
        ({"stationary": True}, {}, ("pooled", "by step")),
        ({"sum": "tree"}, {}, ("tree sum", "dp-ucbvi: ")),
        ({"epsilon": 0.3}, {"epsilon": 3}, ("ε = 0.3", "ε = 3")),
        ({"env": "chain"}, {"env": "hard"}, ("chain", "hard")),
        ({"episodes": 1000}, {"episodes": 2000}, ("1,000 episodes", "2,000 episodes")),
        ({"preset": "theory"}, {}, ("theory preset", "practical preset")),
        ({"guarantee": GUARANTEE | {"delta": 1e-6}, "delta": 1e-6}, {}, ("δ = 1e-6", "ε = 1")),
        ({"guarantee": GUARANTEE | {"protects": "rewards"}, "sum": "x"}, {}, ("rewards only", "ε = 1")),
        ({"calibration": "sound"}, {}, ("dp-ucbvi: ε = 1 [", "dp-ucbvi: ε = 1 [")),  # the same, said twice
    ],
)
def test_labels_tell_settings_apart(one, other, words):
    rows = [run(**one)[0], run(**other)[0]]
    found = [label(row, rows) for row in rows]
    assert found[0] != found[1]
    for text, word in zip(found, words, strict=True):
        assert word in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (1 + 1e-12, "1"), (1.001, "1.01"), (0.9991, "1"), (1e-6, "1e-6"), (20.78, "20.8"), (None, "∞")],
)
def test_nothing_smaller_than_what_is_proven_is_claimed(value, text):
    assert labels.rounded_up(value) == text


def test_settings_without_privacy_come_first_and_runs_stay_together():
    made = [run(i, **which)[0] for i in (1, 0) for which in ({"epsilon": 1}, {"epsilon": 10}, {"epsilon": None})]
    (settings,) = labels.group(made).values()
    assert [each.label for each in settings] == ["dp-ucbvi: no privacy", "dp-ucbvi: ε = 10", "dp-ucbvi: ε = 1"]
    assert all([row.config["seed"][1] for row in each.rows] == [0, 1] for each in settings)


def test_figures_are_valid_and_show_the_proven_epsilon(directory, tmp_path):
    found = plot.draw_regret(results.load(directory), tmp_path)
    names = [f"regret-{env}{log}" for env in ("chain", "riverswim") for log in ("", "-log")]
    assert [path.stem for path in found.values()] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{n}.{end}" for n in names for end in ("png", "svg")
    )
    for path in found.values():
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        text = legend(path)
        assert "band ± standard error" in text
        assert "acting at random" in text
        assert "no privacy" in text
    text = legend(found[next(caption for caption in found if caption.startswith("riverswim: cum"))])
    row = next(row for row in results.load(directory).runs if row.config["privacy"].get("calibration") == "paper")
    assert row.guarantee["epsilon"] > 1.5
    assert f"ε = {labels.rounded_up(row.guarantee['epsilon'], 4)} (asked 1)" in text
    assert "dp-ucbvi, local, laplace sum, printed noise: ε = 2 (asked 1)" in text
    assert text.count("simulation only") == 1


def test_figures_are_the_same_every_time(tmp_path):
    curves = [(HOSTILE, [run(0)[1], run(1)[1]]), ("_b", [run(2)[1]])]
    for log in (False, True):
        files = [
            plot.plot_regret(curves, tmp_path / f"{name}.x", log=log, title=HOSTILE, gap=0.5) for name in ("a", "b")
        ]
        for one, other in zip(*files, strict=True):
            assert one.read_bytes() == other.read_bytes()
        assert "alert('1')" in legend(files[0][1])
        assert "_b" in legend(files[0][1])


@pytest.mark.parametrize("log", [False, True])
def test_odd_curves_can_be_drawn(tmp_path, log):
    """No regret at all, one episode, a very long label and title; warnings are errors here."""
    for gaps in (np.zeros(5), np.ones(1), np.full(3000, 1e5)):
        curve = thin(np.cumsum(gaps), gaps)
        png, svg = plot.plot_regret([("a" * 300, [curve, curve])], tmp_path / "x", log=log, title="t" * 300, gap=0.0)
        assert png.read_bytes().startswith(b"\x89PNG")
        assert "mean of 2 runs" in legend(svg)


def test_means_are_taken_where_all_runs_were_kept():
    gaps = np.random.default_rng(0).random((3, 5000))
    curves = [thin(np.cumsum(g), g, keep) for g, keep in zip(gaps, (100, 300, 1000), strict=True)]
    for log in (False, True):
        episodes, mean, error = plot._mean(curves, log=log)
        regret = gaps.cumsum(axis=1)[:, episodes - 1]
        assert (episodes[0], episodes[-1]) == (1, 5000)
        np.testing.assert_allclose(mean, regret.mean(axis=0))
        np.testing.assert_allclose(error, regret.std(axis=0, ddof=1) / np.sqrt(3))


def test_many_settings_are_spread_over_figures(tmp_path):
    many = Kept(*(run(epsilon=1 + i) for i in range(20)))
    assert [path.stem for path in plot.draw_regret(many, tmp_path).values()] == [
        "regret-1-of-2",
        "regret-1-of-2-log",
        "regret-2-of-2",
        "regret-2-of-2-log",
    ]


def test_figures_that_are_split_keep_families_together_and_show_what_has_no_privacy(tmp_path, monkeypatch):
    """Four budgets, the most that line styles can tell, and a baseline without one: colours still mean something."""
    shown = {}

    def keep(curves, path, *, looks, title, **_):
        shown[path.stem] = title, [label for label, _ in curves], looks

    monkeypatch.setattr(plot, "plot_regret", keep)
    private = [run(epsilon=epsilon, update_every=n) for n in (1, 5, 10, 50) for epsilon in (0.3, 1, 3, 10)]
    plot.draw_regret(Kept(run(epsilon=None), *private), tmp_path)
    assert list(shown) == ["regret-1-of-2", "regret-1-of-2-log", "regret-2-of-2", "regret-2-of-2-log"]
    for i in (1, 2):
        title, labels, looks = shown[f"regret-{i}-of-2"]
        assert title.endswith(f", {i} of 2")
        assert "no privacy" in labels[0]
        assert len(looks) == 9
        for family in (looks[1:5], looks[5:]):
            assert len({look.colour for look in family}) == 1
            assert {look.style for look in family} == {0, 1, 2, 3}
        assert len({look.colour for look in looks}) == 3


def test_looks_mean_something(tmp_path, monkeypatch):
    """Colour: learner and trust; style: the ε asked for; hollow: printed noise. Many are split by trust model."""
    shown = {}
    monkeypatch.setattr(plot, "plot_regret", lambda curves, path, *, looks, **_: shown.update({path.stem: looks}))
    kinds = [{"trust": trust, "calibration": c} for trust in ("central", "local") for c in ("paper", "sound")]
    private = [run(**kind, epsilon=epsilon, proven=epsilon + 0.5) for kind in kinds for epsilon in (1, 10)]
    plot.draw_regret(Kept(run(epsilon=None), *private), tmp_path)
    assert list(shown) == ["regret-central", "regret-central-log", "regret-local", "regret-local-log"]
    for name in ("regret-central", "regret-local"):
        free, *rest = shown[name]
        assert len({look.colour for look in rest}) == 1
        assert free.colour != rest[0].colour
        assert {(look.style, look.hollow) for look in rest} == {(0, True), (1, True), (0, False), (1, False)}
    assert shown["regret-central"][1].colour != shown["regret-local"][1].colour
    many = Kept(*(run(epsilon=1 + i) for i in range(8)))
    plot.draw_regret(many, tmp_path)
    assert len(set(shown["regret"])) == 8


def test_nothing_to_draw_is_an_error(tmp_path):
    with pytest.raises(InvalidInput, match="no curve"):
        plot.plot_regret([], tmp_path / "x")
    with pytest.raises(InvalidInput, match="no runs"):
        report.write(Kept(), tmp_path, title="")
    with pytest.raises(StoreError):
        written(tmp_path)


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"discreet\[report\]"):
        report.write(Kept(run()), tmp_path, title="")


def test_the_page_needs_nothing_but_itself(directory):
    path = written(directory)
    assert path == directory / "report.html"
    text = path.read_text()
    assert "http" not in text
    assert "@import" not in text
    page = Page(text)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object", "a"}
    assert sum(tag == "svg" for tag, _ in page.tags) == 4
    for _, attributes in page.tags:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:"))
            assert not name.startswith("on")
    assert ("meta", {"name": "viewport", "content": "width=device-width,initial-scale=1"}) in page.tags
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for used in re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text):
        assert "".join(used) in ids
    first = path.read_bytes()
    assert written(directory).read_bytes() == first


def test_the_page_holds_every_guarantee_and_number(directory):
    loaded = results.load(directory)
    text = Page(written(directory).read_text()).text
    for settings in labels.group(loaded.runs).values():
        for each in settings:
            assert each.label in text
            promised = each.guarantee
            if promised["notion"] != "none":
                assert f'"epsilon": {promised["epsilon"]!r}' in text  # exact, in the configuration
                assert labels.rounded_up(promised["epsilon"], 4) in text
                assert promised["relation"] + " user" in text
            for assumption in promised["assumptions"]:
                assert assumption in text
            regrets = [row.regret for row in each.rows]
            assert f"{np.mean(regrets):,.0f}" in text.replace(".", " ") or f"{np.mean(regrets):,.1f}" in text
    for piece in (
        "Joint",
        "Local",
        "Shuffle",
        "No privacy",
        "simulation only",
        "numpy",
        "60 episodes",
        "seeds: [0, 0]",
    ):
        assert piece in text
    row = loaded.runs[0]
    assert row.version in text
    assert row.host["platform"] in text
    assert (row.commit or "no git checkout") in text


def test_hostile_words_stay_words(tmp_path):
    rows = Kept(
        run(agent=HOSTILE, env=HOSTILE),
        run(sum=HOSTILE, guarantee=GUARANTEE | {"assumptions": [HOSTILE], "unit": HOSTILE}),
    )
    *_, path = report.write(rows, tmp_path, title=HOSTILE, text=HOSTILE, command=HOSTILE)
    assert path.name == "report.html"
    page = Page(path.read_text())
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count("<script>alert('1')</script> & \"x\"") > 5
    assert all(file.parent == tmp_path for file in tmp_path.iterdir())


def test_figures_of_an_experiment_of_its_own(tmp_path):
    def draw(runs, place):
        (png, svg) = plot.plot_regret([("x", [runs.curve(runs.runs[0].key)])], place / "own")
        return {"as PNG": png, "as SVG": svg}

    written = report.write(Kept(run()), tmp_path, title="t", command="discreet reproduce own", draw=draw)
    assert [path.name for path in written] == ["own.png", "own.svg", "report.html"]
    page = Page(written[-1].read_text())
    assert [attributes["alt"] for tag, attributes in page.tags if tag == "img"] == ["as PNG"]
    assert "discreet reproduce own" in page.text


def test_the_terminal_gets_a_table(directory):
    lines = report.table(results.load(directory)).splitlines()
    assert lines[0] == "chain"
    assert lines[1].split()[:2] == ["setting", "regret"]
    assert "riverswim" in lines
    assert any("printed noise: ε = 2 (asked 1)" in line and "±" in line for line in lines)


def test_two_hundred_long_runs_make_a_small_page(tmp_path):
    gaps = np.random.default_rng(0).random(1_000_000)
    curve, runs = thin(np.cumsum(gaps), gaps), []
    for i in range(200):
        row, _ = run(i % 5, epsilon=1.0 + i // 5)
        runs.append((row, curve))
    *_, path = report.write(Kept(*runs), tmp_path, title="many")
    assert path.stat().st_size < 10e6


def test_a_page_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match=r"report\.html'"):
        report.write(Kept(run()), tmp_path, title="t")
    assert not list(tmp_path.glob("*.tmp"))

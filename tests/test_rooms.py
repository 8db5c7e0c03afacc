"""The arrow of the house: each room may import those above it, never those below; and starting up stays cheap."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import discreet

SOURCE = Path(discreet.__file__).parent
ROOMS = [
    "errors",
    "registry",
    "privacy",
    "noise",
    "sums",
    "mdp",
    "theory",
    "envs",
    "privatizers",
    "agents",
    "runtime",
    "live",
    "audit",
    "testing",
    "experiments",
    "client",
    "service",
    "cli",
]
HEAVY = ("numba", "gymnasium", "dp_accounting", "matplotlib", "pyarrow", "scipy", "rich")


def imports(path: Path) -> set[str]:
    """The rooms that a file imports, wherever in the file it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "discreet":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("discreet.")}
    return names & set(ROOMS)


def called_late(path: Path) -> set[str]:
    """The rooms below that a file names to ``import_module``, which the arrow does not see."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        late = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "import_module"
        if late and isinstance(node.args[0], ast.Constant) and node.args[0].value.startswith("discreet."):
            names.add(node.args[0].value.split(".")[1])
    return names


FILES = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0].removesuffix(".py") in ROOMS]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_room_imports_a_room_below_it(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    below = {name for name in imports(path) if ROOMS.index(name) > ROOMS.index(room)}
    assert not below


def test_late_imports_of_rooms_below_are_known():
    """An agent saves itself and is loaded by name: hand-over lives in runtime, because a simulation's reports do."""
    late = {}
    for path in FILES:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        below = {name for name in called_late(path) if name in ROOMS and ROOMS.index(name) > ROOMS.index(room)}
        if below:
            late.setdefault(room, set()).update(below)
    assert late == {"agents": {"runtime"}}


AT_THE_USER = [
    *(SOURCE / "privatizers").glob("*/encode.py"),
    *(SOURCE / "privatizers").glob("*/layout.py"),
    *(SOURCE / "privatizers" / f"{name}.py" for name in ("codec", "wire", "hiding", "randomisers")),
]


@pytest.mark.parametrize("path", AT_THE_USER, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_runs_at_a_user_imports_nothing_of_the_server(path):
    """Would catch an encoder that needs a sum, a mechanism or an agent."""
    tree = ast.parse(path.read_text())
    guarded = {id(node) for block in tree.body if isinstance(block, ast.If) for node in ast.walk(block)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and id(node) not in guarded and (node.module or "").startswith("discreet."):
            assert node.module.split(".")[1] in ("errors", "noise", "privacy", "mdp", "privatizers")
            assert node.module.split(".")[-1] not in ("serve", "base", "make", "local", "shuffle", "staged")


def test_every_file_is_in_a_room():
    loose = {path.name for path in SOURCE.glob("*.py")} - {f"{room}.py" for room in ROOMS}
    assert loose == {"__init__.py", "__main__.py", "_gymnasium.py", "_jit.py"}


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if (SOURCE / room).exists() or (SOURCE / f"{room}.py").exists()]
)
def test_every_room_can_be_imported_alone(python, room):
    code = f"import sys, discreet.{room}; print(*[m.split('.')[1] for m in sys.modules if m.startswith('discreet.')])"
    loaded = set(python(code).split()) & set(ROOMS)
    assert all(ROOMS.index(name) <= ROOMS.index(room) for name in loaded), loaded


@pytest.mark.parametrize(
    "module", ["discreet", "discreet.cli", "discreet.envs, discreet.agents, discreet.privatizers.codec"]
)
def test_starting_imports_nothing_heavy(python, module):
    loaded = python(f"import sys, {module}; print(*sys.modules)").split()
    assert not [name for name in loaded if name.split(".")[0] in HEAVY]


def test_help_imports_no_numpy(python):
    code = "import sys; sys.argv[1:] = ['--help']\nfrom discreet.cli import _run\n_run(); print(*sys.modules)"
    assert "numpy" not in python(code).split()


def test_public_names_exist_and_nothing_else():
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
    with pytest.raises(AttributeError, match="agnts"):
        _ = discreet.agnts
    assert set(dir(discreet)) == set(discreet.__all__)

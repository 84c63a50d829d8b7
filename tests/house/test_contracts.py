"""The import rules of pyproject.toml hold here, and each of them breaks when an arrow is turned round.

The turned arrows are tried on a miniature of the tree in a temporary folder, never on the tree itself.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "perenne"
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
FLOORS_BY_NAME = {
    written.strip("()"): written
    for layer in CONFIGURATION["contracts"][0]["layers"]
    for written in layer.replace("|", " ").split()
}
FACES_THE_ENGINE = {"__init__.py", "jobs.py", "commands.py", "routes.py", "screens.py"}

SOUND = {
    "__init__": "from perenne import errors\nfrom perenne.core import kind\nfrom perenne.wiring import open",
    "__main__": "from perenne.surfaces.cli import main",
    "app": "from perenne import nearest, task\nfrom perenne.core import kind",
    "apps.evidence.catalogue": "from perenne import sqlite\nfrom perenne.files import atomic",
    "apps.evidence.jobs": "import perenne\nfrom perenne import crashpoints, tools",
    "apps.studio.jobs": "import perenne",
    "config": "import tomllib\nfrom perenne import errors",
    "core.decide": "from perenne import errors\nfrom perenne.core import kind",
    "core.kind": "import re",
    "crashpoints": "import os\nfrom perenne import errors",
    "errors": "",
    "disturbing": "from perenne import testing",
    "files.atomic": "import os\nfrom perenne import crashpoints",
    "filesystem": "import os\nfrom perenne import errors",
    "nearest": "from perenne.core import kind",
    "pytest_plugin": "import pytest\nfrom perenne import testing",
    "runtime.toolrunner": "import subprocess",
    "runtime.worker": "from perenne import app\nfrom perenne.files import atomic\nfrom perenne.store import ledger",
    "sqlite": "import apsw\nfrom perenne import filesystem",
    "store.ledger": "from perenne.core import decide",
    "store.sqlite.driver": "from perenne import sqlite\nfrom perenne.store import ledger",
    "surfaces.cli.main": "import perenne\nfrom perenne import errors",
    "task": "from perenne import nearest\nfrom perenne.core import kind",
    "testing": "import perenne\nfrom perenne.runtime import worker",
    "tools": "from perenne.runtime import toolrunner",
    "upkeep": "def look():\n    from perenne import wiring\n    from perenne.runtime import worker",
    "wiring": "def open():\n    from perenne.runtime import worker\n    from perenne.store.sqlite import driver",
}

FLOORS = "Arrows between floors point down"
RULES = "Rules have no clock, no disk, no luck"
BYTES = "Bytes and files of SQL do not know jobs"
APPS = "Apps reach the engine through the door"
SURFACES = "Surfaces reach the engine through the door"
HANDS = "Hands ask the ledger, never the database"

TURNED = [
    (FLOORS, "core.decide", "perenne.store.ledger"),
    (FLOORS, "core.decide", "perenne.crashpoints"),
    (FLOORS, "core.decide", "perenne.filesystem"),
    (FLOORS, "core.kind", "perenne"),
    (FLOORS, "crashpoints", "perenne.core.kind"),
    (FLOORS, "filesystem", "perenne.crashpoints"),
    (FLOORS, "config", "perenne.core.kind"),
    (FLOORS, "errors", "perenne.crashpoints"),
    (FLOORS, "sqlite", "perenne.store.ledger"),
    (FLOORS, "store.ledger", "perenne.files.atomic"),
    (FLOORS, "files.atomic", "perenne.store.ledger"),
    (FLOORS, "store.ledger", "perenne.runtime.worker"),
    (FLOORS, "store.ledger", "perenne.app"),
    (FLOORS, "app", "perenne.runtime.worker"),
    (FLOORS, "task", "perenne.app"),
    (FLOORS, "nearest", "perenne.runtime.worker"),
    (FLOORS, "runtime.worker", "perenne.wiring"),
    (FLOORS, "runtime.worker", "perenne.apps.evidence.jobs"),
    (FLOORS, "runtime.toolrunner", "perenne.tools"),
    (FLOORS, "testing", "perenne.pytest_plugin"),
    (FLOORS, "testing", "perenne.disturbing"),
    (FLOORS, "wiring", "perenne.apps.evidence.jobs"),
    (FLOORS, "wiring", "perenne.surfaces.cli.main"),
    (FLOORS, "apps.evidence.jobs", "perenne.surfaces.cli.main"),
    (FLOORS, "surfaces.cli.main", "perenne.apps.evidence.jobs"),
    ("Apps do not know each other", "apps.evidence.jobs", "perenne.apps.studio.jobs"),
    *((RULES, "core.decide", name) for name in ("apsw", "asyncio", "logging", "os", "random", "subprocess", "time")),
    (BYTES, "files.atomic", "perenne.core.kind"),
    (BYTES, "files.atomic", "perenne.store.ledger"),
    (BYTES, "sqlite", "perenne.core.kind"),
    ("An app is described with rules alone", "app", "perenne.store.ledger"),
    ("Hands do not know which database they use", "runtime.worker", "perenne.store.sqlite.driver"),
    (HANDS, "runtime.worker", "perenne.sqlite"),
    (HANDS, "runtime.worker", "apsw"),
    ("The tools are the bounded runner and nothing else", "tools", "perenne.store.ledger"),
    (APPS, "apps.evidence.jobs", "perenne.runtime.worker"),
    (APPS, "apps.evidence.jobs", "perenne.store.ledger"),
    (APPS, "apps.evidence.jobs", "perenne.wiring"),
    (APPS, "apps.evidence.jobs", "perenne.core.kind"),
    (SURFACES, "surfaces.cli.main", "perenne.apps.evidence.jobs"),
    (SURFACES, "surfaces.cli.main", "perenne.store.ledger"),
    (SURFACES, "surfaces.cli.main", "perenne.runtime.worker"),
    ("One copy of SQLite in the process", "apps.evidence.catalogue", "sqlite3"),
]


def build_miniature(folder: Path, modules: dict[str, str]) -> Path:
    """A tree of the given modules (dotted below perenne → text) beside the real pyproject.toml."""
    folder.mkdir()
    (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for name, text in modules.items():
        file = folder.joinpath("perenne", *name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    for inner in (path for path in folder.rglob("*") if path.is_dir()):
        (inner / "__init__.py").touch()
    return folder


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """`lint-imports` run on a folder that holds the package."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "300", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def reports_by_contract(text: str) -> dict[str, str]:
    """What the broken contracts say, by contract name."""
    pieces = re.split(r"^(.+)\n-+\n", text.partition("Broken contracts")[2], flags=re.MULTILINE)
    return {name.strip(): report for name, report in zip(pieces[1::2], pieces[2::2], strict=True)}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The reports on a miniature in which every arrow of TURNED is turned at once."""
    modules = dict(SOUND)
    for _, importer, imported in TURNED:
        modules[importer] += f"\nimport {imported}"
    return reports_by_contract(lint(build_miniature(tmp_path_factory.mktemp("house") / "turned", modules)).stdout)


def test_sound_miniature_is_accepted(tmp_path: Path) -> None:
    """A tree with every allowed kind of arrow keeps all contracts, so the rules ask for nothing impossible."""
    answer = lint(build_miniature(tmp_path / "sound", SOUND))
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(("contract", "importer", "imported"), TURNED)
def test_turned_arrow_is_refused(reports: dict[str, str], contract: str, importer: str, imported: str) -> None:
    """An import against the rules is named in the report of its contract."""
    assert re.search(rf"\bperenne\.{importer} -> {imported} \(l", reports.get(contract, "")), reports


def test_every_contract_is_tried() -> None:
    """No contract stands in pyproject.toml without an arrow here that breaks it."""
    assert {contract["name"] for contract in CONFIGURATION["contracts"]} == {name for name, _, _ in TURNED}


def test_module_without_a_floor_is_refused(tmp_path: Path) -> None:
    """A new module directly below the package must be given its floor."""
    answer = lint(build_miniature(tmp_path / "extra", {**SOUND, "attic": ""}))
    assert answer.returncode == 1
    assert "perenne.attic" in answer.stdout


def test_tree_keeps_the_contracts() -> None:
    """The real tree keeps every contract."""
    answer = lint(ROOT)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_no_exception_is_written() -> None:
    """No contract has an entry that lets one import through."""
    for contract in CONFIGURATION["contracts"]:
        assert not [key for key in contract if "ignore" in key], contract["name"]


def test_brackets_stand_only_around_what_is_not_built() -> None:
    """A floor in brackets does not exist yet; with its first line of code it becomes required."""
    assert {"core", "errors"} <= FLOORS_BY_NAME.keys()
    planned = [name for name, written in FLOORS_BY_NAME.items() if written.startswith("(")]
    assert not [name for name in planned if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()]


def imports_the_door(source: str) -> bool:
    """Whether a module imports the package itself or a public name of it, and not only modules below it."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    from_door = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "perenne"]
    return "perenne" in plain or any(alias.name not in FLOORS_BY_NAME for node in from_door for alias in node.names)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import perenne", True),
        ("from perenne import Kind", True),
        ("from perenne import errors", False),
        ("from perenne import errors\nfrom perenne import Kind", True),
        ("import perenne.sqlite\nfrom perenne.files import atomic", False),
    ],
)
def test_door_is_recognised(source: str, expected: bool) -> None:
    """Only imports of the public names count as going through the door."""
    assert imports_the_door(source) is expected


def test_only_the_front_of_an_app_knows_the_engine() -> None:
    """Analysers, formats and catalogues of an app are plain library code: they never import the door.

    Commands that fill more than one file stand in a folder of that name.
    """
    files = PACKAGE.glob("apps/*/**/*.py")
    inner = [path for path in files if path.name not in FACES_THE_ENGINE and path.parent.name != "commands"]
    assert inner
    assert not [str(path.relative_to(PACKAGE)) for path in inner if imports_the_door(path.read_text(encoding="utf-8"))]

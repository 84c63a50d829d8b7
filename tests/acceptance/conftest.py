"""Fixtures of the tests that look from outside: the real command line in processes of its own, and folders by bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

LIMIT_S = 60
SAMPLES = Path(__file__).parents[2] / "examples" / "evidence"

Tree = dict[str, tuple[str, int, str]]


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class CommandLine:
    """`perenne evidence …` in a process of its own, in a workspace."""

    def __init__(self) -> None:
        self._living: list[subprocess.Popen[str]] = []

    def __call__(self, *words: object, wrap: Sequence[str] = (), **environment: str) -> Ended:
        """Run one command to its end."""
        ended = subprocess.run(
            self._argv(words, wrap),
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: object, wrap: Sequence[str] = (), **environment: str) -> subprocess.Popen[str]:
        """Start one command, which is killed at the end of the test if it still lives."""
        process = subprocess.Popen(
            self._argv(words, wrap),
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._living.append(process)
        return process

    def done(self, *words: object) -> str:
        """What a command printed that must succeed."""
        ended = self(*words)
        assert ended.code == 0, ended
        return ended.out

    def jobs(self, workspace: Path) -> list[dict[str, Any]]:
        """The jobs of a workspace, as `status --json` tells them."""
        found: list[dict[str, Any]] = json.loads(self.done("status", "--json", "--workspace", workspace))["jobs"]
        return found

    def close(self) -> None:
        for process in self._living:
            process.kill()
            process.communicate()

    @staticmethod
    def _argv(words: Sequence[object], wrap: Sequence[str]) -> list[str]:
        return [*wrap, sys.executable, "-m", "perenne", "evidence", *map(str, words)]

    @staticmethod
    def _environment(added: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("PERENNE_")} | added


@pytest.fixture
def perenne() -> Iterator[CommandLine]:
    """The command line."""
    line = CommandLine()
    yield line
    line.close()


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace of each sort, made once by the command line; tests work on copies."""
    root, line = tmp_path_factory.mktemp("templates"), CommandLine()
    line.done("init-specimen", "--workspace", root / "specimen")
    line.done("enqueue", "--workspace", root / "specimen")
    line.done("create", "--title", "Case", "--workspace", root / "case")
    line.done("import", SAMPLES / "eml", "--workspace", root / "case")
    return root


@pytest.fixture(scope="session")
def specimen_evidence(templates: Path) -> tuple[str, str]:
    """The ids of the mail and of the picture of every specimen."""
    mail, picture = (job["evidence_id"] for job in CommandLine().jobs(templates / "specimen"))
    return mail, picture


@pytest.fixture
def specimen(templates: Path, tmp_path: Path) -> Path:
    """A specimen workspace with its two jobs, not yet run."""
    return Path(shutil.copytree(templates / "specimen", tmp_path / "specimen"))


@pytest.fixture
def case(templates: Path, tmp_path: Path) -> Path:
    """An investigation with the six mails of the samples, nothing enqueued."""
    return Path(shutil.copytree(templates / "case", tmp_path / "case"))


@pytest.fixture
def shown() -> Callable[[Path, str], None]:
    """Waits until the snapshot of a live worker says something; then it writes no more until there is a change."""

    def wait(root: Path, text: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while text not in (root / "perenne-snapshot.json").read_text():
            assert time.monotonic() < deadline, f"the snapshot never said {text}"
            time.sleep(0.02)  # reason: whoever writes a snapshot rings no bell

    return wait


# In a process of its own: one that has a store open refuses to open its files a second time.
_LOOK = """
import hashlib, json, stat, sys
from pathlib import Path
def seen(path):
    found = path.lstat()
    regular = stat.S_ISREG(found.st_mode) and not path.name.endswith("-shm")
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if regular else ""
    return oct(found.st_mode), 0 if stat.S_ISDIR(found.st_mode) else found.st_size, digest
root = Path(sys.argv[1])
print(json.dumps({path.relative_to(root).as_posix(): seen(path) for path in sorted(root.rglob("*"))}))
"""


@pytest.fixture
def tree() -> Callable[[Path], Tree]:
    """Every name below a folder with its type, mode and size, and the digest of every file but shared memory."""

    def look(root: Path) -> Tree:
        argv = [sys.executable, "-I", "-S", "-c", _LOOK, str(root)]
        told = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=LIMIT_S)
        found: dict[str, tuple[str, int, str]] = {name: tuple(seen) for name, seen in json.loads(told.stdout).items()}
        return found

    return look


@pytest.fixture
def refused(tree: Callable[[Path], Tree]) -> Callable[..., str]:
    """Proves that a command is refused with one line and this exit code, and that nothing below a folder changed."""

    def prove(root: Path, call: Callable[[], Ended], code: int) -> str:
        before = tree(root)
        ended = call()
        assert ended.code == code, ended
        assert ended.out == "", ended
        assert ended.err.startswith("perenne: "), ended
        assert ended.err.endswith("\n"), ended
        assert ended.err.count("\n") == 1, ended
        assert "Traceback" not in ended.err
        assert tree(root) == before
        return ended.err

    return prove


@pytest.fixture
def namespace() -> Callable[[str], list[str]]:
    """The words that run a command after `script`, in a mount namespace of its own; skips where that is not allowed."""

    def wrap(script: str) -> list[str]:
        if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
            pytest.skip("NOT CHECKED: mounts need `unshare -m`, that is root, on Linux")
        return ["unshare", "-m", "--propagation", "private", "sh", "-ec", f'{script}; exec "$@"', "sh"]

    return wrap


@pytest.fixture
def without_exiftool(namespace: Callable[[str], list[str]]) -> list[str]:
    """The words that run a command where ExifTool cannot be found."""
    hide = "for tool in /usr/bin/exiftool /bin/exiftool; do [ ! -e $tool ] || mount --bind /dev/null $tool; done"
    return namespace(hide)


@pytest.fixture
def with_exiftool() -> None:
    """The installed ExifTool; without it the test is skipped, and fails on the machines (`CI=true`)."""
    if Path("/usr/bin/exiftool").exists():
        return
    if os.environ.get("CI") == "true":
        pytest.fail("ExifTool is missing: make setup-system")
    pytest.skip("this test runs the real ExifTool, which is not installed: make setup-system")

"""Confinement: a hostile tool reaches nothing beyond its stage; what is in force is told, what is missing is met."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perenne.errors import ConfinementMissing, InvalidInput
from perenne.runtime import bubblewrap, confine, landlock, seccomp
from perenne.runtime.confine import Confined, Confinement
from perenne.runtime.toolrunner import Limits, ToolResult, run

LIMITS = Limits(
    wall_s=60,
    cpu_s=20,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1 << 20,
    stderr_bytes=1 << 20,
)
HOSTILE = Path(__file__).with_name("hostile.py")
ATTEMPTS = set(re.findall(r'^    "(.+)": ', HOSTILE.read_text(), re.MULTILINE))
PYTHON = [sys.executable, "-I", "-S"]
OWN_PARTS = (Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent)

needs_stage = pytest.mark.skipif(
    confine.offer().level != "stage", reason=f"NOT CHECKED: no confinement to a stage here, {confine.offer().why}"
)


@dataclass
class Scene:
    """A folder with what a tool must not reach, and the stage inside it."""

    outside: Path
    port: int
    abstract: str

    @property
    def stage(self) -> Path:
        return self.outside / "stage"

    def attack(self, *names: str, confinement: Confinement | None) -> ToolResult:
        words = [str(self.outside), str(os.getpid()), str(self.port), self.abstract, *names]
        return run([*PYTHON, "hostile.py", *words], cwd=self.stage, limits=LIMITS, confinement=confinement)

    def confined(self, **asked: object) -> Confinement:
        return replace(Confinement(stage=self.stage, reads=OWN_PARTS, required=True), **asked)  # type: ignore[arg-type]


def outcome_of(result: ToolResult) -> dict[str, int]:
    assert result.ending == "exited", result.stderr.decode()
    outcome: dict[str, int] = json.loads(result.whole_stdout())
    return outcome


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    outside, abstract = tmp_path / "outside", f"perenne-{uuid.uuid4()}"
    (outside / "open").mkdir(parents=True)
    (outside / "stage").mkdir(mode=0o700)
    (outside / "secret").write_text("secret")
    (outside / "ours").write_text("ours")
    shutil.copy(HOSTILE, outside / "stage" / "hostile.py")
    (outside / "stage" / "way-out").symlink_to("../secret")
    shutil.copy("/bin/true", outside / "stage" / "written")
    with (
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as hidden,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heap,
    ):
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        named.bind(str(outside / "socket"))
        heap.bind(str(outside / "datagrams"))
        hidden.bind("\0" + abstract)
        for one in (tcp, named, hidden):
            one.listen()
        yield Scene(outside, tcp.getsockname()[1], abstract)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.read_text("latin-1") if path.is_file() and "stage" not in path.parts else ""
        found[str(path)] = (facts.st_mode, facts.st_uid, facts.st_mtime_ns, content)
    return {name: facts for name, facts in found.items() if "/stage" not in name}


@needs_stage
def test_hostile_tool_comes_through_with_nothing(scene: Scene) -> None:
    """No attempt of a hostile tool to read, write, talk, signal, trace or fork away succeeds, nor leaves a trace."""
    before = snapshot(scene.outside)
    result = scene.attack(confinement=scene.confined())
    outcome = outcome_of(result)
    assert set(outcome) == ATTEMPTS
    assert [name for name, number in outcome.items() if number == 0] == []
    assert snapshot(scene.outside) == before
    assert result.confinement.level == "stage"


# Not made without confinement: they would hurt this machine or this test, or cannot succeed in any case.
HARMFUL = {"mount", "set the clock", "change the root", "make a namespace", "run what it wrote", "remove a folder"}
HARMFUL |= {"slow the engine down", "limit the engine", "share memory by number", "leave its session", "write in /tmp"}
HARMFUL |= {
    "keep a secret in the kernel",
    "raise its own limits",
    "leave its group",
    "load a program into the kernel",
    "use io_uring",
    "trace the engine",
    "talk IPv6",
}


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="the attempts are root's, on Linux")
def test_same_tool_without_confinement_comes_through(scene: Scene) -> None:
    """The attempts are real: without confinement, those of root succeed."""
    assert HARMFUL < ATTEMPTS
    failed = {}
    for name in sorted(ATTEMPTS - HARMFUL):
        (scene.outside / "ours").write_text("ours")
        outcome = outcome_of(scene.attack(name, confinement=None))
        failed |= {name: number for name, number in outcome.items() if number}
    assert failed == {}


@needs_stage
def test_confined_tool_does_its_work(scene: Scene) -> None:
    """In its stage a tool reads, writes, renames and removes, threads run, and the system's programs are there."""
    code = """
import os, socket, tempfile, threading, subprocess
open('a', 'w').write('x'); os.rename('a', 'b'); os.mkdir('d'); os.link('b', 'd/c'); os.unlink('b')
thread = threading.Thread(target=lambda: print(open('d/c').read())); thread.start(); thread.join()
ours, theirs = socket.socketpair(); ours.send(b'x')
os.kill(os.getpid(), 0); os.kill(0, 0)
open('/dev/null', 'w').write('x'); os.urandom(1); open('/dev/urandom', 'rb').read(1)
print(subprocess.run(['/bin/cat', 'd/c'], capture_output=True).stdout)
"""
    result = run([*PYTHON, "-c", code], cwd=scene.stage, limits=LIMITS, confinement=scene.confined(children=8))
    assert result.whole_stdout() == b"x\nb'x'\n", result.stderr


@needs_stage
def test_children_are_confined_and_end_with_the_tool(scene: Scene) -> None:
    """Where a tool may have children they reach no more than it does, and none leaves its group."""
    argv = ["/bin/sh", "-c", 'cat ../secret; "$@" & wait; setsid true || echo kept', "sh", "/bin/cat", "../secret"]
    result = run(argv, cwd=scene.stage, limits=LIMITS, confinement=scene.confined(children=8))
    assert (result.whole_stdout(), result.stderr.count(b"Permission denied")) == (b"kept\n", 2), result.stderr
    outcome = outcome_of(scene.attack(confinement=scene.confined(children=8)))
    assert {name for name, number in outcome.items() if number == 0} <= {
        "fork",
        "start a program",
        "signal everybody",  # that is: its own children
    }


@needs_stage
def test_fork_bomb_is_bounded_and_ends(scene: Scene) -> None:
    """A tool that forks without end never has more processes than it may, and all of them end at its deadline."""
    if not confine.offer().counts:
        pytest.skip("NOT CHECKED: no pids cgroup can be made here")
    code = """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.write(1, b'.'); time.sleep(60)  # reason: the test ends it
    except BlockingIOError:
        os.write(1, b'!'); time.sleep(60)  # reason: as above
"""
    limits = replace(LIMITS, wall_s=1.0, grace_s=0.1)
    result = run([*PYTHON, "-c", code], cwd=scene.stage, limits=limits, confinement=scene.confined(children=7))
    assert (result.ending, sorted(result.stdout), result.stdout_stream.complete) == ("timeout", [*b"!......."], True)
    assert "pids cgroup" in result.confinement.by


@needs_stage
def test_probe_without_a_stage_reads_no_folder(scene: Scene) -> None:
    """A tool that needs no stage gets none: its working folder is not readable either."""
    code = "import os\ntry: os.listdir('.')\nexcept PermissionError: print('closed')"
    result = run([*PYTHON, "-c", code], cwd=Path("/"), limits=LIMITS, confinement=scene.confined(stage=None))
    assert result.whole_stdout() == b"closed\n"


@needs_stage
def test_script_of_our_own_finds_its_interpreter(scene: Scene, tmp_path: Path) -> None:
    """A program that is a script elsewhere may be run, and reads itself; its neighbours stay closed."""
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nwc -l < {script}\ncat {scene.outside}/secret\n")
    script.chmod(0o755)
    asked = Confinement(required=True, children=8)
    result = run([str(script)], cwd=Path("/"), limits=LIMITS, confinement=asked)
    assert result.stdout.strip() == b"3"
    assert b"Permission denied" in result.stderr


def test_offline_closes_the_network_and_leaves_the_files(scene: Scene) -> None:
    """Level `offline` refuses sockets, signals and tracing, and no file."""
    if confine.offer().level == "none":
        pytest.skip(f"NOT CHECKED: {confine.offer().why}")
    names = ["read a file", "make a file", "talk TCP", "talk UDP", "talk to an abstract socket", "signal the engine"]
    result = scene.attack(*names, "trace the engine", "fork", confinement=Confinement(level="offline", required=True))
    outcome = outcome_of(result)
    assert [name for name, number in outcome.items() if number == 0] == ["read a file", "make a file"]
    assert result.confinement == Confined("offline", "seccomp")


def test_nothing_asked_is_told_as_limits_only(scene: Scene) -> None:
    """A run without confinement says so."""
    assert run(["/bin/true"], cwd=Path("/"), limits=LIMITS).confinement == Confined("none", "limits only")


def test_missing_level_is_refused_or_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A required level that is not offered starts nothing and says what is missing; a wished one is told as it is."""
    lacking = confine.Offer("none", "limits only", "the kernel takes no seccomp filter")
    monkeypatch.setattr(confine, "offer", lambda: lacking)
    code = "open('trace', 'w')"
    with pytest.raises(ConfinementMissing, match=r"'stage' is required.*offers 'none': the kernel takes no seccomp"):
        run([*PYTHON, "-c", code], cwd=tmp_path, limits=LIMITS, confinement=Confinement(required=True))
    assert not list(tmp_path.iterdir())
    result = run([*PYTHON, "-c", code], cwd=tmp_path, limits=LIMITS, confinement=Confinement(stage=tmp_path))
    assert (result.ending, result.confinement.level) == ("exited", "none")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"level": "tight"}, "confinement.level is 'tight'"),
        ({"stage": Path("here")}, "confinement.stage is 'here'"),
        ({"reads": (Path("/usr"), Path("there"))}, "confinement.reads is 'there'"),
    ],
)
def test_confinement_that_is_none_is_refused(asked: dict[str, object], named: str) -> None:
    """A level that is no level and a path that is not absolute are refused by name."""
    with pytest.raises(InvalidInput, match=named):
        Confinement(**asked)  # type: ignore[arg-type]


@needs_stage
def test_place_that_is_not_there_is_a_result(scene: Scene) -> None:
    """A stage or a readable place that does not exist is a preparation error; the tool is never run without it."""
    for asked in ({"stage": scene.outside / "absent"}, {"reads": (scene.outside / "absent",)}):
        result = run(["/bin/true"], cwd=scene.stage, limits=LIMITS, confinement=scene.confined(**asked))
        assert (result.ending, result.errno) == ("preparation_error", 2)


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Landlock and with bubblewrap."""
    if not (sys.platform == "linux" and seccomp.known_here() and bubblewrap.works()):
        pytest.skip("NOT CHECKED: bubblewrap is not installed, or may not do what it must")
    monkeypatch.setattr(landlock, "version", lambda: 0)
    confine.offer.cache_clear()
    monkeypatch.setattr(confine, "offer", confine.offer.__wrapped__)


# These reach only what is the tool's own: its empty file system in memory, and bubblewrap around it.
OWN_WHEN_WRAPPED = {"write in /tmp", "list the home of root", "signal everybody", "signal its host", "list a folder"}
OWN_WHEN_WRAPPED |= {"write a file", "append to a file", "remove a file", "make a file", "make a folder", "make a link"}


def test_hostile_tool_comes_through_with_nothing_by_bubblewrap(scene: Scene, wrapped: None) -> None:
    """Where the kernel has no Landlock, bubblewrap stops the same attempts, but for what is the tool's own."""
    before = snapshot(scene.outside)
    names = sorted(ATTEMPTS - {"run what it wrote"})  # bubblewrap has no way to refuse that
    result = scene.attack(*names, confinement=scene.confined())
    assert result.confinement == Confined("stage", "bubblewrap, seccomp")
    outcome = outcome_of(result)
    assert {name for name, number in outcome.items() if number == 0} <= OWN_WHEN_WRAPPED
    assert snapshot(scene.outside) == before


def test_wrapped_tool_does_its_work_and_ends(scene: Scene, wrapped: None) -> None:
    """By bubblewrap a tool works in its stage, has three descriptors, its limits, and ends with its run."""
    code = """
import os, resource
open('made', 'w').write('x')
print(os.getcwd(), resource.getrlimit(resource.RLIMIT_NOFILE), [n for n in range(64) if is_open(n)])
"""
    opened = "import os\ndef is_open(n):\n    try: os.fstat(n)\n    except OSError: return False\n    return True\n"
    result = run([*PYTHON, "-c", opened + code], cwd=scene.stage, limits=LIMITS, confinement=scene.confined())
    assert result.whole_stdout().decode() == f"{scene.stage} (64, 64) [0, 1, 2]\n", result.stderr
    assert (scene.stage / "made").read_text() == "x"
    daemon = "import os, signal\nif os.fork() == 0: signal.pause()"
    asked = scene.confined(children=4)
    ended = run([*PYTHON, "-c", daemon], cwd=scene.stage, limits=LIMITS, confinement=asked)
    assert (ended.ending, ended.stdout_stream.complete) == ("exited", True)

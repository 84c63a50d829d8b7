"""The bounded tool runner: what a tool is given, what comes back, and what is refused."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perenne.errors import InvalidInput
from perenne.runtime import toolspawner
from perenne.runtime.stop import Stop
from perenne.runtime.toolrunner import Limits, ToolResult, identify, run

LIMITS = Limits(
    wall_s=30,
    cpu_s=20,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=1 << 20,
    stderr_bytes=1 << 20,
)


def python(code: str, *arguments: str, cwd: Path = Path("/"), stop: Stop | None = None) -> ToolResult:
    return run([sys.executable, "-I", "-S", "-c", code, *arguments], cwd=cwd, limits=LIMITS, stop=stop)


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_outputs_are_bytes_and_exit_code_is_kept() -> None:
    """Both outputs come back byte for byte, with their digests, and the exit code beside them."""
    result = python("import os; os.write(1, bytes(range(256))); os.write(2, b'\\xff\\0'); os._exit(3)")
    assert (result.ending, result.exit_code, result.signal, result.errno) == ("nonzero", 3, None, None)
    assert result.stdout == bytes(range(256))
    assert result.stderr == b"\xff\0"
    assert result.stdout_stream.sha256 == hashlib.sha256(bytes(range(256))).hexdigest()
    assert result.whole_stdout() == result.stdout
    assert "exit code 3" in result.sentence


def test_good_end_is_exited() -> None:
    """Exit code 0 is `exited`, with complete and empty outputs when nothing was written."""
    result = python("pass")
    assert (result.ending, result.exit_code) == ("exited", 0)
    assert result.stdout_stream.complete
    assert result.stderr_stream.complete
    assert result.whole_stdout() == b""
    assert 0 < result.elapsed_s < LIMITS.wall_s


def test_end_by_signal_is_named() -> None:
    """A tool that a signal ended is `signaled`, and its output is not taken for whole."""
    result = python("import os; os.write(1, b'half'); os.kill(os.getpid(), 11)")
    assert (result.ending, result.signal, result.exit_code) == ("signaled", 11, None)
    assert "SIGSEGV" in result.sentence
    assert not result.stdout_complete


def test_arguments_arrive_unchanged() -> None:
    """Arguments are no shell text: empty, spaced, starred, non-UTF-8 and very long ones arrive as given."""
    arguments = ["", "a b", "$HOME *", "é\n", os.fsdecode(b"\xff\xfe"), *["x" * 100_000] * 5]
    result = python("import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))", *arguments)
    assert result.whole_stdout() == b"\0".join(map(os.fsencode, arguments))


def test_environment_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool sees four variables and none of ours."""
    monkeypatch.setenv("SECRET_TOKEN", "x")
    result = run(["/usr/bin/env"], cwd=Path("/"), limits=LIMITS)
    assert sorted(result.whole_stdout().splitlines()) == [
        b"HOME=/nonexistent",
        b"LANG=C.UTF-8",
        b"LC_ALL=C.UTF-8",
        b"PATH=/usr/bin:/bin",
    ]


def test_tool_has_its_folder_session_and_no_input(tmp_path: Path) -> None:
    """The tool works in the given folder, leads a session and a group of its own, and reads nothing."""
    code = "import os; print(os.getcwd()); print(os.getsid(0) == os.getpgid(0) == os.getpid(), os.read(0, 1))"
    result = python(code, cwd=tmp_path)
    assert result.whole_stdout().decode().splitlines() == [str(tmp_path.resolve()), "True b''"]


SIGNAL_STATE = """
import signal
print([s.name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
      signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)
"""


def test_blocked_and_ignored_signals_are_not_inherited() -> None:
    """Whatever the worker blocks or ignores, a tool can be asked to end."""
    toolspawner.let_go()
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        result = python(SIGNAL_STATE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGHUP, handler)
    assert result.whole_stdout().split() == [b"[]", b"True", b"True"]


OPEN_DESCRIPTORS = """
import os
def is_open(number):
    try: os.fstat(number)
    except OSError: return False
    return True
print([number for number in range(1000) if is_open(number)])
"""


def test_inherited_descriptors_are_closed() -> None:
    """Not even an inheritable descriptor of ours reaches the tool, opened before or after the tool host."""
    toolspawner.let_go()
    pipes = [os.pipe()]
    try:
        os.set_inheritable(pipes[0][1], True)
        before = python(OPEN_DESCRIPTORS)
        pipes.append(os.pipe())
        os.set_inheritable(pipes[1][1], True)
        after = python(OPEN_DESCRIPTORS)
    finally:
        for descriptor in (end for pipe in pipes for end in pipe):
            os.close(descriptor)
    assert before.whole_stdout() == after.whole_stdout() == b"[0, 1, 2]\n"


def test_lock_is_free_while_a_tool_still_lives(tmp_path: Path) -> None:
    """A kernel lock of ours ends with our descriptor: neither the tool nor its host keeps it."""
    toolspawner.let_go()
    held = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(held, True)
    fcntl.flock(held, fcntl.LOCK_EX)
    os.mkfifo(tmp_path / "alive")
    code = "import signal, sys; open(sys.argv[1], 'w').close(); signal.pause()"
    with Stop() as stop, ThreadPoolExecutor() as pool:
        tool = pool.submit(python, code, str(tmp_path / "alive"), stop=stop)
        try:
            (tmp_path / "alive").read_bytes()
            os.close(held)
            with open(tmp_path / "lock") as again:
                fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            stop.ask("seen enough")
        assert tool.result(timeout=30).ending == "cancelled"


def test_stop_asked_before_starts_nothing(tmp_path: Path) -> None:
    """With the stop already asked nothing is started, and the result gives the reason."""
    with Stop() as stop:
        stop.ask("shutdown")
        result = python("open('trace', 'w')", cwd=tmp_path, stop=stop)
    assert (result.ending, result.reason) == ("cancelled", "shutdown")
    assert "shutdown" in result.sentence
    assert not list(tmp_path.iterdir())


def test_missing_program_is_a_result(tmp_path: Path) -> None:
    """A program that is not there is `not_found`, with a sentence that names it."""
    for path in (tmp_path / "absent", Path(program(tmp_path / "file", "")) / "below"):
        result = run([str(path)], cwd=tmp_path, limits=LIMITS)
        assert result.ending == "not_found"
        assert str(path) in result.sentence


def test_what_cannot_be_started_is_a_result(tmp_path: Path) -> None:
    """A folder, a file without the right to run, text without an interpreter: `preparation_error` with the reason."""
    (tmp_path / "plain").write_text("")
    os.mkfifo(tmp_path / "pipe")
    causes = {
        str(tmp_path): errno.EISDIR,
        str(tmp_path / "plain"): errno.EACCES,
        str(tmp_path / "pipe"): errno.EACCES,
        program(tmp_path / "text", "echo never a shell\n"): errno.ENOEXEC,
        program(tmp_path / "orphan", "#!/nowhere/interpreter\n"): errno.ENOENT,
    }
    for path, cause in causes.items():
        result = run([path], cwd=tmp_path, limits=LIMITS)
        assert (result.ending, result.errno, result.exit_code) == ("preparation_error", cause, None), path
        assert os.strerror(cause) in result.sentence


def test_program_that_changed_since_its_probe_is_not_started(tmp_path: Path) -> None:
    """A program that was rewritten, replaced, or made anew in every byte is refused; the same one is started."""
    path = program(tmp_path / "tool", "#!/bin/sh\necho probed\n")
    probed = identify(path)
    assert run([path], cwd=tmp_path, limits=LIMITS, identity=probed).stdout == b"probed\n"
    before = os.stat(path)
    Path(path).write_text("#!/bin/sh\necho forged\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    rewritten = run([path], cwd=tmp_path, limits=LIMITS, identity=probed)
    os.replace(program(tmp_path / "other", "#!/bin/sh\necho forged\n"), path)
    replaced = run([path], cwd=tmp_path, limits=LIMITS, identity=probed)
    for result in (rewritten, replaced):
        assert (result.ending, result.errno, result.stdout) == ("preparation_error", errno.ESTALE, b"")
        assert "has changed since it was probed" in result.sentence
    assert identify(tmp_path / "absent") is None


def test_arguments_too_long_for_the_system_are_a_result(tmp_path: Path) -> None:
    """A single argument that the system cannot pass on is a `preparation_error`."""
    result = python("pass", "x" * 10_000_000)
    assert (result.ending, result.errno) == ("preparation_error", errno.E2BIG)


def test_lack_of_descriptors_is_a_result() -> None:
    """When this process has no descriptor left, that is a `preparation_error`; the next run is not hurt."""
    with Stop() as stop:
        assert python("pass").ending == "exited"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            results = [python("pass"), python("pass", stop=stop)]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert [(one.ending, one.errno) for one in results] == [("preparation_error", errno.EMFILE)] * 2
        assert python("pass", stop=stop).ending == "exited"


@pytest.mark.parametrize(
    "argv", [[], "/bin/true", ["true"], ["./true"], ["/bin/true", "a\0b"], ["/bin/true", "\ud800"]]
)
def test_wrong_arguments_are_refused(argv: list[str]) -> None:
    """Arguments that are no command by absolute path are the caller's fault, and are not run."""
    with pytest.raises(InvalidInput, match="argv"):
        run(argv, cwd=Path("/"), limits=LIMITS)


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder", "/bin/sh"])
def test_wrong_folder_is_refused(cwd: str) -> None:
    """A working folder that is relative, absent or a file is the caller's fault."""
    with pytest.raises(InvalidInput, match="cwd"):
        run(["/bin/sh"], cwd=Path(cwd), limits=LIMITS)


def test_runs_in_several_threads_do_not_mix() -> None:
    """Runs at the same time each get their own outputs and exit codes."""
    code = "import os, sys; os.write(1, sys.argv[1].encode() * 50_000); os._exit(int(sys.argv[1]))"
    toolspawner.let_go()  # so that the threads also meet at the start of the host
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: python(code, str(number)), range(1, 25)))
    assert [result.exit_code for result in results] == list(range(1, 25))
    assert [result.whole_stdout() for result in results] == [b"%d" % n * 50_000 for n in range(1, 25)]


def children_of(parent: int) -> int:
    """How many children a process has, ended ones that nobody reaped included."""
    lists = [path.read_text() for path in Path(f"/proc/{parent}/task").glob("*/children")]
    return sum(len(text.split()) for text in lists)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_nothing_is_left_behind() -> None:
    """After fifty runs there is no descriptor, thread or process more than after the first, in worker and host."""
    host = int(python("import os; print(os.getppid())").whole_stdout())

    def held() -> tuple[int, ...]:
        descriptors = [len(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), host)]
        return *descriptors, threading.active_count(), children_of(os.getpid()), children_of(host)

    before = held()
    for _ in range(50):
        assert run(["/bin/true"], cwd=Path("/"), limits=LIMITS).ending == "exited"

    def more() -> bool:
        return any(now > then for now, then in zip(held(), before, strict=True))

    limit_s = time.monotonic() + 10
    while more() and time.monotonic() < limit_s:  # the host closes its end of a channel just after its last word
        os.sched_yield()
    assert not more(), (before, held())


def test_host_ends_with_its_process() -> None:
    """A program that ran a tool leaves no process behind and ends quietly."""
    code = (
        "from pathlib import Path; import sys; from perenne import tools\n"
        "limits = tools.Limits(wall_s=30, cpu_s=9, address_space_bytes=1 << 30, file_size_bytes=1, descriptors=64,"
        " stdout_bytes=99, stderr_bytes=99)\n"
        "tool = [sys.executable, '-I', '-S', '-c', 'import os; print(os.getppid())']\n"
        "print(tools.run(tool, cwd=Path('/'), limits=limits).whole_stdout().decode())"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)

"""Every tool ends: at its deadline, at a request to stop, with its group, with its worker; and every run returns."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from perenne import crashpoints
from perenne.runtime import toolspawner
from perenne.runtime.stop import Stop
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
SOON_S = 10.0  # how long a test waits for what must happen at once, on a busy machine

# The tool opens the named pipe and says a word; the pipe's end is then the end of all who hold it.
ALIVE = "import os, signal, sys; line = os.open(sys.argv[1], os.O_WRONLY)\n"
SAY = "os.write(line, b'%d %d\\n' % (os.getpid(), os.getppid()))\n"
WAIT = "signal.pause()\n"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


class Line:
    """The reading side of a named pipe that a tool holds open as long as it lives."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "line"
        os.mkfifo(self.path)
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.poll = select.poll()
        self.poll.register(self.descriptor, select.POLLIN)

    def word(self) -> list[int]:
        """Process numbers of the tool and its parent, once the tool is there."""
        assert self.poll.poll(SOON_S * 1000), "the tool did not say that it lives"
        return [int(number) for number in os.read(self.descriptor, 4096).split()]

    def wait_for_end(self, within_s: float = SOON_S) -> None:
        # Nothing is seen of a pipe that nobody has opened yet, as by a tool that died before; so open it once.
        os.close(os.open(self.path, os.O_WRONLY))
        limit_s = time.monotonic() + within_s
        while self.poll.poll(max(0.0, limit_s - time.monotonic()) * 1000):
            if not os.read(self.descriptor, 4096):
                return
        raise AssertionError("the tool still lives")


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line(tmp_path)
    yield made
    os.close(made.descriptor)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def python(code: str, line: Line, limits: Limits = LIMITS, stop: Stop | None = None) -> ToolResult:
    return run([sys.executable, "-I", "-S", "-c", code, str(line.path)], cwd=Path("/"), limits=limits, stop=stop)


def stopped(pool: ThreadPoolExecutor, code: str, line: Line, limits: Limits) -> ToolResult:
    """The result of a tool that is asked to stop as soon as it has said that it lives."""
    with Stop() as stop:
        waiting = pool.submit(python, code, line, limits, stop)
        line.word()
        stop.ask("enough")
        return waiting.result(timeout=SOON_S)


def test_deadline_ends_a_tool(line: Line) -> None:
    """A tool that waits for ever is stopped at wall_s; SIGTERM is enough for most."""
    result = python(ALIVE + WAIT, line, replace(LIMITS, wall_s=1.0, grace_s=30.0))
    assert (result.ending, result.signal) == ("timeout", signal.SIGTERM)
    assert "wall_s=1.0" in result.sentence
    assert 1.0 <= result.elapsed_s < SOON_S
    line.wait_for_end(0)


def test_tool_that_ignores_sigterm_is_killed(line: Line, pool: ThreadPoolExecutor) -> None:
    """A tool that does not listen to SIGTERM gets SIGKILL after the grace."""
    result = stopped(pool, ALIVE + DEAF + SAY + WAIT, line, replace(LIMITS, grace_s=0.2))
    assert (result.ending, result.signal) == ("cancelled", signal.SIGKILL)
    assert result.elapsed_s >= 0.2
    line.wait_for_end(0)


def test_last_words_after_sigterm_are_kept_but_not_whole(line: Line, pool: ThreadPoolExecutor) -> None:
    """A tool may tidy up within the grace; what cut it off stays its ending, and its output is never whole."""
    tidy = "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'tidy'), os._exit(5)))\n"
    code = ALIVE + tidy + SAY + "while True: signal.pause()"
    result = stopped(pool, code, line, replace(LIMITS, grace_s=30.0))
    assert (result.ending, result.exit_code, result.stdout) == ("cancelled", 5, b"tidy")
    assert result.stdout_stream.complete
    assert not result.stdout_complete


def test_stop_from_another_thread_acts_at_once(line: Line, pool: ThreadPoolExecutor) -> None:
    """A request to stop ends the tool without waiting for any tick, and the result gives the reason."""
    with Stop() as stop:
        waiting = pool.submit(python, ALIVE + SAY + WAIT, line, stop=stop)
        line.word()
        asked_s = time.monotonic()
        stop.ask("the job was cancelled")
        result = waiting.result(timeout=SOON_S)
        took_s = time.monotonic() - asked_s
    assert (result.ending, result.reason) == ("cancelled", "the job was cancelled")
    assert "the job was cancelled" in result.sentence
    assert took_s < 1.0


def test_deadline_may_be_years_away(line: Line) -> None:
    """A deadline beyond what the system can wait for at once is only a long deadline."""
    assert python("pass", line, replace(LIMITS, wall_s=1e12)).ending == "exited"


def test_first_cause_stands(line: Line, pool: ThreadPoolExecutor) -> None:
    """A tool that answers SIGTERM with a flood was still cancelled, and not cut off for its output."""
    flood = "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'x' * 60_000), os._exit(0)))\n"
    code = ALIVE + flood + SAY + "while True: signal.pause()"
    result = stopped(pool, code, line, replace(LIMITS, stdout_bytes=1000, grace_s=30.0))
    assert (result.ending, result.stdout_stream.observed_bytes) == ("cancelled", 60_000)


def test_one_stop_ends_all_its_tools(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """Several tools that wait on the same request all end, and a tool without it goes on."""
    lines = [Line(folder) for name in "abc" if (folder := tmp_path / name).mkdir() is None]
    with Stop() as stop, Stop() as other:
        waiting = [pool.submit(python, ALIVE + SAY + WAIT, line, stop=stop) for line in lines[:2]]
        apart = pool.submit(python, ALIVE + SAY + WAIT, lines[2], stop=other)
        for line in lines:
            line.word()
        stop.ask("enough")
        assert [one.result(timeout=SOON_S).ending for one in waiting] == ["cancelled", "cancelled"]
        assert not apart.done()
        other.ask("enough")
        assert apart.result(timeout=SOON_S).ending == "cancelled"
    for line in lines:
        os.close(line.descriptor)


CHILD_STAYS = ALIVE + DEAF + "if os.fork(): os._exit(0)\n" + WAIT


def test_rest_of_the_group_ends_with_the_leader(line: Line) -> None:
    """What a tool leaves running in its group is killed before the result is given."""
    result = python(CHILD_STAYS, line)
    assert (result.ending, result.stdout_complete) == ("exited", True)
    assert result.elapsed_s < SOON_S
    line.wait_for_end(0)


# A child leaves the session; only then the leader goes on, with the words put in.
ESCAPE = """
gone, go = os.pipe()
if os.fork():
    os.read(gone, 1)
    {leader}
os.setsid()
os.write(go, b'!')
"""


@pytest.fixture
def witness() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that has nothing to do with any tool."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def assert_lives(witness: subprocess.Popen[bytes]) -> None:
    assert witness.stdin is not None
    assert witness.stdout is not None
    witness.stdin.write(b"here\n")
    witness.stdin.flush()
    assert witness.stdout.readline() == b"here\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to the tool host")
@pytest.mark.parametrize("leader", ["exits", "stays"])
def test_descendant_that_left_the_session_ends_with_the_tool(
    leader: str, line: Line, pool: ThreadPoolExecutor, witness: subprocess.Popen[bytes]
) -> None:
    """What a tool started in a session of its own is killed when the tool has ended, and nobody else is."""
    code = ALIVE + ESCAPE.format(leader="os._exit(0)" if leader == "exits" else "signal.pause()") + SAY + WAIT
    with Stop() as stop:
        waiting = pool.submit(python, code, line, replace(LIMITS, grace_s=0.1, hard_end_s=SOON_S), stop)
        line.word()
        if leader == "stays":
            stop.ask("enough")
        result = waiting.result(timeout=SOON_S)
        assert_lives(witness)
    assert result.ending == ("exited" if leader == "exits" else "cancelled")
    assert result.stdout_stream.complete
    line.wait_for_end()


# Each generation leaves the session and ends once the next one lives: nobody's parent is alive when it is looked for.
CHAIN = """
for generation in range(20):
    gone, go = os.pipe()
    if os.fork():
        os.read(gone, 1)
        os._exit(0)
    os.setsid()
    os.write(go, b'!')
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to the tool host")
def test_daemon_of_the_twentieth_generation_ends_with_the_tool(line: Line) -> None:
    """However often a process leaves its parent and its session, it does not outlive the run of its tool."""
    assert python(ALIVE + DEAF + CHAIN + WAIT, line, replace(LIMITS, hard_end_s=SOON_S)).ending == "exited"
    line.wait_for_end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to the tool host")
def test_orphans_of_one_tool_live_while_it_runs(line: Line, tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    """A process whose parent has ended works on in the session of its tool, whatever other tools end meanwhile."""
    orphan = "if os.fork() == 0:\n    if os.fork(): os._exit(0)\n    os.setpgid(0, 0)\n"
    code = ALIVE + orphan + "    " + SAY + "    " + WAIT + "os.wait()\n" + WAIT
    with Stop() as stop:
        waiting = pool.submit(python, code, line, LIMITS, stop)
        orphan_pid, _ = line.word()
        for _ in range(3):
            assert run(["/bin/true"], cwd=tmp_path, limits=LIMITS).ending == "exited"
        os.kill(orphan_pid, 0)
        stop.ask("enough")
        assert waiting.result(timeout=SOON_S).ending == "cancelled"
    line.wait_for_end()


HAND_OUT = """
import socket
other = socket.socket(socket.AF_UNIX)
other.connect(sys.argv[1])
socket.send_fds(other, [b'!'], [1])
"""


def test_pipe_held_by_an_outsider_does_not_hold_the_run(tmp_path: Path) -> None:
    """A pipe that is never closed, here because its end was given away: the run returns at the hard end, incomplete."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        argv = [sys.executable, "-I", "-S", "-c", "import sys" + HAND_OUT, str(tmp_path / "s")]
        result = run(argv, cwd=tmp_path, limits=replace(LIMITS, hard_end_s=0.5))
        with listener.accept()[0] as other:
            _, held, _, _ = socket.recv_fds(other, 1, 1)
            os.close(held[0])
    assert (result.ending, result.exit_code) == ("exited", 0)
    assert 0.5 <= result.elapsed_s < SOON_S
    assert not result.stdout_stream.complete
    assert not result.stdout_complete


def test_stop_asked_after_the_end_changes_nothing(line: Line) -> None:
    """A tool that ended by itself stays `exited`, though it is asked to stop while the pipes are waited for."""
    code = ALIVE + ESCAPE.format(leader="os._exit(0)") + SAY + WAIT
    with Stop() as stop:
        crashpoints.observe(lambda name: stop.ask("late") if name == "run.tool_ended" else None)
        try:
            assert python(code, line, replace(LIMITS, hard_end_s=0.5), stop).ending == "exited"
        finally:
            crashpoints.observe(None)


def test_flood_from_an_escaped_descendant_does_not_hold_the_run(line: Line) -> None:
    """Not even a descendant that writes without end keeps the run, and what is kept stays bounded."""
    escape = ESCAPE.format(leader="os._exit(0)").replace("os.setsid()", "os.setsid(); os.write(1, b'x' * 2000)")
    code = ALIVE + escape + "while True: os.write(1, b'x' * 65536)"
    result = python(code, line, replace(LIMITS, stdout_bytes=1000, hard_end_s=0.5))
    assert result.ending == "output_limit"
    assert result.stdout == b"x" * 1000
    assert result.elapsed_s < SOON_S
    line.wait_for_end()  # its pipe is broken now


def test_run_that_is_interrupted_takes_its_tool_along(line: Line) -> None:
    """When an exception ends the wait, such as Ctrl-C, the tool ends too."""

    def interrupt(name: str) -> None:
        if name == "run.tool_spawned":
            line.word()
            raise KeyboardInterrupt

    crashpoints.observe(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            python(ALIVE + DEAF + SAY + WAIT, line)
    finally:
        crashpoints.observe(None)
    line.wait_for_end()


WORKER = """
import os, sys, threading
from pathlib import Path
from perenne import crashpoints, tools
crashpoints.arm(os.environ, specimen=True)
limits = tools.Limits(wall_s=60, cpu_s=20, address_space_bytes=1 << 30, file_size_bytes=1 << 20, descriptors=64,
                      stdout_bytes=1 << 20, stderr_bytes=1 << 20)
def work():
    return tools.run([sys.executable, "-I", "-S", "-c", *sys.argv[1:3]], cwd=Path("/"), limits=limits)
"""
WORKS = WORKER + "work()"
# A copy of the worker made by fork, holding all its descriptors, lives on until its standard input ends.
WORKS_AND_FORKS = (
    WORKER
    + """
thread = threading.Thread(target=work)
crashpoints.observe(lambda name: spawned.set())
spawned = threading.Event()
thread.start()
spawned.wait()
if os.fork() == 0:
    print("forked", flush=True)
    os._exit(len(sys.stdin.read()))
thread.join()
"""
)


def start_worker(code: str, tool: str, line: Line, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, tool, str(line.path)],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_tool_dies_with_its_worker(line: Line) -> None:
    """When the worker is killed, the tool dies, deaf or not, and so does the rest of its group."""
    with start_worker(WORKS, ALIVE + DEAF + "os.fork()\n" + SAY + WAIT, line) as worker:
        line.word()
        worker.kill()
    line.wait_for_end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to the tool host")
@pytest.mark.parametrize("leader", ["os._exit(0)", "signal.pause()"])
def test_what_left_its_session_dies_with_the_worker(leader: str, line: Line) -> None:
    """When the worker is killed, a daemon of its tool dies too, whether the tool still runs or not."""
    with start_worker(WORKS, ALIVE + DEAF + ESCAPE.format(leader=leader) + SAY + WAIT, line) as worker:
        line.word() if leader != "os._exit(0)" else None
        worker.kill()
    line.wait_for_end()


@pytest.mark.skipif(sys.platform != "linux", reason="the children of a process are listed on Linux")
def test_spare_child_that_was_killed_is_replaced(line: Line) -> None:
    """The host forks ahead of the next run; a run after that child was killed has a child of its own."""
    assert python("pass", line).ending == "exited"
    assert toolspawner._host is not None
    listing = Path(f"/proc/{toolspawner._host.process.pid}/task/{toolspawner._host.process.pid}/children")
    for _ in range(3):
        limit_s = time.monotonic() + SOON_S
        while not (found := listing.read_text().split()) and time.monotonic() < limit_s:
            time.sleep(0.005)  # reason: the host tells nobody that it has forked ahead
        assert len(found) == 1
        os.kill(int(found[0]), signal.SIGKILL)
        while listing.read_text().split() == found and time.monotonic() < limit_s:
            time.sleep(0.001)  # reason: nor that it has reaped it
        assert python("print('well')", line).whole_stdout() == b"well\n"


@pytest.mark.parametrize("point", ["run.tool_spawned", "run.tool_ended"])
def test_worker_that_dies_around_a_tool_leaves_nothing(point: str, line: Line) -> None:
    """Killed right after the spawn or right after the end, the worker leaves no process behind."""
    tool = ALIVE + WAIT if point == "run.tool_spawned" else CHILD_STAYS
    with start_worker(WORKS, tool, line, **{crashpoints.VARIABLE: point}) as worker:
        assert worker.wait(SOON_S) == -signal.SIGKILL
    line.wait_for_end()


def test_forked_copy_of_the_worker_does_not_keep_the_tool(line: Line) -> None:
    """A copy of the worker that still holds every descriptor does not keep the tool of the dead original alive."""
    with start_worker(WORKS_AND_FORKS, ALIVE + SAY + WAIT, line) as worker:
        line.word()
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"forked\n"
        worker.kill()
        line.wait_for_end()


def test_host_is_out_of_reach_of_the_terminal(line: Line) -> None:
    """Ctrl-C at a terminal reaches the worker, which decides; not the host, and through it every tool."""
    own = python("import os; print(os.getsid(os.getppid()) == os.getppid())", line)
    assert own.whole_stdout() == b"True\n"


def test_forked_copy_runs_tools_of_its_own(line: Line) -> None:
    """A copy of a process made by fork starts its own host, and leaves that of the original alone."""
    python("pass", line)
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writable, python("import os; print(os.getppid())", line).stdout)
        finally:
            os._exit(0)
    os.close(writable)
    with open(readable, "rb") as answer:
        copied = int(answer.read())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert int(python("import os; print(os.getppid())", line).whole_stdout()) != copied


@pytest.mark.skipif(sys.platform != "linux", reason="needs the death signal of Linux")
def test_tool_dies_with_its_host(line: Line, pool: ThreadPoolExecutor) -> None:
    """When the host is killed, its tool dies, the run says `io_error`, and the next run has a new host."""
    waiting = pool.submit(python, ALIVE + DEAF + SAY + WAIT, line)
    _, host = line.word()
    os.kill(host, signal.SIGKILL)
    result = waiting.result(timeout=SOON_S)
    assert (result.ending, result.exit_code, result.stdout_complete) == ("io_error", None, False)
    assert "lost from sight" in result.sentence
    line.wait_for_end()
    assert python("pass", line).ending == "exited"


def test_stopped_host_does_not_hold_the_run(line: Line, pool: ThreadPoolExecutor) -> None:
    """A host that does not move delays a run to its hard end at most; the tool ends when the host moves again."""
    with Stop() as stop:
        waiting = pool.submit(python, ALIVE + SAY + WAIT, line, replace(LIMITS, grace_s=0.1, hard_end_s=0.2), stop)
        _, host = line.word()
        os.kill(host, signal.SIGSTOP)
        try:
            stop.ask("enough")
            result = waiting.result(timeout=SOON_S)
        finally:
            os.kill(host, signal.SIGCONT)
    assert (result.ending, result.exit_code, result.signal) == ("cancelled", None, None)
    line.wait_for_end()


def test_runs_need_no_thread_but_their_own(line: Line, pool: ThreadPoolExecutor) -> None:
    """The thread that calls is the one that watches: a full pool cannot leave a tool without its deadline."""
    before = threading.active_count()
    seen: list[int] = []
    crashpoints.observe(lambda name: seen.append(threading.active_count()))
    try:
        python("pass", line)
    finally:
        crashpoints.observe(None)
    assert set(seen) == {before}

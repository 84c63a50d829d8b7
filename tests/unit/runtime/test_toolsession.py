"""A tool held as a session: many answers from one start, a new one after any irregularity, an end with its slot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perenne.errors import ConfinementMissing, InvalidInput, NotAllowed
from perenne.runtime import confine, toolsession
from perenne.runtime.confine import Confinement
from perenne.runtime.slots import Slots
from perenne.runtime.stop import Stop
from perenne.runtime.toolrunner import Limits, ToolResult, identify
from perenne.runtime.toolsession import Session

LIMITS = Limits(
    wall_s=30,
    cpu_s=20,
    address_space_bytes=1 << 30,
    file_size_bytes=1 << 20,
    descriptors=64,
    stdout_bytes=100_000,
    stderr_bytes=100_000,
)
SOON_S = 10.0

# Runs each line of its input as Python, then prints the mark on both streams; `pid` is what shows a new start.
TOOL = """
import os, signal, sys, time
pid = os.getpid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def say(text, number=1):
    data = text.encode() if isinstance(text, str) else text
    while data:
        data = data[os.write(number, data):]
for line in iter(sys.stdin.buffer.readline, b''):
    exec(line)
    say('<out>'); say('<err>', 2)
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    made: list[Session] = []

    def session(limits: Limits = LIMITS, code: str = TOOL, **facts: Any) -> Session:
        made.append(Session([sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, limits=limits, **facts))
        return made[-1]

    yield session
    for one in made:
        one.close()


def ask(session: Session, code: str, stop: Stop | None = None) -> ToolResult:
    return session.ask(code.encode() + b"\n", stdout_end=b"<out>", stderr_end=b"<err>", stop=stop)


def pid_of(session: Session) -> int:
    return int(ask(session, "say(str(pid))").whole_stdout())


def test_many_requests_from_one_start(make: Callable[..., Session]) -> None:
    """Each answer comes back whole, without the marks, and the program stays the same."""
    session = make()
    for number in range(1, 51):
        result = ask(session, f"say('answer {number}'); say('aside', 2)")
        assert (result.ending, result.request, result.exit_code, result.signal) == ("exited", number, None, None)
        assert (result.whole_stdout(), result.stderr) == (b"answer %d" % number, b"aside")
        assert f"answered request {number} after" in result.sentence
    assert session.starts == 1


def test_large_requests_and_answers_do_not_lock_up(make: Callable[..., Session]) -> None:
    """A request and an answer larger than any pipe pass, also when the program speaks while it is spoken to."""
    session = make(replace(LIMITS, stdout_bytes=2_000_000))
    assert ask(session, f"say(b'x' * 1_500_000 + str(len({'y' * 1_000_000!r})).encode())").stdout.endswith(b"x1000000")


def test_a_mark_inside_the_answer_is_no_end(make: Callable[..., Session]) -> None:
    """Only the last bytes end an answer: what holds the mark in its middle goes on."""
    code = "say('a<out>b'); say('<err>c', 2); time.sleep(0.05)  # reason: so that the first part is read alone"
    result = ask(make(), code)
    assert (result.stdout, result.stderr) == (b"a<out>b", b"<err>c")


IRREGULAR = {
    "never answers, deaf to SIGTERM": ("while True: signal.pause()", "timeout"),
    "floods its output": ("while True: say(b'x' * 65536)", "output_limit"),
    "floods its errors": ("while True: say(b'x' * 65536, 2)", "output_limit"),
    "ends well": ("os._exit(0)", "exited"),
    "ends badly": ("say('half'); os._exit(3)", "nonzero"),
    "crashes": ("os.kill(pid, 11)", "signaled"),
    "closes its output": ("os.close(1); signal.pause()", "timeout"),
    "leaves its session and ends": ("os.fork() and os._exit(0); os.setsid(); signal.pause()", "exited"),
}


@pytest.mark.parametrize("name", IRREGULAR)
def test_anything_but_an_answer_starts_the_program_anew(name: str, make: Callable[..., Session]) -> None:
    """The bad request says what happened, its output is never whole, and the next one is served by a new start."""
    code, ending = IRREGULAR[name]
    session = make(replace(LIMITS, wall_s=1.0 if ending == "timeout" else 30.0))
    before = pid_of(session)
    result = ask(session, code)
    assert (result.ending, result.request, result.stdout_complete) == (ending, 2, False)
    assert result.elapsed_s < SOON_S
    assert len(result.stdout) <= LIMITS.stdout_bytes + 5
    assert pid_of(session) != before
    assert session.starts == 2


def test_last_words_are_kept(make: Callable[..., Session]) -> None:
    """What a program says before it dies in a request is there for the diagnosis."""
    result = ask(make(), "say('because', 2); os._exit(9)")
    assert (result.ending, result.exit_code, result.stderr) == ("nonzero", 9, b"because")


@pytest.mark.parametrize("stray", ["say('more')", "say('more', 2)", "os._exit(0)"])
def test_what_nobody_asked_for_starts_the_program_anew(
    stray: str, make: Callable[..., Session], tmp_path: Path
) -> None:
    """A program that speaks or ends between two requests never mixes that into the next answer."""
    os.mkfifo(tmp_path / "go")
    late = "import threading\n" + TOOL.replace("say('<err>', 2)", "say('<err>', 2); late()")
    late = late.replace(
        "for line", f"def late():\n    open('go').close(); {stray}; open('gone', 'w').close()\nfor line"
    )
    session = make(code=late)
    assert ask(session, "say('one')").stdout == b"one"
    (tmp_path / "go").write_text("")
    limit_s = time.monotonic() + SOON_S
    while session._line is not None and not session._line.stirs and time.monotonic() < limit_s:
        time.sleep(0.005)  # reason: there is no other sign of what another process has written
    assert ask(session, "say('two')").whole_stdout() == b"two"
    assert session.starts == 2


def test_a_new_start_after_so_many_requests(make: Callable[..., Session]) -> None:
    """The program is started anew after the agreed number of requests, 500 unless said otherwise."""
    session = make(requests=3)
    pids = [pid_of(session) for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]
    assert (session.starts, make().requests) == (3, 500)


def test_one_request_at_a_time(make: Callable[..., Session]) -> None:
    """A second request while one is in flight is refused and harms neither."""
    session = make()
    with ThreadPoolExecutor() as pool, Stop() as stop:
        waiting = pool.submit(ask, session, "say('here'); signal.pause()", stop)
        limit_s = time.monotonic() + SOON_S
        while not session._asked.locked() and time.monotonic() < limit_s:
            time.sleep(0.001)  # reason: the other thread gives no sign when it has begun
        with pytest.raises(NotAllowed, match="in flight"):
            ask(session, "say('two')")
        stop.ask("enough")
        result = waiting.result(timeout=SOON_S)
    assert (result.ending, result.reason) == ("cancelled", "enough")
    assert ask(session, "say('three')").stdout == b"three"


def test_stop_asked_before_starts_nothing(make: Callable[..., Session]) -> None:
    """With the stop already asked nothing is started."""
    session = make()
    with Stop() as stop:
        stop.ask("shutdown")
        assert (ask(session, "pass", stop).ending, session.starts) == ("cancelled", 0)


def test_programs_that_cannot_be_started_are_results(tmp_path: Path) -> None:
    """Missing, not executable, and changed since its probe: a result each, and no session."""
    script = tmp_path / "tool"
    script.write_text("#!/bin/sh\nexec cat\n")
    script.chmod(0o755)
    probed = identify(script)
    script.write_text("#!/bin/sh\nexec cat; #\n")
    (tmp_path / "plain").write_text("")
    for path, identity, ending in (
        (tmp_path / "absent", None, "not_found"),
        (tmp_path / "plain", None, "preparation_error"),
        (script, probed, "preparation_error"),
    ):
        with Session([str(path)], cwd=tmp_path, limits=LIMITS, identity=identity) as session:
            assert session.ask(b"x", stdout_end=b"x").ending == ending
            assert session._line is None


def test_session_is_confined(make: Callable[..., Session], tmp_path: Path) -> None:
    """A session is confined as it is asked, says so, and is not started where that is required and not offered."""
    parts = (Path(sys.base_prefix), Path(os.path.realpath(sys.executable)).parent)
    if confine.offer().level == "stage":
        session = make(confinement=Confinement(stage=tmp_path, reads=parts, required=True))
        assert ask(session, "open('mine', 'w').close()").confinement.level == "stage"
        assert ask(session, "open('/etc/passwd')").ending == "nonzero"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(confine, "offer", lambda: confine.Offer("none", "limits only", "nothing is offered"))
        missing = make(confinement=Confinement(required=True))
        with pytest.raises(ConfinementMissing):
            ask(missing, "pass")
    assert missing.starts == 0


@pytest.mark.parametrize(
    "wrong", [{"requests": 0}, {"requests": True}, {"cwd": Path("here")}, {"argv": []}, {"argv": ["cat"]}]
)
def test_session_that_is_none_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    """Arguments that are none are refused when the session is made."""
    given: dict[str, Any] = {"argv": ["/bin/cat"], "cwd": tmp_path, "limits": LIMITS, **wrong}
    with pytest.raises(InvalidInput):
        Session(given.pop("argv"), **given)


@pytest.mark.parametrize(("request_", "end"), [(b"", b"x"), (b"x", b""), ("x", b"x"), (b"x", "x")])
def test_request_that_is_none_is_refused(request_: Any, end: Any, make: Callable[..., Session]) -> None:
    """A request without bytes, or without an end of its answer, is refused before anything starts."""
    session = make()
    with pytest.raises(InvalidInput):
        session.ask(request_, stdout_end=end)
    assert session.starts == 0


def held(tmp_path: Path, **facts: Any) -> Session:
    return toolsession.session([sys.executable, "-I", "-S", "-c", TOOL], cwd=tmp_path, limits=LIMITS, **facts)


def gone(pid: int) -> bool:
    """Whether the process ends soon."""
    limit_s = time.monotonic() + SOON_S
    while time.monotonic() < limit_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.005)  # reason: it is no child of ours, so its end cannot be waited for
    return False


def test_a_thread_holds_its_own_session(tmp_path: Path) -> None:
    """The same arguments give the same session in a thread and another one in another; too many make the oldest end."""
    try:
        first = held(tmp_path)
        assert held(tmp_path) is first
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(held, tmp_path).result() is not first
            pool.submit(toolsession.close_sessions).result()
        pid = pid_of(first)
        for number in range(toolsession.HELD_MOST):
            held(tmp_path, requests=number + 1)
        assert gone(pid)
    finally:
        toolsession.close_sessions()


def test_session_dies_with_its_slot(tmp_path: Path) -> None:
    """When the thread of a slot ends, so does the session it held."""
    told: list[int] = []

    def perform(claim: Any, wishes: Any) -> Any:
        told.append(pid_of(held(tmp_path)))

    slots = Slots(perform, 1, clock=_Clock())  # type: ignore[arg-type]
    slots.start()
    slots._todo.put(_Attempt())  # type: ignore[arg-type]
    assert slots.close(SOON_S)
    assert len(told) == 1
    assert gone(told[0])


class _Clock:
    def monotonic(self) -> float:
        return time.monotonic()


class _Attempt:
    claim = wishes = started_at = ended = None


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_toolsession as t
session = t.held(Path({folder!r}))
print(t.pid_of(session), flush=True)
t.ask(session, "signal.pause()")
"""


def test_session_dies_with_its_worker(tmp_path: Path) -> None:
    """A worker that is killed takes its sessions along, though they hear no SIGTERM."""
    code = WORKER.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        worker.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_sessions_of_several_threads_are_apart(tmp_path: Path) -> None:
    """Eight threads with a session each get their own answers."""
    wrong: list[bytes] = []

    def work(number: int) -> None:
        for count in range(20):
            answer = ask(held(tmp_path), f"say('{number} {count}')").whole_stdout()
            if answer != b"%d %d" % (number, count):
                wrong.append(answer)
        toolsession.close_sessions()

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

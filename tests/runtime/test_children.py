"""Handlers in processes of their own: whatever one does to its process is a failed attempt, and its worker goes on."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import child_app
import pytest

import perenne
from perenne import Engine, Job, JobState, Kind, testing, upkeep
from perenne.runtime import attendant, drain

S = JobState
LIMIT_S = 20.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", child_app.app)
    with perenne.open(root, child_app.app, access="work") as opened:
        yield opened
    assert not children_of(os.getpid()), "a child outlived its worker"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file through which a handler tells."""
    return tmp_path / "told"


def children_of(pid: int) -> list[int]:
    found = [Path(f"/proc/{pid}/task/{task}/children").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    mine = [int(child) for text in found for child in text.split()]
    return [child for child in mine if b"perenne.runtime.child" in Path(f"/proc/{child}/cmdline").read_bytes()]


def run(engine: Engine, what: str, path: Path | str = "", kind: Kind = child_app.PLAIN) -> Job:
    """The job that was ordered, as it stands when nothing is due any more."""
    job_id = engine.submit(kind, child_app.Order(what, str(path))).job_id
    engine.work()
    return engine.job(job_id)


def is_gone(pid: int, within_s: float = LIMIT_S) -> bool:
    deadline = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists() and b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().split()[2:3]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)  # reason: it is no child of this process, which hears nothing of its end
    return True


def until(holds: Callable[[], bool]) -> None:
    """Return once it holds, which another process brings about without a signal."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.002)  # reason: another process is observed from outside


def assert_well(engine: Engine) -> None:
    """The worker serves the next job in its one slot, nothing is left of the last, and the doctor finds no fault."""
    assert run(engine, "work").state is S.COMPLETED
    own = engine.workspace.own_folder
    assert [list((own / name).iterdir()) for name in ("children", "stage")] == [[], []]
    # A snapshot is on its way to its name for a moment, now and then; a fault stays.
    until(lambda: all(one.verdict == "ok" for one in upkeep.doctor(engine.workspace.root, child_app.app)))


def log_of(engine: Engine, job: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in engine.workspace.log_of(job.id).read_text().splitlines()]


def test_a_handler_runs_in_a_process_of_its_own(engine: Engine) -> None:
    """Its process is not the worker's but a child of it, and serves one attempt after the other."""
    jobs = [engine.submit(child_app.PLAIN, {"what": "work"}).job_id for _ in range(5)]
    engine.work()
    results = [json.loads(engine.job(job).result or b"{}") for job in jobs]
    assert {result["parent"] for result in results} == {os.getpid()}
    assert len({result["pid"] for result in results}) == 1
    assert [result["job"] for result in results] == jobs
    assert_well(engine)


def test_every_verb_reaches_the_worker(engine: Engine) -> None:
    """Boundary, progress, log, stage, may_publish and publish do in a child what they do in a thread."""
    job = run(engine, "use_every_verb")
    result = json.loads(job.result or b"{}")
    assert (job.state, job.progress_done, job.progress_message) == (S.COMPLETED, 1, "half")
    assert (result["published"], result["stop"], result["workspace"]) == (job.id, None, str(engine.workspace.root))
    assert result["stage"] == str(engine.workspace.stage_folder / engine.attempts(job.id)[0].id)
    said = next(line for line in log_of(engine, job) if line["message"] == "at work")
    assert (said["level"], said["half"], said["attempt"]) == ("warning", True, 1)
    assert_well(engine)


def test_what_a_child_prints_carries_its_job(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    """Each line, whole or not, on either stream; the worker's output tells whose it is."""
    job = run(engine, "print_things")
    assert job.state is S.COMPLETED
    out, err = capfd.readouterr()
    assert out.splitlines() == [f"{job.id}  one", f"{job.id}  a", f"{job.id}  b"]
    assert err.splitlines() == [f"{job.id}  half"]
    assert_well(engine)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("segfault", "the child was ended by SIGSEGV"),
        ("exit_at_once", "the child exited with status 3"),
        ("close_everything", "the child lost its connection to the worker"),
        ("exit_politely", "SystemExit: 4"),
        ("recurse", "RecursionError"),
        ("raise_base", "Odd: odd"),
        ("fail", "ValueError: on purpose"),
        ("return_an_object", "result: Encoding objects of type object is unsupported"),
        ("return_too_much", "result: 307202 bytes, the limit is 262144"),
    ],
)
def test_what_ends_a_handler_is_a_failed_attempt(engine: Engine, what: str, said: str) -> None:
    """E-R1: a crash, an exit, a wild exception and an impossible result fail the attempt with a sentence."""
    job = run(engine, what)
    assert (job.state, job.spent) == (S.FAILED, 1)
    assert said in (job.diagnostic or "")
    assert_well(engine)


def test_a_crash_is_retried_in_another_child(engine: Engine) -> None:
    """By default a crash is worth another attempt; the crashed child is replaced."""
    job = run(engine, "segfault", kind=child_app.AGAIN)
    assert (job.state, job.failures, job.spent) == (S.RETRY_WAIT, 1, 1)
    assert_well(engine)


def test_the_stack_of_a_crash_is_in_the_log(engine: Engine) -> None:
    """E-F4: where native code crashed can be read in the job's log, by the lines of the handler."""
    job = run(engine, "segfault")
    (line,) = [line for line in log_of(engine, job) if line["message"] == "child_failed"]
    assert "Segmentation fault" in line["report"]
    assert "child_app.py" in line["report"]
    assert "in segfault" in line["report"]


def test_the_files_of_a_handler_get_no_messages(engine: Engine, path: Path) -> None:
    """When a handler closes what is not its own and its files take those numbers, nothing is written into them."""
    job = run(engine, "close_and_write", path)
    assert (job.state, path.read_bytes()) == (S.FAILED, b"")
    assert_well(engine)


def test_answers_that_are_no_results_come_through(engine: Engine) -> None:
    """E-F3: Snooze and GiveUp mean the same as in a thread."""
    later, never = run(engine, "snooze"), run(engine, "give_up")
    assert (later.state, later.reason, later.spent) == (S.RETRY_WAIT, "later", 0)
    assert (never.state, never.reason, never.diagnostic) == (S.FAILED, "gave_up", "never")
    assert_well(engine)


def test_a_copy_that_returns_says_nothing(engine: Engine) -> None:
    """A handler that forks and returns twice is heard once, as the process that was asked."""
    job = run(engine, "fork_and_return")
    assert (job.state, job.result) == (S.COMPLETED, b'"child"')
    assert_well(engine)


def test_a_copy_that_asks_is_refused(engine: Engine, path: Path) -> None:
    """The context of a forked copy refuses every verb by name; the child's own goes on."""
    job = run(engine, "fork_and_ask", path)
    assert (job.state, job.result) == (S.COMPLETED, b'"child"')
    assert path.read_text().startswith("refused: check: this process is a forked copy of a child")
    assert_well(engine)


@pytest.mark.parametrize(("what", "state"), [("fork_and_stay", S.COMPLETED), ("fork_natively_and_crash", S.FAILED)])
def test_a_copy_that_stays_ends_with_its_attempt(engine: Engine, path: Path, what: str, state: S) -> None:
    """What a handler forked is ended before its attempt is recorded, in its own session, too."""
    job = run(engine, what, path)
    assert job.state is state
    assert is_gone(int(path.read_text()), within_s=0.0)
    assert_well(engine)


def test_a_child_that_blocks_signals_is_ended_at_its_limit(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E-F5: TERM to the group, grace, KILL; the attempt failed, and its sentence names the limit."""
    monkeypatch.setattr(attendant, "GRACE_S", 0.2)
    job = run(engine, "block_signals", path, child_app.BRIEF)
    assert (job.state, job.diagnostic) == (
        S.FAILED,
        "wall_limit_reached: the attempt took longer than 0.3 s, the wall_limit_s of child.brief@1; "
        "give it more, or let the job do less",
    )
    assert is_gone(int(path.read_text().split()[0]))
    assert_well(engine)


@pytest.mark.parametrize("what", ["stick", "stick_natively", "go_on", "use_a_tool"])
def test_a_child_that_takes_too_long_is_ended(
    engine: Engine, path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit ends a handler without boundaries, one that holds the interpreter, one with them, one with a tool."""
    monkeypatch.setattr(attendant, "GRACE_S", 0.2)
    job = run(engine, what, path, child_app.BRIEF)
    assert job.state is S.FAILED
    assert "wall_limit_reached" in (job.diagnostic or "")
    assert_well(engine)


def test_a_handler_may_clean_up_within_the_grace(engine: Engine, path: Path) -> None:
    """TERM unwinds the handler's frame, so that its `finally` runs; then the attempt is over."""
    job = run(engine, "clean_up", path, child_app.BRIEF)
    assert job.state is S.FAILED
    assert path.read_text().splitlines() == ["at work", "cleaned up"]
    assert_well(engine)


def test_a_handler_that_allocates_without_end_fails(engine: Engine) -> None:
    """Beyond the memory limit of its kind a handler gets a MemoryError, and neither worker nor machine notices."""
    job = run(engine, "allocate", kind=child_app.SMALL)
    assert job.state is S.FAILED
    assert "MemoryError" in (job.diagnostic or "")
    assert_well(engine)


def test_the_peak_of_memory_is_of_one_attempt(engine: Engine) -> None:
    """What an attempt held at most is measured by itself: the next one in the same child does not inherit it."""
    much, little = (engine.submit(child_app.PLAIN, {"what": what}).job_id for what in ("hold_much", "work"))
    engine.work()
    peaks = [
        line["peak_bytes"]
        for job_id in (much, little)
        for line in log_of(engine, engine.job(job_id))
        if line["message"] == "child_measured"
    ]
    assert peaks[0] > peaks[1] + (60 << 20)
    assert_well(engine)


def test_a_thread_that_goes_on_is_refused(engine: Engine, path: Path) -> None:
    """What a handler left running in its process has no context any more, and disturbs no later attempt."""
    jobs = [engine.submit(child_app.PLAIN, {"what": w, "path": str(path)}).job_id for w in ("ask_afterwards", "work")]
    engine.work()
    assert [engine.job(job).state for job in jobs] == [S.COMPLETED, S.COMPLETED]
    assert "the attempt is over" in path.read_text()
    assert_well(engine)


def test_a_log_line_without_end_is_named(engine: Engine) -> None:
    """A line larger than an attempt may write is dropped and named; the next one stands."""
    job = run(engine, "say_a_lot")
    said = [line["message"] for line in log_of(engine, job)]
    assert job.state is S.COMPLETED
    assert any("bytes was dropped" in message for message in said)
    assert "short" in said


def test_a_cancel_ends_a_child_that_reaches_no_boundary(
    engine: Engine, path: Path, in_thread: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: the grace time after a cancel the child is ended; the job is CANCELLED, its slot free."""
    monkeypatch.setattr(drain, "GRACE_S", 0.1)
    monkeypatch.setattr(attendant, "GRACE_S", 0.1)
    job_id = engine.submit(child_app.PLAIN, {"what": "stick_natively", "path": str(path)}).job_id
    working = in_thread(lambda: engine.work())
    until(path.exists)
    engine.cancel(job_id)
    working.result()
    assert engine.job(job_id).state is S.CANCELLED
    assert_well(engine)


@pytest.mark.parametrize(("what", "verb"), [("go_on", "cancel"), ("go_on", "pause"), ("use_a_tool", "cancel")])
def test_a_wish_reaches_a_child_at_once(engine: Engine, path: Path, in_thread: Any, what: str, verb: str) -> None:
    """E-O4: cancel and pause are met at the next boundary of the child, or by its tool, long before any grace time."""
    job_id = engine.submit(child_app.PLAIN, {"what": what, "path": str(path)}).job_id
    working = in_thread(lambda: engine.work())
    until(path.exists)
    asked_at = time.monotonic()
    getattr(engine, verb)(job_id)
    working.result()
    assert time.monotonic() - asked_at < drain.GRACE_S / 2
    assert engine.job(job_id).state is (S.CANCELLED if verb == "cancel" else S.PAUSED)
    engine.resume()
    assert_well(engine)


def test_a_child_that_died_while_idle_is_not_lent(engine: Engine, in_thread: Any) -> None:
    """What ended between two attempts fails nobody: the next attempt gets a living child."""
    worker = engine.worker()
    working = in_thread(lambda: worker.run(stay=True))
    first = json.loads(engine.wait(engine.submit(child_app.PLAIN, {"what": "work"}).job_id, LIMIT_S).result or b"")
    os.kill(first["pid"], signal.SIGKILL)
    assert is_gone(first["pid"])
    next_one = engine.wait(engine.submit(child_app.PLAIN, {"what": "work"}).job_id, LIMIT_S)
    worker.stop()
    working.result()
    assert (next_one.state, next_one.spent) == (S.COMPLETED, 1)
    assert json.loads(next_one.result or b"")["pid"] != first["pid"]


def test_a_task_may_have_a_process_of_its_own(tmp_path: Path) -> None:
    """A decorated function is found by its name in the child, with the input type that was made of it."""
    root = testing.workspace(tmp_path / "tasks", child_app.tasks)
    with perenne.open(root, child_app.tasks, access="work") as engine:
        job_id = child_app.halve.enqueue(8, twice=True).job_id
        engine.work()
        job = engine.job(job_id)
    assert job.state is S.COMPLETED, job.diagnostic
    result = json.loads(job.result or b"")
    assert result["half"] == 2.0
    assert result["pid"] != os.getpid()

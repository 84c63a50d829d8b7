"""The doctor looks at everything, changes nothing, and says of each thing that is wrong what to do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Kind, filesystem, sqlite
from perenne.core import events
from perenne.core.states import JobState
from perenne.errors import InvalidInput
from perenne.files import kernel_locks
from perenne.files.lock import Lock
from perenne.filesystem import Verdict
from perenne.runtime import backup, confine, doctor_work, snapshot
from perenne.runtime.doctor import doctor
from perenne.runtime.findings import Finding
from perenne.store import space
from perenne.store.notices import Notices
from perenne.store.sqlite import backup as copies
from perenne.store.sqlite import checkpoints, holders, inspection

SOURCE = str(Path(perenne.__file__).parents[1])
WORKER = """
import os, sys, time
from pathlib import Path
import perenne
from perenne import App, Kind

def hold(context, text):
    context.log("began")
    context.stage
    print("running", flush=True)
    while True:
        time.sleep(0.01)

app = App("upkeep", [Kind("note", 1, hold, str)], queues={"default": 100_000})
with perenne.open(sys.argv[1], app, access="work") as engine:
    worker = engine.worker(slots=1)
    print("ready", flush=True)
    worker.run(stay=True)
"""
FREEZE = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
DOCTOR = """
import sys
from pathlib import Path
from perenne.runtime.doctor import doctor
from perenne.store.sqlite import inspection
findings = doctor(Path(sys.argv[1]), None, inspector=inspection, deep=True)
for finding in findings:
    if finding.verdict != "ok":
        print(finding.name, finding.verdict)
print(len(findings))
"""
WRITER = """
import sys
from perenne import sqlite
from pathlib import Path
connection = sqlite.open(Path(sys.argv[1]), mode="write")
connection.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def process(code: str, *arguments: object, says: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, up to where it says so."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    ) as other:
        try:
            assert other.stdout
            while (line := other.stdout.readline()) != f"{says}\n":
                assert line, "the other process ended"
            yield other
        finally:
            other.kill()


def look(place: Any, app: App | None, **values: Any) -> list[Finding]:
    return doctor(place.workspace.root, app, inspector=inspection, clock=place.clock(), **values)


def named(findings: list[Finding], name: str) -> list[Finding]:
    return [finding for finding in findings if finding.name == name]


def one(findings: list[Finding], name: str) -> Finding:
    (finding,) = named(findings, name)
    return finding


def troubles(findings: list[Finding]) -> set[str]:
    return {finding.name for finding in findings if finding.verdict != "ok"}


def test_healthy_workspace(place: Any, app: App) -> None:
    """A workspace where all is well gets only ok, and everything was looked at."""
    place.complete()
    place.submit()
    place.owners.leave(place.owner.id, now=place.tick())
    findings = look(place, app, deep=True)
    assert troubles(findings) == set()
    assert [finding.name for finding in findings] == [
        "manifest", "confinement", "file system", "free space", "permissions", "leftovers", "pipes", "library", "modes",
        "schema", "wal", "write lock", "integrity", "ledger", "controls", "retention", "counters", "dependencies",
        "attempts", "history", "owner locks", "running", "in doubt", "blocked", "kinds", "logs", "stages",
        "checkpoints", "children", "artefacts",
    ]  # fmt: skip
    assert confine.offer().by in one(findings, "confinement").sentence
    assert "SQLite 3." in one(findings, "library").sentence
    assert "journal_mode is wal" in one(findings, "modes").sentence
    assert place.workspace.id in one(findings, "ledger").sentence


def test_everything_wrong_says_what_to_do(full: Any, app: App) -> None:
    """Whatever is not ok has a next step; nothing is said without a name and a sentence."""
    findings = look(full, app)
    assert troubles(findings) >= {"owners", "running", "in doubt", "kinds"}
    assert all(finding.name and finding.sentence for finding in findings)
    assert all(finding.next_step for finding in findings if finding.verdict != "ok")


def stop_between_writes(pid: int, place: Any) -> None:
    """Stop a worker where it does not hold the ledger's write lock; a turn of its loop may be under way."""
    ledger, deadline = place.workspace.ledger, time.monotonic() + 20
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        if not holders.writers(ledger):
            return
        os.kill(pid, signal.SIGCONT)
        while holders.writers(ledger):
            assert time.monotonic() < deadline, "a turn ends"
            time.sleep(0.001)  # reason: the end of another process's transaction rings no bell


@pytest.mark.parametrize("state", ["at rest", "while a worker runs", "after kill -9"])
def test_doctor_changes_nothing(place: Any, app: App, trouble: Any, state: str) -> None:
    """No name, size or byte changes but in shared memory: with a worker, after its death, at rest (P8)."""
    place.submit()
    place.close()
    root = place.workspace.root
    if state in ("while a worker runs", "after kill -9"):
        with process(WORKER, root, says="running") as worker:
            if state == "while a worker runs":
                stop_between_writes(worker.pid, place)  # so that only the doctor could change anything
                before = trouble.contents(root)
                assert troubles(look(place, app, deep=True)) == {"owners"}
                assert trouble.contents(root) == before
                return
    before = trouble.contents(root)
    assert look(place, app, deep=True)
    assert trouble.contents(root) == before


def test_doctor_on_a_read_only_folder(place: Any, trouble: Any) -> None:
    """Where nothing can be written at all, everything is looked at all the same (P8)."""
    command = ["unshare", "-m", "--propagation", "private", "sh", "-c", FREEZE, "sh", str(place.workspace.root)]
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("NOT CHECKED: `unshare -m` is absent or not allowed here")
    place.complete()
    place.close()
    before = trouble.contents(place.workspace.root)
    done = subprocess.run(
        [*command, sys.executable, "-c", DOCTOR, str(place.workspace.root)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.stdout.splitlines() == ["file system warn", "owners warn", "30"], done.stderr
    assert trouble.contents(place.workspace.root) == before


def test_missing_workspace_and_foreign_app(place: Any, tmp_path: Path, app: App) -> None:
    """A folder that is no workspace, or one of another app, is a finding, not an error."""
    assert [f.verdict for f in doctor(tmp_path, app, inspector=inspection)] == ["bad"]
    assert "create the workspace first" in str(doctor(tmp_path, app, inspector=inspection)[0].next_step)
    findings = look(place, App("other"))
    assert one(findings, "manifest").verdict == "bad"
    assert named(findings, "kinds") == []
    assert named(look(place, None), "kinds") == []


@pytest.mark.parametrize(
    ("kind", "allowed", "verdict"),
    [("remote", False, "bad"), ("unknown", False, "bad"), ("remote", True, "warn"), ("weak", False, "warn"),
     ("volatile", False, "warn"), ("readonly", False, "warn"), ("local", False, "ok")],
)  # fmt: skip
def test_file_system(
    place: Any, app: App, monkeypatch: pytest.MonkeyPatch, kind: Any, allowed: bool, verdict: str
) -> None:
    """The file system is told by name, kind and reason; one that a setting accepts is still a warning."""
    if allowed:
        text = place.workspace.manifest.read_text()
        place.workspace.manifest.write_text(text.replace("allow_filesystems = []", 'allow_filesystems = ["nfs4"]'))
    monkeypatch.setattr(filesystem, "judge", lambda folder: Verdict(kind, "nfs4", "/mnt", "locks are not kept"))
    found = one(look(place, app), "file system")
    assert (found.verdict, "nfs4" in found.sentence) == (verdict, True)


def test_low_disk(place: Any, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk below the floor is bad, with both numbers and what makes room."""
    monkeypatch.setattr(space, "floor", lambda path: space.Space(10, 20))
    found = one(look(place, app), "free space")
    assert (found.verdict, found.sentence) == (
        "bad",
        "10 bytes are free, the floor is 20: no job is taken or started",
    )
    assert "purge" in str(found.next_step)


def test_open_permissions(place: Any, app: App) -> None:
    """A folder or file that others may read is named with its mode, and the command that closes it is right."""
    place.close()
    place.workspace.ledger.chmod(0o644)
    place.workspace.wake_folder.chmod(0o755)
    found = one(look(place, app), "permissions")
    assert found.verdict == "bad"
    assert ".perenne/ledger.sqlite (0644)" in found.sentence
    assert ".perenne/wake (0755)" in found.sentence
    subprocess.run(str(found.next_step), shell=True, check=True)
    assert one(look(place, app), "permissions").verdict == "ok"


@pytest.mark.parametrize("gone", ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"])
def test_missing_files_of_the_ledger(place: Any, app: App, gone: str) -> None:
    """A missing ledger or companion is told; the doctor does not make one to look further."""
    place.close()
    (place.workspace.own_folder / gone).unlink()
    findings = look(place, app)
    found = one(findings, "ledger")
    assert found.verdict == "bad"
    assert gone in found.sentence
    assert not (place.workspace.own_folder / gone).exists()
    assert one(findings, "permissions").verdict == "ok"


@pytest.mark.parametrize("damage", ["text", "foreign", "other workspace", "newer", "older"])
def test_ledger_that_cannot_be_opened(place: Any, app: App, damage: str, trouble: Any) -> None:
    """A ledger that will not open is a finding with the reason; the folder is looked at all the same."""
    place.close()
    path = place.workspace.ledger
    if damage == "text":
        path.write_text("not a database")
    else:
        statement = {
            "foreign": "pragma application_id = 5",
            "other workspace": "update store set workspace = '99999999-9999-4999-8999-999999999999'",
            "newer": "pragma user_version = 99",
            "older": "pragma user_version = 1",
        }[damage]
        trouble.rows(path, statement)
        sqlite.open(path, mode="write").close()
    findings = look(place, app)
    wrong = [f for f in findings if f.verdict == "bad"]
    assert {f.name for f in wrong} <= {"ledger", "schema"}
    assert named(wrong, "ledger")
    assert all(f.next_step for f in wrong)
    if damage in ("newer", "older"):
        expected = {"newer": ("bad", "use the newer program"), "older": ("warn", "migrate --plan")}[damage]
        assert one(findings, "schema").verdict == expected[0]
        assert expected[1] in str(one(findings, "schema").next_step)


def test_damage_is_found_when_asked_for(place: Any, app: App, trouble: Any) -> None:
    """A dangling reference deep in the file is found by the deep look, which says to restore."""
    place.complete()
    place.close()
    trouble.rows(place.workspace.ledger, "update attempt set job = 99")
    sqlite.open(place.workspace.ledger, mode="write").close()
    assert named(look(place, app), "integrity") == []
    found = one(look(place, app, deep=True), "integrity")
    assert (found.verdict, "attempt" in found.sentence) == ("bad", True)
    assert "restore" in str(found.next_step)


def test_long_wal_names_who_reads(place: Any, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WAL above a limit is told with its size, its limits and who holds an old view."""
    place.complete()
    assert one(look(place, app), "wal").verdict == "ok"
    monkeypatch.setattr(checkpoints, "SOFT_BYTES", 10)
    reader = sqlite.open(place.workspace.ledger, mode="read")
    reader.execute("begin; select 1 from job")
    found = one(look(place, app), "wal")
    assert found.verdict == "warn"
    assert f"this process ({os.getpid()})" in found.sentence
    monkeypatch.setattr(checkpoints, "HARD_BYTES", 20)
    assert one(look(place, app), "wal").verdict == "bad"
    reader.close()


def test_stopped_holder_of_the_write_lock_is_named(place: Any, app: App) -> None:
    """A process that holds the write lock is named; one that is stopped is bad, with the commands that help."""
    with process(WRITER, place.workspace.ledger, says="held") as other:
        found = one(look(place, app), "write lock")
        assert (found.verdict, str(other.pid) in found.sentence) == ("ok", True)
        os.kill(other.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
        found = one(look(place, app), "write lock")
        assert found.verdict == "bad"
        assert f"process {other.pid} (" in found.sentence
        assert "is stopped" in found.sentence
        assert str(found.next_step).startswith(f"continue it (kill -CONT {other.pid})")
    assert one(look(place, app), "write lock").sentence == "nobody holds the write lock"


def test_live_stopped_and_dead_workers(place: Any, app: App) -> None:
    """A live worker is ok, a stopped one a warning, a dead one a warning with the job it lost (C20, C22, C27)."""
    id = place.submit()
    place.close()
    with process(WORKER, place.workspace.root, says="running") as worker:
        findings = look(place, app)
        assert one(findings, "owners").verdict == "ok"
        assert str(worker.pid) in one(findings, "owners").sentence
        assert one(findings, "running").sentence == "1 attempts run in live workers"
        assert {one(findings, "stages").verdict, one(findings, "pipes").verdict} == {"ok"}
        os.kill(worker.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
        found = one(look(place, app), "owners")
        assert found.verdict == "warn"
        assert f"kill -CONT {worker.pid}" in str(found.next_step)
    findings = look(place, app)
    assert one(findings, "owners").verdict == "warn"
    assert "it is dead" in one(findings, "owners").sentence
    lost, summary = named(findings, "running")
    assert lost.sentence.startswith(f"job {id}, attempt 1: owner lost since ")
    assert summary.sentence == "0 attempts run in live workers"
    assert one(findings, "pipes").verdict == "warn"
    assert one(findings, "stages").verdict == "ok", "its attempt is still open in the ledger"


def test_duration_stops_at_the_last_proof_of_life(place: Any, app: App) -> None:
    """What the dead owner itself wrote last ends the duration; what others wrote later does not lengthen it (C27)."""
    place.now = 1_000_000_000_000_000  # long ago, so that file times are later
    id = place.submit()
    token = place.claim()
    place.tick(100)
    place.ledger.progress(token, 1, 2, None, now=place.now)
    last_s = 100.0
    assert f"after {last_s:.1f} s" in named(look(place, app), "running")[0].sentence
    assert "owner lost since 2001-09-09T01:48:22Z" in named(look(place, app), "running")[0].sentence
    place.tick(5000)
    place.ledger.tell(id, events.Pause(), now=place.now, actor="person:test")
    assert "after 0.0 s" in named(look(place, app), "running")[0].sentence, "progress was overwritten: less, never more"
    place.now += 10_000_000_000_000
    log = place.workspace.log_of(id)
    log.write_text("{}\n")
    log.chmod(0o600)
    at_s = 1_000_000_000 + 102 + 60
    os.utime(log, (at_s, at_s))
    assert "after 160.0 s" in named(look(place, app), "running")[0].sentence


def test_owner_that_left_with_an_open_attempt(place: Any, app: App) -> None:
    """An attempt whose owner is said to have left is lost all the same; a row that is gone hides nothing (C20)."""
    place.submit()
    place.claim()
    place.owners.leave(place.owner.id, now=place.tick())
    findings = look(place, app)
    assert [(f.verdict, f.next_step) for f in named(findings, "owners")] == [("warn", "start a worker: it settles")]
    assert [f.verdict for f in named(findings, "running")] == ["warn", "ok"]
    place.close()
    with perenne.open(place.workspace.root, app, access="work") as engine:
        assert engine.work().recovered == 1


def test_operator_verbs_work_on_orphaned_jobs(place: Any, app: App) -> None:
    """Cancel and pause are taken for jobs of a dead worker, block nothing else, and are met by its recovery (C26)."""
    cancelled, paused, other = place.submit(), place.submit(), place.submit()
    for _ in range(2):
        place.claim()
    place.ledger.tell(cancelled, events.Cancel(), now=place.tick(), actor="person:test")
    place.ledger.tell(paused, events.Pause(), now=place.tick(), actor="person:test")
    assert len([f for f in named(look(place, app), "running") if f.verdict == "warn"]) == 2
    place.close()
    with perenne.open(place.workspace.root, app, access="work") as engine:
        assert engine.work().recovered == 2
        states = {id: engine.job(id).state for id in (cancelled, paused, other)}
    assert states == {cancelled: "CANCELLED", paused: "PAUSED", other: "COMPLETED"}
    assert troubles(look(place, app)) == set()


def test_contradictions_are_told(place: Any, app: App) -> None:
    """Wrong counts and attempts without their job are bad, each with what is said and what is."""
    blocked = place.submit(place.submit())
    place.submit()
    place.claim()
    place.rows("update queue set unfinished = 9 where name = 'default'")
    place.rows(f"update job set unmet = 3 where id = '{blocked}'")
    place.rows("update attempt set ended_at = 1, outcome = 'failed'")
    place.rows("delete from history where seq = 1")
    findings = look(place, app)
    assert troubles(findings) >= {"counters", "dependencies", "attempts", "history"}
    assert "line 1 of the history is not the one of its birth" in one(findings, "history").sentence
    assert "it says 9 unfinished jobs, there are 3" in one(findings, "counters").sentence
    assert f"job {blocked}: it says 3 dependencies are missing, there are 1" in one(findings, "dependencies").sentence
    assert "its attempt 1 is not open" in one(findings, "attempts").sentence


def test_open_attempt_of_a_done_job(place: Any, app: App) -> None:
    """An attempt that stayed open although its job is done is told."""
    place.complete()
    place.rows("update attempt set ended_at = null, outcome = null")
    assert "it is COMPLETED, but its attempt 1 is open" in one(look(place, app), "attempts").sentence


def test_jobs_that_wait_for_a_person(place: Any, app: App) -> None:
    """Each job in doubt or stuck is named with its reason and what a person can do; one that waits for jobs is not."""
    doubted = place.submit()
    place.end(place.claim(), events.Doubted("two results"))
    missing = place.submit()
    place.end(place.claim(), events.Missing("exiftool is not installed"))
    failed = place.submit()
    place.end(place.claim(), events.GaveUp("no"))
    stuck = place.submit(failed)
    patient = place.submit(place.submit())
    findings = look(place, app)
    doubt = one(findings, "in doubt")
    assert (doubted in doubt.sentence, "two results" in doubt.sentence, doubt.verdict) == (True, True, "warn")
    assert "resolve it as COMPLETED, QUEUED or FAILED" in str(doubt.next_step)
    blocked = {f.sentence.split(",")[0].removeprefix("job "): f for f in named(findings, "blocked")}
    assert blocked.keys() == {missing, stuck}
    assert patient not in blocked
    assert "exiftool" in blocked[missing].sentence
    assert "install what is missing" in str(blocked[missing].next_step)
    assert "requeue or resolve the job it waits for" in str(blocked[stuck].next_step)


def test_many_are_named_in_part(place: Any, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many only the first are named, and that there are more is said."""
    monkeypatch.setattr(doctor_work, "MOST", 3)
    for _ in range(5):
        place.submit()
        place.end(place.claim(), events.Doubted("two results"))
        place.submit()
    for _ in range(5):
        place.claim()
    findings = look(place, App("upkeep", [Kind("note", 1, lambda context, text: text, str)]))
    assert len(named(findings, "in doubt")) == 4
    assert len(named(findings, "running")) == 3 + 1 + 1
    assert "2 more attempts" in named(findings, "running")[3].sentence


def test_unknown_kinds(place: Any, app: App) -> None:
    """Unfinished jobs of a kind or version that nobody here knows are told by kind, with their number."""
    for kind in ("note", "other", "other"):
        place.submit(kind=kind)
    place.cancel(place.submit(kind="gone"))
    found = one(look(place, app), "kinds")
    assert found.sentence == "2 unfinished jobs of kind other@1, which app upkeep does not know here"
    assert found.verdict == "warn"


def test_controls_are_told(place: Any, app: App) -> None:
    """A paused workspace and a stopped queue are told, since nothing starts there."""
    place.ledger.control("pause", None, now=place.tick(), actor="person:test")
    place.ledger.control("stop", "default", now=place.tick(), actor="person:test")
    assert one(look(place, app), "controls").sentence == "paused or stopped: the workspace, queue default"


def test_leftovers_are_told(place: Any, app: App, tmp_path: Path) -> None:
    """Half-made files, dead pipes, folders of ended attempts and logs of unknown jobs are told with their remedies."""
    own = place.workspace.own_folder
    id = place.complete()
    for path in (
        place.workspace.root / "workspace.toml.stage-0",
        own / "ledger.sqlite.stage-1",
        own / "export-2.sqlite",
        place.workspace.log_of("33333333-3333-4333-8333-333333333333"),
        place.workspace.log_of(id),
        own / "logs" / "engine.jsonl",
    ):
        path.touch(0o600)
    (place.workspace.stage_folder / "ab").mkdir(0o700)
    os.mkfifo(place.workspace.wake_folder / "cd", 0o600)
    findings = look(place, app)
    assert "export-2.sqlite, ledger.sqlite.stage-1, workspace.toml.stage-0" in one(findings, "leftovers").sentence
    assert "logs of 1 jobs" in one(findings, "logs").sentence
    assert one(findings, "stages").sentence.endswith(": ab")
    assert "1 pipes" in one(findings, "pipes").sentence
    assert {one(findings, name).verdict for name in ("leftovers", "logs", "stages", "pipes")} == {"warn"}


def test_lock_of_a_worker_that_never_began(place: Any, app: App) -> None:
    """A lock file that nobody holds and no worker's row names is told; one that is held is a worker's that begins."""
    path = place.workspace.lock_of("44444444-4444-4444-8444-444444444444")
    lock = Lock.take(path)
    assert lock
    with lock:
        assert one(look(place, app), "owner locks").verdict == "ok"
    found = one(look(place, app), "owner locks")
    assert (found.verdict, path.name in found.sentence) == ("warn", True)


def test_export_under_way_is_no_leftover(place: Any, app: App) -> None:
    """The copy of an export that runs is not called a leftover."""
    (place.workspace.own_folder / "export-2.sqlite").touch(0o600)
    lock = Lock.take(place.workspace.own_folder / "export.lock")
    assert lock
    with lock:
        assert one(look(place, app), "leftovers").verdict == "ok"


def test_a_snapshot_that_is_being_written_is_no_leftover(place: Any, app: App) -> None:
    """The stage file of a live writer is not called a leftover; that of a dead one is, with who removes it."""
    (place.workspace.root / f"{snapshot.NAME}.stage-{'0' * 32}").touch(0o600)
    lock = Lock.take(place.workspace.snapshot_lock)
    assert lock
    with lock:
        assert one(look(place, app), "leftovers").verdict == "ok"
    found = one(look(place, app), "leftovers")
    assert (found.verdict, "removes its own" in (found.next_step or "")) == ("warn", True)


@pytest.mark.parametrize("name", ["perenne-snapshot.json.stage-1", "workspace.toml.stage-1"])
def test_who_was_done_meanwhile_left_nothing(place: Any, app: App, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was listed half-made and has its own name by the time its lock is asked for is no leftover."""
    staged = place.workspace.root / name
    staged.touch(0o600)
    holders = kernel_locks.holders

    def done_now(path: Path) -> Any:
        staged.unlink(missing_ok=True)
        return holders(path)

    monkeypatch.setattr(kernel_locks, "holders", done_now)
    assert one(look(place, app), "leftovers").verdict == "ok"


def test_replaced_ledgers_are_mentioned(place: Any, app: App, tmp_path: Path) -> None:
    """A ledger that a restore kept is mentioned with its size."""
    backup.backup(place.workspace, tmp_path / "saved.sqlite", copies=copies)
    place.close()
    backup.restore(place.workspace, tmp_path / "saved.sqlite", copies=copies, clock=place.clock(), actor="person:test")
    found = one(look(place, app, deep=True), "replaced")
    assert found.verdict == "ok"
    assert "1 files" in found.sentence
    assert troubles(look(place, app, deep=True)) == set()


def test_look_that_fails_keeps_no_other(
    place: Any, app: App, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any]
) -> None:
    """A look that cannot be taken is a finding of its own, and all others are taken."""
    place.close()
    shutil.rmtree(place.workspace.wake_folder)
    findings = look(place, app)
    assert one(findings, "pipes").verdict == "bad"
    assert "No such file" in one(findings, "pipes").sentence
    assert len({finding.name for finding in findings}) >= 20


def test_system_without_a_list_of_locks(place: Any, app: App, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the system does not show locks, no worker is called dead."""
    from perenne.files import kernel_locks

    place.submit()
    place.claim()
    monkeypatch.setattr(kernel_locks, "LIST", tmp_path / "missing")
    findings = look(place, app)
    assert "does not show whether it lives" in one(findings, "owners").sentence
    assert one(findings, "running").verdict == "ok"


def test_large_ledger_is_looked_at_in_seconds(place: Any, app: App) -> None:
    """A hundred thousand jobs are looked through in a few seconds."""
    import time

    Notices(place.driver).register("listener", now=place.now)
    place.fill(100_000)
    started = time.monotonic()
    assert troubles(look(place, app, deep=True)) == set()
    assert time.monotonic() - started < 8
    assert place.reader.counts() == {JobState.COMPLETED: 100_000}


def test_confinement_that_is_not_offered_is_told(place: Any, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without confinement is a warning, and bad for an app with a kind that requires it, which is named."""
    place.complete()
    monkeypatch.setattr(confine, "offer", lambda: confine.Offer("offline", "seccomp", "the kernel offers no Landlock"))
    found = one(look(place, app), "confinement")
    assert (found.verdict, "no Landlock" in found.sentence) == ("warn", True)
    strict = replace(app, kinds=[*app.kinds, Kind("trial.strict", 1, print, None, confinement="stage")])
    found = one(look(place, strict), "confinement")
    assert (found.verdict, "trial.strict@1 require more" in found.sentence) == ("bad", True)


@pytest.mark.parametrize(
    ("limit_s", "isolation", "verdicts"),
    [(None, "thread", []), (60.0, "process", ["ok"]), (60.0, "thread", ["warn"])],
)
def test_a_hard_limit_in_a_thread_is_named(place: Any, limit_s: float, isolation: Any, verdicts: list[str]) -> None:
    """E-F5: kinds with a hard limit that do not use a child are listed."""
    kind = Kind("slow", 1, print, Any, wall_limit_s=limit_s, isolation=isolation)
    found = named(look(place, App(place.workspace.app, [kind])), "wall limits")
    assert [finding.verdict for finding in found] == verdicts
    assert all("slow@1" in finding.sentence for finding in found if finding.verdict == "warn")


def test_a_hard_limit_of_a_coroutine_is_in_order(place: Any) -> None:
    """E-R2: past its limit a coroutine is cancelled, so nobody is told to put it into a child."""

    async def wait(context: Any, input: object) -> None: ...

    app = App(place.workspace.app, [Kind("waits", 1, wait, Any, wall_limit_s=60.0)])
    assert [finding.verdict for finding in named(look(place, app), "wall limits")] == ["ok"]


def test_the_app_says_what_it_sees(place: Any) -> None:
    """An app's own look stands among the findings, deep or not as asked; one that fails is a finding too."""

    def looks(root: Path, deep: bool) -> Iterator[Any]:
        assert root == place.workspace.root
        yield "shelf", "warn", f"deep: {deep}", "sort it"

    def fails(root: Path, deep: bool) -> Iterator[Any]:
        raise LookupError("no shelf")

    for deep in (False, True):
        found = one(look(place, App("upkeep", doctor=looks), deep=deep), "shelf")
        assert found == Finding("shelf", "warn", f"deep: {deep}", "sort it")
    assert "no shelf" in one(look(place, App("upkeep", doctor=fails)), "upkeep").sentence
    with pytest.raises(InvalidInput, match="doctor: 'no'; give a function"):
        App("upkeep", doctor="no")  # type: ignore[arg-type]

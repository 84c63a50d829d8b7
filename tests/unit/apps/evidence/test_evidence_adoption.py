"""Investigations of the reference program are taken over: every job once, or nothing at all (EV-2)."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from perenne import Engine, errors
from perenne.apps.evidence import catalogue, rows
from perenne.apps.evidence.commands import adoption, exporting, opening
from perenne.files.lock import Lock

sys.path.insert(0, str(Path(__file__).parents[3] / "reference"))

from reference_workspace import AT, STORE, Reference, named, seasoned

AT_US = 1_790_456_400_000_000


def _bytes(root: Path) -> dict[str, bytes]:
    """Every file but locks, which say who asked, and the memory of SQLite."""
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(root)): path.read_bytes() for path in files if not path.name.endswith("-shm")}


def _table(store: Path, statement: str) -> list[Any]:
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def _states(engine: Engine) -> dict[str, str]:
    return {word: str(engine.job(named(word)).state) for word in WORDS}


SETTLED = {
    "done": "COMPLETED",
    "published": "COMPLETED",
    "interrupted": "QUEUED",
    "unwanted": "CANCELLED",
    "exhausted": "DEAD",
    "waiting": "BLOCKED",
    "failed": "FAILED",
    "stuck": "BLOCKED",
    "cancelled": "CANCELLED",
    "doubted": "RECOVERY_REQUIRED",
    "limited": "BLOCKED",
    "limited again": "QUEUED",
    "retried": "RETRY_WAIT",
    "strange": "BLOCKED",
}
WORDS = tuple(SETTLED)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_job_comes_over_and_is_settled(tmp_path: Path, version: int) -> None:
    """Of each version every job comes with its state; what ran is settled by what it had published."""
    made = seasoned(tmp_path / "case", version)
    done = adoption.adopt(made.root)
    assert (done.jobs, done.plans, done.reused) == (len(WORDS), int(version > 1), False)
    with opening.opened(made.root, "read") as engine:
        assert _states(engine) == SETTLED
        published = engine.job(named("published"))
        assert (published.diagnostic, published.number) == ("recovered_after_publish", 1)
        assert engine.job(named("stuck")).reason == "dependency_failed"
        assert engine.job(named("limited")).reason == "active_time_limit"
        assert len((engine.job(named("failed")).diagnostic or "").encode()) == 2048


def test_ids_attempts_and_times_are_kept(tmp_path: Path) -> None:
    """A job keeps its ids, its instants, its attempts with their owners, and every line of its history."""
    made = seasoned(tmp_path / "case", 3)
    adoption.adopt(made.root)
    with opening.opened(made.root, "read") as engine:
        job = engine.job(named("done"))
        assert json.loads(job.publications) == {
            "extraction": named("done request"),
            "derivative": named("done derivative"),
        }
        assert (job.requested_at, job.finished_at) == (AT_US, AT_US + 5_000_000)
        assert (job.number, job.interruptions, job.max_attempts) == (2, 1, 3)
        first, second = engine.attempts(job.id)
        assert (first.id, first.owner, str(first.outcome)) == (
            named("done attempt 1"),
            named("done owner 1"),
            "interrupted",
        )
        assert (second.ended_at, str(second.outcome)) == (AT_US + 5_000_000, "completed")
        verbs = [line.verb for line in engine.history(job_id=job.id)]
        assert verbs == ["submit", "claim", "requeue_interrupted", "claim", "complete"]


@pytest.mark.parametrize("version", [1, 3])
def test_the_work_goes_on(tmp_path: Path, version: int) -> None:
    """After adoption a worker ends what was left, in the order of the reference, each extraction once."""
    made = seasoned(tmp_path / "case", version)
    adoption.adopt(made.root)
    with opening.opened(made.root, "work") as engine:
        engine.work()
        states = _states(engine)
    left = dict.fromkeys(("interrupted", "waiting", "limited again", "retried"), "COMPLETED")
    assert states == SETTLED | left
    with catalogue.reading(made.root) as connection:
        found = rows.extraction_ids(connection)
    wanted = [named(f"{word} request") for word in ("done", "published", *left)]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_store_becomes_version_3_row_by_row(tmp_path: Path, version: int) -> None:
    """Migration adds columns and tables to the file and changes no row of it (L:M-2, M-4)."""
    made = seasoned(tmp_path / "case", version)
    columns = "attempt_id, job_id, rank, owner_token, started_at, heartbeat_at, finished_at, state, diagnostic"
    asked = [
        "select * from jobs",
        f"select {columns} from attempts",
        "select * from transitions",
        "select * from controls",
    ]
    before = [_table(made.store, one) for one in asked]
    adoption.adopt(made.root)
    assert [_table(made.store, one) for one in asked] == before
    assert _table(made.store, "select value from metadata where key = 'schema_version'") == [("3",)]
    assert _table(made.store, "select count(*) from plans") == [(int(version > 1),)]


def test_a_store_of_version_3_stays_byte_for_byte(tmp_path: Path) -> None:
    """The adopted file is read and never written."""
    made = seasoned(tmp_path / "case", 3)
    before = made.store.read_bytes()
    done = adoption.adopt(made.root)
    with opening.opened(made.root, "work") as engine:
        engine.work()
    assert made.store.read_bytes() == before
    assert done.sha256 == hashlib.sha256(before).hexdigest()


def test_twice_is_once(tmp_path: Path) -> None:
    """A second adoption of the same store finds everything done."""
    made = seasoned(tmp_path / "case", 2)
    adoption.adopt(made.root)
    with opening.opened(made.root, "read") as engine:
        before = (engine.jobs(), engine.history())
    assert adoption.adopt(made.root).reused
    with opening.opened(made.root, "read") as engine:
        assert (engine.jobs(), engine.history()) == before


def test_controls_and_plans_come_too(tmp_path: Path) -> None:
    """A paused store makes a paused workspace, and its plans stand in the snapshot with their computed state."""
    made = Reference(tmp_path / "case", 2, paused=True)
    made.job("waiting", "QUEUED")
    made.write()
    adoption.adopt(made.root)
    with opening.opened(made.root, "write") as engine:
        assert engine.controls().paused
        (plan,) = json.loads(exporting.export(engine).read_bytes())["plans"]
    assert plan == {
        "plan_id": named("plan"),
        "idempotency_key": named("plan key"),
        "profile_id": "SPECIMEN_SMALL",
        "input_revision": "7",
        "created_at": AT,
        "state": "PAUSED",
        "max_analyses": 2,
        "max_attempts_total": 3,
        "max_source_bytes": 8 << 20,
        "max_active_ms": 30_000,
        "reserved_analyses": 1,
        "reserved_attempts": 1,
        "reserved_source_bytes": 100,
        "consumed_attempts": 1,
        "consumed_active_ms": 10_000,
        "remaining_attempts": 2,
        "remaining_active_ms": 20_000,
        "running_jobs": 0,
        "pending_jobs": 1,
        "completed_jobs": 0,
        "failed_jobs": 0,
        "cancelled_jobs": 0,
        "recovery_jobs": 0,
    }


def test_an_empty_store_is_adopted(tmp_path: Path) -> None:
    """An investigation without a job opens after adoption."""
    made = Reference(tmp_path / "case")
    made.write()
    assert adoption.adopt(made.root).jobs == 0
    with opening.opened(made.root, "read") as engine:
        assert engine.jobs() == []


def test_two_active_jobs_for_one_evidence_are_refused_until_one_is_given_up(tmp_path: Path) -> None:
    """Both are named with the command that helps; a job that has published is not given up (T-13)."""
    made = Reference(tmp_path / "case", 2)
    first = made.job("published", "RUNNING", tried=["RUNNING"])
    second = made.job("second", "QUEUED", of="published")
    made.publish("published")
    made.write()
    before = _bytes(made.root)
    with pytest.raises(errors.NotAllowed, match=f"{first} and {second}.*adopt --cancel {second}"):
        adoption.adopt(made.root)
    with pytest.raises(errors.NotAllowed, match="has published"):
        adoption.adopt(made.root, cancel=first)
    with pytest.raises(errors.NotAllowed, match="is none of two"):
        adoption.adopt(made.root, cancel=named("nobody"))
    assert _bytes(made.root) == before
    adoption.adopt(made.root, cancel=second)
    assert adoption.adopt(made.root, cancel=second).reused
    with opening.opened(made.root, "read") as engine:
        assert [str(engine.job(id).state) for id in (first, second)] == ["COMPLETED", "CANCELLED"]


def _set(statement: str) -> Callable[[Path], None]:
    def change(store: Path) -> None:
        connection = apsw.Connection(str(store))
        connection.execute(statement)
        connection.close()

    return change


def _cut(store: Path) -> None:
    store.write_bytes(store.read_bytes()[:5000])


def _linked(store: Path) -> None:
    store.rename(store.with_name("elsewhere"))
    store.symlink_to("elsewhere")


BAD: dict[str, tuple[Callable[[Path], object], type[errors.EngineError], str]] = {
    "version 4": (
        _set("update metadata set value = '4' where key = 'schema_version'"),
        errors.SchemaTooNew,
        "version 4",
    ),
    "version 99": (_set("update metadata set value = '99' where key = 'schema_version'"), errors.SchemaTooNew, "99"),
    "version 0": (_set("update metadata set value = '0' where key = 'schema_version'"), errors.StoreForeign, "'0'"),
    "no version": (_set("delete from metadata"), errors.StoreForeign, "schema version None"),
    "another's": (
        _set("update metadata set value = 'x' where key = 'investigation_id'"),
        errors.StoreForeign,
        "belongs to investigation 'x'",
    ),
    "another program's": (_set("drop table transitions"), errors.StoreForeign, "transitions without"),
    "nobody's": (_set("drop table metadata"), errors.StoreForeign, "no job store"),
    "no database": (lambda store: store.write_bytes(b"any"), errors.StoreForeign, "jobs.sqlite"),
    "empty": (lambda store: store.write_bytes(b""), errors.StoreForeign, "jobs.sqlite"),
    "cut": (_cut, errors.StoreFailed, "jobs.sqlite"),
    "absent": (Path.unlink, errors.StoreMissing, "nothing to adopt"),
    "a link": (_linked, errors.StoreMissing, "regular file"),
    "in WAL mode": (_set("pragma journal_mode = wal"), errors.StoreForeign, "WAL mode"),
    "two controls": (_set("delete from controls"), errors.StoreForeign, "controls"),
    "a dangling row": (_set("update attempts set job_id = 'x'"), errors.StoreFailed, "damaged"),
    "an instant": (_set("update jobs set requested_at = 'noon'"), errors.InvalidInput, "requested_at: 'noon'"),
    "a capability": (_set("update jobs set capability_id = 'x'"), errors.InvalidInput, "capability_id: 'x'"),
    "parameters": (_set("update jobs set parameters_json = '['"), errors.InvalidInput, "cannot be analysed"),
    "a blob": (_set("update jobs set diagnostic = x'ff'"), errors.InvalidInput, "diagnostic"),
    "a number": (_set("update jobs set revision = 'x'"), errors.InvalidInput, "revision: 'x'"),
    "attempts": (_set("update jobs set max_attempts = 0"), errors.InvalidInput, "max_attempts"),
    "an id": (_set("update jobs set request_id = 'X'"), errors.InvalidInput, "publications"),
    "a count": (_set("update jobs set state = 'RUNNING', attempt_count = 2"), errors.InvalidInput, "attempt_count: 2"),
    "no attempt": (_set("delete from attempts; update jobs set state = 'RUNNING'"), errors.InvalidInput, "RUNNING"),
    "a circle": (_set("update jobs set dependency_job_id = job_id"), errors.InvalidInput, "dependency_job_id"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_store_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    """Whatever is wrong with a store, the refusal names it, and no file is made or changed."""
    spoil, family, words = BAD[what]
    made = Reference(tmp_path / "case")
    made.job("one", "QUEUED", tried=["INTERRUPTED"])
    made.write()
    spoil(made.store)
    before = _bytes(made.root)
    with pytest.raises(family) as refused:
        adoption.adopt(made.root)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    after = _bytes(made.root)
    assert {name: after[name] for name in before} == before
    assert not (made.root / "workspace.toml").exists()


def test_a_store_that_changed_afterwards_is_refused(tmp_path: Path) -> None:
    """When the reference program goes on with its own file, nothing is opened, and the program to stop is named."""
    made = seasoned(tmp_path / "case", 3)
    adoption.adopt(made.root)
    _set("update controls set paused = 1")(made.store)
    for attempt in (lambda: adoption.adopt(made.root), lambda: opening.opened(made.root, "read").__enter__()):
        with pytest.raises(errors.StoreForeign, match=r"changed after.*stop that program \(local-jobs\)"):
            attempt()


def test_a_living_worker_is_not_disturbed(tmp_path: Path) -> None:
    """While the reference program's worker holds its lock nothing is adopted or made."""
    made = seasoned(tmp_path / "case", 3)
    lock = Lock.take(made.root / ".labfy/runtime/worker.lock", text="")
    assert lock is not None
    with lock, pytest.raises(errors.WorkerAlreadyRuns):
        adoption.adopt(made.root)
    assert not (made.root / "workspace.toml").exists()


def test_a_worker_that_cannot_be_asked_for_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the worker's lock cannot be asked for, the adoption lets go of its own, and the next one goes through."""
    made = seasoned(tmp_path / "case", 3)
    take = Lock.take

    def failing(path: Path, **named: Any) -> Lock | None:
        if path.name == "worker.lock":
            raise errors.StoreFailed("injected")
        return take(path, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Lock, "take", failing)
        with pytest.raises(errors.StoreFailed, match="injected"):
            adoption.adopt(made.root)
    assert adoption.adopt(made.root).jobs


def test_a_workspace_with_a_history_takes_no_store(tmp_path: Path) -> None:
    """A store that is laid beside a ledger with jobs of its own is refused; the ledger stays as it is."""
    other = seasoned(tmp_path / "other", 3)
    opening.create_specimen(tmp_path / "case")
    with opening.opened(tmp_path / "case", "write") as engine:
        id = engine.workspace.id
        engine.pause()
    (tmp_path / "case" / STORE).write_bytes(other.store.read_bytes())
    _set(f"update metadata set value = '{id}' where key = 'investigation_id'")(tmp_path / "case" / STORE)
    with pytest.raises(errors.StoreExists, match="history of its own"):
        adoption.adopt(tmp_path / "case")


def test_an_interrupted_making_is_made_again(tmp_path: Path) -> None:
    """A ledger that a killed adoption left without its manifest is replaced; one with jobs is not."""
    made = seasoned(tmp_path / "case", 3)
    ledger = made.root / ".labfy/runtime/ledger.sqlite"
    ledger.touch()
    adoption.adopt(made.root)
    (made.root / "workspace.toml").rename(tmp_path / "kept")
    with pytest.raises(errors.StoreExists, match="holds jobs"):
        adoption.adopt(made.root)
    (tmp_path / "kept").rename(made.root / "workspace.toml")
    assert adoption.adopt(made.root).reused


@pytest.mark.parametrize("synced", ["the journal", "both"])
def test_a_making_that_was_killed_in_its_transaction_is_made_again(tmp_path: Path, synced: str) -> None:
    """A ledger whose first transaction was not committed is replaced, with the journal that would take it back."""
    made = seasoned(tmp_path / "case", 3)
    ledger = made.root / ".labfy/runtime/ledger.sqlite"
    child = os.fork()
    if child == 0:
        connection = apsw.Connection(str(ledger))
        connection.pragma("cache_size", 1)  # what is changed is written before the commit
        connection.execute("create table half (made blob)")
        connection.execute("begin; insert into half values (zeroblob(100000))")
        os._exit(0)
    os.waitpid(child, 0)
    if synced == "the journal":
        ledger.write_bytes(b"")
    assert (made.root / ".labfy/runtime/ledger.sqlite-journal").exists()
    assert adoption.adopt(made.root).jobs
    assert not (made.root / ".labfy/runtime/ledger.sqlite-journal").exists()


def test_an_investigation_needs_its_catalogue(tmp_path: Path) -> None:
    """Without the catalogue every job would be in doubt, so nothing is adopted."""
    made = seasoned(tmp_path / "case", 3)
    (made.root / "Enquete.sqlite").unlink()
    with pytest.raises(errors.StoreMissing):
        adoption.adopt(made.root)
    assert not (made.root / "workspace.toml").exists()


@pytest.mark.parametrize("version", [1, 2])
def test_a_fault_in_the_migration_undoes_it(tmp_path: Path, version: int, failing_at: Callable[[str], Any]) -> None:
    """A fault after the tables and before the version leaves every byte as it was; the next try succeeds (L:M-3)."""
    made = seasoned(tmp_path / "case", version)
    before = made.store.read_bytes()
    with failing_at("adopt.altered"), pytest.raises(RuntimeError, match="injected"):
        adoption.adopt(made.root)
    assert made.store.read_bytes() == before
    assert adoption.adopt(made.root).jobs == len(WORDS)


def test_the_engine_adopts_only_under_the_workers_lock(tmp_path: Path) -> None:
    """Who did not open the workspace for work cannot adopt; a wrong record is named, and nothing is there."""
    opening.create(tmp_path / "case", title="Case")
    with opening.opened(tmp_path / "case", "write") as engine, pytest.raises(errors.NotAllowed, match="worker's lock"):
        engine.adopt([], sha256="0" * 64)
    with opening.opened(tmp_path / "case", "work") as engine:
        with pytest.raises(errors.InvalidInput, match=r"record 0, a queue of default: .*nothing was adopted"):
            engine.adopt([{"record": "queue", "name": "default", "capacity": 0}], sha256="0" * 64)
        assert engine.history() == []

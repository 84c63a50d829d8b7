"""Taking over an investigation of the reference program: its jobs, attempts, history, controls and plans (EV-2).

What lives here: the order of the steps, each of which may be the last before a crash. What does not: the reference
program's file (`reference_store`), what its rows mean (`reference_records`), and what was adopted (`adopted`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec

import perenne
from perenne import crashpoints, sqlite, upkeep
from perenne.apps.evidence import adopted, app, catalogue, manifest, places, reference_records, reference_store
from perenne.apps.evidence.manifest import Investigation
from perenne.apps.evidence.reference_store import Content
from perenne.errors import EngineError, NotAllowed, StoreBusy, StoreExists, StoreForeign, WorkerAlreadyRuns
from perenne.files import atomic
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace

QUEUE_LIMIT = 128  # as many as a store of the reference program may hold
_LIFECYCLE_LOCK = ".labfy/lifecycle.lock"
_WORKER_LOCK = f"{places.RUNTIME}/worker.lock"
# The ledger first: without the others it may no longer be one, and then nobody could tell that it holds no job.
_LEDGER_FILES = (adopted.LEDGER, adopted.JOURNAL, f"{adopted.LEDGER}-wal", f"{adopted.LEDGER}-shm")


class Adopted(msgspec.Struct, frozen=True):
    """What came; `reused`: this very file was adopted before, and nothing was done."""

    jobs: int
    unfinished: int
    plans: int
    reused: bool
    sha256: str


def adopt(root: Path, *, cancel: str | None = None) -> Adopted:
    """Take over the store of the reference program that lies in `root`; the same store again does nothing.

    Args: cancel: a job to give up first, where two analyse the same evidence in the same way.
    Raises:
        StoreMissing: no investigation, no catalogue, no store. StoreFailed: one of them is damaged.
        StoreForeign, SchemaTooNew, SchemaTooOld: of another investigation or version, or it changed once adopted.
        StoreExists: this workspace has jobs of its own. WorkerAlreadyRuns, StoreBusy: somebody works on it.
        NotAllowed: two jobs are active where one may be, or the job to give up is none of two.
        InvalidInput: a row says what no job of ours could be. Nothing was adopted then, and the store is as it was.
    Guarantees: killed at any point and called again, every job is there once, and the store is whole: of its old
    version or of version 3, and never changed again.
    """
    root = root.absolute()
    held = manifest.read(root)
    _check(root, held, cancel)
    with _alone(root):
        made = _make_workspace(root, held)
        try:
            with perenne.open(root, app, access="work") as engine:
                return _take_over(engine, held, cancel)
        except EngineError:
            if made is not None and adopted.digest_of(root) is None:
                made.remove()
            raise


def _check(root: Path, held: Investigation, cancel: str | None) -> None:
    """All that can be asked before anything is made, so that a refusal leaves nothing behind."""
    with catalogue.reading(root) as connection:
        published = {str(row[0]) for row in connection.execute("select id from extractions")}
    content = reference_store.look(root, held.id)
    if adopted.digest_of(root) is not None:
        adopted.refuse_unadopted(root)
        return
    if cancel is not None and not _is_given_up(content, cancel):
        content = _without(content, cancel, published)
    reference_records.refuse_conflicts(content)
    upkeep.check_records(reference_records.records(content, QUEUE_LIMIT))


def _is_given_up(content: Content, job_id: str) -> bool:
    """An adoption that was killed afterwards did it."""
    return any(row["job_id"] == job_id and row["state"] == "CANCELLED" for row in content.jobs)


def _without(content: Content, cancel: str, published: set[str]) -> Content:
    """As it will be once this job is given up.

    Raises: NotAllowed: it is none of two that are active for the same, or it has published already.
    """
    if not any(cancel in ids for ids in reference_records.conflicts(content)):
        raise NotAllowed(
            f"cancel: job {cancel} is none of two that analyse the same evidence in the same way; nothing was adopted, "
            f"leave --cancel out and cancel it afterwards with `perenne evidence cancel`",
            job=cancel,
        )
    row = next(row for row in content.jobs if row["job_id"] == cancel)
    if row["request_id"] in published:
        raise NotAllowed(
            f"cancel: job {cancel} has published its extraction {row['request_id']}; nothing was adopted, "
            f"give up the other one",
            job=cancel,
        )
    jobs = [row | {"state": "CANCELLED"} if row["job_id"] == cancel else row for row in content.jobs]
    attempts = [one | {"state": "INTERRUPTED"} if one["job_id"] == cancel else one for one in content.attempts]
    return msgspec.structs.replace(content, jobs=jobs, attempts=attempts)


def _alone(root: Path) -> Lock:
    """The lock under which a workspace is made, at the place where the reference program has it.

    Raises: StoreBusy, WorkerAlreadyRuns.
    """
    places.make_folder_below(root, places.RUNTIME, "create.folder_made")
    lock = Lock.take(root / _LIFECYCLE_LOCK, text="an adoption\n")
    if lock is None:
        raise StoreBusy(f"{root / _LIFECYCLE_LOCK} is held: another process makes or adopts it; wait")
    with ExitStack() as undo:
        undo.enter_context(lock)
        worker = Lock.take(root / _WORKER_LOCK, text="an adoption\n")
        if worker is None:
            raise WorkerAlreadyRuns(
                f"{root / _WORKER_LOCK} is held: a worker owns this workspace; nothing was adopted, let it finish",
                path=str(root / _WORKER_LOCK),
            )
        worker.release()  # asked before anything is made; to open for work takes it again
        undo.pop_all()
    return lock


def _make_workspace(root: Path, held: Investigation) -> Workspace | None:
    """The engine's part of it, if it is not there; one of which a killed adoption wrote no manifest is made again."""
    if (root / "workspace.toml").exists():
        return None
    _remove_unfinished(root)
    bounded = replace(app, queues=dict.fromkeys(app.queues, QUEUE_LIMIT))
    return perenne.create(root, bounded, name=held.title, id=held.id, specimen=held.specimen)


def _remove_unfinished(root: Path) -> None:
    """Raises: StoreExists: the ledger holds jobs, so it is its manifest that was lost."""
    if not any(os.path.lexists(root / name) for name in _LEDGER_FILES):
        return
    if _has_jobs(root):
        raise StoreExists(
            f"{root / adopted.LEDGER} holds jobs, and {root / 'workspace.toml'} that names it is missing; nothing was "
            f"adopted, put that file back",
            path=str(root),
        )
    for name in _LEDGER_FILES:
        with atomic.explained(root / name, "removed"):
            (root / name).unlink(missing_ok=True)
        crashpoints.crash_point("adopt.leftover_removed")


def _has_jobs(root: Path) -> bool:
    path = root / adopted.LEDGER
    if not path.is_file() or path.stat().st_size == 0:
        return False
    # What was killed while it was made has a journal, which only who may write can take back.
    mode: sqlite.Mode = "write" if os.path.lexists(root / adopted.JOURNAL) else "read"
    with closing(sqlite.open(path, mode=mode)) as connection, sqlite.translated(path):
        try:
            return bool(connection.execute("select exists (select 1 from job)").get)
        except apsw.SQLError:
            return False


def _take_over(engine: perenne.Engine, held: Investigation, cancel: str | None) -> Adopted:
    """Asked again under the worker's lock, since the store may have changed until it was held."""
    root = engine.workspace.root
    if engine.workspace.id != held.id:
        raise StoreForeign(
            f"{root}: workspace.toml says {engine.workspace.id}, the manifest of the investigation {held.id}; "
            f"nothing was adopted, put the file back that belongs here",
            path=str(root),
        )
    _check(root, held, cancel)
    content = reference_store.look(root, held.id)
    if adopted.digest_of(root) is None:
        gone = [] if cancel is None or _is_given_up(content, cancel) else [cancel]
        reference_store.bring_up(root, held.id, gone)
        content = reference_store.look(root, held.id)
    sha256 = reference_store.digest(root)
    if sha256 is None:
        raise StoreBusy(f"{root / reference_store.PATH}: another program writes to it; stop it, then adopt again")
    found = reference_records.records(content, QUEUE_LIMIT)
    taken = engine.adopt(
        found, sha256=sha256, paused=content.paused, stopped=content.stopped, also=partial(_note, content, sha256)
    )
    unfinished = sum(one["record"] == "job" and one["finished_at"] is None for one in found)
    return Adopted(len(content.jobs), unfinished, len(content.plans), taken.reused, sha256)


def _note(content: Content, sha256: str, execute: Callable[[str, Any], Any]) -> None:
    """Our own rows, in the transaction of the jobs: which file it was, and its plans."""
    execute("insert into evidence_adopted (path, sha256) values (?, ?)", (reference_store.PATH, sha256))
    for plan in content.plans:
        execute(
            "insert into evidence_plan values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [plan[name] for name in adopted.PLAN_COLUMNS],
        )
    for link in content.plan_jobs:
        execute(
            "insert into evidence_plan_job (plan_id, rank, job_id) values (:plan_id, :rank, :job_id)",
            {"plan_id": link["plan_id"], "rank": link["rank"], "job_id": link["job_id"]},
        )

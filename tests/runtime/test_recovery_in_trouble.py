"""A recovery on a bad day: a folder or a file of the dead cannot be seen or removed, or nobody could tell what they
published.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perenne import Engine, JobState, Kind, Publication, Published, upkeep
from perenne.errors import StoreBusy, StoreFailed
from perenne.files.lock import Lock
from perenne.runtime import orphans
from perenne.store.ledger import Lane, Ledger
from perenne.store.owners import Owner

Trial = Any
MakeKind = Callable[..., Kind]
Trouble = Callable[..., None]
S = JobState


@pytest.fixture
def trouble() -> Iterator[Trouble]:
    """`trouble(call, words, error)`: this call of `os` fails where a path holds these words, until `trouble.over()`."""
    with pytest.MonkeyPatch.context() as patched:

        def begin(call: str, words: str, number: int = errno.EIO) -> None:
            real = getattr(os, call)

            def failing(*given: Any, **named: Any) -> Any:
                if given and words in str(given[0]):
                    raise OSError(number, os.strerror(number), str(given[0]))
                return real(*given, **named)

            patched.setattr(os, call, failing)

        begin.over = patched.undo  # type: ignore[attr-defined]
        yield begin


def nothing(context: Any, input: object) -> str:
    return "ran"


def leave_running(engine: Engine, kind: Kind) -> tuple[str, Path]:
    """A job whose attempt belongs to a dead worker, and the lock file of the child in which it ran."""
    job_id = engine.submit(kind, None).job_id
    dead = Owner(str(uuid.uuid4()), 4_000_000, "another boot", "1")
    now, attempt = engine._clock.now(), uuid.uuid4().hex
    engine._owners.join(dead, now=now)
    assert engine._ledger.claim([Lane(kind.name, kind.version)], owner=dead.id, attempt=attempt, now=now) is not None
    file = engine.workspace.lock_of_child(attempt)
    file.write_text(orphans.text_of(dead.id, 4_000_000, "1"))
    return job_id, file


@pytest.mark.parametrize(("call", "number"), [("listdir", errno.EMFILE), ("listdir", errno.EIO), ("open", errno.EIO)])
def test_children_that_cannot_be_seen_settle_nobody(
    trial: Trial, make_kind: MakeKind, trouble: Any, call: str, number: int
) -> None:
    """While a dead worker's children cannot be listed or read its attempts stay as they are, and the error is ours."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        job_id, file = leave_running(engine, kind)
        trouble(call, str(file if call == "open" else file.parent), number)
        with pytest.raises(StoreFailed, match="try again"):
            engine.work()
        assert engine.job(job_id).state is S.RUNNING
        trouble.over()
    with trial.open(kind) as engine:
        assert engine.work().recovered == 1
        assert engine.job(job_id).state is S.COMPLETED
    assert not file.exists()


@pytest.mark.parametrize("folder", ["owners", "children", "stage", "wake"])
@pytest.mark.parametrize("call", ["listdir", "scandir"])
def test_leftovers_that_cannot_be_seen_stop_no_worker(
    trial: Trial, make_kind: MakeKind, trouble: Any, folder: str, call: str
) -> None:
    """Sweeping is for order only: a folder that cannot be listed is left to the next worker, and jobs run."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        job_id = engine.submit(kind, None).job_id
        trouble(call, str(engine.workspace.own_folder / folder))
        engine.work()
        assert engine.job(job_id).state is S.COMPLETED


@pytest.mark.parametrize("call", ["open", "stat", "unlink"])
def test_a_lock_that_cannot_be_removed_stops_no_worker(
    trial: Trial, make_kind: MakeKind, trouble: Any, call: str
) -> None:
    """A lock file of an attempt that is over stays when the disk will not let it go, and the next worker removes it."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        left = engine.workspace.lock_of_child(uuid.uuid4().hex)
        left.touch()
        job_id = engine.submit(kind, None).job_id
        trouble(call, left.name)
        engine.work()
        assert engine.job(job_id).state is S.COMPLETED
        trouble.over()
        assert left.exists()
        engine.work()
        assert not left.exists()


def test_a_lock_of_a_settled_attempt_that_stays_fails_nobody(trial: Trial, make_kind: MakeKind, trouble: Any) -> None:
    """What was settled is settled, though the lock file of its child cannot be removed now."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        job_id, file = leave_running(engine, kind)
        trouble("unlink", file.name)
        assert engine.work().recovered == 1
        assert engine.job(job_id).state is S.COMPLETED
        trouble.over()
        engine.work()
        assert not file.exists()


def test_a_busy_store_keeps_no_lock_from_the_next_look(
    trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where settling must be tried again, the child's lock was let go of, so that its end can be proved again."""
    kind = make_kind(nothing)
    tries = []
    settle = Ledger.settle

    def once_busy(self: Ledger, *given: Any, **named: Any) -> Any:
        tries.append(given)
        if len(tries) == 1:
            assert Lock.take(file) is None, "whoever settles holds it"
            raise StoreBusy("busy once")
        return settle(self, *given, **named)

    monkeypatch.setattr(Ledger, "settle", once_busy)
    monkeypatch.setattr(orphans, "PATIENCE_S", 0.0)
    with trial.open(kind) as engine:
        job_id, file = leave_running(engine, kind)
        engine.work()
        assert engine.job(job_id).state is S.COMPLETED
    assert len(tries) == 2


class Desk:
    """Another store, with a stage file under a name that is never used twice, as `files.atomic` makes one."""

    def __init__(self, root: Path) -> None:
        self.staged, self.path, self.reads = root / "result.stage", root / "result", True

    def lookup(self, publication: Publication) -> Published:
        if not self.reads:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return Published.coherent("there") if self.path.exists() else Published.absent()

    def discard(self, publication: Publication) -> None:
        self.staged.unlink(missing_ok=True)

    def publish(self, context: Any, input: object) -> str:
        with self.staged.open("x"):
            context.publish(lambda publication: self.staged.rename(self.path))
        return "published"


def test_leftovers_of_an_attempt_in_doubt_make_no_later_one_fail(
    trial: Trial, make_kind: MakeKind, tmp_path: Path
) -> None:
    """E-P2: what could not be removed while nobody could look is removed before the next attempt runs."""
    desk = Desk(tmp_path)
    kind = make_kind(desk.publish, lookup=desk.lookup, discard=desk.discard)
    with trial.open(kind) as engine:
        job_id, _ = leave_running(engine, kind)
        desk.staged.touch()
        desk.reads = False
        engine.work()
        assert engine.job(job_id).state is S.RECOVERY_REQUIRED
        desk.reads = True
        engine.resolve(job_id, S.QUEUED, "nothing is published")
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.reason, job.failures) == (S.COMPLETED, "published", 0)


def test_leftovers_under_a_stranger_make_no_later_attempt_fail(
    trial: Trial, make_kind: MakeKind, tmp_path: Path
) -> None:
    """E-P2: a worker that did not know the kind could remove nothing; who knows it does so before it runs."""
    desk = Desk(tmp_path)
    kind = make_kind(desk.publish, lookup=desk.lookup, discard=desk.discard)
    with trial.open(kind) as engine:
        job_id, _ = leave_running(engine, kind)
        desk.staged.touch()
    with trial.open(make_kind(nothing, "trial.other")) as engine:
        assert engine.work().recovered == 1
    with trial.open(kind) as engine:
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.failures) == (S.COMPLETED, 0)


def test_leftovers_that_a_restore_forgot_make_no_attempt_fail(
    trial: Trial, make_kind: MakeKind, tmp_path: Path
) -> None:
    """E-P2: an attempt after the backup may have left something, and the restored ledger knows nothing of it."""
    desk = Desk(tmp_path)
    kind = make_kind(desk.publish, lookup=desk.lookup, discard=desk.discard)
    with trial.open(kind) as engine:
        job_id = engine.submit(kind, None).job_id
    upkeep.backup(trial.root, tmp_path / "saved.sqlite")
    upkeep.restore(trial.root, tmp_path / "saved.sqlite")
    desk.staged.touch()
    with trial.open(kind) as engine:
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.failures) == (S.COMPLETED, 0)


def test_what_is_published_does_not_run_again_because_nobody_could_look(
    trial: Trial, make_kind: MakeKind, tmp_path: Path
) -> None:
    """Section 6: cannot tell is not absent; a person lets the job go on, and what stands completes it uncalled."""
    desk, called = Desk(tmp_path), []
    kind = make_kind(lambda context, input: called.append(input), lookup=desk.lookup, discard=desk.discard)
    with trial.open(kind) as engine:
        job_id, _ = leave_running(engine, kind)
        desk.path.touch()
        desk.reads = False
        engine.work()
        job = engine.job(job_id)
        assert (job.state, job.reason, job.number) == (S.RECOVERY_REQUIRED, "publication_in_doubt", 1)
        desk.reads = True
        engine.resolve(job_id, S.QUEUED, "looked at, and found well")
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.reason, called) == (S.COMPLETED, "published_before_start", [])

"""The engine of one open workspace: submit, steer, look, wait, work.

What does not live here: opening (`wiring`), rules (`core`), rows (`store`), and how an attempt runs (`executor`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Unpack

from perenne import nearest
from perenne.app import App
from perenne.core import events, limits, takes
from perenne.core.artefact import Artefact
from perenne.core.job import Attempt, HistoryLine, Job, Queue, Receipt, Submission
from perenne.core.kind import Kind
from perenne.core.states import JobState
from perenne.errors import InvalidInput, NotAllowed
from perenne.files.artefacts import Store
from perenne.files.workspace import Workspace
from perenne.runtime import actor, keeping, takeover, wake
from perenne.runtime.clock import Clock
from perenne.runtime.completion import Completion
from perenne.runtime.ends import Ends
from perenne.runtime.executor import Executor
from perenne.runtime.joblog import JobLog
from perenne.runtime.luck import Luck
from perenne.runtime.owner import Holding
from perenne.runtime.recovery import Recovery
from perenne.runtime.submitter import Submitter
from perenne.runtime.tidier import Tidier
from perenne.runtime.transaction import Transaction
from perenne.runtime.transfer import Imported
from perenne.runtime.view import View
from perenne.runtime.worker import Report, Worker
from perenne.store.driver import Driver
from perenne.store.ledger import Ledger
from perenne.store.notices import Notice, Notices
from perenne.store.owners import Owner, Owners
from perenne.store.reader import Controls, Reader


class Engine:
    """One open workspace. Close it, or use it in a `with`."""

    def __init__(
        self, workspace: Workspace, app: App, driver: Driver, clock: Clock, luck: Luck, holding: Holding | None
    ) -> None:
        self.workspace, self.app = workspace, app
        self._driver, self._clock, self._luck, self._holding = driver, clock, luck, holding
        self._ledger, self._reader = Ledger(driver, self._ring), Reader(driver)
        self._notices, self._owners, self.view = Notices(driver), Owners(driver), View(workspace, driver)
        self._log = JobLog(workspace, "engine", 0, clock)
        self._ends = Ends(self._note, self._ring_others)
        self._bells, self._actor = wake.Bells(workspace.wake_folder), actor.person()
        self._worker: Worker | None = None
        read, by = self._reader.job, self._actor
        self._submitter = Submitter(workspace, app, self._ledger, clock, luck, self._ends, read, by)

    def request(self, kind: Kind | str, input: object, **wishes: Any) -> Submission:
        """A job to be submitted, with its id and every id it will ever publish under; nothing is stored yet.

        Args: kind: or its name (newest version). input: fits its input type. wishes: as `Wishes` names them.
        Raises: UnknownKind, InvalidInput, TooLarge.
        """
        return self._submitter.request(kind, input, wishes)

    def submit(self, kind: Kind | str, input: object, *, patience_s: float = 0.0, **wishes: Any) -> Receipt:
        """Store a job durably and wake an idle worker; the same key and content again gives the same job.

        Args: patience_s: how long to wait for room in a full queue. wishes: see `Wishes`, such as durability="relaxed".
        Raises: UnknownKind, InvalidInput, TooLarge, QueueFull, DuplicateJob, JobNotFound, DependencyCycle; the call
        then changed nothing.
        Guarantees: the job survives kill -9 and power loss once this returned; a relaxed one, as its receipt says, may
        be lost with the power until the next durable commit.
        """
        if patience_s != 0.0:
            takes.check(patience_s=patience_s)
        return self._submitter.enter([self._submitter.request(kind, input, wishes)], patience_s)[0]

    def submit_many(self, batch: Sequence[Submission], *, patience_s: float = 0.0) -> list[Receipt]:
        """Store what `request` made, all or none, in one transaction; members may wait for each other by id.

        One member that asks for durability makes all of them durable.
        Raises: as `submit`, naming the member; a circle of dependencies by its path.
        """
        takes.check(batch=batch, patience_s=patience_s)
        return self._submitter.enter(batch, patience_s)

    def transaction(self) -> Transaction:
        """For a `with`: jobs submitted in it (also by tasks), and the app's own statements, stand together or never.

        Raises: InvalidInput: the app's name is one that its tables cannot begin with.
        """
        told = (self._ring, self._ends, self._reader.job)
        return Transaction(self.app, self.request, self._driver, self._clock, self._actor, *told)

    def cancel(self, job_id: str, reason: str = "cancel_requested") -> Job:
        """Cancel a waiting job at once; ask a running one to end at its next boundary and stop its tool.

        Raises: JobNotFound, AlreadyFinished, NotAllowed.
        """
        return self._tell(job_id, events.Cancel(reason))

    def pause(self, job_id: str | None = None, *, queue: str | None = None) -> Job | None:
        """Pause a job, a queue (no new claims), or the whole workspace (neither given)."""
        return self._steer("pause", job_id, queue, events.Pause())

    def resume(self, job_id: str | None = None, *, queue: str | None = None) -> Job | None:
        """Let a job go on, or clear both pause and stop of a queue or of the workspace; starts no worker."""
        return self._steer("resume", job_id, queue, events.Resume())

    def stop(self, *, queue: str | None = None) -> None:
        """No new start; workers drain to their next boundary and, without a queue named, end."""
        self._steer("stop", None, queue, events.Pause())

    def release(self, job_id: str, reason: str) -> Job:
        """Let a BLOCKED job go on without what blocks it; the reason stays in the history."""
        return self._tell(job_id, events.Release(reason))

    def requeue(self, job_id: str, reason: str, *, from_start: bool = False) -> Job:
        """Start a FAILED, CANCELLED or DEAD job again, its spent attempts forgotten; the reason stays.

        Args: from_start: forget its checkpoint, too; else it goes on from there.
        """
        takes.check(from_start=from_start)
        return self._tell(job_id, events.Requeue(reason, from_start=from_start))

    def resolve(self, job_id: str, to: JobState, reason: str, *, from_start: bool = False) -> Job:
        """Settle a job in doubt as COMPLETED, QUEUED or FAILED; the reason stays in the history. Args: as `requeue`."""
        takes.check(to=to, from_start=from_start)
        return self._tell(job_id, events.Resolve(JobState(to), reason, from_start))

    def job(self, job_id: str) -> Job:
        """Raises: JobNotFound."""
        return self._reader.job(job_id)

    def jobs(self, *, state: JobState | None = None, after: int = 0, limit: int = 1000) -> list[Job]:
        """Jobs in the order of submission, from the one after place `after`."""
        takes.check(state=state, after=after, limit=limit)
        return self._reader.jobs(state=state, after=after, limit=limit)

    def attempts(self, job_id: str) -> list[Attempt]:
        """Every attempt of a job, oldest first."""
        takes.check(job_id=job_id)
        return self._reader.attempts(job_id)

    def artefacts(self, job_id: str) -> list[Artefact]:
        """The files that a job keeps, by name."""
        takes.check(job_id=job_id)
        return self._ledger.artefacts.of(job_id)

    def open_artefact(self, artefact: Artefact) -> BinaryIO:
        """Its bytes, to be read. Raises: StoreFailed: they are missing, unreadable or of another size."""
        return Store(self.workspace.artefacts_folder).open(artefact.digest, artefact.size_bytes)

    def save_artefact(self, artefact: Artefact, path: Path) -> None:
        """Write its bytes to a new file. Raises: StoreExists; StoreFailed: also when the bytes are damaged; DiskLow."""
        keeping.write_out(self.workspace, artefact, path)

    def history(self, *, job_id: str | None = None, after: int = 0, limit: int = 1000) -> list[HistoryLine]:
        """Every change with its reason, time and actor, oldest first."""
        takes.check(job_id=job_id, after=after, limit=limit)
        return self._reader.history(job_id=job_id, after=after, limit=limit)

    def counts(self) -> dict[JobState, int]:
        return self._reader.counts()

    def queues(self) -> list[Queue]:
        return self._reader.queues()

    def controls(self) -> Controls:
        return self._reader.controls()

    def revision(self) -> int:
        """Grows with every change."""
        return self._reader.revision()

    def on_end(self, listener: Callable[[Job], None]) -> None:
        """Call `listener` with each job whose end this process writes, once, after it is durable."""
        takes.check(listener=listener)
        self._ends.add(listener)

    def listen(self, name: str) -> None:
        """Keep a notice of every end from now on, for `deliver` under this name."""
        takes.check(name=name)
        self._notices.register(name, now=self._clock.now())

    def deliver(self, name: str, receive: Callable[[Notice], None], limit: int = 1000) -> int:
        """Hand over what is not acknowledged yet, oldest first; a notice is acknowledged once `receive` returned.

        Guarantees: a notice that `receive` did not return from is delivered again, under the same id.
        """
        takes.check(name=name, receive=receive, limit=limit)
        return self._notices.deliver(name, receive, limit)

    def wait(self, job_id: str, timeout_s: float | None = None) -> Job:
        """The job once it has ended and the listeners of this process returned; or as it stands when time is over."""
        takes.check(timeout_s=timeout_s)
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with wake.Bell(self.workspace.wake_folder) as bell:
            while True:
                job = self._reader.job(job_id)
                left_s = None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)
                if job.is_final:
                    self._ends.settle(left_s)
                    return job
                if left_s == 0.0:
                    return job
                bell.wait(left_s)

    def worker(self, *, slots: int = 1, coroutines: int = limits.COROUTINES) -> Worker:
        """The worker of this process: so many handlers at once in threads or children, and on its loop.

        Raises: NotAllowed: the workspace was not opened for work. InvalidInput: a number; a kind no child could find.
        """
        owner, recovery = self._held("worker")
        if self._worker is not None and self._worker.failed:
            raise NotAllowed(
                "worker: the last one of this engine failed and may have left attempts behind; "
                "close the workspace and open it again, then the next worker settles them"
            )
        takes.check(slots=slots, coroutines=coroutines)
        executor = Executor.of(self.workspace, self.app, self._ledger, self._clock, self._submitter, owner.id, slots)
        completion = Completion(executor, self._driver, self._ends, self._luck, f"worker:{owner.id}")
        tidier = Tidier(self.workspace, self._driver, self._clock, f"worker:{owner.id}", self._log)
        rest = (executor, recovery, self._reader, owner, self._ends, self._luck, self._log, self._ring)
        self._worker = Worker(*rest, slots, coroutines, near=self, completion=completion, tidier=tidier)
        return self._worker

    def _held(self, verb: str) -> tuple[Owner, Recovery]:
        if self._holding is None:
            raise NotAllowed(f"{verb}: this workspace was opened without the worker's lock; open it with access='work'")
        owner = self._holding.owner
        parts = (self.workspace, self.app, self._ledger, self._reader, self._owners, self._ends, self._clock)
        return owner, Recovery(*parts, f"worker:{owner.id}")

    def work(self, *, slots: int = 1, coroutines: int = limits.COROUTINES, stay: bool = False) -> Report:
        """Recover what a dead worker left, then run jobs until nothing is due (stay: until told to stop)."""
        takes.check(stay=stay)
        return self.worker(slots=slots, coroutines=coroutines).run(stay=stay)

    def adopt(self, records: Iterable[Mapping[str, Any]], **source: Unpack[takeover.Source]) -> Imported:
        """Take in the jobs of another program's store, then settle what ran there. See `runtime.takeover.adopt`."""
        owner, recovery = self._held("adopt")
        imported = takeover.adopt(records, (self.workspace, self._driver, self._clock.now(), self._actor), **source)
        recovery.settle_dead(owner.id)
        return imported

    def close(self) -> None:
        """Let go of the ledger, then of the worker's lock."""
        self._bells.close()
        self._driver.close()
        if self._holding is not None:
            self._holding.release()

    def __enter__(self) -> Engine:
        """Until it is left, tasks of this app that are enqueued by this thread come here."""
        nearest.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        nearest.leave(self)
        self.close()

    def _tell(self, job_id: str, event: events.Event) -> Job:
        with self._ends.ending() as tell:
            jobs = self._ledger.tell(job_id, event, now=self._clock.now(), actor=self._actor)
            tell(job for job in jobs if job.is_final)
        return jobs[0]

    def _steer(self, verb: Any, job_id: str | None, queue: str | None, event: events.Event) -> Job | None:
        if job_id is not None and queue is not None:
            raise InvalidInput(f"{verb}: a job and a queue are given; give one of them", field="queue")
        if job_id is not None:
            return self._tell(job_id, event)
        self._ledger.control(verb, queue, now=self._clock.now(), actor=self._actor)
        return None

    def _note(self, text: str) -> None:
        self._log.write("error", text)

    def _ring_others(self) -> None:
        """Our own worker wrote the end that is told; it need not look again."""
        self._ring(None if self._worker is None else self._worker.bell_name)

    def _ring(self, but: str | None = None) -> None:
        """What is durable stays so: a wake-up that fails is noted, and fails nobody."""
        try:
            self._bells.ring(but)
        except OSError as error:
            self._log.write("warning", "wake_failed", error=str(error))

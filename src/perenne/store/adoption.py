"""Puts the records of an exported workspace into an empty ledger, all inside one transaction of the caller.

Nothing is merged into a ledger that knows jobs: two workspaces that both hold a job would both run it. What does not
live here: fields and bounds (`records`), the file and its digest (`runtime.transfer`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perenne.core import events, limits
from perenne.core.decide import Change, decide
from perenne.core.job import Job, Token
from perenne.core.publication import Published
from perenne.errors import InvalidInput, StoreExists
from perenne.store import disagreements, moves, records, rows, writes
from perenne.store.driver import Transaction

_FINDING = "it was running when it was exported, so nobody could look what it had published"


class Adopted(msgspec.Struct, frozen=True):
    """What came: from where, how much, and how many jobs had been running there."""

    workspace: str
    epoch: int
    counts: records.Counts
    interrupted: int


class Adoption:
    """One import under way; `take` every record in order, then `finish`.

    Args: settles: what ran there is ended here; else it stays RUNNING, and recovery looks what it had published.
    """

    def __init__(self, tx: Transaction, *, app: str, now: int, actor: str, settles: bool = True) -> None:
        self._tx, self._app, self._now, self._actor, self._settles = tx, app, now, actor, settles
        self._header: records.Header | None = None
        self._counts = dict.fromkeys(records.Counts.__struct_fields__, 0)
        self._stage = 0
        self._place = 0
        self._queues: set[str] = set()
        self._waiting, self._needs = "", 0
        self._footer: records.Footer | None = None

    @property
    def complete(self) -> bool:
        """Whether the footer came."""
        return self._footer is not None

    def take(self, record: records.Line) -> None:
        """Put one record where it belongs.

        Raises: StoreExists: the ledger is not empty. InvalidInput: the record does not fit what came before it.
        """
        self._check_order(record)
        _TAKE[type(record)](self, record)

    def _check_order(self, record: records.Line) -> None:
        stage = records.ORDER.index(type(record))
        name = type(record).__name__.lower()
        if (stage == 0) != (self._header is None) or self._footer is not None:
            raise InvalidInput(f"a {name} stands here; a header opens the file, a footer ends it, each once")
        if stage < self._stage:
            after = records.ORDER[self._stage].__name__.lower()
            raise InvalidInput(f"a {name} stands after a {after}; the order of the file was changed")
        if stage > self._stage:
            self._stage, self._place = stage, 0
        if name in self._counts:
            self._counts[name] += 1

    def header(self, record: records.Header) -> None:
        """The ledger must be empty: the file's jobs come whole, at their own places."""
        jobs, lines, attempts, notices = self._tx.one("first_rows") or (0, 0, 0, 0)
        if jobs or lines or attempts or notices:
            raise StoreExists(
                "this workspace has a history of its own; create a new one and import there: a job that stood in two "
                "workspaces would run in both"
            )
        if record.app != self._app:
            raise InvalidInput(
                f"app: it is an export of {record.app!r}, this workspace belongs to {self._app!r}", field="app"
            )
        self._header = record
        # Higher than any epoch of the exported ledger: no token that was given there will ever write here.
        self._tx.run("set_epoch", epoch=record.epoch + 1)
        self._tx.run("set_store_controls", paused=record.paused, stopped=record.stopped)

    def queue(self, record: records.Queue) -> None:
        self._queues.add(record.name)
        self._insert("import_queue", record, "")

    def owner(self, record: records.Owner) -> None:
        self._insert("import_owner", record, f"owner {record.id} stands twice")

    def listener(self, record: records.Listener) -> None:
        self._insert("import_listener", record, "")

    def job(self, record: records.Job) -> None:
        if record.queue not in self._queues:
            raise InvalidInput(f"queue: {record.queue!r} is no queue of this file", field="queue")
        self._grow(record.seq)
        self._insert("import_job", record, f"job {record.id}: its id, key or unique_key stands twice")

    def attempt(self, record: records.Attempt) -> None:
        finding = (
            f"attempt {record.number} of job {record.job}: it stands twice, or its job or owner is not in the file"
        )
        self._insert("import_attempt", record, finding)

    def dependency(self, record: records.Dependency) -> None:
        self._needs = self._needs + 1 if record.job == self._waiting else 1
        self._waiting = record.job
        if self._needs > limits.DEPENDENCIES:
            raise InvalidInput(f"job {record.job}: more than {limits.DEPENDENCIES} dependencies")
        finding = (
            f"job {record.job} needs {record.needs}: it stands twice, or one of them is not in the file, "
            f"or what is needed was not submitted before"
        )
        self._insert("import_dependency", record, finding)

    def history(self, record: records.History) -> None:
        self._grow(record.seq)
        self._insert("import_history", record, f"job {record.job} is not in the file")
        if record.job is not None and record.from_state is None:
            self._insert("import_birth", record, f"job {record.job} is born twice")

    def notice(self, record: records.Notice) -> None:
        finding = f"notice {record.id}: it stands twice, or its job or listener is not in the file"
        self._insert("import_notice", record, finding)

    def footer(self, record: records.Footer) -> None:
        assert self._header is not None
        counted = records.Counts(**self._counts)
        for where, said in (("header", self._header.counts), ("footer", record.counts)):
            for name, number in self._counts.items():
                if getattr(said, name) != number:
                    raise InvalidInput(f"the {where} says {getattr(said, name)} of {name}, the file holds {number}")
        assert counted == record.counts
        self._footer = record

    def finish(self) -> Adopted:
        """Prove that the facts agree, settle what had been running, and write down what was done.

        Raises: InvalidInput: the facts contradict each other.
        """
        assert self._header is not None
        assert self._footer is not None, "the caller asks `complete` first"
        for finding in disagreements.find(self._tx):
            raise InvalidInput(f"its facts contradict each other: {finding}")
        interrupted = self._settle_running(self._header.epoch + 1)
        adopted = Adopted(self._header.workspace, self._header.epoch, self._footer.counts, interrupted)
        writes.write_line(
            self._tx,
            None,
            "workspace",
            "import",
            None,
            None,
            sentence(adopted, self._footer),
            self._actor,
            self._now,
            None,
        )
        return adopted

    def _grow(self, place: int) -> None:
        if place <= self._place:
            raise InvalidInput(f"seq: {place} stands after {self._place}; places only grow", field="seq")
        self._place = place

    def _insert(self, query: str, record: records.Record, finding: str) -> None:
        if not self._tx.run(query, now=self._now, **msgspec.structs.asdict(record)):
            raise InvalidInput(finding)

    def _settle_running(self, epoch: int) -> int:
        """End every open attempt as interrupted: whoever holds it writes into another ledger, if it lives at all."""
        running = [rows.attempt(row) for row in self._tx.all("open_attempts")]
        for attempt in running:
            if not self._settles:
                break
            row = self._tx.one("job_by_id", id=attempt.job_id)
            assert row is not None
            job = rows.job(row)
            change = decide(job, events.Interrupted(_published(job)), self._now)
            assert isinstance(change, Change)
            token = Token(job.id, attempt.id, attempt.number, epoch)
            moves.end(self._tx, job, change, token, active_ms=0, actor=self._actor, now=self._now)
        return len(running)


def sentence(adopted: Adopted, footer: records.Footer) -> str:
    return (
        f"imported {adopted.counts.job} jobs of workspace {adopted.workspace}, epoch {adopted.epoch}, "
        f"{adopted.interrupted} of them interrupted (sha256 {footer.sha256})"
    )


def _published(job: Job) -> Published:
    """Back to the queue, where the next attempt looks before it runs; what would end unseen waits for a person."""
    if job.attempts_left > 0 and not job.cancel_asked and not job.pause_asked:
        return Published.absent()
    return Published("unknown", _FINDING)


_TAKE: dict[type[records.Record], Callable[..., None]] = {
    records.Header: Adoption.header,
    records.Queue: Adoption.queue,
    records.Owner: Adoption.owner,
    records.Listener: Adoption.listener,
    records.Job: Adoption.job,
    records.Attempt: Adoption.attempt,
    records.Dependency: Adoption.dependency,
    records.History: Adoption.history,
    records.Notice: Adoption.notice,
    records.Footer: Adoption.footer,
}

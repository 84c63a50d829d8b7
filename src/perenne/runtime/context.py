"""What a handler holds while it runs: its input's identity, its boundaries, and its right to publish.

Every verb here is safe to call from the handler's own thread only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from perenne.core import limits, takes
from perenne.core.answers import Completion
from perenne.core.job import Job, Need, Receipt, Submission, Token
from perenne.core.kind import Kind
from perenne.core.publication import Publication
from perenne.core.resources import Reservation
from perenne.core.states import JobState
from perenne.crashpoints import crash_point
from perenne.errors import DiskLow, InvalidInput, StaleToken, StorageError, Unwound
from perenne.files import atomic
from perenne.files.workspace import Workspace
from perenne.runtime.clock import Clock
from perenne.runtime.stop import Stop
from perenne.runtime.wishes import Wishes

R = TypeVar("R")

PROGRESS_EVERY_S = 0.1


class Log(Protocol):
    """Where a line about the attempt goes."""

    def write(self, level: str, message: str, **fields: Any) -> bool: ...


class Right(Protocol):
    """What a context asks of the ledger, under the token of its attempt."""

    def check(self, token: Token) -> tuple[bool, bool]: ...

    def progress(self, token: Token, done: int, total: int | None, message: str | None, *, now: int) -> None: ...

    def needs(self, token: Token, after: int) -> list[Need]: ...


class Submits(Protocol):
    """What stores the children of an attempt, under its token."""

    @property
    def app(self) -> Any: ...

    def request_child(
        self, parent: str, kind: Kind | str, input: object, name: str | None, wishes: Mapping[str, Any]
    ) -> Submission: ...

    def enter(self, batch: Sequence[Submission], patience_s: float, token: Token) -> list[Receipt]: ...


class Tables(Protocol):
    """The app's own tables, inside the transaction that completes the job."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> list[tuple[Any, ...]]: ...


class Context:
    """One attempt, as its handler sees it.

    batch, threads: what the governor granted to a kind with an estimate: items of one sequence, and CPU threads.
    """

    def __init__(
        self,
        *,
        job: Job,
        token: Token,
        publication: Publication,
        wishes: Wishes,
        ledger: Right,
        clock: Clock,
        log: Log,
        workspace: Workspace,
        submitter: Submits,
        deadline: float | None,
        grant: Reservation | None = None,
    ) -> None:
        self.job_id = job.id
        self.batch, self.threads = (grant.batch, grant.threads) if grant is not None else (1, 1)
        self.attempt = token.number
        self.publication = publication
        self.deadline = deadline
        self.published = False
        self.used: tuple[int, int | None] | None = None
        self.peak_bytes: int | None = None
        self.completion: Completion | None = None
        self._token, self._wishes, self._ledger, self._clock, self._log = token, wishes, ledger, clock, log
        self._workspace, self._stage = workspace, None  # type: Workspace, Path | None
        self._submitter, self.app = submitter, submitter.app
        self._done, self._total = 0, None  # type: int, int | None
        self._unkept: tuple[int, int | None, str | None] | None = None
        self._kept_at = float("-inf")
        self._needs: dict[str, Need] | None = None

    @property
    def workspace(self) -> Path:
        """The root folder of the workspace."""
        return self.publication.workspace

    @property
    def stop(self) -> Stop:
        """The stop request to give to `perenne.tools.run`."""
        return self._wishes.stop

    @property
    def stage(self) -> Path:
        """A private folder of this attempt, made when first asked for, removed when the attempt ends."""
        if self._stage is None:
            self._stage = self._workspace.stage_folder / self._token.attempt
            self._stage.mkdir(mode=0o700, exist_ok=True)  # not durable: nothing in it outlives the attempt
        return self._stage

    def remove_stage(self) -> None:
        """Remove the private folder, if there is one; what cannot be removed is left to recovery."""
        if self._stage is not None:
            with contextlib.suppress(OSError, RecursionError):
                atomic.remove_tree(self._stage, point="run.leftover_removed")

    def boundary(self) -> None:
        """A point where the attempt may end: for cancel, a limit, a stopping worker or a pause.

        Raises: Cancelled, Unwound: let them pass.
        """
        self._wishes.meet()

    def progress(self, done: int, total: int | None = None, message: str | None = None) -> None:
        """Show how far the work is; for people, never used to resume. Kept at most ten times a second.

        Raises: InvalidInput: done is below its last value or above the total. StaleToken: the right is lost.
        Guarantees: a store that is busy or full delays what is shown and fails nobody.
        """
        total = self._total if total is None else total
        if not all(_is_count(number) for number in (done, total)):
            raise InvalidInput(f"progress: done {done!r} of {total!r}; give whole numbers from 0", field="done")
        if done < self._done or (total is not None and done > total):
            raise InvalidInput(
                f"progress: done {done} of {total}, it was {self._done}; it may only grow, up to the total",
                field="done",
            )
        self._done, self._total = done, total
        self._unkept = (done, total, None if message is None else limits.clip(message))
        if self._clock.monotonic() - self._kept_at >= PROGRESS_EVERY_S:
            self.keep_progress()

    def measured(self, items: int, *, peak_bytes: int | None = None) -> None:
        """Say how many items this sequence really did, and the most memory it took where that is known.

        The next batches of such jobs are made of the worst cost of an item that was ever seen. In a child the engine
        measures the memory by itself.
        Raises: InvalidInput.
        """
        if not _is_count(items) or not _is_count(peak_bytes):
            raise InvalidInput(
                f"measured: items {items!r}, peak_bytes {peak_bytes!r}; give whole numbers from 0", field="items"
            )
        self.used = (items, peak_bytes)

    def keep_progress(self) -> None:
        """Write the newest progress, if it is not in the ledger yet."""
        if self._unkept is None or self._wishes.fenced:
            return
        done, total, message = self._unkept
        self._kept_at = self._clock.monotonic()
        try:
            self._ledger.progress(self._token, done, total, message, now=self._clock.now())
            self._unkept = None
        except (StorageError, DiskLow) as error:
            self._log.write("warning", "progress_not_kept", error=str(error))

    def needs(self) -> Mapping[str, Need]:
        """The jobs that this one waited for and what came of them, by id, in the order of submission; read once.

        One that a person went on without may not have ended; it has no result then.
        Raises: StaleToken: the right is lost. TooLarge: their results are more than 64 MiB.
        """
        if self._needs is None:
            self._needs = {need.job_id: need for need in self._read_needs()}
        return self._needs

    def _read_needs(self) -> Iterator[Need]:
        after, size_bytes = 0, 0
        while page := self._ledger.needs(self._token, after):
            after = page[-1].seq
            size_bytes += sum(len(need.encoded or b"") for need in page)
            limits.check_size("needs", size_bytes, limits.NEEDS_BYTES, "keep large results in files, and answer where")
            yield from page

    def results(self) -> list[Any]:
        """The results of the jobs that this one waited for and that are COMPLETED, in the order of submission.

        Raises: as `needs`.
        """
        return [need.result for need in self.needs().values() if need.state is JobState.COMPLETED]

    def may_publish(self) -> None:
        """Ask the ledger whether this attempt still holds its right, and whether it should end instead.

        Raises: Unwound: the right is lost, or a wish is to be met. Cancelled.
        """
        try:
            cancel, _ = self._ledger.check(self._token)
        except StaleToken:
            self._wishes.ask("stale")
            raise Unwound("stale") from None
        if cancel:
            self._wishes.ask("cancel")
        self.boundary()

    def publish(self, write: Callable[[Publication], R]) -> R:
        """Call `write` with the identity fixed at submit, once it is proved that this attempt may still publish.

        Args: write: makes the final publication visible in the application's own store; twice must be once.
        Raises: Unwound, Cancelled, and whatever `write` raises.
        Guarantees: if the process dies after `write` was durable, the job is found published and does not run again.
        """
        self.begin_publishing()
        answer = write(self.publication)
        self.published = True
        return answer

    def begin_publishing(self) -> None:
        """The last question before the final publication is written."""
        self.may_publish()
        crash_point("publish.begun")

    def complete(self, result: object = None, *, also: Callable[[Tables], object] | None = None) -> Completion:
        """The answer that completes the job with this result: `return context.complete(…)`.

        Args: also: is called with the app's own tables in the transaction that completes the job, for 50 ms at most;
        it does nothing else than `tables.execute`. When it raises, nothing of it stands and the attempt has failed.
        Raises: InvalidInput: it was called before in this attempt.
        Guarantees: what `also` wrote is there exactly when the job was completed, and once; after a kill, too.
        """
        if self.completion is not None:
            raise InvalidInput("complete: it was called before; call it once, and return what it gives", field="also")
        self.completion = Completion(result, also)
        return self.completion

    def request(self, kind: Kind | str, input: object, *, name: str | None = None, **wishes: Any) -> Submission:
        """A child of this job to be submitted, with its id and every id it will publish under; nothing is stored yet.

        Args: name: a line of text, unique among the children of this job. The id of the child comes from both, so that
        a later attempt that asks again finds what an earlier one submitted. Without a name, children of the same kind,
        input and dependencies are one. wishes: as `Engine.submit` names them, but for `job_id`.
        Raises: UnknownKind, InvalidInput, TooLarge.
        """
        return self._submitter.request_child(self.job_id, kind, input, name, wishes)

    def submit(
        self, kind: Kind | str, input: object, *, name: str | None = None, patience_s: float = 0.0, **wishes: Any
    ) -> Receipt:
        """Store a child of this job durably, or find the one that this job submitted before.

        Args: as `request`; patience_s: how long to wait for room in a full queue.
        Raises: as `Engine.submit`. StaleToken: this attempt has lost its right; nothing was stored.
        Guarantees: once it returned the child is there, and it is there once, however often the attempt is repeated.
        """
        return self.submit_many([self.request(kind, input, name=name, **wishes)], patience_s=patience_s)[0]

    def submit_many(self, children: Sequence[Submission], *, patience_s: float = 0.0) -> list[Receipt]:
        """Store what this context's `request` made, all or none, in one transaction; they may wait for each other.

        Raises: as `submit`, naming the member; a circle of dependencies by its path.
        """
        takes.check(children=children, patience_s=patience_s)
        for wanted in children:
            if wanted.parent != self.job_id:
                raise InvalidInput(
                    f"children: job {wanted.id} is none of job {self.job_id}; make it with this context's request",
                    field="children",
                )
        if self._wishes.fenced:
            raise StaleToken(f"job {self.job_id}: attempt {self.attempt} is past its time; nothing of it is kept")
        try:
            return self._submitter.enter(children, patience_s, self._token)
        except StaleToken:
            self._wishes.ask("stale")
            raise

    def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """One line in the job's log, at most 1 MiB an attempt."""
        self._log.write(level, message, **fields)


def _is_count(number: int | None) -> bool:
    return number is None or (type(number) is int and 0 <= number < 1 << 63)

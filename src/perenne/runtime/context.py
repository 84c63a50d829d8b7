"""What a handler holds while it runs: its input's identity, its boundaries, and its right to publish.

Every verb here is safe to call from the handler's own thread only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from perenne.core import limits
from perenne.core.answers import Completion
from perenne.core.artefact import PLAIN, Artefact
from perenne.core.job import Job, Token
from perenne.core.publication import Publication
from perenne.core.resources import Reservation
from perenne.crashpoints import crash_point
from perenne.errors import DiskLow, InvalidInput, StaleToken, StorageError, Unwound
from perenne.files import atomic
from perenne.files.artefacts import Staged
from perenne.files.workspace import Workspace
from perenne.runtime import disturbance
from perenne.runtime.asks import Log as Log
from perenne.runtime.asks import Right, Sequenced, Submits
from perenne.runtime.asks import Tables as Tables
from perenne.runtime.breaks import Breaks
from perenne.runtime.clock import Clock
from perenne.runtime.family import Family
from perenne.runtime.keeping import Content, Keeps, keep
from perenne.runtime.saving import Kept, Saving
from perenne.runtime.stop import Stop
from perenne.runtime.wishes import Wishes

R = TypeVar("R")
Give = Callable[[], object]

PROGRESS_EVERY_S = 0.1


class Context(Family):
    """One attempt, as its handler sees it."""

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
        saving: Saving,
        keeping: Keeps,
        autosave_s: float | None = None,
        grant: Reservation | None = None,
        sequenced: Sequenced | None = None,
        keeps_frame: bool = False,
    ) -> None:
        super().__init__(token, wishes, ledger, submitter, workspace)
        self.publication = publication
        self.deadline = deadline
        self.published = False
        self.breaks = Breaks(wishes, grant, sequenced, keeps_frame=keeps_frame)
        self.completion: Completion | None = None
        self._clock, self._log = clock, log
        self._stage: Path | None = None
        self._done, self._total = 0, None  # type: int, int | None
        self._unkept: tuple[int, int | None, str | None] | None = None
        self._kept_at = float("-inf")
        self.saving, self._keeping = saving, keeping
        self._autosave_s, self._give = autosave_s, None  # type: float | None, Give | None
        self._saved_at = clock.monotonic()
        self.state: Any = None

    @property
    def batch(self) -> int:
        """How many items the governor granted for this sequence."""
        return self.breaks.grant.batch

    @property
    def threads(self) -> int:
        """How many CPU threads it granted."""
        return self.breaks.grant.threads

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

        What was given to `keep` is saved before the attempt ends so that the job can go on, and when it is time.
        Raises: Cancelled, Unwound: let them pass.
        """
        self.breaks.meet()
        disturbance.at_boundary(self.job_id, self._wishes)
        if self._give is not None and not self._wishes.fenced:
            self._save_by_itself(self._give)
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
        self.breaks.measured(items, peak_bytes)

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

    def checkpoint(self, state: object, *, also: Callable[[Tables], object] | None = None) -> Kept:
        """Save what the job goes on from after a pause, a kill or a failed attempt; `state` has it then.

        Args: state: fits the kind's state type, 64 MiB at most. also: as of `complete`, in the same transaction.
        Returns: what became of it; an unchanged state is not written again.
        Raises: Unwound: the right is lost. InvalidInput, TooLarge, StoreBusy, StoreFailed, DiskLow, NotDurable: the
        last checkpoint stands.
        Guarantees: once this returned, a crash at any point goes on from this state or a later one, never a mixture.
        """
        progress = (self._done, self._total, None if self._unkept is None else self._unkept[2])
        shown, now = self._unkept is None, self._clock.now()
        kept = self._held(lambda: self.saving.save(state, progress, shown, now, also))
        if kept is not Kept.UNCHANGED:
            self._unkept = None
        self._saved_at = self._clock.monotonic()
        return kept

    def artefact(self, name: str, content: Content, media_type: str = PLAIN) -> Artefact:
        """Keep a file with the job under a name; the same name and bytes again are the same artefact.

        Args: content: bytes, the path of a regular file, or a file opened with 'rb', read from where it stands.
        Raises: Unwound: the right is lost. ReportConflict: the job keeps other bytes under this name. InvalidInput,
        TooLarge, DiskLow, StoreBusy, StoreFailed, NotDurable: nothing more is kept.
        Guarantees: once this returned, the bytes stand for as long as the job does.
        """
        wanted = Artefact(name, media_type, 0, "", self._token.attempt, self._token.number, self._clock.now())
        return self._held(lambda: keep(self._keeping, self._workspace, lambda: self.stage, wanted, content))

    def commit_artefact(self, staged_name: str, wanted: Artefact) -> Artefact:
        """Name what a child has staged in `stage`. Raises: as `artefact`; StaleToken: the right is lost."""
        if self._wishes.fenced:
            raise StaleToken(f"job {self.job_id}: attempt {self.attempt} is past its time; nothing of it is kept")
        staged = Staged(self.stage / Path(staged_name).name, wanted.size_bytes, wanted.digest)
        return self._keeping.commit(staged, wanted)

    def _held(self, work: Callable[[], R]) -> R:
        try:
            return work()
        except StaleToken:
            self._wishes.ask("stale")
            raise Unwound("stale") from None

    def sequence_break(self, state: object) -> None:
        """The end of a sequence: save `state`, and give way to whoever waits for resources with a better place.

        Where the governor would grant the same again it returns, and nothing but the checkpoint is written. Else the
        reservation is given back and the frame is unwound; once it is granted, the handler is called again with this
        state in `state`, in the same attempt. So a handler is a loop that begins with `state`.
        Raises: Cancelled, Unwound: let them pass; and as `checkpoint`.
        """
        self.boundary()
        self.saving.sequences += 1
        self.checkpoint(state)
        self._wishes.meet()
        self.breaks.ask()

    def restore(self) -> None:
        """Find the state that the job goes on from. Raises: as `Saving.restore`."""
        self.state = self.saving.restore()

    def keep(self, give: Give) -> None:
        """From now on boundaries save what `give` answers: every `autosave_s` of the kind, and before a pause."""
        self._give = give

    @property
    def may_save(self) -> bool:
        """Whether a boundary may write: something was given to `keep`."""
        return self._give is not None

    def _save_by_itself(self, give: Give) -> None:
        ends = self._wishes.first in ("pause", "suspend", "quota", "limit")
        due = self._autosave_s is not None and self._clock.monotonic() - self._saved_at >= self._autosave_s
        if not ends and not due:
            return
        try:
            self.checkpoint(give())
        except (StorageError, DiskLow) as error:  # nobody asked for it: the last one stands
            self._saved_at = self._clock.monotonic()
            self._log.write("warning", "checkpoint_not_saved", error=str(error))

    def may_publish(self) -> None:
        """Ask the ledger whether this attempt still holds its right, and whether it should end instead.

        Raises: Unwound: the right is lost, or a wish is to be met. Cancelled.
        """
        cancel, _ = self._held(lambda: self._ledger.check(self._token))
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

    def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """One line in the job's log, at most 1 MiB an attempt."""
        self._log.write(level, message, **fields)


def _is_count(number: int | None) -> bool:
    return number is None or (type(number) is int and 0 <= number < 1 << 63)

"""Attends to one attempt in a child: does what the handler asks under its token, and ends what overstays.

What lives here: the worker's side of the link while a handler runs. What does not: which child it is (`children`), what
the executor looks up before and after.
"""

from __future__ import annotations

import contextlib
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perenne.core import events, limits
from perenne.core.artefact import Artefact
from perenne.core.job import Submission
from perenne.core.kind import Kind
from perenne.crashpoints import crash_point
from perenne.errors import ChildFailed, EngineError, StaleToken, StoreFailed
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime import call, drain, orphans
from perenne.runtime.asks import Sequenced
from perenne.runtime.child import Ended
from perenne.runtime.childprocess import ChildProcess, Death
from perenne.runtime.children import Children
from perenne.runtime.clock import Clock
from perenne.runtime.context import Context
from perenne.runtime.joblog import JobLog
from perenne.runtime.saving import Kept
from perenne.runtime.saying import said
from perenne.runtime.wake import drain as empty
from perenne.runtime.wishes import Wishes
from perenne.store.checkpoints import Progress, Saved
from perenne.store.ledger import Claim, Ledger

# From TERM to KILL; shorter than what a worker that is stopped hard has left.
GRACE_S = 1.0
CATCH_UP_S = 0.05
ANSWERS: dict[str, type[events.Answer]] = {
    answer.__name__: answer
    for answer in (
        events.Returned,
        events.Snoozed,
        events.GaveUp,
        events.Doubted,
        events.Stopped,
        events.Missing,
        events.Broke,
    )
}


class Attendants:
    """What every attempt in a child shares."""

    def __init__(self, workspace: Workspace, ledger: Ledger, clock: Clock, children: Children) -> None:
        self.children = children
        self._workspace, self._ledger, self._clock = workspace, ledger, clock

    def attend(self, kind: Kind, claim: Claim, context: Context, wishes: Wishes, log: JobLog) -> events.Answer:
        """Run one attempt in a child of the pool; how it ended, whatever became of the child."""
        try:
            child = self.children.lend(kind)
        except ChildFailed as error:
            return call.failure(kind, error, log)
        one = Attendant(child, claim, context, wishes=wishes, ledger=self._ledger, log=log, clock=self._clock)
        try:
            answer = one.attend(self._workspace)
        except StoreFailed as error:
            answer = call.failure(kind, error, log)
        if one.death is None:
            self.children.give_back(child, one.resident_bytes)
        else:
            self.children.lose()
        context.breaks.peak_bytes = one.peak_bytes
        log.write("info", "child_measured", peak_bytes=one.peak_bytes)
        return answer


class Attendant:
    """One attempt in a child that was lent for it.

    After `attend`: whether the child may serve another, and what memory it says it took.
    """

    def __init__(
        self,
        child: ChildProcess,
        claim: Claim,
        context: Context,
        *,
        wishes: Wishes,
        ledger: Ledger,
        log: JobLog,
        clock: Clock,
    ) -> None:
        self._child, self._claim, self._context = child, claim, context
        self._kind, self._wishes, self._ledger, self._log, self._clock = child.kind, wishes, ledger, log, clock
        self._saving, self._locked = context.saving, contextlib.ExitStack()
        self._answer: events.Answer | None = None
        self._began_at = self._clock.monotonic()
        self._asked_at: dict[str, float] = {}
        self._term_at: float | None = None
        self.death: Death | None = None
        self.peak_bytes: int | None = None
        self.resident_bytes: int | None = None
        self._verbs: dict[str, Callable[..., object]] = {
            "check": self._check,
            "progress": self._progress,
            "stage": lambda: str(self._context.stage),
            "log": lambda line: self._log.write(**msgspec.json.decode(line)),
            "needs": lambda after: self._ledger.needs(self._claim.token, after),
            "artefacts_of": lambda *what: self._ledger.artefacts_of(self._claim.token, *what),
            "lock_checkpoint": lambda: self._locked.enter_context(self._saving.store.locked()),
            "unlock_checkpoint": self._locked.close,
            "last_checkpoint": lambda: self._saving.store.last(),
            "checkpoint": self._checkpoint,
            "artefact": lambda name, kept: self._context.commit_artefact(name, msgspec.convert(kept, Artefact)),
            "request": self._request,
            "submit": self._submit,
            "may_go_on": lambda: self._sequenced.may_go_on(),
            "give_way": lambda: self._sequenced.give_way(),
            "take_up": lambda: self._sequenced.take_up(),
            "stay": lambda: self._sequenced.stay(),
        }

    def attend(self, workspace: Workspace) -> events.Answer:
        """Let the child call the handler; the answer, whatever became of the child.

        Raises: StoreFailed: its lock file cannot be made; the handler was not called.
        """
        lock_file = workspace.lock_of_child(self._claim.token.attempt)
        lock = Lock.take(lock_file, text=self._child.named)
        assert lock is not None, "an attempt has one child"
        crash_point("run.child_locked")
        self._child.serial += 1
        try:
            lock.give(self._begin)
            crash_point("run.child_asked")
            with self._locked, self._wishes.told_to(lambda: self._child.tell(self._wishes)):
                self._serve()
        except (OSError, ValueError) as fault:
            self.death = self._child.end(lost=isinstance(fault, ConnectionError))
            self._answer = self._ending(fault)
        with contextlib.suppress(OSError):  # a file that stays is removed by the next recovery
            orphans.remove(self._prove_the_end(lock_file), protocol="run")
        assert self._answer is not None
        return self._answer

    def _prove_the_end(self, lock_file: Path) -> Lock:
        """The lock that everything of the attempt kept. What is left of it is ended first."""
        left = Lock.take(lock_file, text=None)
        if self.death is None and (left is None or self._term_at is not None):
            self.death = self._child.end()  # its handler left copies of it, or it was told to end
        while left is None:
            # The job must not run elsewhere while any of it goes on here; a drain ends this wait with the worker.
            left = orphans.take(lock_file, protocol="run")
            if left is None:
                self._log.write("warning", "child_does_not_end", pid=self._child.pid)
        return left

    def _begin(self, lock: int) -> None:
        deadline = self._context.deadline
        left_s = None if deadline is None else deadline - self._clock.monotonic()
        self._child.link.send("run", self._claim, self._child.serial, left_s, descriptors=[lock])

    def _serve(self) -> None:
        """Answer until the handler has ended.

        Raises: OSError, ValueError: the child is gone, was ended, or speaks no sense.
        """
        poll = select.poll()
        link, nudges = self._child.link.fileno(), self._child.nudges
        for descriptor in (link, nudges, self._child.death):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        left_ms = self._watch()
        while self._answer is None:
            ready = [descriptor for descriptor, _ in poll.poll(left_ms)]
            if link in ready:
                self._do(*self._child.link.receive())
            elif self._child.death in ready:
                raise ConnectionResetError("the child has ended")
            if nudges in ready:
                empty(nudges)
            if left_ms is not None or nudges in ready:
                left_ms = self._watch()

    def _do(self, name: str, values: list[Any]) -> None:
        if name == "ended":
            self._answer = self._read(msgspec.convert(values[0], Ended))
            return
        try:
            answer = self._verbs[name](*values)
        except KeyError:
            raise ValueError(f"no verb is called {name!r}") from None
        except EngineError as error:
            self._child.link.send("error", type(error).__name__, str(error))
            return
        except Exception as error:
            self._child.link.send("error", "EngineError", said(error))
            return
        self._child.link.send("answer", answer)

    @property
    def _sequenced(self) -> Sequenced:
        sequenced: Sequenced | None = self._context.breaks.sequenced
        assert sequenced is not None, "a child without a grant asks for no sequence"
        return sequenced

    def _check(self) -> tuple[bool, bool]:
        self._refuse_fenced()
        try:
            return self._ledger.check(self._claim.token)
        except StaleToken:
            self._wishes.ask("stale")
            raise

    def _refuse_fenced(self) -> None:
        if self._wishes.fenced:
            raise StaleToken("this attempt is past its time; nothing of it is kept any more")

    def _progress(self, done: int, total: int | None, message: str | None) -> None:
        if not self._wishes.fenced:
            self._ledger.progress(self._claim.token, done, total, message, now=self._clock.now())

    def _checkpoint(self, given: dict[str, Any], large: bool, progress: Progress | None) -> Kept:
        """Commit what the child saved; what is large it has staged under the name that the numbers give."""
        self._refuse_fenced()
        kept = self._saving.store.commit(msgspec.convert(given, Saved), large, progress, None)
        self._saving.stands = True
        return kept

    def _request(self, kind: Any, input: bytes, name: str | None, wishes: dict[str, Any]) -> object:
        known = kind if isinstance(kind, str) else self._context.app.kind(*kind)
        return self._context.request(known, input, name=name, **wishes)

    def _submit(self, batch: list[Any]) -> object:
        return self._context.submit_many(msgspec.convert(batch, list[Submission]))

    def _read(self, ended: Ended) -> events.Answer:
        self._context.published = ended.published
        self.peak_bytes, self.resident_bytes = ended.peak_bytes, ended.resident_bytes
        if self._wishes.asked("wall"):
            return call.over_the_limit(self._kind)
        if ended.answer == events.Raised.__name__:
            return msgspec.convert({**ended.fields, "backoff": self._kind.backoff}, events.Raised)
        return msgspec.convert(ended.fields, ANSWERS[ended.answer])

    def _watch(self) -> int | None:
        """Take the step that is due against an attempt that overstays; milliseconds until the next one, if any."""
        left_s = self._step(self._clock.monotonic())
        if self._child.catch_up(self._wishes):
            left_s = min(left_s or CATCH_UP_S, CATCH_UP_S)
        return None if left_s is None else int(left_s * 1000) + 1

    def _step(self, now: float) -> float | None:
        if self._kind.wall_limit_s is not None and now - self._began_at >= self._kind.wall_limit_s:
            self._wishes.ask("wall")
        if self._term_at is not None:
            if now - self._term_at >= GRACE_S:
                raise TimeoutError("the child was asked to end and did not")
            return self._term_at + GRACE_S - now
        due_at = min(self._due_times(now), default=None)
        if due_at is not None and due_at <= now:
            self._term_at = now
            self._child.signal(signal.SIGTERM)
            return GRACE_S
        return None if due_at is None else due_at - now

    def _due_times(self, now: float) -> list[float]:
        """When the child is to be ended, for each reason there is."""
        times = [self._began_at + self._kind.wall_limit_s] if self._kind.wall_limit_s is not None else []
        # What is cancelled or has used up its time may reach a boundary first; a pause waits for it for ever.
        for why, patience_s in (("stale", drain.GRACE_S), ("cancel", drain.GRACE_S), ("limit", drain.GRACE_S)):
            if self._wishes.asked(why):
                times.append(self._asked_at.setdefault(why, now) + patience_s)
        if self._wishes.is_hard("suspend"):
            times.append(self._asked_at.setdefault("suspend", now))
        return times

    def _ending(self, fault: Exception) -> events.Answer:
        """The answer of an attempt whose child is dead."""
        assert self.death is not None
        self.peak_bytes = self.death.peak_bytes
        if self._wishes.asked("wall"):
            return call.over_the_limit(self._kind)
        if self._term_at is not None:
            return events.Stopped(self._wishes.first or "suspend")
        sense = f"; {fault}" if isinstance(fault, ValueError) else ""
        error = ChildFailed(f"{self.death.sentence}{sense}; its last words are in the job's log")
        self._log.write("error", "child_failed", sentence=str(error), report=self.death.report)
        return events.Raised(limits.clip(said(error)), retryable=self._kind.retries(error), backoff=self._kind.backoff)

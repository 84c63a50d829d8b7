"""The end of an attempt that brings statements of its application: recorded by its own slot, in one transaction.

Every other end is recorded by the worker, many together (`worker`). Here an application's code runs while the write
lock is held: in the slot it may be late or hang without holding up the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from perenne.core import events
from perenne.core.job import Job
from perenne.crashpoints import crash_point
from perenne.errors import DiskLow, StaleToken, StoreBusy, TransactionTooLong
from perenne.runtime import call
from perenne.runtime.ends import Ends
from perenne.runtime.executor import Executor
from perenne.runtime.joblog import JobLog
from perenne.runtime.luck import Luck
from perenne.runtime.wishes import Wishes
from perenne.store import apptables, together
from perenne.store.driver import Driver
from perenne.store.ledger import Claim, Ending

PATIENCE_S = 0.5  # before a busy store or a full disk is tried again


class Recorded(events.Ended, frozen=True, kw_only=True):
    """An end that is in the ledger already; `ticket` is open until the listeners have heard of it."""

    jobs: list[Job] | StaleToken
    ticket: int


class _AlsoFailed(Exception):
    """The application's own code failed, and not the store."""


@dataclass(frozen=True)
class Completion:
    """Performs attempts for a worker, and records the ends that bring statements."""

    executor: Executor
    driver: Driver
    ends: Ends
    luck: Luck
    actor: str

    def perform(self, claim: Claim, wishes: Wishes) -> events.Ended:
        """As `Executor.perform`; what is `Recorded` needs not be recorded any more."""
        ended = self.executor.perform(claim, wishes)
        if not isinstance(ended.answer, events.ReturnedAlso):
            return ended
        ticket = self.ends.open()
        try:
            jobs = self._record(claim, wishes, ended, ended.answer.also)
        except (_AlsoFailed, TransactionTooLong) as error:
            self.ends.close(ticket)
            return self._failed(claim, ended, error.__cause__ or error)
        except BaseException:
            self.ends.close(ticket)
            raise
        return Recorded(**msgspec.structs.asdict(ended), jobs=jobs, ticket=ticket)

    def _record(
        self, claim: Claim, wishes: Wishes, ended: events.Ended, also: Callable[[together.OwnTables], object]
    ) -> list[Job] | StaleToken:
        """Raises: StoreBusy, DiskLow: the worker must end now; whoever recovers finds the attempt interrupted."""
        crash_point("acknowledge.begun")
        while True:
            try:
                return self._complete(claim, ended, also)
            except StaleToken as late:
                return late
            except (StoreBusy, DiskLow):
                if wishes.asked("suspend") and wishes.stop.asked:
                    raise
                threading.Event().wait(PATIENCE_S)

    def _complete(self, claim: Claim, ended: events.Ended, also: Callable[[together.OwnTables], object]) -> list[Job]:
        def guarded(tables: together.OwnTables) -> None:
            try:
                also(tables)
            except (StoreBusy, DiskLow):
                raise
            except BaseException as error:
                raise _AlsoFailed from error

        try:
            prefix = apptables.prefix_of(self.executor.app.name)
        except Exception as error:
            raise _AlsoFailed from error
        ending = Ending(claim.token, ended, self.luck.fraction())
        now = self.executor.clock.now()
        return together.complete(self.driver, ending, guarded, prefix, now=now, actor=self.actor)

    def _failed(self, claim: Claim, ended: events.Ended, error: BaseException) -> events.Ended:
        kind = self.executor.app.kind(claim.job.kind, claim.job.version)
        log = JobLog(self.executor.workspace, claim.job.id, claim.token.number, self.executor.clock)
        return msgspec.structs.replace(ended, answer=call.failure(kind, error, log))

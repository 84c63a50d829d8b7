"""The end of an attempt that brings statements of its application: recorded by its own slot, in one transaction.

Every other end is recorded by the worker, many together (`worker`). Here an application's code runs while the write
lock is held: in the slot it may be late or hang without holding up the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from perenne.core import events
from perenne.core.job import Job
from perenne.crashpoints import crash_point
from perenne.errors import DiskLow, InvalidInput, StaleToken, StoreBusy, TransactionTooLong
from perenne.runtime import call, spent
from perenne.runtime.ends import Ends
from perenne.runtime.executor import Executor
from perenne.runtime.joblog import JobLog
from perenne.runtime.luck import Luck
from perenne.runtime.wishes import Wishes
from perenne.store import apptables, together
from perenne.store.driver import Driver
from perenne.store.ledger import Claim, Ending

Also = Callable[[together.OwnTables], object]
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

    def __post_init__(self) -> None:
        if any(kind.state_type is not None for kind in self.executor.app.kinds):
            self.ends.add(partial(spent.remove_of, self.executor.workspace))

    def perform(self, claim: Claim, wishes: Wishes) -> events.Ended:
        """As `Executor.perform`; what is `Recorded` needs not be recorded any more."""
        return self.record(claim, wishes, self.executor.perform(claim, wishes))

    def record(self, claim: Claim, wishes: Wishes, ended: events.Ended) -> events.Ended:
        """The end, recorded when it brings statements."""
        if not isinstance(ended.answer, events.ReturnedAlso):
            return ended
        log = JobLog(self.executor.workspace, claim.job.id, claim.token.number, self.executor.clock)
        crash_point("acknowledge.begun")
        try:
            return self._record(claim, wishes, ended, ended.answer.also)
        except (_AlsoFailed, TransactionTooLong) as error:
            kind = self.executor.app.runner(claim.job.kind, claim.job.version)
            return msgspec.structs.replace(ended, answer=call.failure(kind, error.__cause__ or error, log))

    def _record(self, claim: Claim, wishes: Wishes, ended: events.Ended, also: Also) -> Recorded:
        """Raises: StoreBusy, DiskLow: the worker must end now; whoever recovers finds the attempt interrupted."""
        while True:
            try:
                return self._try(claim, ended, also)
            except (StoreBusy, DiskLow):
                if wishes.asked("suspend") and wishes.stop.asked:
                    raise
            threading.Event().wait(PATIENCE_S)

    def _try(self, claim: Claim, ended: events.Ended, also: Also) -> Recorded:
        tickets: list[int] = []
        fields = {name: getattr(ended, name) for name in ended.__struct_fields__}
        try:
            jobs = self._complete(claim, ended, also, lambda: tickets.append(self.ends.open()))
            return Recorded(**fields, jobs=jobs, ticket=tickets[0])
        except StaleToken as late:
            return Recorded(**fields, jobs=late, ticket=self.ends.open())
        except BaseException:
            for ticket in tickets:
                self.ends.close(ticket)
            raise

    def _complete(self, claim: Claim, ended: events.Ended, also: Also, about_to: Callable[[], None]) -> list[Job]:
        def guarded(tables: together.OwnTables) -> None:
            try:
                also(tables)
            except (StoreBusy, DiskLow):
                raise
            except BaseException as error:
                raise _AlsoFailed from error

        try:
            prefix = apptables.prefix_of(self.executor.app.name)
        except InvalidInput as error:
            raise _AlsoFailed from error
        ending = Ending(claim.token, ended, self.luck.fraction())
        now = self.executor.clock.now()
        return together.complete(self.driver, ending, guarded, prefix, about_to=about_to, now=now, actor=self.actor)

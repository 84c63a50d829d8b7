"""Several submits and an application's own statements that stand together or not at all.

What does not live here: the transaction itself (`store.together`), and what a statement may touch (the driver).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from perenne import nearest
from perenne.app import App
from perenne.core.job import Job, Receipt, Submission
from perenne.core.kind import Kind
from perenne.crashpoints import crash_point
from perenne.errors import NotAllowed
from perenne.runtime.clock import Clock
from perenne.runtime.ends import Ends
from perenne.store import apptables
from perenne.store.driver import Driver, Row, Values
from perenne.store.together import Together, together


class Transaction:
    """Used in a `with`: what is submitted and written inside is durable when the block is left, or never was.

    Every other writer of the workspace waits meanwhile; after 50 ms it is undone, whatever the block does then.
    """

    def __init__(
        self,
        app: App,
        request: Callable[..., Submission],
        driver: Driver,
        clock: Clock,
        actor: str,
        ring: Callable[[], None],
        ends: Ends,
        look: Callable[[str], Job],
    ) -> None:
        self.app = app
        self._request, self._driver, self._clock, self._actor, self._ring = request, driver, clock, actor, ring
        self._ends, self._look = ends, look
        self._stack = ExitStack()
        self._open: Together | None = None

    def submit(self, kind: Kind | str, input: object, **wishes: Any) -> Receipt:
        """Submit a job with the rest of the transaction; its id is known at once. As `Engine.submit`, without patience.

        Raises: QueueFull and the rest of `Engine.submit`: only this submit is undone, if the error is caught inside.
        """
        return self._together().submit(self._request(kind, input, **wishes))

    def execute(self, sql: str, values: Values = ()) -> list[Row]:
        """Carry out a statement on the app's own tables, whose names begin with its own; the rows it gives.

        Args: values: for `?` by place, for `:name` by name.
        Raises: StatementRefused: it touches another table, or breaks a rule; it changed nothing then.
        """
        return self._together().tables.execute(sql, values)

    def _together(self) -> Together:
        if self._open is None:
            raise NotAllowed("transaction: it is not open; use it inside its `with` block")
        return self._open

    def __enter__(self) -> Transaction:
        """Raises: StoreBusy, DiskLow, StoreFailed; NotAllowed: this thread is in a transaction already."""
        prefix = apptables.prefix_of(self.app.name)
        begun = together(self._driver, prefix, now=self._clock.now(), actor=self._actor)
        self._open = self._stack.enter_context(begun)
        self._stack.enter_context(nearest.within(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises: TransactionTooLong, StoreFailed, DiskLow: nothing of it stands. OutcomeUnknown."""
        opened, self._open = self._open, None
        with self._ends.ending():
            self._stack.__exit__(kind, error, trace)
            if error is not None or opened is None:
                return
            self._ends.tell_failed(opened.receipts, self._look)
        self._ring()
        crash_point("submit.woken")

"""Durable listeners: a notice is a row, written in the transaction that ends a job, kept until it is acknowledged."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perenne.core.states import JobState
from perenne.crashpoints import crash_point
from perenne.store.driver import Driver


class Notice(msgspec.Struct, frozen=True):
    """A job ended. The id is the same each time the notice is delivered."""

    id: str
    job_id: str
    state: JobState
    at: int


class Notices:
    """The notices of one workspace."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def register(self, listener: str, *, now: int) -> None:
        """From now on each end of a job leaves a notice for this listener; twice is once."""
        self._driver.write(
            lambda tx: tx.run("insert_listener", name=listener, now=now),
            recheck=lambda tx, _: tx.one("find_listener", name=listener) is not None,
        )
        crash_point("notice.registered")

    def pending(self, listener: str, limit: int) -> list[Notice]:
        """What the listener has not acknowledged, oldest first."""
        found = self._driver.read(lambda tx: tx.all("pending_notices", listener=listener, limit=limit))
        return [Notice(id, job, JobState(state), at) for id, job, state, at in found]

    def deliver(self, listener: str, receive: Callable[[Notice], None], limit: int) -> int:
        """Hand over what is pending and acknowledge each once `receive` returned; how many there were."""
        pending = self.pending(listener, limit)
        for notice in pending:
            receive(notice)
            self.acknowledge(notice)
        return len(pending)

    def acknowledge(self, notice: Notice) -> None:
        """The listener has dealt with it; twice is once."""
        self._driver.write(
            lambda tx: tx.run("delete_notice", id=notice.id),
            recheck=lambda tx, _: tx.one("find_notice", id=notice.id) is None,
        )
        crash_point("notice.acknowledged")

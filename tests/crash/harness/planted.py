"""Wrong variants of the engine, each switched on in the children of a trial: the oracles must find every one of them.

A variant breaks one promise, the way a plausible mistake would, at a seam of the engine that it names; a seam that is
gone is an error. None of this runs in the test's own process.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from perenne.core import decide
from perenne.core.job import Receipt
from perenne.core.publication import Publication, Published
from perenne.core.states import JobState
from perenne.runtime import context, lookup, recovery, wake, worker
from perenne.runtime.engine import Engine
from perenne.store import dependants, moves, writes
from perenne.store.ledger import Ledger
from perenne.store.sqlite import driver

PLANTED: dict[str, Callable[[], None]] = {}


def planted(variant: Callable[[], None]) -> Callable[[], None]:
    PLANTED[variant.__name__] = variant
    return variant


def _change(place: object, name: str, wrong: Callable[[Any], Any]) -> None:
    """Put another function where this one stood."""
    setattr(place, name, wrong(getattr(place, name)))


def _change_sql(query: str, right: str, wrong: str) -> None:
    """Put other words into a named query."""
    queries = driver.queries()
    assert right in queries[query], f"{query} does not say {right!r} any more"
    queries[query] = queries[query].replace(right, wrong)


def _absent(*given: object) -> Published:
    return Published.absent()


@planted
def acknowledges_before_publishing() -> None:
    """The job is completed first, and its result written afterwards."""
    later: dict[str, Callable[[], object]] = {}

    def publish(self: context.Context, write: Callable[[Publication], Any]) -> None:
        self.may_publish()
        later[self.job_id] = lambda: write(self.publication)
        self.published = True

    def telling(tell: Any) -> Any:
        def tell_then_publish(self: Any, ticket: Any, ended: Any, *answers: Any) -> None:
            tell(self, ticket, ended, *answers)
            for one in ended:
                later.pop(one.claim.job.id, lambda: None)()

        return tell_then_publish

    _change(context.Context, "publish", lambda right: publish)
    _change(worker.Worker, "_tell", telling)


@planted
def recovers_without_looking() -> None:
    """Recovery takes every result for absent."""
    _change(recovery.Recovery, "_find", lambda right: _absent)


@planted
def never_looks() -> None:
    """Neither recovery nor a worker asks whether the result stands already."""
    _change(lookup, "look", lambda right: _absent)


@planted
def does_not_count_attempts() -> None:
    """A claim does not spend."""
    _change_sql("start_attempt", "spent = spent + 1", "spent = spent")


@planted
def recovery_forgets_a_cancel() -> None:
    """A job that was to be cancelled runs again after its worker died."""

    def forgetting(interrupted: Any) -> Any:
        return lambda job, published: interrupted(msgspec.structs.replace(job, cancel_asked=False), published)

    _change(decide, "_interrupted", forgetting)


@planted
def recovery_forgets_a_pause() -> None:
    """A job that was to be paused runs again after its worker died."""

    def forgetting(interrupted: Any) -> Any:
        return lambda job, published: interrupted(msgspec.structs.replace(job, pause_asked=False), published)

    _change(decide, "_interrupted", forgetting)
    _change(moves, "_GOES_ON", lambda right: frozenset())


@planted
def discards_nothing() -> None:
    """Leftovers between nothing and a result stay where they are."""
    _change(lookup, "clean", lambda right: _absent)


@planted
def invents_ids_at_run_time() -> None:
    """Each attempt publishes under an id of its own."""

    def inventing(identity_of: Any) -> Any:
        def invented(*given: Any) -> Publication:
            fixed = identity_of(*given)
            return msgspec.structs.replace(fixed, ids={name: str(uuid.uuid4()) for name in fixed.ids})

        return invented

    _change(lookup, "identity_of", inventing)


@planted
def answers_before_the_commit() -> None:
    """The receipt is given while the job is still on its way to the disk."""

    def hasty(submit: Any) -> Any:
        def answer(self: Engine, *given: Any, **named: Any) -> Receipt:
            threading.Timer(0.02, submit, (self, *given), named).start()
            return Receipt(named["job_id"], JobState.QUEUED, reused=False)

        return answer

    _change(Engine, "submit", hasty)


@planted
def counts_an_end_twice() -> None:
    """A place in the queue is given back twice."""
    _change_sql("leave_place", "unfinished - 1", "max(unfinished - 2, 0)")


@planted
def recovery_writes_no_history() -> None:
    """What recovery decides is not written down."""

    def silent(write_line: Any) -> Any:
        def write(tx: Any, job: Any, subject: Any, verb: str, *rest: Any) -> None:
            if verb != "requeue_interrupted":
                write_line(tx, job, subject, verb, *rest)

        return write

    _change(writes, "write_line", silent)


@planted
def recovery_releases_nobody() -> None:
    """Whoever waited for a job that recovery completed waits for ever."""
    free = dependants.free

    def settling(settle: Any) -> Any:
        def settled(self: Ledger, *given: Any, **named: Any) -> Any:
            dependants.free = lambda *rest: []  # type: ignore[assignment]
            try:
                return settle(self, *given, **named)
            finally:
                dependants.free = free

        return settled

    _change(Ledger, "settle", settling)


@planted
def leaves_pipes() -> None:
    """Pipes of dead processes stay."""
    _change(wake, "remove_dead", lambda right: lambda folder: None)


@planted
def claims_what_is_paused() -> None:
    """A worker does not ask whether its queue is paused."""
    _change_sql("list_queues", "unfinished, paused, stopped", "unfinished, 0, 0")


@planted
def leaves_no_notice_of_a_failure() -> None:
    """An end that nobody wished for leaves no durable notice."""
    _change_sql("insert_notices", "from listener", "from listener where :state <> 'FAILED'")

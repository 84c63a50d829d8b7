"""Wrong variants of the engine, each switched on in the children of a trial: the oracles must find every one of them.

A variant breaks one promise, the way a plausible mistake would. None of this runs in the test's own process.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from perenne.core import decide
from perenne.core.publication import Publication, Published
from perenne.runtime import context, executor, lookup, recovery, wake
from perenne.runtime.engine import Engine
from perenne.store import intake, moves
from perenne.store.ledger import Ledger
from perenne.store.sqlite import driver

PLANTED: dict[str, Callable[[], None]] = {}


def plant(variant: Callable[[], None]) -> Callable[[], None]:
    PLANTED[variant.__name__] = variant
    return variant


def _sql(query: str, wrong: Callable[[str], str]) -> None:
    """Another text for a named query."""
    queries = dict(driver.queries())
    changed = wrong(queries[query])
    assert changed != queries[query], query
    queries[query] = changed
    driver.queries = lambda: queries  # type: ignore[assignment]


@plant
def acknowledges_before_publishing() -> None:
    """The job is completed first, and its result written afterwards."""
    later: dict[str, Callable[[], object]] = {}
    acknowledge = executor.Executor._acknowledge

    def publish(self: context.Context, write: Callable[[Publication], Any]) -> None:
        self.may_publish()
        later[self.job_id] = lambda: write(self.publication)
        self.published = True

    def acknowledging(self: executor.Executor, claim: Any, *rest: Any) -> None:
        acknowledge(self, claim, *rest)
        later.pop(claim.job.id, lambda: None)()

    context.Context.publish = publish  # type: ignore[assignment,method-assign]
    executor.Executor._acknowledge = acknowledging  # type: ignore[method-assign]


@plant
def recovers_without_looking() -> None:
    """Recovery takes every result for absent."""
    recovery.Recovery._find = lambda self, job: Published.absent()  # type: ignore[method-assign]


@plant
def runs_without_looking() -> None:
    """Neither recovery nor the worker asks whether the result stands already."""
    lookup.look = lambda kind, publication: Published.absent()  # type: ignore[assignment]


@plant
def does_not_count_attempts() -> None:
    """A claim does not spend."""
    _sql("start_attempt", lambda text: text.replace("spent = spent + 1", "spent = spent"))


@plant
def recovery_forgets_cancel() -> None:
    """A job that was to be cancelled runs again after its worker died."""
    interrupted = decide._interrupted
    decide._interrupted = lambda job, published: interrupted(  # type: ignore[assignment]
        msgspec.structs.replace(job, cancel_asked=False), published
    )


@plant
def discards_nothing() -> None:
    """Leftovers between file and row stay where they are."""
    lookup.clean = lambda kind, publication: Published.absent()  # type: ignore[assignment]


@plant
def invents_ids_at_run_time() -> None:
    """Each attempt publishes under an id of its own."""
    identity_of = lookup.identity_of

    def invented(*given: Any) -> Publication:
        fixed = identity_of(*given)
        return msgspec.structs.replace(fixed, ids={name: str(uuid.uuid4()) for name in fixed.ids})

    lookup.identity_of = invented  # type: ignore[assignment]


@plant
def answers_before_the_commit() -> None:
    """The receipt is given while the job is still on its way to the disk."""
    submit = Engine.submit

    def hasty(self: Engine, *given: Any, **named: Any) -> Any:
        kind = self.app.kind(given[0])
        receipt = intake.Receipt(named["job_id"], intake.JobState.QUEUED, reused=False)
        kind.encode_input(given[1])
        threading.Timer(0.005, lambda: submit(self, *given, **named)).start()
        return receipt

    Engine.submit = hasty  # type: ignore[method-assign,assignment]


@plant
def settles_without_a_token() -> None:
    """Recovery settles a job that somebody else holds; the count of its queue is lowered twice."""
    _sql("leave_place", lambda text: text.replace("unfinished - 1", "max(unfinished - 2, 0)"))


@plant
def writes_no_history_of_recovery() -> None:
    """What recovery decides is not written down."""
    write_line = moves.write_line

    def silent(tx: Any, job: Any, subject: Any, verb: str, *rest: Any) -> None:
        if verb != "requeue_interrupted":
            write_line(tx, job, subject, verb, *rest)

    moves.write_line = silent  # type: ignore[assignment]


@plant
def recovery_releases_nobody() -> None:
    """Whoever waited for a job that recovery completed waits for ever."""
    settle, free = Ledger.settle, moves._free_dependants

    def settling(self: Ledger, *given: Any, **named: Any) -> Any:
        moves._free_dependants = lambda *rest: []  # type: ignore[assignment]
        try:
            return settle(self, *given, **named)
        finally:
            moves._free_dependants = free

    Ledger.settle = settling  # type: ignore[method-assign]


@plant
def leaves_pipes() -> None:
    """Pipes of dead processes stay."""
    wake.remove_dead = lambda folder: None  # type: ignore[assignment]


@plant
def claims_in_a_paused_queue() -> None:
    """A worker does not ask whether its queue is paused."""
    _sql("list_queues", lambda text: text.replace("unfinished, paused, stopped", "unfinished, 0, 0"))


@plant
def tells_no_notice() -> None:
    """An end that recovery writes leaves no durable notice."""
    _sql("insert_notices", lambda text: text.replace("from listener", "from listener where :state <> 'FAILED'"))

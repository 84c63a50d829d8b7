"""Ledgers that are wrong on purpose, each in one way; the machine must find every one of them.

A variant is planted with a `MonkeyPatch` and gone with it. One that changes a query names what it takes out of it, so
that it cannot become harmless when the query is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from machine import site
from perenne.core import decide as rules
from perenne.core import events
from perenne.core.decide import Change
from perenne.core.job import Job, Outcome, Receipt
from perenne.core.publication import Published
from perenne.core.states import JobState
from perenne.store import claims, dependants, intake, ledger, moves, telling, turns, writes
from perenne.store.ledger import Ledger
from perenne.store.sqlite import driver

Plant = Callable[[pytest.MonkeyPatch], None]


class Variant(NamedTuple):
    """One way of being wrong."""

    name: str
    sentence: str
    plant: Plant


VARIANTS: list[Variant] = []


def planted(sentence: str) -> Callable[[Plant], Plant]:
    def enter(plant: Plant) -> Plant:
        VARIANTS.append(Variant(plant.__name__, sentence, plant))
        return plant

    return enter


def without(patch: pytest.MonkeyPatch, query: str, *fragments: str) -> None:
    """Take fragments out of a named query."""
    instead(patch, query, *((fragment, "") for fragment in fragments))


def instead(patch: pytest.MonkeyPatch, query: str, *changes: tuple[str, str]) -> None:
    text = driver.queries()[query]
    for old, new in changes:
        assert old in text, f"{query} says no more {old!r}: plant the variant anew"
        text = text.replace(old, new)
    patch.setitem(driver.queries(), query, text)


def decided(patch: pytest.MonkeyPatch, wrong: Callable[[Job | None, events.Event, int, Any], Any]) -> None:
    """Let every caller of `decide` get another answer; `wrong` gets the sound answer, or None where it refuses."""
    sound = rules.decide

    def decide(job: Job | None, event: events.Event, now: int, luck: float = 0.0) -> Any:
        try:
            change = sound(job, event, now, luck)
        except Exception:
            other = wrong(job, event, now, None)
            if other is None:
                raise
            return other
        return wrong(job, event, now, change) or change

    for module in (telling, turns, writes, intake, claims):
        patch.setattr(module, "decide", decide)


def changed(change: Change, **values: Any) -> Change:
    return msgspec.structs.replace(change, **values)


# Tokens


@planted("The right to write is the number of the attempt, which is given twice after a restore.")
def token_is_a_counter(patch: pytest.MonkeyPatch) -> None:
    without(patch, "end_attempt", "and attempt = :attempt", "and (select epoch from store) = :epoch")

    def end(tx: Any, token: Any, event: Any, active_ms: int, now: int, luck: float, actor: str) -> list[Job]:
        job = turns.find(tx, token.job_id)
        if job is None or job.state is not JobState.RUNNING or job.number != token.number:
            raise writes.stale(token.job_id, token, job)
        change = telling.decide(job, event, now, luck)
        assert isinstance(change, Change)
        held = msgspec.structs.replace(token, attempt=job.attempt)
        return moves.end(tx, job, change, held, active_ms=active_ms, actor=actor, now=now)

    patch.setattr(turns, "settle", end)


@planted("Ending an attempt does not ask for the store's epoch.")
def epoch_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    without(patch, "end_attempt", "and (select epoch from store) = :epoch")


@planted("Progress is taken from whoever knows the job and the number.")
def progress_of_any_attempt(patch: pytest.MonkeyPatch) -> None:
    without(patch, "set_progress", "and attempt = :attempt", "and (select epoch from store) = :epoch")


@planted("Whether an attempt may go on is told by the state of the job alone.")
def check_by_state(patch: pytest.MonkeyPatch) -> None:
    without(
        patch, "token_holds", "and attempt = :attempt", "and number = :number", "and (select epoch from store) = :epoch"
    )


# Transactions


@planted(
    "A word about a job is decided on a row read before the transaction, and written without asking for its state."
)
def update_without_state(patch: pytest.MonkeyPatch) -> None:
    without(patch, "move_job", "and state = :from_state", "and state <> 'RUNNING'", "and revision = :revision")

    def tell(self: Ledger, job_id: str, event: events.Event, *, now: int, actor: str) -> list[Job]:
        before = self._driver.read(lambda tx: tx.one("job_by_id", id=job_id))

        def work(tx: Any) -> list[Job]:
            patch.setattr(turns, "find", lambda tx, id: turns.rows.job(before))
            return telling.tell(tx, job_id, event, now, actor)

        find = turns.find
        try:
            return self._driver.write(work)
        finally:
            patch.setattr(turns, "find", find)

    patch.setattr(Ledger, "tell", tell)


@planted("The best job is looked for before the transaction, so that two claimers get the same.")
def claim_outside_the_transaction(patch: pytest.MonkeyPatch) -> None:
    without(patch, "start_attempt", "and state = :from_state", "and revision = :revision")

    def claim(self: Ledger, lanes: Sequence[Any], *, owner: str, attempt: str, now: int) -> Any:
        self._driver.write(lambda tx: tx.run("ripen", now=now, limit=256))
        best = self._driver.read(
            lambda tx: (
                None
                if any(tx.one("read_store")[2:])
                else claims._best(tx, lanes, claims.open_queues(tx), claims.Place("", 1))
            )
        )
        if not best:
            return None
        epoch = self._driver.read(lambda tx: tx.one("read_store")[1])
        return self._driver.write(lambda tx: claims._start(tx, best[0][0], owner, attempt, epoch, now))

    patch.setattr(Ledger, "claim", claim)


@planted("The bound of a queue is looked at before the transaction that submits.")
def bound_outside_the_transaction(patch: pytest.MonkeyPatch) -> None:
    without(patch, "take_place", "and unfinished < capacity")
    sound = Ledger.submit

    def submit(self: Ledger, wanted: Any, *, now: int, actor: str) -> Any:
        row = self._driver.read(lambda tx: tx.one("read_queue", name=wanted.queue))
        if row is not None and row[2] >= row[1] and not self._driver.read(lambda tx: intake._reuse(tx, wanted)):
            raise moves.queue_full(wanted.queue, row[1])
        return sound(self, wanted, now=now, actor=actor)

    patch.setattr(Ledger, "submit", submit)


@planted("The notice is written, and told, before the transaction that ends the job.")
def notice_before_the_end(patch: pytest.MonkeyPatch) -> None:
    sound = Ledger.end
    patch.setitem(driver.queries(), "insert_notices_early", driver.queries()["insert_notices"])

    def end(self: Ledger, token: Any, ended: Any, *, now: int, luck: float, actor: str) -> Any:
        def tell(tx: Any) -> None:
            job = turns.find(tx, token.job_id)
            if job is not None:
                values = {"job": job.seq, "job_id": job.id, "revision": job.revision + 1, "now": now}
                tx.run("insert_notices_early", **values, state=telling.decide(job, ended, now, luck).to)

        returned = isinstance(ended.answer, events.Returned)
        if returned and self._driver.read(lambda tx: tx.one("token_holds", **msgspec.structs.asdict(token))):
            self._driver.write(tell)
            instead(patch, "insert_notices", ("from listener", "from listener where :state <> 'COMPLETED'"))
        try:
            return sound(self, token, ended, now=now, luck=luck, actor=actor)
        finally:
            patch.setitem(driver.queries(), "insert_notices", driver.queries()["insert_notices_early"])

    patch.setattr(Ledger, "end", end)


@planted("A batch is one transaction a member.")
def batch_by_members(patch: pytest.MonkeyPatch) -> None:
    def submit_many(self: Ledger, batch: Sequence[Any], *, now: int, actor: str) -> list[Any]:
        by_id = intake.check_batch(batch)
        order = ledger.ordered({wanted.id: wanted.dependencies for wanted in batch})
        answers = {id: self.submit(by_id[id], now=now, actor=actor) for id in order}
        return [answers[wanted.id] for wanted in batch]

    patch.setattr(Ledger, "submit_many", submit_many)


@planted("Dependants are released in a transaction of their own, after the end.")
def dependants_later(patch: pytest.MonkeyPatch) -> None:
    sound_end, free = Ledger.end, dependants.free
    patch.setattr(dependants, "free", lambda tx, ended, actor, now: [])

    def end(self: Ledger, token: Any, ended: Any, *, now: int, luck: float, actor: str) -> Any:
        answered = sound_end(self, token, ended, now=now, luck=luck, actor=actor)
        return answered + self._driver.write(lambda tx: free(tx, answered[0], actor, now))

    patch.setattr(Ledger, "end", end)


# Attempts


@planted("Recovery does not look whether a cancel was asked.")
def cancel_ignored_by_recovery(patch: pytest.MonkeyPatch) -> None:
    sound = rules._interrupted
    patch.setattr(
        rules, "_interrupted", lambda job, *found: sound(msgspec.structs.replace(job, cancel_asked=False), *found)
    )


@planted("Recovery does not look whether a pause was asked.")
def pause_ignored_by_recovery(patch: pytest.MonkeyPatch) -> None:
    sound = rules._interrupted
    patch.setattr(
        rules, "_interrupted", lambda job, *found: sound(msgspec.structs.replace(job, pause_asked=False), *found)
    )


@planted("An attempt whose process died is not counted, so that a deadly job runs for ever.")
def crash_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    def wrong(job: Any, event: Any, now: int, change: Any) -> Any:
        died = isinstance(event, events.Interrupted) and change is not None
        return changed(change, spends=False) if died and change.outcome is Outcome.INTERRUPTED else None

    decided(patch, wrong)


@planted("A death that is bounded apart spends an attempt all the same.")
def crash_is_counted_twice(patch: pytest.MonkeyPatch) -> None:
    def wrong(job: Any, event: Any, now: int, change: Any) -> Any:
        died = isinstance(event, events.Interrupted) and change is not None
        return changed(change, spends=True) if died and change.verb == "requeue_interrupted" else None

    decided(patch, wrong)


@planted("A job that must run alone is given a process that it shares.")
def alone_in_company(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claims, "_who_may_run_together", lambda best, company: best)


@planted("Whoever does not run alone overtakes a job that does.")
def alone_is_overtaken(patch: pytest.MonkeyPatch) -> None:
    def who(best: list[Any], company: bool) -> list[Any]:
        return [head for head in best if not head[0].runs_alone] or ([] if company else best[:1])

    patch.setattr(claims, "_who_may_run_together", who)


@planted("An attempt that failed is given back.")
def failure_is_given_back(patch: pytest.MonkeyPatch) -> None:
    def wrong(job: Any, event: Any, now: int, change: Any) -> Any:
        retried = isinstance(change, Change) and change.verb == "retry"
        return changed(change, spends=False) if retried else None

    decided(patch, wrong)


@planted("A job that asked to be called later has spent an attempt.")
def snooze_is_counted(patch: pytest.MonkeyPatch) -> None:
    def wrong(job: Any, event: Any, now: int, change: Any) -> Any:
        snoozed = isinstance(change, Change) and change.verb == "snooze"
        return changed(change, spends=True) if snoozed else None

    decided(patch, wrong)


@planted("A handler that returned well is believed although a cancel was asked.")
def success_beats_cancel(patch: pytest.MonkeyPatch) -> None:
    sound = rules._ended

    def ended(job: Job, end: Any, now: int, luck: float) -> Any:
        returned = isinstance(end.answer, events.Returned)
        return sound(msgspec.structs.replace(job, cancel_asked=False) if returned else job, end, now, luck)

    patch.setattr(rules, "_ended", ended)


@planted("A result that is published is not believed when the handler failed.")
def failure_beats_publication(patch: pytest.MonkeyPatch) -> None:
    sound = rules._ended

    def ended(job: Job, end: Any, now: int, luck: float) -> Any:
        if isinstance(end.answer, events.Raised):
            end = msgspec.structs.replace(end, published=Published.absent())
        return sound(job, end, now, luck)

    patch.setattr(rules, "_ended", ended)


@planted("A pause dies with the attempt that ended for another reason.")
def pause_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moves, "_GOES_ON", frozenset())


@planted("A person's requeue keeps the attempts that were spent.")
def requeue_keeps_spent(patch: pytest.MonkeyPatch) -> None:
    sound = writes._spent
    patch.setattr(writes, "_spent", lambda job, change: job.spent if change.verb == "requeue" else sound(job, change))


@planted("What is final can still be cancelled.")
def final_is_not_final(patch: pytest.MonkeyPatch) -> None:
    def wrong(job: Any, event: Any, now: int, change: Any) -> Any:
        late = (
            change is None and isinstance(event, events.Cancel) and job.state in (JobState.FAILED, JobState.COMPLETED)
        )
        return Change(verb="cancel", to=JobState.CANCELLED, reason="cancel_requested") if late else None

    decided(patch, wrong)


# Submitting and order


@planted("Reuse compares the key and not what was asked for.")
def reuse_compares_the_key_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intake, "_same", lambda tx, job, wanted, field: Receipt(job.id, job.state, reused=True))


@planted("At most one job per active key is QUEUED, but another may be submitted while one runs.")
def unique_only_among_queued(patch: pytest.MonkeyPatch) -> None:
    sound = site.Site.open

    def opened(self: site.Site) -> None:
        sound(self)
        self.one.driver.real._connection.execute(
            "drop index job_active; create unique index job_active on job (unique_key)"
            " where unique_key is not null and state = 'QUEUED'"
        )

    patch.setattr(site.Site, "open", opened)


@planted("A job is claimed before its time.")
def due_time_ignored(patch: pytest.MonkeyPatch) -> None:
    without(patch, "best_in_lane", "and due_at = 0")
    patch.setattr(
        rules, "_claim", lambda job, now: Change(verb="claim", to=JobState.RUNNING, reason="claimed", due_at=0)
    )


@planted("Jobs are claimed in the order of submission, whatever their priority.")
def priority_ignored(patch: pytest.MonkeyPatch) -> None:
    instead(patch, "best_in_lane", ("order by rank, seq", "order by seq"))
    patch.setattr(claims, "sorted", lambda heads, key: sorted(heads, key=lambda head: head[0].seq), raising=False)


@planted("A paused queue still hands out its jobs.")
def pause_of_a_queue_ignored(patch: pytest.MonkeyPatch) -> None:
    instead(patch, "list_queues", ("paused, stopped", "0, stopped"))


@planted("The controls of the workspace are read once, when the ledger is first asked.")
def controls_are_remembered(patch: pytest.MonkeyPatch) -> None:
    sound = claims.claim

    class Remembering:
        def __init__(self, tx: Any) -> None:
            self._tx = tx

        def one(self, query: str, **values: object) -> Any:
            row = self._tx.one(query, **values)
            if query != "read_store_for_claim":
                return row
            return (*row[:2], *vars(self._tx._watched).setdefault("remembered", row[2:]))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tx, name)

    patch.setattr(claims, "claim", lambda tx, *values, **company: sound(Remembering(tx), *values, **company))


@planted("A resumed job runs at once, although its time has not come.")
def resume_forgets_the_time(patch: pytest.MonkeyPatch) -> None:
    def wrong(job: Any, event: Any, now: int, change: Any) -> Any:
        resumed = isinstance(change, Change) and change.to is JobState.RETRY_WAIT and change.verb == "resume"
        return changed(change, to=JobState.QUEUED, due_at=0) if resumed else None

    decided(patch, wrong)


@planted("A clock that was set back ends every wait, also one for a time that was wished for.")
def step_ends_wished_waits(patch: pytest.MonkeyPatch) -> None:
    without(patch, "ripen_after_step", "and number > 0")


@planted("A clock that was set back prolongs every wait for another attempt.")
def step_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    without(patch, "ripen_after_step", "and updated_at > :now")
    instead(patch, "ripen_after_step", ("and number > 0", "and :now < 0"))


@planted("A job that runs no longer takes a place in its queue.")
def running_takes_no_place(patch: pytest.MonkeyPatch) -> None:
    sound = claims._start

    def start(tx: Any, job: Job, *values: Any) -> Any:
        tx.run("leave_place", name=job.queue)
        return sound(tx, job, *values)

    patch.setattr(claims, "_start", start)
    close = writes.close_attempt

    def closed(tx: Any, job: Job, *values: Any) -> None:
        tx.run("take_place", name=job.queue)
        close(tx, job, *values)

    patch.setattr(writes, "close_attempt", closed)


# What an end brings


@planted("Dependants are released when what they wait for failed.")
def released_on_failure(patch: pytest.MonkeyPatch) -> None:
    sound = dependants._meet_end

    def meet(tx: Any, place: int, ended: Job, actor: str, now: int) -> Any:
        return sound(tx, place, msgspec.structs.replace(ended, state=JobState.COMPLETED), actor, now)

    patch.setattr(dependants, "_meet_end", meet)


@planted("Only the first of several jobs that fail one after the other gives its place back.")
def cascade_keeps_places(patch: pytest.MonkeyPatch) -> None:
    sound = writes.step

    def step(tx: Any, job: Job, event: Any, actor: str, now: int) -> Job:
        moved = sound(tx, job, event, actor, now)
        if moved.is_final:
            tx.run("take_place", name=job.queue)
        return moved

    patch.setattr(writes, "step", step)


@planted("One verb leaves no line in the history.")
def snooze_leaves_no_line(patch: pytest.MonkeyPatch) -> None:
    sound = writes.log

    def log(tx: Any, job: Job, verb: str, *values: Any, **others: Any) -> None:
        if verb != "snooze":
            sound(tx, job, verb, *values, **others)

    patch.setattr(writes, "log", log)


@planted("A pause is told to listeners as if it were an end.")
def pause_is_told(patch: pytest.MonkeyPatch) -> None:
    sound = writes.record

    def record(tx: Any, job: Job, change: Change, actor: str, now: int) -> None:
        sound(tx, job, change, actor, now)
        if change.to is JobState.PAUSED:
            values = {"job": job.seq, "job_id": job.id, "revision": job.revision + 1, "now": now}
            tx.run("insert_notices", **values, state=change.to)

    patch.setattr(writes, "record", record)


@planted("Taking one notice takes all of that listener.")
def one_notice_takes_all(patch: pytest.MonkeyPatch) -> None:
    instead(
        patch,
        "delete_notice",
        ("where id = :id", "where listener = (select listener from notice where id = :id)"),
    )

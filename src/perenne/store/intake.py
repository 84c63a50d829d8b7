"""How a request becomes a row, or is found to be one already.

What does not live here: the transaction around it (`ledger`), and the typed check of the input (`core.kind`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import msgspec

from perenne.core import estimate, events, limits
from perenne.core.decide import Change, decide
from perenne.core.identity import check_uuid, is_uuid
from perenne.core.job import Durability, Job, Receipt, Submission
from perenne.core.kind import check_attempts
from perenne.core.states import JobState
from perenne.errors import DependencyCycle, DuplicateJob, EngineError, InvalidInput, JobNotFound
from perenne.store import dependants, moves, rows
from perenne.store.driver import Transaction

_CHECKED_MOST = 1_000
_checked: set[tuple[str, str]] = set()


def check(wanted: Submission) -> None:
    """Refuse what no ledger would take.

    Raises: InvalidInput, TooLarge, DependencyCycle: each names field, value, limit and next step.
    """
    check_uuid("id", wanted.id)
    if wanted.parent is not None:
        check_uuid("parent", wanted.parent)
    check_attempts(wanted.max_attempts)
    if wanted.max_interruptions is not None:
        check_attempts(wanted.max_interruptions, "max_interruptions")
    limits.check_size("input", len(wanted.input), limits.INPUT_BYTES, "submit a reference to the data instead")
    _check_names(wanted)
    if wanted.key is not None:
        limits.check_text("key", wanted.key, limits.KEY_BYTES)
    if wanted.unique_key is not None:
        limits.check_text("unique_key", wanted.unique_key, limits.KEY_BYTES)
    for field, at in (("due_at", wanted.due_at), ("requested_at", wanted.requested_at)):
        if type(at) is not int or not 0 <= at <= limits.DUE_MOST_US:
            raise _no_time(field, at)
    if wanted.priority not in limits.PRIORITY:
        low, high = limits.PRIORITY[0], limits.PRIORITY[-1]
        raise InvalidInput(
            f"priority: {wanted.priority}, the limit is {low} to {high}; give a number in it", field="priority"
        )
    if wanted.dependencies:
        _check_dependencies(wanted)
    if wanted.estimate is not None:
        estimate.read(wanted.estimate)


def _check_dependencies(wanted: Submission) -> None:
    if wanted.id in wanted.dependencies:
        raise DependencyCycle(
            f"dependencies: {wanted.id} → {wanted.id}; a job cannot wait for itself", field="dependencies"
        )
    found = len(wanted.dependencies)
    if found > limits.DEPENDENCIES:
        raise InvalidInput(
            f"dependencies: {found}, the limit is {limits.DEPENDENCIES}; join them in steps", field="dependencies"
        )


def _check_names(wanted: Submission) -> None:
    """Each pair of names once: a few of them stand in nearly all jobs."""
    names = (wanted.kind, wanted.queue)
    if names in _checked:
        return
    limits.check_text("kind", wanted.kind, limits.NAME_BYTES)
    limits.check_text("queue", wanted.queue, limits.NAME_BYTES)
    if len(_checked) < _CHECKED_MOST:
        _checked.add(names)


def check_batch(batch: Sequence[Submission]) -> dict[str, Submission]:
    """The members of a batch by id, each checked.

    Raises: as `check`, naming the member; InvalidInput: two members have one id.
    """
    by_id: dict[str, Submission] = {}
    for place, wanted in enumerate(batch):
        with named(f"member {place}"):
            check(wanted)
        if wanted.id in by_id:
            raise InvalidInput(
                f"member {place}: id: {wanted.id} stands twice in the batch; give each job its own", field="id"
            )
        by_id[wanted.id] = wanted
    return by_id


def enter_all(tx: Transaction, order: Sequence[Submission], now: int, actor: str) -> dict[str, Receipt]:
    """The receipts of a batch by the id each member asked for; who waits for a member that is reused waits for its job.

    Args: order: each member after those that it waits for.
    """
    receipts: dict[str, Receipt] = {}
    given = durability(order)
    for wanted in order:
        needs = tuple(receipts[id].job_id if id in receipts else id for id in wanted.dependencies)
        with named(f"job {wanted.id}"):
            known = msgspec.structs.replace(wanted, dependencies=needs, durability=given)
            receipts[wanted.id] = find_or_insert(tx, known, now, actor)
    return receipts


def durability(batch: Sequence[Submission]) -> Durability:
    """What every member of a batch gets: one transaction is synced as a whole, if one of them asks for it."""
    relaxed = all(wanted.durability is Durability.RELAXED for wanted in batch)
    return Durability.RELAXED if relaxed and batch else Durability.DURABLE


@contextmanager
def named(member: str) -> Iterator[None]:
    """Say of an error which member of a batch it is about."""
    try:
        yield
    except EngineError as error:
        raise type(error)(f"{member}: {error}", member=member, **error.facts) from None


def _no_time(field: str, at: object) -> InvalidInput:
    return InvalidInput(
        f"{field}: {at!r}, the limit is 0 to {limits.DUE_MOST_US} UTC microseconds; give a time in it",
        field=field,
        value=at,
        limit=limits.DUE_MOST_US,
    )


def find_or_insert(tx: Transaction, wanted: Submission, now: int, actor: str) -> Receipt:
    """The receipt of a new job, or of the one this request made before.

    Raises: QueueFull; JobNotFound: a dependency; DuplicateJob: the key, id or active key belongs to another job.
    """
    needs = _needs(tx, wanted) if wanted.dependencies else []
    unmet = sum(need.unmet for need in needs) if needs else 0
    change = _birth(unmet)
    if not tx.run("take_place", name=wanted.queue):
        return _reuse(tx, wanted) or _refuse_place(tx, wanted)
    if not tx.run("insert_job", *_row(wanted, change, unmet, now)):
        tx.run("leave_place", name=wanted.queue)
        return _reuse(tx, wanted) or _refuse_active(tx, wanted)
    tx.run("insert_birth", actor=actor)
    if needs:
        return _wait(tx, wanted, needs, now, actor)
    return Receipt(wanted.id, change.to, reused=False, durability=wanted.durability)


@lru_cache(maxsize=64)
def _birth(unmet: int) -> Change:
    """How a job begins: the one change that depends on no time."""
    change = decide(None, events.Submit(unmet), now=0)
    assert isinstance(change, Change)
    return change


def _wait(tx: Transaction, wanted: Submission, needs: list[_Need], now: int, actor: str) -> Receipt:
    """Let the new job wait for what it needs, or end with it."""
    row = tx.one("job_by_id", id=wanted.id)
    assert row is not None
    job = rows.job(row)
    for need in needs:
        tx.run("insert_dependency", job=job.seq, needs=need.place, waived=need.waived)
    settled = dependants.settle_blocked(tx, job, actor=actor, now=now)[0]
    return Receipt(wanted.id, settled.state, reused=False, durability=wanted.durability)


def _reuse(tx: Transaction, wanted: Submission) -> Receipt | None:
    """The receipt of the job that this key or id already made, when the content is the same."""
    for field, query in (("key", "job_by_key"), ("id", "job_by_id")):
        value = getattr(wanted, field)
        row = tx.one(query, **{field: value}) if value is not None else None
        if row is not None:
            return _same(tx, rows.job(row), wanted, field)
    return None


def _same(tx: Transaction, job: Job, wanted: Submission, field: str) -> Receipt:
    needs = {needed for needed, _, _ in tx.all("needs_of_job", job=job.seq)}
    for name, held, given in (
        ("key", job.key, wanted.key or job.key),
        ("kind", f"{job.kind}@{job.version}", f"{wanted.kind}@{wanted.version}"),
        ("input", job.input, wanted.input),
        ("dependencies", needs, set(wanted.dependencies)),
    ):
        if held != given:
            raise DuplicateJob(
                f"{field} {getattr(wanted, field)!r} belongs to job {job.id}, whose {name} differs; "
                f"submit the same content again, or use another {field}",
                field=field,
                job_id=job.id,
                differs=name,
            )
    return Receipt(job.id, job.state, reused=True, durability=wanted.durability)


def _refuse_active(tx: Transaction, wanted: Submission) -> Receipt:
    moves.refuse_second(tx, wanted.unique_key or "")
    raise AssertionError("the insert met no conflict that could be named")


def _refuse_place(tx: Transaction, wanted: Submission) -> Receipt:
    row = tx.one("read_queue", name=wanted.queue)
    if row is not None:
        raise moves.queue_full(wanted.queue, row[1])
    known = ", ".join(line[0] for line in tx.all("list_queues")) or "none"
    raise InvalidInput(
        f"queue: {wanted.queue!r} does not exist here; known: {known}", field="queue", value=wanted.queue
    )


class _Need(NamedTuple):
    """What a new job waits for, where it stands; waived: it ended badly, and the job goes on with that."""

    place: int
    unmet: bool
    waived: bool


def _needs(tx: Transaction, wanted: Submission) -> list[_Need]:
    needs = []
    for needed in dict.fromkeys(wanted.dependencies):
        row = tx.one("job_by_id", id=needed) if is_uuid(needed) else None
        if row is None:
            raise not_found(needed, "dependencies", "submit it first")
        job = rows.job(row)
        waived = dependants.goes_on_after(wanted.on_dependency, job.state)
        needs.append(_Need(job.seq, job.state is not JobState.COMPLETED and not waived, waived))
    return needs


def not_found(job_id: str, field: str = "job", next_step: str = "look with `perenne ps`") -> JobNotFound:
    """The error that names the job that is not here, however it was spelled."""
    prefix = "" if field == "job" else f"{field}: "
    shown = limits.clip(str(job_id), limits.NAME_BYTES)
    return JobNotFound(f"{prefix}no job {shown} in this workspace; {next_step}", field=field, value=job_id)


def _row(wanted: Submission, change: Change, unmet: int, now: int) -> tuple[object, ...]:
    """The new row in the order of `insert_job`: by place, for so many names cost as much as the insert."""
    return (
        wanted.id,
        wanted.kind,
        wanted.version,
        wanted.queue,
        change.to,
        change.reason,
        wanted.priority,
        limits.rank(now, wanted.priority),
        now,
        wanted.due_at,
        wanted.key,
        wanted.unique_key,
        wanted.input,
        wanted.publications,
        wanted.requested_at,
        wanted.on_dependency,
        unmet,
        wanted.max_attempts,
        wanted.active_limit_ms,
        wanted.max_interruptions,
        wanted.parent,
        wanted.estimate,
    )

"""What one turn of a worker records and claims, how an ending is recorded, and whether it stands.

What does not live here: the transaction around it (`ledger`), and when (`runtime.worker`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perenne.core import events
from perenne.core.artefact import Artefact
from perenne.core.decide import Change, decide
from perenne.core.identity import is_uuid
from perenne.core.job import Job, Need, Token
from perenne.core.resources import Reservation
from perenne.core.states import JobState
from perenne.core.verdicts import WaitsFor
from perenne.errors import StaleToken
from perenne.store import moves, proof, reservations, rows, writes
from perenne.store.claims import Claim
from perenne.store.driver import Transaction

NEEDS_AT_ONCE = 12  # with results of the largest size they fit one message to a child

ARTEFACTS_AT_ONCE = 256  # with the longest names they fit one message


class Ending(msgspec.Struct, frozen=True):
    """What a holder reports at the end of its attempt; `luck` in [0, 1) spreads retries."""

    token: Token
    ended: events.Ended
    luck: float


class Turn(msgspec.Struct, frozen=True):
    """What a turn did: for each ending the jobs (as `end` answers) or the refusal; new claims; the next due time.

    Args: resumed: what attempts that broke their sequence were granted, by attempt. rejected: jobs that no machine can
    ever run, and whoever ended with them. waits_for: what the best refused class waits for. unasked: a job with an
    estimate is due, and nobody had looked at the machine.
    """

    ended: list[list[Job] | StaleToken]
    claims: list[Claim]
    due_at: int | None
    resumed: dict[str, Reservation] = {}
    rejected: list[Job] = []
    waits_for: WaitsFor = ""
    unasked: bool = False


def stands(tx: Transaction, endings: Sequence[Ending], turn: Turn) -> bool:
    """Whether everything that the turn answered is there; what was answered as stale leaves nothing to look for."""
    kept = [ending for ending, jobs in zip(endings, turn.ended, strict=True) if isinstance(jobs, list)]
    broke = [ending.token for ending in kept if isinstance(ending.ended.answer, events.Broke)]
    ended = [ending.token for ending in kept if not isinstance(ending.ended.answer, events.Broke)]
    return (
        proof.ended(tx, *ended)
        and proof.claimed(tx, turn.claims)
        and all(proof.waits(tx, token) for token in broke if token.attempt not in turn.resumed)
        and all(proof.holds(tx, attempt) for attempt in turn.resumed)
    )


def find(tx: Transaction, job_id: str) -> Job | None:
    row = tx.one("job_by_id", id=job_id) if is_uuid(job_id) else None
    return rows.job(row) if row else None


def held(tx: Transaction, token: Token) -> tuple[bool, bool]:
    """Whether cancel and pause are asked of the attempt that holds this token.

    Raises: StaleToken: none does.
    """
    row = tx.one("token_holds", **msgspec.structs.asdict(token))
    if row is None:
        raise writes.stale(token.job_id, token, find(tx, token.job_id))
    return bool(row[0]), bool(row[1])


def needs(tx: Transaction, token: Token, after: int) -> list[Need]:
    """As `Ledger.needs`."""
    held(tx, token)
    return [
        rows.need(row) for row in tx.all("outcomes_of_needs", job_id=token.job_id, after=after, limit=NEEDS_AT_ONCE)
    ]


def artefacts_of(tx: Transaction, token: Token, needed: str, after: str) -> list[Artefact]:
    """As `Ledger.artefacts_of`."""
    held(tx, token)
    values = {"job_id": token.job_id, "needed": needed, "after": after, "limit": ARTEFACTS_AT_ONCE}
    return [Artefact(*row) for row in tx.all("artefacts_of_need", **values)]


def end(tx: Transaction, ending: Ending, now: int, actor: str) -> list[Job]:
    """Record how an attempt ended, or broke its sequence, inside a transaction; as `Ledger.end`."""
    if isinstance(ending.ended.answer, events.Broke):
        jobs = [_broke(tx, ending.token, now)]
    else:
        jobs = settle(tx, ending.token, ending.ended, ending.ended.active_ms, now, ending.luck, actor)
    if ending.ended.used is not None:
        reservations.note(tx, jobs[0], ending.ended.used)
    return jobs


def _broke(tx: Transaction, token: Token, now: int) -> Job:
    """The job, which holds nothing any more and asks for its next sequence.

    Raises: StaleToken.
    """
    row = tx.one("token_holds", **msgspec.structs.asdict(token))
    job = find(tx, token.job_id)
    if row is None or job is None:
        raise writes.stale(token.job_id, token, job)
    reservations.give_back(tx, job.seq, token.attempt, "it asks for its next sequence", now)
    return job


def end_or_stale(tx: Transaction, ending: Ending, now: int, actor: str) -> list[Job] | StaleToken:
    try:
        return end(tx, ending, now, actor)
    except StaleToken as late:
        return late  # raised before anything of it was written


def settle(
    tx: Transaction, token: Token, event: events.Event, active_ms: int, now: int, luck: float, actor: str
) -> list[Job]:
    """Write the end that `event` makes of the attempt of this token; the job, then whoever ended with it.

    Raises: StaleToken.
    """
    job = find(tx, token.job_id)
    if job is None or (job.attempt, job.number) != (token.attempt, token.number):
        raise writes.stale(token.job_id, token, job)
    change = decide(job, event, now, luck)
    assert isinstance(change, Change)
    if isinstance(event, events.Ended) and event.saved and change.to is JobState.COMPLETED:
        tx.run("drop_checkpoint", job=job.seq)  # nothing goes on from it; who failed or was cancelled may be requeued
    return moves.end(tx, job, change, token, active_ms=active_ms, actor=actor, now=now)

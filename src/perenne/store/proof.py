"""Whether a change stands, read back by the ids it was made with, after a commit of which nobody knows the outcome.

Asked in a later transaction about what the first one answered. Rows of attempts and jobs that exist are proof, since
nobody else uses their ids; states are not, since they move on.
"""

from __future__ import annotations

from collections.abc import Sequence

from perenne.core.job import Attempt, Receipt, Token
from perenne.store import reservations, rows
from perenne.store.claims import Claim
from perenne.store.driver import Transaction


def stored(tx: Transaction, *receipts: Receipt) -> bool:
    """Whether the job of every receipt is there."""
    return all(tx.one("job_by_id", id=receipt.job_id) is not None for receipt in receipts)


def claimed(tx: Transaction, claims: Sequence[Claim]) -> bool:
    """Whether every claim has its attempt; no claims need none."""
    return all(_attempt(tx, claim.token) is not None for claim in claims)


def ended(tx: Transaction, *tokens: Token) -> bool:
    """Whether the attempt of every token has ended. Nobody but its holder ends one while the holder lives."""
    found = [_attempt(tx, token) for token in tokens]
    return all(attempt is not None and attempt.ended_at is not None for attempt in found)


def waits(tx: Transaction, token: Token) -> bool:
    """Whether the running attempt of the token holds nothing and waits for its next sequence."""
    return any(one.attempt == token.attempt and one.waits_for is not None for one in reservations.all(tx))


def holds(tx: Transaction, attempt: str) -> bool:
    """Whether the running attempt holds a reservation."""
    return any(one.attempt == attempt and one.waits_for is None for one in reservations.all(tx))


def progressed(tx: Transaction, token: Token, progress: tuple[int, int | None, str | None]) -> bool:
    """Whether the running attempt of the token shows this progress."""
    row = tx.one("job_by_id", id=token.job_id)
    job = rows.job(row) if row else None
    if job is None or job.attempt != token.attempt:
        return False
    return (job.progress_done, job.progress_total, job.progress_message) == progress


def lines(tx: Transaction) -> int:
    """The number of the newest line of history."""
    row = tx.one("last_revision")
    return int(row[0]) if row else 0


def said(tx: Transaction, subject: str, actor: str, at: int, since: int) -> bool:
    """Whether the actor left a line about the subject at that instant, among those after one line."""
    return tx.one("line_after", since=since, subject=subject, actor=actor, at=at) is not None


def _attempt(tx: Transaction, token: Token) -> Attempt | None:
    attempts = [rows.attempt(row) for row in tx.all("attempts_of_job", job_id=token.job_id)]
    return next((attempt for attempt in attempts if attempt.id == token.attempt), None)

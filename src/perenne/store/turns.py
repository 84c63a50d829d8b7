"""What one turn of a worker records and claims, and whether it stands.

What does not live here: how it is carried out (`ledger`), and when (`runtime.worker`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perenne.core import events
from perenne.core.job import Job, Token
from perenne.errors import StaleToken
from perenne.store import proof
from perenne.store.claims import Claim
from perenne.store.driver import Transaction


class Ending(msgspec.Struct, frozen=True):
    """What a holder reports at the end of its attempt; `luck` in [0, 1) spreads retries."""

    token: Token
    ended: events.Ended
    luck: float


class Turn(msgspec.Struct, frozen=True):
    """What a turn did: for each ending the jobs (as `end` answers) or the refusal; new claims; the next due time."""

    ended: list[list[Job] | StaleToken]
    claims: list[Claim]
    due_at: int | None


def stands(tx: Transaction, endings: Sequence[Ending], turn: Turn) -> bool:
    """Whether everything that the turn answered is there; what was answered as stale leaves nothing to look for."""
    kept = [ending.token for ending, jobs in zip(endings, turn.ended, strict=True) if isinstance(jobs, list)]
    return proof.ended(tx, *kept) and proof.claimed(tx, turn.claims)

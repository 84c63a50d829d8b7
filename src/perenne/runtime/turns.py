"""The turns of one worker: each records what ended and claims anew, in one transaction, and is never made twice.

What does not live here: when a turn is taken, and what is done with what it claimed (`worker`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from perenne.core import events
from perenne.crashpoints import crash_point
from perenne.errors import OutcomeUnknown, StoreFailed
from perenne.runtime.ends import Ends
from perenne.runtime.executor import Executor
from perenne.runtime.luck import Luck
from perenne.runtime.slots import Places, Running
from perenne.store.ledger import Ending, Lane, Turn


@dataclass(frozen=True)
class Taken:
    """A turn that is durable, with the attempts whose ends it recorded. The ticket is open until they are told."""

    ended: list[Running]
    turn: Turn
    ticket: int


class Turns:
    """Asks the ledger, and keeps what it could not record for the next turn."""

    def __init__(self, executor: Executor, owner_id: str, ends: Ends, luck: Luck) -> None:
        self._ledger, self._clock, self._ends, self._luck = executor.ledger, executor.clock, ends, luck
        self._served, self._governor = executor.app.served, executor.governor
        self._owner_id = owner_id
        self._unrecorded: list[Running] = []
        self._doubt: tuple[list[Ending], Turn] | None = None

    def take(
        self, ended: list[Running], places: Places, *, company: bool, waiting: Collection[str] = ()
    ) -> Taken | None:
        """Record these ends, and those of turns that failed, and fill these places; None when there is nothing to do.

        Args: waiting: attempts that broke their sequence before this turn.
        Raises: StoreBusy, DiskLow: nothing was done, the next turn takes the ends along. OutcomeUnknown: call `recall`
        before the next turn. StorageError.
        """
        ended = self._unrecorded + ended
        wanted = places.slots.room + places.loop.room
        if not ended and not wanted:
            return None
        self._unrecorded = ended
        if ended:
            crash_point("acknowledge.begun")
        endings = [Ending(one.claim.token, _end_of(one), self._luck.fraction()) for one in ended]
        attempts = [self._luck.bytes(16).hex() for _ in range(wanted)]
        lanes = [Lane(*job, places.loop if kind.awaits else places.slots) for job, kind in self._served.items()]
        broke = [one.claim.token.attempt for one in ended if isinstance(_end_of(one).answer, events.Broke)]
        asking = {"situation": self._governor.situation(), "waiting": [*waiting, *broke], "company": company}
        return self._told_of(lambda made: self._ask(endings, lanes, attempts, made, asking), endings)

    def recall(self) -> Taken | None:
        """The turn of which nobody knew, if it was made. Else there is none any more: its ends wait for the next turn.

        Raises: OutcomeUnknown, StoreBusy, DiskLow: the store does not say yet. StoreFailed: it was replaced.
        """
        if self._doubt is None:
            return None
        endings, turn = self._doubt
        try:
            taken = self._told_of(lambda made: turn if self._ledger.stands(endings, turn) else None, endings)
        except StoreFailed as error:
            if "file" in error.facts:
                raise  # another file has its name; what was asked of this one will never be answered
            raise OutcomeUnknown(str(error)) from error
        self._doubt = None
        return taken

    def _told_of(self, ask: Callable[[list[Turn]], Turn | None], endings: list[Ending]) -> Taken | None:
        """Whoever waits for an end from now on waits until the listeners have heard of it."""
        ticket, made = self._ends.open(), list[Turn]()
        try:
            turn = ask(made)
        except BaseException as error:
            self._ends.close(ticket)
            if isinstance(error, OutcomeUnknown) and made:
                self._doubt = endings, made[0]
            raise
        if turn is None:
            self._ends.close(ticket)
            return None
        ended, self._unrecorded = self._unrecorded, []
        return Taken(ended, turn, ticket)

    def _ask(
        self, endings: list[Ending], lanes: list[Lane], attempts: list[str], made: list[Turn], asking: dict[str, Any]
    ) -> Turn:
        return self._ledger.turn(
            endings,
            lanes,
            attempts,
            owner=self._owner_id,
            now=self._clock.now(),
            actor=f"worker:{self._owner_id}",
            made=made,
            **asking,
        )


def _end_of(running: Running) -> events.Ended:
    assert running.ended is not None
    return running.ended

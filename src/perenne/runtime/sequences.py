"""The attempts of one worker between two sequences: they are held, run nowhere, and wait for what they need.

What does not live here: who is granted it (`store.admission`), and the slots they run in (`slots`).
"""

from __future__ import annotations

from collections.abc import Mapping

from perenne.core.events import Broke
from perenne.core.job import Job
from perenne.core.resources import Reservation
from perenne.errors import StaleToken
from perenne.runtime.slots import Running, Slots


class Sequences:
    """Who broke its sequence, by attempt."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._resting: dict[str, Running] = {}

    @property
    def waiting(self) -> list[str]:
        """The attempts that wait for their next sequence."""
        return list(self._resting)

    @property
    def threads(self) -> int:
        """How many threads the attempts of this worker were granted."""
        grants = [one.claim.grant for one in list(self._slots.held.values())]
        return sum(grant.threads for grant in grants if grant is not None)

    def rest(self, one: Running, answer: list[Job] | StaleToken) -> bool:
        """Whether what was recorded of it is a break; then it waits from now on."""
        if one.ended is None or not isinstance(one.ended.answer, Broke) or isinstance(answer, StaleToken):
            return False
        self._slots.rest(one)
        self._resting[one.claim.token.attempt] = one
        return True

    def go_on(self, resumed: Mapping[str, Reservation]) -> None:
        """Those go on with what they were granted."""
        for attempt, grant in resumed.items():
            self._slots.go_on(self._resting.pop(attempt), grant)

    def let_end_the_asked(self) -> None:
        """Whoever waits and is asked to end does so now, and needs no slot for it."""
        for attempt, one in list(self._resting.items()):
            if one.wishes.first is not None:
                del self._resting[attempt]
                self._slots.let_end(one)

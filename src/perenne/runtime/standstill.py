"""Says once a spell that a worker waits for its store or its disk: such a spell is a state, not a storm of messages.

What does not live here: why nothing is claimed (`store.space`), and when it is tried again (`worker`).
"""

from __future__ import annotations

from perenne.errors import DiskLow, EngineError, OutcomeUnknown, StoreBusy
from perenne.runtime.joblog import JobLog

# After these the same may be tried again, and will work one day.
PASSING = (StoreBusy, DiskLow, OutcomeUnknown)


class Standstill:
    """What the worker waits for, and whether that was said."""

    def __init__(self, log: JobLog) -> None:
        self.no_room = False
        self._log = log
        self._waits_for: str | None = None
        self._unsaid: str | None = None

    def note(self, refusal: EngineError | None) -> None:
        """Why nothing is claimed, or None: there is room. When there is some again, nobody rings."""
        self.no_room = refusal is not None
        if refusal is not None:
            self.say(str(refusal))
            return
        if self._unsaid is not None:
            # The disk that was full had no room for the line either; it is said once, now.
            self._log.write("warning", "store_waits", error=self._unsaid, over=True)
        self._waits_for = self._unsaid = None

    def say(self, why: str) -> None:
        """Write a line, unless this spell has one."""
        if self._waits_for is None and not self._log.write("warning", "store_waits", error=why):
            self._unsaid = why
        self._waits_for = why

"""What a worker waits for when the store or the disk does not let it go on: said once a spell, and not as a storm.

What does not live here: how long it waits, and what it tries then (`worker`).
"""

from __future__ import annotations

from perenne.errors import DiskLow, EngineError, OutcomeUnknown, StoreBusy
from perenne.runtime.joblog import JobLog

# After these the same thing may be tried again, and will work one day.
PASSING = (StoreBusy, DiskLow, OutcomeUnknown)


class Waiting:
    """The spell that lasts now, if there is one."""

    def __init__(self, log: JobLog) -> None:
        self._log = log
        self._why: str | None = None
        self._unsaid: str | None = None

    def say(self, why: EngineError) -> None:
        """The worker waits for this."""
        if self._why is None and not self._log.write("warning", "store_waits", error=str(why)):
            self._unsaid = str(why)
        self._why = str(why)

    def over(self) -> None:
        """The worker goes on."""
        if self._unsaid is not None:
            # The disk that was full had no room for the line either; it is said once, now.
            self._log.write("warning", "store_waits", error=self._unsaid, over=True)
        self._why = self._unsaid = None

"""Wakes images up with the standard library's SQLite, and knows in which committed states they may be found."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

from powercut import questions
from powercut.disk import Disk, Image
from powercut.questions import Facts, Wrong
from powercut.recording import LEDGER, Moment, Recording, moments

NOTHING = "nothing"


class Recovery:
    """A folder in which images are woken up, one after the other."""

    def __init__(self, recording: Recording) -> None:
        shared_memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="powercut-", dir=shared_memory if shared_memory.is_dir() else None))
        self._schemas = questions.schemas(recording.migrations)

    def __enter__(self) -> Recovery:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)

    def wake(self, image: Image, shared_memory: bytes | None = None) -> sqlite3.Connection | None:
        """Open the image as the next program would; None when there is no ledger at all yet."""
        for left in self.folder.iterdir():
            left.unlink()
        for name, content in image.items():
            (self.folder / name).write_bytes(content)
        if shared_memory is not None:
            (self.folder / f"{LEDGER}-shm").write_bytes(shared_memory)
        if not image.get(LEDGER) and not image.get(f"{LEDGER}-journal"):
            return None
        connection = sqlite3.connect(self.folder / LEDGER, isolation_level=None)
        connection.execute("pragma synchronous = off")  # of the copy, which nobody needs tomorrow
        return connection

    def state(self, image: Image, shared_memory: bytes | None = None) -> tuple[str, Facts]:
        """The digest of all rows, and the facts found.

        Raises: Wrong: the file is not whole, or tells no coherent story.
        """
        try:
            connection = self.wake(image, shared_memory)
            if connection is None:
                return NOTHING, {}
            try:
                return self._ask(connection)
            finally:
                connection.close()
        except sqlite3.DatabaseError as error:
            raise Wrong("corrupt", f"{type(error).__name__}: {error}") from error

    def _ask(self, connection: sqlite3.Connection) -> tuple[str, Facts]:
        questions.ask_sqlite(connection)
        if not questions.ask_schema(connection, self._schemas):
            return NOTHING, {}
        questions.ask_agreement(connection)
        return questions.digest(connection), questions.facts(connection)


class Truth:
    """In which committed state the ledger may be found after a power cut at each moment."""

    def __init__(self, recording: Recording, recovery: Recovery) -> None:
        """Wherever something was synced or acknowledged, what everything that was written holds is committed."""
        self._facts = [facts for _, facts in recording.acknowledged]
        self._states: list[tuple[int, str]] = [(-1, NOTHING)]
        self._acknowledged_at = [-1]
        for at, operation in enumerate(recording.operations):
            if operation[0] == "ack":
                self._acknowledged_at.append(at)
        for moment, present in moments(recording):
            if recording.operations[moment.operation][0] in ("sync", "delete", "ack", "adopt", "seen"):
                self._states.append((moment.operation, self._whole(recovery, present)))

    @staticmethod
    def _whole(recovery: Recovery, present: Disk) -> str:
        try:
            return recovery.state(present.whole())[0]
        except Wrong as wrong:  # a planted fault may do that; no image may then be found so
            return f"never {wrong}"

    def fault(
        self, moment: Moment, recovery: Recovery, image: Image, shared_memory: bytes | None = None
    ) -> Wrong | None:
        """What is wrong when the ledger wakes up so."""
        try:
            self._judge(moment, *recovery.state(image, shared_memory))
        except Wrong as wrong:
            return wrong
        return None

    def _judge(self, moment: Moment, digest: str, facts: Facts) -> None:
        after = self._facts[min(moment.acknowledged + 1, len(self._facts) - 1)]
        questions.ask_facts(facts, self._facts[moment.acknowledged], after)
        if digest not in self._allowed(moment):
            raise Wrong("unknown", "the ledger was never committed in this state since the last acknowledgement")

    def _allowed(self, moment: Moment) -> set[str]:
        """The state at the last acknowledgement, those since, and the first that comes after the power cut."""
        since = self._acknowledged_at[moment.acknowledged]
        before = [state for at, state in self._states if at <= since][-1:]
        later = [state for at, state in self._states if at > moment.operation][:1]
        return {*before, *later, *(state for at, state in self._states if since < at <= moment.operation)}

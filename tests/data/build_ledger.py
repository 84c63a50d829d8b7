"""Writes `ledger-v<schema version>.sqlite` beside itself: a ledger with a job in every state, by the code of today.

Run once, when a schema version is about to be published; the file then stays as it is for ever.
"""

from __future__ import annotations

import sys
from pathlib import Path

from perenne import sqlite
from perenne.core import events
from perenne.core.job import Submission
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.store.ledger import Lane, Ledger
from perenne.store.notices import Notices
from perenne.store.owners import Owner, Owners
from perenne.store.sqlite import driver, migration

WORKSPACE = "00000000-0000-4000-8000-000000000001"
OWNER = Owner("00000000-0000-4000-8000-0000000000aa", 4242, "00000000-0000-4000-8000-0000000000bb", "777")
NOW = 1_750_000_000_000_000
ABSENT = Published.absent()


def ended(answer: events.Answer) -> events.Ended:
    return events.Ended(answer=answer, published=ABSENT, active_ms=20)


ENDINGS: dict[str, events.Event] = {
    "RETRY_WAIT": ended(events.Raised("the disk was away", True, Backoff())),
    "RECOVERY_REQUIRED": ended(events.Doubted("two different results")),
    "COMPLETED": ended(events.Returned(b'{"pages":3}')),
    "FAILED": ended(events.GaveUp("the mail has no header")),
    "DEAD": events.Interrupted(ABSENT),
}
WORDS: dict[str, events.Event] = {
    "PAUSED": events.Pause(),
    "PAUSED_QUOTA": events.LackBudget("12 tokens are missing"),
    "CANCELLED": events.Cancel("not wanted any more"),
}


class Builder:
    """One ledger in the making; each job's kind is named after the state it shall end in."""

    def __init__(self, path: Path) -> None:
        driver.create(path, workspace=WORKSPACE, now=NOW)
        self.driver = driver.SQLiteDriver(path, workspace=WORKSPACE)
        self.ledger, self.now, self.ids = Ledger(self.driver), NOW, 0
        self.ledger.add_queue("default", 128)
        Notices(self.driver).register("listener", now=NOW)
        Owners(self.driver).join(OWNER, now=NOW)

    def tick(self) -> int:
        self.now += 1_000_000
        return self.now

    def submit(self, state: str, *needs: str) -> str:
        self.ids += 1
        wanted = Submission(
            id=f"00000000-0000-4000-8000-{self.ids:012d}",
            kind=f"data.{state.lower()}",
            version=1,
            input=b'{"text":"caf\xc3\xa9"}',
            key=f"key of {state}",
            unique_key=f"active {state}",
            dependencies=needs,
            max_attempts=1 if state == "DEAD" else 3,
            publications='{"report":"00000000-0000-4000-8000-00000000cafe"}',
            requested_at=NOW,
        )
        return self.ledger.submit(wanted, now=self.tick(), actor="person:builder").job_id

    def run(self, state: str, event: events.Event | None) -> None:
        attempt = f"{self.ids:032x}"
        lane = Lane(f"data.{state.lower()}", 1)
        claim = self.ledger.claim([lane], owner=OWNER.id, attempt=attempt, now=self.tick())
        assert claim is not None
        actor = f"worker:{OWNER.id}"
        if isinstance(event, events.Ended):
            self.ledger.end(claim.token, event, now=self.tick(), luck=0.5, actor=actor)
        elif isinstance(event, events.Interrupted):
            self.ledger.settle(claim.token, event, now=self.tick(), actor=actor)


def build(path: Path) -> None:
    """A ledger with a job in every state, as one file."""
    builder = Builder(path)
    waited_for = builder.submit("QUEUED")
    builder.submit("BLOCKED", waited_for)
    for state, word in WORDS.items():
        builder.ledger.tell(builder.submit(state), word, now=builder.tick(), actor="person:builder")
    for state, ending in ENDINGS.items():
        builder.submit(state)
        builder.run(state, ending)
    builder.submit("RUNNING")
    builder.run("RUNNING", None)
    builder.driver.close()
    sqlite.open(path, mode="write", journal="delete").close()


if __name__ == "__main__":
    build(Path(__file__).parent / f"ledger-v{migration.known()}.sqlite")
    sys.exit(0)

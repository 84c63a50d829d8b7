"""The engine goes on with ledgers that woke up after a power cut: `resume.py FOLDER`, one image in each folder below.

A process of its own, on the file layer of every day. It ends with an error at the first ledger that cannot be used.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from perenne.core import events
from perenne.core.job import Submission, Token
from perenne.core.states import JobState
from perenne.store.ledger import Ledger
from perenne.store.owners import Owner, Owners
from perenne.store.reader import Reader
from perenne.store.sqlite.driver import SQLiteDriver
from powercut.recording import LEDGER
from powercut.story import ABSENT, LANES, WORKSPACE

NOW = 1_760_000_000_000_000  # after all that was recorded
OWNER = Owner("ffffffff-0000-4000-8000-000000000000", 1, "boot", "2")
QUEUE = "after"


def go_on(path: Path) -> None:
    """Settle what runs, let everything go on, and work off one more job."""
    driver = SQLiteDriver(path, workspace=WORKSPACE, may_migrate=True)
    try:
        ledger, owners = Ledger(driver), Owners(driver)
        owners.join(OWNER, now=NOW)
        _settle(ledger, owners)
        for queue in (None, *(queue.name for queue in Reader(driver).queues())):
            ledger.control("resume", queue, now=NOW, actor="person:test")
        ledger.add_queue(QUEUE, 1)
        _work_off_one(ledger)
    finally:
        driver.close()


def _settle(ledger: Ledger, owners: Owners) -> None:
    for owner in owners.present():
        for attempt in owners.running(owner.id):
            token = Token(attempt.job_id, attempt.id, attempt.number, owners.epoch())
            ledger.settle(token, events.Interrupted(ABSENT), now=NOW, actor="worker:next")


def _work_off_one(ledger: Ledger) -> None:
    wanted = Submission(id=OWNER.id, kind=LANES[0].kind, version=1, input=b"{}", queue=QUEUE, priority=1000)
    ledger.submit(wanted, now=NOW, actor="person:test")
    claim = None
    while claim is None or claim.job.id != wanted.id:
        claim = ledger.claim(LANES, owner=OWNER.id, attempt=f"{NOW:032x}", now=NOW)
        assert claim is not None, "a job that waits is claimed"
        ended = events.Ended(answer=events.Returned(b'"done"'), published=ABSENT)
        answered = ledger.end(claim.token, ended, now=NOW, luck=0.5, actor="worker:next")
        assert answered[0].state is JobState.COMPLETED


def main() -> None:
    for image in sorted(Path(sys.argv[1]).iterdir()):
        print(image.name, flush=True)
        go_on(image / LEDGER)


if __name__ == "__main__":
    main()

"""Where the facts of a ledger contradict each other: counts and what they count, jobs and their attempts.

Nothing here can come about through the ledger; a row that says so was written by a fault, or by another hand.
"""

from __future__ import annotations

from perenne.core.states import FINAL, JobState
from perenne.store.driver import Transaction

MOST = 20  # of each sort; the first ones say enough

_FINAL = "[" + ",".join(f'"{state}"' for state in sorted(FINAL)) + "]"


def find(tx: Transaction) -> list[str]:
    """A sentence for each contradiction, at most twenty of each sort."""
    return [*counters(tx), *unmet(tx), *attempts(tx), *births(tx)]


def counters(tx: Transaction) -> list[str]:
    """Queues whose number of unfinished jobs is not that of their unfinished jobs."""
    found = tx.all("wrong_counters", final=_FINAL, limit=MOST)
    return [f"queue {name}: it says {said} unfinished jobs, there are {real}" for name, said, real in found]


def unmet(tx: Transaction) -> list[str]:
    """Jobs whose number of missing dependencies is not that of their missing dependencies."""
    found = tx.all("wrong_unmet", completed=JobState.COMPLETED, limit=MOST)
    return [f"job {id}: it says {said} dependencies are missing, there are {real}" for id, said, real in found]


def attempts(tx: Transaction) -> list[str]:
    """Jobs that run without an open attempt, and open attempts of jobs that do not run them."""
    running = tx.all("running_without_attempt", running=JobState.RUNNING, limit=MOST)
    open_ones = tx.all("attempt_without_running", running=JobState.RUNNING, limit=MOST)
    return [
        *(f"job {id}: it is RUNNING, but its attempt {number} is not open" for id, number in running),
        *(f"job {id}: it is {state}, but its attempt {number} is open" for id, state, number in open_ones),
    ]


def births(tx: Transaction) -> list[str]:
    """Jobs whose first line of history is missing, or another one's."""
    found = tx.all("wrong_births", limit=MOST)
    return [f"job {id}: line {born} of the history is not the one of its birth" for id, born in found]

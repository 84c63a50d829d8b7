"""What the ledger is put through while its writes are recorded, and what it acknowledged after each call.

Ids, times and sizes come from the seed. What a call acknowledged is written down from its answer, by hand; see
`questions.facts` for the shape of each fact.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

from perenne import crashpoints
from perenne.core import events
from perenne.core.job import Job, Receipt, Submission, Token
from perenne.core.publication import Published
from perenne.core.states import JobState
from perenne.store.driver import Driver
from perenne.store.ledger import Claim, Ending, Lane, Ledger
from perenne.store.notices import Notices
from perenne.store.owners import Owner, Owners
from perenne.store.retention import Retention, Rule

SECOND = 1_000_000
KINDS = ("mail", "picture")
LANES = [Lane(kind, 1) for kind in KINDS]
ABSENT = Published.absent()
WORKSPACE = "00000000-0000-4000-8000-000000000001"  # also in the ledgers of tests/data


class Story:
    """One ledger, and everything it has acknowledged so far."""

    def __init__(
        self,
        acknowledge: Callable[[str, dict[tuple[str, str], tuple[Any, ...]]], None],
        seed: int,
        seen: Callable[[], None],
    ) -> None:
        """Args: acknowledge: told what the call was and all facts that stand, each time a durable call has returned.

        seen: called when a call has returned that promised nothing against a power cut.
        """
        self._tell, self.seen = acknowledge, seen
        self.seed = seed
        self.facts: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.luck = Random(seed)
        self.now = 1_750_000_000 * SECOND
        self._ids = count(1)
        self.jobs: list[str] = []
        self.tokens: dict[str, Token] = {}
        self.owner = ""

    def use(self, driver: Driver, queued: Callable[[], int]) -> None:
        """Go on with this driver. Args: queued: how many callers wait for somebody else's transaction to end."""
        self._queued = queued
        self.ledger, self.owners, self.notices = Ledger(driver), Owners(driver), Notices(driver)
        self.retention = Retention(driver)

    def acknowledged(self, label: str) -> None:
        self._tell(label, dict(self.facts))

    def id(self) -> str:
        return f"{self.luck.getrandbits(32):08x}-0000-4000-8000-{next(self._ids):012d}"

    def tick(self) -> int:
        self.now += SECOND
        return self.now

    # What a person or a program asks

    def open_workspace(self) -> None:
        self.facts["workspace", ""] = (WORKSPACE, 1, 0, 0)

    def add_queue(self, name: str, capacity: int) -> None:
        self.ledger.add_queue(name, capacity)
        self.facts["queue", name] = (capacity, 0, 0)
        self.acknowledged("control")

    def control(self, verb: Any, queue: str | None) -> None:
        self.ledger.control(verb, queue, now=self.tick(), actor="person:test")
        name = ("workspace", "") if queue is None else ("queue", queue)
        *head, paused, stopped = self.facts[name]
        self.facts[name] = (*head, *{"pause": (1, stopped), "stop": (paused, 1), "resume": (0, 0)}[verb])
        self.acknowledged("control")

    def wanted(self, *needs: str, kind: str = KINDS[0], size: int | None = None, **wishes: Any) -> Submission:
        size = self.luck.choice((2, 20, 300, 1500, 6000)) if size is None else size
        return Submission(
            id=self.id(), kind=kind, version=1, input=self.luck.randbytes(size), dependencies=needs, **wishes
        )

    def submit(self, *needs: str, **wishes: Any) -> str:
        wanted = self.wanted(*needs, **wishes)
        self.received([wanted], [self.ledger.submit(wanted, now=self.tick(), actor="person:test")])
        self.acknowledged("submit")
        return wanted.id

    def submit_many(self, batch: Sequence[Submission]) -> None:
        self.received(batch, self.ledger.submit_many(batch, now=self.tick(), actor="person:test"))
        self.acknowledged("submit_many")

    def submit_together(self, size: int) -> None:
        """Several callers whose requests share one transaction: they arrive while the first one is in its own."""
        batch = [self.wanted() for _ in range(size)]
        answers: dict[str, Receipt] = {}
        now = self.tick()

        def call(wanted: Submission) -> None:
            answers[wanted.id] = self.ledger.submit(wanted, now=now, actor="person:test")

        others = [threading.Thread(target=call, args=(wanted,)) for wanted in batch[1:]]
        with _once("submit.written", lambda: self._let_queue(others)):
            call(batch[0])
        for thread in others:
            thread.join()
        self.received(batch, [answers[wanted.id] for wanted in batch])
        self.acknowledged("submit")

    def _let_queue(self, callers: Sequence[threading.Thread]) -> None:
        """Start each caller once the one before has queued up, so that the order is always the same."""
        deadline = time.monotonic() + 10
        for number, caller in enumerate(callers, 1):
            caller.start()
            while self._queued() < number and time.monotonic() < deadline:
                time.sleep(0.0005)  # reason: a caller that has queued up sleeps and says nothing

    def received(self, batch: Sequence[Submission], receipts: Sequence[Receipt]) -> None:
        for wanted, receipt in zip(batch, receipts, strict=True):
            assert receipt.job_id == wanted.id
            assert not receipt.reused
            self.jobs.append(wanted.id)
            self.facts["receipt", wanted.id] = (
                wanted.kind,
                wanted.queue,
                wanted.key,
                wanted.unique_key,
                wanted.input,
                wanted.priority,
                str(wanted.on_dependency),
                wanted.max_attempts,
            )
            self.facts["state", wanted.id] = (str(receipt.state), 0, 0, None)
            if wanted.dependencies:
                self.facts["needs", wanted.id] = (" ".join(sorted(wanted.dependencies)),)

    def tell(self, job_id: str, event: events.Event, label: str = "control") -> None:
        answered = self.ledger.tell(job_id, event, now=self.tick(), actor="person:test")
        self._stand(answered)
        self.acknowledged(label)

    # What a worker does

    def join(self) -> None:
        self.owner = self.id()
        self.owners.join(Owner(self.owner, 4242, "boot", "7"), now=self.tick())
        self.facts["owner", self.owner] = (4242, 0)
        self.acknowledged("join")

    def leave(self) -> None:
        self.owners.leave(self.owner, now=self.tick())
        self.facts["owner", self.owner] = (4242, 1)
        self.acknowledged("leave")

    def claim(self) -> Token:
        claim = self.ledger.claim(LANES, owner=self.owner, attempt=self.id(), now=self.tick())
        assert claim is not None
        self._claimed([claim])
        self.acknowledged("claim")
        return claim.token

    def progress(self, token: Token, done: int) -> None:
        self.ledger.progress(token, done, 10, f"{done} of ten", now=self.tick())
        self.facts["progress", token.job_id] = (done, 10, f"{done} of ten")
        self.acknowledged("progress")

    def end(self, token: Token, answer: events.Answer, published: Published = ABSENT) -> None:
        ended = events.Ended(answer=answer, published=published, active_ms=7)
        answered = self.ledger.end(token, ended, now=self.tick(), luck=0.5, actor=f"worker:{self.owner}")
        self._ended(token, answered, 7)
        self.acknowledged("finish")

    def settle(self, token: Token, published: Published = ABSENT) -> None:
        answered = self.ledger.settle(token, events.Interrupted(published), now=self.tick(), actor="worker:next")
        self._ended(token, answered, 0)
        self.acknowledged("recover")

    def turn(self, answers: dict[str, events.Answer], claims: int) -> None:
        """End and claim in one transaction."""
        tokens = [self.tokens[id] for id in answers]
        endings = [
            Ending(token, events.Ended(answer=answer, published=ABSENT, active_ms=7), 0.5)
            for token, answer in zip(tokens, answers.values(), strict=True)
        ]
        attempts = [self.id() for _ in range(claims)]
        turn = self.ledger.turn(endings, LANES, attempts, owner=self.owner, now=self.tick(), actor="worker:test")
        for token, answered in zip(tokens, turn.ended, strict=True):
            assert isinstance(answered, list)
            self._ended(token, answered, 7)
        self._claimed(turn.claims)
        self.acknowledged("turn")

    def listen(self, name: str) -> None:
        self.notices.register(name, now=self.tick())
        self.facts["listener", name] = ()
        self.acknowledged("listen")

    def take_notices(self, name: str) -> None:
        for notice in self.notices.pending(name, 100):
            self.notices.acknowledge(notice)
            del self.facts["notice", notice.id]
            self.acknowledged("notice")

    def purge(self, keep: int, step: int, history: Any) -> None:
        rule = Rule(keep=keep, history=history)
        for _, ids in self.retention.purge(rule, now=self.tick(), actor="person:test", step=step):
            for id in ids:
                self._forget(id)
            self.acknowledged("purge")

    def waits(self, job_id: str) -> bool:
        """Whether the job was given back to be tried again; one that had no attempt left was not."""
        return self.facts["state", job_id][0] == str(JobState.QUEUED)

    # What the answers say

    def _claimed(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            token, job = claim.token, claim.job
            self.tokens[job.id] = token
            self.facts["claim", token.attempt] = (job.id, token.number, token.epoch, self.owner)
            self.facts["progress", job.id] = (0, None, None)
            self._stand([job])

    def _ended(self, token: Token, answered: Sequence[Job], active_ms: int) -> None:
        del self.tokens[token.job_id]
        outcome = _outcome(answered[0])
        if outcome is not None:
            self.facts["ended", token.attempt] = (outcome, active_ms)
        self._stand(answered)

    def _stand(self, answered: Sequence[Job]) -> None:
        """Each answered job stands as it was answered, and told each listener if it ended."""
        for job in answered:
            self.facts["state", job.id] = (str(job.state), job.number, job.spent, job.result)
            self.facts.pop(("wish", job.id), None)
            if job.state is JobState.RUNNING:
                self.facts["wish", job.id] = (int(job.cancel_asked), int(job.pause_asked))
            else:
                self.facts.pop(("progress", job.id), None)
            if job.is_final:
                self._notify(job)
        self._release()

    def _notify(self, job: Job) -> None:
        for name in [name for what, name in self.facts if what == "listener"]:
            self.facts["notice", f"{job.id}.{job.revision}.{name}"] = (name, job.id, str(job.state))

    def _release(self) -> None:
        """Whoever waited for nothing but completed jobs is in the queue now; no answer says so."""
        for what, id in list(self.facts):
            if what == "needs" and self.facts["state", id][0] == "BLOCKED":
                (needs,) = self.facts[what, id]
                if all(self.facts["state", needed][0] == "COMPLETED" for needed in needs.split()):
                    self.facts["state", id] = ("QUEUED", *self.facts["state", id][1:])

    def _forget(self, id: str) -> None:
        gone = [name for name, values in self.facts.items() if name[1] == id or (name[0] == "notice" and id in values)]
        attempts = [name[1] for name, values in self.facts.items() if name[0] == "claim" and values[0] == id]
        for name in gone + [(what, attempt) for what in ("claim", "ended") for attempt in attempts]:
            self.facts.pop(name, None)


def _outcome(job: Job) -> str | None:
    """How the attempt ended, where the state of the job alone says it."""
    known = {JobState.COMPLETED: "completed", JobState.FAILED: "failed", JobState.RECOVERY_REQUIRED: "doubted"}
    return known.get(job.state)


@contextmanager
def _once(point: str, work: Callable[[], object]) -> Iterator[None]:
    """Do the work when the point is passed the first time."""
    left = [work]

    def observer(name: str) -> None:
        if name == point and left:
            left.pop()()

    crashpoints.observe(observer)
    try:
        yield
    finally:
        crashpoints.observe(None)

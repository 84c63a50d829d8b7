"""The ledger a second time: plain values in dictionaries, written by hand from the specification.

What lives here: what each call answers, and what stands afterwards. What does not: SQL, and any rule of the engine;
`core.decide` and `core.states` are not asked.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from machine.jobs import PRIORITY_US, WAITING, Job, Queue, Refused

Token = tuple[str, str, int, int]  # job, attempt, number, epoch
Answered = list[tuple[str, str, int]]  # id, state, number: the job of the call, then whoever ended with it


class Model:
    """Everything that one ledger knows."""

    def __init__(self, queues: dict[str, int]) -> None:
        self.jobs: dict[str, Job] = {}  # in the order of submission
        self.queues = {name: Queue(capacity) for name, capacity in queues.items()}
        self.epoch = 1
        self.paused = self.stopped = False
        self.listeners: set[str] = set()
        self.notices: list[tuple[str, str, str]] = []  # listener, job, state
        self.controls: list[tuple[str, str]] = []  # subject, verb
        self.now = 0

    def at(self, now: int) -> Self:
        """The clock, as whoever calls next reads it."""
        self.now = now
        return self

    def move(self, job: Job, verb: str, to: str) -> None:
        job.history.append((verb, job.state or None, to, job.number or None))
        if self.is_overtaken(job):
            job.due_at = 0
        job.state, job.moved_at = to, self.now

    def is_overtaken(self, job: Job) -> bool:
        """The clock was set back since it began to wait for another attempt: it would wait so much longer."""
        return job.state != "RUNNING" and job.number > 0 and job.moved_at > self.now

    def copy(self) -> Self:
        twin: Self = pickle.loads(pickle.dumps(self))
        return twin

    # Questions

    def missing(self, job: Job) -> list[Job]:
        """What it still waits for."""
        needed = [self.jobs[id] for id in job.needs if id not in job.waived]
        return [other for other in needed if other.state != "COMPLETED"]

    def unfinished(self, queue: str) -> int:
        return sum(job.queue == queue and not job.is_final for job in self.jobs.values())

    def dependants(self, needed: Job) -> Iterator[Job]:
        return (job for job in list(self.jobs.values()) if needed.id in job.needs)

    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == "RUNNING"]

    def token_of(self, job: Job) -> Token:
        assert job.attempt is not None
        return job.id, job.attempt, job.number, self.epoch

    def holder(self, token: Token) -> Job:
        """The job that this token may write to."""
        job = self.jobs.get(token[0])
        if job is None or job.state != "RUNNING" or self.token_of(job) != token:
            raise Refused("StaleToken")
        return job

    # Submitting

    def submit(self, wanted: Any, now: int) -> tuple[str, str, bool]:
        """The id, the state, and whether it was there already."""
        if wanted.queue not in self.queues:
            raise Refused("InvalidInput")
        if any(id not in self.jobs for id in wanted.dependencies):
            raise Refused("JobNotFound")
        known = self._known(wanted)
        if known is not None:
            if wanted.key not in (None, known.key) or not _is_same(known, wanted):
                raise Refused("DuplicateJob")
            return known.id, known.state, True
        refusals = self._place_refusals(wanted.queue) + self._key_refusals(wanted.unique_key)
        if refusals:
            raise Refused(*refusals)
        return self._enter(wanted, now)

    def _known(self, wanted: Any) -> Job | None:
        with_key = [job for job in self.jobs.values() if wanted.key is not None and job.key == wanted.key]
        return with_key[0] if with_key else self.jobs.get(wanted.id)

    def _place_refusals(self, queue: str) -> list[str]:
        return ["QueueFull"] if self.unfinished(queue) >= self.queues[queue].capacity else []

    def _key_refusals(self, unique_key: str | None) -> list[str]:
        held = any(job.unique_key == unique_key and not job.is_final for job in self.jobs.values())
        return ["DuplicateJob"] if unique_key is not None and held else []

    def _enter(self, wanted: Any, now: int) -> tuple[str, str, bool]:
        job = Job(
            id=wanted.id,
            kind=wanted.kind,
            queue=wanted.queue,
            input=wanted.input,
            key=wanted.key,
            unique_key=wanted.unique_key,
            priority=wanted.priority,
            rank=now - wanted.priority * PRIORITY_US,
            submitted_at=now,
            due_at=wanted.due_at,
            on_dependency=str(wanted.on_dependency),
            max_attempts=wanted.max_attempts,
            needs=tuple(dict.fromkeys(wanted.dependencies)),
            max_interruptions=wanted.max_interruptions,
            parent=wanted.parent,
        )
        self.jobs[job.id] = job
        for needed in job.needs:
            self._go_on_after(job, self.jobs[needed])
        self._wait(job, "submit", now)
        return job.id, job.state, False

    def submit_many(self, batch: Sequence[Any], now: int) -> list[tuple[str, str, bool]]:
        """All or none."""
        by_id = {wanted.id: wanted for wanted in batch}
        if len(by_id) < len(batch):
            raise Refused("InvalidInput")
        trial, answers, names = self.copy(), {}, {}
        for id in _needed_first(by_id):
            answers[id] = trial.submit(_renamed(by_id[id], names), now)
            names[id] = answers[id][0]
        self.__dict__ = trial.__dict__
        return [answers[wanted.id] for wanted in batch]

    def submit_children(self, token: Token, batch: Sequence[Any], now: int) -> list[tuple[str, str, bool]]:
        """All or none, and only for whoever holds the token."""
        self.holder(token)
        return self.submit_many(batch, now)

    # What people and the engine say

    def tell(self, job_id: str, word: str, reason: str, now: int) -> Answered:
        if job_id not in self.jobs:
            raise Refused("JobNotFound")
        job = self.jobs[job_id]
        refusals = [] if job.state in SAID_WHILE[word] else ["AlreadyFinished" if job.is_final else "NotAllowed"]
        refusals += [] if reason or word in _OF_THE_ENGINE else ["InvalidInput"]
        if refusals:
            raise Refused(*refusals)
        if job.state == "RUNNING":
            stood = job.cancel_asked, job.pause_asked
            job.cancel_asked = job.cancel_asked or word == "cancel"
            job.pause_asked = word == "pause" or (word == "cancel" and job.pause_asked)
            if (job.cancel_asked, job.pause_asked) != stood:
                self.move(job, f"ask_{word}", "RUNNING")
            return answered([job])
        stood = getattr(self, f"_{word}")(job, now)
        if job.state in WAITING:
            self._block_again(job)
            stood = [*self._meet_bad_ends(job, now), *stood[1:]]  # it may wait for one that has ended meanwhile
        return answered(stood)

    def _cancel(self, job: Job, now: int) -> list[Job]:
        self.move(job, "cancel", "CANCELLED")
        return self._finish(job, now)

    def _pause(self, job: Job, now: int) -> list[Job]:
        self.move(job, "pause", "PAUSED")
        job.cancel_asked = False
        return [job]

    def _resume(self, job: Job, now: int) -> list[Job]:
        job.give_one_more()
        job.cancel_asked = False
        not_due = job.state == "PAUSED" and job.due_at > now and not self.is_overtaken(job)
        return self._wait(job, "resume", now, "RETRY_WAIT" if not_due else "QUEUED")

    def _release(self, job: Job, now: int) -> list[Job]:
        job.waived |= {other.id for other in self.missing(job)}
        self._let_go(job)
        return [job]

    def _let_go(self, job: Job) -> None:
        self.move(job, "release", "QUEUED")
        job.give_one_more()
        job.active_ms = 0
        job.cancel_asked = False

    def _block(self, job: Job, now: int) -> list[Job]:
        self.move(job, "block", "BLOCKED")
        job.waits_for, job.cancel_asked = "a tool", False
        return self._meet_bad_ends(job, now)

    def _reject(self, job: Job, now: int) -> list[Job]:
        self.move(job, "reject", "FAILED")
        return self._finish(job, now)

    def _quota(self, job: Job, now: int) -> list[Job]:
        self.move(job, "quota", "PAUSED_QUOTA")
        job.cancel_asked = False
        return [job]

    def _resolve_completed(self, job: Job, now: int) -> list[Job]:
        return self._resolve(job, "COMPLETED", now)

    def _resolve_failed(self, job: Job, now: int) -> list[Job]:
        return self._resolve(job, "FAILED", now)

    def _resolve_queued(self, job: Job, now: int) -> list[Job]:
        return self._resolve(job, "QUEUED", now)

    def _resolve(self, job: Job, to: str, now: int) -> list[Job]:
        job.due_at = 0
        self.move(job, "resolve", to)
        if job.is_final:
            return self._finish(job, now)
        job.give_one_more()
        job.active_ms, job.cancel_asked = 0, False
        return [job]

    def _requeue(self, job: Job, now: int) -> list[Job]:
        refusals = self._place_refusals(job.queue) + self._key_refusals(job.unique_key)
        if refusals:
            raise Refused(*refusals)
        job.spent = job.failures = job.interruptions = job.active_ms = 0
        job.finished_at, job.cancel_asked = None, False
        job.due_at = 0 if job.number else job.due_at  # an old backoff; a time given at submit stays
        missing = self.missing(job)
        job.waits_for = "dependencies"
        self.move(job, "requeue", "BLOCKED" if missing else "QUEUED")
        for other in self.dependants(job):
            self._wait_again(other, job)
        return self._meet_bad_ends(job, now)

    def _wait_again(self, other: Job, job: Job) -> None:
        """Who went on without a job waits for it, now that it was started again; who runs already goes on."""
        if other.state not in ("RUNNING", "COMPLETED"):
            other.waived.discard(job.id)
        if other.state in WAITING:
            self._block_again(other)
        elif other.state == "BLOCKED" and other.waits_for == "a tool" and self.missing(other):
            other.waits_for = "dependencies"  # and for the tool when these are there

    def _block_again(self, job: Job) -> None:
        if self.missing(job):
            self.move(job, "block", "BLOCKED")
            job.waits_for, job.cancel_asked = "dependencies", False

    # What waits, and what an end does to it

    def _wait(self, job: Job, verb: str, now: int, to: str = "QUEUED") -> list[Job]:
        """Into the queue, or BLOCKED while something is missing."""
        if self.missing(job):
            job.waits_for, to = "dependencies", "BLOCKED"
        self.move(job, verb, to)
        return self._meet_bad_ends(job, now)

    def _meet_bad_ends(self, job: Job, now: int) -> list[Job]:
        if job.state == "BLOCKED" and job.on_dependency == "fail" and any(o.is_final for o in self.missing(job)):
            self.move(job, "fail", "FAILED")
            return self._finish(job, now)
        return [job]

    def _finish(self, job: Job, now: int) -> list[Job]:
        """The job has ended: it is told, and whoever waited for it is released or ends with it."""
        job.finished_at = now
        self.notices += [(name, job.id, job.state) for name in sorted(self.listeners)]
        ended, place = [job], 0
        while place < len(ended):
            for other in self.dependants(ended[place]):
                if ended[place].id not in other.waived:
                    self._go_on_after(other, ended[place])
                    ended += self._meet_end(other, ended[place], now) if other.state == "BLOCKED" else []
            place += 1
        return ended

    def _go_on_after(self, job: Job, needed: Job) -> None:
        """A join takes a bad end as it is."""
        if job.on_dependency == "continue" and needed.is_final and needed.state != "COMPLETED":
            job.waived.add(needed.id)

    def _meet_end(self, other: Job, ended: Job, now: int) -> list[Job]:
        if ended.state != "COMPLETED" and ended.id not in other.waived:
            if other.on_dependency != "fail":
                return []
            self.move(other, "fail", "FAILED")
            other.finished_at = now
            self.notices += [(name, other.id, "FAILED") for name in sorted(self.listeners)]
            return [other]
        if other.waits_for == "dependencies" and not self.missing(other):
            self._let_go(other)
        return []

    # Controls

    def control(self, verb: str, queue: str | None) -> None:
        if queue is not None and queue not in self.queues:
            raise Refused("InvalidInput")
        lane: Any = self if queue is None else self.queues[queue]
        lane.paused = verb == "pause" or (verb == "stop" and lane.paused)
        lane.stopped = verb == "stop" or (verb == "pause" and lane.stopped)
        self.controls.append(("workspace" if queue is None else f"queue:{queue}", verb))

    def raise_epoch(self, to: int) -> None:
        self.epoch = to

    def register(self, listener: str) -> None:
        self.listeners.add(listener)


_OF_THE_ENGINE = ("block", "reject", "quota")
_HELD = ("PAUSED", "PAUSED_QUOTA")
SAID_WHILE = {
    "cancel": ("RUNNING", *WAITING, "BLOCKED", *_HELD),
    "pause": ("RUNNING", *WAITING, "BLOCKED"),
    "resume": ("RUNNING", *_HELD),
    "release": ("BLOCKED",),
    "block": WAITING,
    "reject": WAITING,
    "quota": WAITING,
    "resolve_completed": ("RECOVERY_REQUIRED",),
    "resolve_queued": ("RECOVERY_REQUIRED",),
    "resolve_failed": ("RECOVERY_REQUIRED",),
    "requeue": ("FAILED", "CANCELLED", "DEAD"),
}


def answered(jobs: Sequence[Job]) -> Answered:
    return [(job.id, job.state, job.number) for job in jobs]


def _is_same(known: Job, wanted: Any) -> bool:
    asked = (wanted.kind, wanted.input, set(wanted.dependencies))
    return (known.kind, known.input, set(known.needs)) == asked


def _renamed(wanted: Any, names: dict[str, str]) -> Any:
    """The request, with members of its batch that were there already under the ids that they have."""
    return msgspec.structs.replace(wanted, dependencies=tuple(names.get(need, need) for need in wanted.dependencies))


def _needed_first(batch: dict[str, Any]) -> list[str]:
    """The ids of a batch, each after those of the batch that it waits for, else in the order given."""
    done: list[str] = []

    def enter(id: str, above: tuple[str, ...]) -> None:
        if id in above:
            raise Refused("DependencyCycle")
        if id not in done:
            for need in batch[id].dependencies:
                if need in batch:
                    enter(need, (*above, id))
            done.append(id)

    for id in batch:
        enter(id, ())
    return done

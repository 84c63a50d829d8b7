"""The part of the model that speaks of attempts: claims, and how each of them ends. By hand from the specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from machine.jobs import SECOND, WAITING, Attempt, Job, Refused
from machine.model import Answered, Model, Token, answered


@dataclass(frozen=True)
class Ending:
    """What a holder says at the end. `answer`: one of the words in `ANSWERS`; `published`: what a look found."""

    answer: str
    published: str = "absent"
    limit_used: bool = False
    overrun: bool = False
    result: bytes | None = None
    active_ms: int = 0
    wait_s: float = 2.0
    luck: float = 0.5


# How each answer ends the attempt when nothing comes before it: verb, state, outcome, whether the attempt counts.
ANSWERS = {
    "returned": ("complete", "COMPLETED", "completed", 1),
    "raised": ("retry", "RETRY_WAIT", "failed", 1),
    "raised_for_good": ("fail", "FAILED", "failed", 1),
    "gave_up": ("fail", "FAILED", "failed", 1),
    "doubted": ("doubt", "RECOVERY_REQUIRED", "doubted", 1),
    "missing": ("block", "BLOCKED", "blocked", 0),
    "snoozed": ("snooze", "RETRY_WAIT", "snoozed", 0),
    "stopped_quota": ("quota", "PAUSED_QUOTA", "quota", 0),
    "stopped_pause": ("pause", "PAUSED", "paused", 0),
    "stopped_suspend": ("suspend", "QUEUED", "suspended", 0),
    "stopped_cancel": ("suspend", "QUEUED", "suspended", 0),  # the wish was taken back meanwhile
}
_DOUBT = ANSWERS["doubted"]
_GOES_ON = (*WAITING, "BLOCKED")


class Runs(Model):
    """The model, with attempts."""

    def claim(
        self, kinds: Sequence[str], attempts: Sequence[str], owner: str, now: int, company: bool = False
    ) -> list[tuple[str, Token]]:
        """Best first: by rank, then submission; never out of a closed lane, never before its time, and not beside
        a job that runs alone, or past it.
        """
        for job in self.jobs.values():
            if job.state in WAITING and (job.due_at <= now or self.is_overtaken(job)):
                job.due_at = 0  # its time has come, and stays come when the clock is set back
        if self.paused or self.stopped:
            return []
        ready = [job for job in self.jobs.values() if self._is_ready(job) and job.kind in kinds]
        ready.sort(key=lambda job: job.rank)  # stable: submission decides between equals
        started: list[tuple[str, Token]] = []
        for job, id in zip(ready, attempts, strict=False):
            alone = job.runs_alone
            if alone and (company or started):
                break
            started.append((job.id, self._start(job, id, owner)))
            if alone:
                break
        return started

    def _is_ready(self, job: Job) -> bool:
        queue = self.queues[job.queue]
        return job.state in WAITING and job.due_at == 0 and not queue.paused and not queue.stopped

    def _start(self, job: Job, attempt: str, owner: str) -> Token:
        job.number += 1
        job.spent += 1
        self.move(job, "claim", "RUNNING")
        job.attempt, job.progress = attempt, (0, None, None)
        job.attempts.append(Attempt(attempt, job.number, self.epoch, owner))
        return self.token_of(job)

    def check(self, token: Token) -> tuple[bool, bool]:
        job = self.holder(token)
        return job.cancel_asked, job.pause_asked

    def report(self, token: Token, progress: tuple[int, int | None, str | None]) -> None:
        self.holder(token).progress = progress

    def end(self, token: Token, said: Ending, now: int) -> Answered:
        """The first that holds: published, doubt, overrun, cancel, active time used up, then the answer."""
        job = self.holder(token)
        verb, to, outcome, counts = self._judge(job, said)
        if verb == "retry":
            job.due_at = now + int(said.luck * min(300.0, 1.0 * 2**job.failures) * SECOND)
        if verb == "snooze":
            job.due_at = now + int(max(1.0, said.wait_s) * SECOND)
        job.result = said.result if verb == "complete" else None
        job.active_ms += said.active_ms
        job.waits_for = "a tool" if said.answer == "missing" and not said.limit_used else "more time"
        return self._close(job, verb, to, outcome, counts, said.active_ms, now)

    def _judge(self, job: Job, said: Ending) -> tuple[str, str, str, int]:
        if said.published == "coherent":
            return "complete", "COMPLETED", "completed", int(said.answer not in ("not_called", "missing"))
        if said.published != "absent":
            return _DOUBT
        if said.overrun:
            return "bury", "DEAD", "failed", 1
        if job.cancel_asked:
            return "cancel", "CANCELLED", "cancelled", 1
        if said.limit_used:
            return "block", "BLOCKED", "blocked", 1
        if said.answer == "raised" and job.spent >= job.max_attempts:
            return ANSWERS["raised_for_good"]
        if said.answer == "stopped_pause" and not job.pause_asked:
            return ANSWERS["stopped_suspend"]  # as above
        return ANSWERS[said.answer]

    def settle(self, token: Token, published: str, result: bytes | None, now: int) -> Answered:
        """What recovery makes of an attempt whose owner is dead."""
        job = self.holder(token)
        counts = int(job.max_interruptions is None)
        if published == "coherent":
            move, counts = ("complete", "COMPLETED", "completed"), 1
        elif published != "absent":
            move, counts = _DOUBT[:3], 1
        elif job.cancel_asked:
            move, counts = ("cancel", "CANCELLED", "cancelled"), 1
        elif job.pause_asked:
            move = ("pause", "PAUSED", "interrupted")
        elif not job.dies_of_one_more:
            move = ("requeue_interrupted", "QUEUED", "interrupted")
        else:
            move, counts = ("bury", "DEAD", "interrupted"), 1
        job.result = result if published == "coherent" else None
        return self._close(job, *move, counts, 0, now)

    def _close(self, job: Job, verb: str, to: str, outcome: str, counts: int, active_ms: int, now: int) -> Answered:
        pause_asked, job.pause_asked = job.pause_asked, False
        job.spent -= 1 - counts
        job.failures += outcome == "failed"
        job.interruptions += outcome == "interrupted"
        last = job.attempts[-1]
        last.outcome, last.spent, last.active_ms = outcome, counts, active_ms
        job.attempt = None
        self.move(job, verb, to)
        if job.is_final:
            return answered(self._finish(job, now))
        if pause_asked and to in _GOES_ON:
            self.move(job, "pause", "PAUSED")
            job.cancel_asked = False
        return answered([job])

    def turn(
        self,
        endings: Sequence[tuple[Token, Ending]],
        kinds: Sequence[str],
        attempts: Sequence[str],
        owner: str,
        now: int,
        company: bool,
    ) -> tuple[list[Answered | str], list[tuple[str, Token]]]:
        """Ends, then claims; who is late harms nobody."""
        ended: list[Answered | str] = []
        for token, said in endings:
            try:
                ended.append(self.end(token, said, now))
            except Refused as refused:
                ended.append(refused.names[0])
        return ended, self.claim(kinds, attempts, owner, now, company) if attempts else []

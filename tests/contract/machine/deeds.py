"""One deed as two calls: what the ledger is asked, and what the model says must come out of it.

What lives here: the translation between words and the ledger's values, and answers in a form that can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from machine.jobs import Refused
from machine.model import Answered, Token
from machine.runs import Ending, Runs
from machine.site import Worker
from perenne.core import events, job
from perenne.core.job import Job, Submission
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from perenne.errors import EngineError, StaleToken
from perenne.store.ledger import Claim, Lane
from perenne.store.ledger import Ending as Report

SUBMIT = {"actor": "person:test"}
WORK = {"actor": "worker:test"}


class Deed(NamedTuple):
    """Something that can be done to both ledgers."""

    label: str
    to_ledger: Callable[[Worker], Any]
    to_model: Callable[[Runs], Any]
    about: str | None = None  # the job, if it is about one

    def ask_ledger(self, worker: Worker) -> Any:
        """The answer, or the name of the error."""
        try:
            return self.to_ledger(worker)
        except EngineError as error:
            return _Refusal((type(error).__name__,))
        except AssertionError as error:
            return _Refusal((f"AssertionError: {error}",))

    def ask_model(self, model: Runs) -> Any:
        try:
            return self.to_model(model)
        except Refused as refused:
            return _Refusal(refused.names)


class _Refusal(NamedTuple):
    names: tuple[str, ...]


def agree(answer: Any, expected: Any) -> bool:
    """Whether the ledger's answer is the model's; an error may be any of those that the model names."""
    if isinstance(answer, _Refusal) and isinstance(expected, _Refusal):
        return set(answer.names) <= set(expected.names)
    return bool(answer == expected)


def is_refused(answer: Any, name: str) -> bool:
    return isinstance(answer, _Refusal) and name in answer.names


# Submitting


def submit(wanted: Submission, now: int) -> Deed:
    return Deed(
        f"submit {wanted}",
        lambda worker: _receipt(worker.ledger.submit(wanted, now=now, **SUBMIT)),
        lambda model: model.at(now).submit(wanted, now),
    )


def submit_many(batch: Sequence[Submission], now: int) -> Deed:
    return Deed(
        f"submit_many {batch}",
        lambda worker: [_receipt(found) for found in worker.ledger.submit_many(batch, now=now, **SUBMIT)],
        lambda model: model.at(now).submit_many(batch, now),
    )


def submit_children(token: Token, batch: Sequence[Submission], now: int) -> Deed:
    held = job.Token(*token)

    def ask(worker: Worker) -> list[tuple[str, str, bool]]:
        return [_receipt(found) for found in worker.ledger.submit_many(batch, now=now, token=held, **SUBMIT)]

    return Deed(
        f"{token} submits {batch}", ask, lambda model: model.at(now).submit_children(token, batch, now), about=token[0]
    )


def _receipt(receipt: job.Receipt) -> tuple[str, str, bool]:
    return receipt.job_id, str(receipt.state), receipt.reused


# People's words

_WORDS: dict[str, Callable[[str], events.Event]] = {
    "cancel": events.Cancel,
    "pause": events.Pause,
    "resume": events.Resume,
    "release": events.Release,
    # The engine's own words bring their reason along.
    "block": lambda reason: events.Block("tool_missing"),
    "reject": lambda reason: events.Reject("it can never run"),
    "quota": lambda reason: events.LackBudget("nothing is left"),
    "resolve_completed": lambda reason: events.Resolve(JobState.COMPLETED, reason),
    "resolve_queued": lambda reason: events.Resolve(JobState.QUEUED, reason),
    "resolve_failed": lambda reason: events.Resolve(JobState.FAILED, reason),
    "requeue": events.Requeue,
}
WORDS = tuple(_WORDS)


def tell(job_id: str, word: str, reason: str, now: int) -> Deed:
    return Deed(
        f"tell {job_id} {word} {reason!r}",
        lambda worker: _stand(worker.ledger.tell(job_id, _WORDS[word](reason), now=now, **SUBMIT)),
        lambda model: model.at(now).tell(job_id, word, reason, now),
        about=job_id,
    )


def control(verb: Any, queue: str | None, now: int) -> Deed:
    return Deed(
        f"{verb} {queue or 'the workspace'}",
        lambda worker: worker.ledger.control(verb, queue, now=now, **SUBMIT),
        lambda model: model.at(now).control(verb, queue),
    )


def _stand(jobs: Sequence[Job]) -> Answered:
    return [(found.id, str(found.state), found.number) for found in jobs]


# Attempts


def claim(kinds: Sequence[str], attempt: str, owner: str, now: int) -> Deed:
    lanes = [Lane(kind, 1) for kind in kinds]

    def ask(worker: Worker) -> list[tuple[str, Token]]:
        found = worker.ledger.claim(lanes, owner=owner, attempt=attempt, now=now)
        return _claims([found] if found else [])

    return Deed(f"claim {kinds} by {owner}", ask, lambda model: model.at(now).claim(kinds, [attempt], owner, now))


def _claims(found: Sequence[Claim]) -> list[tuple[str, Token]]:
    return [(claim.job.id, _plain(claim.token)) for claim in found]


def _plain(token: job.Token) -> Token:
    return token.job_id, token.attempt, token.number, token.epoch


_ANSWERS: dict[str, Callable[[Ending], events.Answer]] = {
    "returned": lambda said: events.Returned(said.result),
    "raised": lambda said: events.Raised("it broke", True, Backoff()),
    "raised_for_good": lambda said: events.Raised("it is broken", False, Backoff()),
    "gave_up": lambda said: events.GaveUp("it cannot be done"),
    "doubted": lambda said: events.Doubted("two results"),
    "missing": lambda said: events.Missing("the tool is away"),
    "snoozed": lambda said: events.Snoozed(said.wait_s),
    "stopped_quota": lambda said: events.Stopped("quota"),
    "stopped_pause": lambda said: events.Stopped("pause"),
    "stopped_suspend": lambda said: events.Stopped("suspend"),
    "stopped_cancel": lambda said: events.Stopped("cancel"),
    "not_called": lambda said: events.NotCalled(),
}


def _published(state: str, result: bytes | None) -> Published:
    if state == "coherent":
        return Published.coherent(result)
    return Published.absent() if state == "absent" else Published(state, "what was found")  # type: ignore[arg-type]


def _ended(said: Ending) -> events.Ended:
    return events.Ended(
        answer=_ANSWERS[said.answer](said),
        published=_published(said.published, said.result),
        active_ms=said.active_ms,
        limit_used=said.limit_used,
        overrun="too many tokens" if said.overrun else None,
    )


def end(token: Token, said: Ending, now: int) -> Deed:
    return Deed(
        f"end {token} {said}",
        lambda worker: _stand(
            worker.ledger.end(job.Token(*token), _ended(said), now=now, luck=said.luck, actor="worker:test")
        ),
        lambda model: model.at(now).end(token, said, now),
        about=token[0],
    )


def settle(token: Token, published: str, result: bytes | None, now: int) -> Deed:
    found = events.Interrupted(_published(published, result))
    return Deed(
        f"settle {token} {published}",
        lambda worker: _stand(worker.ledger.settle(job.Token(*token), found, now=now, **WORK)),
        lambda model: model.at(now).settle(token, published, result, now),
        about=token[0],
    )


def turn(
    endings: Sequence[tuple[Token, Ending]],
    kinds: Sequence[str],
    attempts: Sequence[str],
    owner: str,
    now: int,
    company: bool,
) -> Deed:
    reports = [Report(job.Token(*token), _ended(said), said.luck) for token, said in endings]
    lanes = [Lane(kind, 1) for kind in kinds]

    def ask(worker: Worker) -> Any:
        done = worker.ledger.turn(reports, lanes, attempts, owner=owner, now=now, company=company, **WORK)
        ended = [type(one).__name__ if isinstance(one, StaleToken) else _stand(one) for one in done.ended]
        return ended, _claims(done.claims)

    return Deed(
        f"turn {endings} {kinds}{' in company' if company else ''}",
        ask,
        lambda model: model.at(now).turn(endings, kinds, attempts, owner, now, company),
    )


def report(token: Token, progress: tuple[int, int | None, str | None], now: int) -> Deed:
    return Deed(
        f"progress {token} {progress}",
        lambda worker: worker.ledger.progress(job.Token(*token), *progress, now=now),
        lambda model: model.at(now).report(token, progress),
    )


def check(token: Token) -> Deed:
    return Deed(
        f"check {token}",
        lambda worker: worker.ledger.check(job.Token(*token)),
        lambda model: model.check(token),
    )

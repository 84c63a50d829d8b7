"""Calls a handler and turns whatever it does into an answer: the same in a worker's thread and in a child.

What does not live here: what is looked up before and after (`executor`), and what an answer means (`core.decide`).
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from perenne import nearest
from perenne.core import answers, events, limits
from perenne.core.kind import Kind
from perenne.core.lossless import HALF, first_loss
from perenne.errors import Cancelled, ConfinementMissing, InvalidInput, TooLarge, Unwound, WallLimitReached
from perenne.runtime import lacking
from perenne.runtime.context import Context, Log
from perenne.runtime.saving import REFUSALS, refused
from perenne.runtime.saying import said
from perenne.runtime.wishes import Wishes


def restored(kind: Kind, context: Context, log: Log) -> events.Answer | None:
    """Give the context the state that it goes on from; the answer of an attempt that cannot."""
    try:
        context.restore()
    except REFUSALS as refusal:
        return events.Doubted(refused(refusal), "checkpoint_refused")
    except Exception as error:
        return failure(kind, error, log)
    return None


def handler(kind: Kind, context: Context, wishes: Wishes, log: Log) -> events.Answer:
    """Call the handler, in this thread or process; whatever it does comes back as a value."""

    def value() -> object:
        context.boundary()
        with nearest.within(context):
            return kind.handler(context, context.publication.input)

    return answer(kind, context, wishes, log, value)


def answer(kind: Kind, context: Context, wishes: Wishes, log: Log, value: Callable[[], object]) -> events.Answer:
    """The answer of a handler, where `value` gives what it returned or raises what it raised."""
    answer = _answered(kind, context, wishes, log, value)
    if wishes.asked("wall"):
        return over_the_limit(kind)  # E-S2: the limit comes before what the handler answered
    return answer


def _answered(kind: Kind, context: Context, wishes: Wishes, log: Log, value: Callable[[], object]) -> events.Answer:
    try:
        given = value()
        context.keep_progress()
        return _answer(kind, _completed(context, given), log)
    except (Cancelled, Unwound):
        if context.breaks.broke and wishes.first is None:
            return events.Broke()
        return events.Stopped(wishes.first or "suspend")
    except BaseException as error:
        # A handler may raise anything, and its tool may have been stopped under it; neither ends the worker.
        if wishes.stop.asked:
            return events.Stopped(wishes.first or "suspend")
        if isinstance(error, ConfinementMissing):
            return lacking.confinement(error)
        return failure(kind, error, log)


def _completed(context: Context, value: object) -> object:
    """What the handler answered. One that called `complete` and lost its answer would lose what belongs to it."""
    if inspect.iscoroutine(value):
        value.close()
        raise InvalidInput("result: the handler returned a coroutine that it did not await; await it")
    if context.completion is None or value is context.completion:
        return value
    if value is None:
        return context.completion
    raise InvalidInput("complete: the handler called it and returned something else; return what complete gives")


def over_the_limit(kind: Kind) -> events.Raised:
    """The end of an attempt that took longer than its kind allows."""
    error = WallLimitReached(
        f"the attempt took longer than {kind.wall_limit_s:g} s, the wall_limit_s of {kind}; "
        f"give it more, or let the job do less",
        limit=kind.wall_limit_s,
    )
    return events.Raised(said(error), retryable=kind.retries(error), backoff=kind.backoff)


def _answer(kind: Kind, value: object, log: Log) -> events.Answer:
    match value:
        case answers.Snooze(seconds, reason):
            return events.Snoozed(seconds, reason)
        case answers.GiveUp(reason):
            return events.GaveUp(reason)
        case answers.Doubt(finding):
            return events.Doubted(finding)
        case answers.Completion(result, also):
            return _with(kind, _answer(kind, result, log), also, log)
    try:
        encoded = None if value is None else msgspec.json.encode(value)
        loss = first_loss(msgspec.to_builtins(value), None)
        if loss is not None:
            raise ValueError(loss)
        limits.check_size("result", len(encoded or b""), limits.RESULT_BYTES, "store it and return where it is")
        return events.Returned(encoded)
    except (TypeError, ValueError, RecursionError, TooLarge) as error:
        # Running again would give the same value: one run is enough to know.
        sentence = _of_result(error)
        log.write("error", "result_refused", error=sentence)
        return events.Raised(sentence, retryable=False, backoff=kind.backoff)


def _of_result(error: Exception) -> str:
    """Why a result cannot be kept, as a sentence that begins with its field, once."""
    if isinstance(error, TooLarge):
        return str(error)
    if isinstance(error, UnicodeEncodeError):
        return f"result: it {HALF}; return whole text, or bytes"
    return f"result: {error}"


def _with(kind: Kind, answer: events.Answer, also: Callable[[Any], object] | None, log: Log) -> events.Answer:
    if also is None or not isinstance(answer, events.Returned):
        return answer
    if kind.lookup is not None:
        # After a crash such a job is completed because it is published, and `also` would never be called.
        sentence = f"complete: {kind} has a final publication; write in it what belongs to the result, not in `also`"
        return failure(kind, InvalidInput(sentence, field="also"), log)
    return events.ReturnedAlso(answer.result, also=also)


def failure(kind: Kind, error: BaseException, log: Log) -> events.Raised:
    """The end of an attempt whose handler, or something before it, raised; the traceback goes to the job's log."""
    log.write("error", "handler_failed", traceback="".join(traceback.format_exception(error)))
    retryable = isinstance(error, Exception) and not isinstance(error, InvalidInput) and kind.retries(error)
    return events.Raised(limits.clip(said(error)), retryable=retryable, backoff=kind.backoff)
